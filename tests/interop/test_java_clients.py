"""Apache Kafka's console clients, and the programs that its own system tests use, unmodified, against the daemon."""

import json
import re
import subprocess
import threading
from collections import Counter
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer

from oncelog.broker.apis.table import API_TABLE
from oncelog.protocol.api_keys import ApiKey
from tests.conftest import Start
from tests.support.foreign.confluent import new_topic, read_all
from tests.support.foreign.interop import QUICK_GROUPS, await_line, java_command, run_java, unique
from tests.support.patience import PATIENCE_MS, PATIENCE_S
from tests.support.processes.daemon import Daemon

pytestmark = pytest.mark.interop

TOOLS = "org.apache.kafka.tools"


def started(main_class: str, *arguments: str) -> "subprocess.Popen[str]":
    command = java_command(f"{TOOLS}.{main_class}", *arguments)
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def said(output: str, name: str) -> list[dict[str, Any]]:
    """The events of this name that a verifiable client printed."""
    events = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return [event for event in events if event["name"] == name]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_the_console_consumer_prints_what_the_console_producer_was_given(daemon: Daemon, codec: str) -> None:
    topic = new_topic(daemon)
    lines = [f"key{number}:the same text again and again {number}" for number in range(1000)]
    to_daemon = ("--bootstrap-server", daemon.bootstrap, "--topic", topic)
    keyed = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    run_java(f"{TOOLS}.ConsoleProducer", *to_daemon, "--compression-codec", codec, *keyed, feed="\n".join(lines))
    shown = ("--formatter-property", "print.key=true", "--formatter-property", "key.separator=:")
    limits = ("--from-beginning", "--max-messages", "1000", "--timeout-ms", str(PATIENCE_MS))
    printed = run_java(f"{TOOLS}.consumer.ConsoleConsumer", *to_daemon, *shown, *limits)
    assert printed.splitlines() == lines


def test_what_the_verifiable_producer_had_acknowledged_is_there_once_after_kills(start_daemon: Start) -> None:
    daemon = start_daemon()
    topic = new_topic(daemon, partitions=2)
    pause = threading.Event()
    to_daemon = ("--bootstrap-server", daemon.bootstrap, "--topic", topic)
    with started("VerifiableProducer", *to_daemon, "--max-messages", "6000", "--throughput", "2000") as producer:
        await_line(producer, "producer_send_success")
        for _ in range(2):
            pause.wait(0.5)  # in the middle of it
            daemon.kill()
            daemon.start()
        out = producer.communicate(timeout=PATIENCE_S)[0]
    # It never sends a record again: what failed may be there or not, what was acknowledged must be.
    acknowledged = {event["value"].encode() for event in said(out, "producer_send_success")}
    there = Counter(read_all(daemon, topic, partitions=2))
    assert acknowledged <= set(there) and set(there.values()) == {1}
    assert 0 < len(acknowledged) < 6000 and producer.returncode == 0


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "protocol", [("--session-timeout", "4000"), ("--group-protocol", "consumer")], ids=["classic", "kip-848"]
)
def test_a_verifiable_consumer_takes_over_from_one_that_was_killed(
    start_daemon: Start, protocol: tuple[str, ...]
) -> None:
    daemon = start_daemon(*QUICK_GROUPS)
    topic, group = new_topic(daemon, partitions=4), unique("group")
    to_daemon = ("--bootstrap-server", daemon.bootstrap, "--topic", topic)
    run_java(f"{TOOLS}.VerifiableProducer", *to_daemon, "--max-messages", "1000")
    member = (*to_daemon, "--group-id", group, "--reset-policy", "earliest", "--verbose", *protocol)
    with started("VerifiableConsumer", *member) as first:
        await_line(first, "records_consumed")
        first.kill()
        before = first.communicate()[0]
    run_java(f"{TOOLS}.VerifiableProducer", *to_daemon, "--max-messages", "1000", "--value-prefix", "7")
    with started("VerifiableConsumer", *member) as second:
        seen = {event["value"] for event in said(before, "record_data")}
        wanted = {f"7.{number}" for number in range(1000)}
        assert second.stdout is not None
        for line in second.stdout:
            event = json.loads(line) if line.startswith("{") else {"name": ""}
            if event["name"] == "record_data":
                seen.add(event["value"])
            if wanted <= seen:
                break
        second.terminate()
        second.communicate(timeout=PATIENCE_S)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mode", [(), ("--group-mode", "--use-group-metadata")], ids=["assigned", "group"])
