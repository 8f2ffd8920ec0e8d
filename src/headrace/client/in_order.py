"""Process records in threads, and commit in order.

    with headrace.Consumer("localhost:9092", group="billing", enable_auto_commit=False) as consumer:
        headrace.InOrder(consumer, work, topics=["orders"], threads=8).run()

The thread that calls `run` polls and commits, `Workers` process. Records of one partition with the same key are
processed one after the other, in their order; others at the same time. What is committed is the offset below which
everything is done, so after a crash records may come again, and none is left out.
"""

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from headrace.client.commits import OffsetAndMetadata
from headrace.client.consumer import Consumer
from headrace.client.consumer_errors import CommitFailedError, WakeupError
from headrace.client.consumer_record import ConsumerRecord
from headrace.client.errors import RebalanceError, WrongStateError
from headrace.client.in_order_work import OwnedPartition, Workers
from headrace.client.topic_partition import TopicPartition

POLL_SECONDS: Final = 0.1  # how often is looked at what is done, and whether to stop, while no records come
LAST_COMMIT_SECONDS: Final = 30.0  # what the last commit waits for a group that rebalances


class InOrder:
    """`work(record)` runs in threads; the thread that calls `run`, once, polls, and commits what is done."""

    def __init__(
        self,
        consumer: Consumer,
        work: Callable[[ConsumerRecord], object],
        *,
        topics: str | Iterable[str] | None = None,
        threads: int = 8,
        max_pending: int = 1000,
        commit_seconds: float = 1.0,
    ) -> None:
        """Subscribe to `topics`; leave them out if partitions are assigned by hand.

        When `max_pending` records were begun since the first that is not done, no more are polled until it is: so that
        many, and those of one poll, may come again after a crash. Raises ValueError if the consumer commits by itself,
        which would not wait for the threads.
        """
        if consumer.commits_automatically:
            raise ValueError("this consumer commits by itself, also what is not done yet: set enable_auto_commit=False")
        self._consumer = consumer
        self._workers = Workers(work, threads)
        self._max_pending = max_pending
        self._commit_seconds = commit_seconds
        self._owned: dict[TopicPartition, OwnedPartition] = {}
        self._is_stopped = False
        if topics is not None:
            consumer.subscribe(topics, on_revoked=self._give_up, on_lost=self._lose)

    def run(self) -> None:
        """Until `stop` or the consumer's `wakeup` is called, or `work` fails: then its exception is raised.

        Whatever ends it: records that are being worked at are waited for, what is done is committed, and the consumer
        stands at the first record of each partition that is not done.
        """
        with self._workers:
            try:
                with suppress(WakeupError):
                    self._poll_on()
            finally:
                self._workers.end(self._owned.values())
                self._commit_at_last()
                self._go_back()
        if self._workers.failure is not None:
            raise self._workers.failure

    def stop(self) -> None:
        """From any thread, `work` included: let `run` end."""
        self._is_stopped = True

    def _poll_on(self) -> None:
        next_commit = time.monotonic() + self._commit_seconds
        while not self._is_stopped and self._workers.failure is None:
            is_held_back = self._hold_back()
            for record in self._consumer.poll(0.0 if is_held_back else POLL_SECONDS):
                self._workers.begin(self._of(record), record)
            if time.monotonic() >= next_commit:
                self._commit()
                next_commit = time.monotonic() + self._commit_seconds

    def _of(self, record: ConsumerRecord) -> OwnedPartition:
        place = TopicPartition(record.topic, record.partition)
        owned = self._owned.get(place)
        if owned is None:
            owned = self._owned[place] = OwnedPartition()
        return owned

    def _hold_back(self) -> bool:
        """If too much is begun: go on polling, so that the group knows that we live, but for no records."""
        if self._has_room():
            self._resume()
            return False
        if running := self._consumer.assignment() - self._consumer.paused():
            with suppress(WrongStateError):  # one of them was lost at this moment
                self._consumer.pause(*running)
        with self._workers.changed:
            self._workers.changed.wait_for(self._has_room, POLL_SECONDS)
        return True

    def _resume(self) -> None:
        if paused := self._consumer.paused():
            with suppress(WrongStateError):  # one of them was lost at this moment
                self._consumer.resume(*paused)

    def _has_room(self) -> bool:
        return sum(len(owned.done) for owned in self._owned.values()) < self._max_pending

    # When partitions go

    def _give_up(self, partitions: list[TopicPartition]) -> None:
        """Wait for what is being worked at, and commit; what was not begun goes to the next owner."""
        self._workers.end(self._owned[place] for place in partitions if place in self._owned)
        self._commit()
        self._forget(partitions)

    def _lose(self, partitions: list[TopicPartition]) -> None:
        """They went to others already, who do all that was not committed."""
        self._workers.drop(self._owned[place] for place in partitions if place in self._owned)
        self._forget(partitions)

    def _forget(self, partitions: Iterable[TopicPartition]) -> None:
        for place in partitions:
            self._owned.pop(place, None)

    # Commits

    def _commit(self) -> bool:
        """Commit what is done; False if the group rebalances, and it is to be tried again."""
        with self._workers.changed:
            offsets = {
                place: OffsetAndMetadata(owned.done.position)
                for place, owned in self._owned.items()
                if owned.done.position is not None and owned.done.position != owned.committed
            }
        if not offsets:
            return True
        try:
            self._consumer.commit(offsets)
        except CommitFailedError:
            return True  # they were lost, of which we shall hear; others do it again
        except RebalanceError:
            return False
        for place, (offset, *_) in offsets.items():
            self._owned[place].committed = offset
        return True

    def _commit_at_last(self) -> None:
        """Take part in a rebalance if there is one: it ends only if we do, and commits are refused meanwhile."""
        deadline = time.monotonic() + LAST_COMMIT_SECONDS
        while not self._commit() and time.monotonic() < deadline:
            with suppress(WakeupError):
                for record in self._consumer.poll(POLL_SECONDS):
                    self._of(record).done.begin(record.offset)  # it came too late, and is not done

    def _go_back(self) -> None:
        """Records that were polled and not done are to come again, if somebody goes on with this consumer."""
        for place, owned in self._owned.items():
            if owned.done.next is not None:
                with suppress(WrongStateError):
                    self._consumer.seek(place, owned.done.next)
        self._resume()
