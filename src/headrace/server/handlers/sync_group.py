"""SyncGroup (key 14, versions 0-5): the leader of a classic group brings the assignment, and each member takes its own.

Behaviour   the answer waits until the leader has brought it
Versions    3 knows static members; 5 names the protocol, so that a member of another one is refused
"""

from typing import Final

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from headrace.server.context import RequestContext
from headrace.server.later import Later

_PROTOCOL_SINCE: Final = 5


def handle(request: SyncGroupRequest, ctx: RequestContext) -> SyncGroupResponse | Later[SyncGroupResponse]:
    if ctx.version >= _PROTOCOL_SINCE and (request.protocol_type is None or request.protocol_name is None):
        return _refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    return ctx.broker.coordinators.groups.submit(
        request.group_id,
        lambda shard, ticket: shard.sync_group(request, ticket=ticket, now_ms=ctx.now_ms()),
        _refuse,
    )


def _refuse(code: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=code)
