"""FindCoordinator (key 10, versions 0-6): the node that looks after a group or a transactional id.

Behaviour   the leader of the key's partition of the coordinator's topic, by an address of the client's listener
            a topic that is not there yet is created, and the answer waits for it: Kafka answers
            COORDINATOR_NOT_AVAILABLE at once, and the client asks again after its back-off
Versions    0 knows groups only; 4 asks for several keys at once; 6 knows share groups
Left out    share groups (KIP-932): COORDINATOR_NOT_AVAILABLE
"""

from typing import Final

from headrace.cluster.image import NO_LEADER, Image
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from headrace.protocol.text_hash import spread
from headrace.server import auto_creation
from headrace.server.client_view import ClientView
from headrace.server.context import RequestContext
from headrace.server.later import Later

_SEVERAL_SINCE: Final = 4
_GROUP: Final = 0
_TRANSACTION: Final = 1
_SHARE: Final = 2
_TOPICS: Final = {_GROUP: "__consumer_offsets", _TRANSACTION: "__transaction_state"}
_NOWHERE: Final = ("", -1)


def handle(
    request: FindCoordinatorRequest, ctx: RequestContext
) -> FindCoordinatorResponse | Later[FindCoordinatorResponse]:
    topic = _TOPICS.get(request.key_type)
    if topic is None or topic in ctx.image.topic_ids or not _keys(request, ctx.version):
        return _answer(request, ctx, ctx.image, topic)
    return auto_creation.create_internal(topic, ctx.broker).map(lambda image: _answer(request, ctx, image, topic))


def _keys(request: FindCoordinatorRequest, version: int) -> list[str]:
    return list(request.coordinator_keys) if version >= _SEVERAL_SINCE else [request.key]


def _answer(
    request: FindCoordinatorRequest, ctx: RequestContext, image: Image, topic: str | None
) -> FindCoordinatorResponse:
    rows = [_find(key, request.key_type, topic, ctx, image) for key in _keys(request, ctx.version)]
    if ctx.version >= _SEVERAL_SINCE:
        return FindCoordinatorResponse(coordinators=rows)
    (row,) = rows
    return FindCoordinatorResponse(
        error_code=row.error_code, error_message=row.error_message, node_id=row.node_id, host=row.host, port=row.port
    )


def _find(key: str, key_type: int, topic: str | None, ctx: RequestContext, image: Image) -> Coordinator:
    if topic is None:
        if key_type == _SHARE:
            return _refuse(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, "share groups are not served")
        return _refuse(key, ErrorCode.INVALID_REQUEST, f"there are no coordinators of type {key_type}")
    topic_id = image.topic_ids.get(topic)
    if topic_id is None:
        return _refuse(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{topic} could not be created")
    partitions = image.topics[topic_id].partitions
    leader = partitions[spread(key, len(partitions))].leader
    for node, _ in ClientView(image, ctx.connection.listener).nodes():
        if node.node_id == leader:
            return Coordinator(key, node.node_id, node.host, node.port, 0, None)
    return _refuse(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, "nobody leads the partition of this key now")


def _refuse(key: str, code: ErrorCode, reason: str) -> Coordinator:
    return Coordinator(key, NO_LEADER, *_NOWHERE, code, reason)
