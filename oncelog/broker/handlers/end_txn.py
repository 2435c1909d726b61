"""EndTxn (26), versions 0–5: commit or abort.

- The response is sent once PREPARE_COMMIT or PREPARE_ABORT is durable, and with it every marker that could be
  appended at once: the outcome is then fixed.
- A retry of an end that took effect succeeds; the opposite end is INVALID_TXN_STATE; while the markers are pending
  everything is CONCURRENT_TRANSACTIONS. Before v2, PRODUCER_FENCED is INVALID_PRODUCER_EPOCH (KIP-588).
- v5+ bumps the epoch, or assigns a new producer id when the epochs are exhausted, and returns the next producer id and
  epoch, or −1/−1 on error (KIP-890 part 2). An abort without an open transaction is legal there.
"""

from oncelog.broker.apis.table import TRANSACTION_V2, TRANSACTION_V2_SINCE
from oncelog.broker.handlers.shared.transaction_errors import to_response
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.generated.end_txn_request import EndTxnRequest
from oncelog.protocol.generated.end_txn_response import EndTxnResponse

FENCED_SINCE = 2
_V2_SINCE = TRANSACTION_V2_SINCE[ApiKey.END_TXN]


def handle(context: RequestContext, request: EndTxnRequest) -> Completion[EndTxnResponse]:
    return to_response(
        context.broker.transactions.end_transaction(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            request.committed,
            transaction_version=TRANSACTION_V2 if context.api_version >= _V2_SINCE else 0,
        ),
        context,
        FENCED_SINCE,
        lambda pair: EndTxnResponse(producer_id=pair.producer_id, producer_epoch=pair.producer_epoch),
        lambda error: EndTxnResponse(error_code=error, producer_id=-1, producer_epoch=-1),
    )
