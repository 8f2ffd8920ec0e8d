"""Offsets that nobody needs any more: of groups that went silent long ago, and of topics that were deleted.

An offset expires `offsets.retention.minutes` after its group became empty; without members to wait for (a simple
consumer), or when no member is subscribed to its topic any more, after it was committed. An offset that a transaction
may still change stays. A group without members goes with its last offset.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from headrace.cluster.image import Image
from headrace.coordinator.batches import in_batches
from headrace.coordinator.group_records import offset_commit as offset_record
from headrace.coordinator.result import Step
from headrace.coordinator.shard_state import DeadlineKey, Due, Group, ShardState
from headrace.protocol.internal_records import CoordinatorRecord
from headrace.protocol.messages.group_records import OffsetCommitValue
from headrace.protocol.types import ZERO_UUID

_EXPIRY: Final[DeadlineKey] = ("offset-expiry",)
_TOMBSTONES_PER_STEP: Final = 1_000  # some 100 KB, unless names are very long


def start(state: ShardState, now_ms: int) -> None:
    """From now on, look for expired offsets every now and then."""
    state.deadlines.set(_EXPIRY, now_ms + state.settings.offsets_retention_check_interval_ms)


def _expire_all(state: ShardState, _: DeadlineKey, now_ms: int) -> Iterator[Step]:
    start(state, now_ms)
    for group in list(state.groups.values()):
        yield from _in_steps(state, _expired(state, group, now_ms))


DUE: Final[Mapping[str, Due]] = {_EXPIRY[0]: _expire_all}


def _expired(state: ShardState, group: Group, now_ms: int) -> list[CoordinatorRecord]:
    """Tombstones for what has expired in a group, and for the group if nothing of it is left."""
    group_id = group.group_id
    records = []
    is_any_left = state.offsets.has_pending(group_id)
    for topic, partitions in state.offsets.of_group(group_id).items():
        is_subscribed = group.is_subscribed(topic)
        for partition, value in partitions.items():
            if not is_subscribed and _is_expired(state, group, topic, partition, value, now_ms):
                records.append(offset_record(group_id, topic, partition, None))
            else:
                is_any_left = True
    if not is_any_left and group.is_empty:
        records += group.tombstones()
    return records


def _is_expired(
    state: ShardState, group: Group, topic: str, partition: int, value: OffsetCommitValue, now_ms: int
) -> bool:
    since_ms = group.offset_expires_from(value.commit_timestamp)
    if since_ms is None:
        return False
    expires_ms = since_ms + state.settings.offsets_retention_ms
    if value.expire_timestamp >= 0:
        expires_ms = value.expire_timestamp  # the client chose it: only versions 2-4 of OffsetCommit can
    return now_ms >= expires_ms and not state.offsets.is_pending(group.group_id, topic, partition)


def image_changed(state: ShardState, before: Image) -> Iterator[Step]:
    """Forget the offsets of topics that were deleted; `state.image` is the new one already."""
    if before.topic_ids is state.image.topic_ids or not state.offsets:
        return
    gone = [topic_id for topic_id in before.topics if topic_id not in state.image.topics]
    yield from _in_steps(
        state, [record for topic_id in gone for record in _of_deleted(state, before.topics[topic_id].name, topic_id)]
    )


def _of_deleted(state: ShardState, topic: str, topic_id: bytes) -> Iterator[CoordinatorRecord]:
    """Tombstones for a topic's offsets, but not for those of another topic with the same name."""
    places = {
        (group_id, partition): None
        for group_id, partition, value in state.offsets.of_topic(topic)
        if value is None or value.topic_id in (ZERO_UUID, topic_id)
    }
    for group_id, partition in places:
        yield offset_record(group_id, topic, partition, None)


def _in_steps(state: ShardState, records: list[CoordinatorRecord]) -> Iterator[Step]:
    """The first ones first: a group goes after its offsets."""
    most_bytes = state.settings.max_record_bytes(state.image)
    return map(Step, in_batches(records, most_records=_TOMBSTONES_PER_STEP, most_bytes=most_bytes))
