"""TxnOffsetCommit (28), versions 0–5: offsets that become visible with a producer's transaction, or not at all.

- The transaction must contain the group's partition of `__consumer_offsets` (AddOffsetsToTxn), verified in the turn of
  the append, every time: a commit that arrives after EndTxn must not be written before the marker (KIP-890).
- v5 adds the partition implicitly (KIP-890 part 2), durable with the offsets.
- Answered once a kill cannot undo it, as a transactional Produce.
- v3+ names member and generation, which are checked (KIP-447).
- A large request is committed in several parts: the producer's marker decides about all of them.
- A fenced producer is INVALID_PRODUCER_EPOCH in every version; TRANSACTION_ABORTABLE is INVALID_TXN_STATE before v4, a
  loading coordinator is COORDINATOR_NOT_AVAILABLE before v2.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from oncelog.broker.apis.table import TRANSACTION_V2, TRANSACTION_V2_SINCE
from oncelog.broker.coordinator.group.engine.kind import CommitErrors, Committer, OffsetToCommit
from oncelog.broker.handlers.shared.offsets_to_commit import commit_in_slices, offsets_to_commit, settle_errors
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.generated.txn_offset_commit_request import TxnOffsetCommitRequest, TxnOffsetCommitRequestTopic
from oncelog.protocol.generated.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from oncelog.protocol.topics import CONSUMER_OFFSETS

_V2_SINCE = TRANSACTION_V2_SINCE[ApiKey.TXN_OFFSET_COMMIT]


def handle(context: RequestContext, request: TxnOffsetCommitRequest) -> Completion[TxnOffsetCommitResponse]:
    offsets, unknown = offsets_to_commit(context.broker.topics, request.topics)
    committed = _maybe_add_partition(context, request).flat_map(lambda _: _commit(context, request, offsets))
    settled = settle_errors(committed, offsets, unknown, partial(_to_client_error, context.api_version))
    return settled.map(
        lambda errors: TxnOffsetCommitResponse(topics=[_answer(topic, errors) for topic in request.topics])
    )


def handle_large(context: RequestContext, request: TxnOffsetCommitRequest) -> Any:
    return context.run(_handle_in_slices(context, request))


def _handle_in_slices(context: RequestContext, request: TxnOffsetCommitRequest) -> Sliced[TxnOffsetCommitResponse]:
    ready = _maybe_add_partition(context, request)
    yield ready
    errors = yield from commit_in_slices(
        context.broker.topics,
        request.topics,
        lambda some: ready.flat_map(lambda _: _commit(context, request, some)),
        partial(_to_client_error, context.api_version),
    )
    answers = []
    for topic in request.topics:
        answers.append(_answer(topic, errors))
        yield 1 + len(topic.partitions)
    return TxnOffsetCommitResponse(topics=answers)


def _commit(
    context: RequestContext, request: TxnOffsetCommitRequest, offsets: Sequence[OffsetToCommit]
) -> Completion[CommitErrors]:
    _verify(context, request)
    return context.broker.groups.offsets.commit_in_transaction(
        Committer(request.group_id, request.generation_id, request.member_id, request.group_instance_id),
        request.producer_id,
        request.producer_epoch,
        offsets,
        transaction_version=TRANSACTION_V2 if context.api_version >= _V2_SINCE else 0,
        may_answer_ahead=partial(context.broker.transactions.answer_ahead, request.transactional_id or "", 1),
    )


def _maybe_add_partition(context: RequestContext, request: TxnOffsetCommitRequest) -> Completion[object]:
    """Add the group's partition to the transaction, from v5 on, before anything is verified."""
    ready: Completion[object] = Completion()
    if not request.group_id:
        ready.fail(KafkaError(ErrorCode.INVALID_GROUP_ID))
    elif context.api_version < _V2_SINCE:
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
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        (partition,),
    )
    if error:
        raise KafkaError(error)


def _to_client_error(api_version: int, error: ErrorCode) -> ErrorCode:
    match error:
        case ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        case ErrorCode.TRANSACTION_ABORTABLE if api_version < 4:
            return ErrorCode.INVALID_TXN_STATE
        case ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if api_version < 2:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        case _:
            return error


def _answer(topic: TxnOffsetCommitRequestTopic, errors: CommitErrors) -> TxnOffsetCommitResponseTopic:
    return TxnOffsetCommitResponseTopic(
        name=topic.name,
        partitions=[
            TxnOffsetCommitResponsePartition(
                partition_index=data.partition_index, error_code=errors[topic.name, data.partition_index]
            )
            for data in topic.partitions
        ],
    )
