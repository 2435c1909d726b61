"""What becomes of transactions when `__transaction_state` itself is deleted: it stays while one is open. As in Kafka
(oncelog.compat=kafka) it goes at any time, and they are forgotten.
"""

import pytest

from oncelog.broker.faults.rule import Action, Point, Rule, Selector
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.delete_topics_request import DeleteTopicsRequest
from oncelog.protocol.generated.end_txn_request import EndTxnRequest
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from oncelog.protocol.generated.list_transactions_request import ListTransactionsRequest
from tests.clients.producer import TIMEOUT_MS, TOPIC, TRANSACTIONAL_ID, Producer, broker_with_topic, log_of
from tests.fakes.broker import VirtualBroker

STATE = "__transaction_state"
KAFKA = "oncelog.compat=kafka"
E = ErrorCode


def delete_state(broker: VirtualBroker) -> None:
    answer = broker.ask(DeleteTopicsRequest(topic_names=[STATE], timeout_ms=1_000), 5)
    assert answer.responses[0].error_code == E.NONE


def find_coordinator(broker: VirtualBroker) -> None:
    """Makes the topic again."""
    assert broker.ask(FindCoordinatorRequest(key=TRANSACTIONAL_ID, key_type=1), 2).error_code == E.NONE


def listed(broker: VirtualBroker) -> list[str]:
    return [state.transactional_id for state in broker.ask(ListTransactionsRequest(), 0).transaction_states]


def opened(broker: VirtualBroker) -> Producer:
    producer = Producer(broker).init()
    assert producer.add(0) == [E.NONE]
    assert producer.produce() is E.NONE
    return producer


def write_again(broker: VirtualBroker) -> None:
    producer = opened(broker)
    assert producer.end(True) is E.NONE
    broker.let_pass(100)
    assert listed(broker) == [TRANSACTIONAL_ID]


def test_every_id_is_forgotten_and_no_timeout_ends_an_unknown_transaction() -> None:
    broker = broker_with_topic(KAFKA)
    producer = opened(broker)
    delete_state(broker)
    assert listed(broker) == []
    assert producer.ask_end(True, 3).error_code == E.NOT_COORDINATOR
    find_coordinator(broker)
    assert producer.ask_end(True, 3).error_code == E.INVALID_PRODUCER_ID_MAPPING
    broker.let_pass(3 * TIMEOUT_MS)
    assert listed(broker) == []
    log = log_of(broker)
    assert log.last_stable_offset < log.log_end_offset, "it hangs, until an operator writes a marker"
    for again in (broker, broker.killed()):
        assert listed(again) == []


@pytest.mark.parametrize("waits_ms", [0, 5_000])
@pytest.mark.parametrize("version", [3, 5])
def test_markers_on_their_way_do_not_bring_an_id_back(waits_ms: int, version: int) -> None:
    broker = broker_with_topic(KAFKA)
    rule = broker.faults.plant(Rule(Point.MARKER, Action.HOLD, Selector(topic=TOPIC), times=1))
    producer = opened(broker)
    assert producer.end(True, version) is E.NONE
    delete_state(broker)
    find_coordinator(broker)
    broker.let_pass(waits_ms)
    assert broker.faults.release(rule) == 1
    broker.let_pass(5_000)
    assert listed(broker) == []
    write_again(broker)
    assert listed(broker.killed()) == [TRANSACTIONAL_ID]


def test_a_request_whose_decision_is_not_durable_has_to_look_up_the_coordinator_again() -> None:
    broker = broker_with_topic(KAFKA)
    opened(broker)
    second = Producer(broker, "second").init()
    delete_state(broker)
    assert second.add(0) == [E.NOT_COORDINATOR]
    find_coordinator(broker)
    assert second.add(0) == [E.INVALID_PRODUCER_ID_MAPPING]
    second.init()
    assert second.add(0) == [E.NONE]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("turns", range(12))
@pytest.mark.parametrize("version", [3, 5])
def test_at_whatever_step_of_an_end_the_topic_goes_the_id_does_not_come_back(turns: int, version: int) -> None:
    broker = broker_with_topic(KAFKA)
    producer = opened(broker)

    def delete_in(turns_left: int) -> None:
        if turns_left:
            broker.time.call_soon(lambda: delete_in(turns_left - 1))
        else:
            broker.start(DeleteTopicsRequest(topic_names=[STATE], timeout_ms=1_000), 5)

    reply = broker.start(EndTxnRequest(committed=True, **producer.identity), version)
    delete_in(turns)
    broker.time.settle()
    assert reply.message.error_code in (E.NONE, E.NOT_COORDINATOR)
    find_coordinator(broker)
    broker.let_pass(5_000)
    assert listed(broker) == []
    assert listed(broker.killed()) == []


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", [3, 5])
def test_it_cannot_be_deleted_while_a_transaction_is_open_or_ends_so_none_hangs(commit: bool, version: int) -> None:
    broker = broker_with_topic()
    rule = broker.faults.plant(Rule(Point.MARKER, Action.HOLD, Selector(topic=TOPIC), times=1))
    producer = opened(broker)
    assert refusal(broker) == "'id' has a transaction open; it must end first"
    assert producer.end(commit, version) is E.NONE
    assert refusal(broker), "its marker is still on its way"
    assert broker.faults.release(rule) == 1
    broker.let_pass(1_000)
    log = log_of(broker)
    assert log.last_stable_offset == log.log_end_offset
    delete_state(broker)
    assert listed(broker) == []
    find_coordinator(broker)
    write_again(broker)


@pytest.mark.parametrize("turns", range(12))
@pytest.mark.parametrize("version", [3, 5])
def test_at_whatever_step_of_an_end_it_is_asked_for_nothing_stays_open(turns: int, version: int) -> None:
    broker = broker_with_topic()
    producer = opened(broker)

    def delete_in(turns_left: int) -> None:
        if turns_left:
            broker.time.call_soon(lambda: delete_in(turns_left - 1))
        else:
            broker.start(DeleteTopicsRequest(topic_names=[STATE], timeout_ms=1_000), 5)

    broker.start(EndTxnRequest(committed=True, **producer.identity), version)
    delete_in(turns)
    broker.time.settle()
    for again in (broker, broker.killed()):
        again.let_pass(5_000)
        log = log_of(again)
        assert log.last_stable_offset == log.log_end_offset


def refusal(broker: VirtualBroker) -> str:
    """The text of a deletion that is refused."""
    answer = broker.ask(DeleteTopicsRequest(topic_names=[STATE], timeout_ms=1_000), 5).responses[0]
    assert answer.error_code == E.INVALID_REQUEST
    return str(answer.error_message)
