"""ListPartitionReassignments (key 46, version 0): which partitions are on their way to other brokers.

Behaviour   of those that are named, or of all
Left out    nothing
"""

from headrace.cluster.reassignments import list_reassignments
from headrace.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from headrace.server.context import RequestContext


def handle(request: ListPartitionReassignmentsRequest, ctx: RequestContext) -> ListPartitionReassignmentsResponse:
    return list_reassignments(ctx.image, request)
