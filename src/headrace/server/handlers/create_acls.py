"""CreateAcls (key 30, versions 1-3): new access rules.

Behaviour   SECURITY_DISABLED for each, as Kafka answers without an authorizer
Versions    nothing differs
Left out    access rules
"""

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from headrace.server.context import RequestContext


def handle(request: CreateAclsRequest, ctx: RequestContext) -> CreateAclsResponse:
    reason = f"broker {ctx.broker.node_id} has no authorizer, so access rules would have no effect"
    row = AclCreationResult(ErrorCode.SECURITY_DISABLED, reason)
    return CreateAclsResponse(results=[row] * len(request.creations))
