"""One pipeline over 1, 10 and 100 times as many records and keys: what a record costs, and what its state takes.

    python -m benchmarks streams_growth             up to 2 M records of 1 M keys, about four minutes
    python -m benchmarks streams_growth --quick     a fifth of that, which is too little to judge

Two pipelines, from topic to topic, exactly once: a windowed count, of which Spark keeps the state, and a reduce by a
Python function, of which we do. Each size takes five micro-batches, so that most of them meet the state of those
before, and the same four minutes of event time.

The cost is the CPU time of everything: Spark's JVM and Python workers, the driver and the broker. Starting a query and
five micro-batches cost what they cost even if they are all but empty: that is measured with a hundred records, before
and after the others, told, and taken off. Growth is linear if a record costs with 100 times as many what it costs with
10 times as many, up to a quarter, which is for caches that become too small, and for a machine that is never the same
twice.
"""

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyspark.sql import SparkSession

from benchmarks.beside_kafka.competitors import scratch_directory
from benchmarks.beside_spark.events import BROKER_CONFIGS, PARTITIONS, events, fill
from benchmarks.beside_spark.session import reset_worker_peaks, spark_session, tree_cpu_seconds, worker_peaks_mb
from benchmarks.figures import Figure
from headrace.streams import App, Json, tumbling
from headrace.streams.compiler.running import catch_up
from headrace.streams.progress import AppProgress
from tests.support.broker_process import BrokerProcess

_MILLION: Final = 1_000_000
_MICRO_BATCHES: Final = 5
_RECORDS_PER_KEY: Final = 2
_EMPTY: Final = 100  # records of a run that measures what a query costs by itself
_LINEAR: Final = 1.25  # of the cost of a record with 10 times as many
_ENOUGH: Final = 100_000  # records: what fewer cost is not much more than the noise of what is taken off
_TIMES: Final = (1, 10, 100)


class Cost(NamedTuple):
    """What one run took. `state_rows` are the most that Spark has told of, `state_mb` what its store had in memory
    then, `worker_mb` the peak of the largest Python worker."""

    cpu_seconds: float
    state_rows: int
    state_mb: float
    disk_mb: float
    worker_mb: float


def run() -> list[Figure]:
    return measure(20_000)


def run_quick() -> list[Figure]:
    return measure(4_000)


def measure(records: int) -> list[Figure]:
    """`records` are those of the smallest size."""
    with (
        scratch_directory() as directory,
        BrokerProcess(directory, configs=BROKER_CONFIGS) as broker,
        spark_session() as (spark, _),
    ):
        sizes = [records * times for times in _TIMES]
        for size in (_EMPTY, *sizes):
            fill(broker.bootstrap, _topic(size), events(size, size // _RECORDS_PER_KEY))
        bench = _Bench(spark, broker.bootstrap, directory)
        figures = _growth("windowed count", sizes, bench, _windowed)
        return figures + _growth("reduce in Python", sizes, bench, _reduced)


Pipeline = Callable[[App, str], None]


def _growth(name: str, sizes: list[int], bench: "_Bench", pipeline: Pipeline) -> list[Figure]:
    bench.cost(sizes[1], pipeline)  # in which the JVM compiles what it runs
    before = bench.cost(_EMPTY, pipeline).cpu_seconds
    costs = [bench.cost(size, pipeline) for size in sizes]
    fixed = min(before, bench.cost(_EMPTY, pipeline).cpu_seconds)  # by then the JVM has compiled the rest, too
    start = f"{name}: start and {_MICRO_BATCHES} micro-batches, CPU"
    figures = [Figure(start, fixed, "s", note=f"{_EMPTY} records, {before:.3g} s at first; taken off below")]
    each_million = []
    for size, cost in zip(sizes, costs, strict=True):
        each_million.append((cost.cpu_seconds - fixed) / size * _MILLION)
        title = f"{name}, {size:,} records, {size // _RECORDS_PER_KEY:,} keys: CPU of a million records"
        figures.append(Figure(title, each_million[-1], "s", note=_state_note(cost)))
    goal = _LINEAR if sizes[1] >= _ENOUGH else None
    ratio = each_million[2] / each_million[1]
    return [*figures, Figure(f"{name}: cost of a record, 100 times to 10 times", ratio, "x", goal=goal)]


def _state_note(cost: Cost) -> str:
    return (
        f"state: {cost.state_rows:,} rows and {cost.state_mb:.0f} MB in Spark's store, {cost.disk_mb:.0f} MB of "
        f"checkpoint; largest Python worker {cost.worker_mb:.0f} MB"
    )


class _Bench:
    """One session and one broker, with the topics filled."""

    def __init__(self, spark: SparkSession, address: str, directory: Path) -> None:
        self._spark = spark
        self._address = address
        self._directory = directory
        self._runs = count()

    def cost(self, size: int, pipeline: Pipeline) -> Cost:
        """Work off all of a topic, with an app that was never there before."""
        number = next(self._runs)
        state = self._directory / f"state-{number}"
        app = App(
            f"growth-{number}",
            self._address,
            state=state,
            grace="1m",
            partitions=PARTITIONS,
            max_per_trigger=size // _MICRO_BATCHES,
        )
        pipeline(app, _topic(size))
        seen: list[AppProgress] = []
        reset_worker_peaks()
        cpu_before = tree_cpu_seconds()
        seen.append(catch_up(app.deployment(), self._spark, seen.append))
        cpu = tree_cpu_seconds() - cpu_before
        (last,) = seen[-1].queries
        assert last.rows == size, last
        largest = max((each.queries[0] for each in seen if each.queries), key=lambda each: each.state_rows)
        disk = sum(path.stat().st_size for path in state.rglob("*") if path.is_file())
        return Cost(cpu, largest.state_rows, largest.state_bytes / 1e6, disk / 1e6, max(worker_peaks_mb()))


def _topic(size: int) -> str:
    return f"events-{size}"


def _windowed(app: App, topic: str) -> None:
    rows = app.stream(topic, value=Json("user string, n long"))
    rows.group_by("user").windowed(tumbling("1m")).count("events", name="per-minute").to(f"{app.name}-out")


def _reduced(app: App, topic: str) -> None:
    rows = app.stream(topic, value=Json("user string, n long"))
    rows.group_by("user").reduce(_larger, name="largest").to(f"{app.name}-out")


def _larger(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return one if one["n"] >= other["n"] else other
