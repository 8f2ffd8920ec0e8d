"""Heartbeat (key 12, versions 0-4): a member of a classic group lives, and hears whether it must join again.

Behaviour   REBALANCE_IN_PROGRESS asks the member to join again
            while the coordinator is loading, a member is told that all is well: it cannot have been missed yet
Versions    3 knows static members
"""

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headrace.server.context import RequestContext
from headrace.server.later import Later


def handle(request: HeartbeatRequest, ctx: RequestContext) -> HeartbeatResponse | Later[HeartbeatResponse]:
    return ctx.broker.coordinators.groups.submit(
        request.group_id,
        lambda shard, ticket: shard.heartbeat(request, ticket=ticket, now_ms=ctx.now_ms()),
        _refuse,
    )


def _refuse(code: ErrorCode) -> HeartbeatResponse:
    is_loading = code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(error_code=ErrorCode.NONE if is_loading else code)
