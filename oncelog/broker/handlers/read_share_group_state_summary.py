"""ReadShareGroupStateSummary (87), versions 0–1: share-partitions without what is in flight.

- One that is not initialized has the start offset −1 and epochs of 0. The leader epoch of the request is not checked.
- v1 has the number of complete deliveries above the start offset (KIP-1226), −1 if it is unknown.
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
from oncelog.protocol.generated.read_share_group_state_summary_request import ReadShareGroupStateSummaryRequest
from oncelog.protocol.generated.read_share_group_state_summary_response import (
    PartitionResult,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)


def handle(
    context: RequestContext, request: ReadShareGroupStateSummaryRequest
) -> Sliced[ReadShareGroupStateSummaryResponse]:
    answers = _ask, _result, PartitionResult, ReadStateSummaryResult
    rows = yield from answer_each(context, request, "read share group state summary", *answers)
    return ReadShareGroupStateSummaryResponse(results=rows)


def _ask(coordinator: ShareCoordinator, key: SharePartitionKey, asked: Any) -> Completion[ShareState]:
    return coordinator.summary(key, asked.leader_epoch)


def _result(partition: int, state: ShareState) -> PartitionResult:
    return PartitionResult(
        partition=partition,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
    )
