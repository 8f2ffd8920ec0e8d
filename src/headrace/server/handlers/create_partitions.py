"""CreatePartitions (key 37, versions 0-3): topics get more partitions, each topic by itself.

Behaviour   the answer waits until the partitions are committed; `validate_only` says what would happen
            too much for a quota of the client: refused, and before version 3 granted, and the client muted
Versions    3 knows quotas
Left out    `timeout_ms`: a commit does not take long enough to give up on it
"""

from typing import Final

from headrace.cluster.partitions import create_partitions
from headrace.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from headrace.server.context import RequestContext
from headrace.server.later import Later

_STRICT_SINCE: Final = 3


def handle(request: CreatePartitionsRequest, ctx: RequestContext) -> Later[CreatePartitionsResponse]:
    quota = ctx.mutation_quota(is_strict=ctx.version >= _STRICT_SINCE)
    return ctx.broker.controller.submit(lambda image: create_partitions(image, request, ctx.broker.random, quota=quota))
