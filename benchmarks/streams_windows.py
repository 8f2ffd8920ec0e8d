"""A windowed count by key as a pipeline over a topic, beside the same pipeline over files that Spark reads itself.

    python -m benchmarks streams_windows             2 M records of 1 M keys, and three sizes of one pipeline
    python -m benchmarks streams_windows --quick     a tenth of that

Both sides are one plan, compiled alike: decode JSON, count per key and minute, encode. Only the source differs: a topic
of a broker in a process of its own, or Parquet files with the same records. What comes out goes to Spark's sink "noop".
"""

import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import headrace
import headrace.arrow
from benchmarks.beside_kafka.competitors import scratch_directory
from benchmarks.beside_spark.session import cpu_seconds, spark_session
from benchmarks.figures import Figure
from headrace.spark.source_schema import arrow_schema, spark_schema
from headrace.streams import App, Json, tumbling
from headrace.streams.compiler.running import compiled_queries, own_session, started
from headrace.streams.compiler.topics import ClusterTopics
from headrace.streams.plan import Plan, Source
from headrace.streams.queries import cut
from headrace.streams.rewrites import rewrite
from tests.support.broker_process import BrokerProcess

_PARTITIONS: Final = 2
_MILLION: Final = 1_000_000
_ROWS_AT_ONCE: Final = 100_000
_START_MS: Final = 1_767_225_600_000
_RECORDS_PER_MINUTE: Final = 500_000
_QUERY_SECONDS: Final = 1_800
_PEER: Final = "Spark's Parquet source"


class Effort(NamedTuple):
    records: int
    keys: int
    rounds: int


class Round(NamedTuple):
    rows_per_second: float
    cpu_seconds_per_million: float
    state_rows: int
    state_mb: float


FULL: Final = Effort(records=2 * _MILLION, keys=_MILLION, rounds=3)
QUICK: Final = Effort(records=200_000, keys=100_000, rounds=2)


def run() -> list[Figure]:
    return measure(FULL)


def run_quick() -> list[Figure]:
    return measure(QUICK)


def measure(effort: Effort) -> list[Figure]:
    with scratch_directory() as directory, BrokerProcess(directory) as broker, spark_session() as (spark, _):
        bench = _Bench(spark, broker.bootstrap, directory)
        return [*_beside_parquet(bench, effort), *_growth(bench, effort)]


def _beside_parquet(bench: "_Bench", effort: Effort) -> list[Figure]:
    bench.fill("events", effort.records, effort.keys)
    ours, peers = [], []
    for turn in range(effort.rounds + 1):
        rounds = bench.run("events", from_files=False), bench.run("events", from_files=True)
        if turn:  # the first one warms both up
            ours.append(rounds[0].rows_per_second)
            peers.append(rounds[1].rows_per_second)
    name = f"windowed count by key, {effort.records:,} records, {effort.keys:,} keys"
    return [Figure.beside(name, "rows/s", ours, peers, goal=0.8, peer_name=_PEER)]


def _growth(bench: "_Bench", effort: Effort) -> list[Figure]:
    """What a record costs when there are 1, 10 and 100 times as many of them, and of keys."""
    figures = []
    for times in (1, 10, 100):
        records, keys = effort.records * times // 100, effort.keys * times // 100
        topic = f"times-{times}"
        bench.fill(topic, records, keys)
        found = bench.run(topic, from_files=False)
        note = f"{found.state_rows:,} rows of state, {found.state_mb:.0f} MB"
        name = f"the same pipeline, {records:,} records, {keys:,} keys: CPU of a million records"
        figures.append(Figure(name, found.cpu_seconds_per_million, "s", note=note))
    return figures


