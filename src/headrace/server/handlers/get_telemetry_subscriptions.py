"""GetTelemetrySubscriptions (key 71, version 0): which of its metrics a client shall send, and how often (KIP-714).

Behaviour   what the `client-metrics` configs want of this client; none, at the default interval, where nothing matches
            a client without an id gets one; one that asks before its interval is over is throttled
Left out    nothing
"""

from headrace.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from headrace.protocol.types import ZERO_UUID
from headrace.server.chance import new_uuid
from headrace.server.context import RequestContext
from headrace.server.node_configs import value_of
from headrace.server.telemetry import subscription_of, traits_of


def handle(request: GetTelemetrySubscriptionsRequest, ctx: RequestContext) -> GetTelemetrySubscriptionsResponse:
    client_instance_id = request.client_instance_id
    if client_instance_id == ZERO_UUID:
        client_instance_id = new_uuid(ctx.broker.random)
    return ctx.broker.telemetry.subscribe(
        client_instance_id,
        subscription_of(ctx.image, client_instance_id, traits_of(ctx.client_id, ctx.connection)),
        max_bytes=value_of("telemetry.max.bytes", ctx.image, ctx.broker.controller.settings),
        now_ms=ctx.now_ms(),
    )
