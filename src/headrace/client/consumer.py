"""The consumer: records of topics, one by one or many at a time.

    with headrace.Consumer("localhost:9092", group="billing", topics=["orders"]) as consumer:
        for record in consumer:
            print(record.offset, record.value)

Members of a group share the partitions of its topics, and what was processed is committed: by itself every
auto.commit.interval.ms, or by `commit()`. Records are fetched ahead, and heartbeats are sent, on the client's own
thread, however long the program takes for a record.

`headrace.aio.Consumer` is the same for asyncio.
"""

import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from types import TracebackType
from typing import Any, Self

from headrace.client import background
from headrace.client.commits import OffsetAndMetadata, OnCommit
from headrace.client.consumer_calls import as_offsets, as_times, as_topics
from headrace.client.consumer_core import EARLIEST, LATEST, new_core
from headrace.client.consumer_errors import WakeupError
from headrace.client.consumer_record import ConsumerRecord
from headrace.client.consumer_settings import consumer_settings
from headrace.client.fetch_leaders import FoundOffset
from headrace.client.group_member import GroupMember
from headrace.client.group_notices import Kind, Listener, Listeners, RebalanceNotice
from headrace.client.subscriptions import BrokerPattern
from headrace.client.topic_partition import TopicPartition, as_partition, as_partitions


