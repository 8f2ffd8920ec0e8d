"""ListOffsets (key 2, versions 1-11): the offset at a point in time, at the start, or at the end.

Behaviour   each partition on its own; a consumer's end is the high watermark, or the last stable offset if it reads
            committed data; a timestamp without a record at or after it gives offset -1
Versions    2 has the isolation level; 4 tells leader epochs; 7, 8, 9 and 11 bring -3, -4, -5 and -6
Left out    nothing; without remote storage -4 is the start, and -5 and -6 give offset -1
"""

from collections import Counter
from typing import Final

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from headrace.server.context import RequestContext
from headrace.server.log_errors import LOG_ERRORS, code_of
from headrace.server.offset_lookup import KNOWN_SINCE, NOT_FOUND, look_up
from headrace.server.partition import Partition

_CONSUMER: Final = -1
_READ_COMMITTED: Final = 1
_EPOCHS_SINCE: Final = 4


def handle(request: ListOffsetsRequest, ctx: RequestContext) -> ListOffsetsResponse:
    times_named = Counter((topic.name, row.partition_index) for topic in request.topics for row in topic.partitions)
    topics = [
        ListOffsetsTopicResponse(
            topic.name,
            [
                _refuse(row, ErrorCode.INVALID_REQUEST)
                if times_named[topic.name, row.partition_index] > 1
                else _find(request, topic.name, row, ctx)
                for row in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return ListOffsetsResponse(topics=topics)


def _find(
    request: ListOffsetsRequest, topic: str, row: ListOffsetsPartition, ctx: RequestContext
) -> ListOffsetsPartitionResponse:
    if row.timestamp < 0 and ctx.version < KNOWN_SINCE.get(row.timestamp, ctx.version + 1):
        return _refuse(row, ErrorCode.UNSUPPORTED_VERSION)
    partition = ctx.broker.partitions.leader(topic, row.partition_index)
    if isinstance(partition, ErrorCode):
        return _refuse(row, partition)
    code = partition.check_epoch(row.current_leader_epoch)
    if code:
        return _refuse(row, code)
    try:
        found = look_up(partition, row.timestamp, end_offset=_end_offset(partition, request))
    except LOG_ERRORS as error:
        return _refuse(row, code_of(error))
    except OSError:
        return _refuse(row, ErrorCode.KAFKA_STORAGE_ERROR)
    if ctx.version < _EPOCHS_SINCE:
        found = found._replace(leader_epoch=NOT_FOUND.leader_epoch)
    return ListOffsetsPartitionResponse(row.partition_index, ErrorCode.NONE, *found)


def _end_offset(partition: Partition, request: ListOffsetsRequest) -> int:
    if request.replica_id != _CONSUMER:
        return partition.log.log_end_offset
    return partition.end_offset(committed=request.isolation_level == _READ_COMMITTED)


def _refuse(row: ListOffsetsPartition, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(row.partition_index, code)
