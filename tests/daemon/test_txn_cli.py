"""`oncelog txn` against a daemon: what operators see of transactions, and how they end abandoned ones."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from click.testing import CliRunner, Result

from oncelog.cli import main
from tests.clients.conversation import Conversation, Producer, ends
from tests.clients.wire import WireBroker
from tests.support.processes.daemon import Daemon
from tests.support.requests.hostile import HOSTILE, SURROGATE, require_harmless
from tests.support.transactions.hanging import conversation, hang

TOPIC = "payments"


@dataclass(frozen=True)
class Operator:
    bootstrap: str
    talk: Conversation

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(main, ["txn", *arguments, "--bootstrap", self.bootstrap])

    def rows(self, *arguments: str) -> Any:
        answer = self.run(*arguments, "--json")
        assert answer.exit_code in (0, 1), answer.output
        return json.loads(answer.stdout)

    def opened(self, transactional_id: str, *, partition: int = 0) -> Producer:
        producer = self.talk.started(transactional_id)
        assert producer.add(partition, topic=TOPIC) == ["NONE"]
        assert producer.write(partition, topic=TOPIC) == "NONE"
        return producer


@pytest.fixture
def operator(start_daemon: Callable[..., Daemon]) -> Iterator[Operator]:
    daemon = start_daemon()
    broker = WireBroker(daemon.bootstrap)
    an_hour_ago_ms = time.time_ns() // 1_000_000 - 3_600_000
    talk = Conversation(broker, an_hour_ago_ms)
    talk.create_topic(TOPIC, 2)
    while talk.ask("FindCoordinator", 2, key="any", key_type=1).error_code:
        broker.let_pass(20)
    yield Operator(daemon.bootstrap, talk)
    broker.close()


def test_list_shows_each_id_and_filters_as_kafka_does(operator: Operator) -> None:
    opened = operator.opened("orders-1")
    operator.opened("orders-2", partition=1).ended(True)
    assert [(row["transactional_id"], row["state"]) for row in operator.rows("list")] == [
        ("orders-1", "Ongoing"),
        ("orders-2", "CompleteCommit"),
    ]
    for filters in (
        ("--state", "Ongoing"),
        ("--producer-id", str(opened.producer_id)),
        ("--transactional-id-pattern", ".*-1"),
        ("--duration-filter", "0", "--state", "Ongoing"),
    ):
        assert [row["transactional_id"] for row in operator.rows("list", *filters)] == ["orders-1"], filters
    table = operator.run("list").output.splitlines()
    assert table[0].split() == ["transactional_id", "coordinator", "producer_id", "state", "meaning"]
    assert len(table) == 3


def test_ids_that_would_steer_a_terminal_are_shown_and_kept_and_the_daemon_logs_one_line_of_each(
    start_daemon: Callable[..., Daemon], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONCELOG_LOG_LEVEL", "debug")
    daemon = start_daemon()
    broker = WireBroker(daemon.bootstrap)
    talk = Conversation(broker, time.time_ns() // 1_000_000)
    while talk.ask("FindCoordinator", 2, key="any", key_type=1).error_code:
        broker.let_pass(20)
    operator = Operator(daemon.bootstrap, talk)
    for transactional_id in HOSTILE.values():
        talk.started(transactional_id)
    assert {row["transactional_id"] for row in operator.rows("list")} == set(HOSTILE.values())
    listed = operator.run("list").output
    tailed = operator.run("tail", "--from-beginning", "--count", str(len(HOSTILE)))
    require_harmless(listed)
    require_harmless(tailed.stdout)
    assert len(listed.splitlines()) == len(HOSTILE) + 1
    assert len(tailed.stdout.splitlines()) == len(HOSTILE)
    for transactional_id in HOSTILE.values():
        described = operator.run("describe", transactional_id).output
        require_harmless(described)
        assert len(described.splitlines()) == 10
    refused = operator.run("describe", SURROGATE)
    require_harmless(refused.stderr)
    assert (refused.exit_code, refused.stdout, len(refused.stderr.splitlines())) == (2, "", 1)
    log = daemon.log
    require_harmless(log)
    logged = [each["transactional_id"] for each in daemon.events("transaction.empty")]
    assert logged == list(HOSTILE.values())
    broker.close()


def test_describe_shows_the_partitions_of_an_open_transaction(operator: Operator) -> None:
    opened = operator.opened("orders")
    row = operator.rows("describe", "orders")
    assert (row["state"], row["producer_id"], row["producer_epoch"]) == ("Ongoing", opened.producer_id, 0)
    assert (row["partitions"], row["coordinator"]) == (["payments-0"], 1)
    assert 0 <= row["duration_ms"] < 60_000
    opened.ended(False)
    row = operator.rows("describe", "orders")
    assert (row["state"], row["duration_ms"]) == ("CompleteAbort", None), "an ended transaction does not grow older"


def test_what_is_not_there_is_reported_with_the_next_step_and_exit_code_2(operator: Operator) -> None:
    unknown = operator.run("describe", "nobody")
    assert (unknown.exit_code, "TRANSACTIONAL_ID_NOT_FOUND" in unknown.stderr) == (2, True)
    nothing = operator.run("abort", "--topic", TOPIC, "--partition", "0", "--start-offset", "77")
    assert nothing.exit_code == 2
    assert "`oncelog txn producers --topic payments --partition 0` shows those that are" in nothing.stderr
    assert operator.run("abort", "--topic", TOPIC, "--partition", "0").exit_code == 2


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "command",
    [
        ("describe", "nobody"),
        ("fence", "orders", "nobody"),
        ("producers", "--topic", "nowhere", "--partition", "0"),
        ("abort", "--topic", "nowhere", "--partition", "0", "--start-offset", "0"),
        ("abort", "--topic", "nowhere", "--partition", "0", "--producer-id", "1", "--producer-epoch", "0")
        + ("--coordinator-epoch", "0"),
        ("find-hanging", "--topic", "nowhere"),
    ],
)
def test_a_command_about_what_does_not_exist_creates_and_changes_nothing(
    operator: Operator, command: tuple[str, ...]
) -> None:
    operator.opened("orders")
    answer = operator.run(*command)
    assert (answer.exit_code, "NOT_FOUND" in answer.stderr or "UNKNOWN_TOPIC" in answer.stderr) == (2, True)
    assert [(row["transactional_id"], row["state"]) for row in operator.rows("list")] == [("orders", "Ongoing")]
    topics = operator.talk.ask("Metadata", 12, topics=None).topics
    assert {topic.name for topic in topics if not topic.is_internal} == {TOPIC}


def test_an_open_transaction_that_its_coordinator_knows_does_not_hang(operator: Operator) -> None:
    operator.opened("orders")
    answer = operator.run("find-hanging", "--max-transaction-timeout", "0")
    assert (answer.exit_code, answer.output[:22]) == (0, "No transaction hangs. ")
    assert "--duration-filter 60000` shows those that are open" in answer.output and "txn fence" in answer.output


def test_abort_ends_a_transaction_on_its_partition_by_its_first_offset(operator: Operator) -> None:
    opened = operator.opened("orders")
    (before,) = operator.rows("producers", "--topic", TOPIC, "--partition", "0")
    start_offset = str(before["transaction_start_offset"])
    assert before["producer_id"] == opened.producer_id
    (aborted,) = operator.rows("abort", "--topic", TOPIC, "--partition", "0", "--start-offset", start_offset)
    assert aborted["producer_id"] == opened.producer_id
    (after,) = operator.rows("producers", "--topic", TOPIC, "--partition", "0")
    assert after["transaction_start_offset"] is None


def test_abort_of_what_a_coordinator_still_has_open_leads_to_fence(operator: Operator) -> None:
    operator.opened("my orders")
    place = ("--topic", TOPIC, "--partition", "0")
    (open_there,) = operator.rows("producers", *place)
    answer = operator.run("abort", *place, "--start-offset", str(open_there["transaction_start_offset"]))
    assert answer.exit_code == 0 and "`oncelog txn fence 'my orders'` ends it on all its partitions" in answer.output
    assert "oncelog txn fence TRANSACTIONAL_ID" in operator.run("abort", "--help").output


def test_fence_aborts_and_shuts_out_the_producer(operator: Operator) -> None:
    opened = operator.opened("orders")
    (fenced,) = operator.rows("fence", "orders")
    assert fenced["fenced_below"] > opened.producer_epoch
    assert opened.write(topic=TOPIC, sequence=1) == "INVALID_PRODUCER_EPOCH"
    assert opened.end(True) == "PRODUCER_FENCED"
    assert operator.rows("describe", "orders")["state"] == "Empty"


def test_a_transaction_that_no_coordinator_knows_is_found_and_aborted(start_daemon: Callable[..., Daemon]) -> None:
    daemon = start_daemon()
    start_offset = hang(daemon, TOPIC)
    talk = conversation(daemon.bootstrap)
    operator = Operator(daemon.bootstrap, talk)
    assert ends(talk, TOPIC) == (start_offset + 1, start_offset)
    (found,) = operator.rows("find-hanging")
    assert (found["topic"], found["partition"], found["start_offset"]) == (TOPIC, 0, start_offset)
    answer = operator.run("find-hanging", "--topic", TOPIC)
    assert answer.exit_code == 1
    assert "`oncelog txn abort --topic NAME --partition NUMBER --start-offset OFFSET` ends one." in answer.output
    assert operator.rows("find-hanging", "--max-transaction-timeout", "90") == []
    operator.rows("abort", "--topic", TOPIC, "--partition", "0", "--start-offset", str(start_offset))
    assert operator.rows("find-hanging") == []
    assert ends(talk, TOPIC) == (start_offset + 2, start_offset + 2), "readers of committed records go on"


def test_a_broker_that_does_not_exist_is_not_free_of_hanging_transactions(operator: Operator) -> None:
    assert operator.run("find-hanging", "--broker-id", "1").exit_code == 0
    answer = operator.run("find-hanging", "--broker-id", "99")
    assert (answer.exit_code, answer.stderr) == (2, "oncelog: there is no broker with id 99; known ids: 1\n")
