"""The requests of a member of a share group (KIP-932). Their version 0 was early access, which no release serves."""

from oncelog.client.wire.apis import Api
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.generated import (
    share_acknowledge_request,
    share_acknowledge_response,
    share_fetch_request,
    share_fetch_response,
    share_group_heartbeat_request,
    share_group_heartbeat_response,
)

SHARE_GROUP_HEARTBEAT = Api(
    ApiKey.SHARE_GROUP_HEARTBEAT,
    share_group_heartbeat_request.encode,
    share_group_heartbeat_response.decode,
    share_group_heartbeat_request.FLEXIBLE_FROM,
    1,
    1,
)
SHARE_FETCH = Api(
    ApiKey.SHARE_FETCH,
    share_fetch_request.encode,
    share_fetch_response.decode,
    share_fetch_request.FLEXIBLE_FROM,
    1,
    2,
)
SHARE_ACKNOWLEDGE = Api(
    ApiKey.SHARE_ACKNOWLEDGE,
    share_acknowledge_request.encode,
    share_acknowledge_response.decode,
    share_acknowledge_request.FLEXIBLE_FROM,
    1,
    2,
)
