"""Each action at each point does what it says, and the rule counts how often."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from oncelog.broker.faults.planted import PlantedRule
from oncelog.broker.faults.rule import POSSIBLE, Action, Point, Rule, RuleError, Selector, rule_from_json
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.end_txn_request import EndTxnRequest
from oncelog.testing.memory_disk import PowerCut
from tests.clients.producer import TRANSACTIONAL_ID, Producer, broker_with_topic, log_of
from tests.fakes.broker import Reply, VirtualBroker

END = Selector(api=ApiKey.END_TXN)


def open_transaction() -> tuple[VirtualBroker, Producer]:
    """A transaction that is open on both partitions, with a record on each."""
    broker = broker_with_topic()
    producer = Producer(broker).init()
    assert producer.add(0, 1) == [ErrorCode.NONE] * 2
    assert producer.produce(0) == producer.produce(1) == ErrorCode.NONE
    return broker, producer


def plant(broker: VirtualBroker, point: Point, action: Action, of: Selector = END, **more: object) -> PlantedRule:
    return broker.faults.plant(Rule(point, action, of, **more))  # type: ignore[arg-type]


def send_end(producer: Producer, *, commit: bool = True, version: int = 3) -> Reply:
    return producer.broker.send(EndTxnRequest(committed=commit, **producer.identity), version)


def state_of(broker: VirtualBroker, transactional_id: str = TRANSACTIONAL_ID) -> str:
    (state,) = (
        status.metadata.state.kafka_name
        for status in broker.broker.transactions.current()
        if status.metadata.transactional_id == transactional_id
    )
    return state


def stable(broker: VirtualBroker, partition: int = 0) -> int:
    return log_of(broker, partition).last_stable_offset


def test_a_held_request_is_as_one_that_has_not_come() -> None:
    broker, producer = open_transaction()
    held = plant(broker, Point.REQUEST, Action.HOLD)
    reply = send_end(producer)
    assert not reply.is_there
    assert state_of(broker) == "Ongoing"
    assert [occurrence.api for occurrence in held.held] == [ApiKey.END_TXN]
    broker.faults.release(held)
    broker.time.settle()
    assert reply.message.error_code == ErrorCode.NONE
    assert state_of(broker) == "CompleteCommit"


def test_a_held_answer_has_done_its_work() -> None:
    broker, producer = open_transaction()
    held = plant(broker, Point.ANSWER, Action.HOLD)
    reply = send_end(producer)
    assert not reply.is_there
    assert state_of(broker) == "CompleteCommit"
    broker.faults.remove(held)
    assert reply.message.error_code == ErrorCode.NONE


@pytest.mark.parametrize("point", [Point.REQUEST, Point.ANSWER])
def test_a_delay_lasts_as_long_as_it_says(point: Point) -> None:
    broker, producer = open_transaction()
    plant(broker, point, Action.DELAY, delay_ms=250)
    reply = send_end(producer)
    broker.let_pass(249)
    assert not reply.is_there
    broker.let_pass(1)
    assert reply.is_there


@pytest.mark.parametrize(("point", "state"), [(Point.REQUEST, "Ongoing"), (Point.ANSWER, "CompleteCommit")])
def test_a_dropped_one_closes_the_connection_before_or_after_the_work(point: Point, state: str) -> None:
    broker, producer = open_transaction()
    plant(broker, point, Action.DROP)
    reply = send_end(producer)
    with pytest.raises(AssertionError, match="fault rule"):
        assert reply.message
    assert state_of(broker) == state


@pytest.mark.parametrize(("point", "state"), [(Point.REQUEST, "Ongoing"), (Point.ANSWER, "CompleteCommit")])
def test_an_error_is_answered_instead_or_on_top_of_the_work(point: Point, state: str) -> None:
    broker, producer = open_transaction()
    plant(broker, point, Action.ERROR, error=ErrorCode.NOT_COORDINATOR)
    assert send_end(producer).message.error_code == ErrorCode.NOT_COORDINATOR
    assert state_of(broker) == state


def test_an_error_is_answered_in_the_shape_of_each_api_that_a_transaction_needs() -> None:
    broker = broker_with_topic()
    producer = Producer(broker).init()
    for api in (ApiKey.PRODUCE, ApiKey.ADD_PARTITIONS_TO_TXN):
        plant(broker, Point.REQUEST, Action.ERROR, Selector(api=api), error=ErrorCode.NOT_COORDINATOR)
    assert producer.add(0, 1) == [ErrorCode.NOT_COORDINATOR] * 2
    assert producer.produce(1) == ErrorCode.NOT_COORDINATOR
    assert producer.add(0, 1) == [ErrorCode.NONE] * 2
    assert producer.produce(1) == ErrorCode.NONE


def test_a_duplicate_is_handled_twice_and_its_second_answer_is_kept() -> None:
    broker, producer = open_transaction()
    copy = plant(broker, Point.REQUEST, Action.DUPLICATE)
    assert send_end(producer).message.error_code == ErrorCode.NONE
    producer.add(0)
    broker.faults.release(copy)
    broker.time.settle()
    assert list(copy.answers_of_copies) == ["NONE"]
    assert state_of(broker) == "CompleteCommit"


def test_markers_are_held_one_by_one() -> None:
    broker, producer = open_transaction()
    of = Selector(transactional_id=TRANSACTIONAL_ID)
    held = plant(broker, Point.MARKER, Action.HOLD, of, times=None)
    assert send_end(producer).message.error_code == ErrorCode.NONE
    assert state_of(broker) == "PrepareCommit"
    assert [occurrence.partitions for occurrence in held.held] == [(("topic", 0),), (("topic", 1),)]
    broker.faults.release(held, 1)
    broker.time.settle()
    assert (stable(broker, 0), stable(broker, 1)) == (2, 0)
    assert state_of(broker) == "PrepareCommit"
    broker.faults.release(held)
    broker.time.settle()
    assert (stable(broker, 0), stable(broker, 1)) == (2, 2)
    assert state_of(broker) == "CompleteCommit"


def test_complete_waits_for_a_marker_that_is_written_and_not_reported_yet() -> None:
    broker, producer = open_transaction()
    held = plant(broker, Point.MARKER_WRITTEN, Action.HOLD, Selector(partition=1))
    send_end(producer)
    assert (stable(broker, 0), stable(broker, 1)) == (2, 2)
    assert state_of(broker) == "PrepareCommit"
    broker.faults.remove(held)
    broker.time.settle()
    assert state_of(broker) == "CompleteCommit"


def test_a_marker_that_is_refused_is_sent_again() -> None:
    broker, producer = open_transaction()
    refused = plant(broker, Point.MARKER, Action.ERROR, Selector(partition=1), error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    send_end(producer)
    assert state_of(broker) == "PrepareCommit"
    broker.let_pass(1_000)
    assert refused.fired_count == 1
    assert state_of(broker) == "CompleteCommit"


def test_a_marker_that_comes_twice_changes_nothing_for_readers() -> None:
    broker, producer = open_transaction()
    copy = plant(broker, Point.MARKER, Action.DUPLICATE, Selector(partition=0), delay_ms=100)
    send_end(producer)
    broker.let_pass(100)
    assert list(copy.answers_of_copies) == ["NONE"]
    assert (stable(broker), log_of(broker).log_end_offset) == (3, 3)


@pytest.mark.parametrize("action", [Action.CRASH, Action.TEAR])
def test_a_crash_at_an_append_leaves_nothing_of_it(action: Action) -> None:
    broker, producer = open_transaction()
    plant(broker, Point.APPEND, action, Selector(topic="__transaction_state", state="PrepareCommit"))
    with pytest.raises(PowerCut):
        send_end(producer)
    assert state_of(broker.killed()) == "Ongoing"


def test_a_crash_after_an_append_leaves_all_of_it() -> None:
    broker, producer = open_transaction()
    plant(broker, Point.APPENDED, Action.CRASH, Selector(transactional_id=TRANSACTIONAL_ID, state="PrepareCommit"))
    with pytest.raises(PowerCut):
        send_end(producer)
    assert state_of(broker.killed()) == "CompleteCommit"


def test_rules_are_at_work_when_a_start_finishes_what_the_last_stop_left() -> None:
    broker, producer = open_transaction()
    plant(broker, Point.MARKER, Action.HOLD, Selector(), times=None)
    send_end(producer)
    again = broker.killed(
        rules=[Rule(Point.MARKER, Action.HOLD, Selector(transactional_id=TRANSACTIONAL_ID, partition=1))]
    )
    assert state_of(again) == "PrepareCommit"
    assert (stable(again, 0), stable(again, 1)) == (2, 0)
    again.faults.remove_all()
    again.time.settle()
    assert state_of(again) == "CompleteCommit"


def test_a_rule_fires_at_the_nth_time_as_often_as_it_says() -> None:
    broker = broker_with_topic()
    producer = Producer(broker).init()
    rule = plant(
        broker,
        Point.REQUEST,
        Action.ERROR,
        Selector(api=ApiKey.ADD_PARTITIONS_TO_TXN),
        error=ErrorCode.NOT_COORDINATOR,
        nth=2,
        times=2,
    )
    answers = [producer.add(0)[0] for _ in range(5)]
    refused, fine = ErrorCode.NOT_COORDINATOR, ErrorCode.NONE
    assert answers == [fine, refused, refused, fine, fine]
    assert (rule.matched_count, rule.fired_count, rule.is_consumed) == (3, 2, True)


@pytest.mark.parametrize(
    ("of", "fits"),
    [
        (Selector(client_id="client"), True),
        (Selector(client_id="another"), False),
        (Selector(transactional_id=TRANSACTIONAL_ID), True),
        (Selector(transactional_id="another"), False),
        (Selector(topic="topic"), True),
        (Selector(topic="topic", partition=1), True),
        (Selector(topic="topic", partition=2), False),
        (Selector(partition=1), True),
        (Selector(topic="another"), False),
    ],
)
@pytest.mark.parametrize("version", [3, 9, 12, 13])
def test_a_produce_is_selected_by_client_id_transactional_id_and_partition_in_every_version(
    of: Selector, fits: bool, version: int
) -> None:
    broker = broker_with_topic()
    producer = Producer(broker).init()
    producer.add(0, 1)
    rule = plant(broker, Point.REQUEST, Action.HOLD, of)
    reply = producer.start_produce(1, version=version)
    broker.time.settle()
    assert (rule.fired_count == 1) is fits
    assert reply.is_there is not fits


def test_only_what_means_something_can_be_planted() -> None:
    for point, action in product(Point, Action):
        arguments = {
            "delay_ms": 1 if action is Action.DELAY else None,
            "error": ErrorCode.NOT_COORDINATOR if action is Action.ERROR else ErrorCode.NONE,
        }
        if action in POSSIBLE[point]:
            rule = Rule(point, action, **arguments)  # type: ignore[arg-type]
            assert rule_from_json(rule.as_json()) == rule
        else:
            with pytest.raises(RuleError, match="is not valid at"):
                Rule(point, action, **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("api", [ApiKey.END_TXN, "EndTxn", "END_TXN", 26])
def test_names_are_as_good_as_the_values_that_they_name(api: Any) -> None:
    point, action, error = ("request", "error", "NOT_COORDINATOR")
    named = Rule(point, action, Selector(api=api), error=error)  # type: ignore[arg-type]
    assert named == Rule(Point.REQUEST, Action.ERROR, Selector(api=ApiKey.END_TXN), error=ErrorCode.NOT_COORDINATOR)
    assert named.as_json()["api"] == "EndTxn"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Selector(api="EndTransaction"), "api is 'EndTransaction': must be a name such as EndTxn, or its"),
        (lambda: Selector(partition="0"), "partition must be a whole number"),
        (lambda: Rule("requests", "hold"), "point is 'requests': must be one of request, answer, marker,"),
        (lambda: Rule("request", "wait"), "action is 'wait': must be one of hold, delay,"),
        (lambda: Rule("request", "hold", "EndTxn"), r"of is 'EndTxn': must be a Selector, such as"),
        (lambda: Rule("request", "hold", times="1"), "times must be a whole number"),
    ],
)
def test_what_names_nothing_is_answered_with_what_is_due(make: Callable[[], object], said: str) -> None:
    with pytest.raises(RuleError, match=said):
        make()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "point is None"),
        ({"point": "marker", "action": "hold", "colour": "red"}, "colour is not a field"),
        ({"point": "marker", "action": "hold", "api": "EndTxn"}, "select requests"),
        ({"point": "request", "action": "hold", "api": "EndTransaction"}, "api is 'EndTransaction'"),
        ({"point": "request", "action": "error"}, "error is required"),
        ({"point": "request", "action": "error", "error": "NO_SUCH"}, "error is 'NO_SUCH'"),
        ({"point": "request", "action": "delay"}, "delay_ms"),
        ({"point": "request", "action": "hold", "nth": 0}, "must be at least 1"),
        ({"point": "request", "action": "hold", "nth": True}, "whole number"),
        ({"point": "request", "action": "hold", "topic": 7}, "topic must be a string"),
        ({"point": "append", "action": "crash", "state": "Prepared"}, "state selects"),
        ({"point": "request", "action": "hold", "state": "Ongoing"}, "state selects"),
    ],
)
def test_a_rule_that_is_wrong_says_what_is(values: dict[str, object], message: str) -> None:
    with pytest.raises(RuleError, match=message):
        rule_from_json(values)
