"""TxnOffsetCommit (28), versions 0–4: offsets that become visible with a producer's transaction, or not at all.

- The transaction must hold the group's partition of `__consumer_offsets` (AddOffsetsToTxn), asked in the turn of the
  append; a fenced producer is INVALID_PRODUCER_EPOCH in every version, and TRANSACTION_ABORTABLE is INVALID_TXN_STATE
  before v4 (KIP-890).
- v3+ names member and generation, which are checked as KIP-447 says.

Left out: v5 (adds the partition by itself, KIP-890 part 2).
"""

from broker.completion import Completion
from broker.coordinator.group.offsets import Committer, Errors
from broker.coordinator.group.records import TopicPartition
from broker.dispatch import RequestContext
from broker.topic_config import CONSUMER_OFFSETS
from protocol.errors import ErrorCode, KafkaError
from protocol.generated.txn_offset_commit_request import TxnOffsetCommitRequest
from protocol.generated.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)


def handle(
    context: RequestContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse | Completion[TxnOffsetCommitResponse]:
    partitions = [(topic.name, data.partition_index) for topic in request.topics for data in topic.partitions]
    try:
        error = _verify(context, request)
    except KafkaError as refused:
        error = refused.code
    if error:
        return _respond(request, dict.fromkeys(partitions, error))
    return _commit(context, request, partitions)


def _commit(
    context: RequestContext, request: TxnOffsetCommitRequest, partitions: list[TopicPartition]
) -> Completion[TxnOffsetCommitResponse]:
    committer = Committer(request.group_id, request.generation_id, request.member_id, request.group_instance_id)
    topics = context.broker.topics
    offsets = [
        (
            (topic.name, data.partition_index),
            data.committed_offset,
            data.committed_leader_epoch,
            data.committed_metadata or "",
        )
        for topic in request.topics
        for data in topic.partitions
        if topics.leader_of(topic.name, data.partition_index) is not None
    ]
    errors: Errors = dict.fromkeys(partitions, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    answer: Completion[TxnOffsetCommitResponse] = Completion()

    def on_done(done: Completion[Errors]) -> None:
        if done.error is None:
            errors.update(done.result())
        elif isinstance(done.error, KafkaError):
            errors.update({partition: _mapped(done.error.code, context.api_version) for partition, *_ in offsets})
        else:
            answer.fail(done.error)
            return
        answer.complete(_respond(request, errors))

    context.broker.groups.offsets.commit_in_transaction(
        committer, request.producer_id, request.producer_epoch, offsets
    ).then(on_done)
    return answer


def _verify(context: RequestContext, request: TxnOffsetCommitRequest) -> ErrorCode:
    broker = context.broker
    partition = (CONSUMER_OFFSETS, broker.groups.partition_for(request.group_id))
    log = broker.topics.partition(*partition)
    if log.has_open_transaction(request.producer_id, request.producer_epoch):
        return ErrorCode.NONE
    error = broker.transactions.verify_partitions(
        request.transactional_id, request.producer_id, request.producer_epoch, (partition,)
    )
    return _mapped(error, context.api_version)


def _mapped(error: ErrorCode, api_version: int) -> ErrorCode:
    match error:
        case ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        case ErrorCode.TRANSACTION_ABORTABLE if api_version < 4:
            return ErrorCode.INVALID_TXN_STATE
        case ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if api_version < 2:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        case _:
            return error


def _respond(request: TxnOffsetCommitRequest, errors: Errors) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=data.partition_index, error_code=errors[topic.name, data.partition_index]
                    )
                    for data in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
