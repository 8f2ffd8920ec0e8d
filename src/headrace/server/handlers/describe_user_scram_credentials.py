"""DescribeUserScramCredentials (key 50, version 0): who has SCRAM credentials, and with how many iterations.

Behaviour   of the users that are named, or of all; secrets are never told
Left out    nothing
"""

from headrace.cluster.scram import describe_scram_credentials
from headrace.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from headrace.server.context import RequestContext


def handle(request: DescribeUserScramCredentialsRequest, ctx: RequestContext) -> DescribeUserScramCredentialsResponse:
    return describe_scram_credentials(ctx.image, request)
