"""ConsumerGroupHeartbeat (key 68, versions 0-1): a member of a consumer group says what it has, and hears what to have.

Behaviour   joining, leaving, subscribing and reconciling in one request (KIP-848); the broker assigns
Versions    1 lets the client choose its member id, and subscribe by a regular expression
"""

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from headrace.server.context import RequestContext
from headrace.server.later import Later


def handle(
    request: ConsumerGroupHeartbeatRequest, ctx: RequestContext
) -> ConsumerGroupHeartbeatResponse | Later[ConsumerGroupHeartbeatResponse]:
    return ctx.broker.coordinators.groups.submit(
        request.group_id,
        lambda shard, ticket: shard.consumer_group_heartbeat(
            request, ticket=ticket, client=ctx.client, version=ctx.version, now_ms=ctx.now_ms()
        ),
        _refuse,
    )


def _refuse(code: ErrorCode) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=code)
