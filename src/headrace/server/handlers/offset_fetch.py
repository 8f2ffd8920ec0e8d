"""OffsetFetch (key 9, versions 1-10): how far groups have come.

Behaviour   of some partitions or of all that a group has committed; -1 where there is none
Versions    2 has an error for the whole; 7 may insist on offsets that no open transaction is about to change;
            8 asks for several groups; 9 names the member, so that a stale one is told; 10 names topics by id
"""

from collections.abc import Sequence
from typing import Final

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
)
from headrace.server.context import RequestContext
from headrace.server.later import Later, gather

_WHOLE_ERRORS_SINCE: Final = 2
_SEVERAL_SINCE: Final = 8
_NO_OFFSET: Final = -1


def handle(request: OffsetFetchRequest, ctx: RequestContext) -> Later[OffsetFetchResponse]:
    if ctx.version >= _SEVERAL_SINCE:
        fetched = gather([_fetch(group, request, ctx) for group in _distinct(request.groups)])
        return fetched.map(lambda groups: OffsetFetchResponse(groups=groups))
    group = OffsetFetchRequestGroup(
        request.group_id,
        topics=None
        if request.topics is None
        else [
            OffsetFetchRequestTopics(topic.name, partition_indexes=topic.partition_indexes) for topic in request.topics
        ],
    )
    return _fetch(group, request, ctx).map(lambda found: _of_one_group(found, group, ctx.version))


def _distinct(groups: Sequence[OffsetFetchRequestGroup]) -> list[OffsetFetchRequestGroup]:
    """All partitions of a group are told once, however often a request of a few bytes asks for them."""
    asked: set[str] = set()
    distinct = []
    for group in groups:
        if group.topics is not None or group.group_id not in asked:
            distinct.append(group)
        if group.topics is None:
            asked.add(group.group_id)
    return distinct


def _fetch(
    group: OffsetFetchRequestGroup, request: OffsetFetchRequest, ctx: RequestContext
) -> Later[OffsetFetchResponseGroup]:
    return ctx.broker.coordinators.groups.look(
        group.group_id,
        lambda shard: shard.fetch_offsets(group, version=ctx.version, require_stable=request.require_stable),
        lambda code: OffsetFetchResponseGroup(group.group_id, error_code=code),
    )


def _of_one_group(found: OffsetFetchResponseGroup, asked: OffsetFetchRequestGroup, version: int) -> OffsetFetchResponse:
    """As older versions say it; the oldest has an error for each partition only."""
    if found.error_code and version < _WHOLE_ERRORS_SINCE:
        code = ErrorCode(found.error_code)
        return OffsetFetchResponse(topics=[_refused(topic, code) for topic in asked.topics or ()])
    topics = [
        OffsetFetchResponseTopic(topic.name, [_row(partition) for partition in topic.partitions])
        for topic in found.topics
    ]
    return OffsetFetchResponse(topics=topics, error_code=found.error_code)


def _row(partition: OffsetFetchResponsePartitions) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(*partition)


def _refused(topic: OffsetFetchRequestTopics, code: ErrorCode) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        topic.name,
        [
            OffsetFetchResponsePartition(index, _NO_OFFSET, metadata="", error_code=code)
            for index in topic.partition_indexes
        ],
    )
