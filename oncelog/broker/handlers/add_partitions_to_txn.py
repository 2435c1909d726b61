"""AddPartitionsToTxn (24), versions 0–5: adds partitions that a producer will write to its transaction.

- All or nothing: if one partition is unknown, it is UNKNOWN_TOPIC_OR_PARTITION, the others are OPERATION_NOT_ATTEMPTED,
  and nothing is added. Clients may not add internal topics (TOPIC_AUTHORIZATION_FAILED).
- The response is sent once the addition is durable: data never survives a crash that its part in the transaction does
  not.
- Before v2, PRODUCER_FENCED is INVALID_PRODUCER_EPOCH (KIP-588).
- v4+ is sent by brokers, for many transactions at once, each with its own result; with VerifyOnly nothing is added and
  each partition's error says whether it is in the transaction (KIP-890).
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from oncelog.broker.apis.table import TRANSACTION_V2, TRANSACTION_V2_SINCE
from oncelog.broker.coordinator.transaction.metadata import TopicPartition
from oncelog.broker.handlers.shared.transaction_errors import to_response
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.completion import Completion, all_of
from oncelog.broker.turns.slices import Sliced, TooMany, all_done
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from oncelog.protocol.generated.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from oncelog.protocol.topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE

FENCED_SINCE = 2
BATCHED_SINCE = 4
_V2_SINCE = TRANSACTION_V2_SINCE[ApiKey.ADD_PARTITIONS_TO_TXN]
_PARTITIONS_AT_ONCE = 10_000
"""How many partitions are added at once: the maximum that one request may create (KIP-599)."""
Results = list[AddPartitionsToTxnTopicResult]
T = TypeVar("T")


def handle(context: RequestContext, request: AddPartitionsToTxnRequest) -> Completion[AddPartitionsToTxnResponse]:
    if context.api_version >= BATCHED_SINCE:
        return all_of([_add_for_broker(context, transaction) for transaction in request.transactions]).map(
            lambda results: AddPartitionsToTxnResponse(results_by_transaction=results)
        )
    only = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    return _add(
        context,
        only,
        (CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE),
        lambda results: AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results),
    )


def handle_large(context: RequestContext, request: AddPartitionsToTxnRequest) -> Any:
    return context.run(_handle_in_slices(context, request))


def _handle_in_slices(context: RequestContext, request: AddPartitionsToTxnRequest) -> Sliced[Any]:
    """Add each transaction's partitions in its own turn, and atomically: all of them or none."""
    asked = (request.v3_and_below_topics, *(transaction.topics for transaction in request.transactions))
    for topics in asked:
        if sum(len(topic.partitions) for topic in topics) > _PARTITIONS_AT_ONCE:
            raise TooMany(f"more than {_PARTITIONS_AT_ONCE:,} partitions in one transaction")
        yield 1
    if context.api_version < BATCHED_SINCE:
        return handle(context, request)
    added = map(partial(_add_for_broker, context), request.transactions)
    return AddPartitionsToTxnResponse(results_by_transaction=(yield from all_done(added, 16)))


def _add_for_broker(
    context: RequestContext, transaction: AddPartitionsToTxnTransaction
) -> Completion[AddPartitionsToTxnResult]:
    # A group's coordinator adds its own partition; the other logs of coordinators are not writable for clients.
    return _add(
        context,
        transaction,
        (TRANSACTION_STATE, SHARE_GROUP_STATE),
        lambda results: AddPartitionsToTxnResult(transactional_id=transaction.transactional_id, topic_results=results),
    )


def _add(
    context: RequestContext,
    transaction: AddPartitionsToTxnTransaction,
    forbidden: Sequence[str],
    answer: Callable[[Results], T],
) -> Completion[T]:
    topics = transaction.topics
    partitions = [(topic.name, index) for topic in topics for index in topic.partitions]
    refused = _refusals(context, partitions, forbidden)
    if refused:
        return Completion.of(answer(_results(topics, {**dict.fromkeys(partitions, _NOT_ATTEMPTED), **refused})))
    if transaction.verify_only:
        return Completion.of(answer(_results(topics, _verify(context, transaction, partitions))))
    return to_response(
        context.broker.transactions.add_partitions(
            transaction.transactional_id,
            transaction.producer_id,
            transaction.producer_epoch,
            partitions,
            transaction_version=TRANSACTION_V2 if context.api_version >= _V2_SINCE else 0,
        ),
        context,
        FENCED_SINCE,
        lambda _: answer(_results(topics, dict.fromkeys(partitions, ErrorCode.NONE))),
        lambda error: answer(_results(topics, dict.fromkeys(partitions, error))),
    )


_NOT_ATTEMPTED = ErrorCode.OPERATION_NOT_ATTEMPTED


def _refusals(
    context: RequestContext, partitions: list[TopicPartition], forbidden: Sequence[str]
) -> dict[TopicPartition, ErrorCode]:
    """Return the partitions that may not be added, with their errors."""
    refused: dict[TopicPartition, ErrorCode] = {}
    for partition in partitions:
        if partition[0] in forbidden:
            refused[partition] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif not context.broker.topics.has_partition(*partition):
            refused[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return refused


def _verify(
    context: RequestContext, transaction: AddPartitionsToTxnTransaction, partitions: list[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    if not transaction.transactional_id:
        return dict.fromkeys(partitions, ErrorCode.INVALID_REQUEST)
    return {
        partition: context.broker.transactions.verify_partitions(
            transaction.transactional_id,
            transaction.producer_id,
            transaction.producer_epoch,
            (partition,),
            is_other_node=True,
        )
        for partition in partitions
    }


def _results(topics: Sequence[AddPartitionsToTxnTopic], errors: dict[TopicPartition, ErrorCode]) -> Results:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=errors[topic.name, index])
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]
