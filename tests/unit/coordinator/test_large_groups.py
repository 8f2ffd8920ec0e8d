"""A slow or dead member of a large group: how long the others wait for it, to the millisecond."""

from collections.abc import Iterable
from typing import Any, Final

import pytest

from headrace.coordinator.result import Ticket
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from headrace.protocol.messages.heartbeat import HeartbeatRequest
from headrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.support.group_driver import GroupDriver, client_of

MEMBERS: Final = 1_000
SESSION_MS: Final = 10_000
REBALANCE_MS: Final = 30_000
ASSIGN_EVERY_MS: Final = 1_000  # the default of group.consumer.assignment.interval.ms


class ClassicGroup:
    """A thousand members in a stable generation."""

    def __init__(self) -> None:
        self.driver = GroupDriver()
        joining = [self.join("") for _ in range(MEMBERS)]
        leader = self.driver.answers.pop(joining[0])
        joining[0] = self.join(leader.member_id)
        joined = [self.driver.answers.pop(ticket) for ticket in joining]
        self.names = [each.member_id for each in joined]
        self.generation = joined[0].generation_id
        for name in self.names:
            assert self.sync(name).error_code == ErrorCode.NONE

    def join(self, name: str) -> Ticket:
        protocols = [JoinGroupRequestProtocol("range", b"")]
        request = JoinGroupRequest("g", SESSION_MS, REBALANCE_MS, name, None, "crowd", protocols)
        return self.driver.send(
            lambda shard, ticket: shard.join_group(
                request, ticket=ticket, client=client_of("c"), version=3, now_ms=self.driver.now_ms
            )
        )

    def sync(self, name: str) -> Any:
        rows = [SyncGroupRequestAssignment(each, b"x") for each in self.names] if name == self.names[0] else []
        request = SyncGroupRequest("g", self.generation, name, None, "crowd", "range", rows)
        return self.driver.ask(
            lambda shard, ticket: shard.sync_group(request, ticket=ticket, now_ms=self.driver.now_ms)
        )

    def beat(self, names: Iterable[str]) -> set[ErrorCode]:
        return {ErrorCode(self._beat(name).error_code) for name in names}

    def _beat(self, name: str) -> Any:
        request = HeartbeatRequest("g", self.generation, name)
        return self.driver.ask(lambda shard, ticket: shard.heartbeat(request, ticket=ticket, now_ms=self.driver.now_ms))


def test_a_classic_group_waits_for_a_dead_member_for_its_session_and_for_a_slow_one_for_the_rebalance() -> None:
    group = ClassicGroup()
    slow, *others = group.names[1:]  # the first is dead
    group.driver.move(SESSION_MS - 1)
    assert group.beat([slow, *others]) == {ErrorCode.NONE}  # nobody is held up by one that is not missed yet
    group.driver.move(1)
    assert group.beat([slow, *others]) == {ErrorCode.REBALANCE_IN_PROGRESS}
    joining = [group.join(name) for name in others]
    left_ms = REBALANCE_MS
    while left_ms > 1:  # the slow one is alive, and does not join
        step_ms = min(left_ms - 1, SESSION_MS - 1)
        group.driver.move(step_ms)
        left_ms -= step_ms
        assert group.beat([slow]) == {ErrorCode.REBALANCE_IN_PROGRESS}
    assert not group.driver.answers
    group.driver.move(1)
    joined = [group.driver.answers.pop(ticket) for ticket in joining]
    assert {(each.error_code, each.generation_id) for each in joined} == {(ErrorCode.NONE, group.generation + 1)}
    assert max(len(each.members) for each in joined) == MEMBERS - 2
    assert group.beat([slow]) == {ErrorCode.UNKNOWN_MEMBER_ID}


class ConsumerGroup:
    """A thousand members with a partition each; the assignment is made once, when all are there."""

    def __init__(self) -> None:
        self.driver = GroupDriver({"group.consumer.max.size": str(MEMBERS + 1)})
        self.driver.make_topic("t", MEMBERS)
        self.epochs: dict[str, int] = {}
        self.owned: dict[str, list[int]] = {}
        for place in range(MEMBERS):
            self.join(f"m{place}")
        self.driver.move(ASSIGN_EVERY_MS)
        self.settle(list(self.epochs))

    def join(self, name: str) -> None:
        self._ask(
            ConsumerGroupHeartbeatRequest(
                "g", name, 0, rebalance_timeout_ms=REBALANCE_MS, subscribed_topic_names=["t"], topic_partitions=[]
            )
        )

    def beat(self, name: str) -> None:
        """It gives up and takes over what it was told to."""
        owned = [TopicPartitions(self.driver.image.topic_ids["t"], self.owned.get(name, []))]
        self._ask(ConsumerGroupHeartbeatRequest("g", name, self.epochs[name], topic_partitions=owned))

    def stay(self, name: str) -> None:
        """It is alive, and says nothing of what it has."""
        self._ask(ConsumerGroupHeartbeatRequest("g", name, self.epochs[name]), learns=False)

    def _ask(self, request: ConsumerGroupHeartbeatRequest, *, learns: bool = True) -> None:
        answer = self.driver.ask(
            lambda shard, ticket: shard.consumer_group_heartbeat(
                request, ticket=ticket, client=client_of("c"), version=1, now_ms=self.driver.now_ms
            )
        )
        assert answer.error_code == ErrorCode.NONE, answer
        if learns:
            self.epochs[request.member_id] = answer.member_epoch
            if answer.assignment is not None:
                rows = answer.assignment.topic_partitions
                self.owned[request.member_id] = [index for row in rows for index in row.partitions]

    def settle(self, names: list[str]) -> None:
        for _ in range(4):
            for name in names:
                self.beat(name)

    def owners(self, names: Iterable[str]) -> list[int]:
        return sorted(index for name in names for index in self.owned.get(name, []))


@pytest.mark.slow
def test_in_a_consumer_group_only_what_a_dead_or_slow_member_has_is_waited_for() -> None:
    group = ConsumerGroup()
    assert group.owners(group.epochs) == list(range(MEMBERS))
    dead, *others = list(group.epochs)
    group.driver.move(group.driver.settings.consumer_session_timeout_ms - 1)
    group.settle(others)
    assert group.owned[dead][0] not in group.owners(others)
    group.driver.move(1)
    group.driver.move(ASSIGN_EVERY_MS)
    group.settle(others)
    assert group.owners(others) == list(range(MEMBERS))

    # One has two partitions now, and is to give one of them to the next who comes.
    (slow,) = [name for name in others if len(group.owned[name]) == 2]
    others.remove(slow)
    before = group.owners(others)
    group.join("new")
    group.driver.move(ASSIGN_EVERY_MS)
    group.settle(others)
    assert group.owners(others) == before
    group.stay(slow)  # it is told, and does not say that it has
    group.driver.move(REBALANCE_MS - 1)
    group.settle(["new"])
    assert group.owned["new"] == []
    group.driver.move(1)
    group.settle(["new"])
    assert group.owners([*others, "new"]) == list(range(MEMBERS))
