"""Consumers as they behave: they believe what they are told, give up before they take, and may lose an answer."""

from collections.abc import Iterable
from typing import Any

from headrace.coordinator.consumer_group import ConsumerGroup
from headrace.coordinator.consumer_member import JOINING, LEAVING, LEAVING_FOR_NOW
from headrace.coordinator.consumer_protocol import read_assignment, read_subscription
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from headrace.protocol.messages.heartbeat import HeartbeatRequest
from headrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from headrace.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from headrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.support.consumer_protocol import assignment_bytes, subscription_bytes
from tests.support.group_driver import GroupDriver, client_of

GROUP = "g"
REBALANCE_MS = 20_000
SESSION_MS = 10_000

Place = tuple[bytes, int]

_BEGIN_ANEW = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND)
_FENCED = (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID)


class NewConsumer:
    """A consumer of the new protocol. `owned` is what it works on; `told` is what it was told to have."""

    is_classic = False

    def __init__(
        self, driver: GroupDriver, member_id: str, topics: Iterable[str], instance_id: str | None = None
    ) -> None:
        self.driver = driver
        self.member_id = member_id
        self.instance_id = instance_id
        self.topics = list(topics)
        self.regex: str | None = None
        self.epoch = JOINING
        self.owned: set[Place] = set()
        self.told: set[Place] = set()
        self.has_news = True  # it says everything with its next heartbeat
        self.is_dead = False

    def beat(self, *, is_lost: bool = False) -> None:
        """A heartbeat; if its answer is lost, the next one says everything."""
        if self.is_dead:
            return
        is_full = self.has_news or self.epoch == JOINING
        request = ConsumerGroupHeartbeatRequest(
            GROUP,
            self.member_id,
            self.epoch,
            self.instance_id,
            rebalance_timeout_ms=REBALANCE_MS if is_full else -1,
            subscribed_topic_names=self.topics if is_full else None,
            subscribed_topic_regex=self.regex if is_full else None,
            topic_partitions=[] if self.epoch == JOINING else _rows(self.owned),
        )
        response = self._ask(request)
        if is_lost:
            self.has_news = True
        elif response.error_code:
            assert response.error_code in (*_BEGIN_ANEW, *_FENCED), response
            self._begin_anew()
            self.is_dead = response.error_code in _FENCED
        else:
            self.epoch = response.member_epoch
            self.has_news = False
            if response.assignment is not None:
                rows = response.assignment.topic_partitions
                self.told = {(row.topic_id, index) for row in rows for index in row.partitions}

    def _begin_anew(self) -> None:
        self.owned.clear()
        self.told.clear()
        self.epoch = JOINING
        self.has_news = True

    def obey(self) -> None:
        """Give up what it is not to have, then take what it is to have."""
        self.owned = set(self.told)

    def leave(self, *, for_now: bool = False) -> None:
        epoch = LEAVING_FOR_NOW if for_now and self.instance_id is not None else LEAVING
        self.owned.clear()
        if self.epoch != JOINING and not self.is_dead:
            self._ask(ConsumerGroupHeartbeatRequest(GROUP, self.member_id, epoch, self.instance_id))
        self.is_dead = True

    def _ask(self, request: ConsumerGroupHeartbeatRequest) -> Any:
        driver = self.driver
        return driver.ask(
            lambda shard, ticket: shard.consumer_group_heartbeat(
                request, ticket=ticket, client=client_of(self.member_id), version=1, now_ms=driver.now_ms
            )
        )

    @property
    def is_member(self) -> bool:
        group = self.driver.shard.groups.get(GROUP)
        return isinstance(group, ConsumerGroup) and self.member_id in group.members


def _rows(places: Iterable[Place]) -> list[TopicPartitions]:
    topics: dict[bytes, list[int]] = {}
    for topic_id, index in sorted(places):
        topics.setdefault(topic_id, []).append(index)
    return [TopicPartitions(topic_id, indexes) for topic_id, indexes in topics.items()]


