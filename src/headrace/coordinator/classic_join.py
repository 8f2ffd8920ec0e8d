"""JoinGroup."""

from headrace.coordinator.result import Client, Step, Ticket
from headrace.coordinator.shard_state import ShardState
from headrace.protocol.messages.join_group import JoinGroupRequest


def join_group(
    state: ShardState, request: JoinGroupRequest, *, ticket: Ticket, client: Client, version: int, now_ms: int
) -> Step:
    raise NotImplementedError
