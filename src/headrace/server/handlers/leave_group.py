"""LeaveGroup (key 13, versions 0-5): members go, and the others share their partitions at once.

Behaviour   each member goes or is refused by itself; a group that nobody is left in keeps its offsets
Versions    3 lets several members go, and names static ones by their instance; 5 says why
"""

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from headrace.server.context import RequestContext
from headrace.server.later import Later


def handle(request: LeaveGroupRequest, ctx: RequestContext) -> LeaveGroupResponse | Later[LeaveGroupResponse]:
    return ctx.broker.coordinators.groups.submit(
        request.group_id,
        lambda shard, ticket: shard.leave_group(request, ticket=ticket, version=ctx.version, now_ms=ctx.now_ms()),
        _refuse,
    )


def _refuse(code: ErrorCode) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=code)
