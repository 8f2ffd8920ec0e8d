"""A windowed count by key as a pipeline over a topic, beside the same pipeline over files that Spark reads itself.

    python -m benchmarks streams_windows             2 M records of 1 M keys, about four minutes
    python -m benchmarks streams_windows --quick     a tenth of that

Both sides are one plan, compiled alike: decode JSON, count per key and minute, encode each row that has changed, in
update mode, with the same state store. Only the source differs: a topic of a broker in a process of its own, or Parquet
files which Spark reads in the JVM. The files have the columns that the source gives, and values are JSON in both: typed
columns would be another query, and a topic has none. What comes out goes to Spark's sink "noop".

Of the time, about two thirds are Spark's state store, on both sides: a look and a write for each key and window, and a
micro-batch without records at the end, in which windows that are over are taken out.
"""

import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from benchmarks.beside_kafka.competitors import scratch_directory
from benchmarks.beside_spark.events import BROKER_CONFIGS, PARTITIONS, events, fill
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

_MILLION: Final = 1_000_000
_WARM_UP: Final = 2  # rounds of a tenth of the records, in which the JVM compiles what it runs
_QUERY_SECONDS: Final = 1_800
_PEER: Final = "Spark's Parquet source"


class Effort(NamedTuple):
    records: int
    keys: int
    rounds: int


class Round(NamedTuple):
    """`cpu_seconds_per_million` is that of Spark's JVM and its Python workers. `state_rows` are the most there were."""

    rows_per_second: float
    cpu_seconds_per_million: float
    state_rows: int
    state_mb: float


FULL: Final = Effort(records=2 * _MILLION, keys=_MILLION, rounds=2)
QUICK: Final = Effort(records=200_000, keys=100_000, rounds=2)


def run() -> list[Figure]:
    return measure(FULL)


def run_quick() -> list[Figure]:
    return measure(QUICK)


def measure(effort: Effort) -> list[Figure]:
    with (
        scratch_directory() as directory,
        BrokerProcess(directory, configs=BROKER_CONFIGS) as broker,
        spark_session() as (spark, _),
    ):
        bench = _Bench(spark, broker.bootstrap, directory)
        bench.fill("warm-up", effort.records // 10, effort.keys // 10)
        bench.fill("events", effort.records, effort.keys)
        for _ in range(_WARM_UP):
            bench.both("warm-up")
        return _figures(effort, [bench.both("events") for _ in range(effort.rounds)])


def _figures(effort: Effort, rounds: list[tuple[Round, Round]]) -> list[Figure]:
    ours, peers = zip(*rounds, strict=True)
    assert len({each.state_rows for each in (*ours, *peers)}) == 1, rounds
    name = f"windowed count by key, {effort.records:,} records, {effort.keys:,} keys"
    note = f"{ours[0].state_rows:,} rows of state, {ours[0].state_mb:.0f} MB"
    rates = [[each.rows_per_second for each in side] for side in (ours, peers)]
    costs = [[each.cpu_seconds_per_million for each in side] for side in (ours, peers)]
    return [
        Figure.beside(name, "rows/s", *rates, goal=0.8, peer_name=_PEER, note=note),
        Figure.beside(f"{name}: CPU of a million", "s", *costs, at_most=True, peer_name=_PEER),
    ]


class _Bench:
    """One session, one broker, and topics which are there as files, too."""

    def __init__(self, spark: SparkSession, address: str, directory: Path) -> None:
        self._spark = own_session(spark, PARTITIONS)
        self._address = address
        self._directory = directory
        self._runs = count()

    def fill(self, topic: str, records: int, keys: int) -> None:
        fill(self._address, topic, self._kept_as_files(topic, events(records, keys)))

    def both(self, topic: str) -> tuple[Round, Round]:
        return self.run(topic, from_files=False), self.run(topic, from_files=True)

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
        states = [each["stateOperators"][0] for each in progress if each["stateOperators"]]
        most_rows = max(int(state["numRowsTotal"]) for state in states)
        most_mb = max(int(state["memoryUsedBytes"]) for state in states) / 1e6
        return Round(rows / seconds, cpu / rows * _MILLION, most_rows, most_mb)

    def _kept_as_files(self, topic: str, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        (self._directory / topic).mkdir()
        for number, table in enumerate(tables):
            pq.write_table(_as_source(table, topic), self._directory / topic / f"{number:05d}.parquet")
            yield table


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
    rows = app.stream(topic, value=Json("user string, n long"))
    rows.group_by("user").windowed(tumbling("1m")).count("events", name="per-minute").to("out")
    return app.plan


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
