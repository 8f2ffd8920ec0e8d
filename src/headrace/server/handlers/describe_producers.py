"""DescribeProducers (key 61, version 0): who has written to a partition lately, and which transactions are open.

Behaviour   every producer with an id that the partition remembers
            a partition that is named twice is refused: for four bytes there may be thousands of rows to tell
Left out    nothing
"""

from collections import Counter

from headrace.log.producers import ProducerState as KnownProducer
from headrace.protocol.batch import NO_SEQUENCE
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from headrace.server.context import RequestContext


def handle(request: DescribeProducersRequest, ctx: RequestContext) -> DescribeProducersResponse:
    times_named = Counter((topic.name, index) for topic in request.topics for index in topic.partition_indexes)
    topics = [
        TopicResponse(
            topic.name,
            [
                PartitionResponse(index, ErrorCode.INVALID_REQUEST, "the request names this partition twice")
                if times_named[topic.name, index] > 1
                else _describe(topic.name, index, ctx)
                for index in topic.partition_indexes
            ],
        )
        for topic in request.topics
    ]
    return DescribeProducersResponse(topics=topics)


def _describe(topic: str, index: int, ctx: RequestContext) -> PartitionResponse:
    partition = ctx.broker.partitions.leader(topic, index)
    if isinstance(partition, ErrorCode):
        return PartitionResponse(index, partition)
    return PartitionResponse(index, active_producers=[_row(state) for state in partition.log.producers])


def _row(state: KnownProducer) -> ProducerState:
    last = state.last_batch
    return ProducerState(
        producer_id=state.producer_id,
        producer_epoch=state.epoch,
        last_sequence=NO_SEQUENCE if last is None else last.last_sequence,
        last_timestamp=state.last_timestamp,
        coordinator_epoch=state.coordinator_epoch,
        current_txn_start_offset=state.transaction_first_offset,
    )
