"""DescribeProducers (61), version 0: who writes to a partition, idempotent producers included (KIP-664).

`current_txn_start_offset` is the first offset of the transaction that a producer has open here, −1 for none: with
DescribeTransactions it shows a transaction that the coordinator knows nothing of. What is told is durable.
"""

from broker.completion import Completion, all_of
from broker.dispatch import RequestContext
from broker.log.producer_state import ProducerState as LogProducerState
from protocol.errors import KafkaError
from protocol.generated.describe_producers_request import DescribeProducersRequest, TopicRequest
from protocol.generated.describe_producers_response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


def handle(context: RequestContext, request: DescribeProducersRequest) -> Completion[DescribeProducersResponse]:
    topics = [_describe_topic(context, topic) for topic in request.topics]
    return all_of(topics).map(lambda described: DescribeProducersResponse(topics=described))


def _describe_topic(context: RequestContext, topic: TopicRequest) -> Completion[TopicResponse]:
    partitions = [_describe_partition(context, topic.name, index) for index in topic.partition_indexes]
    return all_of(partitions).map(lambda described: TopicResponse(name=topic.name, partitions=described))


def _describe_partition(context: RequestContext, topic: str, index: int) -> Completion[PartitionResponse]:
    try:
        log = context.broker.topics.partition(topic, index)
    except KafkaError as error:
        return Completion.of(_refused(index, error))
    producers = [_describe_producer(state) for state in log.producer_state.producers()]
    response = PartitionResponse(partition_index=index, active_producers=producers)
    answer: Completion[PartitionResponse] = Completion()

    def on_durable(durable: Completion[None]) -> None:
        if isinstance(durable.error, KafkaError):  # its topic was deleted on the way
            answer.complete(_refused(index, durable.error))
        elif durable.error is not None:
            answer.fail(durable.error)
        else:
            answer.complete(response)

    log.when_durable(log.log_end_offset).then(on_durable)
    return answer


def _refused(index: int, error: KafkaError) -> PartitionResponse:
    return PartitionResponse(partition_index=index, error_code=error.code, error_message=error.message or None)


def _describe_producer(state: LogProducerState) -> ProducerState:
    return ProducerState(
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        last_sequence=state.last_sequence,
        last_timestamp=state.last_timestamp,
        coordinator_epoch=state.coordinator_epoch,
        current_txn_start_offset=state.current_transaction_first_offset,
    )
