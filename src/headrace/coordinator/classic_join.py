"""JoinGroup: become a member of a classic group, and learn which generation this makes.

A new dynamic member is given an id first and must join again with it (KIP-394), so that a client that gives up waiting
and tries again does not leave members behind that nobody is. A static member (KIP-345) is known by its instance id: it
takes its old place, and whoever still acts under the old member id is fenced.
"""

from typing import Final

from headrace.coordinator.classic_group import ClassicGroup, ClassicState
from headrace.coordinator.classic_member import ClassicMember, Waiting
from headrace.coordinator.classic_rebalance import (
    NEW_MEMBER_JOIN_TIMEOUT_MS,
    accept_join,
    complete_if_all_joined,
    drop_member,
    fits_record,
    prepare,
    prepare_or_complete,
    refuse_join,
    session_key,
    set_session,
)
from headrace.coordinator.draft import Draft
from headrace.coordinator.group_records import group_metadata
from headrace.coordinator.result import Client, Step, Ticket
from headrace.coordinator.shard_state import ShardState
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.join_group import JoinGroupRequest
from headrace.protocol.messages.sync_group import SyncGroupResponse

MEMBER_ID_REQUIRED_SINCE: Final = 4
SKIP_ASSIGNMENT_SINCE: Final = 9
MAX_NAME_BYTES: Final = 32_000  # what fits into the group's record, also as a part of a member id
# Ids that were given out and not yet used: ten times the members of a very large group, each for a session time-out.
MAX_PENDING_JOINS: Final = 10_000

_UNKNOWN_MEMBER: Final = ""
_NOT_SAID: Final = -1


def join_group(
    state: ShardState, request: JoinGroupRequest, *, ticket: Ticket, client: Client, version: int, now_ms: int
) -> Step:
    """`request` is `normalized`, and `check_request` has no objection."""
    draft = Draft()
    _join(state, request, Waiting(ticket, version), client, draft, now_ms)
    return draft.step()


def refuse(request: JoinGroupRequest, code: ErrorCode, *, ticket: Ticket, version: int) -> Step:
    draft = Draft()
    refuse_join(draft, Waiting(ticket, version), code, request.member_id)
    return draft.step()


def normalized(request: JoinGroupRequest, version: int) -> JoinGroupRequest:
    """As the newest version would say it; of protocols with the same name only the first counts."""
    protocols = {protocol.name: protocol for protocol in reversed(request.protocols)}
    if len(protocols) != len(request.protocols):
        kept = [protocol for protocol in request.protocols if protocols[protocol.name] is protocol]
        request = request._replace(protocols=kept)
    # Version 0 cannot say it; and a record that says -1 is read in the same way, by us and by Kafka.
    is_said = version > 0 and request.rebalance_timeout_ms != _NOT_SAID
    return request if is_said else request._replace(rebalance_timeout_ms=request.session_timeout_ms)


def check_request(state: ShardState, request: JoinGroupRequest, client: Client) -> ErrorCode:
    """What can be said of a request without looking at its group."""
    settings = state.settings
    if not request.group_id or _is_too_long(request.group_id):
        return ErrorCode.INVALID_GROUP_ID
    if not settings.min_session_timeout_ms <= request.session_timeout_ms <= settings.max_session_timeout_ms:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    names = [client.client_id, request.group_instance_id or "", request.protocol_type]
    names += [protocol.name for protocol in request.protocols]
    return ErrorCode.INVALID_REQUEST if any(map(_is_too_long, names)) else ErrorCode.NONE


def _is_too_long(name: str) -> bool:
    return len(name) * 4 > MAX_NAME_BYTES and len(name.encode()) > MAX_NAME_BYTES


