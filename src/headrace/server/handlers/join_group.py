"""JoinGroup (key 11, versions 0-9): become a member of a classic group, and learn who leads it.

Behaviour   the answer waits until all members have joined, or their time is up
Versions    1 has its own time-out for rebalances; 4 makes a new member come back with the id that it is given;
            5 knows static members; 8 says why; 9 lets the leader of an unchanged group skip the assignment
"""

from typing import Final

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from headrace.server.context import RequestContext
from headrace.server.later import Later

_NULL_PROTOCOL_SINCE: Final = 7


def handle(request: JoinGroupRequest, ctx: RequestContext) -> JoinGroupResponse | Later[JoinGroupResponse]:
    def refuse(code: ErrorCode) -> JoinGroupResponse:
        protocol_name = None if ctx.version >= _NULL_PROTOCOL_SINCE else ""
        return JoinGroupResponse(error_code=code, protocol_name=protocol_name, member_id=request.member_id)

    return ctx.broker.coordinators.groups.submit(
        request.group_id,
        lambda shard, ticket: shard.join_group(
            request, ticket=ticket, client=ctx.client, version=ctx.version, now_ms=ctx.now_ms()
        ),
        refuse,
    )
