"""DescribeCluster (60), versions 0–2: the nodes, each under its address for the client's listener (KIP-700).

- v1+ endpoint types (KIP-919): this is a broker endpoint; controllers are MISMATCHED_ENDPOINT_TYPE, with the message of
  Kafka's broker, anything else UNSUPPORTED_ENDPOINT_TYPE. v2+ may ask for fenced brokers (KIP-1073): nodes that ended
  a while ago.
"""

from oncelog.broker.handlers.shared.authorized_operations import CLUSTER_OPERATIONS, NOT_ASKED
from oncelog.broker.requests.context import RequestContext
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.describe_cluster_request import DescribeClusterRequest
from oncelog.protocol.generated.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse

_BROKERS, _CONTROLLERS = 1, 2


def handle(context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    if request.endpoint_type == _CONTROLLERS:
        text = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
        return DescribeClusterResponse(error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE, error_message=text)
    if request.endpoint_type != _BROKERS:
        text = f"Unsupported endpoint type {request.endpoint_type}"
        return DescribeClusterResponse(error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, error_message=text)
    broker = context.broker
    operations = CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
    return DescribeClusterResponse(
        error_message=None,
        cluster_id=broker.cluster_id,
        controller_id=broker.leadership.controller.node_id,
        brokers=[
            DescribeClusterBroker(broker_id=node_id, host=host, port=port, rack=rack, is_fenced=is_gone)
            for node_id, host, port, is_gone, rack in broker.nodes.seen_by(context.peer)
            if request.include_fenced_brokers or not is_gone
        ],
        cluster_authorized_operations=operations,
    )
