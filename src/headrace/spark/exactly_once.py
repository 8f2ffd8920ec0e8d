"""One application's way into its topics, exactly once: a transaction for each micro-batch, with the marker in it.

`AppSink` takes the application's transactional id when it is made, so whoever had it before is fenced: a driver that
everybody believed dead cannot write any more. Then, for each micro-batch: ask the log for the marker, skip what is
written, else begin, send the rows of all topics, commit offsets and marker, end. What the marker says is read from the
log each time: it costs a millisecond, and finds out who else commits to the group before it matters.

A broker forgets a transactional id that is not used for transactional.id.expiration.ms, seven days by default, and then
refuses its transactions. So after a pause the sink asks for it again, before it reads the marker. If another driver has
the name by then, it is fenced as before.

A failure ends the query, and Spark runs the micro-batch again when it is started again. So nothing is repeated here;
after a failure the object is of no use any more, and a new one finds out what became of the transaction.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import Any, Final, NamedTuple, TypeAlias

from headrace.client.admin import Admin
from headrace.client.admin_groups import CommittedOffset
from headrace.client.arrow_write import TableWriter
from headrace.client.commits import OffsetAndMetadata
from headrace.client.errors import (
    FencedError,
    KafkaError,
    PartialError,
    TransactionAbortedError,
    UnknownTopicError,
    WrongStateError,
    error_for,
)
from headrace.client.producer import Producer
from headrace.client.producer_core import producer_settings
from headrace.client.topic_partition import TopicPartition
from headrace.protocol.error_codes import ErrorCode
from headrace.spark.markers import (
    Marker,
    is_taken_over,
    last_written,
    marker_group,
    other_ends,
    plain_marker,
    read_markers,
    source_marker,
)
from headrace.spark.sink_options import SinkOptions
from headrace.spark.sink_rows import by_topic

CommitOffsets: TypeAlias = Mapping[TopicPartition, OffsetAndMetadata]

# Less than any broker will forget a name in, and so seldom that a request of some milliseconds is nothing.
PAUSE_SECONDS: Final = 60.0


class MicroBatch(NamedTuple):
    """Which one of which query; `run_id` changes with every start of the query. `ends` is what it reads up to."""

    query_id: str
    run_id: str
    batch_id: int
    ends: Mapping[TopicPartition, int]

    @property
    def marker(self) -> Marker:
        return Marker(self.query_id, self.batch_id)


class AppSink:
    """For one thread at a time."""

    def __init__(
        self, options: SinkOptions, *, is_task: bool = False, now_seconds: Callable[[], float] = time.time
    ) -> None:
        """Takes the name over from whoever has it. Raises KafkaError.

        A task is silent in a micro-batch in which it has no rows, so its markers do not tell who has the name.
        `now_seconds` also counts the time that a computer sleeps, since brokers count it.
        """
        self.options = options
        self._is_alone = not is_task
        self._app = options.name
        self._timeout_ms = transaction_timeout_ms(options)
        self._written: tuple[str, int] | None = None  # run id and batch id of the last one
        self._marked: dict[str, dict[TopicPartition, Marker]] = {}  # by group, what this object has committed
        self._seen: set[TopicPartition] = set()  # partitions of this cluster that were asked for
        self._admin = Admin(config=options.admin())
        self._producer = Producer(config=options.transactional(self._app))
        self._now_seconds = now_seconds
        self._used_at = 0.0  # when the broker has last heard of the name
        try:
            self._ask_for_name()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._producer.close(timeout=0)
        self._admin.close()

    def _ask_for_name(self) -> None:
        with explained(self._app, self._timeout_ms):
            self._producer.init_transactions()
        self._used_at = self._now_seconds()

    def write(self, batch: MicroBatch, pieces: Iterable[Any], *, topic: str | None = None) -> bool:
        """Write the rows of a micro-batch, tables one after the other; False if they are written already.

        `topic` is for the marker, if the rows are written elsewhere.
        """
        self.refuse_second_write(batch)
        if self._now_seconds() - self._used_at > PAUSE_SECONDS:
            self._ask_for_name()
        markers = self._markers(batch)
        is_new = batch.batch_id > last_written(_all(markers), batch.query_id)
        if is_new:
            known = (self.options.topic, topic, *(place.topic for places in markers for place in places))
            self._write(batch, pieces, [each for each in known if each is not None])
        self._written = (batch.run_id, batch.batch_id)
        return is_new

    def has(self, batch: MicroBatch) -> bool:
        """Whether the log has it already."""
        return batch.batch_id <= last_written(_all(self._markers(batch)), batch.query_id)

    def _markers(self, batch: MicroBatch) -> list[dict[TopicPartition, Marker]]:
        """What the log says, by group. Raises FencedError if it says that another query has the name.

        For a moment after a commit Apache Kafka says nothing about a partition that had no offset before, whether what
        it says must be stable or not. We know what we have committed.
        """
        found = []
        for group in (self._app, marker_group(self._app)):
            committed = self._admin.list_group_offsets(group, require_stable=True)
            found.append(self._marked.get(group, {}) | read_markers(committed, group=group))
            if group == self._app:
                self._refuse_other_ends(batch, committed)
        if self._is_alone and is_taken_over(_all(found), batch.query_id, batch.batch_id):
            other = _all(found)[0].query_id
            raise FencedError(
                ErrorCode.PRODUCER_FENCED,
                f"Another query ({other}) writes as application {self._app!r}, and has replaced the marker of this "
                f"one ({batch.query_id}). One app is for one query: stop one of the two, or give them different "
                f"names. If the other is not needed any more, delete the groups {self._app!r} and "
                f"{marker_group(self._app)!r}.",
            )
        return found

    def _refuse_other_ends(self, batch: MicroBatch, committed: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Raises WrongStateError if what was written under the id of this micro-batch is something else."""
        other = other_ends(batch.ends, committed, batch.marker)
        if other:
            place = min(other)
            raise WrongStateError(
                f"Micro-batch {batch.batch_id} reads {place} up to offset {batch.ends[place]}, but application "
                f"{self._app!r} has written up to {committed[place].offset}, with micro-batch {other[place]} of the "
                "same query. So this checkpoint is older than what was written, or a copy of it is in use elsewhere: "
                "rows would be lost, or written twice. Go on with the newest checkpoint of the query; or with a new "
                "one, which starts afresh where startingOffsets says."
            )

    def refuse_second_write(self, batch: MicroBatch) -> None:
        """Raises WrongStateError if this run has written the micro-batch already."""
        if self._written == (batch.run_id, batch.batch_id):
            raise WrongStateError(
                f"Application {self._app!r} has written micro-batch {batch.batch_id} already, in this run: what comes "
                "second would be skipped after a crash. Write all rows at once (union the DataFrames, and let a "
                "column topic say where each row goes), or give each write an app of its own."
            )

    def _write(self, batch: MicroBatch, pieces: Iterable[Any], topics: list[str]) -> None:
        rest = iter(pieces)
        first = next(rest, None)  # Spark computes now: a transaction that is not open yet cannot take too long
        marker = self._marker(batch, topics) if first is None else self._marker_beside(batch, first)
        if marker is None:
            return  # nothing to write, and nothing to remember
        with explained(self._app, self._timeout_ms), self._producer.transaction():
            send(self._producer, chain(() if first is None else (first,), rest), self.options)
            self._producer.send_offsets(*marker)
        self._used_at = self._now_seconds()
        offsets, group = marker
        self._marked.setdefault(group, {}).update(dict.fromkeys(offsets, batch.marker))

    def _marker_beside(self, batch: MicroBatch, rows: Any) -> tuple[CommitOffsets, str]:
        """What is committed with these rows, and the group that it is committed to."""
        topic = self.options.topic or _first_topic(rows)  # which is there by then, or nothing can be sent at all
        return self._source_marker(batch) or (plain_marker(topic, batch.marker), marker_group(self._app))

    def _marker(self, batch: MicroBatch, topics: list[str]) -> tuple[CommitOffsets, str] | None:
        """The same without rows; None if there is no topic yet that could have it."""
        if found := self._source_marker(batch):
            return found
        there = {place.topic for place in self._there([TopicPartition(topic, 0) for topic in topics])}
        topic = next((each for each in topics if each in there), None)
        return None if topic is None else (plain_marker(topic, batch.marker), marker_group(self._app))

    def _source_marker(self, batch: MicroBatch) -> tuple[CommitOffsets, str] | None:
        """None if the micro-batch has read nothing of this cluster: a broker takes no offsets of what it has not."""
        ends = {each: batch.ends[each] for each in self._there(batch.ends)}
        return (source_marker(ends, batch.marker), self._app) if ends else None

    def _there(self, partitions: Collection[TopicPartition]) -> list[TopicPartition]:
        """Those that this cluster has: a query may read from another one, or a topic may be deleted by now."""
        unknown = {each.topic for each in partitions if each not in self._seen}
        if unknown:
            self._seen |= partitions_of(self._admin, unknown)
        return [each for each in partitions if each in self._seen]


