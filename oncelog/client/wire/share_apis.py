"""The requests of a member of a share group (KIP-932). Their version 0 was early access, which no release serves."""

from oncelog.client.wire.apis import api_of
from oncelog.protocol.generated import (
    share_acknowledge_request,
    share_acknowledge_response,
    share_fetch_request,
    share_fetch_response,
    share_group_heartbeat_request,
    share_group_heartbeat_response,
)

SHARE_GROUP_HEARTBEAT = api_of(share_group_heartbeat_request, share_group_heartbeat_response, 1, 1)
SHARE_FETCH = api_of(share_fetch_request, share_fetch_response, 1, 2)
SHARE_ACKNOWLEDGE = api_of(share_acknowledge_request, share_acknowledge_response, 1, 2)
