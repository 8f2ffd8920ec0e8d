"""OffsetForLeaderEpoch (key 23, versions 2-4): where a leader epoch ended, so that a reader sees if its history holds.

Behaviour   the largest epoch up to the one asked for, and the offset after its last record; (-1, -1) if unknown
Versions    3 says who asks; 4 is flexible
Left out    nothing
"""

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from headrace.server.context import RequestContext


def handle(request: OffsetForLeaderEpochRequest, ctx: RequestContext) -> OffsetForLeaderEpochResponse:
    topics = [
        OffsetForLeaderTopicResult(topic.topic, [_find(topic.topic, row, ctx) for row in topic.partitions])
        for topic in request.topics
    ]
    return OffsetForLeaderEpochResponse(topics=topics)


def _find(topic: str, row: OffsetForLeaderPartition, ctx: RequestContext) -> EpochEndOffset:
    partition = ctx.broker.partitions.leader(topic, row.partition)
    if isinstance(partition, ErrorCode):
        return EpochEndOffset(partition, row.partition)
    code = partition.check_epoch(row.current_leader_epoch)
    if code:
        return EpochEndOffset(code, row.partition)
    log = partition.log
    epoch, end_offset = log.epochs.end_offset_for(row.leader_epoch, log.log_end_offset)
    return EpochEndOffset(ErrorCode.NONE, row.partition, epoch, end_offset)
