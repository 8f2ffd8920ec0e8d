"""The rebalance of a classic group: what starts it, what it waits for, and how it ends.

Four deadlines move a group when its members do not; classic_timers.py says what happens when they come:

    classic-session (member)   it has not been heard of for its session time-out
    classic-join (group)       the join phase has lasted as long as the slowest member may take, or as long as a new
                               group waits for more members
    classic-sync (group)       members of a generation have not sent SyncGroup for as long
    classic-oversize (group)   at once, after a start with a smaller group.max.size
"""

from collections.abc import Mapping
from typing import Final

from headrace.coordinator.classic_group import ClassicGroup, ClassicState
from headrace.coordinator.classic_member import ClassicMember, Waiting
from headrace.coordinator.draft import Draft
from headrace.coordinator.group_records import group_metadata
from headrace.coordinator.shard_state import DeadlineKey, ShardState
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.internal_records import encode_coordinator_record
from headrace.protocol.messages.join_group import JoinGroupResponse
from headrace.protocol.messages.sync_group import SyncGroupResponse

SESSION: Final = "classic-session"
JOIN: Final = "classic-join"
SYNC: Final = "classic-sync"
OVERSIZE: Final = "classic-oversize"

# How long a member that has just been added may wait in a join phase: it may have been given up by its client, which
# then comes back as another member, and it cannot send heartbeats before it is in a generation.
NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 300_000

_PAUSE_MS: Final = 1_000  # members may ask for no time at all, and must not make the coordinator turn round and round
_NULL_PROTOCOL_SINCE: Final = 7  # before, JoinGroup had no way to say that there is none
_RECORD_BYTES: Final = 32  # numbers and lengths in a group's record, without the members
_REBALANCING: Final = (ClassicState.STABLE, ClassicState.PREPARING)


# Sessions


def session_key(group: ClassicGroup, member_id: str) -> DeadlineKey:
    return (SESSION, group.group_id, member_id)


def set_session(state: ShardState, group: ClassicGroup, member: ClassicMember, now_ms: int) -> None:
    """It has just been heard of."""
    state.deadlines.set((SESSION, group.group_id, member.member_id), now_ms + member.session_timeout_ms)


def keep_alive(state: ShardState, group: ClassicGroup, member_id: str, now_ms: int) -> None:
    """A commit of offsets is a sign of life, except while the group waits for SyncGroup."""
    member = group.members.get(member_id)
    if member is not None and group.state in _REBALANCING:
        set_session(state, group, member, now_ms)


def drop_member(state: ShardState, group: ClassicGroup, member_id: str, draft: Draft) -> None:
    """It is no member any more; whoever waits in its name is told so."""
    member = group.members.get(member_id)
    if member is not None and member.join is not None:
        refuse_join(draft, member.join, ErrorCode.UNKNOWN_MEMBER_ID)
    if member is not None and member.sync is not None:
        draft.answer(member.sync, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    group.remove(member_id)
    state.deadlines.cancel(session_key(group, member_id))


def dismiss(state: ShardState, group: ClassicGroup, code: ErrorCode, draft: Draft) -> None:
    """The group ends here, and goes on elsewhere: whoever waits is told `code`, and nothing is due any more."""
    for member_id, member in group.members.items():
        if member.join is not None:
            refuse_join(draft, member.join, code, member_id)
        if member.sync is not None:
            draft.answer(member.sync, SyncGroupResponse(error_code=code))
    for member_id in (*group.members, *group.pending_joins):
        state.deadlines.cancel(session_key(group, member_id))
    for kind in (JOIN, SYNC, OVERSIZE):
        state.deadlines.cancel((kind, group.group_id))


# Answers


def refuse_join(draft: Draft, join: Waiting, code: ErrorCode, member_id: str = "") -> None:
    protocol_name = None if join.version >= _NULL_PROTOCOL_SINCE else ""
    draft.answer(join.ticket, JoinGroupResponse(error_code=code, protocol_name=protocol_name, member_id=member_id))


def accept_join(group: ClassicGroup, member_id: str, *, with_roster: bool, skip: bool = False) -> JoinGroupResponse:
    """You are in this generation; whoever leads it also learns who else is."""
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=group.leader_id or "",
        skip_assignment=skip,
        member_id=member_id,
        members=group.roster() if with_roster else (),
    )


# Records


def fits_record(state: ShardState, group: ClassicGroup, assignments: Mapping[str, bytes]) -> bool:
    """Can the group be written? All its members are one record, and their metadata is theirs to choose."""
    most = state.settings.max_record_bytes(state.image)
    names = (
        len(group.group_id) + len(group.protocol_type or "") + len(group.protocol or "") + len(group.leader_id or "")
    )
    members = sum(member.size_bound for member in group.members.values())
    longest = 4 * names + members + sum(map(len, assignments.values())) + _RECORD_BYTES
    if longest <= most:
        return True
    record = group_metadata(group.group_id, group.value(assignments))
    key, value = encode_coordinator_record(record.type, record.key, record.value, record.version)
    return len(key) + len(value or b"") <= most


# The join phase


