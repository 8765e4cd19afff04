"""DescribeCluster (key 60): the brokers (as in Metadata), the controller, the cluster's id.

v1 endpoint type: brokers (1); controllers (2) are not separate here · v2 fenced brokers
"""

from ottla.api.call import Call
from ottla.api.metadata import cluster_operations, listed_brokers
from ottla.base.errors import ErrorCode
from ottla.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS, CONTROLLERS = 1, 2


def describe_cluster(call: Call, request: DescribeClusterRequest) -> DescribeClusterResponse:
    image = call.broker.image
    response = DescribeClusterResponse(cluster_id=image.cluster_id, endpoint_type=request.endpoint_type)
    if request.endpoint_type != BROKERS:
        is_controller = request.endpoint_type == CONTROLLERS
        code = ErrorCode.MISMATCHED_ENDPOINT_TYPE if is_controller else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        response.error_code, response.error_message = code, "This endpoint belongs to a broker."
        return response
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(call)
    response.controller_id = image.controller_id
    response.brokers = [
        DescribeClusterBroker(broker_id=endpoint.id, host=address.host, port=address.port, rack=endpoint.rack)
        for endpoint, address in listed_brokers(call)
    ]
    return response
