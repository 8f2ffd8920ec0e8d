"""A stream joined with a table, by our operator on buckets of keys, beside Spark's `transformWithState` for each key.

    python -m benchmarks streams_joins             about five minutes, most of them for the peer
    python -m benchmarks streams_joins --quick     a fifth of the rows

Both are Python, in one session on two cores, and get the same files in turns: micro-batches in which one row of ten
changes the table and the others are looked up in it, by keys that are drawn at random. Both have the whole table before
that, and some small micro-batches, in which the JVM compiles what it runs. Rows go to Spark's sink "noop"; on their way
they are counted and added up, and must be the same. The time is that of the whole micro-batch, from the plan to the
commit.
"""

import os
import tempfile
from collections.abc import Iterator
from itertools import count
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from benchmarks.beside_spark.session import cpu_seconds, spark_session, worker_peaks_mb
from benchmarks.figures import Figure
from headrace.streams import App, Json
from headrace.streams.compiler.keyed_joins import joined_with_table
from headrace.streams.compiler.running import own_session
from headrace.streams.plan import TableLookup

_PEER: Final = "transformWithState"
_PEER_GOAL: Final = 10.0
# The same join by a processor in the JVM, measured once on two cores like these: 161,000 rows/s. Ours is to have 0.4 of
# that.
_JVM_ROWS_PER_SECOND: Final = 161_000
_JVM_GOAL: Final = 0.4
_TABLE_SHARE: Final = 0.1
_PARTITIONS: Final = 2
_OBSERVED: Final = "observed"
_WARM_UP: Final = 15
_WARM_UP_ROWS: Final = 2_000
_MILLION: Final = 1_000_000
_SCHEMA: Final = "k string, v bigint, tv double, is_table boolean, _time timestamp, _offset bigint"


class Cost(NamedTuple):
    """Of a micro-batch. CPU time is that of Spark's JVM and its Python workers."""

    seconds: float
    cpu_seconds: float


class Effort(NamedTuple):
    keys: int
    rows: int  # of a micro-batch
    rounds: int


FULL: Final = Effort(keys=100_000, rows=100_000, rounds=3)
QUICK: Final = Effort(keys=20_000, rows=20_000, rounds=2)


def run() -> list[Figure]:
    return measure(FULL)


def run_quick() -> list[Figure]:
    return measure(QUICK)


def measure(effort: Effort) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as directory, spark_session() as (base, _):
        spark = own_session(base, _PARTITIONS)
        ours = Contestant(spark, directory, "ours", _ours)
        peer = Contestant(spark, directory, "peer", _per_key)
        both = (ours, peer)
        rows = Rows(effort)
        for batch in rows.to_warm_up():
            for each in both:
                each.cost(batch)
        costs: dict[str, list[Cost]] = {each.name: [] for each in both}
        for _ in range(effort.rounds):
            batch = rows.batch(effort.rows)
            for each in both:
                costs[each.name].append(each.cost(batch))
        for each in both:
            each.query.stop()
        assert ours.results() == peer.results(), (ours.results(), peer.results())
        return _figures(effort, costs)


def _figures(effort: Effort, costs: dict[str, list[Cost]]) -> list[Figure]:
    name = f"stream-table join, {effort.keys:,} keys, micro-batches of {effort.rows:,} rows"
    rates = {who: [effort.rows / each.seconds for each in found] for who, found in costs.items()}
    cpu = {who: [each.cpu_seconds / effort.rows * _MILLION for each in found] for who, found in costs.items()}
    goal, note = _JVM_GOAL * _JVM_ROWS_PER_SECOND, f"{_JVM_GOAL:g} of what a processor in the JVM did"
    ours, peer = rates["ours"], rates["peer"]
    return [
        Figure.beside(name, "rows/s", ours, peer, goal=_PEER_GOAL, peer_name=_PEER),
        Figure.beside(f"{name}, alone", "rows/s", ours, [], goal=goal, is_ratio_goal=False, note=note),
        Figure.beside(f"{name}: CPU of a million", "s", cpu["ours"], cpu["peer"], at_most=True, peer_name=_PEER),
        Figure("memory of the largest Python worker", max(worker_peaks_mb()), "MB"),
    ]