def _join(
    state: ShardState, request: JoinGroupRequest, join: Waiting, client: Client, draft: Draft, now_ms: int
) -> None:
    group = state.groups.get(request.group_id)
    is_unknown = request.member_id == _UNKNOWN_MEMBER
    if not isinstance(group, ClassicGroup):
        if not is_unknown:
            refuse_join(draft, join, ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
            return
        if not (request.protocol_type and request.protocols):
            refuse_join(draft, join, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            return
        if group is not None:
            draft.write(*group.tombstones())  # it is empty, and changes its kind
        group = state.groups[request.group_id] = ClassicGroup(request.group_id, now_ms=now_ms)
        draft.write(group_metadata(group.group_id, group.value({})))
    if not _has_room(state, group, request.member_id):
        drop_member(state, group, request.member_id, draft)
        refuse_join(draft, join, ErrorCode.GROUP_MAX_SIZE_REACHED)
        complete_if_all_joined(state, group, draft, now_ms)
    elif not group.supports(request.protocol_type, request.protocols):
        refuse_join(draft, join, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
    elif is_unknown:
        _join_unknown(state, group, request, join, client, draft, now_ms)
    else:
        _join_known(state, group, request, join, client, draft, now_ms)


def _has_room(state: ShardState, group: ClassicGroup, member_id: str) -> bool:
    """Of a group that is too large, whoever joins first stays."""
    most = state.settings.max_size
    member = group.members.get(member_id)
    if group.is_empty:
        return True
    if group.state is ClassicState.PREPARING:
        return (member is not None and member.join is not None) or group.awaiting_joins < most
    return member is not None or len(group.members) < most


def _join_unknown(
    state: ShardState,
    group: ClassicGroup,
    request: JoinGroupRequest,
    join: Waiting,
    client: Client,
    draft: Draft,
    now_ms: int,
) -> None:
    instance_id = request.group_instance_id
    member_id = f"{client.client_id if instance_id is None else instance_id}-{state.new_id()}"
    if instance_id is not None and instance_id in group.static_members:
        _return_static(state, group, request, member_id, join, draft, now_ms)
    elif instance_id is None and len(group.pending_joins) >= MAX_PENDING_JOINS:
        refuse_join(draft, join, ErrorCode.GROUP_MAX_SIZE_REACHED)
    elif instance_id is None and join.version >= MEMBER_ID_REQUIRED_SINCE:
        group.pending_joins[member_id] = None
        state.deadlines.set(session_key(group, member_id), now_ms + request.session_timeout_ms)
        refuse_join(draft, join, ErrorCode.MEMBER_ID_REQUIRED, member_id)
    else:
        _add(state, group, request, member_id, join, client, draft, now_ms)


def _join_known(
    state: ShardState,
    group: ClassicGroup,
    request: JoinGroupRequest,
    join: Waiting,
    client: Client,
    draft: Draft,
    now_ms: int,
) -> None:
    member_id, instance_id = request.member_id, request.group_instance_id
    if member_id in group.pending_joins and instance_id is None:
        _add(state, group, request, member_id, join, client, draft, now_ms)
        return
    code = group.check_member(member_id, instance_id)
    if code:
        refuse_join(draft, join, code, member_id)
        return
    member = group.members[member_id]
    is_leader = member_id == group.leader_id
    has_changed = not member.knows(request.protocols)
    if group.state is ClassicState.COMPLETING and not has_changed:
        # The answer was lost on its way, and the member asks again.
        draft.answer(join.ticket, accept_join(group, member_id, with_roster=is_leader))
    elif group.state is ClassicState.STABLE and not has_changed and not is_leader:
        draft.answer(join.ticket, accept_join(group, member_id, with_roster=False))
    else:
        # A leader joins again without a change when it has seen that the topics or their partitions changed.
        what = "joins with other metadata" if has_changed else "joins again"
        who = f"leader {member_id}" if is_leader else f"member {member_id}"
        _update(group, member, request, join, draft)
        prepare_or_complete(state, group, f"{who} {what}; it says: {_reason(request)}", draft, now_ms)


def _add(
    state: ShardState,
    group: ClassicGroup,
    request: JoinGroupRequest,
    member_id: str,
    join: Waiting,
    client: Client,
    draft: Draft,
    now_ms: int,
) -> None:
    member = ClassicMember(
        member_id,
        request.group_instance_id,
        client.client_id,
        client.host,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        protocols=request.protocols,
    )
    member.is_new = True
    if not group.members:
        group.protocol_type = request.protocol_type
    group.is_grown = group.initial_delay is not None
    group.add(member, join)
    state.deadlines.set(session_key(group, member_id), now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS)
    instance = "" if member.instance_id is None else f" with instance id {member.instance_id}"
    reason = f"member {member_id}{instance} of {client.client_id} on {client.host} is new; it says: {_reason(request)}"
    prepare_or_complete(state, group, reason, draft, now_ms)


def _update(
    group: ClassicGroup,
    member: ClassicMember,
    request: JoinGroupRequest,
    join: Waiting,
    draft: Draft,
) -> None:
    if member.join is not None:
        # The client gave up waiting for this answer; a connection that is still there must not wait for ever.
        refuse_join(draft, member.join, ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
    group.update(
        member,
        request.protocols,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
    )
    group.await_join(member, join)


def _return_static(
    state: ShardState,
    group: ClassicGroup,
    request: JoinGroupRequest,
    member_id: str,
    join: Waiting,
    draft: Draft,
    now_ms: int,
) -> None:
    """A static member starts anew. If nothing about it changed, the group goes on as it is."""
    old_id = group.static_members[request.group_instance_id or ""]
    member = group.members[old_id]
    old_leader = group.leader_id
    _fence(state, group, member, draft)
    group.replace_static(member, member_id)
    set_session(state, group, member, now_ms)
    _update(group, member, request, join, draft)
    who = f"static member {member.instance_id} is back as {member_id}"
    if group.state is ClassicState.PREPARING:
        complete_if_all_joined(state, group, draft, now_ms)
    elif group.state is ClassicState.COMPLETING:
        prepare(state, group, f"{who}; it says: {_reason(request)}", draft, now_ms)
    elif group.select_protocol() != group.protocol or not fits_record(state, group, group.assignments()):
        reason = f"{who} with other protocols; it says: {_reason(request)}"
        prepare(state, group, reason, draft, now_ms)
    else:
        _resume_static(group, member, join, old_leader, draft)
        draft.notice(f"[group {group.group_id} generation {group.generation}] {who}, and nothing changes")


def _resume_static(
    group: ClassicGroup, member: ClassicMember, join: Waiting, old_leader: str | None, draft: Draft
) -> None:
    group.await_join(member, None)
    group.read_topics()  # it may have come back with others, and a new coordinator would know
    draft.write(group_metadata(group.group_id, group.value(group.assignments())))
    if join.version >= SKIP_ASSIGNMENT_SINCE:
        is_leader = member.member_id == group.leader_id
        response = accept_join(group, member.member_id, with_roster=is_leader, skip=is_leader)
    else:
        # An old client that is told that it leads would make an assignment, which a stable group does not take: the
        # id that it had before lets it follow.
        response = accept_join(group, member.member_id, with_roster=False)._replace(leader=old_leader or "")
    draft.answer(join.ticket, response)


def _fence(state: ShardState, group: ClassicGroup, member: ClassicMember, draft: Draft) -> None:
    """Whoever waits under the member's old id is told that somebody else has its instance id."""
    if member.join is not None:
        refuse_join(draft, member.join, ErrorCode.FENCED_INSTANCE_ID, member.member_id)
        group.await_join(member, None)
    if member.sync is not None:
        draft.answer(member.sync, SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
        member.sync = None
    state.deadlines.cancel(session_key(group, member.member_id))


def _reason(request: JoinGroupRequest) -> str:
    return request.reason or "nothing"
