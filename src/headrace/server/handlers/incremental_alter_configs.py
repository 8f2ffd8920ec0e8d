"""IncrementalAlterConfigs (key 44, versions 0-1): set, delete, append to and subtract from single configs.

Behaviour   each resource by itself, all of its changes or none; `validate_only` says what would happen
            the levels of loggers belong to this broker and are gone when it stops; all else goes to the controller
Versions    1 is flexible; nothing else differs
Left out    nothing
"""

from collections.abc import Mapping

from headrace.cluster.config_changes import alter_configs_incrementally
from headrace.cluster.image import ConfigKind
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from headrace.server.config_rules import RuleError, change_loggers, code_to_tell, find_foreign_broker, repeated
from headrace.server.context import RequestContext
from headrace.server.later import Later


def handle(request: IncrementalAlterConfigsRequest, ctx: RequestContext) -> Later[IncrementalAlterConfigsResponse]:
    controller = ctx.broker.controller
    twice = repeated((row.resource_type, row.resource_name) for row in request.resources)
    own = {
        place: _answer_here(row, ctx, is_repeated=row[:2] in twice, validate_only=request.validate_only)
        for place, row in enumerate(request.resources)
        if row.resource_type == ConfigKind.BROKER_LOGGER
        or find_foreign_broker(row.resource_type, row.resource_name, ctx.broker.node_id)
    }
    others = request._replace(resources=[row for place, row in enumerate(request.resources) if place not in own])
    altered = controller.submit(lambda image: alter_configs_incrementally(image, controller.settings, others))
    return altered.map(lambda response: _merge(own, response))


def _answer_here(
    row: AlterConfigsResource, ctx: RequestContext, *, is_repeated: bool, validate_only: bool
) -> AlterConfigsResourceResponse:
    code, reason = ErrorCode.NONE, find_foreign_broker(row.resource_type, row.resource_name, ctx.broker.node_id)
    if is_repeated:
        code, reason = ErrorCode.INVALID_REQUEST, "the request names this resource twice"
    elif reason is not None:
        code = ErrorCode.INVALID_REQUEST
    else:
        try:
            change_loggers(row, ctx.broker.node_id, validate_only=validate_only)
        except RuleError as error:
            code, reason = error.code, error.reason
    return AlterConfigsResourceResponse(code, reason, row.resource_type, row.resource_name)


def _merge(
    own: Mapping[int, AlterConfigsResourceResponse], response: IncrementalAlterConfigsResponse
) -> IncrementalAlterConfigsResponse:
    """All rows, in the order of the request."""
    rows = [row._replace(error_code=code_to_tell(row.resource_type, row.error_code)) for row in response.responses]
    for place, row in sorted(own.items()):
        rows.insert(place, row)
    return response._replace(responses=rows)
