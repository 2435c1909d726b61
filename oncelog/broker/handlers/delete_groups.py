"""DeleteGroups (42), versions 0–2: deletes empty groups with all their offsets, pending ones included (KIP-229).

Each has its own result, once the tombstones are durable: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP. With a share group the
states of its share-partitions are deleted first (KIP-932); it stays, with the share coordinator's error, if they cannot
be.
"""

from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.slices import Sliced, all_done
from oncelog.protocol.generated.delete_groups_request import DeleteGroupsRequest
from oncelog.protocol.generated.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse


def handle(context: RequestContext, request: DeleteGroupsRequest) -> Sliced[DeleteGroupsResponse]:
    asked = dict.fromkeys(request.groups_names)
    results = yield from all_done((_delete(context, group_id) for group_id in asked), 8)
    return DeleteGroupsResponse(results=results)


def _delete(context: RequestContext, group_id: str) -> Completion[DeletableGroupResult]:
    deleted = context.broker.groups.administration.delete(group_id).recover(lambda error: error.code)
    return deleted.map(lambda code: DeletableGroupResult(group_id=group_id, error_code=code))
