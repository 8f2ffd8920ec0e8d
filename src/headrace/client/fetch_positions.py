"""Where to begin: new partitions get their committed offset, or are reset; after a new leader they are checked.

One task works on all partitions that wait for something, as long as there are some. What fails and may pass is tried
again after a pause; other errors are for the user, who sees them at the next poll.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

from headrace.client.backoff import retry_backoff
from headrace.client.cluster import Cluster
from headrace.client.commits import OffsetAndMetadata
from headrace.client.consumer_configs import parse_duration_ms
from headrace.client.consumer_errors import LogTruncationError, NoOffsetError
from headrace.client.consumer_inbox import Inbox
from headrace.client.errors import ClosedError, KafkaError, RebalanceError, RequestTimedOutError
from headrace.client.fetch_leaders import NOT_FOUND, EpochEnd, Leaders
from headrace.client.subscriptions import EARLIEST, LATEST, NO_EPOCH, PartitionState, Place, Stage, Subscriptions
from headrace.client.topic_partition import TopicPartition

Committed = Callable[[Iterable[TopicPartition], float], Awaitable[Mapping[TopicPartition, OffsetAndMetadata | None]]]
_DURATION: Final = "by_duration:"


class Positions:
    """On the client's loop. `committed` asks for the group's offsets; None without a group."""

    def __init__(
        self,
        cluster: Cluster,
        subscriptions: Subscriptions,
        inbox: Inbox,
        leaders: Leaders,
        committed: Committed | None,
        on_ready: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._subscriptions = subscriptions
        self._inbox = inbox
        self._leaders = leaders
        self._committed = committed
        self._on_ready = on_ready
        self._policy = cluster.settings.text("auto.offset.reset")
        self._timeout = cluster.settings.seconds("request.timeout.ms")
        self._backoff = retry_backoff(cluster.settings)
        self._loop = asyncio.get_running_loop()
        self._worker: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._is_closed = False

    def wake(self) -> None:
        """Partitions may wait for something."""
        if self._worker is None and not self._is_closed and self._waiting():
            self._worker = self._loop.create_task(self._work(), name="headrace-positions")
            self._worker.add_done_callback(self._ended)

    def _waiting(self) -> list[PartitionState]:
        return self._subscriptions.find(lambda state: state.stage is not Stage.READY)

    async def position(self, partition: TopicPartition, timeout: float) -> Place:
        """The next offset that the user gets; waited for if it is not known. Raises KafkaError."""
        try:
            async with asyncio.timeout(timeout):
                while True:
                    state = self._subscriptions.state(partition)
                    if state.position is not None and state.stage in (Stage.READY, Stage.CHECKING):
                        return state.position
                    if state.problem is not None:
                        raise state.problem
                    self.wake()
                    await self._changed.wait()
        except TimeoutError:
            raise RequestTimedOutError(f"The position of {partition} was not found within {timeout:g} s.") from None

    def reset_timestamp(self) -> int | None:
        """What auto.offset.reset says now; None if it says that this is an error."""
        if self._policy == "none":
            return None
        if self._policy.startswith(_DURATION):
            ago_ms = parse_duration_ms("auto.offset.reset", self._policy.removeprefix(_DURATION))
            return max(0, time.time_ns() // 1_000_000 - ago_ms)
        return EARLIEST if self._policy == "earliest" else LATEST

    def out_of_range(self, state: PartitionState) -> None:
        """The log does not hold the offset that is read next."""
        timestamp = self.reset_timestamp()
        if timestamp is not None:
            state.reset(timestamp)
            self.wake()
            return
        self._inbox.fail(
            NoOffsetError(
                f"The log of {state.partition} does not hold offset {state.fetch_offset}, and auto_offset_reset is "
                "none. Seek to an offset that it has.",
                state.partition,
            ),
            state,
        )

    # The work

    async def _work(self) -> None:
        while waiting := self._waiting():
            now = self._loop.time()
            due = [state for state in waiting if state.not_before <= now]
            if not due:
                await asyncio.sleep(min(state.not_before for state in waiting) - now)
                continue
            for stage, step in (
                (Stage.UNPOSITIONED, self._begin),
                (Stage.RESET, self._reset),
                (Stage.CHECKING, self._check),
            ):
                states = [state for state in due if state.stage is stage]
                if states:
                    await self._step(states, step)
                    self._tell()  # after each: the next one may have to wait for a leader that is away

    async def _step(
        self, states: list[PartitionState], step: Callable[[list[PartitionState]], Awaitable[None]]
    ) -> None:
        eras = {state.partition: state.era for state in states}
        try:
            await step(states)
        except KafkaError as error:
            if isinstance(error, ClosedError):
                raise
            if not error.retriable and not isinstance(error, RebalanceError):  # after a rebalance it is asked again
                self._inbox.fail(error)
            for state in states:
                if state.era == eras[state.partition]:
                    self._pause(state)

    def _pause(self, state: PartitionState) -> None:
        state.failures += 1
        state.not_before = self._loop.time() + self._backoff.seconds(state.failures)

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        self._on_ready()

    def _ended(self, worker: "asyncio.Task[None]") -> None:
        self._worker = None
        error = None if worker.cancelled() else worker.exception()
        if isinstance(error, Exception) and not isinstance(error, ClosedError):
            self._inbox.fail(error)
        else:
            self.wake()  # something may have come while it ended

    async def _begin(self, states: list[PartitionState]) -> None:
        """At the committed offset; without one as auto.offset.reset says."""
        eras = {state.partition: state.era for state in states}
        found: Mapping[TopicPartition, OffsetAndMetadata | None] = {}
        if self._committed is not None:
            found = await self._committed(eras, self._timeout)
        for state in states:
            if state.era != eras[state.partition]:
                continue  # the user was quicker
            place = found.get(state.partition)
            if place is not None:
                epoch = NO_EPOCH if place.leader_epoch is None else place.leader_epoch
                self._inbox.jump(state, Place(place.offset, epoch))
            else:
                self._reset_or_fail(state)

    def _reset_or_fail(self, state: PartitionState) -> None:
        timestamp = self.reset_timestamp()
        if timestamp is not None:
            state.reset(timestamp)
            return
        state.problem = NoOffsetError(
            f"The group has no committed offset for {state.partition}, and auto_offset_reset is none. Seek to where to "
            "begin, or commit an offset.",
            state.partition,
        )
        self._inbox.fail(state.problem, state)
        self._pause(state)

    async def _reset(self, states: list[PartitionState]) -> None:
        wanted = {state.partition: (state.era, state.reset_timestamp) for state in states}
        timestamps = {partition: timestamp for partition, (_, timestamp) in wanted.items()}
        found = await self._leaders.offsets(timestamps, self._timeout)
        late = [partition for partition, offset in found.items() if offset.offset == NOT_FOUND]
        if late:  # nothing is as young as that: at the end
            found.update(await self._leaders.offsets(dict.fromkeys(late, LATEST), self._timeout))
        for state in states:
            offset, _, epoch = found[state.partition]
            if state.era == wanted[state.partition][0]:
                self._inbox.jump(state, Place(offset, epoch))

    async def _check(self, states: list[PartitionState]) -> None:
        """KIP-320: what was read up to here, is it in the log of the new leader?

        What the old leader was asked for may come meanwhile, and be of another epoch: then the question is another one,
        and asked next.
        """
        asked = {state.partition: (state.era, state.fetch_epoch) for state in states}
        leaders = {state.partition: self._leader_epoch(state) for state in states}
        ends = await self._leaders.epoch_ends({state.partition: state.fetch_epoch for state in states}, self._timeout)
        for state in states:
            if asked[state.partition] == (state.era, state.fetch_epoch):
                self._compare(state, ends[state.partition], leaders[state.partition])

    def _leader_epoch(self, state: PartitionState) -> int:
        known = self._cluster.metadata.partition(*state.partition)
        return NO_EPOCH if known is None else known.leader_epoch

    def _compare(self, state: PartitionState, end: EpochEnd, leader_epoch: int) -> None:
        if end.end_offset >= state.fetch_offset and end.leader_epoch >= 0:
            state.stage = Stage.READY
            state.leader_epoch = leader_epoch
            return
        is_known = end.end_offset >= 0 and end.leader_epoch >= 0
        timestamp = self.reset_timestamp()
        if timestamp is None:
            state.stage = Stage.READY
            error = LogTruncationError(state.partition, state.fetch_offset, end.end_offset if is_known else None)
            self._inbox.fail(error, state)
            self._pause(state)
        elif not is_known:
            state.reset(timestamp)
        else:
            self._inbox.fall_back(state, Place(end.end_offset, end.leader_epoch))
            state.leader_epoch = leader_epoch

    async def close(self) -> None:
        self._is_closed = True
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.wait([self._worker])
