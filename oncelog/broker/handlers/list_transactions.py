"""ListTransactions (66), versions 0–2: the transactional ids of this coordinator (KIP-664).

- Filters by state and by producer id; unknown states are returned. An empty filter matches everything.
- v1+ DurationFilter: only transactions that have run longer than that (KIP-994). As in Kafka an id without a
  transaction, which has no start, passes it.
- v2+ TransactionalIdPattern (KIP-1152), matched by RE2, which no pattern can keep busy: INVALID_REGULAR_EXPRESSION.
- The response contains only durable state, as it was in one turn. A filter that is repeated is returned once, as in
  Kafka.
"""

from oncelog.broker.config.pattern import compiled_pattern
from oncelog.broker.coordinator.transaction.metadata import TransactionMetadata
from oncelog.broker.coordinator.transaction.states import TransactionState
from oncelog.broker.handlers.shared.matching import matching_beside
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.slices import Sliced, each
from oncelog.protocol.errors import KafkaError
from oncelog.protocol.generated.list_transactions_request import ListTransactionsRequest
from oncelog.protocol.generated.list_transactions_response import ListTransactionsResponse
from oncelog.protocol.generated.list_transactions_response import TransactionState as ListedTransaction

_STATE_NAMES = frozenset(state.kafka_name for state in TransactionState)


def handle(context: RequestContext, request: ListTransactionsRequest) -> Sliced[ListTransactionsResponse]:
    try:
        pattern = compiled_pattern(request.transactional_id_pattern) if request.transactional_id_pattern else None
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
        )

    listed = context.broker.transactions.list_all()
    yield listed
    if isinstance(listed.error, KafkaError):
        return ListTransactionsResponse(error_code=listed.error.code)
    wanted = []
    for metadata in listed.result():
        yield 1
        if is_wanted(metadata):
            wanted.append(metadata)
    if pattern is not None:
        ids = [metadata.transactional_id for metadata in wanted]
        matched = (yield from matching_beside([pattern], ids, context.broker.slices))[0]
        wanted = [metadata for metadata in wanted if metadata.transactional_id in matched]
    states = yield from each(wanted, _listed)
    unknown = dict.fromkeys(name for name in request.state_filters if name not in _STATE_NAMES)
    return ListTransactionsResponse(unknown_state_filters=list(unknown), transaction_states=states)


def _listed(metadata: TransactionMetadata) -> ListedTransaction:
    return ListedTransaction(
        transactional_id=metadata.transactional_id,
        producer_id=metadata.producer_id,
        transaction_state=metadata.state.kafka_name,
    )
