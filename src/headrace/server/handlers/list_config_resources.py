"""ListConfigResources (key 74, versions 0-1): what has configs that can be described.

Behaviour   topics and brokers that are there, groups and client metrics subscriptions that were configured
Versions    0 lists client metrics subscriptions only; from 1 on the kinds that are named, or all
Left out    nothing
"""

from collections.abc import Iterable

from headrace.cluster.image import ConfigKind, Image
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from headrace.server.client_view import ClientView
from headrace.server.context import RequestContext


def handle(request: ListConfigResourcesRequest, ctx: RequestContext) -> ListConfigResourcesResponse:
    wanted: Iterable[int] = dict.fromkeys(request.resource_types) or tuple(ConfigKind)
    if ctx.version == 0:
        wanted = (ConfigKind.CLIENT_METRICS,)
    if not set(wanted) <= set(ConfigKind):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    rows = [ConfigResource(name, kind) for kind in wanted for name in _names(kind, ctx.image, ctx.connection.listener)]
    return ListConfigResourcesResponse(config_resources=rows)


def _names(kind: int, image: Image, listener: str) -> Iterable[str]:
    if kind == ConfigKind.TOPIC:
        return image.topic_ids
    if kind in (ConfigKind.BROKER, ConfigKind.BROKER_LOGGER):
        return [str(node.node_id) for node, _ in ClientView(image, listener).nodes()]
    return [resource.name for resource in image.configs if resource.kind == kind]
