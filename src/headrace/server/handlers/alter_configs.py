"""AlterConfigs (key 33, versions 0-2): give all configs of a resource anew; what is left out gets its default again.

Behaviour   each resource by itself; `validate_only` says what would happen
Versions    2 is flexible; nothing else differs
Left out    nothing; loggers can only be changed by IncrementalAlterConfigs
"""

from collections.abc import Mapping

from headrace.cluster.config_changes import alter_configs
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from headrace.server.config_rules import code_to_tell, find_foreign_broker
from headrace.server.context import RequestContext
from headrace.server.later import Later


def handle(request: AlterConfigsRequest, ctx: RequestContext) -> Later[AlterConfigsResponse]:
    controller = ctx.broker.controller
    refused = {
        place: AlterConfigsResourceResponse(ErrorCode.INVALID_REQUEST, reason, row.resource_type, row.resource_name)
        for place, row in enumerate(request.resources)
        if (reason := find_foreign_broker(row.resource_type, row.resource_name, ctx.broker.node_id))
    }
    others = request._replace(resources=[row for place, row in enumerate(request.resources) if place not in refused])
    altered = controller.submit(lambda image: alter_configs(image, controller.settings, others))
    return altered.map(lambda response: _merge(refused, response))


def _merge(refused: Mapping[int, AlterConfigsResourceResponse], response: AlterConfigsResponse) -> AlterConfigsResponse:
    """All rows, in the order of the request."""
    rows = [row._replace(error_code=code_to_tell(row.resource_type, row.error_code)) for row in response.responses]
    for place, row in sorted(refused.items()):
        rows.insert(place, row)
    return response._replace(responses=rows)
