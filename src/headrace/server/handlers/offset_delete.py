"""OffsetDelete (key 47, version 0): forget how far a group has come with some topics.

Behaviour   refused for topics that a member is subscribed to
"""

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from headrace.server.context import RequestContext
from headrace.server.later import Later


def handle(request: OffsetDeleteRequest, ctx: RequestContext) -> OffsetDeleteResponse | Later[OffsetDeleteResponse]:
    return ctx.broker.coordinators.groups.submit(
        request.group_id,
        lambda shard, ticket: shard.offset_delete(request, ticket=ticket),
        _refuse,
        is_light=True,
    )


def _refuse(code: ErrorCode) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=code)
