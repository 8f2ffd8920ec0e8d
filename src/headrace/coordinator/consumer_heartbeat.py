"""ConsumerGroupHeartbeat: join, stay in and leave a consumer group (KIP-848).

A member says what changed: once, everything; then mostly nothing. It hears which epoch it is in, and what it has if
that changed. What it says is compared with what is known, so a request that comes twice does no harm; and a member
whose answer was lost is known by the epoch that it had before.
"""

from collections.abc import Sequence
from typing import Final

from headrace.cluster.features import GROUP_VERSION
from headrace.coordinator.consumer_deadlines import SESSION, member_key
from headrace.coordinator.consumer_group import ConsumerGroup
from headrace.coordinator.consumer_leaving import leave
from headrace.coordinator.consumer_member import (
    JOINING,
    LEAVING,
    LEAVING_FOR_NOW,
    ConsumerMember,
    MemberState,
    Owned,
)
from headrace.coordinator.consumer_members import check_room, find_static, replace_static, unknown_member
from headrace.coordinator.consumer_reconciliation import Reported
from headrace.coordinator.consumer_update import announce, assignable_at_ms, move_on
from headrace.coordinator.draft import Draft
from headrace.coordinator.migration_upgrade import enter
from headrace.coordinator.refused import RefusedError
from headrace.coordinator.result import Client, Step, Ticket, answer
from headrace.coordinator.shard_state import ShardState
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

MAX_ID_LENGTH: Final = 1_000  # of what stands in every record of a group; clients choose 22 or 36 characters
# A member that waits for others is told to ask again soon: the least interval, and the room for each other member.
SOON_MS: Final = 100
SOON_MS_PER_MEMBER: Final = 2

_CHOSEN_IDS_SINCE: Final = 1  # clients choose their member ids themselves
_NOT_SAID: Final = -1


def consumer_group_heartbeat(
    state: ShardState,
    request: ConsumerGroupHeartbeatRequest,
    *,
    ticket: Ticket,
    client: Client,
    version: int,
    now_ms: int,
) -> Step:
    draft = Draft()
    try:
        _check_request(state, request, version)
        if request.member_epoch in (LEAVING, LEAVING_FOR_NOW):
            response = leave(state, request, draft, now_ms)
        else:
            response = _heartbeat(state, request, client, draft, now_ms)
    except RefusedError as refused:
        return answer(ticket, ConsumerGroupHeartbeatResponse(error_code=refused.code, error_message=refused.message))
    draft.answer(ticket, response)
    return draft.step()


def is_served(state: ShardState) -> bool:
    """Does this cluster have consumer groups at all?"""
    return "consumer" in state.settings.rebalance_protocols and state.image.features.get(GROUP_VERSION, 0) >= 1


# What can be said of a request without looking at its group


def _check_request(state: ShardState, request: ConsumerGroupHeartbeatRequest, version: int) -> None:
    """Raises RefusedError."""
    if not is_served(state):
        raise RefusedError(ErrorCode.UNSUPPORTED_VERSION, "This cluster does not have consumer groups.")
    epoch = request.member_epoch
    if version >= _CHOSEN_IDS_SINCE or epoch > JOINING or epoch == LEAVING:
        _check_name("MemberId", request.member_id)
    _check_name("GroupId", request.group_id)
    _check_name("InstanceId", request.instance_id)
    _check_name("RackId", request.rack_id)
    if epoch == JOINING:
        _check_first(request)
    elif epoch == LEAVING_FOR_NOW and request.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif epoch < LEAVING_FOR_NOW:
        raise _invalid("MemberEpoch is invalid.")
    assignors = state.settings.consumer_assignors
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise RefusedError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}.",
        )


def _check_name(field: str, name: str | None) -> None:
    if name is not None and all(character <= " " for character in name):
        raise _invalid(f"{field} can't be empty.")
    if name is not None and len(name) > MAX_ID_LENGTH:
        raise _invalid(f"{field} has {len(name)} characters, at most {MAX_ID_LENGTH} are allowed.")


