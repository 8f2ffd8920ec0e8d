"""What membership in a group has in common for both protocols: tasks that run, fail, and begin again.

A member that cannot go on leaves its partitions to others, and is out until the user has heard why: it begins again
when the user asks for records the next time.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from headrace.client.backoff import retry_backoff
from headrace.client.cluster import Cluster
from headrace.client.consumer_errors import PollIntervalError
from headrace.client.consumer_inbox import Inbox
from headrace.client.coordinators import CoordinatorKind
from headrace.client.errors import KafkaError
from headrace.client.group_member import GroupMember
from headrace.client.group_rebalances import Rebalances
from headrace.client.group_topics import GroupTopics
from headrace.client.group_watch import UserWatch
from headrace.client.topic_partition import TopicPartition
from headrace.protocol.error_codes import ErrorCode

Job = Callable[[], Coroutine[Any, Any, None]]


class Membership(ABC):
    """On the client's loop."""

    def __init__(
        self, cluster: Cluster, topics: GroupTopics, rebalances: Rebalances, inbox: Inbox, watch: UserWatch
    ) -> None:
        self._cluster = cluster
        self._topics = topics
        self._rebalances = rebalances
        self._inbox = inbox
        self._watch = watch
        self._group_id = cluster.settings.text("group.id")
        self._is_static = cluster.settings.optional_text("group.instance.id") is not None
        self._backoff = retry_backoff(cluster.settings)
        self._tasks: list[asyncio.Task[None]] = []
        self.is_out = False  # until the user comes back

    @property
    @abstractmethod
    def identity(self) -> GroupMember:
        """Who commits."""

    @abstractmethod
    def topics_changed(self) -> None:
        """The subscription, or the partitions of topics, may be others than before."""

    @abstractmethod
    def _begin(self) -> Sequence[Job]:
        """Be about to join. What is to run: first what changes the assignment, then what keeps us alive."""

    @abstractmethod
    async def _leave(self, reason: str, *, is_final: bool) -> None:
        """Tell the coordinator. A static member that comes back says so by `is_final` being false."""

    @abstractmethod
    def _forget(self) -> None:
        """We are not a member any more."""

    # Running

    def start_or_change(self) -> None:
        """A subscription was made, or changed."""
        if self._tasks and not self.is_out:
            self.topics_changed()
        else:
            self._start()

    def came_back(self) -> None:
        """The user polls again after it was told that it is out."""
        if self.is_out:
            self._watch.touch()
            self._start()

    def _start(self) -> None:
        self.is_out = False
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._run(job), name=f"headrace{job.__name__}") for job in self._begin()]

    async def _run(self, job: Job) -> None:
        try:
            await job()
        except Exception as error:  # a KafkaError; or a bug, ours or in an own assignor: the user must hear of it
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()
        self._forget()
        self._rebalances.lose(self._rebalances.owned)
        if isinstance(error, KafkaError) and error.code is ErrorCode.FENCED_INSTANCE_ID:
            self._inbox.break_off(error)
        else:
            self.is_out = True
            self._inbox.fail(error)

    async def _nap(self, seconds: float) -> None:
        """Sleep between heartbeats, and see that the user is there. Else leave, and raise PollIntervalError."""
        await asyncio.sleep(max(0.0, min(seconds, self._watch.seconds_left())))
        if self._watch.seconds_left() <= 0:
            error = _stuck(self._watch.seconds_away(), self._watch.interval, sorted(self._rebalances.owned))
            await self.pause()
            await self._leave("the user does not poll", is_final=not self._is_static)
            raise error

    # The end

    async def pause(self) -> None:
        """Change nothing any more; heartbeats go on."""
        task = self._tasks[0] if self._tasks else None
        if task is not None and not task.done():
            task.cancel()
            await asyncio.wait([task])

    async def close(self, *, is_leaving: bool) -> None:
        """Stop. A static member stays in the group, which waits for its return until its session is over."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if is_leaving:
            await self._leave("the consumer is closed", is_final=not self._is_static)
        self._forget()

    # Requests

    async def _ask(self, request: Any, purpose: str, timeout: float | None = None, *, min_version: int = 0) -> Any:
        node = await self._cluster.coordinator(CoordinatorKind.GROUP, self._group_id)
        try:
            return await self._cluster.send(node, request, purpose=purpose, timeout=timeout, min_version=min_version)
        except KafkaError:
            self._forget_coordinator()
            raise

    def _forget_coordinator(self) -> None:
        self._cluster.forget_coordinator(CoordinatorKind.GROUP, self._group_id)


def _stuck(away: float, interval: float, lost: list[TopicPartition]) -> PollIntervalError:
    named = f"Its partitions, {', '.join(map(str, lost))}, went to others." if lost else "It had no partitions."
    return PollIntervalError(
        ErrorCode.UNKNOWN_MEMBER_ID,
        f"This consumer asked for no records for {away:.1f} s, which is longer than max.poll.interval.ms "
        f"({interval * 1000:.0f} ms), and has left its group. {named} Poll more often, take fewer records at a time "
        "(max_poll_records), or raise max_poll_interval_ms.",
    )
