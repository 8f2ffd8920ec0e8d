"""DeleteGroups."""

from headrace.coordinator.result import Step, Ticket
from headrace.coordinator.shard_state import ShardState


def delete_group(state: ShardState, group_id: str, *, ticket: Ticket) -> Step:
    raise NotImplementedError
