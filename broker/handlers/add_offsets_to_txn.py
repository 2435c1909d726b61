"""AddOffsetsToTxn (25), versions 0–3: a group's partition of `__consumer_offsets` becomes part of the transaction.

The offsets themselves follow with TxnOffsetCommit (28). Before v2, PRODUCER_FENCED is INVALID_PRODUCER_EPOCH (KIP-588).

Left out: v4 (TRANSACTION_ABORTABLE, no new fields).
"""

from broker.completion import Completion
from broker.coordinator.transaction.coordinator import ProducerIdAndEpoch
from broker.dispatch import RequestContext
from broker.handlers.transaction_errors import code_of
from broker.metadata_log import Topic
from broker.topic_config import CONSUMER_OFFSETS
from protocol.errors import ErrorCode
from protocol.generated.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from protocol.generated.add_offsets_to_txn_response import AddOffsetsToTxnResponse

FENCED_SINCE = 2


def handle(context: RequestContext, request: AddOffsetsToTxnRequest) -> Completion[AddOffsetsToTxnResponse]:
    broker = context.broker
    answer: Completion[AddOffsetsToTxnResponse] = Completion()

    def on_done(done: Completion[ProducerIdAndEpoch]) -> None:
        error = ErrorCode.NONE if done.error is None else code_of(context, done.error, FENCED_SINCE)
        answer.complete(AddOffsetsToTxnResponse(error_code=error))

    def add(_: Topic) -> Completion[ProducerIdAndEpoch]:
        partition = broker.groups.partition_for(request.group_id)
        return broker.transactions.add_partitions(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            ((CONSUMER_OFFSETS, partition),),
        )

    broker.topics.ensure_internal(CONSUMER_OFFSETS).flat_map(add).then(on_done)
    return answer
