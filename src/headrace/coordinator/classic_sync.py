"""SyncGroup: the leader of a generation hands out the assignment, and every member gets its own."""

from headrace.coordinator.classic_group import ClassicGroup, ClassicState
from headrace.coordinator.classic_rebalance import (
    SYNC,
    count_members,
    fits_record,
    give_up_assignment,
    prepare,
    set_session,
)
from headrace.coordinator.draft import Draft
from headrace.coordinator.group_records import group_metadata
from headrace.coordinator.result import Step, Ticket, answer
from headrace.coordinator.shard_state import ShardState
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def sync_group(state: ShardState, request: SyncGroupRequest, *, ticket: Ticket, now_ms: int) -> Step:
    group = state.groups.get(request.group_id)
    code = _check(group, request)
    if code:
        return answer(ticket, SyncGroupResponse(error_code=code))
    assert isinstance(group, ClassicGroup), f"{request.group_id} is {group}"
    draft = Draft()
    _has_synced(state, group, request.member_id)
    if group.state is ClassicState.STABLE:
        draft.answer(ticket, _assignment(group, request.member_id))
    else:
        member = group.members[request.member_id]
        if member.sync is not None:
            # The client gave up waiting for this answer; a connection that is still there must not wait for ever.
            draft.answer(member.sync, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        member.sync = ticket
        if request.member_id == group.leader_id:
            _assign(state, group, request, draft, now_ms)
    return draft.step()


def _check(group: object, request: SyncGroupRequest) -> ErrorCode:
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if not isinstance(group, ClassicGroup) or group.is_empty:
        return ErrorCode.UNKNOWN_MEMBER_ID
    code = group.check_member(request.member_id, request.group_instance_id)
    if code:
        return code
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if _differ(request.protocol_type, group.protocol_type) or _differ(request.protocol_name, group.protocol):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is ClassicState.PREPARING else ErrorCode.NONE


def _differ(said: str | None, known: str | None) -> bool:
    """Older clients do not say it."""
    return said is not None and known is not None and said != known


def _has_synced(state: ShardState, group: ClassicGroup, member_id: str) -> None:
    group.pending_syncs.pop(member_id, None)
    if not group.pending_syncs:
        state.deadlines.cancel((SYNC, group.group_id))


def _assign(state: ShardState, group: ClassicGroup, request: SyncGroupRequest, draft: Draft, now_ms: int) -> None:
    """The leader has spoken: the generation is written, and everybody who asked gets its part."""
    assignments = {each.member_id: each.assignment for each in request.assignments if each.member_id in group.members}
    if not fits_record(state, group, assignments):
        give_up_assignment(state, group, ErrorCode.UNKNOWN_SERVER_ERROR, draft, now_ms)
        reason = f"the assignment of leader {request.member_id} and the metadata of all members are too large to write"
        prepare(state, group, reason, draft, now_ms)
        return
    draft.write(group_metadata(group.group_id, group.value(assignments)))
    group.move_to(ClassicState.STABLE, now_ms)
    for member_id, member in group.members.items():
        member.assignment = assignments.get(member_id, b"")
        if member.sync is not None:
            draft.answer(member.sync, _assignment(group, member_id))
            member.sync = None
            set_session(state, group, member, now_ms)
    draft.notice(
        f"[group {group.group_id} generation {group.generation}] is stable:"
        f" {request.member_id} assigned to {count_members(group)} with {group.protocol}"
    )


def _assignment(group: ClassicGroup, member_id: str) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        assignment=group.members[member_id].assignment,
    )
