"""The requests about transactions (KIP-664): who holds one open, which there are, and how one is ended from outside.

Owns: the requests, and their errors as exceptions. Does not own: a producer's own transactions
(`producing`), the public names (`client`, which imports this at the first use: few programs need it).
"""

from collections.abc import Sequence

from oncelog.client.admin.calls import ask_coordinator, ask_nodes, require_topics
from oncelog.client.admin.descriptions import ListedTransaction, ProducerState, TransactionDescription
from oncelog.client.values.arguments import known_names
from oncelog.client.values.errors import raise_for
from oncelog.client.values.records import TopicPartition
from oncelog.client.values.waiting import Deadline
from oncelog.client.wire.apis import api_of
from oncelog.client.wire.cluster import Cluster, CoordinatorKind
from oncelog.protocol.generated import (
    describe_producers_request,
    describe_producers_response,
    describe_transactions_request,
    describe_transactions_response,
    list_transactions_request,
    list_transactions_response,
    write_txn_markers_request,
    write_txn_markers_response,
)
from oncelog.protocol.generated.describe_producers_request import DescribeProducersRequest, TopicRequest
from oncelog.protocol.generated.describe_transactions_request import DescribeTransactionsRequest
from oncelog.protocol.generated.list_transactions_request import ListTransactionsRequest
from oncelog.protocol.generated.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from oncelog.protocol.transaction_states import STATE_NAMES

_DESCRIBE_PRODUCERS = api_of(describe_producers_request, describe_producers_response, 0, 0)
_LIST_TRANSACTIONS = api_of(list_transactions_request, list_transactions_response, 0, 2)
_DESCRIBE_TRANSACTIONS = api_of(describe_transactions_request, describe_transactions_response, 0, 0)
_WRITE_TXN_MARKERS = api_of(write_txn_markers_request, write_txn_markers_response, 1, 1)
OPERATORS_TIMEOUT_MS = 1
"""The transaction timeout that `fence_producer` leaves behind, by which `fencing` knows it: no producer has it, and
the next instance sets its own."""


async def describe_producers(cluster: Cluster, place: TopicPartition, deadline: Deadline) -> list[ProducerState]:
    await require_topics(cluster, (place.topic,), deadline)
    request = DescribeProducersRequest(topics=[TopicRequest(place.topic, (place.partition,))])
    response = await cluster.call_node(cluster.metadata.checked_leader(place), _DESCRIBE_PRODUCERS, request, deadline)
    answer = response.topics[0].partitions[0]
    raise_for(answer.error_code, answer.error_message or "")
    return [
        ProducerState(
            each.producer_id,
            each.producer_epoch,
            each.coordinator_epoch,
            each.last_sequence,
            each.last_timestamp,
            each.current_txn_start_offset,
        )
        for each in answer.active_producers
    ]


async def find_transactions(
    cluster: Cluster,
    states: Sequence[str],
    producer_ids: Sequence[int],
    duration_ms: int,
    pattern: str | None,
    deadline: Deadline,
) -> list[ListedTransaction]:
    request = ListTransactionsRequest(
        state_filters=known_names("states", states, STATE_NAMES),
        producer_id_filters=producer_ids,
        duration_filter=duration_ms,
        transactional_id_pattern=pattern,
    )
    responses = await ask_nodes(cluster, _LIST_TRANSACTIONS, request, deadline, lambda each: each.error_code)
    found = [
        ListedTransaction(each.transactional_id, node_id, each.producer_id, each.transaction_state)
        for node_id, response in responses
        for each in response.transaction_states
    ]
    return sorted(found, key=lambda each: each.transactional_id)


async def describe_transaction(cluster: Cluster, transactional_id: str, deadline: Deadline) -> TransactionDescription:
    response = await ask_coordinator(
        cluster,
        CoordinatorKind.TRANSACTION,
        transactional_id,
        _DESCRIBE_TRANSACTIONS,
        DescribeTransactionsRequest(transactional_ids=(transactional_id,)),
        deadline,
        lambda each: [(each.transaction_states[0].error_code, f"transactional id {transactional_id!r}")],
    )
    state = response.transaction_states[0]
    return TransactionDescription(
        state.transactional_id,
        state.transaction_state,
        state.producer_id,
        state.producer_epoch,
        state.transaction_timeout_ms,
        state.transaction_start_time_ms,
        tuple(TopicPartition(topic.topic, index) for topic in state.topics for index in topic.partitions),
        cluster.known_coordinator(CoordinatorKind.TRANSACTION, transactional_id),
    )


async def abort_on_partition(
    cluster: Cluster,
    place: TopicPartition,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    deadline: Deadline,
) -> None:
    await require_topics(cluster, (place.topic,), deadline)
    marker = WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(place.topic, (place.partition,))],
        coordinator_epoch=coordinator_epoch,
    )
    request = WriteTxnMarkersRequest(markers=[marker])
    response = await cluster.call_node(cluster.metadata.checked_leader(place), _WRITE_TXN_MARKERS, request, deadline)
    code = response.markers[0].topics[0].partitions[0].error_code
    raise_for(code, f"partition {place.partition} of topic {place.topic!r}")


async def fence_producer(cluster: Cluster, transactional_id: str, deadline: Deadline) -> tuple[int, int]:
    from oncelog.client.wire.producer_apis import INIT_PRODUCER_ID  # with all that only producers send
    from oncelog.protocol.generated.init_producer_id_request import InitProducerIdRequest

    response = await ask_coordinator(
        cluster,
        CoordinatorKind.TRANSACTION,
        transactional_id,
        INIT_PRODUCER_ID,
        InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=OPERATORS_TIMEOUT_MS),
        deadline,
        lambda each: [(each.error_code, f"transactional id {transactional_id!r}")],
    )
    return response.producer_id, response.producer_epoch
