"""The way into a consumer group: it is there, it is new, or a classic group becomes one while it runs (KIP-848).

When the first member comes that speaks the new protocol, a classic group of consumers is taken over as it stands: the
generation becomes the epoch, what members have is both what they are to have and what they have, and whoever waits in
a rebalance is told to join again, as a classic member of the consumer group (migration.py).
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from headrace.cluster.image import Image
from headrace.coordinator.assignors.spec import Assignment
from headrace.coordinator.classic_group import ClassicGroup
from headrace.coordinator.classic_member import ClassicMember
from headrace.coordinator.classic_rebalance import dismiss
from headrace.coordinator.consumer_deadlines import SESSION, member_key
from headrace.coordinator.consumer_group import ConsumerGroup
from headrace.coordinator.consumer_member import ConsumerMember
from headrace.coordinator.consumer_protocol import read_assignment, read_subscription
from headrace.coordinator.consumer_records import (
    current_record,
    epoch_record,
    subscription_record,
    target_epoch_record,
    target_record,
)
from headrace.coordinator.draft import Draft
from headrace.coordinator.refused import RefusedError
from headrace.coordinator.shard_state import ShardState
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.errors import DecodeError
from headrace.protocol.internal_records import CoordinatorRecord
from headrace.protocol.messages.group_records import ClassicMemberMetadata, ClassicProtocol

_UPGRADING: Final = frozenset(("upgrade", "bidirectional"))
_OTHER_HASH: Final = -1  # than that of the topics, which is 0 if there are none


class Entrance(NamedTuple):
    """The group that a member comes to. If it is new or converted, the records in the draft make it."""

    group: ConsumerGroup
    converted: ClassicGroup | None = None

    def finish(self, state: ShardState, draft: Draft, now_ms: int) -> None:
        """The member is in: whoever waits in the classic group must join again."""
        if self.converted is None:
            return
        dismiss(state, self.converted, ErrorCode.REBALANCE_IN_PROGRESS, draft)
        for member in self.converted.members.values():
            key = member_key(SESSION, self.group.group_id, member.member_id)
            state.deadlines.set(key, now_ms + member.session_timeout_ms)


def enter(state: ShardState, group_id: str, draft: Draft, *, may_create: bool) -> Entrance:
    """Raises RefusedError."""
    group = state.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return Entrance(group)
    if not may_create:
        message = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a consumer group."
        raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, message)
    if group is None:
        return Entrance(ConsumerGroup(group_id))
    draft.write(*group.tombstones())
    if group.is_empty:
        return Entrance(ConsumerGroup(group_id), group)
    _check_upgrade(state, group)
    converted = _converted(group, state)
    draft.write(*_records(converted))
    if not _is_up_to_date(group, converted, state.image):
        # Kafka waits for the next change of a subscription or of a topic, and nobody has these partitions until then.
        converted.metadata_hash, converted.is_metadata_stale = _OTHER_HASH, True
    draft.notice(f"[group {group_id} epoch {converted.epoch}] was a classic group, and is a consumer group now")
    return Entrance(converted, group)


def _check_upgrade(state: ShardState, group: ClassicGroup) -> None:
    if state.settings.consumer_migration_policy not in _UPGRADING:
        raise _impossible(group, "online upgrade is disabled by group.consumer.migration.policy")
    if not group.uses_consumer_protocol:
        raise _impossible(group, "its members are not consumers")
    if len(group.members) > state.settings.consumer_max_size:
        raise _impossible(group, "it has more members than group.consumer.max.size allows")


def _impossible(group: ClassicGroup, reason: str) -> RefusedError:
    message = f"Cannot upgrade classic group {group.group_id} to consumer group because {reason}."
    return RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, message)


def _converted(classic: ClassicGroup, state: ShardState) -> ConsumerGroup:
    """Raises RefusedError."""
    group = ConsumerGroup(classic.group_id)
    group.epoch = group.assignment_epoch = classic.generation
    protocol = classic.protocol or classic.select_protocol()
    try:
        for member in classic.members.values():
            target = _assignment_of(classic, member, state.image)
            if any(group.is_owned(topic_id, index) for topic_id, indexes in target.items() for index in indexes):
                raise _impossible(classic, "two members have the same partition")
            group.target[member.member_id] = target
            group.set_member(_converted_member(member, protocol, target, classic.generation))
    except DecodeError as error:
        raise _impossible(classic, f"what its members say cannot be read: {error}") from error
    group.metadata_hash = state.topic_hashes.of_topics(group.subscriptions.topics)
    return group


def _assignment_of(classic: ClassicGroup, member: ClassicMember, image: Image) -> Assignment:
    if not member.assignment:
        return {}
    assignment = read_assignment(member.assignment)
    if assignment.user_data:
        raise _impossible(classic, "an assignor of the clients keeps data in the assignments, which would be lost")
    assigned: dict[bytes, tuple[int, ...]] = {}
    for name, indexes in assignment.assigned_partitions:
        topic = image.topic(name)
        # A topic may have been deleted, and made anew with fewer partitions.
        if topic is not None and (existing := topic.partitions.keys() & indexes):
            assigned[topic.topic_id] = tuple(sorted(existing))
    return assigned


def _is_up_to_date(classic: ClassicGroup, group: ConsumerGroup, image: Image) -> bool:
    """Whether members have what is there of all that they want, and nothing else."""
    said = sum(
        len(topic.partitions)
        for member in classic.members.values()
        if member.assignment
        for topic in read_assignment(member.assignment).assigned_partitions
    )
    topics = [topic for topic in map(image.topic, group.subscriptions.topics) if topic is not None]
    wanted = sum(len(topic.partitions) for topic in topics)
    owned = sum(group.is_owned(topic.topic_id, index) for topic in topics for index in topic.partitions)
    return said == wanted == owned


def _converted_member(member: ClassicMember, protocol: str, target: Assignment, epoch: int) -> ConsumerMember:
    subscription = read_subscription(member.metadata(protocol))
    protocols = [ClassicProtocol(each.name, each.metadata) for each in member.protocols]
    return ConsumerMember(
        member.member_id,
        member_epoch=epoch,
        previous_member_epoch=epoch,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id or None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=frozenset(subscription.topics),
        assigned={topic_id: dict.fromkeys(indexes, epoch) for topic_id, indexes in target.items()},
        classic=ClassicMemberMetadata(member.session_timeout_ms, protocols),
    )


def _records(group: ConsumerGroup) -> Iterator[CoordinatorRecord]:
    """The whole group."""
    for member in group.members.values():
        yield subscription_record(group.group_id, member)
    yield epoch_record(group.group_id, group.epoch, group.metadata_hash)
    for member_id, target in group.target.items():
        yield target_record(group.group_id, member_id, target)
    yield target_epoch_record(group.group_id, group.assignment_epoch, group.assigned_at_ms)
    for member in group.members.values():
        yield current_record(group.group_id, member)