class _Bench:
    """One session, one broker, and topics which are there as files, too."""

    def __init__(self, spark: SparkSession, address: str, directory: Path) -> None:
        self._spark = own_session(spark, _PARTITIONS)
        self._address = address
        self._directory = directory
        self._runs = count()

    def fill(self, topic: str, records: int, keys: int) -> None:
        (self._directory / topic).mkdir()
        with headrace.Admin(self._address) as admin:
            admin.create_topic(topic, partitions=_PARTITIONS)
        with headrace.Producer(self._address) as producer:
            for number, table in enumerate(_events(records, keys)):
                headrace.arrow.write(table, topic, producer)
                pq.write_table(_as_source(table, topic), self._directory / topic / f"{number:05d}.parquet")

    def run(self, topic: str, *, from_files: bool) -> Round:
        """Work off all of a topic, or of its files, with a new checkpoint."""
        plan = _plan(topic)
        topics = _Files(self._directory) if from_files else _Topics(self._address, plan.app, exactly_once=True)
        (compiled,) = compiled_queries(plan, cut(rewrite(plan)), self._spark, topics)
        before, cpu_before = time.perf_counter(), cpu_seconds()
        query = started(compiled, str(self._directory / f"state-{next(self._runs)}"), {"availableNow": True})
        assert query.awaitTermination(_QUERY_SECONDS), "the query did not end"
        seconds, cpu = time.perf_counter() - before, cpu_seconds() - cpu_before
        progress: list[Any] = query.recentProgress
        rows = sum(each["numInputRows"] for each in progress)
        (state,) = progress[-1]["stateOperators"]
        return Round(
            rows / seconds, cpu / rows * _MILLION, int(state["numRowsTotal"]), int(state["memoryUsedBytes"]) / 1e6
        )


class _Topics(ClusterTopics):
    def write(self, records: DataFrame, batch_id: int, query: str) -> None:  # noqa: ARG002
        _take(records)


class _Files:
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def read_stream(self, spark: SparkSession, source: Source, query: str) -> DataFrame:  # noqa: ARG002
        reader = spark.readStream.schema(spark_schema(with_headers=True)).option("maxFilesPerTrigger", _MILLION)
        return reader.parquet(str(self._directory / source.topics[0]))

    def read_table(self, spark: SparkSession, source: Source) -> DataFrame:
        raise NotImplementedError((spark, source))

    def write(self, records: DataFrame, batch_id: int, query: str) -> None:  # noqa: ARG002
        _take(records)


def _take(records: DataFrame) -> None:
    records.write.format("noop").mode("overwrite").save()


def _plan(topic: str) -> Plan:
    app = App(f"count-{topic}", "nowhere:1", grace="1m")
    events = app.stream(topic, value=Json("user string, n long"))
    events.group_by("user").windowed(tumbling("1m")).count("events", name="per-minute").to("out")
    return app.plan


def _events(records: int, keys: int) -> Iterator[pa.Table]:
    """In the order of time; keys are drawn at random, and always the same ones."""
    random = np.random.default_rng(1)
    for first in range(0, records, _ROWS_AT_ONCE):
        size = min(_ROWS_AT_ONCE, records - first)
        users = random.integers(0, keys, size)
        times = _START_MS + np.arange(first, first + size) * 60_000 // _RECORDS_PER_MINUTE
        yield pa.table(
            {
                "key": [b"%d" % user for user in users],
                "value": [b'{"user":"u%07d","n":%d}' % (user, number) for number, user in enumerate(users, first)],
                "partition": pa.array(users % _PARTITIONS, pa.int32()),
                "timestamp": pa.array(times, pa.timestamp("ms", "UTC")),
            }
        )


def _as_source(table: pa.Table, topic: str) -> pa.Table:
    """The records as the source gives them."""
    schema = arrow_schema(with_headers=True)
    given = {
        "key": table["key"],
        "value": table["value"],
        "topic": pa.array([topic] * len(table)),
        "partition": table["partition"],
        "offset": pa.array(range(len(table)), pa.int64()),
        "timestamp": table["timestamp"],
        "timestampType": pa.array([0] * len(table), pa.int32()),
        "headers": pa.nulls(len(table), schema.field("headers").type),
    }
    return pa.table({field.name: given[field.name].cast(field.type) for field in schema}, schema=schema)