def test_the_message_copier_copies_exactly_once_with_random_aborts_and_kills(
    start_daemon: Start, mode: tuple[str, ...]
) -> None:
    daemon = start_daemon(*QUICK_GROUPS, "transaction.abort.timed.out.transaction.cleanup.interval.ms=500")
    source, sink = new_topic(daemon), new_topic(daemon)
    producer = Producer({"bootstrap.servers": daemon.bootstrap})
    # Larger than its batches of 512 bytes: an abort drops what was not sent, and small batches wait five milliseconds.
    values = [b"%0100d" % number for number in range(2000)]
    for value in values:
        producer.produce(source, value)
    assert producer.flush(PATIENCE_S) == 0
    arguments = ["--broker-list", daemon.bootstrap, "--input-topic", source, "--input-partition", "0"]
    arguments += ["--output-topic", sink, "--consumer-group", unique("group"), "--transactional-id", unique("copier")]
    # The copier asks for its offsets before it ends the transaction of the one before: it waits for the timeout.
    arguments += ["--transaction-size", "20", "--transaction-timeout", "3000", "--enable-random-aborts", *mode]
    for trouble in ("copier", "broker"):
        with started("TransactionalMessageCopier", *arguments) as copier:
            await_line(copier, '"totalProcessed":200,')
            if trouble == "copier":
                copier.kill()
            else:
                daemon.kill()
                daemon.start()
                copier.communicate(timeout=PATIENCE_S)
    # A copier that died in the middle is started again, until nothing is left to copy.
    run_java(f"{TOOLS}.TransactionalMessageCopier", *arguments)
    assert read_all(daemon, sink) == values
    assert len(read_all(daemon, sink, "read_uncommitted")) > len(values)


def test_the_performance_tools_run_to_their_end(daemon: Daemon) -> None:
    topic = new_topic(daemon)
    load = ("--bootstrap-server", daemon.bootstrap, "--topic", topic, "--record-size", "100", "--throughput", "-1")
    assert "20000 records sent" in run_java(f"{TOOLS}.ProducerPerformance", *load, "--num-records", "20000")
    in_transactions = ("--transactional-id", unique("performance"), "--transaction-duration-ms", "50")
    assert "5000 records" in run_java(f"{TOOLS}.ProducerPerformance", *load, "--num-records", "5000", *in_transactions)
    reading = ("--bootstrap-server", daemon.bootstrap, "--topic", topic, "--num-records", "25000")
    assert run_java(f"{TOOLS}.ConsumerPerformance", *reading).splitlines()[-1].split(", ")[4] == "25000"
    latency = ("--num-records", "50", "--producer-acks", "all", "--record-size", "20")
    arguments = ("--bootstrap-server", daemon.bootstrap, "--topic", topic, *latency)
    assert "Percentiles" in run_java(f"{TOOLS}.EndToEndLatency", *arguments)


def test_the_client_compatibility_test_finds_every_feature(daemon: Daemon) -> None:
    features = {
        "num-cluster-nodes": 1,
        "offsets-for-times-supported": True,
        "cluster-id-supported": True,
        "expect-record-too-large-exception": False,
        "create-topics-supported": True,
        "describe-acls-supported": int(ApiKey.DESCRIBE_ACLS) in API_TABLE,
        "describe-configs-supported": True,
        "idempotent-producer-supported": True,
    }
    arguments = ["--bootstrap-server", daemon.bootstrap, "--topic", new_topic(daemon)]
    for name, value in features.items():
        arguments += [f"--{name}", str(value)]
    assert "SUCCESS" in run_java(f"{TOOLS}.ClientCompatibilityTest", *arguments)


def test_the_java_client_finds_each_api_usable_in_its_newest_version(daemon: Daemon) -> None:
    printed = run_java(f"{TOOLS}.BrokerApiVersionsCommand", "--bootstrap-server", daemon.bootstrap)
    found = re.findall(r"\w+\((\d+)\): [^\n]*\[usable: (\d+)\]", printed)
    assert {int(key): int(version) for key, version in found} == {key: api.maximum for key, api in API_TABLE.items()}


def test_the_transactions_tool_finds_an_open_transaction_and_ends_it(daemon: Daemon) -> None:
    topic, transactional_id = new_topic(daemon), unique("open")
    producer = Producer({"bootstrap.servers": daemon.bootstrap, "transactional.id": transactional_id})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush(PATIENCE_S)

    def tool(*arguments: str) -> list[list[str]]:
        printed = run_java(f"{TOOLS}.TransactionsCommand", "--bootstrap-server", daemon.bootstrap, *arguments)
        return [re.split(r"\s*\t", line.strip()) for line in printed.splitlines()]

    (listed,) = [row for row in tool("list") if row[0] == transactional_id]
    producer_id = listed[2]
    assert listed[3] == "Ongoing"
    assert tool("describe", "--transactional-id", transactional_id)[1][-1] == f"{topic}-0"
    assert tool("describe-producers", "--topic", topic, "--partition", "0")[1][0] == producer_id
    assert tool("find-hanging", "--broker-id", "1")[1:] == []
    tool("forceTerminateTransaction", "--transactionalId", transactional_id)
    with pytest.raises(KafkaException):
        producer.commit_transaction(PATIENCE_S)
    assert read_all(daemon, topic) == []
