"""OffsetFetch: how far a group has come.

A group that does not exist has no offsets, which is no error: a consumer that starts for the first time asks, too.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from headrace.coordinator.shard_state import ShardState
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.group_records import OffsetCommitValue
from headrace.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from headrace.protocol.types import ZERO_UUID

_TOPIC_IDS_SINCE: Final = 10
_NO_OFFSET: Final = -1


def fetch_offsets(
    state: ShardState, asked: OffsetFetchRequestGroup, *, version: int, require_stable: bool
) -> OffsetFetchResponseGroup:
    """`require_stable`: where an open transaction may change an offset, say so instead of the old offset."""
    group = state.groups.get(asked.group_id)
    if group is not None:
        code = group.check_offset_fetch(asked.member_id, asked.member_epoch)
        if code:
            return OffsetFetchResponseGroup(asked.group_id, error_code=code)
    by_id = version >= _TOPIC_IDS_SINCE
    if asked.topics is None:
        topics = [*_all_topics(state, asked.group_id, by_id=by_id, require_stable=require_stable)]
    else:
        topics = [
            _topic(state, asked.group_id, topic, by_id=by_id, require_stable=require_stable) for topic in asked.topics
        ]
    return OffsetFetchResponseGroup(asked.group_id, topics)


def _all_topics(
    state: ShardState, group_id: str, *, by_id: bool, require_stable: bool
) -> Iterator[OffsetFetchResponseTopics]:
    for name, partitions in state.offsets.of_group(group_id).items():
        topic_id = state.image.topic_ids.get(name, ZERO_UUID)
        if by_id and topic_id == ZERO_UUID:
            continue  # it is gone, and the client could not tell which topic is meant
        rows = _partitions(state, group_id, name, ZERO_UUID, partitions, require_stable=require_stable)
        yield OffsetFetchResponseTopics(name, topic_id, [*rows])


def _topic(
    state: ShardState, group_id: str, asked: OffsetFetchRequestTopics, *, by_id: bool, require_stable: bool
) -> OffsetFetchResponseTopics:
    name, topic_id, indexes, _ = asked
    if by_id:
        topic = state.image.topics.get(topic_id)
        if topic is None:
            unknown = [_no_offset(index, ErrorCode.UNKNOWN_TOPIC_ID) for index in indexes]
            return OffsetFetchResponseTopics(name, topic_id, unknown)
        name = topic.name
    rows = _partitions(state, group_id, name, topic_id, indexes, require_stable=require_stable)
    return OffsetFetchResponseTopics(name, topic_id, [*rows])


def _partitions(
    state: ShardState, group_id: str, topic: str, topic_id: bytes, indexes: Iterable[int], *, require_stable: bool
) -> Iterator[OffsetFetchResponsePartitions]:
    offsets = state.offsets
    committed = offsets.of_group(group_id).get(topic, {})
    is_watched = require_stable and offsets.has_pending(group_id)
    for index in indexes:
        value = committed.get(index)
        if is_watched and offsets.is_pending(group_id, topic, index):
            yield _no_offset(index, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        elif value is None or _is_of_another_topic(value, topic_id):
            yield _no_offset(index, ErrorCode.NONE)
        else:
            yield OffsetFetchResponsePartitions(index, value.offset, value.leader_epoch, value.metadata)


def _is_of_another_topic(value: OffsetCommitValue, topic_id: bytes) -> bool:
    """Was the offset committed for an older topic of the same name? Nobody knows where an id is missing."""
    return topic_id not in (ZERO_UUID, value.topic_id) and value.topic_id != ZERO_UUID


def _no_offset(index: int, code: ErrorCode) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(index, _NO_OFFSET, error_code=code)