def _all(markers: Iterable[Mapping[TopicPartition, Marker]]) -> list[Marker]:
    return [marker for places in markers for marker in places.values()]


def partitions_of(admin: Admin, topics: Iterable[str]) -> set[TopicPartition]:
    """Of those topics that there are. Raises KafkaError."""
    try:
        found = admin.describe_topics(topics)
    except UnknownTopicError:
        return set()
    except PartialError as error:
        others = [each for each in error.errors.values() if not isinstance(each, UnknownTopicError)]
        if others:
            raise others[0] from None
        found = error.results
    return {TopicPartition(each.name, part.number) for each in found.values() for part in each.partitions}


def _first_topic(rows: Any) -> str:
    return next(iter(by_topic(rows, None)))[0]


def send(producer: Producer, pieces: Iterable[Any], options: SinkOptions) -> int:
    """Send tables, and wait until they are delivered; how many rows. Raises KafkaError."""
    writer = TableWriter(producer)
    count = 0
    for rows in pieces:
        for topic, records in by_topic(rows, options.topic, with_headers=options.with_headers):
            writer.add(records, topic)
            count += records.num_rows
    writer.finish()
    return count


def transaction_timeout_ms(options: SinkOptions) -> int:
    return producer_settings(None, options.transactional(options.name), {}).number("transaction.timeout.ms")


