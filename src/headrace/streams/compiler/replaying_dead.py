"""Dead letters through the plan again, as a batch: results, what is still dead, and the position in one transaction.

A letter goes only to sinks behind the operator in which it died: the others have got it already.

Only queries without state can be run on dead letters alone: the state is that of the running app, and a count of dead
letters is no count. For others the letters are sent to their topics again, where the app finds them (`resend`).
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headrace.client.admin import Admin
from headrace.client.arrow_read import scan
from headrace.client.arrow_write import TableWriter
from headrace.client.errors import UnknownTopicError
from headrace.client.producer import Producer
from headrace.client.topic_partition import TopicPartition
from headrace.spark.datasource import NAME
from headrace.spark.sink_rows import by_topic
from headrace.streams.compiler.replaying import Range, ReplayTopics, as_option, run_batch
from headrace.streams.dead_letters import (
    APP,
    OFFSET,
    OPERATOR,
    PARTITION,
    PREFIX,
    TOPIC,
    Letter,
    letter_of,
    position_group,
)
from headrace.streams.errors import PlanError
from headrace.streams.plan import Plan, Source, ancestors
from headrace.streams.queries import cut
from headrace.streams.rewrites import rewrite
from headrace.streams.runnable import check_runnable

_HEADERS: Final = "array<struct<key:string,value:binary>>"


class Replayed(NamedTuple):
    """How many letters there were, how many records they have become, and how many of these are dead letters again."""

    letters: int
    records: int
    still_dead: int


class DeadTopics(ReplayTopics):
    """Every source reads its records that have died in an operator, as they were."""

    def __init__(self, bootstrap: str, plan: Plan, ranges: Mapping[TopicPartition, Range], operator: str) -> None:
        super().__init__(bootstrap, plan.app, ranges, (), self._collect)
        self._plan = plan
        self._operator = operator
        self.written: list[Any] = []

    def read_stream(self, spark: SparkSession, source: Source, query: str) -> DataFrame:  # noqa: ARG002
        assert self._plan.dead_letters is not None, self._plan
        letters = (
            spark.read.format(NAME)
            .option("kafka.bootstrap.servers", self._bootstrap)
            .option("kafka.isolation.level", "read_committed")
            .option("includeHeaders", "true")
            .option("subscribe", self._plan.dead_letters)
            .option("startingOffsets", as_option({place: each.start for place, each in self._ranges.items()}))
            .option("endingOffsets", as_option({place: each.end for place, each in self._ranges.items()}))
            .load()
        )
        topic = _said(TOPIC)
        is_of_source = topic.rlike(f"^({source.pattern})$") if source.pattern else topic.isin(*source.topics)
        is_of_operator = (_said(APP) == self._plan.app) & (_said(OPERATOR) == self._operator)
        return letters.where(is_of_operator & is_of_source).select(
            "key",
            "value",
            topic.alias("topic"),
            _said(PARTITION).cast("int").alias("partition"),
            _said(OFFSET).cast("bigint").alias("offset"),
            "timestamp",
            "timestampType",
            F.filter("headers", lambda header: ~header["key"].startswith(PREFIX)).cast(_HEADERS).alias("headers"),
        )

    def _collect(self, records: DataFrame, query: str) -> None:  # noqa: ARG002
        self.written.append(records.toArrow())


def replay_dead(plan: Plan, bootstrap: str, *, master: str, spark: SparkSession | None = None) -> Replayed:
    """Those since the last time. Raises PlanError if the plan keeps state, KafkaError, PySparkException."""
    check_replayable(plan)
    check_runnable(plan)
    with _alone(plan.app, bootstrap) as producer:
        waiting = waiting_letters(plan, bootstrap)
        operators = Counter(letter.operator for letter in letters(plan, bootstrap, waiting))
        made: list[Any] = []
        for operator in sorted(operators):
            part = behind(plan, operator)
            topics = DeadTopics(bootstrap, part, waiting, operator)
            run_batch(part, cut(part), topics, master=master, spark=spark)
            made += topics.written
        if not made:
            return Replayed(0, 0, 0)
        written = pa.concat_tables(made)
        with producer.transaction():
            writer = TableWriter(producer)
            for topic, records in by_topic(written, None):
                writer.add(records, topic)
            writer.finish()
            _commit(producer, plan.app, waiting)
    dead = written.column("topic").to_pylist().count(plan.dead_letters)
    return Replayed(operators.total(), written.num_rows, dead)


def resend(plan: Plan, bootstrap: str) -> Replayed:
    """Send them to their topics again, partition by partition, as they were. Raises PlanError, KafkaError."""
    sent = 0
    with _alone(plan.app, bootstrap) as producer:
        waiting = waiting_letters(plan, bootstrap)
        if not any(each.start < each.end for each in waiting.values()):
            return Replayed(0, 0, 0)
        with producer.transaction():
            for letter in letters(plan, bootstrap, waiting):
                producer.send(
                    letter.topic,
                    letter.value,
                    letter.key,
                    headers=list(letter.headers),
                    partition=letter.partition,
                    timestamp=letter.timestamp_ms,
                )
                sent += 1
            _commit(producer, plan.app, waiting)
    return Replayed(sent, sent, 0)


@contextmanager
def _alone(app: str, bootstrap: str) -> Iterator[Producer]:
    """Whoever replays at the same time is fenced, before the position is read: so no letter is taken twice."""
    with Producer(bootstrap, transactional_id=position_group(app)) as producer:
        producer.init_transactions()
        yield producer


def behind(plan: Plan, operator: str) -> Plan:
    """The part of a plan that an operator has a say in; all of it, if there is no such operator any more."""
    whole = rewrite(plan)
    sinks = tuple(sink for sink in whole.sinks if any(node.name == operator for node in ancestors(sink)))
    return replace(whole, sinks=sinks or whole.sinks)


def letters(plan: Plan, bootstrap: str, waiting: Mapping[TopicPartition, Range]) -> Iterator[Letter]:
    """Those of this app."""
    starts = {place.partition: each.start for place, each in waiting.items()}
    ends = {place.partition: each.end for place, each in waiting.items()}
    if not waiting:
        return
    for batch in scan(_dead_letters(plan), bootstrap, start=starts, end=ends, isolation="read_committed"):
        for row in batch.to_pylist():
            letter = letter_of(plan.app, row)
            if letter is not None:
                yield letter


def waiting_letters(plan: Plan, bootstrap: str) -> dict[TopicPartition, Range]:
    """The offsets of dead letters that were not replayed yet, of this app and of others."""
    topic, found = _dead_letters(plan), {}
    with Admin(bootstrap) as admin:
        partitions: list[TopicPartition] = []
        with suppress(UnknownTopicError):  # nothing has died yet
            partitions = [TopicPartition(topic, each.number) for each in admin.describe_topic(topic).partitions]
        if partitions:
            firsts = admin.list_offsets(dict.fromkeys(partitions, "earliest"))
            ends = admin.list_offsets(dict.fromkeys(partitions, "latest"), read_committed=True)
            done = admin.list_group_offsets(position_group(plan.app), require_stable=True)
            for each in partitions:
                start = max(firsts[each].offset, done[each].offset if each in done else 0)
                found[each] = Range(start, max(start, ends[each].offset))
    return found


def check_replayable(plan: Plan) -> None:
    _dead_letters(plan)
    stateful = [node.name for node in plan.nodes() if node.stateful]
    if stateful:
        raise PlanError(
            f"app {plan.app!r} keeps state ({', '.join(stateful)}), which dead letters alone would get wrong: send "
            "them to their topics again (--resend), where the app finds them when it runs"
        )


def _dead_letters(plan: Plan) -> str:
    if plan.dead_letters is None:
        raise PlanError(f"app {plan.app!r} has no dead letters: give it dead_letters=, a topic for them")
    return plan.dead_letters


def _commit(producer: Producer, app: str, waiting: Mapping[TopicPartition, Range]) -> None:
    producer.send_offsets({place: each.end for place, each in waiting.items()}, position_group(app))


def _said(header: str) -> Column:
    """The text of a header; of several the last, which is that of the last death."""
    found = F.filter("headers", lambda each: each["key"] == header)
    return F.try_element_at(found, F.lit(-1))["value"].cast("string")
