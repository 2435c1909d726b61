"""The request for a coordinator, which only members of groups, transactions and some administrators need.
FindCoordinator (3) stays at its single-item form."""

from oncelog.client.wire.apis import Api
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.generated import find_coordinator_request, find_coordinator_response
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest as FindCoordinatorRequest

FIND_COORDINATOR = Api(
    ApiKey.FIND_COORDINATOR,
    find_coordinator_request.encode,
    find_coordinator_response.decode,
    find_coordinator_request.FLEXIBLE_FROM,
    1,
    3,
)
