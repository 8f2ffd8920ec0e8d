"""Membership in a group of the protocol `consumer` (KIP-848): the coordinator assigns, and members follow step by step.

Two tasks on the client's loop. One sends heartbeats, at once if there is something to say. The other one brings what we
have into line with what we should have: first partitions are given up, then new ones are taken; the next heartbeat says
so. Nobody stops for a rebalance: what stays is read on.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final
from uuid import uuid4

from headrace.client.cluster import COORDINATOR, Cluster
from headrace.client.consumer_inbox import Inbox
from headrace.client.errors import KafkaError
from headrace.client.group_consumer_member import ConsumerMember, PartitionOfId, Subscription, Verdict
from headrace.client.group_member import GroupMember
from headrace.client.group_membership import Job, Membership
from headrace.client.group_rebalances import Rebalances
from headrace.client.group_topics import GroupTopics
from headrace.client.group_watch import UserWatch
from headrace.client.topic_partition import TopicPartition
from headrace.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse

_LEAVE_SECONDS: Final = 5.0
_MAY_CHOOSE_ID: Final = (
    1  # the first version in which the member chooses its id, and patterns are matched by the broker
)
_log: Final = logging.getLogger(__name__)


class ConsumerMembership(Membership):
    """On the client's loop."""

    def __init__(
        self, cluster: Cluster, topics: GroupTopics, rebalances: Rebalances, inbox: Inbox, watch: UserWatch
    ) -> None:
        super().__init__(cluster, topics, rebalances, inbox, watch)
        self._member = ConsumerMember(cluster.settings, str(uuid4()))
        self._target: frozenset[PartitionOfId] | None = None  # what should be ours
        self._is_target_new = asyncio.Event()
        self._has_news = asyncio.Event()
        self._next_at = 0.0  # when a heartbeat is due, on the loop's clock

    @property
    def identity(self) -> GroupMember:
        return self._member.identity

    def _begin(self) -> Sequence[Job]:
        self._target = None
        self._is_target_new.clear()
        self._has_news.set()
        return self._keep_reconciled, self._keep_alive

    def topics_changed(self) -> None:
        """The subscription may have changed, or the name of a topic that should be ours has become known."""
        self._has_news.set()
        if self._target is not None:
            self._is_target_new.set()

    # Heartbeats

    async def _keep_alive(self) -> None:
        failures = 0
        while True:
            await self._wait(failures)
            subscription = Subscription(await self._topics.find(), self._topics.broker_pattern)
            owned = self._owned()
            if not self._member.is_member or self._member.has_news(subscription, owned) or self._is_due():
                failures = await self._beat(subscription, owned, failures)

    def _is_due(self) -> bool:
        return asyncio.get_running_loop().time() >= self._next_at

    async def _wait(self, failures: int) -> None:
        """Until there is something to say, or the next heartbeat is due."""
        if failures:
            await self._nap(self._backoff.seconds(failures))
            return
        left = self._next_at - asyncio.get_running_loop().time()
        if left > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, min(left, self._watch.seconds_left()))):
                    await self._has_news.wait()
        self._has_news.clear()
        await self._nap(0.0)

    async def _beat(self, subscription: Subscription, owned: Iterable[PartitionOfId], failures: int) -> int:
        """One heartbeat; how many have failed in a row."""
        request = self._member.heartbeat(subscription, owned)
        try:
            response: ConsumerGroupHeartbeatResponse = await self._ask(
                request, COORDINATOR, min_version=_MAY_CHOOSE_ID if subscription.pattern else 0
            )
        except KafkaError as error:
            self._member.unheard()
            if not error.retriable:
                raise
            return failures + 1
        was_member = self._member.is_member
        verdict, outcome = self._member.heard(response)
        if verdict is Verdict.DONE:
            self._next_at = asyncio.get_running_loop().time() + self._member.interval_ms / 1000
            if not was_member:
                _log.info("[%s] joined in epoch %d", self._group_id, self._member.identity.generation)
            if isinstance(outcome, frozenset):
                self._target = outcome
                self._is_target_new.set()
            return 0
        assert isinstance(outcome, KafkaError), f"{verdict} without an error"
        if verdict is Verdict.FAILED:
            raise outcome
        if verdict is Verdict.BEGIN_ANEW:
            _log.warning("[%s] is out of the group: %s", self._group_id, outcome.message)
            self._target = None
            self._rebalances.lose(self._rebalances.owned)
            self._has_news.set()
            self._next_at = 0.0
            return 0
        if verdict is Verdict.ELSEWHERE:
            self._forget_coordinator()
        return failures + 1

    # Partitions

    async def _keep_reconciled(self) -> None:
        while True:
            await self._is_target_new.wait()
            self._is_target_new.clear()
            target = self._target
            if target is None:
                continue
            wanted = self._named(target)
            gone = self._rebalances.owned - wanted
            if gone:
                await self._rebalances.revoke(gone)
            if self._target is target:  # else everything was lost meanwhile, or something else is wanted, which is next
                await self._rebalances.assign(wanted)
            self._has_news.set()

    def _named(self, target: Iterable[PartitionOfId]) -> set[TopicPartition]:
        """By name, as far as names are known; others come with the metadata that is asked for now."""
        names = self._cluster.metadata.names_by_id
        unknown = [each for each in target if each.topic_id not in names]
        if unknown:
            self._cluster.request_update()
        return {TopicPartition(names[each.topic_id], each.number) for each in target if each.topic_id in names}

    def _owned(self) -> frozenset[PartitionOfId]:
        topics = self._cluster.metadata.topics
        return frozenset(
            PartitionOfId(topics[partition.topic].id, partition.partition)
            for partition in self._rebalances.owned
            if partition.topic in topics
        )

    # Leaving

    async def _leave(self, reason: str, *, is_final: bool) -> None:  # noqa: ARG002 - this protocol does not tell it
        if self._member.is_member:
            with suppress(KafkaError, TimeoutError):
                async with asyncio.timeout(_LEAVE_SECONDS):
                    await self._ask(self._member.leave(is_final=is_final), COORDINATOR)
            self._member.forget()

    def _forget(self) -> None:
        self._member.forget()
