"""From records to consumer groups (KIP-848)."""

from collections.abc import Mapping
from typing import Final

from headrace.coordinator.consumer_group import ConsumerGroup
from headrace.coordinator.shard_state import Replay, ShardState

# By the number of the record's type: what it does to the groups. A value of None is a tombstone.
REPLAY: Final[Mapping[int, Replay]] = {}


def loaded(state: ShardState, group: ConsumerGroup, now_ms: int) -> None:
    """All records are replayed: the group's timers start."""
