"""Members of a consumer group that speak the classic protocol: their four requests, in the terms of the new one.

While a group moves from one protocol to the other, both kinds of members are in it. The coordinator assigns for all:
a classic member never leads, and what it hears in SyncGroup is what it has by now.

    JoinGroup     says what the member wants and what it has, as a full heartbeat does; the generation is its epoch
    SyncGroup     fetches what it has
    Heartbeat     is alive; REBALANCE_IN_PROGRESS says that there is a step to make, and that it must join for it
    LeaveGroup    removes members

The kinds of a group, and the ways between them (migration_upgrade.py, migration_downgrade.py)

    classic ──first member of the new protocol──► consumer, with members of both ──last classic one goes──► consumer
       ▲                                                       │         ▲                                     │
       └────────the last one of the new protocol goes──────────┘         └───────────a classic one joins───────┘

Each way is one batch of records: the tombstones of the one kind, and all of the other. So a coordinator that takes over
finds a group of either kind, and never half of both. group.consumer.migration.policy says which ways are open; where
one is not, the member that would lead there is refused, or the group stays as it is.

Invariants
    the generation becomes the epoch and the epoch the generation, so neither goes back
    nobody loses a partition by the change itself: what members have is carried over, or a rebalance takes it in turn
    a classic member has a deadline at any time, for its next request (its own session time-out); while it makes a
    step, it has another for its JoinGroup and then its SyncGroup (its rebalance time-out)
"""

from typing import Final

from headrace.coordinator.assignors.spec import Assignment
from headrace.coordinator.classic_join import MEMBER_ID_REQUIRED_SINCE
from headrace.coordinator.classic_leave import leave_response, leaving_members
from headrace.coordinator.classic_member import Waiting
from headrace.coordinator.classic_rebalance import refuse_join
from headrace.coordinator.consumer_deadlines import JOIN, SESSION, SYNC, member_key
from headrace.coordinator.consumer_group import ConsumerGroup
from headrace.coordinator.consumer_leaving import remove_members
from headrace.coordinator.consumer_member import ConsumerMember, MemberState
from headrace.coordinator.consumer_members import (
    check_room,
    find_member,
    find_static,
    replace_static,
)
from headrace.coordinator.consumer_protocol import read_subscription, version_of, write_assignment
from headrace.coordinator.consumer_update import announce, move_on
from headrace.coordinator.draft import Draft
from headrace.coordinator.migration_downgrade import may_replace, replace_last
from headrace.coordinator.refused import RefusedError
from headrace.coordinator.result import Client, Step, Ticket, answer
from headrace.coordinator.shard_state import ShardState
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.errors import DecodeError
from headrace.protocol.messages.consumer_group_heartbeat import TopicPartitions
from headrace.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from headrace.protocol.messages.group_records import ClassicMemberMetadata, ClassicProtocol
from headrace.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from headrace.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from headrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_DISABLED: Final = "disabled"
_UNKNOWN_MEMBER: Final = ""


# JoinGroup


def join_group(
    state: ShardState,
    group: ConsumerGroup,
    request: JoinGroupRequest,
    *,
    ticket: Ticket,
    client: Client,
    version: int,
    now_ms: int,
) -> Step:
    """`group` is not empty."""
    draft, waiting = Draft(), Waiting(ticket, version)
    is_unknown = request.member_id == _UNKNOWN_MEMBER
    member_id = state.new_id() if is_unknown else request.member_id
    try:
        _check_join(state, group, request, member_id)
        if is_unknown and request.group_instance_id is None and version >= MEMBER_ID_REQUIRED_SINCE:
            refuse_join(draft, waiting, ErrorCode.MEMBER_ID_REQUIRED, member_id)
        else:
            draft.answer(ticket, _join(state, group, request, member_id, client, draft, now_ms))
    except RefusedError as refused:
        draft = Draft()
        refuse_join(draft, waiting, refused.code)
    return draft.step()


