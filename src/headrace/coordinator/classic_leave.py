"""LeaveGroup: members of a classic group go, and the others share what they had at once.

Several may go with one request, also on behalf of others: an administrator names static members by instance id alone.
"""

from typing import Final

from headrace.coordinator.classic_group import ClassicGroup, ClassicState
from headrace.coordinator.classic_rebalance import complete_if_all_joined, drop_member, prepare
from headrace.coordinator.draft import Draft
from headrace.coordinator.result import Step, Ticket, answer
from headrace.coordinator.shard_state import ShardState
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

_SEVERAL_SINCE: Final = 3


def leave_group(state: ShardState, request: LeaveGroupRequest, *, ticket: Ticket, version: int, now_ms: int) -> Step:
    if not request.group_id:
        return answer(ticket, LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
    identities = leaving_members(request, version)
    group = state.groups.get(request.group_id)
    draft = Draft()
    if isinstance(group, ClassicGroup):
        codes = [_leave(state, group, identity, draft) for identity in identities]
        gone = [_name(identity) for identity, code in zip(identities, codes, strict=True) if not code]
        if gone:
            _go_on_without(state, group, gone, draft, now_ms)
    else:
        codes = [ErrorCode.UNKNOWN_MEMBER_ID for _ in identities]
    draft.answer(ticket, leave_response(identities, codes, version))
    return draft.step()


def leaving_members(request: LeaveGroupRequest, version: int) -> list[MemberIdentity]:
    """Older versions name one member only."""
    return list(request.members) if version >= _SEVERAL_SINCE else [MemberIdentity(request.member_id)]


def leave_response(identities: list[MemberIdentity], codes: list[ErrorCode], version: int) -> LeaveGroupResponse:
    if version < _SEVERAL_SINCE:
        return LeaveGroupResponse(error_code=codes[0])
    return LeaveGroupResponse(
        members=[
            MemberResponse(identity.member_id, identity.group_instance_id, code)
            for identity, code in zip(identities, codes, strict=True)
        ]
    )


def _leave(state: ShardState, group: ClassicGroup, identity: MemberIdentity, draft: Draft) -> ErrorCode:
    member_id, instance_id = identity.member_id, identity.group_instance_id
    if not member_id:
        found = None if instance_id is None else group.static_members.get(instance_id)
        if found is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id = found
    elif member_id not in group.pending_joins:
        code = group.check_member(member_id, instance_id)
        if code:
            return code
    drop_member(state, group, member_id, draft)
    draft.notice(
        f"[group {group.group_id} generation {group.generation}] member {member_id} leaves;"
        f" it says: {identity.reason or 'nothing'}"
    )
    return ErrorCode.NONE


def _go_on_without(state: ShardState, group: ClassicGroup, gone: list[str], draft: Draft, now_ms: int) -> None:
    if group.state is ClassicState.PREPARING:
        complete_if_all_joined(state, group, draft, now_ms)
    elif not group.is_empty:
        prepare(state, group, f"{', '.join(gone)} left", draft, now_ms)


def _name(identity: MemberIdentity) -> str:
    return identity.member_id or f"static member {identity.group_instance_id}"
