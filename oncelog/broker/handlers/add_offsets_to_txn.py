"""AddOffsetsToTxn (25), versions 0–4: adds a group's partition of `__consumer_offsets` to the transaction.

The offsets themselves follow with TxnOffsetCommit (28), which from its v5 on does not need this request. Before v2,
PRODUCER_FENCED is INVALID_PRODUCER_EPOCH (KIP-588). v4 defines TRANSACTION_ABORTABLE, which is never returned here.
"""

from oncelog.broker.cluster.metadata_log import Topic
from oncelog.broker.coordinator.transaction.metadata import ProducerIdAndEpoch
from oncelog.broker.handlers.shared.transaction_errors import to_response
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.generated.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from oncelog.protocol.generated.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from oncelog.protocol.topics import CONSUMER_OFFSETS

FENCED_SINCE = 2


def handle(context: RequestContext, request: AddOffsetsToTxnRequest) -> Completion[AddOffsetsToTxnResponse]:
    broker = context.broker

    def add(_: Topic) -> Completion[ProducerIdAndEpoch]:
        partition = broker.groups.partition_for(request.group_id)
        return broker.transactions.add_partitions(
            request.transactional_id, request.producer_id, request.producer_epoch, ((CONSUMER_OFFSETS, partition),)
        )

    try:
        made = broker.topics.ensure_internal(CONSUMER_OFFSETS)
    except KafkaError:  # no disk space for it
        return Completion.of(AddOffsetsToTxnResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
    return to_response(
        made.flat_map(add),
        context,
        FENCED_SINCE,
        lambda _: AddOffsetsToTxnResponse(),
        lambda error: AddOffsetsToTxnResponse(error_code=error),
    )
