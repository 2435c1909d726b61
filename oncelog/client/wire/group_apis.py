"""The requests of members of a classic group. OffsetCommit (9) stays at topic names."""

from oncelog.client.wire.apis import Api
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.generated import (
    heartbeat_request,
    heartbeat_response,
    join_group_request,
    join_group_response,
    leave_group_request,
    leave_group_response,
    offset_commit_request,
    offset_commit_response,
    sync_group_request,
    sync_group_response,
)

JOIN_GROUP = Api(
    ApiKey.JOIN_GROUP, join_group_request.encode, join_group_response.decode, join_group_request.FLEXIBLE_FROM, 0, 7
)
SYNC_GROUP = Api(
    ApiKey.SYNC_GROUP, sync_group_request.encode, sync_group_response.decode, sync_group_request.FLEXIBLE_FROM, 0, 5
)
HEARTBEAT = Api(
    ApiKey.HEARTBEAT, heartbeat_request.encode, heartbeat_response.decode, heartbeat_request.FLEXIBLE_FROM, 0, 4
)
LEAVE_GROUP = Api(
    ApiKey.LEAVE_GROUP, leave_group_request.encode, leave_group_response.decode, leave_group_request.FLEXIBLE_FROM, 0, 4
)
OFFSET_COMMIT = Api(
    ApiKey.OFFSET_COMMIT,
    offset_commit_request.encode,
    offset_commit_response.decode,
    offset_commit_request.FLEXIBLE_FROM,
    2,
    9,
)
