"""The same plan over a bounded part of its topics, as a batch: what it would write is handed on to somebody else.

A batch is like one micro-batch that has everything, after which every window is closed: of the changes of a table's row
only the last is seen. Topics between two queries are tables of Spark's. Neither checkpoints nor groups are touched.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headrace.client import background
from headrace.client.admin import AsyncAdmin
from headrace.client.topic_partition import TopicPartition
from headrace.spark.datasource import NAME
from headrace.spark.spark_session import session
from headrace.streams.compiler.running import compiled_queries, own_session
from headrace.streams.compiler.topics import ClusterTopics
from headrace.streams.errors import PlanError
from headrace.streams.feeding import Record
from headrace.streams.plan import Plan, Source
from headrace.streams.queries import Query, cut
from headrace.streams.ranges import Target, places
from headrace.streams.rewrites import rewrite
from headrace.streams.runnable import check_runnable
from headrace.streams.shapes import Kind
from headrace.streams.starting import offsets_to_json, read_topics

_PARTITIONS: Final = "spark.sql.shuffle.partitions"


class Range(NamedTuple):
    """Offsets, of which `end` is not one any more."""

    start: int
    end: int


Ranges = Mapping[TopicPartition, Range]
Written = Callable[[DataFrame, str], None]  # what a query has written, and its name


class ReplayTopics(ClusterTopics):
    """Reads ranges; `written` gets all records that are not for a topic of the app's own."""

    def __init__(self, bootstrap: str, app: str, ranges: Ranges, queries: Iterable[Query], written: Written) -> None:
        super().__init__(bootstrap, app, exactly_once=True)
        self._ranges = ranges
        self._written = written
        self._internal = {query.name: [str(sink.topic) for sink in query.sinks if sink.internal] for query in queries}
        self._between: dict[str, DataFrame] = {}

    def read_stream(self, spark: SparkSession, source: Source, query: str) -> DataFrame:  # noqa: ARG002
        if source.internal:
            return self._between[source.topics[0]]
        topics = set(read_topics(source, {place.topic for place in self._ranges}))
        ranges = {place: each for place, each in self._ranges.items() if place.topic in topics}
        return (
            spark.read.format(NAME)
            .options(**self._options(source))
            .option("startingOffsets", as_option({place: each.start for place, each in ranges.items()}))
            .option("endingOffsets", as_option({place: each.end for place, each in ranges.items()}))
            .load()
        )

    def write(self, records: DataFrame, batch_id: int, query: str) -> None:  # noqa: ARG002
        for topic in self._internal.get(query, ()):
            # Now, since the micro-batch that it is computed from is let go of.
            self._between[topic] = _as_read(records.where(F.col("topic") == topic)).localCheckpoint()
            records = records.where(F.col("topic") != topic)
        self._written(records, query)


def replay(
    plan: Plan, bootstrap: str, ranges: Ranges, written: Written, *, master: str, spark: SparkSession | None = None
) -> None:
    """`written` is called for each query, in the order in which they read one another. Raises PySparkException."""
    check_runnable(plan)
    queries = cut(rewrite(plan))
    frames = [source.name for query in queries for source in query.sources if source.frame is not None]
    if frames:
        raise PlanError(f"{frames[0]} is a DataFrame, of which no part can be read again: only topics are replayed")
    run_batch(plan, queries, ReplayTopics(bootstrap, plan.app, ranges, queries, written), master=master, spark=spark)


def replayed(
    plan: Plan, bootstrap: str, start: Target, end: Target, *, master: str, spark: SparkSession | None = None
) -> dict[str, list[Record]]:
    """The results by topic, in the memory of this process."""

    async def ranges() -> Ranges:
        async with AsyncAdmin(bootstrap) as admin:
            return await ranges_of(admin, plan, start, end)

    found: dict[str, list[Record]] = {}

    def keep(records: DataFrame, _: str) -> None:
        for topic, record in collected(records):
            found.setdefault(topic, []).append(record)

    replay(plan, bootstrap, background.call(ranges()), keep, master=master, spark=spark)
    return found


def run_batch(
    plan: Plan, queries: tuple[Query, ...], topics: ClusterTopics, *, master: str, spark: SparkSession | None
) -> None:
    base = spark if spark is not None else session(plan.app, master)
    own = own_session(base, plan.partitions or int(base.conf.get(_PARTITIONS) or 1))
    for compiled in compiled_queries(plan, queries, own, topics):
        compiled.write(compiled.stream, 0)


def collected(records: DataFrame) -> list[tuple[str, Record]]:
    """Topics and records, in the memory of this process."""
    return [(row["topic"], _record(row)) for row in records.toArrow().to_pylist()]


def written_to(topic: str, bootstrap: str) -> Written:
    """All results into one topic, those of each query seen at once or not at all."""

    def write(records: DataFrame, query: str) -> None:
        writer = records.drop("topic").write.format(NAME).mode("append").option("topic", topic)
        writer = writer.option("kafka.bootstrap.servers", bootstrap).option("includeHeaders", "true")
        writer.option("app", f"{topic}.replay.{query}").save()

    return write


def _as_read(records: DataFrame) -> DataFrame:
    """Records as they would be read from their topic: the columns of the format "headrace"."""
    return records.select(
        F.col("key").cast("binary"),
        F.col("value").cast("binary"),
        "topic",
        F.lit(0).alias("partition"),
        F.monotonically_increasing_id().alias("offset"),
        "timestamp",
        F.lit(0).alias("timestampType"),
        "headers",
    )


def as_option(offsets: Mapping[TopicPartition, int]) -> str:
    """For `startingOffsets` and `endingOffsets`."""
    return json.dumps(offsets_to_json(offsets))


def _record(row: Mapping[str, Any]) -> Record:
    at: datetime | None = row["timestamp"]
    headers = tuple((header["key"], header["value"]) for header in row["headers"] or ())
    return Record(row["key"], row["value"], datetime.now(UTC) if at is None else at.astimezone(UTC), headers)


async def ranges_of(admin: AsyncAdmin, plan: Plan, start: Target, end: Target) -> dict[TopicPartition, Range]:
    """Of streams what was asked for; of tables everything, as their rows are older than the range. Raises PlanError."""
    partitions = {topic.name: topic.partitions for topic in await admin.list_topics()}
    streams = _partitions(plan, partitions, tables=False)
    firsts, lasts = await places(admin, start, streams), await places(admin, end, streams, at_end=True)
    made = {each: Range(firsts[each].offset, max(firsts[each].offset, lasts[each].offset)) for each in streams}
    tables = [each for each in _partitions(plan, partitions, tables=True) if each not in made]
    befores = await places(admin, Target(), tables)
    ends = await places(admin, Target(time_ms=end.time_ms), tables, at_end=True)
    return made | {each: Range(befores[each].offset, ends[each].offset) for each in tables}


def _partitions(plan: Plan, partitions: Mapping[str, int], *, tables: bool) -> list[TopicPartition]:
    """The partitions of its streams, or of its tables that are kept as state."""
    kind = Kind.TABLE if tables else Kind.STREAM
    sources = [node for node in plan.nodes() if isinstance(node, Source) and node.shape.kind is kind]
    topics = {topic for source in sources for topic in read_topics(source, partitions)}
    return [TopicPartition(topic, number) for topic in sorted(topics) for number in range(partitions[topic])]
