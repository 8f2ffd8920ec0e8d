"""The records of consumer groups (KIP-848), from what the coordinator holds in memory."""

from collections.abc import Iterable, Iterator

from headrace.coordinator.assignors.spec import Assignment
from headrace.coordinator.consumer_member import ConsumerMember, Owned
from headrace.coordinator.consumer_subscriptions import ResolvedRegex
from headrace.coordinator.group_records import (
    consumer_group_current,
    consumer_group_member,
    consumer_group_metadata,
    consumer_group_partition_metadata_tombstone,
    consumer_group_regex,
    consumer_group_target,
    consumer_group_target_epoch,
)
from headrace.protocol.internal_records import CoordinatorRecord
from headrace.protocol.messages.group_records import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartition,
    TopicPartitions,
)


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    return consumer_group_metadata(group_id, ConsumerGroupMetadataValue(epoch, metadata_hash))


def subscription_record(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    value = ConsumerGroupMemberMetadataValue(
        member.instance_id,
        member.rack_id,
        member.client_id,
        member.client_host,
        sorted(member.topics),
        member.regex,
        member.rebalance_timeout_ms,
        member.server_assignor,
        member.classic,
    )
    return consumer_group_member(group_id, member.member_id, value)


def target_epoch_record(group_id: str, epoch: int, now_ms: int) -> CoordinatorRecord:
    return consumer_group_target_epoch(group_id, ConsumerGroupTargetAssignmentMetadataValue(epoch, now_ms))


def target_record(group_id: str, member_id: str, target: Assignment) -> CoordinatorRecord:
    rows = [TopicPartition(topic_id, partitions) for topic_id, partitions in target.items()]
    return consumer_group_target(group_id, member_id, ConsumerGroupTargetAssignmentMemberValue(rows))


def current_record(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member.member_epoch,
        member.previous_member_epoch,
        member.state,
        _rows(member.assigned),
        _rows(member.revoking),
    )
    return consumer_group_current(group_id, member.member_id, value)


def _rows(owned: Owned) -> list[TopicPartitions]:
    return [
        TopicPartitions(topic_id, sorted(epochs), [epochs[partition] for partition in sorted(epochs)])
        for topic_id, epochs in owned.items()
    ]


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex) -> CoordinatorRecord:
    value = ConsumerGroupRegularExpressionValue(sorted(resolved.topics), resolved.version, resolved.timestamp_ms)
    return consumer_group_regex(group_id, regex, value)


def member_tombstones(group_id: str, member_id: str) -> tuple[CoordinatorRecord, ...]:
    """A member goes: first what it has and is to have, then what it said."""
    return (
        consumer_group_current(group_id, member_id, None),
        consumer_group_target(group_id, member_id, None),
        consumer_group_member(group_id, member_id, None),
    )


def group_tombstones(group_id: str, members: Iterable[str], regexes: Iterable[str]) -> Iterator[CoordinatorRecord]:
    """A group goes, with all its members."""
    member_ids = tuple(members)
    for member_id in member_ids:
        yield consumer_group_current(group_id, member_id, None)
    for member_id in member_ids:
        yield consumer_group_target(group_id, member_id, None)
    yield consumer_group_target_epoch(group_id, None)
    for member_id in member_ids:
        yield consumer_group_member(group_id, member_id, None)
    for regex in regexes:
        yield consumer_group_regex(group_id, regex, None)
    yield consumer_group_partition_metadata_tombstone(group_id)
    yield consumer_group_metadata(group_id, None)
