"""AlterPartitionReassignments (key 45, versions 0-1): partitions move to other brokers, or stay after all.

Behaviour   each partition by itself; without replicas a reassignment under way is given up
Versions    1 may forbid that the number of replicas changes
Left out    `timeout_ms`: a commit does not take long enough to give up on it
"""

from headrace.cluster.reassignments import alter_reassignments
from headrace.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from headrace.server.context import RequestContext
from headrace.server.later import Later


def handle(
    request: AlterPartitionReassignmentsRequest, ctx: RequestContext
) -> Later[AlterPartitionReassignmentsResponse]:
    controller = ctx.broker.controller
    return controller.submit(lambda image: alter_reassignments(image, controller.settings, request))
