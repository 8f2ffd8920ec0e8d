"""A second member joins a group: how long until both own partitions, by both protocols.

Members ask again as soon as they are answered, where a client would wait for its next heartbeat: what is left is the
time that the coordinator takes, and that of the round trips it asks for. One thread plays both members, so nothing is
measured but the broker and its answers. The first members have been there for a while: a coordinator assigns once per
group.consumer.assignment.interval.ms, by both brokers' defaults.
"""

import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing
from itertools import count
from statistics import median
from typing import Any, Final, Protocol
from uuid import uuid4

from benchmarks.beside_kafka.contest import Contest
from benchmarks.beside_kafka.nodes import Node
from benchmarks.beside_kafka.topics import create_topic, delete_topic
from benchmarks.beside_kafka.workload import WrongAnswerError
from benchmarks.figures import Figure
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from headrace.protocol.messages.heartbeat import HeartbeatRequest
from headrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.support.consumer_protocol import assignment_bytes, subscription_bytes
from tests.support.wire_client import WireClient

GOAL: Final = 0.7
PARTITIONS: Final = 8
SETTLED_SECONDS: Final = 1.1  # above the default of group.consumer.assignment.interval.ms
_TOPIC: Final = "rebalanced"
_TIMEOUT_MS: Final = 30_000
_MOST_STEPS: Final = 10_000  # a group that has not settled by then never will
_JOIN, _SYNC, _HEARTBEAT, _CONSUMER_HEARTBEAT = 9, 5, 4, 1
_HALVES: Final = [[f"{_TOPIC}-{index}" for index in range(PARTITIONS) if index % 2 == half] for half in (0, 1)]

_numbers = count()


def second_joins(contest: Contest, joins: int) -> list[Figure]:
    """The median of `joins` in each round."""
    for node in contest.nodes:
        create_topic(node, _TOPIC, PARTITIONS)
    figures = [
        _figure(contest, "classic", _ClassicGroup, joins),
        _figure(contest, "consumer", _ConsumerGroup, joins),
    ]
    for node in contest.nodes:
        delete_topic(node, _TOPIC)
    return figures


class _Group(Protocol):
    """One that a first member has just joined."""

    def join(self) -> None:
        """The second member joins; both own partitions when this returns."""

    def close(self) -> None: ...


def _figure(contest: Contest, protocol: str, make_group: Callable[[Node, str], _Group], joins: int) -> Figure:
    contest.take_turns(1, lambda node: _joins(node, make_group, 4 * joins if node.needs_warm_up else 1))
    rounds = contest.take_turns(contest.effort.rounds, lambda node: _joins(node, make_group, joins))
    return Figure.beside(
        f"second member's join until both own partitions, {protocol}",
        "ms",
        *([median(found) * 1e3 for found in turns] for turns in rounds),
        goal=GOAL,
        at_most=True,
        note=f"median of {joins} per round",
    )


def _joins(node: Node, make_group: Callable[[Node, str], _Group], count: int) -> list[float]:
    """Seconds of each."""
    with ExitStack() as stack:
        groups = [stack.enter_context(closing(make_group(node, f"group-{next(_numbers)}"))) for _ in range(count)]
        time.sleep(SETTLED_SECONDS)
        return [_seconds(group.join) for group in groups]


