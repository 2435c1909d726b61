"""InitializeShareGroupState (83), version 0: the share coordinator begins share-partitions.

- One that is known begins again, and what was in flight is forgotten; with an older state epoch: FENCED_STATE_EPOCH.
  A state epoch of −1 is not checked.
- A start offset of −1 is decided by the group's `share.auto.offset.reset` when it is first read.
- An unknown topic or partition: UNKNOWN_TOPIC_OR_PARTITION. A partition below 0: INVALID_REQUEST.
- While `share.version` is 0, and before FindCoordinator has created `__share_group_state`: NOT_COORDINATOR.
- A partition that is named several times has one result, the last.
- A request without a group or a topic: an empty response. A topic without a partition is not in it.
"""

from typing import Any

from oncelog.broker.coordinator.share.coordinator import ShareCoordinator
from oncelog.broker.coordinator.share.values import SharePartitionKey
from oncelog.broker.handlers.shared.share_states import answer_each
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.generated.initialize_share_group_state_request import InitializeShareGroupStateRequest
from oncelog.protocol.generated.initialize_share_group_state_response import (
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionResult,
)


def handle(
    context: RequestContext, request: InitializeShareGroupStateRequest
) -> Sliced[InitializeShareGroupStateResponse]:
    answers = _ask, _result, PartitionResult, InitializeStateResult
    rows = yield from answer_each(context, request, "initialize share group state", *answers, needs_partitions=False)
    return InitializeShareGroupStateResponse(results=rows)


def _ask(coordinator: ShareCoordinator, key: SharePartitionKey, asked: Any) -> Completion[None]:
    return coordinator.initialize(key, asked.state_epoch, asked.start_offset)


def _result(partition: int, _: None) -> PartitionResult:
    return PartitionResult(partition=partition)
