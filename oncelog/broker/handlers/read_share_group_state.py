"""ReadShareGroupState (84), version 0: the state of share-partitions, for the leaders of their partitions.

- One that is not initialized: INVALID_REQUEST. An older leader epoch, −1 included: FENCED_LEADER_EPOCH.
- A newer leader epoch is written, and fences the leaders before it.
- An unknown topic or partition: UNKNOWN_TOPIC_OR_PARTITION. A partition below 0: INVALID_REQUEST.
- While `share.version` is 0, and before FindCoordinator has created `__share_group_state`: NOT_COORDINATOR.
- A partition that is named several times has one result, the last.
- A request without a group, a topic, or a partition of a topic: an empty response.
"""

from typing import Any

from oncelog.broker.coordinator.share.coordinator import ShareCoordinator
from oncelog.broker.coordinator.share.values import SharePartitionKey, ShareState
from oncelog.broker.handlers.shared.share_states import answer_each
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.generated.read_share_group_state_request import ReadShareGroupStateRequest
from oncelog.protocol.generated.read_share_group_state_response import (
    PartitionResult,
    ReadShareGroupStateResponse,
    ReadStateResult,
    StateBatch,
)


def handle(context: RequestContext, request: ReadShareGroupStateRequest) -> Sliced[ReadShareGroupStateResponse]:
    answers = _ask, _result, PartitionResult, ReadStateResult
    rows = yield from answer_each(context, request, "read share group state", *answers)
    return ReadShareGroupStateResponse(results=rows)


def _ask(coordinator: ShareCoordinator, key: SharePartitionKey, asked: Any) -> Completion[ShareState]:
    return coordinator.read(key, asked.leader_epoch)


def _result(partition: int, state: ShareState) -> PartitionResult:
    return PartitionResult(
        partition=partition,
        state_epoch=state.state_epoch,
        start_offset=state.start_offset,
        state_batches=[StateBatch(*batch) for batch in state.batches],
    )
