"""TxnOffsetCommit (28), versions 0–5: offsets that become visible with a producer's transaction, or not at all.

- The transaction must hold the group's partition of `__consumer_offsets` (AddOffsetsToTxn), asked in the turn of the
  append, every time: a commit that comes after EndTxn must not slip in before the marker (KIP-890).
- v5 adds the partition by itself (KIP-890 part 2): that is durable first, then everything is asked again.
- v3+ names member and generation, which are checked as KIP-447 says.
- A fenced producer is INVALID_PRODUCER_EPOCH in every version; TRANSACTION_ABORTABLE is INVALID_TXN_STATE before v4, a
  loading coordinator is COORDINATOR_NOT_AVAILABLE before v2.
"""

from broker.completion import Completion
from broker.coordinator.group.offsets import Committer, Errors
from broker.dispatch import RequestContext
from broker.handlers.offsets_to_commit import offsets_to_commit, settle_errors
from broker.topic_config import CONSUMER_OFFSETS
from protocol.errors import ErrorCode, KafkaError
from protocol.generated.txn_offset_commit_request import TxnOffsetCommitRequest
from protocol.generated.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

_IMPLICIT_ADD_SINCE = 5
_TRANSACTION_V2 = 2


def handle(context: RequestContext, request: TxnOffsetCommitRequest) -> Completion[TxnOffsetCommitResponse]:
    offsets, unknown = offsets_to_commit(context.broker.topics, request.topics)
    committer = Committer(request.group_id, request.generation_id, request.member_id, request.group_instance_id)

    def commit(_: object) -> Completion[Errors]:
        _verify(context, request)
        return context.broker.groups.offsets.commit_in_transaction(
            committer,
            request.producer_id,
            request.producer_epoch,
            offsets,
            transaction_version=_TRANSACTION_V2 if context.api_version >= _IMPLICIT_ADD_SINCE else 0,
        )

    committed = _ready(context, request).flat_map(commit)
    settled = settle_errors(committed, offsets, unknown, lambda error: _shown(error, context.api_version))
    return settled.map(lambda errors: _respond(request, errors))


def _ready(context: RequestContext, request: TxnOffsetCommitRequest) -> Completion[object]:
    """Before anything is asked: from v5 on the partition is added to the transaction."""
    ready: Completion[object] = Completion()
    if not request.group_id:
        ready.fail(KafkaError(ErrorCode.INVALID_GROUP_ID))
    elif context.api_version < _IMPLICIT_ADD_SINCE:
        ready.complete(None)
    else:
        try:
            partition = (CONSUMER_OFFSETS, context.broker.groups.partition_for(request.group_id))
        except KafkaError as error:
            ready.fail(error)
            return ready
        return context.broker.transactions.add_partitions_implicitly(
            request.transactional_id, request.producer_id, request.producer_epoch, (partition,)
        ).map(lambda _: None)
    return ready


def _verify(context: RequestContext, request: TxnOffsetCommitRequest) -> None:
    if not request.transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    broker = context.broker
    partition = (CONSUMER_OFFSETS, broker.groups.partition_for(request.group_id))
    error = broker.transactions.verify_partitions(
        request.transactional_id, request.producer_id, request.producer_epoch, (partition,)
    )
    if error:
        raise KafkaError(error)


def _shown(error: ErrorCode, api_version: int) -> ErrorCode:
    match error:
        case ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        case ErrorCode.GROUP_ID_NOT_FOUND:
            return ErrorCode.ILLEGAL_GENERATION
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