class Consumer:
    """For plain programs, and for one thread at a time; only `wakeup` may come from another."""

    def __init__(
        self,
        bootstrap: str | Sequence[str] | None = None,
        *,
        group: str | None = None,
        topics: str | Iterable[str] | None = None,
        config: Mapping[str, Any] | None = None,
        **configs: Any,
    ) -> None:
        """`bootstrap` is host:port of some brokers; configs are Kafka's, by keyword or in a dict with dots.

        `group` is short for group_id, and `topics` are subscribed to at once. Raises ConfigError.
        """
        self._core = new_core(consumer_settings(bootstrap, config, configs, group))
        self._inbox = self._core.inbox
        self._intake = self._core.intake
        self._watch = self._core.watch
        self._max_poll_records = self._core.settings.number("max.poll.records")
        self._listeners = Listeners()
        if topics is not None:
            self.subscribe(topics)

    # Records

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Records for ever, until the consumer is closed or `wakeup` is called."""
        return chain.from_iterable(self._portions())

    def _portions(self) -> Iterator[Iterator[ConsumerRecord]]:
        while True:
            self._come_by()
            handed = None
            while handed is None:
                seen = self._inbox.changes
                self._attend()
                handed = self._intake.take_one_by_one(self._max_poll_records)
                if handed is None:
                    self._wait(seen, None)
            assert handed.iterator is not None
            yield handed.iterator

    def poll(self, timeout: float = 0.0, max_records: int | None = None) -> list[ConsumerRecord]:
        """Records as soon as there are some, at most max.poll.records; none if none come within `timeout` seconds.

        Those of the poll before count as processed from now on. Raises KafkaError, WakeupError.
        """
        limit = self._max_poll_records if max_records is None else max_records
        deadline = time.monotonic() + timeout
        self._come_by()
        while True:
            seen = self._inbox.changes
            self._attend()
            records = self._intake.take(limit)
            if records or not self._wait(seen, deadline):
                return records

    def _come_by(self) -> None:
        """The user asks for more: it is there, and what it had is done with."""
        self._watch.touch()
        self._intake.finish()
        if self._core.is_out:
            self._core.came_back()

    def _attend(self) -> None:
        """What comes before records: a wake-up, a rebalance to hear of, an error."""
        if self._inbox.is_closed:
            raise self._core.closed_error()
        if self._inbox.take_wakeup():
            raise WakeupError
        while (notice := self._inbox.take_notice()) is not None:
            self._hear_of(notice)
        if (error := self._inbox.take_error()) is not None:
            raise error

    def _hear_of(self, notice: RebalanceNotice) -> None:
        if notice.is_void:
            return
        try:
            background.call(self._core.rebalances.prepare(notice))
        except BaseException:
            self._inbox.return_notice(notice)
            raise
        try:
            if notice.listener is not None:
                notice.listener(notice.partitions)
        finally:
            background.run_soon(notice.acknowledge)

    def _wait(self, seen: int, deadline: float | None) -> bool:
        """Until something has come since `seen`, or it is time to look for an interrupt; False if the time is over."""
        left = background.INTERRUPT_SECONDS if deadline is None else deadline - time.monotonic()
        if deadline is not None and left <= 0:
            return False
        arrived = threading.Lock()
        arrived.acquire()
        if not self._inbox.when_ready(arrived.release, seen=seen):
            return True
        if arrived.acquire(timeout=left):
            return True
        self._inbox.stop_waiting()
        return False

    def wakeup(self) -> None:
        """From any thread: let `poll`, or the iteration, raise WakeupError; the next one if none waits."""
        self._inbox.wakeup()

    # What is read

    def subscribe(
        self,
        topics: str | Iterable[str] | re.Pattern[str] | BrokerPattern,
        *,
        on_assigned: Listener | None = None,
        on_revoked: Listener | None = None,
        on_lost: Listener | None = None,
    ) -> None:
        """Share the partitions of these topics with the other members of the group; instead of what was subscribed to.

        `topics` are names, or a regular expression (`re.compile("orders-.*")`) that whole names match; as a
        `BrokerPattern` it is matched by the broker. The listeners are called with a list of partitions inside `poll` or
        the iteration: before records of new partitions come; before partitions are given up, in time to commit; and
        when they were lost to others already (`on_revoked` if there is no `on_lost`).
        """
        self._listeners = Listeners(on_assigned, on_revoked, on_lost)
        background.call(self._core.subscribe(as_topics(topics), self._listeners))

    def subscription(self) -> set[str]:
        """The topics that are subscribed to; of a pattern, those that match."""
        return set(self._core.subscriptions.topics)

    @property
    def group_member(self) -> GroupMember:
        """Who this is in its group, for `producer.send_offsets`."""
        return self._core.group_member

    def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> None:
        """Read these partitions and no others; the group, if there is one, only keeps offsets."""
        background.call(self._core.assign(as_partitions(partitions)))

    def unsubscribe(self) -> None:
        """Leave the group, and read nothing."""
        self._intake.finish()
        self._settle()
        background.call(self._core.unsubscribe())

    def _settle(self) -> None:
        """Commit what is done with, if that is automatic, and say that the partitions are given up."""
        background.call(self._core.settle())
        owned = self._core.rebalances.owned if self._core.subscriptions.is_by_group else set()
        if owned and (listener := self._listeners.of(Kind.REVOKED)) is not None:
            listener(sorted(owned))

    def assignment(self) -> set[TopicPartition]:
        """The partitions that are read here at the moment."""
        return set(self._core.subscriptions.partitions)

    def partitions(self, topic: str, timeout: float | None = None) -> list[TopicPartition]:
        """The partitions of a topic."""
        return background.call(self._core.partitions_of(topic, timeout))

    # Places

    def seek(self, partition: TopicPartition, offset: int, leader_epoch: int | None = None) -> None:
        """Go on at this offset."""
        background.call(self._core.seek(as_partition(partition), offset, leader_epoch))

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Of these partitions, or of all."""
        background.call(self._core.seek_to(EARLIEST, as_partitions(partitions) or None))

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Of these partitions, or of all."""
        background.call(self._core.seek_to(LATEST, as_partitions(partitions) or None))

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions until `resume`."""
        background.call(self._core.pause(as_partitions(partitions)))

    def resume(self, *partitions: TopicPartition) -> None:
        background.call(self._core.resume(as_partitions(partitions)))

    def paused(self) -> set[TopicPartition]:
        return {partition for partition, state in self._core.subscriptions.partitions.items() if state.is_paused}

    def position(self, partition: TopicPartition, timeout: float | None = None) -> int:
        """The next offset that is handed out."""
        return background.call(self._core.position(as_partition(partition), timeout))

    def committed(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed; None where it has nothing."""
        return background.call(self._core.committed(as_partitions(partitions), timeout))

    def lag(self, partition: TopicPartition) -> int | None:
        """How many records the position is behind the end, as far as the last fetch knew; None before it."""
        return self._core.lag(as_partition(partition))

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each log."""
        return background.call(self._core.edge_offsets(EARLIEST, as_partitions(partitions), timeout))

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset that the next record of each log will get; under read_committed, of the first open transaction."""
        return background.call(self._core.edge_offsets(LATEST, as_partitions(partitions), timeout))

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout: float | None = None
    ) -> dict[TopicPartition, FoundOffset | None]:
        """The first record at or after a time in milliseconds; None where there is none."""
        return background.call(self._core.offsets_at(as_times(timestamps), timeout))

    # Commits

    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None, timeout: float | None = None
    ) -> None:
        """Commit these offsets, or the positions of all partitions, and wait for it. Raises KafkaError.

        An offset is that of the next record to read: one more than that of the last one that was processed.
        """
        background.call(self._core.commit(as_offsets(offsets), timeout))

    @property
    def commits_automatically(self) -> bool:
        """Whether enable.auto.commit is on, and there is a group to commit to."""
        return self._core.commits_automatically

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None,
        on_done: OnCommit | None = None,
    ) -> None:
        """The same without waiting; `on_done(offsets, error)` is called on the client's thread.

        It is tried again where that helps, and never overwrites a later commit.
        """
        background.call(self._core.start_commit(as_offsets(offsets), on_done))

    # The end

    def close(self, *, leave: bool = True) -> None:
        """Commit what was handed out, if that is automatic, leave the group, and stop.

        A member with a group_instance_id does not leave: it may come back until its session is over. With `leave=False`
        no member does.
        """
        self._intake.finish()
        self._close(is_leaving=leave)

    def _close(self, *, is_leaving: bool) -> None:
        try:
            if not self._core.is_closed:
                self._settle()
        finally:
            background.call(self._core.close(is_leaving=is_leaving))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """After an exception, the records that were handed out last do not count as processed: they come again."""
        if kind is None or issubclass(kind, WakeupError):
            self._intake.finish()
        else:
            self._intake.abandon()
        self._close(is_leaving=True)
