"""What follows from what a member of a consumer group says: a group epoch, a target, and the member's next step.

Both ways into a consumer group lead here: ConsumerGroupHeartbeat, and JoinGroup of a member that speaks the classic
protocol. A request that is refused on the way leaves nothing behind that matters.
"""

from typing import NamedTuple

from headrace.coordinator.assignors.spec import NOTHING_ASSIGNED, Assignment
from headrace.coordinator.batches import size_of
from headrace.coordinator.consumer_deadlines import REBALANCE, member_key
from headrace.coordinator.consumer_group import ConsumerGroup
from headrace.coordinator.consumer_member import ConsumerMember, MemberState
from headrace.coordinator.consumer_reconciliation import Goal, Reported, reconcile
from headrace.coordinator.consumer_records import current_record, epoch_record, subscription_record
from headrace.coordinator.consumer_regex import RegexChange, follow_regex
from headrace.coordinator.consumer_subscriptions import Subscriptions
from headrace.coordinator.consumer_target import compute_target
from headrace.coordinator.draft import Draft
from headrace.coordinator.group_records import consumer_group_partition_metadata_tombstone
from headrace.coordinator.refused import RefusedError
from headrace.coordinator.shard_state import ShardState
from headrace.protocol.error_codes import ErrorCode


class Announced(NamedTuple):
    """What a member's wishes mean for its group."""

    epoch: int  # of the group
    subscriptions: Subscriptions  # of the group, with the member's
    has_new_wishes: bool  # what the member wants has changed


def announce(
    state: ShardState, group: ConsumerGroup, before: ConsumerMember, updated: ConsumerMember, draft: Draft, now_ms: int
) -> Announced:
    """Write down what the member says; the group's epoch grows if that, or its topics, changed. Raises RefusedError."""
    if updated != before:
        draft.write(subscription_record(group.group_id, updated))
    has_new_topics = updated.topics != before.topics
    regex_change = follow_regex(state, group, before, updated, draft, now_ms)
    # A pattern that is new to the group makes a difference once it is known what it stands for.
    is_due = has_new_topics or regex_change is RegexChange.RESOLVED
    is_due |= updated.classic is not None and regex_change is RegexChange.CHANGED
    has_new_wishes = has_new_topics or regex_change is not RegexChange.NONE
    # The copy is only made where it makes a difference: heartbeats that say nothing new are the many.
    subscriptions = group.subscriptions if updated == before else _with(group, before, updated)
    if not is_due and not group.is_metadata_stale:
        return Announced(group.epoch, subscriptions, has_new_wishes)
    metadata_hash = state.topic_hashes.of_topics(subscriptions.topics)
    epoch = group.epoch
    if is_due or metadata_hash != group.metadata_hash:
        epoch += 1
        draft.write(epoch_record(group.group_id, epoch, metadata_hash))
        what = f"member {updated.member_id} of {updated.client_id} on {updated.client_host} has a new subscription"
        reason = what if is_due else "its topics or their partitions have changed"
        draft.notice(f"[group {group.group_id} epoch {epoch}] is to be assigned anew: {reason}")
    if group.has_partition_metadata:
        draft.write(consumer_group_partition_metadata_tombstone(group.group_id))
    return Announced(epoch, subscriptions, has_new_wishes)


def _with(group: ConsumerGroup, before: ConsumerMember, updated: ConsumerMember) -> Subscriptions:
    subscriptions = group.subscriptions.copy()
    subscriptions.remove(before)
    subscriptions.add(updated)
    subscriptions.forget_unwanted()
    return subscriptions


def move_on(
    state: ShardState,
    group: ConsumerGroup,
    updated: ConsumerMember,
    announced: Announced,
    reported: Reported,
    draft: Draft,
    now_ms: int,
) -> ConsumerMember:
    """A new target if it is time for one, and the member's next step towards its target. Raises RefusedError."""
    epoch, target = group.assignment_epoch, group.target_of(updated)
    if epoch < announced.epoch and now_ms >= assignable_at_ms(state, group, now_ms):
        epoch = announced.epoch
        subscriptions = announced.subscriptions
        assignor = subscriptions.preferred_assignor or state.settings.consumer_assignors[0]
        is_member = updated.member_id in group.members or updated.instance_id in group.static_members
        computed = compute_target(
            group,
            updated,
            epoch=epoch,
            assignor=assignor,
            is_homogeneous=subscriptions.are_homogeneous(len(group.members) + (not is_member)),
            image=state.image,
            now_ms=now_ms,
        )
        target = computed.assignments.get(updated.member_id, NOTHING_ASSIGNED)
        draft.write(*computed.records)
        draft.notice(f"[group {group.group_id} epoch {epoch}] has a new target by {assignor}")
    moved = step_towards(state, group, updated, epoch, target, announced, reported, draft, now_ms)
    check_size(state, draft)
    group.is_metadata_stale = False
    return moved


def step_towards(
    state: ShardState,
    group: ConsumerGroup,
    updated: ConsumerMember,
    epoch: int,
    target: Assignment,
    announced: Announced,
    reported: Reported,
    draft: Draft,
    now_ms: int,
) -> ConsumerMember:
    """The member's next step towards this target. Raises RefusedError."""
    has_new_wishes = announced.has_new_wishes
    if not has_new_wishes and updated.is_reconciled_to(epoch):
        return updated
    topics = group.subscriptions.topics_of(updated)

    def wants(topic_id: bytes) -> bool:
        topic = state.image.topics.get(topic_id)
        return topic is not None and topic.name in topics

    moved = reconcile(updated, Goal(epoch, target, wants, group.is_owned), reported, has_new_wishes=has_new_wishes)
    if moved != updated:
        draft.write(current_record(group.group_id, moved))
        if moved.classic is None:
            _watch_revocation(state, group, moved, now_ms)
    return moved


def _watch_revocation(state: ShardState, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
    key = member_key(REBALANCE, group.group_id, member.member_id)
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        state.deadlines.set(key, now_ms + member.rebalance_timeout_ms)
    else:
        state.deadlines.cancel(key)


def check_size(state: ShardState, draft: Draft) -> None:
    """Raises RefusedError if what is to be written does not fit into a batch."""
    records = draft.step().records
    if not records:
        return
    size, most = sum(map(size_of, records)), state.settings.max_record_bytes(state.image)
    if size > most:
        raise RefusedError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"{size} bytes would have to be written at once, and max.message.bytes of __consumer_offsets allows {most}",
        )


def assignable_at_ms(state: ShardState, group: ConsumerGroup, now_ms: int) -> int:
    """The earliest time for the next target: members that come one after the other are assigned together."""
    if not 0 < group.assigned_at_ms <= now_ms:  # never, or the clock was set back since then
        return 0
    return group.assigned_at_ms + state.settings.of_group(state.image, group.group_id).consumer_assignment_interval_ms
