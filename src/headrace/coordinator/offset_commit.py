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
from headrace.coordinator.result import Producer, Step, Ticket, answer
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
from headrace.protocol.types import ZERO_UUID

_MISSING_GROUPS_NAMED_SINCE: Final = 9
_TOPIC_IDS_SINCE: Final = 10
_BROKERS_RETENTION: Final = -1
_NO_EXPIRY: Final = -1
_LAST_TIMESTAMP: Final = (1 << 63) - 1

_Found: TypeAlias = Topic | ErrorCode


def offset_commit(
    state: ShardState, request: OffsetCommitRequest, *, ticket: Ticket, version: int, now_ms: int
) -> Step:
    by_id = version >= _TOPIC_IDS_SINCE
    found = [_find_topic(state.image, topic.name, topic.topic_id if by_id else None) for topic in request.topics]
    code = _check_commit(state, request, found, version=version, now_ms=now_ms)
    records: list[CoordinatorRecord] = []
    topics = [
        OffsetCommitResponseTopic(
            topic.name, topic.topic_id, [*_commit(state, request, topic, its, code, now_ms, records)]
        )
        for topic, its in zip(request.topics, found, strict=True)
    ]
    return Step(tuple(records), answer(ticket, OffsetCommitResponse(topics=topics)).answers)


def _commit(
    state: ShardState,
    request: OffsetCommitRequest,
    topic: OffsetCommitRequestTopic,
    found: _Found,
    code: ErrorCode,
    now_ms: int,
    records: list[CoordinatorRecord],
) -> Iterator[OffsetCommitResponsePartition]:
    """Answers for the partitions of one topic; their records go to `records`."""
    retention_ms = request.retention_time_ms
    for index, offset, leader_epoch, metadata, _ in topic.partitions:
        error = _check_partition(state, found, index, metadata, code)
        if not error and isinstance(found, Topic):
            if retention_ms == _BROKERS_RETENTION:
                value = OffsetCommitValue(offset, leader_epoch, metadata or "", now_ms, _NO_EXPIRY, found.topic_id)
            else:
                # The version of the record that can say when an offset expires has neither epoch nor topic id.
                expires_ms = min(now_ms + retention_ms, _LAST_TIMESTAMP)
                value = OffsetCommitValue(offset, -1, metadata or "", now_ms, expires_ms, ZERO_UUID)
            records.append(offset_record(request.group_id, found.name, index, value))
        yield OffsetCommitResponsePartition(index, error)


def txn_offset_commit(
    state: ShardState, request: TxnOffsetCommitRequest, *, ticket: Ticket, version: int, now_ms: int
) -> Step:
    found = [_find_topic(state.image, topic.name, None) for topic in request.topics]
    code = _check_txn_commit(state, request, found, version=version)
    records: list[CoordinatorRecord] = []
    topics = [
        TxnOffsetCommitResponseTopic(topic.name, [*_txn_commit(state, request, topic, its, code, now_ms, records)])
        for topic, its in zip(request.topics, found, strict=True)
    ]
    answers = answer(ticket, TxnOffsetCommitResponse(topics=topics)).answers
    return Step(tuple(records), answers, Producer(request.producer_id, request.producer_epoch))


def _txn_commit(
    state: ShardState,
    request: TxnOffsetCommitRequest,
    topic: TxnOffsetCommitRequestTopic,
    found: _Found,
    code: ErrorCode,
    now_ms: int,
    records: list[CoordinatorRecord],
) -> Iterator[TxnOffsetCommitResponsePartition]:
    for index, offset, leader_epoch, metadata, _ in topic.partitions:
        error = _check_partition(state, found, index, metadata, code)
        if not error:
            # As in Kafka, the offsets of a transaction do not say to which of several topics of this name they belong.
            value = OffsetCommitValue(offset, leader_epoch, metadata or "", now_ms)
            records.append(offset_record(request.group_id, topic.name, index, value))
        yield TxnOffsetCommitResponsePartition(index, error)


def _find_topic(image: Image, name: str, topic_id: bytes | None) -> _Found:
    if topic_id is not None:
        return image.topics.get(topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
    return image.topic(name) or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _check_partition(state: ShardState, found: _Found, index: int, metadata: str | None, code: ErrorCode) -> ErrorCode:
    """`code` is what the group says; a partition that does not exist is told first."""
    if isinstance(found, ErrorCode):
        return found
    if index not in found.partitions:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if code:
        return code
    if metadata is not None and len(metadata) > state.settings.offset_metadata_max_bytes:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return ErrorCode.NONE


def _check_commit(
    state: ShardState, request: OffsetCommitRequest, found: list[_Found], *, version: int, now_ms: int
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
    state: ShardState, request: TxnOffsetCommitRequest, found: list[_Found], *, version: int
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
    topics: Sequence[OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic], found: list[_Found]
) -> Iterator[tuple[bytes, int]]:
    """The partitions that exist, by topic id."""
    for topic, its in zip(topics, found, strict=True):
        if isinstance(its, Topic):
            for partition in topic.partitions:
                if partition.partition_index in its.partitions:
                    yield its.topic_id, partition.partition_index
