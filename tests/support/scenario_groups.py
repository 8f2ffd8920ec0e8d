"""The verbs of stories about classic groups and offsets.

Whoever acts has a name, and knows what a client would: its member id, generation and instance id in each group.

    config group.max.size=2             before anything else
    topic t 2 / deletes-topic t         the cluster's metadata
    given g A=t-0 B/i2=t-1              a stable group, B static; nothing is told of how it came about
    A enters g as=i1 on=t,u             JoinGroup, once more with the id that it was given if it must
    A joins g                           JoinGroup, once. Options: as (instance), on (topics), with (protocols), type,
                                        session, rebalance, id, because, v
    A syncs g A=t-0,t-1 B=t-2           SyncGroup; a leader says who gets what. Options: generation, v
    A heartbeats g                      options: generation, id
    A stays g 5m                        Heartbeat every three seconds; the last answer is told
    A leaves g                          options: v, because; `admin removes g i1 i2` names static members
    A commits g t-0=5 t-1=7             options: epoch, meta, generation, id, v, retention
    P7 commits g in-transaction t-0=5   TxnOffsetCommit of producer 7
    A fetches g t-0 / all               options: v; `stable`
    A forgets g t-0                     OffsetDelete
    P7 ends commit / abort              the marker of the producer's transaction
    restart group.max.size=2            a new coordinator from the log, perhaps with other configs
    clock 3s / describe g / list state=.. type=.. / delete g
"""

from collections.abc import Callable, Sequence
from typing import Any

from headrace.coordinator.groups import GroupShard
from headrace.coordinator.result import Step, Ticket
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse, TopicPartitions
from headrace.protocol.messages.heartbeat import HeartbeatRequest
from headrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from headrace.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from headrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headrace.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from headrace.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from headrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from headrace.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from headrace.protocol.types import ZERO_UUID
from tests.support.consumer_protocol import assignment_bytes, place_of, subscription_bytes
from tests.support.group_driver import NO_DELAY, GroupDriver, client_of
from tests.support.scenario import Verb, Words, pass_time, to_ms
from tests.support.scenario_texts import answer_text, record_text


class Membership:
    """What a client knows of itself in one group."""

    def __init__(self) -> None:
        self.member_id = ""
        self.generation = -1  # or the epoch
        self.instance_id: str | None = None
        self.protocol: tuple[str | None, str | None] = (None, None)  # type and name
        self.topics: list[str] | None = None
        self.owned: Sequence[TopicPartitions] = ()


class GroupStage:
    """A driver, and who acts on it."""

    def __init__(self) -> None:
        self.configs = dict(NO_DELAY)
        self._driver: GroupDriver | None = None
        self.memberships: dict[tuple[str, str], Membership] = {}
        self.waiting: dict[Ticket, tuple[str, str]] = {}  # who sent it, and to which group
        self._shown = 0  # steps of the driver that were told

    @property
    def driver(self) -> GroupDriver:
        if self._driver is None:
            self._driver = GroupDriver(self.configs)
        return self._driver

    def membership(self, actor: str, group_id: str) -> Membership:
        return self.memberships.setdefault((actor, group_id), Membership())

    def send(self, actor: str, group_id: str, decide: Callable[[GroupShard, Ticket], Step]) -> list[str]:
        ticket = self.driver.send(decide)
        self.waiting[ticket] = (actor, group_id)
        lines = self.news(ticket)
        return ["-> waits", *lines] if ticket in self.waiting else lines

    def news(self, own: Ticket | None = None) -> list[str]:
        """What happened since the last time somebody asked; `own` is the request that the story tells of."""
        steps = self.driver.steps[self._shown :]
        self._shown = len(self.driver.steps)
        return [line for step in steps for line in self._tell(step, own)]

    def _tell(self, step: Step, own: Ticket | None) -> list[str]:
        producer = f" for producer {step.producer.producer_id}" if step.producer is not None else ""
        lines = [f"log {notice}" for notice in step.notices]
        lines += [f"writes {record_text(record)}{producer}" for record in step.records]
        for ticket, response in sorted(step.answers, key=lambda answer: answer.ticket != own):
            actor, group_id = self.waiting.pop(ticket)
            self.driver.answers.pop(ticket)
            self._learn(actor, group_id, response)
            arrow = "->" if ticket == own else f"{actor} <-"
            lines.append(f"{arrow} {answer_text(response)}")
        return lines

    def _learn(self, actor: str, group_id: str, response: Any) -> None:
        if isinstance(response, JoinGroupResponse):
            membership = self.membership(actor, group_id)
            if response.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
                membership.member_id = response.member_id
            if not response.error_code:
                membership.generation = response.generation_id
                membership.protocol = (response.protocol_type, response.protocol_name)
        elif isinstance(response, ConsumerGroupHeartbeatResponse) and not response.error_code:
            membership = self.membership(actor, group_id)
            membership.member_id = response.member_id or ""
            membership.generation = response.member_epoch
            if response.assignment is not None:
                membership.owned = response.assignment.topic_partitions


