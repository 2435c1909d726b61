"""DescribeProducers (61), version 0: the producers of a partition, idempotent ones included (KIP-664).

`current_txn_start_offset` is the first offset of the producer's open transaction here, −1 for none: together with
DescribeTransactions it reveals a transaction that the coordinator does not know. The response contains only durable
state. While the store accepts no appends, a partition whose end is not durable is KAFKA_STORAGE_ERROR: that lasts until
there is space, and other requests of the connection would wait as long.

A partition that is named several times is returned once, where Kafka repeats it: it may have many producers. All of its
producers are as they were in one turn.
"""

from oncelog.broker.log.producer_state import ProducerState as LogProducerState
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.slices import Sliced, each
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.generated.describe_producers_request import DescribeProducersRequest
from oncelog.protocol.generated.describe_producers_response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


def handle(context: RequestContext, request: DescribeProducersRequest) -> Sliced[DescribeProducersResponse]:
    topics: dict[str, dict[int, tuple[PartitionResponse, Completion[None] | None]]] = {}
    for topic in request.topics:
        described = topics.setdefault(topic.name, {})
        for index in topic.partition_indexes:
            yield 1
            if index not in described:
                described[index] = yield from _describe_partition(context, topic.name, index)
    answers = []
    for name, described in topics.items():
        partitions = []
        for index, (response, durable) in described.items():
            if durable is not None:
                yield durable
            partitions.append(response if durable is None else _once_durable(index, response, durable))
            yield 1
        answers.append(TopicResponse(name=name, partitions=partitions))
    return DescribeProducersResponse(topics=answers)


def _describe_partition(
    context: RequestContext, topic: str, index: int
) -> Sliced[tuple[PartitionResponse, Completion[None] | None]]:
    try:
        log = context.broker.topics.partition(topic, index)
    except KafkaError as error:
        return _error_response(index, error), None
    trouble = context.broker.logs.store.trouble
    if trouble is not None and not log.is_durable(log.log_end_offset):
        return _error_response(index, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(trouble.error))), None
    durable = log.when_durable(log.log_end_offset)
    producers = yield from each(tuple(log.producer_state.producers()), _describe_producer)
    return PartitionResponse(partition_index=index, active_producers=producers), durable


def _once_durable(index: int, response: PartitionResponse, durable: Completion[None]) -> PartitionResponse:
    if isinstance(durable.error, KafkaError):  # its topic was deleted meanwhile
        return _error_response(index, durable.error)
    durable.result()
    return response


def _error_response(index: int, error: KafkaError) -> PartitionResponse:
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
