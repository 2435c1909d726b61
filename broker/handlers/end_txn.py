"""EndTxn (26), versions 0–4: commit or abort.

- Answered once PREPARE_COMMIT or PREPARE_ABORT is durable: the outcome is then fixed; markers follow by themselves.
- A retry of an end that took effect succeeds; the opposite end is INVALID_TXN_STATE; while the markers are on their
  way everything is CONCURRENT_TRANSACTIONS. Before v2, PRODUCER_FENCED is INVALID_PRODUCER_EPOCH (KIP-588).

Left out: v5 (a new epoch with every end, KIP-890 part 2).
"""

from broker.completion import Completion
from broker.coordinator.transaction.coordinator import ProducerIdAndEpoch
from broker.dispatch import RequestContext
from broker.handlers.transaction_errors import code_of
from protocol.errors import ErrorCode
from protocol.generated.end_txn_request import EndTxnRequest
from protocol.generated.end_txn_response import EndTxnResponse

FENCED_SINCE = 2


def handle(context: RequestContext, request: EndTxnRequest) -> Completion[EndTxnResponse]:
    answer: Completion[EndTxnResponse] = Completion()

    def on_done(done: Completion[ProducerIdAndEpoch]) -> None:
        error = ErrorCode.NONE if done.error is None else code_of(context, done.error, FENCED_SINCE)
        answer.complete(EndTxnResponse(error_code=error))

    context.broker.transactions.end_transaction(
        request.transactional_id, request.producer_id, request.producer_epoch, request.committed
    ).then(on_done)
    return answer