# The world


def _config(stage: GroupStage, _: str, words: Words) -> list[str]:
    assert stage._driver is None, "configs come first"
    stage.configs.update(_pairs(words))
    return []


def _pairs(words: Words) -> dict[str, str]:
    return {name: value for name, _, value in (thing.partition("=") for thing in words.things)}


def _topic(stage: GroupStage, _: str, words: Words) -> list[str]:
    name, partitions = words.things
    stage.driver.make_topic(name, int(partitions), words.number("number", 0))
    return stage.news()


def _delete_topic(stage: GroupStage, _: str, words: Words) -> list[str]:
    stage.driver.delete_topic(words.things[0])
    return stage.news()


def _clock(stage: GroupStage, _: str, words: Words) -> list[str]:
    return pass_time(stage, to_ms(words.things[0]))


def _restart(stage: GroupStage, _: str, words: Words) -> list[str]:
    stage.configs.update(_pairs(words))
    stage.driver.configure(stage.configs)
    lines = [f"{actor} <- nothing, the coordinator is gone" for actor, _ in stage.waiting.values()]
    stage.waiting.clear()
    stage.driver.restart()
    return lines + stage.news()


# Classic groups


def _join(stage: GroupStage, actor: str, words: Words) -> list[str]:
    (group_id,) = words.things
    membership = stage.membership(actor, group_id)
    if "as" in words.options:
        membership.instance_id = words.text("as") or None
    if "id" in words.options:
        membership.member_id = words.text("id") or ""
    owned = words.names("has", "") if "has" in words.options else None
    topics = words.names("on", "t")
    subscription = b"in a language of its own" if topics == ["?"] else subscription_bytes(topics, owned)
    request = JoinGroupRequest(
        group_id,
        words.ms("session", 10_000),
        words.ms("rebalance", 60_000),
        membership.member_id,
        membership.instance_id,
        words.text("type") if "type" in words.options else "consumer",  # type: ignore[arg-type]
        [JoinGroupRequestProtocol(name, subscription) for name in words.names("with", "range")],
        words.text("because"),
    )
    client, version = client_of(actor), words.number("v", 9)
    return stage.send(
        actor,
        group_id,
        lambda shard, ticket: shard.join_group(
            request, ticket=ticket, client=client, version=version, now_ms=stage.driver.now_ms
        ),
    )


def _enter(stage: GroupStage, actor: str, words: Words) -> list[str]:
    lines = _join(stage, actor, words)
    again = bool(lines) and lines[-1].startswith("-> MEMBER_ID_REQUIRED")
    return lines[:-1] + _join(stage, actor, words.without("id")) if again else lines


