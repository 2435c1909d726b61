"""ListTransactions (66), versions 0–2: the transactional ids of this coordinator (KIP-664).

- Filters by state and by producer id; unknown states are returned. An empty filter matches everything.
- v1+ DurationFilter: only transactions that have run longer than that (KIP-994). As in Kafka an id without a
  transaction, which has no start, passes it.
- v2+ TransactionalIdPattern (KIP-1152), matched by RE2, which no pattern can keep busy: INVALID_REGULAR_EXPRESSION.
- The response contains only durable state, as it was in one turn. A filter that is repeated is returned once, as in
  Kafka.
"""

from oncelog.broker.coordinator.transaction.metadata import TransactionMetadata
from oncelog.broker.coordinator.transaction.states import TransactionState
from oncelog.broker.pattern import matcher
from oncelog.broker.request import RequestContext
from oncelog.broker.slices import Sliced
from oncelog.protocol.errors import KafkaError
from oncelog.protocol.generated.list_transactions_request import ListTransactionsRequest
from oncelog.protocol.generated.list_transactions_response import ListTransactionsResponse
from oncelog.protocol.generated.list_transactions_response import TransactionState as ListedTransaction

_MATCH_ELEMENTS = 50
"""Measured: a costly pattern takes 0.3 ms for a short id."""
_STATE_NAMES = frozenset(state.kafka_name for state in TransactionState)


def handle(context: RequestContext, request: ListTransactionsRequest) -> Sliced[ListTransactionsResponse]:
    try:
        matches = matcher(request.transactional_id_pattern or "")
    except KafkaError as error:
        return ListTransactionsResponse(error_code=error.code)
    wanted_states = set(request.state_filters) & _STATE_NAMES
    producer_ids = set(request.producer_id_filters)
    started_before_ms = context.broker.clock.wall_ms() - request.duration_filter

    def is_wanted(metadata: TransactionMetadata) -> bool:
        return (
            (not request.state_filters or metadata.state.kafka_name in wanted_states)
            and (not producer_ids or metadata.producer_id in producer_ids)
            and (request.duration_filter < 0 or metadata.start_timestamp_ms < started_before_ms)
            and matches(metadata.transactional_id)
        )

    listed = context.broker.transactions.list_all()
    yield listed
    if isinstance(listed.error, KafkaError):
        return ListTransactionsResponse(error_code=listed.error.code)
    states = []
    for metadata in listed.result():
        yield _MATCH_ELEMENTS if request.transactional_id_pattern else 1
        if is_wanted(metadata):
            states.append(
                ListedTransaction(
                    transactional_id=metadata.transactional_id,
                    producer_id=metadata.producer_id,
                    transaction_state=metadata.state.kafka_name,
                )
            )
    unknown = dict.fromkeys(name for name in request.state_filters if name not in _STATE_NAMES)
    return ListTransactionsResponse(unknown_state_filters=list(unknown), transaction_states=states)
