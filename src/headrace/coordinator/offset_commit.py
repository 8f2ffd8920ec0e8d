"""OffsetCommit and TxnOffsetCommit: how far a group has come.

A commit is checked against its group as a whole, and then partition by partition. It may come from outside: whoever
sends no generation commits for a group without members, which then need not exist before (a simple consumer).
"""

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from headrace.cluster.image import Image, Topic
from headrace.coordinator.classic_group import ClassicGroup
from headrace.coordinator.classic_rebalance import keep_alive
from headrace.coordinator.group_records import offset_commit as offset_record
from headrace.coordinator.result import Answer, Producer, Step, Ticket
from headrace.coordinator.shard_state import ShardState
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.internal_records import CoordinatorRecord
from headrace.protocol.messages.group_records import OffsetCommitValue
from headrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from headrace.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from headrace.protocol.primitives import new

_MISSING_GROUPS_NAMED_SINCE: Final = 9
_TOPIC_IDS_SINCE: Final = 10
_BROKERS_RETENTION: Final = -1
NO_EXPIRY: Final = -1
_LAST_TIMESTAMP: Final = (1 << 63) - 1

Found: TypeAlias = Topic | ErrorCode


def offset_commit(
    state: ShardState, request: OffsetCommitRequest, *, ticket: Ticket, version: int, now_ms: int
) -> Step:
    found = find_topics(state.image, request.topics, version)
    code = check_commit(state, request, found, version=version, now_ms=now_ms)
    most = state.settings.offset_metadata_max_bytes
    group_id, retention_ms = request.group_id, request.retention_time_ms
    records: list[CoordinatorRecord] = []
    topics = []
    for topic, its in zip(request.topics, found, strict=True):
        rows = []
        for index, offset, leader_epoch, metadata, _ in topic.partitions:
            error = _check_partition(its, index, metadata, most, code)
            rows.append(new(OffsetCommitResponsePartition, (index, error, ())))
            if not error and isinstance(its, Topic):
                value = _value(offset, leader_epoch, metadata or "", now_ms, retention_ms, its.topic_id)
                records.append(offset_record(group_id, its.name, index, value))
        topics.append(OffsetCommitResponseTopic(topic.name, topic.topic_id, rows))
    return Step(tuple(records), (Answer(ticket, OffsetCommitResponse(0, topics)),))


def _value(
    offset: int, leader_epoch: int, metadata: str, now_ms: int, retention_ms: int, topic_id: bytes
) -> OffsetCommitValue:
    if retention_ms == _BROKERS_RETENTION:
        return new(OffsetCommitValue, (offset, leader_epoch, metadata, now_ms, NO_EXPIRY, topic_id, ()))
    # The version of the record that can say when an offset expires has neither epoch nor topic id.
    expires_ms = min(max(now_ms + retention_ms, 0), _LAST_TIMESTAMP)
    return OffsetCommitValue(offset, -1, metadata, now_ms, expires_ms)


def txn_offset_commit(
    state: ShardState, request: TxnOffsetCommitRequest, *, ticket: Ticket, version: int, now_ms: int
) -> Step:
    found = [_find_topic(state.image, topic.name, None) for topic in request.topics]
    code = _check_txn_commit(state, request, found, version=version)
    most = state.settings.offset_metadata_max_bytes
    records: list[CoordinatorRecord] = []
    topics = []
    for topic, its in zip(request.topics, found, strict=True):
        rows = []
        for index, offset, leader_epoch, metadata, _ in topic.partitions:
            error = _check_partition(its, index, metadata, most, code)
            rows.append(TxnOffsetCommitResponsePartition(index, error))
            if not error:
                # As in Kafka, the offsets of a transaction do not say to which topic of this name they belong.
                value = OffsetCommitValue(offset, leader_epoch, metadata or "", now_ms)
                records.append(offset_record(request.group_id, topic.name, index, value))
        topics.append(TxnOffsetCommitResponseTopic(topic.name, rows))
    producer = Producer(request.producer_id, request.producer_epoch)
    return Step(tuple(records), (Answer(ticket, TxnOffsetCommitResponse(0, topics)),), producer)


def find_topics(image: Image, topics: Sequence[OffsetCommitRequestTopic], version: int) -> list[Found]:
    """What each of the topics is, or why it is none."""
    by_id = version >= _TOPIC_IDS_SINCE
    return [_find_topic(image, topic.name, topic.topic_id if by_id else None) for topic in topics]


def _find_topic(image: Image, name: str, topic_id: bytes | None) -> Found:
    if topic_id is not None:
        return image.topics.get(topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
    return image.topic(name) or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _check_partition(found: Found, index: int, metadata: str | None, most: int, code: ErrorCode) -> int:
    """`code` is what the group says, `most` the length of the text; a partition that does not exist is told first."""
    if isinstance(found, ErrorCode):
        return found
    if index not in found.partitions:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if code:
        return code
    if metadata and len(metadata) > most:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return 0


def check_commit(
    state: ShardState, request: OffsetCommitRequest, found: list[Found], *, version: int, now_ms: int
) -> ErrorCode:
    """May whoever sent this commit for the group at all?"""
    generation, member_id = request.generation_id_or_member_epoch, request.member_id
    group = state.groups.get(request.group_id)
    if group is None:
        if generation < 0:
            return ErrorCode.NONE
        is_named = version >= _MISSING_GROUPS_NAMED_SINCE
        return ErrorCode.GROUP_ID_NOT_FOUND if is_named else ErrorCode.ILLEGAL_GENERATION
    if isinstance(group, ClassicGroup):
        code = group.check_offset_commit(member_id, request.group_instance_id, generation, is_transactional=False)
        if not code:
            keep_alive(state, group, member_id, now_ms)
        return code
    return group.check_offset_commit(
        member_id,
        request.group_instance_id,
        generation,
        is_transactional=False,
        version=version,
        partitions=_partitions(request.topics, found),
    )


def _check_txn_commit(
    state: ShardState, request: TxnOffsetCommitRequest, found: list[Found], *, version: int
) -> ErrorCode:
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    generation, member_id, instance_id = request.generation_id, request.member_id, request.group_instance_id
    group = state.groups.get(request.group_id)
    if group is None:
        return ErrorCode.NONE if generation < 0 else ErrorCode.ILLEGAL_GENERATION
    if isinstance(group, ClassicGroup):
        return group.check_offset_commit(member_id, instance_id, generation, is_transactional=True)
    code = group.check_offset_commit(
        member_id,
        instance_id,
        generation,
        is_transactional=True,
        version=version,
        partitions=_partitions(request.topics, found),
    )
    # Producers know generations only, and what to do when theirs is over.
    return ErrorCode.ILLEGAL_GENERATION if code is ErrorCode.STALE_MEMBER_EPOCH else code


def _partitions(
    topics: Sequence[OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic], found: list[Found]
) -> Iterator[tuple[bytes, int]]:
    """The partitions that exist, by topic id."""
    for topic, its in zip(topics, found, strict=True):
        if isinstance(its, Topic):
            for partition in topic.partitions:
                if partition.partition_index in its.partitions:
                    yield its.topic_id, partition.partition_index