def _given(stage: GroupStage, _: str, words: Words) -> list[str]:
    """Everybody joins once with the first member alone there, and then once more with all."""
    group_id, *shares = words.things
    options = [f"{name}={words.text(name)}" for name in words.options]
    names = {share.partition("=")[0]: share.partition("=")[2] for share in shares}
    actors = [name.partition("/")[0] for name in names]
    for name in (*names, *list(names)[:1]) if len(names) > 1 else names:
        actor, _, instance = name.partition("/")
        _enter(stage, actor, Words([group_id, *options, *([f"as={instance}"] if instance else [])]))
    _sync(
        stage,
        actors[0],
        Words([group_id, *(f"{who}={what}" for who, what in zip(actors, names.values(), strict=True))]),
    )
    for actor in actors[1:]:
        _sync(stage, actor, Words([group_id]))
    return []


def _stay(stage: GroupStage, actor: str, words: Words) -> list[str]:
    group_id, duration = words.things
    start_ms, lines, answer = stage.driver.now_ms, [], ["-> nothing"]
    for _ in range(to_ms(duration) // 3_000):
        stage.driver.move(3_000)
        lines += [f"+{stage.driver.now_ms - start_ms} ms {line}" for line in stage.news()]
        answer = _heartbeat(stage, actor, Words([group_id]))
    return lines + answer


def _sync(stage: GroupStage, actor: str, words: Words) -> list[str]:
    group_id, *shares = words.things
    membership = stage.membership(actor, group_id)
    assignments = []
    for share in shares:
        who, _, what = share.partition("=")
        member_id = stage.membership(who, group_id).member_id
        assignment = assignment_bytes(what.split(",")) if what else b""
        assignments.append(SyncGroupRequestAssignment(member_id, assignment))
    request = SyncGroupRequest(
        group_id,
        words.number("generation", membership.generation),
        membership.member_id,
        membership.instance_id,
        words.text("type") or membership.protocol[0],
        words.text("with") or membership.protocol[1],
        assignments,
    )
    return stage.send(
        actor,
        group_id,
        lambda shard, ticket: shard.sync_group(request, ticket=ticket, now_ms=stage.driver.now_ms),
    )


def _heartbeat(stage: GroupStage, actor: str, words: Words) -> list[str]:
    (group_id,) = words.things
    membership = stage.membership(actor, group_id)
    request = HeartbeatRequest(
        group_id,
        words.number("generation", membership.generation),
        words.text("id") or membership.member_id,
        membership.instance_id,
    )
    return stage.send(
        actor, group_id, lambda shard, ticket: shard.heartbeat(request, ticket=ticket, now_ms=stage.driver.now_ms)
    )


def _leave(stage: GroupStage, actor: str, words: Words) -> list[str]:
    (group_id,) = words.things
    membership = stage.membership(actor, group_id)
    version = words.number("v", 5)
    if version < 3:
        request = LeaveGroupRequest(group_id, membership.member_id)
    else:
        identity = MemberIdentity(membership.member_id, membership.instance_id, words.text("because"))
        request = LeaveGroupRequest(group_id, members=[identity])
    return _send_leave(stage, actor, request, version)


def _remove(stage: GroupStage, actor: str, words: Words) -> list[str]:
    group_id, *instances = words.things
    members = [MemberIdentity("", instance, words.text("because")) for instance in instances]
    return _send_leave(stage, actor, LeaveGroupRequest(group_id, members=members), 5)


def _send_leave(stage: GroupStage, actor: str, request: LeaveGroupRequest, version: int) -> list[str]:
    return stage.send(
        actor,
        request.group_id,
        lambda shard, ticket: shard.leave_group(request, ticket=ticket, version=version, now_ms=stage.driver.now_ms),
    )


# Offsets


def _commit(stage: GroupStage, actor: str, words: Words) -> list[str]:
    is_transactional = words.flag("in-transaction")
    group_id, *places = words.things
    membership = stage.membership(actor, group_id)
    rows = [(*place_of(place.partition("=")[0]), int(place.partition("=")[2])) for place in places]
    epoch, metadata = words.number("epoch", -1), words.text("meta")
    generation = words.number("generation", membership.generation)
    if is_transactional:
        txn_request = TxnOffsetCommitRequest(
            "tx",
            group_id,
            int(actor.removeprefix("P")),
            0,
            generation,
            words.text("id") or membership.member_id,
            membership.instance_id,
            [
                TxnOffsetCommitRequestTopic(topic, [TxnOffsetCommitRequestPartition(index, offset, epoch, metadata)])
                for topic, index, offset in rows
            ],
        )
        return stage.send(
            actor,
            group_id,
            lambda shard, ticket: shard.txn_offset_commit(
                txn_request, ticket=ticket, version=5, now_ms=stage.driver.now_ms
            ),
        )
    version = words.number("v", 9)
    request = OffsetCommitRequest(
        group_id,
        generation,
        words.text("id") or membership.member_id,
        membership.instance_id,
        words.ms("retention", -1),
        [
            OffsetCommitRequestTopic(
                "" if version >= 10 else topic,
                stage.driver.image.topic_ids.get(topic, b"?" * 16) if version >= 10 else ZERO_UUID,
                [OffsetCommitRequestPartition(index, offset, epoch, metadata)],
            )
            for topic, index, offset in rows
        ],
    )
    return stage.send(
        actor,
        group_id,
        lambda shard, ticket: shard.offset_commit(request, ticket=ticket, version=version, now_ms=stage.driver.now_ms),
    )


def _fetch(stage: GroupStage, actor: str, words: Words) -> list[str]:
    require_stable = words.flag("stable")
    group_id, *places = words.things
    version = words.number("v", 9)
    topics = None
    if places != ["all"]:
        topics = [
            OffsetFetchRequestTopics(
                "" if version >= 10 else topic,
                stage.driver.image.topic_ids.get(topic, b"?" * 16) if version >= 10 else ZERO_UUID,
                [index],
            )
            for topic, index in map(place_of, places)
        ]
    asked = OffsetFetchRequestGroup(group_id, topics=topics)
    found = stage.driver.shard.fetch_offsets(asked, version=version, require_stable=require_stable)
    return [f"-> {answer_text(found)}"]


def _forget(stage: GroupStage, actor: str, words: Words) -> list[str]:
    group_id, *places = words.things
    request = OffsetDeleteRequest(
        group_id,
        [
            OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(index)])
            for topic, index in map(place_of, places)
        ],
    )
    return stage.send(actor, group_id, lambda shard, ticket: shard.offset_delete(request, ticket=ticket))


