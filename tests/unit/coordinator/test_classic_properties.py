"""Any interleaving of what members of classic groups do, of time and of restarts: the invariants hold all along."""

from collections.abc import Callable, Iterable
from struct import pack
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headrace.coordinator.groups import GroupShard
from headrace.coordinator.result import Step, Ticket
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.heartbeat import HeartbeatRequest
from headrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from headrace.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from headrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from headrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.support.group_driver import GroupDriver, client_of
from tests.support.group_invariants import check_all

PARTITIONS = 4
SUBSCRIPTION = pack(">hih", 0, 1, 1) + b"t" + pack(">i", -1)
NAMES = ["A", "B", "C"]
CLIENTS = st.sampled_from(NAMES)
PROTOCOLS = st.sampled_from([("range",), ("range", "sticky"), ("sticky", "range")])
_LOST = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_MAX_SIZE_REACHED)


class Consumer:
    """A client, as far as it knows of itself."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.version = 9
        self.member_id = ""
        self.generation = -1
        self.instance_id: str | None = None
        self.roster: list[str] = []
        self.protocols: tuple[str, ...] = ("range",)
        self.session_ms = 30_000
        self.rebalance_ms = 60_000


class ClassicMachine(RuleBasedStateMachine):
    @initialize(delay_ms=st.sampled_from([0, 0, 3_000]), most=st.sampled_from([2, 100]))
    def start(self, delay_ms: int, most: int) -> None:
        configs = {"group.initial.rebalance.delay.ms": str(delay_ms), "group.max.size": str(most)}
        self.driver = GroupDriver(configs)
        self.driver.make_topic("t", PARTITIONS)
        self.consumers = {name: Consumer(name) for name in NAMES}
        self.sent: dict[Ticket, tuple[Consumer, Any]] = {}
        self.owners: dict[tuple[int, str], str] = {}  # who was told to own a partition, by generation and partition
        self.commits: dict[int, tuple[int, int]] = {}  # the last that was granted: generation and offset

    def send(self, consumer: Consumer, request: Any, decide: Callable[[GroupShard, Ticket], Step]) -> None:
        ticket = self.driver.send(decide)
        self.sent[ticket] = (consumer, request)
        self.take_answers()

    def take_answers(self) -> None:
        for ticket, response in list(self.driver.answers.items()):
            del self.driver.answers[ticket]
            consumer, request = self.sent.pop(ticket)
            if isinstance(response, JoinGroupResponse):
                self.joined(consumer, request, response)
            elif isinstance(response, SyncGroupResponse) and not response.error_code:
                self.assigned(request, response)
            elif isinstance(response, OffsetCommitResponse):
                self.committed(request, response)

    def joined(self, consumer: Consumer, request: JoinGroupRequest, response: JoinGroupResponse) -> None:
        if request.member_id != consumer.member_id and response.error_code:
            return  # an old request of a client that has started anew since then
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            consumer.member_id = response.member_id
        elif response.error_code in _LOST:
            consumer.member_id = ""
        elif not response.error_code:
            consumer.member_id, consumer.generation = response.member_id, response.generation_id
            consumer.roster = [each.member_id for each in response.members]

    def assigned(self, request: SyncGroupRequest, response: SyncGroupResponse) -> None:
        owner = request.group_instance_id or request.member_id
        for partition in response.assignment.decode().split():
            place = (request.generation_id, partition)
            assert self.owners.setdefault(place, owner) == owner, f"{place} has two owners"

    def committed(self, request: OffsetCommitRequest, response: OffsetCommitResponse) -> None:
        row, result = request.topics[0].partitions[0], response.topics[0].partitions[0]
        if not result.error_code:
            before = self.commits.get(row.partition_index, (-1, 0))
            assert request.generation_id_or_member_epoch >= before[0], "an older generation commits after a newer one"
            self.commits[row.partition_index] = (request.generation_id_or_member_epoch, row.committed_offset)

    # Members

    @rule(
        name=CLIENTS,
        protocols=PROTOCOLS,
        session_ms=st.sampled_from([6_000, 30_000]),
        rebalance_ms=st.sampled_from([5_000, 60_000]),
        version=st.sampled_from([3, 5, 9]),
        instance_id=st.sampled_from([None, "i1", "i2"]),
    )
    def start_anew(
        self,
        name: str,
        protocols: tuple[str, ...],
        session_ms: int,
        rebalance_ms: int,
        version: int,
        instance_id: str | None,
    ) -> None:
        """A client stops without a word, and starts again."""
        consumer = self.consumers[name] = Consumer(name)
        consumer.version = version
        consumer.instance_id = instance_id if version >= 5 else None
        consumer.protocols = protocols
        consumer.session_ms, consumer.rebalance_ms = session_ms, rebalance_ms
        self.join(consumer)

    @rule(name=CLIENTS)
    def join_again(self, name: str) -> None:
        self.join(self.consumers[name])

    @rule(name=CLIENTS, protocols=PROTOCOLS)
    def join_with_others(self, name: str, protocols: tuple[str, ...]) -> None:
        self.consumers[name].protocols = protocols
        self.join(self.consumers[name])

    def join(self, consumer: Consumer) -> None:
        request = JoinGroupRequest(
            "g",
            consumer.session_ms,
            consumer.rebalance_ms,
            consumer.member_id,
            consumer.instance_id,
            "consumer",
            [JoinGroupRequestProtocol(name, SUBSCRIPTION) for name in consumer.protocols],
        )
        self.send(
            consumer,
            request,
            lambda shard, ticket: shard.join_group(
                request,
                ticket=ticket,
                client=client_of(consumer.name),
                version=consumer.version,
                now_ms=self.driver.now_ms,
            ),
        )

    @rule(name=CLIENTS, spread=st.lists(st.integers(0, 3), min_size=PARTITIONS, max_size=PARTITIONS))
    def sync(self, name: str, spread: Iterable[int]) -> None:
        consumer = self.consumers[name]
        shares: dict[str, list[str]] = {}
        for index, choice in enumerate(spread if consumer.roster else ()):
            shares.setdefault(consumer.roster[choice % len(consumer.roster)], []).append(f"t-{index}")
        request = SyncGroupRequest(
            "g",
            consumer.generation,
            consumer.member_id,
            consumer.instance_id,
            assignments=[SyncGroupRequestAssignment(who, " ".join(what).encode()) for who, what in shares.items()],
        )
        self.send(
            consumer,
            request,
            lambda shard, ticket: shard.sync_group(request, ticket=ticket, now_ms=self.driver.now_ms),
        )

    @rule()
    def settle(self) -> None:
        """Everybody does what is asked of it, until the group is stable."""
        for consumer in self.consumers.values():
            if consumer.member_id:
                self.join(consumer)
        for name in NAMES:
            self.sync(name, range(PARTITIONS))

    @rule(name=CLIENTS)
    def heartbeat(self, name: str) -> None:
        consumer = self.consumers[name]
        request = HeartbeatRequest("g", consumer.generation, consumer.member_id, consumer.instance_id)
        self.send(
            consumer,
            request,
            lambda shard, ticket: shard.heartbeat(request, ticket=ticket, now_ms=self.driver.now_ms),
        )

    @rule(name=CLIENTS, by_instance=st.booleans())
    def leave(self, name: str, by_instance: bool) -> None:
        consumer = self.consumers[name]
        identity = MemberIdentity("" if by_instance else consumer.member_id, consumer.instance_id)
        request = LeaveGroupRequest("g", members=[identity])
        self.send(
            consumer,
            request,
            lambda shard, ticket: shard.leave_group(request, ticket=ticket, version=5, now_ms=self.driver.now_ms),
        )

    @rule(name=CLIENTS, index=st.integers(0, PARTITIONS - 1), offset=st.integers(0, 1_000))
    def commit(self, name: str, index: int, offset: int) -> None:
        consumer = self.consumers[name]
        topics = [OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(index, offset)])]
        if consumer.generation < 0:
            return
        request = OffsetCommitRequest("g", consumer.generation, consumer.member_id, consumer.instance_id, topics=topics)
        self.send(
            consumer,
            request,
            lambda shard, ticket: shard.offset_commit(request, ticket=ticket, version=9, now_ms=self.driver.now_ms),
        )

    @precondition(lambda self: "g" in self.driver.shard.groups and self.driver.shard.groups["g"].is_empty)
    @rule()
    def delete(self) -> None:
        code = self.driver.ask(lambda shard, ticket: shard.delete_group("g", ticket=ticket))
        assert code == ErrorCode.NONE

    # Time and world

    @rule(delay_ms=st.sampled_from([1, 1_000, 3_000, 6_000, 31_000, 70_000]))
    def move(self, delay_ms: int) -> None:
        self.driver.move(delay_ms)
        self.take_answers()

    @rule()
    def restart(self) -> None:
        self.sent.clear()
        self.driver.restart()
        # Generations that were never stable are forgotten, and their numbers are used again.
        self.commits = {index: (-1, offset) for index, (_, offset) in self.commits.items()}

    @invariant()
    def all_is_well(self) -> None:
        check_all(self.driver)
        if "g" not in self.driver.shard.groups:  # whoever comes next counts its generations from the start again
            self.owners.clear()
            self.commits.clear()
        offsets = self.driver.shard.offsets.of_group("g").get("t", {})
        assert {index: offset for index, (_, offset) in self.commits.items()} == {
            index: value.offset for index, value in offsets.items()
        }

    def teardown(self) -> None:
        """Whoever waits is answered in the end."""
        if hasattr(self, "driver"):
            self.move(700_000)
            assert self.sent == {}, f"{self.sent} wait for ever"


TestClassicGroups = pytest.mark.slow(ClassicMachine.TestCase)
TestClassicGroups.settings = settings(
    max_examples=150, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
