"""`oncelog txn` on Apache Kafka: the same transitions, and a hanging transaction found and ended."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from oncelog.cli import main
from tests.clients.conversation import Conversation, ends
from tests.daemon.test_txn_tail import ONE_COMMIT, rows, tailing, transact
from tests.support.kafka.server import Kafka
from tests.support.transactions.hanging import conversation

pytestmark = pytest.mark.kafka
TOPIC = "payments"


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[Kafka]:
    kafka = Kafka(tmp_path, overrides=("transaction.partition.verification.enable=false",))
    yield kafka
    kafka.stop()


@pytest.fixture
def talk(kafka: Kafka) -> Conversation:
    talk = conversation(kafka.bootstrap)
    talk.create_topic(TOPIC, 1)
    return talk


def operated(kafka: Kafka, *arguments: str) -> Any:
    answer = CliRunner().invoke(main, ["txn", *arguments, "--json", "--bootstrap", kafka.bootstrap])
    assert answer.exit_code in (0, 1), answer.output
    return json.loads(answer.stdout)


def test_kafkas_transitions_are_shown_live_and_from_the_beginning(kafka: Kafka, talk: Conversation) -> None:
    with tailing(kafka.bootstrap, "--json") as process:
        transact(talk, "orders", committed=True)
        live = rows(process, 4)
    assert [(row["previous_state"], row["state"]) for row in live] == [(None, "Empty"), *ONE_COMMIT]
    assert [row["partitions"] for row in live] == [[], *[["payments-0"]] * 3]
    with tailing(kafka.bootstrap, "--json", "--from-beginning", "--count", "4") as process:
        assert rows(process, 4) == live
    with tailing(kafka.bootstrap, "--json") as process:
        transact(talk, "orders", committed=False)
        assert rows(process, 1)[0]["previous_state"] == "CompleteCommit", "known before anything was read of it"


def test_a_transaction_that_hangs_on_kafka_is_found_and_ended(kafka: Kafka, talk: Conversation) -> None:
    error, start_offset = talk.started("lost").produce(0, topic=TOPIC)
    assert error == "NONE"
    (found,) = operated(kafka, "find-hanging", "--topic", TOPIC)
    assert (found["partition"], found["start_offset"]) == (0, start_offset)
    operated(kafka, "abort", "--topic", TOPIC, "--partition", "0", "--start-offset", str(start_offset))
    assert operated(kafka, "find-hanging", "--topic", TOPIC) == []
    assert ends(talk, TOPIC) == (start_offset + 2, start_offset + 2)
    (fenced,) = operated(kafka, "fence", "lost")
    assert fenced["transactional_id"] == "lost"
