"""OffsetCommit (key 8, versions 2-10): how far a group has come, written down.

Behaviour   each partition is taken or refused by itself; a member of an older generation is refused as a whole
Versions    6 adds the leader epoch of the last record; 7 knows static members; 9 tells consumer groups about stale
            epochs; 10 names topics by id
"""

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from headrace.server.context import RequestContext
from headrace.server.later import Later


def handle(request: OffsetCommitRequest, ctx: RequestContext) -> OffsetCommitResponse | Later[OffsetCommitResponse]:
    def refuse(code: ErrorCode) -> OffsetCommitResponse:
        return OffsetCommitResponse(
            topics=[
                OffsetCommitResponseTopic(
                    topic.name,
                    topic.topic_id,
                    [OffsetCommitResponsePartition(row.partition_index, _in_words(code)) for row in topic.partitions],
                )
                for topic in request.topics
            ]
        )

    return ctx.broker.coordinators.groups.submit(
        request.group_id,
        lambda shard, ticket: shard.offset_commit(request, ticket=ticket, version=ctx.version, now_ms=ctx.now_ms()),
        refuse,
        is_light=True,
    )


def _in_words(code: ErrorCode) -> ErrorCode:
    """What the log calls too large, clients of this API know by another name."""
    return ErrorCode.INVALID_COMMIT_OFFSET_SIZE if code is ErrorCode.MESSAGE_TOO_LARGE else code
