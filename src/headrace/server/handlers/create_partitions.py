"""CreatePartitions (key 37, versions 0-3): topics get more partitions, each topic by itself.

Behaviour   the answer waits until the partitions are committed; `validate_only` says what would happen
Versions    nothing differs
Left out    `timeout_ms`: a commit does not take long enough to give up on it
"""

from headrace.cluster.partitions import create_partitions
from headrace.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from headrace.server.context import RequestContext
from headrace.server.later import Later


def handle(request: CreatePartitionsRequest, ctx: RequestContext) -> Later[CreatePartitionsResponse]:
    return ctx.broker.controller.submit(lambda image: create_partitions(image, request, ctx.broker.random))
