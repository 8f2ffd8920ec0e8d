"""DescribeTopicPartitions (key 75, version 0): partitions with their eligible leader replicas, page by page.

Behaviour   topics in order of their names, from the cursor on, all of them if none is named; a page has at most
            `response_partition_limit` partitions, and not more than max.request.partition.size.limit
Left out    nothing
"""

from collections.abc import Sequence

from headrace.cluster.image import Partition, Topic
from headrace.cluster.topic_names import find_name_fault
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from headrace.server.client_view import ALL_TOPIC_OPERATIONS, ClientView
from headrace.server.context import RequestContext
from headrace.server.node_configs import value_of
from headrace.server.partition import INTERNAL_TOPICS


def handle(request: DescribeTopicPartitionsRequest, ctx: RequestContext) -> DescribeTopicPartitionsResponse:
    cursor = request.cursor or Cursor("", 0)
    named = {row.name for row in request.topics}
    if cursor.partition_index < 0 or (request.cursor is not None and named and cursor.topic_name not in named):
        return _refuse(request)
    names = sorted(name for name in named or ctx.image.topic_ids if name >= cursor.topic_name)
    return _page(names, cursor, _limit(request, ctx), ctx)


def _limit(request: DescribeTopicPartitionsRequest, ctx: RequestContext) -> int:
    most: int = value_of("max.request.partition.size.limit", ctx.image, ctx.broker.controller.settings)
    return max(1, min(most, request.response_partition_limit))


def _page(names: Sequence[str], cursor: Cursor, limit: int, ctx: RequestContext) -> DescribeTopicPartitionsResponse:
    view = ClientView(ctx.image, ctx.connection.listener)
    rows: list[DescribeTopicPartitionsResponseTopic] = []
    for name in names:
        if limit == 0:
            return DescribeTopicPartitionsResponse(topics=rows, next_cursor=Cursor(name, 0))
        topic = ctx.image.topic(name)
        if topic is None:
            rows.append(_unknown(name))
            continue
        first = cursor.partition_index if name == cursor.topic_name else 0
        end = min(first + limit, len(topic.partitions))
        partitions = [_partition(view, index, topic.partitions[index]) for index in range(first, end)]
        rows.append(_topic(topic, partitions))
        limit -= len(partitions)
        if end < len(topic.partitions):
            return DescribeTopicPartitionsResponse(topics=rows, next_cursor=Cursor(name, end))
    return DescribeTopicPartitionsResponse(topics=rows)


def _topic(
    topic: Topic, partitions: list[DescribeTopicPartitionsResponsePartition]
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=partitions,
        topic_authorized_operations=ALL_TOPIC_OPERATIONS,
    )


def _partition(view: ClientView, index: int, partition: Partition) -> DescribeTopicPartitionsResponsePartition:
    code, leader = view.leader_of(partition)
    return DescribeTopicPartitionsResponsePartition(
        error_code=code,
        partition_index=index,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        eligible_leader_replicas=partition.elr,
        last_known_elr=partition.last_known_elr,
        offline_replicas=view.offline_replicas(partition),
    )


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if find_name_fault(name) is None else ErrorCode.INVALID_TOPIC_EXCEPTION
    return DescribeTopicPartitionsResponseTopic(
        code, name, is_internal=name in INTERNAL_TOPICS, topic_authorized_operations=ALL_TOPIC_OPERATIONS
    )


def _refuse(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    """The cursor is none that this call gave: its topic must be among those that are asked for."""
    return DescribeTopicPartitionsResponse(
        topics=[DescribeTopicPartitionsResponseTopic(ErrorCode.INVALID_REQUEST, row.name) for row in request.topics]
    )
