"""OffsetDelete: forget how far a group has come with some topics, unless a member is subscribed to them."""

from collections.abc import Iterator

from headrace.coordinator.group_records import offset_commit as offset_record
from headrace.coordinator.result import Step, Ticket, answer
from headrace.coordinator.shard_state import Group, ShardState
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.internal_records import CoordinatorRecord
from headrace.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def offset_delete(state: ShardState, request: OffsetDeleteRequest, *, ticket: Ticket) -> Step:
    group = state.groups.get(request.group_id)
    if not request.group_id:
        return answer(ticket, OffsetDeleteResponse(ErrorCode.INVALID_GROUP_ID))
    if group is None:
        return answer(ticket, OffsetDeleteResponse(ErrorCode.GROUP_ID_NOT_FOUND))
    code = group.check_offset_delete()
    if code:
        return answer(ticket, OffsetDeleteResponse(code))
    records: list[CoordinatorRecord] = []
    topics = [
        OffsetDeleteResponseTopic(topic.name, [*_delete(state, group, topic, records)]) for topic in request.topics
    ]
    return Step(tuple(records), answer(ticket, OffsetDeleteResponse(topics=topics)).answers)


def _delete(
    state: ShardState, group: Group, asked: OffsetDeleteRequestTopic, records: list[CoordinatorRecord]
) -> Iterator[OffsetDeleteResponsePartition]:
    """Answers for the partitions of one topic; the tombstones go to `records`."""
    group_id, name = group.group_id, asked.name
    topic = state.image.topic(name)
    for (index,) in asked.partitions:
        code = ErrorCode.NONE
        if topic is None or index not in topic.partitions:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif group.is_subscribed(name):
            code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        elif state.offsets.get(group_id, name, index) or state.offsets.is_pending(group_id, name, index):
            records.append(offset_record(group_id, name, index, None))
        yield OffsetDeleteResponsePartition(index, code)
