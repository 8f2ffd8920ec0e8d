"""Our sink in Spark beside Spark's own Kafka sink, and the way from topic to topic, exactly once.

    python -m benchmarks spark_sink             about three minutes
    python -m benchmarks spark_sink --quick     within a minute and a half

Both sinks write the same rows of 100 bytes from the same files to the same broker, by turns, in one micro-batch each:
ours exactly once, from the driver; Spark's at least once, which is all that it knows. The time is that of the
micro-batch, from the plan to the commit. Latency is that of ten records at a time: from `send` until a reader of
committed data has them from the other topic.
"""

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import quantiles
from typing import Any, Final

import headrace
from benchmarks.beside_kafka.nodes import Headrace, Node
from benchmarks.beside_kafka.topics import create_topic, delete_topic
from benchmarks.beside_spark.session import spark_session
from benchmarks.clients import WrongCountError
from benchmarks.figures import Figure
from headrace.spark import batch_writer

PARTITIONS: Final = 2
SINK_GOAL: Final = 1.0
LATENCY_GOAL_MS: Final = 200
ROWS_AT_ONCE: Final = 10
WARM_UP: Final = 20  # micro-batches before the JVM has compiled what it runs
_QUERY_SECONDS: Final = 300
_SEEN_SECONDS: Final = 60.0
_SPARK: Final = "Spark's sink"


@dataclass(frozen=True, slots=True)
class Effort:
    rounds: int
    rows: int
    batches: int


FULL: Final = Effort(rounds=5, rows=2_000_000, batches=200)
QUICK: Final = Effort(rounds=2, rows=500_000, batches=60)


def run() -> list[Figure]:
    return measure(FULL)


def run_quick() -> list[Figure]:
    return measure(QUICK)


def measure(effort: Effort) -> list[Figure]:
    with (
        tempfile.TemporaryDirectory(prefix="headrace-bench-") as directory,
        Headrace(Path(directory) / "node") as node,
        spark_session() as (spark, has_connector),
    ):
        stage = Stage(node, spark, Path(directory))
        return [_throughput(stage, effort, has_connector=has_connector), *_latency(stage, effort)]


class Stage:
    """The broker, the session, and names that nobody has had."""

    def __init__(self, node: Node, spark: Any, directory: Path) -> None:
        self.node = node
        self.spark = spark
        self.directory = directory
        self._numbers = count()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.node.port}"

    def name(self, word: str) -> str:
        return f"{word}-{next(self._numbers)}"


# Throughput


def _throughput(stage: Stage, effort: Effort, *, has_connector: bool) -> Figure:
    files = str(stage.directory / "rows")
    value = "CAST(RPAD(CAST(id AS STRING), 100, 'x') AS BINARY) AS value"
    stage.spark.range(0, effort.rows, 1, PARTITIONS).selectExpr(value).write.parquet(files)

    def ours(rows: Any, topic: str) -> Any:
        return rows.writeStream.foreachBatch(batch_writer(bootstrap=stage.address, app=topic, topic=topic))

    def spark_s(rows: Any, topic: str) -> Any:
        return rows.writeStream.format("kafka").option("kafka.bootstrap.servers", stage.address).option("topic", topic)

    sinks: dict[str, Callable[[Any, str], Any]] = {"ours": ours} | ({"spark": spark_s} if has_connector else {})
    rates: dict[str, list[float]] = {name: [] for name in sinks}
    for number in range(effort.rounds + 1):
        for name, sink in sinks.items():
            rate = _rate(stage, files, sink, effort.rows)
            if number:  # the first is for the JVM
                rates[name].append(rate)
    return Figure.beside(
        f"sink, exactly once, from the driver, {effort.rows / 1e6:g} M rows of 100 B",
        "rows/s",
        rates["ours"],
        rates.get("spark", []),
        goal=SINK_GOAL,
        note="Spark's is at least once" if has_connector else "Spark's own connector could not be had",
        peer_name=_SPARK,
    )


def _rate(stage: Stage, files: str, sink: Callable[[Any, str], Any], rows: int) -> float:
    topic = stage.name("written")
    create_topic(stage.node, topic, PARTITIONS)
    stream = stage.spark.readStream.schema("value binary").parquet(files)
    writer = sink(stream, topic).option("checkpointLocation", str(stage.directory / topic))
    query = writer.trigger(availableNow=True).start()
    if not query.awaitTermination(_QUERY_SECONDS):
        raise TimeoutError(f"{topic}: the query has not ended within {_QUERY_SECONDS} s")
    (took_ms,) = [int(each["durationMs"]["addBatch"]) for each in query.recentProgress if each["numInputRows"]]
    _check(stage, topic, rows)
    delete_topic(stage.node, topic)
    return rows / took_ms * 1000


def _check(stage: Stage, topic: str, rows: int) -> None:
    """Every row is there; each transaction adds a marker to the partitions that it wrote to."""
    with headrace.Admin(stage.address) as admin:
        places = [headrace.TopicPartition(topic, number) for number in range(PARTITIONS)]
        found = sum(each.offset for each in admin.list_offsets(dict.fromkeys(places, "latest")).values())
    if not rows <= found <= rows + PARTITIONS:
        raise WrongCountError(f"{rows} rows were written to {topic}, and there are {found}")


# Latency


def _latency(stage: Stage, effort: Effort) -> list[Figure]:
    source, topic = stage.name("source"), stage.name("target")
    for name in (source, topic):
        create_topic(stage.node, name, 1)
    rows = (
        stage.spark.readStream.format("headrace")
        .option("kafka.bootstrap.servers", stage.address)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .load()
        .where("value IS NOT NULL")
        .selectExpr("CONCAT(CAST('seen ' AS BINARY), value) AS value")
    )
    writer = rows.writeStream.foreachBatch(batch_writer(bootstrap=stage.address, app=topic, topic=topic))
    query = writer.option("checkpointLocation", str(stage.directory / topic)).start()
    try:
        took_ms = [each * 1000 for each in _round_trips(stage, query, source, topic, effort.batches)]
    finally:
        query.stop()
    steps = quantiles(took_ms, n=100)
    name = f"topic, filter and project, topic, exactly once, {ROWS_AT_ONCE} rows at a time"
    return [
        Figure(f"{name}, p50", steps[49], "ms", LATENCY_GOAL_MS),
        Figure(f"{name}, p95", steps[94], "ms"),
    ]


def _round_trips(stage: Stage, query: Any, source: str, topic: str, batches: int) -> list[float]:
    """Seconds from the first `send` of ten records until all of them are seen."""
    took = []
    with (
        headrace.Producer(stage.address, linger_ms=0) as producer,
        headrace.Consumer(stage.address, isolation_level="read_committed", auto_offset_reset="earliest") as consumer,
    ):
        consumer.assign([headrace.TopicPartition(topic, 0)])
        for number in range(WARM_UP + batches):
            began = time.perf_counter()
            for _ in range(ROWS_AT_ONCE):
                producer.send(source, b"%d" % number)
            producer.flush()
            seen = 0
            while seen < ROWS_AT_ONCE:
                seen += len(consumer.poll(1.0))
                if not query.isActive:
                    raise query.exception()
                if time.perf_counter() - began > _SEEN_SECONDS:
                    raise TimeoutError(f"{seen} of {ROWS_AT_ONCE} rows came within {_SEEN_SECONDS:g} s")
            if number >= WARM_UP:
                took.append(time.perf_counter() - began)
    return took