def prepare(state: ShardState, group: ClassicGroup, reason: str, draft: Draft, now_ms: int) -> None:
    """Begin a join phase."""
    if group.state is ClassicState.COMPLETING:
        give_up_assignment(state, group, ErrorCode.REBALANCE_IN_PROGRESS, draft, now_ms)
    group.pending_syncs.clear()
    state.deadlines.cancel((SYNC, group.group_id))
    is_first = group.state is ClassicState.EMPTY
    group.move_to(ClassicState.PREPARING, now_ms)
    draft.notice(f"[group {group.group_id} generation {group.generation}] prepares to rebalance: {reason}")
    delay_ms = state.settings.initial_rebalance_delay_ms
    if is_first and delay_ms > 0:
        _wait_for_more(state, group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0), now_ms)
    elif is_first or group.has_everybody_joined:
        complete(state, group, draft, now_ms)
    else:
        state.deadlines.set((JOIN, group.group_id), now_ms + group.rebalance_timeout_ms)


def prepare_or_complete(state: ShardState, group: ClassicGroup, reason: str, draft: Draft, now_ms: int) -> None:
    """Something about the members changed: begin a join phase, or end the one that is going on if nobody is missing."""
    if group.state is ClassicState.PREPARING:
        complete_if_all_joined(state, group, draft, now_ms)
    else:
        prepare(state, group, reason, draft, now_ms)


def complete_if_all_joined(state: ShardState, group: ClassicGroup, draft: Draft, now_ms: int) -> None:
    """The first join phase of a group lasts as long as it lasts: others may still come."""
    is_first = group.initial_delay is not None
    if group.state is ClassicState.PREPARING and not is_first and group.has_everybody_joined:
        complete(state, group, draft, now_ms)


def wait_more_or_complete(state: ShardState, group: ClassicGroup, draft: Draft, now_ms: int) -> None:
    """The time of a join phase is up; but a new group that is still growing waits a little more."""
    if group.initial_delay is not None and group.is_grown and group.initial_delay[1] > 0:
        delay_ms, left_ms = group.initial_delay
        next_delay_ms = min(state.settings.initial_rebalance_delay_ms, left_ms)
        _wait_for_more(state, group, next_delay_ms, max(left_ms - delay_ms, 0), now_ms)
    else:
        complete(state, group, draft, now_ms)


def complete(state: ShardState, group: ClassicGroup, draft: Draft, now_ms: int) -> None:
    """End the join phase: whoever has joined is the next generation, and static members that have not, too."""
    group.initial_delay = None
    state.deadlines.cancel((JOIN, group.group_id))
    late = [each.member_id for each in group.members.values() if each.join is None and each.instance_id is None]
    for member_id in late:
        drop_member(state, group, member_id, draft)
    if late:
        draft.notice(f"[group {group.group_id} generation {group.generation}] {', '.join(late)} did not join in time")
    if group.members and not _elect_leader(group):
        # Only static members are left, and none of them is here to lead: wait for them until their sessions end.
        draft.notice(f"[group {group.group_id} generation {group.generation}] cannot rebalance: no member joined")
        state.deadlines.set((JOIN, group.group_id), now_ms + max(group.rebalance_timeout_ms, _PAUSE_MS))
        return
    group.begin_generation(now_ms)
    if group.is_empty:
        draft.notice(f"[group {group.group_id} generation {group.generation}] is empty")
        draft.write(group_metadata(group.group_id, group.value({})))
    else:
        _announce_generation(state, group, draft, now_ms)


def _wait_for_more(state: ShardState, group: ClassicGroup, delay_ms: int, left_ms: int, now_ms: int) -> None:
    group.initial_delay = (delay_ms, left_ms)
    group.is_grown = False
    state.deadlines.set((JOIN, group.group_id), now_ms + delay_ms)


def count_members(group: ClassicGroup) -> str:
    return "1 member" if len(group.members) == 1 else f"{len(group.members)} members"


def _elect_leader(group: ClassicGroup) -> bool:
    """Is the leader, or another member if it did not join, there to make the assignment?"""
    leader = group.members.get(group.leader_id or "")
    if leader is not None and leader.join is not None:
        return True
    joined = next((member.member_id for member in group.members.values() if member.join is not None), None)
    if joined is None:
        return False
    group.leader_id = joined
    return True


def _announce_generation(state: ShardState, group: ClassicGroup, draft: Draft, now_ms: int) -> None:
    draft.notice(
        f"[group {group.group_id} generation {group.generation}] has {count_members(group)}"
        f" and waits for the assignment of {group.leader_id}"
    )
    for member_id, member in group.members.items():
        if member.join is not None:
            is_leader = member_id == group.leader_id
            draft.answer(member.join.ticket, accept_join(group, member_id, with_roster=is_leader))
            group.await_join(member, None)
        set_session(state, group, member, now_ms)
        member.is_new = False
        group.pending_syncs[member_id] = None
    state.deadlines.set((SYNC, group.group_id), now_ms + group.rebalance_timeout_ms)


def give_up_assignment(state: ShardState, group: ClassicGroup, code: ErrorCode, draft: Draft, now_ms: int) -> None:
    """The generation ends before it had an assignment."""
    for member in group.members.values():
        member.assignment = b""
        if member.sync is not None:
            draft.answer(member.sync, SyncGroupResponse(error_code=code))
            member.sync = None
            set_session(state, group, member, now_ms)
