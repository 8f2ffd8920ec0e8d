"""Metadata (key 3, versions 0-13): the nodes of the cluster, and who leads the partitions of topics.

Behaviour   all topics, some by name, or some by id; addresses are those of the listener that the client came by
            a topic that does not exist is created if request and broker allow it, and the answer waits until it is
            there: Kafka answers UNKNOWN_TOPIC_OR_PARTITION at once, and the client asks again after its back-off
Versions    0: an empty list means all topics, and replicas out of reach are left out; from 1 on null means all
            6 tells LISTENER_NOT_FOUND from LEADER_NOT_AVAILABLE; 10 tells ids, and 12 looks topics up by them
Left out    nothing
"""

from typing import Final

from headrace.cluster.image import Image, Partition, Topic
from headrace.cluster.topic_names import find_name_fault
from headrace.cluster.topics import create_topics
from headrace.log.errors import StorageError
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from headrace.protocol.primitives import new
from headrace.protocol.types import ZERO_UUID
from headrace.server import auto_creation
from headrace.server.chance import chance
from headrace.server.client_view import ALL_CLUSTER_OPERATIONS, ALL_TOPIC_OPERATIONS, ClientView
from headrace.server.context import RequestContext
from headrace.server.later import Later
from headrace.server.partition import INTERNAL_TOPICS

_ALL_IS_NULL_SINCE: Final = 1
_LISTENER_FAULTS_SINCE: Final = 6
_LOOK_UP_BY_ID_SINCE: Final = 12


def handle(request: MetadataRequest, ctx: RequestContext) -> MetadataResponse | Later[MetadataResponse]:
    topics = request.topics
    if topics is None or (not topics and ctx.version < _ALL_IS_NULL_SINCE):
        return _Answer(request, ctx, ctx.image).response(list(ctx.image.topic_ids))
    ids = list(dict.fromkeys(row.topic_id for row in topics if row.topic_id != ZERO_UUID))
    if (not ids and any(row.name is None for row in topics)) or (ids and ctx.version < _LOOK_UP_BY_ID_SINCE):
        return _refuse(request)
    if ids:
        return _Answer(request, ctx, ctx.image).response(ids)
    names = list(dict.fromkeys(row.name or "" for row in topics))
    missing = [name for name in names if name not in ctx.image.topic_ids and find_name_fault(name) is None]
    controller = ctx.broker.controller
    if not (missing and request.allow_auto_topic_creation and auto_creation.is_enabled(ctx.image, controller.settings)):
        return _Answer(request, ctx, ctx.image).response(names)
    wanted = auto_creation.creation_of(missing, ctx.image, controller.settings)
    quota = ctx.mutation_quota(is_strict=True)
    try:
        created = controller.submit(
            lambda image: create_topics(image, controller.settings, wanted, chance(ctx.broker.random), quota=quota)
        )
    except StorageError:  # the disk has no room for it: the topic stays unknown, and the client asks again
        return _Answer(request, ctx, ctx.image).response(names)
    return created.map(lambda _: _Answer(request, ctx, controller.image).response(names))


class _Answer:
    """What is the same for all rows of one answer."""

    __slots__ = ("_ctx", "_image", "_request", "_view")

    def __init__(self, request: MetadataRequest, ctx: RequestContext, image: Image) -> None:
        self._request = request
        self._ctx = ctx
        self._image = image
        self._view = ClientView(image, ctx.connection.listener)

    def response(self, topics: "list[str] | list[bytes]") -> MetadataResponse:
        request, broker = self._request, self._ctx.broker
        rows = [self._topic(topic) for topic in topics]
        if request.include_topic_authorized_operations:
            rows = [row._replace(topic_authorized_operations=ALL_TOPIC_OPERATIONS) for row in rows]
        response = MetadataResponse(
            brokers=[MetadataResponseBroker(*node) for node, _ in self._view.known_nodes()],
            cluster_id=broker.cluster_id,
            controller_id=self._view.controller_id(broker.node_id),
            topics=rows,
        )
        if request.include_cluster_authorized_operations:
            return response._replace(cluster_authorized_operations=ALL_CLUSTER_OPERATIONS)
        return response

    def _topic(self, wanted: str | bytes) -> MetadataResponseTopic:
        if isinstance(wanted, bytes):
            topic = self._image.topics.get(wanted)
            if topic is None:
                return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, wanted)
        else:
            topic = self._image.topic(wanted)
            if topic is None:
                return _unknown(wanted)
        return MetadataResponseTopic(
            ErrorCode.NONE, topic.name, topic.topic_id, topic.name in INTERNAL_TOPICS, self._partitions(topic)
        )

    def _partitions(self, topic: Topic) -> list[MetadataResponsePartition]:
        version, view = self._ctx.version, self._view
        rows = []
        for index, partition in topic.partitions.items():
            code, leader = view.leader_of(partition)
            if code and version < _LISTENER_FAULTS_SINCE:
                code = ErrorCode.LEADER_NOT_AVAILABLE
            offline = view.offline_replicas(partition)
            row = new(
                MetadataResponsePartition,
                (code, index, leader, partition.leader_epoch, partition.replicas, partition.isr, offline, ()),
            )
            if offline and version < _ALL_IS_NULL_SINCE:
                row = self._without_unreachable(row, partition)
            rows.append(row)
        return rows

    def _without_unreachable(self, row: MetadataResponsePartition, partition: Partition) -> MetadataResponsePartition:
        replicas = list(filter(self._view.is_reachable, partition.replicas))
        isr = list(filter(self._view.is_reachable, partition.isr))
        is_whole = len(replicas) == len(partition.replicas) and len(isr) == len(partition.isr)
        code = row.error_code or (ErrorCode.NONE if is_whole else ErrorCode.REPLICA_NOT_AVAILABLE)
        return row._replace(error_code=code, replica_nodes=replicas, isr_nodes=isr)


def _unknown(name: str) -> MetadataResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if find_name_fault(name) is None else ErrorCode.INVALID_TOPIC_EXCEPTION
    return MetadataResponseTopic(code, name, is_internal=name in INTERNAL_TOPICS)


def _refuse(request: MetadataRequest) -> MetadataResponse:
    """A topic without a name, or an id before ids were looked up: as Kafka, without nodes."""
    rows = [
        MetadataResponseTopic(ErrorCode.INVALID_REQUEST, row.name or "", row.topic_id) for row in request.topics or ()
    ]
    return MetadataResponse(topics=rows)
