"""ElectLeaders (key 43, versions 0-2): let the preferred replica lead, or any that is alive.

Behaviour   for the partitions that are named, or for all that need it
Versions    1 adds the unclean kind, and a code for the whole request
Left out    `timeout_ms`: a commit does not take long enough to give up on it
"""

from headrace.cluster.elections import elect_leaders
from headrace.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from headrace.server.context import RequestContext
from headrace.server.later import Later


def handle(request: ElectLeadersRequest, ctx: RequestContext) -> Later[ElectLeadersResponse]:
    controller = ctx.broker.controller
    return controller.submit(lambda image: elect_leaders(image, controller.settings, request))
