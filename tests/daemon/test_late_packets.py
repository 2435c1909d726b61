"""Packets that come late over a connection that their client has given up, with an unmodified client."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from oncelog.faults import Action, ApiKey, Point, Rule, Selector
from tests.conftest import Start
from tests.daemon.test_admin_http import ADMIN
from tests.support.foreign.confluent import new_topic, read_all
from tests.support.patience import PATIENCE_S
from tests.support.processes.faults import faults_of


def test_a_commit_that_comes_late_tears_the_next_transaction_of_a_client_of_version_1(start_daemon: Start) -> None:
    """Jepsen's torn transaction: the first EndTxn is held until librdkafka has given it up and committed by another;
    coming late it commits half of the next. Apache Kafka cannot distinguish them either (KAFKA-17754): KIP-890's
    protocol can.
    """
    daemon = start_daemon(ADMIN)
    faults = faults_of(daemon)
    topic = new_topic(daemon, partitions=2)
    producer = Producer(
        {"bootstrap.servers": daemon.bootstrap, "transactional.id": "torn", "socket.timeout.ms": 1_000, "linger.ms": 0}
    )
    producer.init_transactions(PATIENCE_S)
    late = faults.plant(Rule(Point.REQUEST, Action.HOLD, Selector(api=ApiKey.END_TXN, transactional_id="torn")))
    producer.begin_transaction()
    producer.produce(topic, b"whole", partition=0)
    producer.commit_transaction(PATIENCE_S)
    assert len(faults.status(late).held) == 1, "the commit went through by another request"
    producer.begin_transaction()
    producer.produce(topic, b"left leg", partition=0)
    assert producer.flush(PATIENCE_S) == 0
    assert faults.release(late) == 1
    for event in faults.follow(faults.events()[-1]["number"] - 1):
        if event.get("state") == "CompleteCommit":
            break
    producer.produce(topic, b"right leg", partition=1)
    assert producer.flush(PATIENCE_S) == 0
    producer.abort_transaction(PATIENCE_S)
    assert read_all(daemon, topic, partitions=2) == [b"whole", b"left leg"]


class JavaProducer:
    """Apache Kafka's own client, which speaks transaction.version 2 where the broker does."""

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        libraries, java = os.environ.get("ONCELOG_KAFKA_LIBS"), shutil.which("java")
        if libraries is None or java is None:
            pytest.skip("needs java, and ONCELOG_KAFKA_LIBS with the directory of Kafka's jars")
        program = Path(__file__).with_name("LineProducer.java")
        command = [java, "-cp", f"{libraries}/*", str(program), bootstrap, transactional_id]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
        self.does("init")

    def does(self, line: str) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline().strip() == "ok", line


@pytest.fixture
def java_producers() -> Iterator[list[JavaProducer]]:
    started: list[JavaProducer] = []
    yield started
    for each in started:
        each.process.kill()
        each.process.communicate()


@pytest.mark.kafka
def test_a_commit_that_comes_late_does_nothing_to_a_client_of_version_2(
    start_daemon: Start, java_producers: list[JavaProducer]
) -> None:
    """A late EndTxn of Apache Kafka's Java client has the epoch of the transaction before, and is refused (KIP-890)."""
    daemon = start_daemon(ADMIN)
    faults = faults_of(daemon)
    topic = new_topic(daemon, partitions=2)
    java_producers.append(producer := JavaProducer(daemon.bootstrap, "whole"))
    late = faults.plant(Rule(Point.REQUEST, Action.HOLD, Selector(api=ApiKey.END_TXN, transactional_id="whole")))
    producer.does("begin")
    producer.does(f"send {topic} 0 whole")
    producer.does("commit")
    (held,) = faults.status(late).held
    assert held["api_version"] == 5, "the client speaks version 2"
    producer.does("begin")
    producer.does(f"send {topic} 0 left leg")
    since = faults.events()[-1]["number"]
    assert faults.release(late) == 1
    producer.does(f"send {topic} 1 right leg")
    producer.does("abort")
    seen = [event["state"] for event in faults.events(since) if event["event"] == "transition"]
    assert seen[:2] == ["Ongoing", "PrepareAbort"], "nothing but the second partition came before the abort"
    assert "fenced" in [event["event"] for event in faults.events(since)]
    assert read_all(daemon, topic, partitions=2) == [b"whole"]
