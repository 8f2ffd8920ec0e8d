"""OffsetDelete."""

from headrace.coordinator.result import Step, Ticket
from headrace.coordinator.shard_state import ShardState
from headrace.protocol.messages.offset_delete import OffsetDeleteRequest


def offset_delete(state: ShardState, request: OffsetDeleteRequest, *, ticket: Ticket) -> Step:
    raise NotImplementedError
