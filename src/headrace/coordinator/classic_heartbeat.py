"""Heartbeat: a member of a classic group is alive, and is told when it must join again."""

from headrace.coordinator.classic_group import ClassicGroup, ClassicState
from headrace.coordinator.classic_rebalance import set_session
from headrace.coordinator.result import Step, Ticket, answer
from headrace.coordinator.shard_state import ShardState
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def heartbeat(state: ShardState, request: HeartbeatRequest, *, ticket: Ticket, now_ms: int) -> Step:
    return answer(ticket, HeartbeatResponse(error_code=_heartbeat(state, request, now_ms)))


def _heartbeat(state: ShardState, request: HeartbeatRequest, now_ms: int) -> ErrorCode:
    group_id, generation, member_id, instance_id, _ = request
    if not group_id:
        return ErrorCode.INVALID_GROUP_ID
    group = state.groups.get(group_id)
    if not isinstance(group, ClassicGroup):
        return ErrorCode.UNKNOWN_MEMBER_ID
    code = group.check_member(member_id, instance_id)
    if code:
        return code
    if generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    set_session(state, group, group.members[member_id], now_ms)
    # A rebalance is told by an error code, not by silence: the member must join before its rebalance time-out.
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is ClassicState.PREPARING else ErrorCode.NONE
