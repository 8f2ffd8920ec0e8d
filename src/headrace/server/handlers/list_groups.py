"""ListGroups (key 16, versions 0-5): the groups that this broker looks after.

Behaviour   all or nothing: an error as long as one of the coordinators' partitions here is loading
Versions    4 filters by state; 5 by type
"""

from headrace.coordinator.groups import GroupShard
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from headrace.server.context import RequestContext
from headrace.server.later import Later, gather


def handle(request: ListGroupsRequest, ctx: RequestContext) -> Later[ListGroupsResponse]:
    def read(shard: GroupShard) -> list[ListedGroup] | ErrorCode:
        return shard.list_groups(request.states_filter, request.types_filter)

    return gather(ctx.broker.coordinators.groups.look_everywhere(read, _same)).map(_finish)


def _same(code: ErrorCode) -> list[ListedGroup] | ErrorCode:
    return code


def _finish(parts: list[list[ListedGroup] | ErrorCode]) -> ListGroupsResponse:
    """All or nothing: a list with gaps would look complete."""
    groups: list[ListedGroup] = []
    for part in parts:
        if isinstance(part, ErrorCode):
            return ListGroupsResponse(error_code=part)
        groups += part
    return ListGroupsResponse(groups=groups)
