"""AlterClientQuotas (key 49, versions 0-1): quotas of users, client ids and addresses change.

Behaviour   each entity by itself; `validate_only` says what would happen
Versions    1 is flexible; nothing else differs
Left out    nothing
"""

from headrace.cluster.quotas import alter_client_quotas
from headrace.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from headrace.server.context import RequestContext
from headrace.server.later import Later


def handle(request: AlterClientQuotasRequest, ctx: RequestContext) -> Later[AlterClientQuotasResponse]:
    return ctx.broker.controller.submit(lambda image: alter_client_quotas(image, request))