def _check_first(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == _NOT_SAID:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")


def _invalid(message: str) -> RefusedError:
    return RefusedError(ErrorCode.INVALID_REQUEST, message)


# Joining and staying


def _heartbeat(
    state: ShardState, request: ConsumerGroupHeartbeatRequest, client: Client, draft: Draft, now_ms: int
) -> ConsumerGroupHeartbeatResponse:
    """Raises RefusedError."""
    is_joining = request.member_epoch == JOINING
    entrance = enter(state, request.group_id, draft, may_create=is_joining)
    group = entrance.group
    check_room(state, group, request.member_id)
    member_id = request.member_id or state.new_id()
    member = _find_member(group, request, member_id, draft)
    updated = _updated(member, request, client)
    announced = announce(state, group, member, updated, draft, now_ms)
    updated = move_on(state, group, updated, announced, request.topic_partitions, draft, now_ms)
    entrance.finish(state, draft, now_ms)
    settings = state.settings.of_group(state.image, group.group_id)
    key = member_key(SESSION, group.group_id, member_id)
    state.deadlines.set(key, now_ms + settings.consumer_session_timeout_ms)
    must_tell = is_joining or _is_full(request) or updated.assigned != member.assigned
    return ConsumerGroupHeartbeatResponse(
        member_id=member_id,
        member_epoch=updated.member_epoch,
        heartbeat_interval_ms=_interval_ms(
            state, group, updated, announced.epoch, settings.consumer_heartbeat_interval_ms, now_ms
        ),
        assignment=_shown(updated.assigned) if must_tell else None,
    )


def _find_member(
    group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, member_id: str, draft: Draft
) -> ConsumerMember:
    """Who sends this, as far as it is known. Raises RefusedError."""
    is_joining = request.member_epoch == JOINING
    if request.instance_id is None:
        member = group.members.get(member_id)
        if member is None and not is_joining:
            raise unknown_member(group, member_id)
    elif is_joining:
        member = group.static_member(request.instance_id)
        if member is not None:
            return _take_place(group, member, member_id, draft)
        member = group.members.get(member_id)
    else:
        member = find_static(group, member_id, request.instance_id)
    if member is None:
        return ConsumerMember(member_id)
    _check_epoch(member, request.member_epoch, request.topic_partitions)
    return member


def _take_place(group: ConsumerGroup, existing: ConsumerMember, member_id: str, draft: Draft) -> ConsumerMember:
    """A static member comes back. Raises RefusedError if the one that has its instance id has not left."""
    if existing.classic is None and existing.member_epoch != LEAVING_FOR_NOW:
        raise RefusedError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {existing.instance_id} cannot join the group because the"
            f" instance id is owned by {existing.member_id}.",
        )
    return replace_static(group, existing, member_id, draft)


def _check_epoch(member: ConsumerMember, epoch: int, reported: Reported) -> None:
    """Raises RefusedError if the member and the coordinator do not agree on where it stands."""
    if epoch in (JOINING, member.member_epoch):
        return
    # The answer that moved it on was lost. What it has since then it does not know of, so it must not report more.
    is_retry = epoch == member.previous_member_epoch and epoch < member.member_epoch
    if is_retry and reported is not None and _is_within(reported, member.assigned):
        return
    relation = "greater" if epoch > member.member_epoch else "smaller"
    raise RefusedError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {relation} member epoch ({epoch}) than the one known by the group coordinator"
        f" ({member.member_epoch}). The member must abandon all its partitions and rejoin.",
    )


def _is_within(reported: Sequence[TopicPartitions], owned: Owned) -> bool:
    return all(
        topic.topic_id in owned and all(partition in owned[topic.topic_id] for partition in topic.partitions)
        for topic in reported
    )


def _updated(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, client: Client) -> ConsumerMember:
    """The member, with what it says; what it does not say stays."""
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    timeout_ms = request.rebalance_timeout_ms
    return member._replace(
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == _NOT_SAID else timeout_ms,
        client_id=client.client_id,
        client_host=client.host,
        topics=member.topics if names is None else frozenset(names),
        regex=member.regex if regex is None else regex,
        server_assignor=member.server_assignor if request.server_assignor is None else request.server_assignor,
        classic=None,
    )


# The answer


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Did the member say everything? Then it hears everything, too: it may have lost an answer."""
    return (
        request.rebalance_timeout_ms != _NOT_SAID
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.topic_partitions is not None
    )


def _interval_ms(
    state: ShardState, group: ConsumerGroup, member: ConsumerMember, epoch: int, usual_ms: int, now_ms: int
) -> int:
    """When the next heartbeat is expected.

    Kafka always says what is configured. Here a member that waits for something that is about to happen is told to ask
    again soon: for partitions that others are giving up, for the next target, for what its pattern stands for.
    """
    soon_ms = max(SOON_MS, SOON_MS_PER_MEMBER * len(group.members))
    if group.assignment_epoch < epoch and now_ms < (assignable_ms := assignable_at_ms(state, group, now_ms)):
        return min(usual_ms, max(soon_ms, assignable_ms - now_ms))
    is_waiting = member.state is MemberState.UNRELEASED_PARTITIONS or group.group_id in state.regex_jobs
    return min(usual_ms, soon_ms) if is_waiting else usual_ms


def _shown(owned: Owned) -> Assignment:
    return Assignment([TopicPartitions(topic_id, sorted(partitions)) for topic_id, partitions in owned.items()])
