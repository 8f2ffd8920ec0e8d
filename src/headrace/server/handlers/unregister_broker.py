"""UnregisterBroker (key 64, version 0): forget a broker that will not come back.

Behaviour   what it led goes to others; BROKER_ID_NOT_REGISTERED for one that nobody knows
            one that lives, this one included, stays out until it is started again
Left out    nothing
"""

from headrace.cluster.brokers import unregister_broker
from headrace.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from headrace.server.context import RequestContext
from headrace.server.later import Later


def handle(request: UnregisterBrokerRequest, ctx: RequestContext) -> Later[UnregisterBrokerResponse]:
    controller = ctx.broker.controller
    return controller.submit(lambda image: unregister_broker(image, controller.settings, request))
