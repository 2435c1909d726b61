"""AddPartitionsToTxn (24), versions 0–3: partitions that a producer will write to become part of its transaction.

- All or nothing: with one unknown partition, that one is UNKNOWN_TOPIC_OR_PARTITION, the others are
  OPERATION_NOT_ATTEMPTED, and nothing is added. Internal topics may not be added.
- Answered once the addition is durable: data never survives a crash that its place in the transaction does not.
- Before v2, PRODUCER_FENCED is INVALID_PRODUCER_EPOCH (KIP-588).

Left out: v4 and v5, which brokers send to brokers (KIP-890).
"""

from broker.completion import Completion
from broker.coordinator.transaction.coordinator import ProducerIdAndEpoch
from broker.coordinator.transaction.metadata import TopicPartition
from broker.dispatch import RequestContext
from broker.handlers.transaction_errors import code_of
from protocol.errors import ErrorCode
from protocol.generated.add_partitions_to_txn_request import AddPartitionsToTxnRequest
from protocol.generated.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)

FENCED_SINCE = 2


def handle(
    context: RequestContext, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse | Completion[AddPartitionsToTxnResponse]:
    partitions = [(topic.name, index) for topic in request.v3_and_below_topics for index in topic.partitions]
    unknown = {partition for partition in partitions if context.broker.topics.find_partition(*partition) is None}
    if unknown:
        return _answer(
            request,
            {
                partition: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if partition in unknown
                else ErrorCode.OPERATION_NOT_ATTEMPTED
                for partition in partitions
            },
        )
    answer: Completion[AddPartitionsToTxnResponse] = Completion()

    def on_done(done: Completion[ProducerIdAndEpoch]) -> None:
        error = ErrorCode.NONE if done.error is None else code_of(context, done.error, FENCED_SINCE)
        answer.complete(_answer(request, dict.fromkeys(partitions, error)))

    context.broker.transactions.add_partitions(
        request.v3_and_below_transactional_id,
        request.v3_and_below_producer_id,
        request.v3_and_below_producer_epoch,
        partitions,
    ).then(on_done)
    return answer


def _answer(request: AddPartitionsToTxnRequest, errors: dict[TopicPartition, ErrorCode]) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(
                        partition_index=index, partition_error_code=errors[topic.name, index]
                    )
                    for index in topic.partitions
                ],
            )
            for topic in request.v3_and_below_topics
        ]
    )
