"""OffsetFetch."""

from headrace.coordinator.shard_state import ShardState
from headrace.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup


def fetch_offsets(
    state: ShardState, group: OffsetFetchRequestGroup, *, require_stable: bool
) -> OffsetFetchResponseGroup:
    raise NotImplementedError
