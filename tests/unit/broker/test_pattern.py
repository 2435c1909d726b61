"""Patterns of clients: a client that may send one cannot keep the broker from others with it."""

from collections.abc import Callable
from typing import Any

import pytest

from oncelog.broker.config.pattern import LONGEST_PATTERN, compiled_pattern
from oncelog.broker.coordinator.group.consumer.regex import NOTHING_MATCHED, compile_regex, matching_names
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.generated.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from oncelog.protocol.generated.init_producer_id_request import InitProducerIdRequest
from oncelog.protocol.generated.list_transactions_request import ListTransactionsRequest
from tests.fakes.broker import VirtualBroker
from tests.support.requests.costs import cost_of, over_budget

COMPILERS = pytest.mark.parametrize("compiled", [compiled_pattern, compile_regex], ids=lambda each: each.__name__)
_ALTERNATIVES = "|".join(f".*{'abc'[number % 3]}.{{8}}{'cab'[number % 3]}.*" for number in range(900))


@COMPILERS
@pytest.mark.parametrize(
    "pattern",
    [
        ".*a" * 3_000,
        "(.*a.{100}b){5}",
        _ALTERNATIVES,
        "(a?){1000}" * 10,
        "(a?){500}a{500}",
        "a" * (LONGEST_PATTERN + 1),
    ],
    ids=lambda pattern: pattern[:20],
)
def test_a_pattern_that_can_be_in_thousands_of_states_at_once_is_refused(
    compiled: Callable[[str], Any], pattern: str
) -> None:
    """Some took 50 ms for one name, and a group has an expression for each of its members."""
    with pytest.raises(KafkaError) as refused:
        compiled(pattern)
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


@COMPILERS
@pytest.mark.parametrize(
    "pattern",
    [
        r"(prod|stage)\.(eu|us|ap)-(west|east)-[1-3]\..*",
        r"(?i)[\p{L}\p{N}_.-]+",
        r"orders-[a-z0-9._-]{1,249}",
        "|".join(f"topic-{number}" for number in range(900)),
    ],
)
def test_patterns_that_people_write_are_taken(compiled: Callable[[str], Any], pattern: str) -> None:
    assert compiled(pattern) is not None


def test_an_expression_names_all_that_it_matches() -> None:
    expression = "|".join(f"topic-{number}" for number in range(900))
    names = ("topic-1", "topic-900", "topic-899")
    assert matching_names([expression], names, NOTHING_MATCHED) == {expression: {"topic-1", "topic-899"}}


_COSTLY = "(a?){290}a{290}"
"""About as large as a pattern may be."""


def _subscribe(group_id: str, expression: str) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id="m",
        rebalance_timeout_ms=1_000,
        subscribed_topic_regex=expression,
        topic_partitions=(),
    )


def test_an_expression_is_matched_with_many_topics_beside_the_loop() -> None:
    broker = VirtualBroker()
    names = [f"{'a' * 60}{number}" for number in range(400)]
    for name in names:
        broker.broker.topics.create(name, 1)
    broker.time.settle()
    broker.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    broker.ask(_subscribe("first", "a"), 1)
    cost = cost_of(broker, broker.frame(_subscribe("g", _COSTLY), 1))
    assert over_budget(cost, 1_000, sum(map(len, names))) == []
    joined = broker.ask(_subscribe("other", "a{60}1."), 1)
    found = {broker.broker.topics.by_id(row.topic_id).name for row in joined.assignment.topic_partitions}
    assert found == {name for name in names if name[60:].startswith("1") and len(name) == 62}


def test_topics_that_are_created_while_others_are_matched_are_matched_as_well() -> None:
    broker = VirtualBroker()
    for number in range(100):
        broker.broker.topics.create(f"{'a' * 100}{number}", 1)
    broker.time.settle()
    broker.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    broker.ask(_subscribe("first", "a"), 1)
    reply = broker.start(_subscribe("g", "(a?){100}a{100}[0-9]*"), 1)
    assert not reply.is_there
    broker.broker.topics.create("a" * 200, 1)
    broker.time.settle()
    names = {broker.broker.topics.by_id(row.topic_id).name for row in reply.message.assignment.topic_partitions}
    assert names == {"a" * 200, *(f"{'a' * 100}{number}" for number in range(100))}


def test_transactional_ids_are_matched_beside_the_loop() -> None:
    """An id may be as long as a string of the protocol."""
    broker = VirtualBroker()
    broker.ask(FindCoordinatorRequest(coordinator_keys=["x"], key_type=1), 4)
    ids = ["a" * 500, "a" * 20_000, "b"]
    for transactional_id in ids:
        broker.ask(InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=1_000), 4)
    request = ListTransactionsRequest(duration_filter=-1, transactional_id_pattern=_COSTLY)
    broker.ask(request, 2)
    cost = cost_of(broker, broker.frame(request, 2))
    assert over_budget(cost, 1_000, sum(map(len, ids))) == []
    assert [row.transactional_id for row in broker.ask(request, 2).transaction_states] == ["a" * 500]
