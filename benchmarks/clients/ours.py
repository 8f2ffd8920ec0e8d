"""headrace, record by record."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice

from benchmarks.clients import PARTITION, VALUE, WrongCountError, check_size
from headrace import Consumer, Producer


def produce(address: str, topic: str, count: int) -> float:
    with Producer(address) as producer:
        producer.partitions(topic)
        send = producer.send
        last = None
        start = time.perf_counter()
        for _ in range(count):
            last = send(topic, VALUE)
        producer.flush()
        seconds = time.perf_counter() - start
        if last is not None and last.result().offset < count - 1:
            raise WrongCountError(f"the last of {count} records has offset {last.result().offset}")
    return seconds


def consume(address: str, topic: str, count: int) -> float:
    with Consumer(address) as consumer:
        consumer.partitions(topic)
        start = time.perf_counter()
        consumer.assign([(topic, PARTITION)])
        consumer.seek_to_beginning()
        size = 0
        for record in islice(consumer, count):
            size += len(record.value)
        seconds = time.perf_counter() - start
    check_size(size, count)
    return seconds


# For latency.py


def sender(address: str, topic: str) -> tuple[Callable[[bytes], object], Callable[[], object]]:
    """How to send one value at once, and how to end."""
    producer = Producer(address, linger_ms=0)
    producer.partitions(topic)
    return lambda value: producer.send(topic, value), producer.close


def values(address: str, topic: str) -> Iterator[bytes]:
    """Values as they come."""
    with closing(Consumer(address)) as consumer:
        consumer.assign([(topic, PARTITION)])
        consumer.seek_to_beginning()
        for record in consumer:
            yield record.value
