"""ListTransactions, DescribeTransactions and DescribeProducers: what an operator sees of transactions (KIP-664)."""

from typing import Any

import pytest

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.describe_producers_request import DescribeProducersRequest, TopicRequest
from oncelog.protocol.generated.describe_transactions_request import DescribeTransactionsRequest
from oncelog.protocol.generated.init_producer_id_request import InitProducerIdRequest
from oncelog.protocol.generated.list_transactions_request import ListTransactionsRequest
from tests.clients.producer import TIMEOUT_MS, TOPIC, Producer, broker_with_topic
from tests.fakes.broker import VirtualBroker

E = ErrorCode
pytestmark = pytest.mark.usefixtures("every_version")


def listed(broker: VirtualBroker, version: int = 1, **filters: Any) -> dict[str, str]:
    answer = broker.ask(ListTransactionsRequest(**filters), version)
    assert answer.error_code == E.NONE
    return {state.transactional_id: state.transaction_state for state in answer.transaction_states}


def three_ids() -> tuple[VirtualBroker, Producer]:
    """One id without a transaction, one with an open one for a second, one that has committed."""
    broker = broker_with_topic()
    Producer(broker, "empty").init()
    opened = Producer(broker, "open").init()
    opened.add(0)
    opened.produce(0)
    done = Producer(broker, "done").init()
    done.add(1)
    done.end()
    broker.let_pass(1_000)
    return broker, opened


def test_a_list_without_filters_has_every_id() -> None:
    broker, _ = three_ids()
    everything = {"empty": "Empty", "open": "Ongoing", "done": "CompleteCommit"}
    assert listed(broker) == listed(broker, version=0) == everything
    assert listed(broker.killed()) == everything


def test_filters_narrow_a_list_and_unknown_states_are_named_back() -> None:
    broker, opened = three_ids()
    assert set(listed(broker, state_filters=["Ongoing", "Empty"])) == {"open", "empty"}
    assert set(listed(broker, producer_id_filters=[opened.producer_id, 10**9])) == {"open"}
    assert listed(broker, state_filters=["Empty"], producer_id_filters=[opened.producer_id]) == {}
    answer = broker.ask(ListTransactionsRequest(state_filters=["Ongoing", "Asleep"]), 0)
    assert answer.unknown_state_filters == ["Asleep"]
    assert [state.transactional_id for state in answer.transaction_states] == ["open"]
    assert listed(broker, state_filters=["Asleep"]) == {}


def test_the_duration_filter_keeps_what_runs_longer_and_as_in_kafka_what_never_began() -> None:
    broker, _ = three_ids()
    assert set(listed(broker, duration_filter=999)) == {"empty", "open", "done"}
    assert set(listed(broker, duration_filter=1_001)) == {"empty"}
    broker.time.wall_offset_ms -= 3_600_000
    assert set(listed(broker, duration_filter=-1)) == {"empty", "open", "done"}


def describe(broker: VirtualBroker, *transactional_ids: str) -> list[Any]:
    answer = broker.ask(DescribeTransactionsRequest(transactional_ids=transactional_ids), 0)
    return list(answer.transaction_states)


def test_a_description_has_all_that_is_known_and_an_error_for_each_id_that_is_not() -> None:
    broker, producer = three_ids()
    opened, absent, empty = describe(broker, "open", "absent", "")
    assert (opened.error_code, opened.transaction_state, opened.transaction_timeout_ms) == (
        E.NONE,
        "Ongoing",
        TIMEOUT_MS,
    )
    assert (opened.producer_id, opened.producer_epoch) == producer.pair
    assert opened.transaction_start_time_ms == broker.time.wall_ms() - 1_000
    assert [(topic.topic, list(topic.partitions)) for topic in opened.topics] == [(TOPIC, [0])]
    assert (absent.error_code, absent.transactional_id) == (E.TRANSACTIONAL_ID_NOT_FOUND, "absent")
    assert empty.error_code == E.INVALID_REQUEST


def test_nothing_is_reported_before_it_is_durable() -> None:
    broker = broker_with_topic()
    Producer(broker).init()
    making = broker.start(InitProducerIdRequest(transactional_id="new", transaction_timeout_ms=TIMEOUT_MS), 4)
    describing = broker.start(DescribeTransactionsRequest(transactional_ids=("new",)), 0)
    listing = broker.start(ListTransactionsRequest(), 0)
    assert not making.is_there and not describing.is_there and not listing.is_there
    broker.time.settle()
    assert describing.message.transaction_states[0].transaction_state == "Empty"
    assert "new" in {state.transactional_id for state in listing.message.transaction_states}


def producers_of(broker: VirtualBroker, partition: int = 0, topic: str = TOPIC) -> Any:
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=(partition,))])
    return broker.ask(request, 0).topics[0].partitions[0]


def test_the_producers_of_a_partition_show_where_their_open_transaction_begins() -> None:
    broker, opened = three_ids()
    (state,) = producers_of(broker).active_producers
    assert (state.producer_id, state.producer_epoch, state.last_sequence) == (*opened.pair, 0)
    assert state.current_txn_start_offset == 0
    opened.end()
    (state,) = producers_of(broker).active_producers
    assert (state.current_txn_start_offset, state.coordinator_epoch) == (-1, 0)


def test_producers_are_listed_only_when_what_they_wrote_is_durable() -> None:
    broker, opened = three_ids()
    opened.start_produce(0, sequence=1)
    request = DescribeProducersRequest(topics=[TopicRequest(name=TOPIC, partition_indexes=(0,))])
    describing = broker.start(request, 0)
    assert not describing.is_there
    broker.time.settle()
    (state,) = describing.message.topics[0].partitions[0].active_producers
    assert state.last_sequence == 1


def test_a_partition_that_does_not_exist_has_no_producers() -> None:
    broker = broker_with_topic()
    for answer in (producers_of(broker, 9), producers_of(broker, 0, "absent")):
        assert answer.error_code == E.UNKNOWN_TOPIC_OR_PARTITION
        assert list(answer.active_producers) == []
