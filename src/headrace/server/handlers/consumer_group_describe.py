"""ConsumerGroupDescribe (key 69, versions 0-1): consumer groups (KIP-848), and what their members have.

Behaviour   a group that is named several times is told once: a few bytes must not become gigabytes
Versions    1 says whether a member speaks the classic protocol
"""

from headrace.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from headrace.server.client_view import ALL_GROUP_OPERATIONS
from headrace.server.context import RequestContext
from headrace.server.later import Later, gather


def handle(request: ConsumerGroupDescribeRequest, ctx: RequestContext) -> Later[ConsumerGroupDescribeResponse]:
    described = gather([_describe(group_id, ctx) for group_id in dict.fromkeys(request.group_ids)])

    def finish(groups: list[DescribedGroup]) -> ConsumerGroupDescribeResponse:
        if request.include_authorized_operations:
            groups = [
                group if group.error_code else group._replace(authorized_operations=ALL_GROUP_OPERATIONS)
                for group in groups
            ]
        return ConsumerGroupDescribeResponse(groups=groups)

    return described.map(finish)


def _describe(group_id: str, ctx: RequestContext) -> Later[DescribedGroup]:
    return ctx.broker.coordinators.groups.look(
        group_id,
        lambda shard: shard.describe_consumer_group(group_id),
        lambda code: DescribedGroup(code, group_id=group_id),
    )