def _check_join(state: ShardState, group: ConsumerGroup, request: JoinGroupRequest, member_id: str) -> None:
    """Raises RefusedError."""
    if state.settings.consumer_migration_policy == _DISABLED:
        raise RefusedError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "group.consumer.migration.policy is disabled")
    check_room(state, group, member_id)
    known = group.subscriptions.classic_protocols
    is_common = any(known.get(protocol.name, 0) == group.classic_count for protocol in request.protocols)
    if request.protocol_type != group.protocol_type or not is_common:
        raise RefusedError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"{member_id} does not know the protocol of the others"
        )


def _join(
    state: ShardState,
    group: ConsumerGroup,
    request: JoinGroupRequest,
    member_id: str,
    client: Client,
    draft: Draft,
    now_ms: int,
) -> JoinGroupResponse:
    """Raises RefusedError."""
    existing = group.static_member(request.group_instance_id)
    member = _find_joining(group, request, existing, member_id, draft)
    subscription = _subscription(request)
    updated = _updated(member, request, subscription, client)
    reported = _reported(state, subscription)
    is_last = existing is not None and may_replace(state, group, existing)
    announced = announce(state, group, member, updated, draft, now_ms)
    if existing is not None and is_last:
        updated = replace_last(state, group, existing, updated, announced, reported, draft, now_ms)
    else:
        updated = move_on(state, group, updated, announced, reported, draft, now_ms)
        _expect_sync(state, group, request, member_id, now_ms)
    return JoinGroupResponse(
        generation_id=updated.member_epoch,
        protocol_type=group.protocol_type,
        protocol_name=updated.classic_protocols[0].name,
        member_id=member_id,
    )


def _find_joining(
    group: ConsumerGroup, request: JoinGroupRequest, existing: ConsumerMember | None, member_id: str, draft: Draft
) -> ConsumerMember:
    """Raises RefusedError."""
    instance_id = request.group_instance_id
    if instance_id is not None and request.member_id != _UNKNOWN_MEMBER:
        return find_static(group, member_id, instance_id)
    if existing is not None:
        return replace_static(group, existing, member_id, draft)
    return group.members.get(member_id, ConsumerMember(member_id))


def _subscription(request: JoinGroupRequest) -> ConsumerProtocolSubscription:
    try:
        return read_subscription(request.protocols[0].metadata)
    except DecodeError as error:
        # As in Kafka, which does not expect it either.
        raise RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the subscription cannot be read: {error}") from error


def _updated(
    member: ConsumerMember, request: JoinGroupRequest, subscription: ConsumerProtocolSubscription, client: Client
) -> ConsumerMember:
    protocols = [ClassicProtocol(protocol.name, protocol.metadata) for protocol in request.protocols]
    return member._replace(
        instance_id=member.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        client_id=client.client_id,
        client_host=client.host,
        topics=frozenset(subscription.topics),
        regex="",
        classic=ClassicMemberMetadata(request.session_timeout_ms, protocols),
    )


def _reported(state: ShardState, subscription: ConsumerProtocolSubscription) -> list[TopicPartitions]:
    """What the member says it has; one that gives up everything before it joins says nothing."""
    named = ((state.image.topic_ids.get(owned.topic), owned.partitions) for owned in subscription.owned_partitions)
    return [TopicPartitions(topic_id, partitions) for topic_id, partitions in named if topic_id is not None]


def _expect_sync(
    state: ShardState, group: ConsumerGroup, request: JoinGroupRequest, member_id: str, now_ms: int
) -> None:
    group_id, deadlines = group.group_id, state.deadlines
    deadlines.cancel(member_key(JOIN, group_id, member_id))
    deadlines.set(member_key(SESSION, group_id, member_id), now_ms + request.session_timeout_ms)
    deadlines.set(member_key(SYNC, group_id, member_id), now_ms + request.rebalance_timeout_ms)


# SyncGroup and Heartbeat


