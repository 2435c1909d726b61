"""InitProducerId (22), versions 0–6: a producer id and epoch.

- Without a transactional id: a new id, epoch 0. With one: the same id, epoch + 1; an open transaction of the
  predecessor is aborted first, with CONCURRENT_TRANSACTIONS until that is complete (KIP-98).
- v3+ a producer resumes with its own id and epoch (KIP-360). v4+ returns PRODUCER_FENCED where older clients get
  INVALID_PRODUCER_EPOCH (KIP-588). v5 defines TRANSACTION_ABORTABLE, which is never returned here.
- v6 is for two-phase commit (KIP-939) and served only where that is enabled: `enable2_pc` requests transactions without
  a timeout, `keep_prepared_txn` leaves the open transaction as it is, for this instance to end, and returns its
  producer id and epoch besides the new ones. Where it is not enabled: TRANSACTIONAL_ID_AUTHORIZATION_FAILED and
  UNSUPPORTED_VERSION.
"""

from oncelog.broker.handlers.shared.transaction_errors import to_response
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.generated.init_producer_id_request import InitProducerIdRequest
from oncelog.protocol.generated.init_producer_id_response import InitProducerIdResponse

FENCED_SINCE = 4


def handle(context: RequestContext, request: InitProducerIdRequest) -> Completion[InitProducerIdResponse]:
    return to_response(
        context.broker.transactions.init_two_phase(
            request.transactional_id,
            request.transaction_timeout_ms,
            request.producer_id,
            request.producer_epoch,
            enables=request.enable2_pc,
            keeps_prepared=request.keep_prepared_txn,
        ),
        context,
        FENCED_SINCE,
        lambda result: InitProducerIdResponse(
            producer_id=result.producer.producer_id,
            producer_epoch=result.producer.producer_epoch,
            ongoing_txn_producer_id=result.ongoing.producer_id,
            ongoing_txn_producer_epoch=result.ongoing.producer_epoch,
        ),
        lambda error: InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1),
    )
