"""What happens to classic groups when time passes: members that fell silent, joins and syncs that took too long."""

from collections.abc import Iterator, Mapping
from typing import Final

from headrace.coordinator.classic_group import ClassicGroup, ClassicState
from headrace.coordinator.classic_member import ClassicMember
from headrace.coordinator.classic_rebalance import (
    JOIN,
    OVERSIZE,
    SESSION,
    SYNC,
    complete,
    drop_member,
    prepare,
    wait_more_or_complete,
)
from headrace.coordinator.draft import Draft
from headrace.coordinator.result import Step
from headrace.coordinator.shard_state import DeadlineKey, Due, ShardState


def _session_over(state: ShardState, key: DeadlineKey, now_ms: int) -> Iterator[Step]:
    """A member has not been heard of, or never came back with the id that it was given."""
    _, group_id, member_id = key
    group = state.groups.get(group_id)
    if not isinstance(group, ClassicGroup):
        return
    member = group.members.get(member_id)
    if member is None and member_id not in group.pending_joins:
        return
    if member is not None and member.waits:
        return  # its session starts anew with the answer
    draft = Draft()
    drop_member(state, group, member_id, draft)
    reason = _why(member_id, member)
    if group.state is ClassicState.PREPARING:
        draft.notice(f"[group {group.group_id} generation {group.generation}] {reason}")
        if group.has_everybody_joined:
            complete(state, group, draft, now_ms)
    elif member is not None:
        prepare(state, group, reason, draft, now_ms)
    yield draft.step()


def _why(member_id: str, member: ClassicMember | None) -> str:
    if member is None:
        return f"member {member_id} never came back with the id that it was given"
    what = "waited too long for its first generation" if member.is_new else "was silent for its session time-out"
    return f"member {member_id} of {member.client_id} on {member.client_host} {what}"


def _join_over(state: ShardState, key: DeadlineKey, now_ms: int) -> Iterator[Step]:
    group = state.groups.get(key[1])
    if isinstance(group, ClassicGroup) and group.state is ClassicState.PREPARING:
        draft = Draft()
        wait_more_or_complete(state, group, draft, now_ms)
        yield draft.step()


def _sync_over(state: ShardState, key: DeadlineKey, now_ms: int) -> Iterator[Step]:
    """Members of the generation that have not asked for their assignment are taken for gone."""
    group = state.groups.get(key[1])
    if isinstance(group, ClassicGroup) and group.pending_syncs:
        draft = Draft()
        late = list(group.pending_syncs)
        for member_id in late:
            drop_member(state, group, member_id, draft)
        prepare(state, group, f"{', '.join(late)} did not send SyncGroup in time", draft, now_ms)
        yield draft.step()


def _is_oversize(state: ShardState, key: DeadlineKey, now_ms: int) -> Iterator[Step]:
    """Its members may commit before they join again, and whoever joins too late finds no room."""
    group = state.groups.get(key[1])
    if isinstance(group, ClassicGroup) and group.state is ClassicState.STABLE:
        draft = Draft()
        reason = f"it has {len(group.members)} members, and group.max.size is {state.settings.max_size}"
        prepare(state, group, reason, draft, now_ms)
        yield draft.step()


DUE: Final[Mapping[str, Due]] = {
    SESSION: _session_over,
    JOIN: _join_over,
    SYNC: _sync_over,
    OVERSIZE: _is_oversize,
}
