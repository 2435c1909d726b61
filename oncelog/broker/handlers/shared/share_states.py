"""Requests to the share coordinator: each partition has its own result, once that is durable.

Owns: what the five requests have in common: empty responses, partitions that are named twice, errors and their texts.
Does not own: what is asked and answered for a partition (the handlers), decisions (`coordinator.share`).

As in Kafka's ShareCoordinatorService, a request without a group, a topic or a partition gets an empty response.
"""

from collections.abc import Callable
from typing import Any, TypeVar
from uuid import UUID

from oncelog.broker.coordinator.share.coordinator import ShareCoordinator
from oncelog.broker.coordinator.share.values import SharePartitionKey
from oncelog.broker.handlers.shared.share_groups import serves_share_groups
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.errors import ErrorCode, KafkaError

T = TypeVar("T")

_ELEMENTS = 8
"""The elements of one partition. Measured: a decision is logged and replayed in about 40 µs."""
_DECIDED = frozenset(
    {
        ErrorCode.INVALID_REQUEST,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.FENCED_STATE_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""The errors of a decision, with a text of their own; others are those of the coordinator's partition."""
_TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})


def answer_each(
    context: RequestContext,
    request: Any,
    doing: str,
    ask: Callable[[ShareCoordinator, SharePartitionKey, Any], Completion[T]],
    result: Callable[[int, T], Any],
    of_partition: Callable[..., Any],
    of_topic: Callable[..., Any],
    *,
    needs_partitions: bool = True,
) -> Sliced[list[Any]]:
    """Return a row for each topic, with one for each partition: `result` of what was asked for it, or an error. The
    last result counts for a partition that is named several times, as in Kafka."""
    if not request.group_id or (needs_partitions and not all(topic.partitions for topic in request.topics)):
        return []
    coordinator = _coordinator(context)
    not_here: Completion[T] = Completion.failed(KafkaError(ErrorCode.NOT_COORDINATOR))
    asked: dict[UUID, dict[int, Completion[T]]] = {}
    for topic in request.topics:
        partitions = asked.setdefault(topic.topic_id, {}) if topic.partitions else {}
        for row in topic.partitions:
            key = SharePartitionKey(request.group_id, topic.topic_id, row.partition)
            partitions[row.partition] = not_here if coordinator is None else ask(coordinator, key, row)
            yield _ELEMENTS + len(getattr(row, "state_batches", ()))
        yield 1
    rows = []
    for topic_id, partitions in asked.items():
        results = []
        for partition, completion in partitions.items():
            yield completion
            error = completion.error
            if isinstance(error, KafkaError):
                code, text = _refusal(error, doing)
                results.append(of_partition(partition=partition, error_code=code, error_message=text))
            else:
                results.append(result(partition, completion.result()))
            yield 1
        rows.append(of_topic(topic_id=topic_id, partitions=results))
    return rows


def _coordinator(context: RequestContext) -> ShareCoordinator | None:
    if not serves_share_groups(context):
        return None
    coordinator = context.broker.share_coordinator
    return coordinator if coordinator.is_available else None


def _refusal(error: KafkaError, doing: str) -> tuple[ErrorCode, str]:
    if error.code in _DECIDED:
        return error.code, error.message
    code = ErrorCode.UNKNOWN_SERVER_ERROR if error.code in _TOO_LARGE else error.code
    return code, f"Unable to {doing}: {error.code.text}"
