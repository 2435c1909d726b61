"""The requests of members of a classic group. OffsetCommit (9) stays at topic names."""

from oncelog.client.wire.apis import api_of
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

JOIN_GROUP = api_of(join_group_request, join_group_response, 0, 7)
SYNC_GROUP = api_of(sync_group_request, sync_group_response, 0, 5)
HEARTBEAT = api_of(heartbeat_request, heartbeat_response, 0, 4)
LEAVE_GROUP = api_of(leave_group_request, leave_group_response, 0, 4)
OFFSET_COMMIT = api_of(offset_commit_request, offset_commit_response, 2, 9)