def _seconds(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


# The classic protocol


class _ClassicMember:
    def __init__(self, node: Node, group: str) -> None:
        self._client = WireClient(("127.0.0.1", node.port))
        self._group = group
        self._member_id = ""
        self._generation = -1
        self._awaited = 0

    def close(self) -> None:
        self._client.close()

    def introduce(self) -> None:
        """A new member is told its id, and joins with it."""
        joined = self._client.ask("JoinGroup", _JOIN, self._join_request())
        if joined.error_code != ErrorCode.MEMBER_ID_REQUIRED:
            raise WrongAnswerError(f"a new member was not told its id: {ErrorCode(joined.error_code).name}")
        self._member_id = joined.member_id

    def start_join(self) -> None:
        self._awaited = self._client.send("JoinGroup", _JOIN, self._join_request())

    def finish_join(self) -> Any:
        joined = _checked(self._client.receive("JoinGroup", _JOIN, self._awaited))
        self._generation = joined.generation_id
        return joined

    def start_sync(self, members: list[str]) -> None:
        """`members` are those whom the leader assigns partitions; none, if this is not the leader."""
        halves = _HALVES if len(members) > 1 else [[*_HALVES[0], *_HALVES[1]]]
        assignments = [
            SyncGroupRequestAssignment(member, assignment_bytes(half))
            for member, half in zip(members, halves, strict=False)
        ]
        request = SyncGroupRequest(
            self._group, self._generation, self._member_id, None, "consumer", "range", assignments
        )
        self._awaited = self._client.send("SyncGroup", _SYNC, request)

    def finish_sync(self) -> None:
        if not _checked(self._client.receive("SyncGroup", _SYNC, self._awaited)).assignment:
            raise WrongAnswerError("a member was assigned nothing")

    def await_rebalance(self) -> None:
        for _ in range(_MOST_STEPS):
            request = HeartbeatRequest(self._group, self._generation, self._member_id)
            answer = self._client.ask("Heartbeat", _HEARTBEAT, request)
            if answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
                return
            _checked(answer)
        raise WrongAnswerError("a member joined, and the other did not hear of it")

    def _join_request(self) -> JoinGroupRequest:
        protocols = [JoinGroupRequestProtocol("range", subscription_bytes([_TOPIC]))]
        return JoinGroupRequest(self._group, _TIMEOUT_MS, _TIMEOUT_MS, self._member_id, None, "consumer", protocols)


class _ClassicGroup:
    def __init__(self, node: Node, name: str) -> None:
        self._first, self._second = self._members = _ClassicMember(node, name), _ClassicMember(node, name)
        self._first.introduce()
        self._first.start_join()
        self._sync((self._first,))

    def join(self) -> None:
        self._second.introduce()
        self._second.start_join()
        self._first.await_rebalance()
        self._first.start_join()
        self._sync(self._members)

    def _sync(self, members: Iterable[_ClassicMember]) -> None:
        for member in members:
            member.start_sync([each.member_id for each in member.finish_join().members])
        for member in members:
            member.finish_sync()

    def close(self) -> None:
        for member in self._members:
            member.close()


# The consumer protocol (KIP-848)


class _ConsumerMember:
    """Takes over, and gives up, what it is told to at once."""

    def __init__(self, node: Node, group: str) -> None:
        self._client = WireClient(("127.0.0.1", node.port))
        self._group = group
        self._member_id = str(uuid4())
        self._epoch = 0
        self._owned: list[TopicPartitions] = []
        self._is_told = False  # whether the coordinator knows what is owned

    def close(self) -> None:
        self._client.close()

    @property
    def partitions(self) -> int:
        """How many it owns, and the coordinator knows that it does."""
        return sum(len(topic.partitions) for topic in self._owned) if self._is_told else 0

    def heartbeat(self) -> None:
        is_new = not self._epoch
        answer = _checked(
            self._client.ask(
                "ConsumerGroupHeartbeat",
                _CONSUMER_HEARTBEAT,
                ConsumerGroupHeartbeatRequest(
                    self._group,
                    self._member_id,
                    self._epoch,
                    rebalance_timeout_ms=_TIMEOUT_MS if is_new else -1,
                    subscribed_topic_names=[_TOPIC] if is_new else None,
                    topic_partitions=None if self._is_told else self._owned,
                ),
            )
        )
        self._is_told = True
        self._epoch = answer.member_epoch
        if answer.assignment is not None:
            self._owned = list(answer.assignment.topic_partitions)
            self._is_told = False


class _ConsumerGroup:
    def __init__(self, node: Node, name: str) -> None:
        self._first, self._second = self._members = _ConsumerMember(node, name), _ConsumerMember(node, name)
        _heartbeat_until(lambda: self._first.partitions == PARTITIONS, self._first)

    def join(self) -> None:
        half = PARTITIONS // 2
        _heartbeat_until(lambda: all(each.partitions == half for each in self._members), self._second, self._first)

    def close(self) -> None:
        for member in self._members:
            member.close()


def _heartbeat_until(is_done: Callable[[], bool], *members: _ConsumerMember) -> None:
    for _ in range(_MOST_STEPS):
        for member in members:
            member.heartbeat()
        if is_done():
            return
    raise WrongAnswerError("the members of a group never got their partitions")


def _checked(answer: Any) -> Any:
    if answer.error_code:
        raise WrongAnswerError(f"a member was refused: {ErrorCode(answer.error_code).name}")
    return answer
