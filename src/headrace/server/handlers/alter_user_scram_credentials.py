"""AlterUserScramCredentials (key 51, version 0): SCRAM credentials are set and deleted.

Behaviour   a user is changed once, or not at all
Left out    nothing
"""

from headrace.cluster.scram import alter_scram_credentials
from headrace.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from headrace.server.context import RequestContext
from headrace.server.later import Later


def handle(request: AlterUserScramCredentialsRequest, ctx: RequestContext) -> Later[AlterUserScramCredentialsResponse]:
    return ctx.broker.controller.submit(lambda image: alter_scram_credentials(image, request))
