"""PushTelemetry (key 72, version 0): a client sends its metrics (KIP-714).

Behaviour   once per interval, for the subscription that was told last, in a codec that was offered
Left out    the metrics are not kept: nothing reads them yet
"""

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from headrace.protocol.types import ZERO_UUID
from headrace.server.context import RequestContext
from headrace.server.node_configs import value_of
from headrace.server.telemetry import subscription_of, traits_of


def handle(request: PushTelemetryRequest, ctx: RequestContext) -> PushTelemetryResponse:
    if request.client_instance_id == ZERO_UUID:
        return PushTelemetryResponse(error_code=ErrorCode.INVALID_REQUEST)
    code = ctx.broker.telemetry.push(
        request,
        subscription_of(ctx.image, request.client_instance_id, traits_of(ctx.client_id, ctx.connection)),
        max_bytes=value_of("telemetry.max.bytes", ctx.image, ctx.broker.controller.settings),
        now_ms=ctx.now_ms(),
    )
    return PushTelemetryResponse(error_code=code)