def _end(stage: GroupStage, actor: str, words: Words) -> list[str]:
    stage.driver.end_transaction(int(actor.removeprefix("P")), committed=words.things == ["commit"])
    return []


# All groups


def _describe(stage: GroupStage, _: str, words: Words) -> list[str]:
    described = stage.driver.shard.describe_group(words.things[0], version=words.number("v", 6))
    return [f"-> {answer_text(described)}"]


def _list(stage: GroupStage, _: str, words: Words) -> list[str]:
    listed = stage.driver.shard.list_groups(words.names("state", ""), words.names("type", ""))
    return [
        f"-> {row.group_id} is {row.group_state}, a {row.group_type} group of {row.protocol_type or 'nobody'}"
        for row in listed
    ] or ["-> nothing"]


def _delete(stage: GroupStage, actor: str, words: Words) -> list[str]:
    (group_id,) = words.things
    return stage.send(actor, group_id, lambda shard, ticket: shard.delete_group(group_id, ticket=ticket))


GROUP_VERBS: dict[str, Verb] = {
    "config": _config,
    "topic": _topic,
    "deletes-topic": _delete_topic,
    "clock": _clock,
    "restart": _restart,
    "given": _given,
    "joins": _join,
    "enters": _enter,
    "syncs": _sync,
    "heartbeats": _heartbeat,
    "stays": _stay,
    "leaves": _leave,
    "removes": _remove,
    "commits": _commit,
    "fetches": _fetch,
    "forgets": _forget,
    "ends": _end,
    "describe": _describe,
    "list": _list,
    "delete": _delete,
}
