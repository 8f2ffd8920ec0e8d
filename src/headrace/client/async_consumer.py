"""The consumer for asyncio: `async for record in consumer: ...`.

Its core runs on the client's own thread, as that of the blocking consumer does: a program that keeps its event loop
busy still sends heartbeats. Listeners may be coroutine functions; they run on the program's loop.
"""

import asyncio
import inspect
import re
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

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

Result = TypeVar("Result")


async def _on_client(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run it on the client's loop, and wait for it on ours."""
    return await asyncio.wrap_future(background.submit(coroutine))


class AsyncConsumer:
    """For one task at a time; only `wakeup` may come from elsewhere, any thread included."""

    def __init__(
        self,
        bootstrap: str | Sequence[str] | None = None,
        *,
        group: str | None = None,
        topics: str | Iterable[str] | None = None,
        config: Mapping[str, Any] | None = None,
        **configs: Any,
    ) -> None:
        """As for `headrace.Consumer`; `topics` are subscribed to when it is first used. Raises ConfigError."""
        self._core = new_core(consumer_settings(bootstrap, config, configs, group))
        self._inbox = self._core.inbox
        self._intake = self._core.intake
        self._watch = self._core.watch
        self._max_poll_records = self._core.settings.number("max.poll.records")
        self._listeners = Listeners()
        self._topics = topics  # to be subscribed to

    # Records

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        """Records for ever, until the consumer is closed or `wakeup` is called."""
        while True:
            await self._come_by()
            handed = None
            while handed is None:
                seen = self._inbox.changes
                await self._attend()
                handed = self._intake.take_one_by_one(self._max_poll_records)
                if handed is None:
                    await self._wait(seen, None)
            assert handed.iterator is not None
            for record in handed.iterator:
                yield record
            await asyncio.sleep(0)  # others on this loop have their turn, however much there is to read

    async def poll(self, timeout: float = 0.0, max_records: int | None = None) -> list[ConsumerRecord]:
        """Records as soon as there are some, at most max.poll.records; none if none come within `timeout` seconds.

        Those of the poll before count as processed from now on. Raises KafkaError, WakeupError.
        """
        limit = self._max_poll_records if max_records is None else max_records
        deadline = asyncio.get_running_loop().time() + timeout
        await self._come_by()
        while True:
            seen = self._inbox.changes
            await self._attend()
            records = self._intake.take(limit)
            if records or not await self._wait(seen, deadline):
                return records

    async def _come_by(self) -> None:
        await self._start()
        self._watch.touch()
        self._intake.finish()
        if self._core.is_out:
            self._core.came_back()

    async def _start(self) -> None:
        topics, self._topics = self._topics, None
        if topics is not None:
            await self.subscribe(topics)

    async def _attend(self) -> None:
        """What comes before records: a wake-up, a rebalance to hear of, an error."""
        if self._inbox.is_closed:
            raise self._core.closed_error()
        if self._inbox.take_wakeup():
            raise WakeupError
        while (notice := self._inbox.take_notice()) is not None:
            await self._hear_of(notice)
        if (error := self._inbox.take_error()) is not None:
            raise error

    async def _hear_of(self, notice: RebalanceNotice) -> None:
        if notice.is_void:
            return
        try:
            await _on_client(self._core.rebalances.prepare(notice))
        except BaseException:
            self._inbox.return_notice(notice)
            raise
        try:
            await _call(notice.listener, notice.partitions)
        finally:
            background.run_soon(notice.acknowledge)

    async def _wait(self, seen: int, deadline: float | None) -> bool:
        """Until something has come since `seen`; False if the time is over."""
        loop = asyncio.get_running_loop()
        if deadline is not None and deadline <= loop.time():
            return False
        arrived = asyncio.Event()
        if not self._inbox.when_ready(lambda: loop.call_soon_threadsafe(arrived.set), seen=seen):
            return True
        try:
            async with asyncio.timeout_at(deadline):
                await arrived.wait()
        except TimeoutError:
            return False
        finally:
            self._inbox.stop_waiting()
        return True

    def wakeup(self) -> None:
        """From any thread: let `poll`, or the iteration, raise WakeupError; the next one if none waits."""
        self._inbox.wakeup()

    # What is read

    async def subscribe(
        self,
        topics: str | Iterable[str] | re.Pattern[str] | BrokerPattern,
        *,
        on_assigned: Listener | None = None,
        on_revoked: Listener | None = None,
        on_lost: Listener | None = None,
    ) -> None:
        """As for `headrace.Consumer`; listeners may be coroutine functions."""
        self._topics = None
        self._listeners = Listeners(on_assigned, on_revoked, on_lost)
        await _on_client(self._core.subscribe(as_topics(topics), self._listeners))

    def subscription(self) -> set[str]:
        """The topics that are subscribed to; of a pattern, those that match."""
        return set(self._core.subscriptions.topics)

    @property
    def group_member(self) -> GroupMember:
        """Who this is in its group, for `producer.send_offsets`."""
        return self._core.group_member

    async def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> None:
        """Read these partitions and no others; the group, if there is one, only keeps offsets."""
        await _on_client(self._core.assign(as_partitions(partitions)))

    async def unsubscribe(self) -> None:
        """Leave the group, and read nothing."""
        self._intake.finish()
        await self._settle()
        await _on_client(self._core.unsubscribe())

    async def _settle(self) -> None:
        """Commit what is done with, if that is automatic, and say that the partitions are given up."""
        await _on_client(self._core.settle())
        owned = self._core.rebalances.owned if self._core.subscriptions.is_by_group else set()
        if owned:
            await _call(self._listeners.of(Kind.REVOKED), sorted(owned))

    def assignment(self) -> set[TopicPartition]:
        """The partitions that are read here at the moment."""
        return set(self._core.subscriptions.partitions)

    async def partitions(self, topic: str, timeout: float | None = None) -> list[TopicPartition]:
        """The partitions of a topic."""
        return await _on_client(self._core.partitions_of(topic, timeout))

    # Places

    async def seek(self, partition: TopicPartition, offset: int, leader_epoch: int | None = None) -> None:
        """Go on at this offset."""
        await _on_client(self._core.seek(as_partition(partition), offset, leader_epoch))

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Of these partitions, or of all."""
        await _on_client(self._core.seek_to(EARLIEST, as_partitions(partitions) or None))

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Of these partitions, or of all."""
        await _on_client(self._core.seek_to(LATEST, as_partitions(partitions) or None))

    async def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions until `resume`."""
        await _on_client(self._core.pause(as_partitions(partitions)))

    async def resume(self, *partitions: TopicPartition) -> None:
        await _on_client(self._core.resume(as_partitions(partitions)))

    def paused(self) -> set[TopicPartition]:
        return {partition for partition, state in self._core.subscriptions.partitions.items() if state.is_paused}

    async def position(self, partition: TopicPartition, timeout: float | None = None) -> int:
        """The next offset that is handed out."""
        return await _on_client(self._core.position(as_partition(partition), timeout))

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed; None where it has nothing."""
        return await _on_client(self._core.committed(as_partitions(partitions), timeout))

    def lag(self, partition: TopicPartition) -> int | None:
        """How many records the position is behind the end, as far as the last fetch knew; None before it."""
        return self._core.lag(as_partition(partition))

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each log."""
        return await _on_client(self._core.edge_offsets(EARLIEST, as_partitions(partitions), timeout))

    async def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset that the next record of each log will get; under read_committed, of the first open transaction."""
        return await _on_client(self._core.edge_offsets(LATEST, as_partitions(partitions), timeout))

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout: float | None = None
    ) -> dict[TopicPartition, FoundOffset | None]:
        """The first record at or after a time in milliseconds; None where there is none."""
        return await _on_client(self._core.offsets_at(as_times(timestamps), timeout))

    # Commits

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None, timeout: float | None = None
    ) -> None:
        """Commit these offsets, or the positions of all partitions, and wait for it. Raises KafkaError."""
        await _on_client(self._core.commit(as_offsets(offsets), timeout))

    async def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None,
        on_done: OnCommit | None = None,
    ) -> None:
        """The same without waiting for the broker; `on_done(offsets, error)` is called on the client's thread."""
        await _on_client(self._core.start_commit(as_offsets(offsets), on_done))

    # The end

    async def close(self, *, leave: bool = True) -> None:
        """As for `headrace.Consumer`."""
        self._intake.finish()
        await self._close(is_leaving=leave)

    async def _close(self, *, is_leaving: bool) -> None:
        try:
            if not self._core.is_closed:
                await self._settle()
        finally:
            await _on_client(self._core.close(is_leaving=is_leaving))

    async def __aenter__(self) -> Self:
        await self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """After an exception, the records that were handed out last do not count as processed: they come again."""
        if kind is None or issubclass(kind, WakeupError):
            self._intake.finish()
        else:
            self._intake.abandon()
        await self._close(is_leaving=True)


async def _call(listener: Listener | None, partitions: list[TopicPartition]) -> None:
    if listener is not None:
        heard = listener(partitions)
        if inspect.isawaitable(heard):
            await heard
