"""The records of __consumer_offsets, in the versions that Apache Kafka 4.3 writes.

A value of None is a tombstone: what the key stands for is gone.
"""

from typing import Any, Final

from headrace.protocol.apis import GROUP_RECORDS
from headrace.protocol.internal_records import CoordinatorRecord
from headrace.protocol.messages.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from headrace.protocol.primitives import new

LEGACY_OFFSET_COMMIT: Final = GROUP_RECORDS[0]
OFFSET_COMMIT: Final = GROUP_RECORDS[1]
GROUP_METADATA: Final = GROUP_RECORDS[2]
CONSUMER_GROUP_METADATA: Final = GROUP_RECORDS[3]
CONSUMER_GROUP_PARTITION_METADATA: Final = GROUP_RECORDS[4]
CONSUMER_GROUP_MEMBER_METADATA: Final = GROUP_RECORDS[5]
CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: Final = GROUP_RECORDS[6]
CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: Final = GROUP_RECORDS[7]
CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: Final = GROUP_RECORDS[8]
CONSUMER_GROUP_REGULAR_EXPRESSION: Final = GROUP_RECORDS[16]

OFFSET_COMMIT_VERSION: Final = 4
OFFSET_COMMIT_WITH_EXPIRY_VERSION: Final = 1  # the only version that can say when an offset expires
GROUP_METADATA_VERSION: Final = 3
CONSUMER_VERSION: Final = 0


def offset_commit(group_id: str, topic: str, partition: int, value: OffsetCommitValue | None) -> CoordinatorRecord:
    """An offset of a group."""
    version: int | None = OFFSET_COMMIT_VERSION
    if value is None:
        version = None
    elif value.expire_timestamp >= 0:
        version = OFFSET_COMMIT_WITH_EXPIRY_VERSION
    return new(CoordinatorRecord, (OFFSET_COMMIT, new(OffsetCommitKey, (group_id, topic, partition)), version, value))


def group_metadata(group_id: str, value: GroupMetadataValue | None) -> CoordinatorRecord:
    """A whole classic group: its generation, its members, and who is assigned what."""
    version = None if value is None else GROUP_METADATA_VERSION
    return CoordinatorRecord(GROUP_METADATA, GroupMetadataKey(group_id), version, value)


def consumer_group_metadata(group_id: str, value: ConsumerGroupMetadataValue | None) -> CoordinatorRecord:
    """The epoch of a consumer group."""
    return _consumer(CONSUMER_GROUP_METADATA, ConsumerGroupMetadataKey(group_id), value)


def consumer_group_partition_metadata_tombstone(group_id: str) -> CoordinatorRecord:
    """Kafka wrote this record up to 4.0; since then a hash in the group's metadata takes its place."""
    return _consumer(CONSUMER_GROUP_PARTITION_METADATA, ConsumerGroupPartitionMetadataKey(group_id), None)


def consumer_group_member(
    group_id: str, member_id: str, value: ConsumerGroupMemberMetadataValue | None
) -> CoordinatorRecord:
    """What a member of a consumer group said about itself."""
    return _consumer(CONSUMER_GROUP_MEMBER_METADATA, ConsumerGroupMemberMetadataKey(group_id, member_id), value)


def consumer_group_target_epoch(
    group_id: str, value: ConsumerGroupTargetAssignmentMetadataValue | None
) -> CoordinatorRecord:
    """The epoch for which the target assignment of a consumer group was made."""
    key = ConsumerGroupTargetAssignmentMetadataKey(group_id)
    return _consumer(CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA, key, value)


def consumer_group_target(
    group_id: str, member_id: str, value: ConsumerGroupTargetAssignmentMemberValue | None
) -> CoordinatorRecord:
    """What a member of a consumer group is to own in the end."""
    key = ConsumerGroupTargetAssignmentMemberKey(group_id, member_id)
    return _consumer(CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER, key, value)


def consumer_group_current(
    group_id: str, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue | None
) -> CoordinatorRecord:
    """What a member of a consumer group owns now, and what it still has to give up."""
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id)
    return _consumer(CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT, key, value)


def consumer_group_regex(
    group_id: str, regex: str, value: ConsumerGroupRegularExpressionValue | None
) -> CoordinatorRecord:
    """The topics that a pattern stood for when it was last looked at."""
    return _consumer(CONSUMER_GROUP_REGULAR_EXPRESSION, ConsumerGroupRegularExpressionKey(group_id, regex), value)


def _consumer(record_type: Any, key: Any, value: Any | None) -> CoordinatorRecord:
    return CoordinatorRecord(record_type, key, None if value is None else CONSUMER_VERSION, value)
