"""DeleteAcls (key 31, versions 1-3): access rules go.

Behaviour   SECURITY_DISABLED for each filter, as Kafka answers without an authorizer
Versions    nothing differs
Left out    access rules
"""

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse
from headrace.server.context import RequestContext


def handle(request: DeleteAclsRequest, ctx: RequestContext) -> DeleteAclsResponse:
    reason = f"broker {ctx.broker.node_id} has no authorizer, so there are no access rules"
    row = DeleteAclsFilterResult(ErrorCode.SECURITY_DISABLED, reason)
    return DeleteAclsResponse(filter_results=[row] * len(request.filters))
