"""The source in Spark beside Spark's own Kafka connector: the same topics, the same session, in turns.

    python -m benchmarks spark_source             4 M records of 100 bytes, and a topic of 10 GB for the memory
    python -m benchmarks spark_source --quick     a tenth of that

Rows go to Spark's sink "noop", which takes every column of every row and keeps nothing. One broker in a process of its
own serves both; topics have one partition or two, which are as many tasks. Rates are by wall time from the start of a
query to its end: planning, and for streams the checkpoint, are in it. CPU time is that of Spark's JVM and its Python
workers, which others on the machine change less. Without Maven the figures stand alone.
"""

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import SparkSession

import headrace
import headrace.arrow
from benchmarks.beside_kafka.competitors import scratch_directory
from benchmarks.beside_spark.jars import connector_version
from benchmarks.beside_spark.session import cpu_seconds, spark_session, worker_peaks_mb
from benchmarks.figures import Figure
from tests.support.broker_process import BrokerProcess

_ROWS_AT_ONCE: Final = 100_000
_KEY_BYTES: Final = 10
_MILLION: Final = 1_000_000
_MB: Final = 1_000_000
_LARGE_VALUE: Final = 1_000
_QUERY_SECONDS: Final = 1_800
_PEER: Final = f"Spark's connector {connector_version()}"


class Effort(NamedTuple):
    records: int
    rounds: int
    large_topic_bytes: int


class Round(NamedTuple):
    rows: int
    seconds: float
    cpu_seconds: float


FULL: Final = Effort(records=4 * _MILLION, rounds=3, large_topic_bytes=10_000 * _MB)
QUICK: Final = Effort(records=400_000, rounds=2, large_topic_bytes=1_000 * _MB)


def run() -> list[Figure]:
    return measure(FULL)


def run_quick() -> list[Figure]:
    return measure(QUICK)


def measure(effort: Effort) -> list[Figure]:
    with scratch_directory() as directory, BrokerProcess(directory) as broker, spark_session() as (spark, is_compared):
        formats = ["headrace", "kafka"] if is_compared else ["headrace"]
        address = broker.bootstrap
        figures = []
        for tasks in (1, 2):
            topic = f"records-{tasks}"
            _fill(address, topic, partitions=tasks, records=effort.records, value_bytes=100 - _KEY_BYTES)
            for kind, query in (("batch", _batch), ("streaming", _streaming)):
                rounds = _in_turns(effort, formats, _query(query, spark, address, topic, directory))
                name = f"{kind} source, {effort.records:,} records of 100 B, {tasks} task{'s' * (tasks > 1)}"
                figures += _figures(name, rounds, is_two=tasks == 2)
        figures.append(_memory(spark, address, effort, directory))
        return figures


def _figures(name: str, rounds: dict[str, list[Round]], *, is_two: bool) -> list[Figure]:
    rates = {key: [each.rows / each.seconds / _MILLION for each in found] for key, found in rounds.items()}
    costs = {key: [each.cpu_seconds / each.rows * _MILLION for each in found] for key, found in rounds.items()}
    ours, peers = rates["headrace"], rates.get("kafka", [])
    figures = [Figure.beside(name, "M rows/s", ours, peers, goal=1.5, peer_name=_PEER)]
    if is_two:
        figures.append(Figure.beside(f"{name}, alone", "M rows/s", ours, [], goal=1.0, is_ratio_goal=False))
    ours, peers = costs["headrace"], costs.get("kafka", [])
    return [*figures, Figure.beside(f"{name}: CPU of a million rows", "s", ours, peers, at_most=True, peer_name=_PEER)]


def _in_turns(effort: Effort, formats: list[str], query: Callable[[str], int]) -> dict[str, list[Round]]:
    """All rounds of each; one round before that warms both up."""
    rounds: dict[str, list[Round]] = {name: [] for name in formats}
    for turn in range(effort.rounds + 1):
        for name in formats:
            started, cpu_before = time.perf_counter(), cpu_seconds()
            rows = query(name)
            seconds = time.perf_counter() - started
            if turn:
                rounds[name].append(Round(rows, seconds, cpu_seconds() - cpu_before))
    return rounds


def _query(
    query: Callable[..., int], spark: SparkSession, address: str, topic: str, directory: Path
) -> Callable[[str], int]:
    return lambda format_name: query(spark, format_name, address, topic, directory / "checkpoint")


def _batch(spark: SparkSession, format_name: str, address: str, topic: str, _: Path) -> int:
    reader = spark.read.format(format_name).options(**_options(address, topic))
    reader.load().write.format("noop").mode("overwrite").save()
    return _records(address, topic)


def _streaming(spark: SparkSession, format_name: str, address: str, topic: str, checkpoint: Path) -> int:
    shutil.rmtree(checkpoint, ignore_errors=True)
    reader = spark.readStream.format(format_name).options(**_options(address, topic), startingOffsets="earliest")
    writer = reader.load().writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(_QUERY_SECONDS), "the query did not end"
    rows = sum(int(progress["numInputRows"]) for progress in query.recentProgress)
    assert rows == _records(address, topic), rows
    return rows


def _options(address: str, topic: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": address, "subscribe": topic}


def _records(address: str, topic: str) -> int:
    with headrace.Admin(address) as admin:
        partitions = admin.describe_topic(topic).partitions
        wanted: dict[headrace.TopicPartition, Any] = {
            headrace.TopicPartition(topic, each.number): "latest" for each in partitions
        }
        return sum(each.offset for each in admin.list_offsets(wanted).values())


def _memory(spark: SparkSession, address: str, effort: Effort, directory: Path) -> Figure:
    """The peak of the largest worker, after all that the session has read, which is a large topic at last."""
    records = effort.large_topic_bytes // (_LARGE_VALUE + _KEY_BYTES)
    _fill(address, "large", partitions=2, records=records, value_bytes=_LARGE_VALUE)
    _batch(spark, "headrace", address, "large", directory)
    name = f"memory of a Python worker, topic of {effort.large_topic_bytes / 1000 / _MB:g} GB"
    return Figure(name, max(worker_peaks_mb()), "MB", goal=300)


def _fill(address: str, topic: str, *, partitions: int, records: int, value_bytes: int) -> None:
    with headrace.Admin(address) as admin:
        admin.create_topic(topic, partitions=partitions)
    with headrace.Producer(address) as producer:
        for first in range(0, records, _ROWS_AT_ONCE):
            rows = range(first, min(first + _ROWS_AT_ONCE, records))
            table = pa.table(
                {
                    "key": [f"{row:0{_KEY_BYTES}d}" for row in rows],
                    "value": [f"{row:0{value_bytes}d}" for row in rows],
                    "partition": pa.array([row % partitions for row in rows], pa.int32()),
                }
            )
            headrace.arrow.write(table, topic, producer)
