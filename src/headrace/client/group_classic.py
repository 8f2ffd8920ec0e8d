"""Membership in a classic group: join, be told what to read, say now and then that we are alive, join again.

Two tasks on the client's loop. One joins, and joins again whenever that is asked for: the group rebalances, the
subscription has changed, or, at the group's leader, the partitions of its topics. The other one sends heartbeats, and
watches the user: one that is merely slow keeps its partitions, one that is stuck leaves them to others.

JoinGroup waits at the coordinator until all members have joined, so it has a connection of its own; heartbeats and
commits go on meanwhile.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from headrace.client.assignors import Assignment, load_assignors
from headrace.client.cluster import COORDINATOR, Cluster
from headrace.client.consumer_inbox import Inbox
from headrace.client.errors import KafkaError, code_of
from headrace.client.group_classic_member import NO_GENERATION, ClassicMember, Joined, Verdict
from headrace.client.group_member import GroupMember
from headrace.client.group_membership import Job, Membership
from headrace.client.group_rebalances import Rebalances
from headrace.client.group_topics import GroupTopics
from headrace.client.group_watch import UserWatch
from headrace.client.topic_partition import TopicPartition
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.heartbeat import HeartbeatResponse
from headrace.protocol.messages.join_group import JoinGroupResponse
from headrace.protocol.messages.sync_group import SyncGroupResponse

JOINING: Final = "join"  # the purpose of a connection
_JOIN_GRACE_SECONDS: Final = 5.0  # what the answer to JoinGroup may take beyond the time that the group may take
_LEAVE_SECONDS: Final = 5.0
_LEAVE_SINCE: Final = 3  # the first version that names members; with older brokers the session just ends
_log: Final = logging.getLogger(__name__)


class ClassicMembership(Membership):
    """On the client's loop."""

    def __init__(
        self, cluster: Cluster, topics: GroupTopics, rebalances: Rebalances, inbox: Inbox, watch: UserWatch
    ) -> None:
        """Raises ConfigError."""
        super().__init__(cluster, topics, rebalances, inbox, watch)
        settings = cluster.settings
        self._interval = settings.seconds("heartbeat.interval.ms")
        self._join_timeout = (
            max(settings.seconds("max.poll.interval.ms"), settings.seconds("request.timeout.ms")) + _JOIN_GRACE_SECONDS
        )
        self._member = ClassicMember(settings, load_assignors(settings.items("partition.assignment.strategy")))
        self._rejoin = asyncio.Event()
        self._reason = ""
        self._is_joining = False
        self._is_leader = False
        self._joined_topics: frozenset[str] = frozenset()

    @property
    def identity(self) -> GroupMember:
        return self._member.identity

    def _begin(self) -> Sequence[Job]:
        self._reason = "the consumer has started"
        self._rejoin.set()
        return self._keep_joined, self._keep_alive

    def topics_changed(self) -> None:
        if self._member.generation == NO_GENERATION:
            return
        if self._topics.wanted() != self._joined_topics:
            self._ask_to_rejoin("the subscription has changed")
        elif self._is_leader and self._topics.has_changed():
            self._ask_to_rejoin("the partitions of the group's topics have changed")

    def _ask_to_rejoin(self, reason: str) -> None:
        if not self._rejoin.is_set():
            self._reason = reason
            self._rejoin.set()

    # Joining

    async def _keep_joined(self) -> None:
        failures = 0
        while True:
            await self._rejoin.wait()
            await self._give_back()
            self._is_joining = True
            try:
                verdict, error = await self._join()
            except KafkaError as failure:
                if not failure.retriable:
                    raise
                verdict, error = Verdict.AGAIN, failure
            finally:
                self._is_joining = False
            if verdict is Verdict.DONE:
                failures = 0
                self.topics_changed()
                continue
            self._rejoin.set()
            if verdict in (Verdict.FAILED, Verdict.FENCED):
                assert error is not None, f"{verdict} without an error"
                raise error
            if verdict is Verdict.ELSEWHERE:
                self._forget_coordinator()
            if verdict in (Verdict.AGAIN, Verdict.ELSEWHERE):
                failures += 1
                await asyncio.sleep(self._backoff.seconds(failures))

    async def _give_back(self) -> None:
        """What must not be ours while the group rebalances."""
        owned = self._rebalances.owned
        if self._member.generation == NO_GENERATION:
            self._rebalances.lose(owned)
        elif not self._member.is_cooperative:
            await self._rebalances.revoke(owned)
        else:
            wanted = self._topics.wanted()
            await self._rebalances.revoke([each for each in owned if each.topic not in wanted])

    async def _join(self) -> tuple[Verdict, KafkaError | None]:
        self._rejoin.clear()
        topics = await self._topics.find()
        self._joined_topics = topics
        request = self._member.join(sorted(topics), sorted(self._rebalances.owned), self._reason)
        response: JoinGroupResponse = await self._ask(request, JOINING, self._join_timeout)
        verdict, outcome = self._member.joined(response)
        if not isinstance(outcome, Joined):
            return verdict, outcome
        self._is_leader = outcome.is_leader
        _log.info("[%s] joined generation %d as %s", self._group_id, self._member.generation, self._member.member_id)
        return await self._sync(outcome)

    async def _sync(self, joined: Joined) -> tuple[Verdict, KafkaError | None]:
        assignment: Mapping[str, Any] = await self._decide(joined) if joined.is_leader else {}
        request = self._member.sync(assignment if joined.must_assign else {})
        response: SyncGroupResponse = await self._ask(request, JOINING, self._join_timeout)
        verdict, outcome = self._member.synced(response)
        if not isinstance(outcome, list):
            return verdict, outcome
        await self._take(set(outcome))
        return Verdict.DONE, None

    async def _decide(self, joined: Joined) -> Assignment:
        """What each member gets; decided by one of them, the leader."""
        wanted = frozenset(topic for member in joined.members for topic in member.topics)
        topics = await self._topics.layout(wanted | self._joined_topics)
        if not joined.must_assign:
            return {}
        return joined.assignor.assign({name: topics[name] for name in topics if name in wanted}, joined.members)

    async def _take(self, assigned: set[TopicPartition]) -> None:
        """Own what was assigned. With a cooperative assignor, what moves is given up first, and then given away."""
        gone = self._rebalances.owned - assigned
        if gone:
            await self._rebalances.revoke(gone)
            self._ask_to_rejoin("partitions were given up, for others to have them")
        await self._rebalances.assign(assigned)

    # Staying

    async def _keep_alive(self) -> None:
        failures = 0
        while True:
            pause = self._backoff.seconds(failures) if failures else self._interval
            await self._nap(pause)
            if self._is_joining or self._member.generation == NO_GENERATION:
                continue
            who = self._member.identity
            try:
                response: HeartbeatResponse = await self._ask(self._member.heartbeat(), COORDINATOR)
            except KafkaError as error:
                if not error.retriable:
                    raise
                failures += 1
                continue
            # An answer may be overtaken: once we have asked to join, the group may have gone on without this heartbeat,
            # which came on another connection. Then it is JoinGroup that says what became of us.
            if self._member.identity == who and not self._is_joining:
                failures = self._heard(code_of(response.error_code), failures)

    def _heard(self, code: ErrorCode, failures: int) -> int:
        """The answer to a heartbeat; how many have failed in a row."""
        verdict, error = self._member.judge(code, "does not want us")
        if verdict is Verdict.DONE:
            return 0
        if verdict is Verdict.REJOIN:
            self._ask_to_rejoin("the group rebalances")
            return 0
        if verdict is Verdict.BEGIN_ANEW:
            _log.warning("[%s] is out of the group: %s", self._group_id, error.message)
            self._rebalances.lose(self._rebalances.owned)
            self._ask_to_rejoin("the coordinator does not know this member any more")
            return 0
        if verdict is Verdict.ELSEWHERE:
            self._forget_coordinator()
        if verdict in (Verdict.FAILED, Verdict.FENCED):
            raise error
        return failures + 1

    # Leaving

    async def _leave(self, reason: str, *, is_final: bool) -> None:
        if is_final and not self._is_static and self._member.member_id:
            with suppress(KafkaError, TimeoutError):
                async with asyncio.timeout(_LEAVE_SECONDS):
                    await self._ask(self._member.leave(reason), COORDINATOR, min_version=_LEAVE_SINCE)
            self._member.forget()

    def _forget(self) -> None:
        self._member.forget(is_id_kept=True)
