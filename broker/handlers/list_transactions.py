"""ListTransactions (66), versions 0–2: the transactional ids of this coordinator (KIP-664).

- Filters by state and by producer id; states that do not exist are named back. An empty filter filters nothing.
- v1+ DurationFilter: only what has run longer than that (KIP-994). As in Kafka an id without a transaction, which has
  no start, passes it.
- v2+ TransactionalIdPattern (KIP-1152), matched by RE2, which no pattern can keep busy: INVALID_REGULAR_EXPRESSION.
- What is told is durable.
"""

from broker.completion import Completion
from broker.coordinator.transaction.metadata import TransactionMetadata
from broker.coordinator.transaction.states import TransactionState
from broker.dispatch import RequestContext
from broker.handlers.transaction_errors import answered
from broker.pattern import matcher
from protocol.errors import KafkaError
from protocol.generated.list_transactions_request import ListTransactionsRequest
from protocol.generated.list_transactions_response import ListTransactionsResponse
from protocol.generated.list_transactions_response import TransactionState as ListedTransaction

_STATE_NAMES = frozenset(state.kafka_name for state in TransactionState)


def handle(
    context: RequestContext, request: ListTransactionsRequest
) -> ListTransactionsResponse | Completion[ListTransactionsResponse]:
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

    def respond(known: list[TransactionMetadata]) -> ListTransactionsResponse:
        return ListTransactionsResponse(
            unknown_state_filters=[name for name in request.state_filters if name not in _STATE_NAMES],
            transaction_states=[
                ListedTransaction(
                    transactional_id=metadata.transactional_id,
                    producer_id=metadata.producer_id,
                    transaction_state=metadata.state.kafka_name,
                )
                for metadata in known
                if is_wanted(metadata)
            ],
        )

    return answered(
        context.broker.transactions.list_all(),
        context,
        0,
        respond,
        lambda error: ListTransactionsResponse(error_code=error),
    )