def sync_group(
    state: ShardState, group: ConsumerGroup, request: SyncGroupRequest, *, ticket: Ticket, now_ms: int
) -> Step:
    try:
        member = _find_classic(group, request.member_id, request.group_instance_id, request.generation_id)
        _check_protocol(group, member, request)
        if group.assignment_epoch > member.member_epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            _expect_join(state, group, member, now_ms)
            raise RefusedError(ErrorCode.REBALANCE_IN_PROGRESS, f"{member.member_id} must join again")
    except RefusedError as refused:
        return answer(ticket, SyncGroupResponse(error_code=refused.code))
    state.deadlines.cancel(member_key(SYNC, group.group_id, member.member_id))
    _keep_alive(state, group, member, now_ms)
    assigned: Assignment = {topic_id: tuple(sorted(indexes)) for topic_id, indexes in member.assigned.items()}
    # Its metadata was read when it joined, or when the group was converted.
    version = version_of(member.classic_protocols[0].metadata)
    response = SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=write_assignment(assigned, state.image, version),
    )
    return answer(ticket, response)


def heartbeat(
    state: ShardState, group: ConsumerGroup, request: HeartbeatRequest, *, ticket: Ticket, now_ms: int
) -> Step:
    try:
        member = _find_classic(group, request.member_id, request.group_instance_id, request.generation_id)
    except RefusedError as refused:
        return answer(ticket, HeartbeatResponse(error_code=refused.code))
    _keep_alive(state, group, member, now_ms)
    if not _has_step_to_make(group, member):
        return answer(ticket, HeartbeatResponse())
    _expect_join(state, group, member, now_ms)
    return answer(ticket, HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))


def _has_step_to_make(group: ConsumerGroup, member: ConsumerMember) -> bool:
    if member.member_epoch < group.assignment_epoch or member.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    return member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member)


def _find_classic(group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int) -> ConsumerMember:
    """Raises RefusedError."""
    member = find_member(group, member_id, instance_id)
    if member.classic is None:
        raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} does not speak the classic protocol")
    if generation != member.member_epoch:
        raise RefusedError(
            ErrorCode.ILLEGAL_GENERATION, f"{member_id} is in epoch {member.member_epoch}, not {generation}"
        )
    return member


def _check_protocol(group: ConsumerGroup, member: ConsumerMember, request: SyncGroupRequest) -> None:
    """Raises RefusedError."""
    protocol = member.classic_protocols[0].name
    is_type = request.protocol_type in (None, group.protocol_type)
    if not is_type or request.protocol_name not in (None, protocol):
        raise RefusedError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"{member.member_id} joined with {protocol}")


def _keep_alive(state: ShardState, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
    assert member.classic is not None, f"{member.member_id} does not speak the classic protocol"
    key = member_key(SESSION, group.group_id, member.member_id)
    state.deadlines.set(key, now_ms + member.classic.session_timeout_ms)


def _expect_join(state: ShardState, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
    """From the first time that it was told."""
    key = member_key(JOIN, group.group_id, member.member_id)
    if key not in state.deadlines:
        state.deadlines.set(key, now_ms + member.rebalance_timeout_ms)


# LeaveGroup


def leave_group(
    state: ShardState, group: ConsumerGroup, request: LeaveGroupRequest, *, ticket: Ticket, version: int, now_ms: int
) -> Step:
    draft = Draft()
    identities = leaving_members(request, version)
    leaving: dict[str, ConsumerMember] = {}
    codes = [_find_leaving(group, identity, leaving) for identity in identities]
    said = next((identity.reason for identity in identities if identity.reason), "nothing")
    reason = f"{', '.join(leaving)} left; it says: {said}"
    remove_members(state, group, list(leaving.values()), reason, draft, now_ms)
    draft.answer(ticket, leave_response(identities, codes, version))
    return draft.step()


def _find_leaving(group: ConsumerGroup, identity: MemberIdentity, leaving: dict[str, ConsumerMember]) -> ErrorCode:
    """Whether there is such a member; it is put into `leaving`. An administrator names an instance id alone."""
    member = group.static_member(identity.group_instance_id)
    try:
        if member is None or identity.member_id:
            member = find_member(group, identity.member_id, identity.group_instance_id)
    except RefusedError as refused:
        return refused.code
    leaving[member.member_id] = member
    return ErrorCode.NONE
