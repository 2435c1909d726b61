"""The request for a coordinator, which only members of groups, transactions and some administrators need.
FindCoordinator (3) stays at its single-item form."""

from oncelog.client.wire.apis import api_of
from oncelog.protocol.generated import find_coordinator_request, find_coordinator_response
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest as FindCoordinatorRequest

FIND_COORDINATOR = api_of(find_coordinator_request, find_coordinator_response, 1, 3)
