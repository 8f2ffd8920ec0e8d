"""A consumer group becomes a classic group while it runs, when only members are left that speak the classic protocol.

The epoch becomes the generation. When a member has gone, each of the others is written down with what it has by now,
and a rebalance begins at once: they hear of it with their next heartbeat, and join as in any classic group. (Kafka
writes down what they were to have. Whoever reads it before all have joined, a coordinator that takes over or the way
back to a consumer group, would give to one what another still works on.) When a static member takes the place of the
last one of the new protocol, nobody need join again, and each is assigned what it was to have.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from headrace.coordinator.assignors.spec import NOTHING_ASSIGNED, Assignment
from headrace.coordinator.batches import size_of
from headrace.coordinator.classic_group import ClassicGroup
from headrace.coordinator.classic_member import ClassicMember
from headrace.coordinator.classic_rebalance import prepare, set_session
from headrace.coordinator.consumer_deadlines import cancel_all
from headrace.coordinator.consumer_group import ConsumerGroup
from headrace.coordinator.consumer_member import ConsumerMember
from headrace.coordinator.consumer_protocol import version_of, write_assignment
from headrace.coordinator.consumer_reconciliation import Reported
from headrace.coordinator.consumer_records import group_tombstones
from headrace.coordinator.consumer_update import Announced, step_towards
from headrace.coordinator.draft import Draft
from headrace.coordinator.group_records import group_metadata
from headrace.coordinator.refused import RefusedError
from headrace.coordinator.shard_state import ShardState
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.errors import DecodeError
from headrace.protocol.internal_records import CoordinatorRecord
from headrace.protocol.messages.join_group import JoinGroupRequestProtocol

_DOWNGRADING: Final = frozenset(("downgrade", "bidirectional"))


def plan_downgrade(
    state: ShardState, group: ConsumerGroup, leaving: Sequence[ConsumerMember], now_ms: int
) -> ClassicGroup | None:
    """The classic group without those who leave; None if the group must or may stay a consumer group."""
    staying = len(group.members) - len(leaving)
    if not (0 < staying <= state.settings.max_size and group.speaks_only_classic_without(leaving)):
        return None
    if state.settings.consumer_migration_policy not in _DOWNGRADING:
        return None
    gone = {member.member_id for member in leaving}
    members = [member for member_id, member in group.members.items() if member_id not in gone]
    return _as_classic(state, group, members, {member.member_id: _held(member) for member in members}, now_ms)


def _held(member: ConsumerMember) -> Assignment:
    """What it works on until it has joined again: nobody else may be told that it has some of it."""
    topic_ids = [*member.assigned, *(each for each in member.revoking if each not in member.assigned)]
    return {each: tuple(sorted((*member.assigned.get(each, ()), *member.revoking.get(each, ())))) for each in topic_ids}


def may_replace(state: ShardState, group: ConsumerGroup, existing: ConsumerMember) -> bool:
    """Is this static member the last one that speaks the new protocol, so that another in its place ends it?"""
    return (
        existing.classic is None
        and group.speaks_only_classic_without([existing])
        and state.settings.consumer_migration_policy in _DOWNGRADING
        and len(group.members) <= state.settings.max_size
    )


def replace_last(
    state: ShardState,
    group: ConsumerGroup,
    existing: ConsumerMember,
    updated: ConsumerMember,
    announced: Announced,
    reported: Reported,
    draft: Draft,
    now_ms: int,
) -> ConsumerMember:
    """A static member comes back with the classic protocol, and was the last with the new. Raises RefusedError."""
    is_current = group.assignment_epoch >= announced.epoch
    if is_current:
        epoch, target = group.assignment_epoch, group.target_of(updated)
        updated = step_towards(state, group, updated, epoch, target, announced, reported, draft, now_ms)
    others = [member for member in group.members.values() if member.member_id != existing.member_id]
    targets = {member.member_id: group.target.get(member.member_id, NOTHING_ASSIGNED) for member in others}
    targets[updated.member_id] = group.target.get(existing.member_id, NOTHING_ASSIGNED)
    classic = _as_classic(state, group, [*others, updated], targets, now_ms)
    if classic is None:
        raise RefusedError(
            ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group.group_id} cannot become a classic one."
        )
    reason = None if is_current else f"static member {updated.instance_id} came back before the others were assigned"
    recorded = [updated.member_id if each == existing.member_id else each for each in group.members]
    downgrade(state, group, classic, draft, now_ms, reason=reason, recorded=recorded)
    return updated


def _as_classic(
    state: ShardState,
    group: ConsumerGroup,
    members: Sequence[ConsumerMember],
    targets: dict[str, Assignment],
    now_ms: int,
) -> ClassicGroup | None:
    """A stable classic group of these members, who all speak its protocol. None if it cannot be written down."""
    classic = ClassicGroup.of_consumers(group.group_id, map(_as_classic_member, members), group.epoch, now_ms=now_ms)
    try:
        for member in classic.members.values():
            version = version_of(member.metadata(classic.protocol))
            member.assignment = write_assignment(targets[member.member_id], state.image, version)
    except DecodeError:
        return None
    return classic if _fits(state, group, classic) else None


def _fits(state: ShardState, group: ConsumerGroup, classic: ClassicGroup) -> bool:
    """Can the one be written, and with it the tombstones of the other?"""
    most = state.settings.max_record_bytes(state.image)
    record = group_metadata(group.group_id, classic.value(classic.assignments()))
    return size_of(record) + sum(map(size_of, _tombstones(group, group.members))) <= most


def _tombstones(group: ConsumerGroup, member_ids: Iterable[str]) -> Iterator[CoordinatorRecord]:
    return group_tombstones(group.group_id, member_ids, group.subscriptions.resolved)


def _as_classic_member(member: ConsumerMember) -> ClassicMember:
    assert member.classic is not None, f"{member.member_id} speaks the consumer protocol"
    return ClassicMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocols=[JoinGroupRequestProtocol(each.name, each.metadata) for each in member.classic_protocols],
    )


def downgrade(
    state: ShardState,
    group: ConsumerGroup,
    classic: ClassicGroup,
    draft: Draft,
    now_ms: int,
    *,
    reason: str | None,
    recorded: Iterable[str] | None = None,
) -> None:
    """Make it so; with a `reason`, a rebalance begins. `recorded`: whose records are there, if not the members'."""
    member_ids = group.members if recorded is None else recorded
    draft.write(*_tombstones(group, member_ids))
    draft.write(group_metadata(group.group_id, classic.value(classic.assignments())))
    draft.notice(f"[group {group.group_id} generation {classic.generation}] was a consumer group, and is a classic one")
    for member_id in group.members:
        cancel_all(state, group.group_id, member_id)
    # The records make no more of it than a coordinator needs that takes over; what is known here is kept.
    state.groups[group.group_id] = classic
    for member in classic.members.values():
        set_session(state, classic, member, now_ms)
    if reason is not None:
        prepare(state, classic, reason, draft, now_ms)
