"""DescribeGroups (key 15, versions 0-6): classic groups, their members and what these have.

Behaviour   a group that is named several times is told once: a few bytes must not become gigabytes
Versions    3 tells what the client may do; 4 names static members; 6 says GROUP_ID_NOT_FOUND where there is no group
Left out    consumer groups are described by ConsumerGroupDescribe; here they are not found
"""

from headrace.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from headrace.server.client_view import ALL_GROUP_OPERATIONS
from headrace.server.context import RequestContext
from headrace.server.later import Later, gather


def handle(request: DescribeGroupsRequest, ctx: RequestContext) -> Later[DescribeGroupsResponse]:
    described = gather([_describe(group_id, ctx) for group_id in dict.fromkeys(request.groups)])

    def finish(groups: list[DescribedGroup]) -> DescribeGroupsResponse:
        if request.include_authorized_operations:
            groups = [
                group if group.error_code else group._replace(authorized_operations=ALL_GROUP_OPERATIONS)
                for group in groups
            ]
        return DescribeGroupsResponse(groups=groups)

    return described.map(finish)


def _describe(group_id: str, ctx: RequestContext) -> Later[DescribedGroup]:
    return ctx.broker.coordinators.groups.look(
        group_id,
        lambda shard: shard.describe_group(group_id, version=ctx.version),
        lambda code: DescribedGroup(code, group_id=group_id),
    )
