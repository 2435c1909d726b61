"""InitProducerId (22), versions 0–5: a producer id and epoch.

- Without a transactional id: a fresh id, epoch 0. With one: the same id, epoch + 1; an open transaction of the
  predecessor is aborted first, answered CONCURRENT_TRANSACTIONS until that is complete (KIP-98).
- v3+ a producer resumes with its own id and epoch (KIP-360). v4+ says PRODUCER_FENCED where older clients are told
  INVALID_PRODUCER_EPOCH (KIP-588). v5 knows TRANSACTION_ABORTABLE, which is no answer here.

Left out: v6 (two-phase commit, KIP-939).
"""

from broker.completion import Completion
from broker.dispatch import RequestContext
from broker.handlers.transaction_errors import answered
from protocol.generated.init_producer_id_request import InitProducerIdRequest
from protocol.generated.init_producer_id_response import InitProducerIdResponse

FENCED_SINCE = 4


def handle(context: RequestContext, request: InitProducerIdRequest) -> Completion[InitProducerIdResponse]:
    return answered(
        context.broker.transactions.init_producer_id(
            request.transactional_id, request.transaction_timeout_ms, request.producer_id, request.producer_epoch
        ),
        context,
        FENCED_SINCE,
        lambda pair: InitProducerIdResponse(producer_id=pair.producer_id, producer_epoch=pair.producer_epoch),
        lambda error: InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1),
    )
