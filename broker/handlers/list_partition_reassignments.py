"""ListPartitionReassignments (46), version 0: nothing is ever on its way to another node (KIP-455)."""

from broker.dispatch import RequestContext
from protocol.generated.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from protocol.generated.list_partition_reassignments_response import ListPartitionReassignmentsResponse


def handle(_: RequestContext, request: ListPartitionReassignmentsRequest) -> ListPartitionReassignmentsResponse:
    del request
    return ListPartitionReassignmentsResponse(error_message=None)
