"""DeleteGroups (key 42, versions 0-2): groups without members go, and what they have committed.

Behaviour   each by itself: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND
"""

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from headrace.server.context import RequestContext
from headrace.server.later import Later, as_later, gather


def handle(request: DeleteGroupsRequest, ctx: RequestContext) -> Later[DeleteGroupsResponse]:
    group_ids = list(dict.fromkeys(request.groups_names))
    deleted = gather([_delete(group_id, ctx) for group_id in group_ids])

    def finish(codes: list[ErrorCode]) -> DeleteGroupsResponse:
        return DeleteGroupsResponse(
            results=[DeletableGroupResult(group_id, code) for group_id, code in zip(group_ids, codes, strict=True)]
        )

    return deleted.map(finish)


def _delete(group_id: str, ctx: RequestContext) -> Later[ErrorCode]:
    return as_later(
        ctx.broker.coordinators.groups.submit(
            group_id, lambda shard, ticket: shard.delete_group(group_id, ticket=ticket), _same, is_light=True
        )
    )


def _same(code: ErrorCode) -> ErrorCode:
    return code
