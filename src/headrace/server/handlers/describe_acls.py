"""DescribeAcls (key 29, versions 1-3): access rules.

Behaviour   SECURITY_DISABLED, as Kafka answers without an authorizer
Versions    nothing differs
Left out    access rules
"""

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from headrace.server.context import RequestContext


def handle(_: DescribeAclsRequest, ctx: RequestContext) -> DescribeAclsResponse:
    reason = f"broker {ctx.broker.node_id} has no authorizer, so there are no access rules"
    return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=reason)