class Rows:
    """What is fed, the same in each run."""

    def __init__(self, effort: Effort) -> None:
        self._effort = effort
        self._random = np.random.default_rng(1)
        self._next_offset = 0

    def to_warm_up(self) -> Iterator[pa.Table]:
        yield self._made(np.arange(self._effort.keys), np.ones(self._effort.keys, np.bool_))
        for _ in range(_WARM_UP):
            yield self.batch(_WARM_UP_ROWS)
        yield self.batch(self._effort.rows)

    def batch(self, rows: int) -> pa.Table:
        keys = self._random.integers(0, self._effort.keys, rows)
        return self._made(keys, self._random.random(rows) < _TABLE_SHARE)

    def _made(self, keys: Any, is_table: Any) -> pa.Table:
        offsets = np.arange(self._next_offset, self._next_offset + len(keys))
        self._next_offset += len(keys)
        return pa.table(
            {
                "k": pa.array([f"key-{key}" for key in keys.tolist()]),
                "v": pa.array(offsets, mask=is_table),
                "tv": pa.array(offsets / 2, mask=~is_table),
                "is_table": is_table,
                "_time": pa.array(offsets * 1000).cast(pa.timestamp("us", tz="UTC")),
                "_offset": offsets,
            }
        )


class Contestant:
    """A query over a directory of its own, which runs for as long as the session does."""

    def __init__(self, spark: SparkSession, directory: str, name: str, join: Any) -> None:
        self.name = name
        self._spark = spark
        self._input = os.path.join(directory, name, "in")
        self._hidden = os.path.join(directory, name, "hidden")
        self._numbers = count()
        self._sums: list[tuple[int, float]] = []  # how many rows each micro-batch gave, and what they add up to
        os.makedirs(self._input)
        rows = spark.readStream.schema(_SCHEMA).option("recursiveFileLookup", "true").parquet(self._input)
        made = join(rows).observe(_OBSERVED, F.count(F.lit(1)).alias("rows"), F.sum("tv").alias("total"))
        writer = made.writeStream.format("noop").outputMode("append").trigger(processingTime="100 milliseconds")
        self.query: StreamingQuery = writer.option("checkpointLocation", os.path.join(directory, name, "state")).start()

    def cost(self, rows: pa.Table) -> Cost:
        """What a micro-batch of these rows takes."""
        number = str(next(self._numbers))
        hidden = os.path.join(self._hidden, number)
        os.makedirs(hidden)
        for part in range(_PARTITIONS):
            pq.write_table(rows.take(np.arange(part, len(rows), _PARTITIONS)), os.path.join(hidden, f"{part}.parquet"))
        os.rename(hidden, os.path.join(self._input, number))  # both files at once, so that they are one micro-batch
        cpu_before = cpu_seconds()
        self.query.processAllAvailable()
        last: Any = [each for each in self.query.recentProgress if each["numInputRows"]][-1]
        observed = last["observedMetrics"][_OBSERVED]
        self._sums.append((observed["rows"], observed["total"] or 0.0))
        return Cost(float(last["durationMs"]["triggerExecution"]) / 1000, cpu_seconds() - cpu_before)

    def results(self) -> tuple[int, float]:
        return sum(rows for rows, _ in self._sums), sum(total for _, total in self._sums)


def _ours(rows: DataFrame) -> DataFrame:
    """By the operator that a pipeline would run."""
    app = App("benchmark", "nowhere:1")
    stream = app.stream("stream", key="k", value=Json("v long"))
    table = app.table("table", key="k", value=Json("tv double"))
    node = stream.join(table).node
    assert isinstance(node, TableLookup), node
    hidden = rows.withColumns({"_deleted": F.lit(False), "_topic": F.lit("t"), "_partition": F.lit(0)})
    of_stream, of_table = hidden.where("NOT is_table"), hidden.where("is_table")
    return joined_with_table(of_stream, of_table, node, "append")


def _per_key(rows: DataFrame) -> DataFrame:
    """As Spark has it: Python is called for each key of a micro-batch."""
    columns = "k string, v bigint, tv double"
    return rows.groupBy("k").transformWithState(_PerKey(), columns, "Append", "None")


class _PerKey(StatefulProcessor):  # type: ignore[misc]  # untyped in PySpark
    def init(self, handle: Any) -> None:
        self._value = handle.getValueState("value", "tv double")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: ARG002, N802, N803
        current = self._value.get()
        is_changed = False
        for row in sorted(rows, key=lambda row: (row["_time"], not row["is_table"])):
            if row["is_table"]:
                current = (row["tv"],)
                is_changed = True
            elif current is not None:
                yield Row(k=key[0], v=row["v"], tv=current[0])
        if is_changed:
            self._value.update(current)

    def close(self) -> None:
        pass