@contextmanager
def explained(app: str, timeout_ms: int) -> Iterator[None]:
    """What goes wrong inside, in the words of somebody who runs a query. Raises KafkaError."""
    began = time.monotonic()
    try:
        yield
    except KafkaError as error:
        took_ms = (time.monotonic() - began) * 1000
        if error.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT:
            raise error_for(
                error.code,
                f"The broker does not allow transactions of {timeout_ms} ms: lower kafka.transaction.timeout.ms, or "
                "raise the broker's transaction.max.timeout.ms.",
            ) from error
        if took_ms >= timeout_ms:
            raise TransactionAbortedError(
                ErrorCode.TRANSACTION_ABORTABLE,
                f"The transaction of application {app!r} took {took_ms / 1000:.1f} s, longer than "
                f"transaction.timeout.ms ({timeout_ms} ms), so the broker has aborted it: nothing of it will be seen. "
                "Raise kafka.transaction.timeout.ms (and the broker's transaction.max.timeout.ms), make micro-batches "
                "smaller (maxOffsetsPerTrigger), or spread the output over transactions='tasks'.",
            ) from error
        if isinstance(error, FencedError):
            raise FencedError(
                error.code,
                f"Another driver has begun with the application name {app!r}, and this one is fenced: it must stop. "
                "What it had not committed will not be seen. One app is for one query that runs once: stop one of "
                "the two, or give them different names.",
            ) from error
        raise
