"""DeleteShareGroupState (86), version 0: the share coordinator ends share-partitions.

- One that is not initialized is no error.
- An unknown topic or partition: UNKNOWN_TOPIC_OR_PARTITION. A partition below 0: INVALID_REQUEST.
- While `share.version` is 0, and before FindCoordinator has created `__share_group_state`: NOT_COORDINATOR.
- A partition that is named several times has one result, the last.
- A request without a group, a topic, or a partition of a topic: an empty response.
"""

from typing import Any

from oncelog.broker.coordinator.share.coordinator import ShareCoordinator
from oncelog.broker.coordinator.share.values import SharePartitionKey
from oncelog.broker.handlers.shared.share_states import answer_each
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.generated.delete_share_group_state_request import DeleteShareGroupStateRequest
from oncelog.protocol.generated.delete_share_group_state_response import (
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionResult,
)


def handle(context: RequestContext, request: DeleteShareGroupStateRequest) -> Sliced[DeleteShareGroupStateResponse]:
    answers = _ask, _result, PartitionResult, DeleteStateResult
    rows = yield from answer_each(context, request, "delete share group state", *answers)
    return DeleteShareGroupStateResponse(results=rows)


def _ask(coordinator: ShareCoordinator, key: SharePartitionKey, _: Any) -> Completion[None]:
    return coordinator.delete(key)


def _result(partition: int, _: None) -> PartitionResult:
    return PartitionResult(partition=partition)
