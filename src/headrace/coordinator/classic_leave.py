"""LeaveGroup."""

from headrace.coordinator.result import Step, Ticket
from headrace.coordinator.shard_state import ShardState
from headrace.protocol.messages.leave_group import LeaveGroupRequest


def leave_group(state: ShardState, request: LeaveGroupRequest, *, ticket: Ticket, version: int, now_ms: int) -> Step:
    raise NotImplementedError
