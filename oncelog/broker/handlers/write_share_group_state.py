"""WriteShareGroupState (85), versions 0–1: what has changed in share-partitions.

- One that is not initialized: INVALID_REQUEST. An older epoch: FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH; −1 is not
  checked.
- Of batches that overlap the one with more deliveries counts, then the one with the higher delivery state. A start
  offset of −1 leaves it as it is.
- v1 counts the deliveries that are complete above the start offset (KIP-1226); v0 makes that unknown.
- An unknown topic or partition: UNKNOWN_TOPIC_OR_PARTITION. A partition below 0: INVALID_REQUEST.
- While `share.version` is 0, and before FindCoordinator has created `__share_group_state`: NOT_COORDINATOR.
- A partition that is named several times has one result, the last.
- A request without a group, a topic, or a partition of a topic: an empty response.
"""

from typing import Any

from oncelog.broker.coordinator.share.coordinator import ShareCoordinator
from oncelog.broker.coordinator.share.values import SharePartitionKey, StateBatch
from oncelog.broker.handlers.shared.share_states import answer_each
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.requests.dispatch import ELEMENTS_AT_ONCE
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.generated.write_share_group_state_request import WriteShareGroupStateRequest
from oncelog.protocol.generated.write_share_group_state_response import (
    PartitionResult,
    WriteShareGroupStateResponse,
    WriteStateResult,
)

MOST_ELEMENTS = ELEMENTS_AT_ONCE
"""The batches of a share-partition are combined in one turn."""


def handle(context: RequestContext, request: WriteShareGroupStateRequest) -> Sliced[WriteShareGroupStateResponse]:
    answers = _ask, _result, PartitionResult, WriteStateResult
    rows = yield from answer_each(context, request, "write share group state", *answers)
    return WriteShareGroupStateResponse(results=rows)


def _ask(coordinator: ShareCoordinator, key: SharePartitionKey, asked: Any) -> Completion[None]:
    return coordinator.write(
        *(key, asked.state_epoch, asked.leader_epoch, asked.start_offset, asked.delivery_complete_count),
        [
            StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
            for batch in asked.state_batches
        ],
    )


def _result(partition: int, _: None) -> PartitionResult:
    return PartitionResult(partition=partition)
