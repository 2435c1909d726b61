"""ListPartitionReassignments (46), version 0: no replica is ever moved to another node (KIP-455)."""

from oncelog.broker.requests.context import RequestContext
from oncelog.protocol.generated.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from oncelog.protocol.generated.list_partition_reassignments_response import ListPartitionReassignmentsResponse


def handle(_: RequestContext, request: ListPartitionReassignmentsRequest) -> ListPartitionReassignmentsResponse:
    del request
    return ListPartitionReassignmentsResponse(error_message=None)
