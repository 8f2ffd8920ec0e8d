"""From records to classic groups."""

from collections.abc import Mapping
from typing import Final

from headrace.coordinator.classic_group import ClassicGroup
from headrace.coordinator.classic_rebalance import OVERSIZE, set_session
from headrace.coordinator.group_records import GROUP_METADATA
from headrace.coordinator.shard_state import Replay, ShardState
from headrace.protocol.messages.group_records import GroupMetadataKey, GroupMetadataValue


def _replay_group(state: ShardState, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
    group = state.groups.get(key.group)
    if value is None:
        if isinstance(group, ClassicGroup):
            del state.groups[key.group]
    elif not (state.is_loaded and isinstance(group, ClassicGroup)):
        # On a running shard the record was made from the group that is there.
        state.groups[key.group] = ClassicGroup.from_value(key.group, value)


REPLAY: Final[Mapping[int, Replay]] = {GROUP_METADATA.id: _replay_group}


def loaded(state: ShardState, group: ClassicGroup, now_ms: int) -> None:
    """All records are replayed: sessions start. A group that is too large now has to shrink."""
    for member in group.members.values():
        set_session(state, group, member, now_ms)
    if len(group.members) > state.settings.max_size:
        state.deadlines.set((OVERSIZE, group.group_id), now_ms)