class ClassicConsumer:
    """A consumer of the classic protocol that gives up everything before it joins, and assigns in turn if it leads."""

    is_classic = True

    def __init__(self, driver: GroupDriver, name: str, topics: Iterable[str]) -> None:
        self.driver = driver
        self.name = name
        self.topics = list(topics)
        self.member_id = ""
        self.generation = -1
        self.owned: set[Place] = set()
        self.waiting: int | None = None  # the ticket of a request without an answer
        self.step = "join"  # what it does next
        self.roster: list[Any] = []
        self.is_dead = False

    def act(self) -> None:
        """Take the answer that came, if it waits for one; then do what comes next."""
        if self.is_dead:
            return
        if self.waiting is not None:
            if self.waiting not in self.driver.answers:
                return
            ticket, self.waiting = self.waiting, None
            self._take(self.driver.answers.pop(ticket))
        {"join": self._join, "sync": self._sync, "heartbeat": self._heartbeat}[self.step]()

    def beat(self, *, is_lost: bool = False) -> None:
        self.act()

    def obey(self) -> None:
        """It always does."""

    def _join(self) -> None:
        self.owned.clear()
        protocol = JoinGroupRequestProtocol("range", subscription_bytes(self.topics))
        request = JoinGroupRequest(GROUP, SESSION_MS, REBALANCE_MS, self.member_id, None, "consumer", [protocol])
        client, now_ms = client_of(self.name), self.driver.now_ms
        self._send(
            lambda shard, ticket: shard.join_group(request, ticket=ticket, client=client, version=9, now_ms=now_ms)
        )

    def _sync(self) -> None:
        shares: dict[str, list[str]] = {member.member_id: [] for member in self.roster}
        for topic in self.driver.image.topics.values():
            wanting = [each.member_id for each in self.roster if topic.name in read_subscription(each.metadata).topics]
            for index in topic.partitions if wanting else ():
                shares[wanting[index % len(wanting)]].append(f"{topic.name}-{index}")
        assignments = [SyncGroupRequestAssignment(each, assignment_bytes(share)) for each, share in shares.items()]
        request = SyncGroupRequest(GROUP, self.generation, self.member_id, None, None, None, assignments)
        self._send(lambda shard, ticket: shard.sync_group(request, ticket=ticket, now_ms=self.driver.now_ms))

    def _heartbeat(self) -> None:
        request = HeartbeatRequest(GROUP, self.generation, self.member_id)
        self._send(lambda shard, ticket: shard.heartbeat(request, ticket=ticket, now_ms=self.driver.now_ms))

    def _send(self, decide: Any) -> None:
        self.waiting = self.driver.send(decide)
        if self.waiting in self.driver.answers:
            ticket, self.waiting = self.waiting, None
            self._take(self.driver.answers.pop(ticket))

    def _take(self, response: Any) -> None:
        code = response.error_code
        if isinstance(response, JoinGroupResponse):
            if code == ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = response.member_id
            elif not code:
                self.member_id, self.generation = response.member_id, response.generation_id
                self.roster = list(response.members)
                self.step = "sync"
                return
        elif not code:
            if hasattr(response, "assignment"):
                self.owned = self._read(response.assignment)
            self.step = "heartbeat"
            return
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        self.owned.clear()
        self.step = "join"

    def _read(self, assignment: bytes) -> set[Place]:
        if not assignment:
            return set()
        ids = self.driver.image.topic_ids
        rows = read_assignment(assignment).assigned_partitions
        return {(ids[row.topic], index) for row in rows if row.topic in ids for index in row.partitions}

    def leave(self, *, for_now: bool = False) -> None:
        self.owned.clear()
        if self.member_id:
            request = LeaveGroupRequest(GROUP, members=[MemberIdentity(self.member_id)])
            self.driver.send(
                lambda shard, ticket: shard.leave_group(request, ticket=ticket, version=5, now_ms=self.driver.now_ms)
            )
        self.is_dead = True

    @property
    def is_member(self) -> bool:
        group = self.driver.shard.groups.get(GROUP)
        return group is not None and self.member_id in group.members
