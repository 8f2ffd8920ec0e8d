"""DescribeQuorum (key 55, versions 0-2): who votes on the cluster's metadata, who leads, and how far all are.

Behaviour   only __cluster_metadata-0 has a quorum; whoever asks for anything else, too, gets an error for every row
Versions    1 tells when a voter was heard of; 2 tells directories and addresses
Left out    observers: brokers that do not vote are not served yet
"""

from typing import Final

from headrace.cluster.topic_names import METADATA_TOPIC
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
    TopicData,
)
from headrace.protocol.types import ZERO_UUID
from headrace.server.context import RequestContext

_ADDRESSES_SINCE: Final = 2
_SERVED: Final = [TopicData(METADATA_TOPIC, [PartitionData(0)])]


def handle(request: DescribeQuorumRequest, ctx: RequestContext) -> DescribeQuorumResponse:
    wanted = [
        TopicData(row.topic_name, [PartitionData(each.partition_index) for each in row.partitions])
        for row in request.topics
    ]
    if wanted != _SERVED:
        return DescribeQuorumResponse(topics=[_refuse(row) for row in wanted])
    me = ctx.broker.controller.quorum.me
    node = Node(me.voter_id, [Listener(each.name, each.host, each.port) for each in me.endpoints])
    topic = ResponseTopicData(METADATA_TOPIC, [_partition(ctx)])
    return DescribeQuorumResponse(topics=[topic], nodes=[node] if ctx.version >= _ADDRESSES_SINCE else ())


def _partition(ctx: RequestContext) -> ResponsePartitionData:
    quorum = ctx.broker.controller.quorum
    now_ms = ctx.now_ms()
    directory_id = quorum.me.directory_id if ctx.version >= _ADDRESSES_SINCE else ZERO_UUID
    leader = ReplicaState(quorum.me.voter_id, directory_id, quorum.log_end_offset, now_ms, now_ms)
    return ResponsePartitionData(
        partition_index=0,
        leader_id=quorum.leader_id,
        leader_epoch=quorum.epoch,
        high_watermark=quorum.high_watermark,
        current_voters=[leader],
    )


def _refuse(topic: TopicData) -> ResponseTopicData:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    reason = f"only {METADATA_TOPIC}-0 has a quorum, and it must be asked for alone"
    rows = [ResponsePartitionData(each.partition_index, code, reason) for each in topic.partitions]
    return ResponseTopicData(topic.topic_name, rows)
