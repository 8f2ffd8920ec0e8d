"""What both consumers share: the parts wired, and what the user can ask for. On the client's loop.

    Fetcher ──► Inbox ──► Intake ──► the user           records, and how far the user is (Progress)
    Positions: where to begin in each partition         Leaders: questions to partition leaders
    Commits: offsets of the group                        Membership: which partitions are this consumer's

The loop is that of the client's own thread, for the asyncio consumer, too. So a program that keeps its own loop busy
does not lose its partitions, and fetches go on meanwhile.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from headrace.client import background
from headrace.client.cluster import Cluster
from headrace.client.commits import Commits, OffsetAndMetadata, Offsets, OnCommit
from headrace.client.config import Settings
from headrace.client.consumer_inbox import Inbox
from headrace.client.consumer_intake import Intake
from headrace.client.errors import ClosedError, KafkaError, WrongStateError, error_for
from headrace.client.fetch_leaders import NOT_FOUND, FoundOffset, Leaders
from headrace.client.fetch_positions import Positions
from headrace.client.fetcher import Fetcher
from headrace.client.group_classic import ClassicMembership
from headrace.client.group_consumer import ConsumerMembership
from headrace.client.group_member import GroupMember
from headrace.client.group_membership import Membership
from headrace.client.group_notices import Listeners
from headrace.client.group_rebalances import Rebalances
from headrace.client.group_topics import GroupTopics
from headrace.client.group_watch import UserWatch
from headrace.client.metadata import Metadata
from headrace.client.subscriptions import (
    EARLIEST,
    LATEST,
    NO_EPOCH,
    BrokerPattern,
    PartitionState,
    Place,
    Subscriptions,
)
from headrace.client.topic_partition import TopicPartition
from headrace.protocol.error_codes import ErrorCode

_log: Final = logging.getLogger(__name__)


class ConsumerCore:
    """Made on the loop's thread. `intake` and `inbox` are the user's side, all else is for the loop's thread."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.timeout = settings.seconds("default.api.timeout.ms")
        self._loop = asyncio.get_running_loop()
        self.cluster = Cluster(settings, allow_auto_create=settings.flag("allow.auto.create.topics"))
        self.subscriptions = Subscriptions()
        self.inbox = Inbox(on_room=self._on_room)
        self.intake = Intake(settings, self.inbox)
        self.leaders = Leaders(self.cluster)
        self.commits = Commits(self.cluster, lambda: self.group_member, self._may_commit)
        self.positions = Positions(
            self.cluster,
            self.subscriptions,
            self.inbox,
            self.leaders,
            self.commits.committed if settings.optional_text("group.id") else None,
            on_ready=self._wake_fetcher,
        )
        self.fetcher = Fetcher(
            self.cluster,
            self.subscriptions,
            self.inbox,
            on_out_of_range=self.positions.out_of_range,
            on_new_leader=self.positions.wake,
        )
        self.rebalances = Rebalances(
            self.subscriptions,
            self.inbox,
            self.intake.progress,
            commit=self.commit_done,
            on_changed=self._partitions_changed,
        )
        self.watch = UserWatch(self.inbox, self.intake.progress, settings.seconds("max.poll.interval.ms"))
        self._topics = GroupTopics(self.cluster, self.subscriptions)
        self._membership: Membership | None = None
        self._group_id = settings.optional_text("group.id")
        self.commits_automatically = self._group_id is not None and settings.flag("enable.auto.commit")
        self._committer: asyncio.Task[None] | None = None
        self._committed: dict[TopicPartition, OffsetAndMetadata] = {}  # what was committed automatically
        self.is_closed = False
        self._was_forked = False
        self._closing: asyncio.Task[None] | None = None
        self.cluster.add_listener(self._metadata_came)
        background.until_fork(self)

    def _on_room(self) -> None:
        """From the user's thread."""
        self._loop.call_soon_threadsafe(self.fetcher.wake)

    def _wake_fetcher(self) -> None:
        self.fetcher.wake()
        self.inbox.touch()

    def _wake(self) -> None:
        self.positions.wake()
        self.fetcher.wake()

    def _drop_stale(self) -> None:
        self.inbox.drop_stale()
        self.intake.progress.cut()

    def _may_commit(self, partition: TopicPartition) -> bool:
        return not self.subscriptions.is_by_group or partition in self.subscriptions.partitions

    def _check_open(self) -> None:
        if self.is_closed:
            raise self.closed_error()

    def closed_error(self) -> ClosedError:
        return ClosedError(background.FORKED if self._was_forked else "This consumer is closed.")

    def forked(self) -> None:
        self.is_closed = self._was_forked = self.inbox.is_closed = True

    @property
    def group_member(self) -> GroupMember:
        return GroupMember(self._group_id or "") if self._membership is None else self._membership.identity

    @property
    def is_out(self) -> bool:
        """Whether the group goes on without us until the user polls again."""
        return self._membership is not None and self._membership.is_out

    def came_back(self) -> None:
        """From the user's thread."""
        if self._membership is not None:
            self._loop.call_soon_threadsafe(self._membership.came_back)

    def _metadata_came(self, metadata: Metadata) -> None:
        read = self.subscriptions.topics | {partition.topic for partition in self.subscriptions.partitions}
        for name in read:
            topic = metadata.topics.get(name)
            if topic is not None and topic.error and not topic.error.retriable:
                self.inbox.fail(error_for(topic.error, f"Topic {name!r} cannot be read: {topic.error.meaning}"))
        if self._membership is not None:
            self._membership.topics_changed()
        self._wake()

    # What is read

    async def assign(self, partitions: Iterable[TopicPartition]) -> None:
        self._check_open()
        wanted = list(partitions)
        going = self.subscriptions.partitions.keys() - set(wanted)
        if going and not self.subscriptions.is_by_group:
            await self.commit_done(going)  # no rebalance follows that would do it
        self.subscriptions.assign(wanted)
        self._partitions_changed()
        self._start_committing()

    async def subscribe(self, topics: Collection[str] | re.Pattern[str] | BrokerPattern, listeners: Listeners) -> None:
        """Topics by name, or by a pattern that their whole name matches."""
        self._check_open()
        if self._group_id is None:
            raise WrongStateError("A consumer without a group cannot subscribe: give it a group, or assign partitions.")
        is_by_coordinator = self.settings.text("group.protocol") == "consumer"
        if isinstance(topics, BrokerPattern) and not is_by_coordinator:
            raise WrongStateError('Brokers match patterns only with group_protocol="consumer"; use re.compile(...).')
        if self._membership is None:
            kind = ConsumerMembership if is_by_coordinator else ClassicMembership
            self._membership = kind(self.cluster, self._topics, self.rebalances, self.inbox, self.watch)
        before = self.subscriptions.topics
        if isinstance(topics, BrokerPattern):
            self.subscriptions.subscribe_broker_pattern(topics.text)
        elif isinstance(topics, re.Pattern):
            self.subscriptions.subscribe_pattern(topics)
        else:
            self.subscriptions.subscribe(topics)
        self.cluster.untrack(before - self.subscriptions.topics - {each.topic for each in self.rebalances.owned})
        self.rebalances.listeners = listeners
        self._topics.track()
        self._start_committing()
        self.watch.touch()
        self._membership.start_or_change()

    async def settle(self) -> None:
        """Before the end, or before `unsubscribe`: commit what is done with, and change nothing any more."""
        if self._membership is not None:
            await self._membership.pause()
        await self.commit_done(self.subscriptions.partitions)

    async def unsubscribe(self) -> None:
        """After `settle`."""
        self._check_open()
        await self._leave(is_leaving=True)
        self.subscriptions.unsubscribe()
        self._partitions_changed()

    async def _leave(self, *, is_leaving: bool) -> None:
        membership, self._membership = self._membership, None
        if membership is not None:
            await membership.close(is_leaving=is_leaving)

    def _partitions_changed(self) -> None:
        self._drop_stale()
        self.cluster.track({partition.topic for partition in self.subscriptions.partitions})
        self._wake()

    # Places

    async def seek(self, partition: TopicPartition, offset: int, leader_epoch: int | None = None) -> None:
        self._check_open()
        if offset < 0:
            raise ValueError(f"offset {offset} is below zero; seek_to_end() goes to the end")
        state = self.subscriptions.state(partition)
        state.jump(Place(offset, NO_EPOCH if leader_epoch is None else leader_epoch))
        self._drop_stale()
        self._wake()

    async def seek_to(self, timestamp: int, partitions: Iterable[TopicPartition] | None) -> None:
        """EARLIEST or LATEST; of all partitions if they are left out."""
        self._check_open()
        for partition in list(self.subscriptions.partitions) if partitions is None else partitions:
            self.subscriptions.state(partition).reset(timestamp)
        self._drop_stale()
        self._wake()

    async def pause(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            state = self.subscriptions.state(partition)
            state.is_paused = True
            leftover = self.intake.progress.leftover
            if leftover is not None and leftover.state is state:
                leftover.shorten()  # what an iteration has of it comes again after `resume`
                self.inbox.refetch(state, leftover.position)
        self.fetcher.wake()  # a lane may have rested because of them, and others can be fetched now

    async def resume(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self.subscriptions.state(partition).is_paused = False
        self.inbox.touch()
        self.fetcher.wake()

    async def position(self, partition: TopicPartition, timeout: float | None) -> int:
        self._check_open()
        state = self.subscriptions.state(partition)
        place = await self.positions.position(partition, self._limit(timeout))
        seen = self.intake.progress.position(state) or place
        return seen.offset

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout: float | None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        self._check_open()
        return await self.commits.committed(partitions, self._limit(timeout))

    async def offsets_at(
        self, timestamps: Mapping[TopicPartition, int], timeout: float | None
    ) -> dict[TopicPartition, FoundOffset | None]:
        self._check_open()
        for partition, timestamp in timestamps.items():
            if timestamp < 0:
                raise ValueError(f"the time of {partition} is {timestamp}, which is before 1970")
        found = await self.leaders.offsets(timestamps, self._limit(timeout))
        return {partition: None if each.offset == NOT_FOUND else each for partition, each in found.items()}

    async def edge_offsets(
        self, timestamp: int, partitions: Iterable[TopicPartition], timeout: float | None
    ) -> dict[TopicPartition, int]:
        """EARLIEST or LATEST."""
        self._check_open()
        found = await self.leaders.offsets(dict.fromkeys(partitions, timestamp), self._limit(timeout))
        return {partition: each.offset for partition, each in found.items()}

    async def partitions_of(self, topic: str, timeout: float | None) -> list[TopicPartition]:
        self._check_open()
        found = await self.cluster.topic(topic, timeout=self._limit(timeout))
        return [TopicPartition(topic, number) for number in found.partitions]

    def lag(self, partition: TopicPartition) -> int | None:
        """Records between the position and the end, as the last fetch knew it; None before the first one."""
        state = self.subscriptions.state(partition)
        is_committed = self.settings.text("isolation.level") == "read_committed"
        end = state.last_stable_offset if is_committed else state.high_watermark
        position = self.intake.progress.position(state)
        return None if end is None or position is None else max(0, end - position.offset)

    def _limit(self, timeout: float | None) -> float:
        return self.timeout if timeout is None else timeout

    # Commits

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The position of each partition, as it is committed."""
        return self._offsets(self.intake.progress.position)

    def _offsets(self, place_of: Callable[[PartitionState], Place | None]) -> dict[TopicPartition, OffsetAndMetadata]:
        offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        for partition, state in self.subscriptions.partitions.items():
            place = place_of(state)
            if place is not None:
                offsets[partition] = OffsetAndMetadata(
                    place.offset, None if place.leader_epoch < 0 else place.leader_epoch
                )
        return offsets

    async def commit(self, offsets: Offsets | None, timeout: float | None) -> None:
        self._check_open()
        await self.commits.commit(self.consumed() if offsets is None else offsets, self._limit(timeout))

    async def start_commit(self, offsets: Offsets | None, on_done: OnCommit | None) -> None:
        """Without waiting; `on_done(offsets, error)` is called on the client's thread."""
        self._check_open()
        wanted = self.consumed() if offsets is None else offsets
        future = self.commits.start(wanted, self.timeout)

        def done(_: "asyncio.Future[None]") -> None:
            error = future.exception()
            if error is not None and not isinstance(error, KafkaError):
                raise error
            if on_done is not None:
                on_done(wanted, error)

        future.add_done_callback(done)

    # Automatic commits

    def _start_committing(self) -> None:
        if self.commits_automatically and self._committer is None:
            self._committer = self._loop.create_task(self._keep_committing(), name="headrace-auto-commit")

    async def _keep_committing(self) -> None:
        interval = self.settings.seconds("auto.commit.interval.ms")
        while True:
            await asyncio.sleep(interval)
            await self.commit_done(self.subscriptions.partitions)

    async def commit_done(self, partitions: Collection[TopicPartition]) -> None:
        """Commit up to where everything is done with, if that is automatic. A failure is only noted: it comes again."""
        if not self.commits_automatically:
            return
        done = self._offsets(self.intake.progress.done)
        new = {
            partition: offset
            for partition, offset in done.items()
            if partition in partitions and self._committed.get(partition) != offset and not self._is_gone(partition)
        }
        try:
            await self.commits.commit(new, self.settings.seconds("request.timeout.ms"))
        except KafkaError as error:
            _log.warning("[%s] offsets were not committed: %s", self._group_id, error)
        else:
            self._committed = {partition: offset for partition, offset in done.items() if partition in partitions}

    def _is_gone(self, partition: TopicPartition) -> bool:
        """Whether the cluster has no such partition any more: a rebalance would wait in vain for its commit."""
        topic = self.cluster.metadata.topics.get(partition.topic)
        if topic is None or topic.error:
            return topic is not None and topic.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return partition.partition not in topic.partitions

    # The end

    async def close(self, *, is_leaving: bool = True) -> None:
        """After `settle`. It goes on if nobody waits for it any more: else a member without a user would stay."""
        if self._was_forked:
            return  # all that it has is the parent's
        if self._closing is None:
            self.is_closed = True
            self._closing = self._loop.create_task(self._close(is_leaving=is_leaving), name="headrace-close")
        await asyncio.shield(self._closing)

    async def _close(self, *, is_leaving: bool) -> None:
        if self._committer is not None:
            self._committer.cancel()
            await asyncio.wait([self._committer])
        await self._leave(is_leaving=is_leaving)
        self.subscriptions.set_partitions(())
        await self.positions.close()
        await self.fetcher.close()
        await self.commits.close()
        await self.cluster.close()
        self.inbox.close()


async def make_core(settings: Settings) -> ConsumerCore:
    return ConsumerCore(settings)


def new_core(settings: Settings) -> ConsumerCore:
    """On the client's own thread. Raises ConfigError."""
    return background.call(make_core(settings))


__all__ = ["EARLIEST", "LATEST", "ConsumerCore", "new_core"]
