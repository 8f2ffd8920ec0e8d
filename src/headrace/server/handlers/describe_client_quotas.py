"""DescribeClientQuotas (key 48, versions 0-1): which quotas users, client ids and addresses have.

Behaviour   those that match all components of the filter; `strict` leaves out entities with more than these
Versions    1 is flexible; nothing else differs
Left out    nothing
"""

from headrace.cluster.quotas import describe_client_quotas
from headrace.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from headrace.server.context import RequestContext


def handle(request: DescribeClientQuotasRequest, ctx: RequestContext) -> DescribeClientQuotasResponse:
    return describe_client_quotas(ctx.image, request)
