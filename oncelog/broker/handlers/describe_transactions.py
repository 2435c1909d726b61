"""DescribeTransactions (65), version 0: the state of some transactional ids (KIP-664).

Each id has its own result: TRANSACTIONAL_ID_NOT_FOUND for an unknown one, INVALID_REQUEST for an empty one. While the
markers of a transaction are pending, only the partitions that still lack theirs are returned, as in Kafka. The response
contains only durable state. An id that is named several times is returned once, where Kafka repeats it.
"""

from oncelog.broker.coordinator.transaction.metadata import TransactionMetadata
from oncelog.broker.handlers.shared.transaction_errors import to_response
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.slices import Sliced, all_done
from oncelog.protocol.generated.describe_transactions_request import DescribeTransactionsRequest
from oncelog.protocol.generated.describe_transactions_response import (
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)


def handle(context: RequestContext, request: DescribeTransactionsRequest) -> Sliced[DescribeTransactionsResponse]:
    asked = dict.fromkeys(request.transactional_ids)
    states = yield from all_done((_describe(context, transactional_id) for transactional_id in asked), 4)
    return DescribeTransactionsResponse(transaction_states=states)


def _describe(context: RequestContext, transactional_id: str) -> Completion[TransactionState]:
    return to_response(
        context.broker.transactions.describe(transactional_id),
        context,
        0,
        _state,
        lambda error: TransactionState(error_code=error, transactional_id=transactional_id),
    )


def _state(metadata: TransactionMetadata) -> TransactionState:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(metadata.partitions):
        topics.setdefault(topic, []).append(partition)
    return TransactionState(
        transactional_id=metadata.transactional_id,
        transaction_state=metadata.state.kafka_name,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_start_time_ms=metadata.start_timestamp_ms,
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        topics=[TopicData(topic=topic, partitions=partitions) for topic, partitions in topics.items()],
    )
