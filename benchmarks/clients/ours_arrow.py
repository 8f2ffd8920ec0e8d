"""headrace, as Arrow tables."""

import time

import pyarrow as pa

from benchmarks.clients import VALUE, WrongCountError
from headrace import Producer, arrow


def write(address: str, topic: str, count: int) -> float:
    table = pa.table({"value": pa.array([VALUE] * count, pa.binary())})
    with Producer(address) as producer:
        producer.partitions(topic)
        start = time.perf_counter()
        written = arrow.write(table, topic, producer)
        seconds = time.perf_counter() - start
    if written != count:
        raise WrongCountError(f"{written} of {count} records were written")
    return seconds


def read(address: str, topic: str, count: int) -> float:
    start = time.perf_counter()
    table = arrow.read(topic, address)
    seconds = time.perf_counter() - start
    if table.num_rows != count:
        raise WrongCountError(f"{table.num_rows} of {count} records were read")
    return seconds
