"""DeleteRecords (key 21, versions 0-2): move the log start offset forward.

Behaviour   each partition on its own; -1 means the high watermark; files go when a whole segment is below the new start
            a topic that is only compacted keeps its records: POLICY_VIOLATION
Versions    2 is flexible; nothing else differs
Left out    nothing
"""

from typing import Final

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from headrace.server.context import RequestContext
from headrace.server.log_errors import LOG_ERRORS, code_of

_NO_OFFSET: Final = -1


def handle(request: DeleteRecordsRequest, ctx: RequestContext) -> DeleteRecordsResponse:
    topics = [
        DeleteRecordsTopicResult(topic.name, [_delete(topic.name, wanted, ctx) for wanted in topic.partitions])
        for topic in request.topics
    ]
    return DeleteRecordsResponse(topics=topics)


def _delete(topic: str, wanted: DeleteRecordsPartition, ctx: RequestContext) -> DeleteRecordsPartitionResult:
    index = wanted.partition_index
    partition = ctx.broker.partitions.leader(topic, index)
    if isinstance(partition, ErrorCode):
        return DeleteRecordsPartitionResult(index, _NO_OFFSET, partition)
    if partition.is_internal:
        return DeleteRecordsPartitionResult(index, _NO_OFFSET, ErrorCode.INVALID_TOPIC_EXCEPTION)
    config = partition.log.config
    if config.is_compacted and not config.is_deleted:
        return DeleteRecordsPartitionResult(index, _NO_OFFSET, ErrorCode.POLICY_VIOLATION)
    try:
        return DeleteRecordsPartitionResult(index, partition.advance_log_start(wanted.offset))
    except LOG_ERRORS as error:
        return DeleteRecordsPartitionResult(index, _NO_OFFSET, code_of(error))
