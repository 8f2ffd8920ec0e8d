"""DescribeCluster (key 60, versions 0-2): the cluster's id, and the nodes that a client can reach.

Behaviour   addresses are those of the listener that the client came by; any broker passes on what is for the controller
Versions    1 says whether brokers or controllers are meant; 2 may list fenced brokers
Left out    nothing; controllers are described by controllers only
"""

from typing import Final

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from headrace.server.client_view import ALL_CLUSTER_OPERATIONS, ClientView
from headrace.server.context import RequestContext

_BROKERS: Final = 1
_CONTROLLERS: Final = 2


def handle(request: DescribeClusterRequest, ctx: RequestContext) -> DescribeClusterResponse:
    if request.endpoint_type != _BROKERS:
        return _refuse(request.endpoint_type)
    view = ClientView(ctx.image, ctx.connection.listener)
    response = DescribeClusterResponse(
        cluster_id=ctx.broker.cluster_id,
        controller_id=view.controller_id(ctx.broker.node_id),
        brokers=[
            DescribeClusterBroker(*node, is_fenced=broker.fenced)
            for node, broker in view.nodes(with_fenced=request.include_fenced_brokers)
        ],
    )
    if request.include_cluster_authorized_operations:
        return response._replace(cluster_authorized_operations=ALL_CLUSTER_OPERATIONS)
    return response


def _refuse(endpoint_type: int) -> DescribeClusterResponse:
    if endpoint_type == _CONTROLLERS:
        reason = "this is a broker, and controllers were asked for"
        return DescribeClusterResponse(error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE, error_message=reason)
    reason = f"there are no endpoints of type {endpoint_type}"
    return DescribeClusterResponse(error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, error_message=reason)
