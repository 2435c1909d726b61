"""Kafka's own console tools for topics, settings, records and features print here what they print on Apache Kafka."""

import json
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from oncelog.protocol.generated.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.record import Record
from tests.clients.wire import WireBroker
from tests.support.kafka.java import ask_kafka
from tests.support.kafka.server import Kafka
from tests.support.patience import until
from tests.support.processes.daemon import Daemon

pytestmark = pytest.mark.kafka

PROGRAM = Path(__file__).parent / "AdminTools.java"
TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
FEATURES = "org.apache.kafka.tools.FeatureCommand"

ONE = ("--entity-type", "topics", "--entity-name", "one")
ALL_BROKERS = ("--entity-type", "brokers", "--entity-default")
THIS_BROKER = ("--entity-type", "brokers", "--entity-name", "1")
GROUP = ("--entity-type", "groups", "--entity-name", "group")
LOGGERS = ("--entity-type", "broker-loggers", "--entity-name", "1")

BEFORE_RECORDS: tuple[tuple[str, ...], ...] = (
    (TOPICS, "--create", "--topic", "one", "--partitions", "3", "--config", "retention.ms=100000"),
    (TOPICS, "--create", "--topic", "two.parts", "--replication-factor", "1"),
    (TOPICS, "--create", "--topic", "one"),
    (TOPICS, "--create", "--topic", "one", "--if-not-exists"),
    (TOPICS, "--create", "--topic", "two_parts"),
    (TOPICS, "--create", "--topic", "three", "--replication-factor", "3"),
    (TOPICS, "--create", "--topic", "three", "--partitions", "20000"),
    (TOPICS, "--create", "--topic", "three", "--config", "retention.ms=soon"),
    (TOPICS, "--create", "--topic", "three", "--replica-assignment", "1,7"),
    (TOPICS, "--create", "--topic", "a b"),
    (TOPICS, "--list"),
    (TOPICS, "--describe", "--topic", "one"),
    (TOPICS, "--alter", "--topic", "one", "--partitions", "5"),
    (TOPICS, "--alter", "--topic", "one", "--partitions", "2"),
    (TOPICS, "--alter", "--topic", "nowhere", "--partitions", "2"),
    (TOPICS, "--describe", "--topic", "one"),
    (TOPICS, "--describe", "--topic", "nowhere"),
    (TOPICS, "--describe", "--under-replicated-partitions"),
    (CONFIGS, "--alter", *ONE, "--add-config", "cleanup.policy=[compact,delete],segment.ms=7000"),
    (CONFIGS, "--describe", *ONE),
    (CONFIGS, "--alter", *ONE, "--delete-config", "segment.ms"),
    (CONFIGS, "--alter", *ONE, "--delete-config", "segment.ms"),
    (CONFIGS, "--alter", *ONE, "--add-config", "no.such.key=1"),
    (CONFIGS, "--alter", *ONE, "--add-config", "retention.ms=-2"),
    (CONFIGS, "--describe", *ONE),
    (CONFIGS, "--describe", "--entity-type", "topics", "--entity-name", "nowhere"),
    (CONFIGS, "--alter", *ALL_BROKERS, "--add-config", "log.retention.ms=200000"),
    (CONFIGS, "--alter", *THIS_BROKER, "--add-config", "message.max.bytes=2000000"),
    (CONFIGS, "--alter", *THIS_BROKER, "--add-config", "num.partitions=2"),
    (CONFIGS, "--alter", *THIS_BROKER, "--add-config", "message.max.bytes=many"),
    (CONFIGS, "--describe", *THIS_BROKER),
    (CONFIGS, "--alter", *THIS_BROKER, "--delete-config", "message.max.bytes"),
    (CONFIGS, "--alter", *ALL_BROKERS, "--delete-config", "log.retention.ms"),
    (CONFIGS, "--alter", *GROUP, "--add-config", "consumer.session.timeout.ms=50000"),
    (CONFIGS, "--alter", *GROUP, "--add-config", "consumer.session.timeout.ms=5"),
    (CONFIGS, "--alter", *LOGGERS, "--add-config", "root=WARN"),
    (CONFIGS, "--alter", *LOGGERS, "--add-config", "root=LOUD"),
)
AFTER_RECORDS: tuple[tuple[str, ...], ...] = (
    (OFFSETS, "--topic", "two.parts"),
    (DELETE_RECORDS, "--offset-json-file", "OFFSETS"),
    (OFFSETS, "--topic", "two.parts", "--time", "earliest"),
    (OFFSETS, "--topic-partitions", "two.parts:0", "--time", "latest"),
    (FEATURES, "downgrade", "--feature", "transaction.version=1"),
    (FEATURES, "upgrade", "--feature", "transaction.version=9"),
    (FEATURES, "upgrade", "--feature", "transaction.version=2", "--dry-run"),
    (FEATURES, "upgrade", "--feature", "transaction.version=2"),
    (TOPICS, "--delete", "--topic", "one"),
    (TOPICS, "--delete", "--topic", "one"),
    (TOPICS, "--delete", "--topic", "one", "--if-exists"),
    (TOPICS, "--list"),
)

# Kafka sets min.insync.replicas on all brokers by itself, because of eligible leader replicas; ids are made up.
_NOISE = re.compile(r"TopicId: \S+|min\.insync\.replicas=1,?|\[\d{4}-\d\d-\d\d [^\]]*\] *")


def printed(bootstrap: str, commands: Sequence[Sequence[str]]) -> list[str]:
    questions = []
    for name, *arguments in commands:
        if name == FEATURES:
            questions.append("\t".join((name, "--bootstrap-server", bootstrap, *arguments)))
        else:
            questions.append("\t".join((name, *arguments, "--bootstrap-server", bootstrap)))
    return [_without_noise(answer.replace(bootstrap, "ADDRESS")) for answer in ask_kafka(PROGRAM, questions)]


def _without_noise(answer: str) -> str:
    lines = [re.sub(r"\s+", " ", _NOISE.sub("", line)).strip() for line in answer.split("\\n")]
    return "\n".join(line for line in lines if line and not line.startswith(("at ", "\\tat ", "SLF4J")))


def all_printed(bootstrap: str, directory: Path) -> Iterator[tuple[str, str]]:
    offsets = directory / "offsets.json"
    offsets.write_text(json.dumps({"partitions": [{"topic": "two.parts", "partition": 0, "offset": 3}], "version": 1}))
    first = printed(bootstrap, BEFORE_RECORDS)
    broker = WireBroker(bootstrap)
    # As of now: Kafka's first look at retention, half a minute after its start, would take what is older.
    wall_ms = int(time.time() * 1_000)
    for number in range(5):
        batch = memoryview(encode_batch([Record(0, wall_ms + number, None, b"value")]))
        data = TopicProduceData(name="two.parts", partition_data=[PartitionProduceData(index=0, records=batch)])
        request = ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[data])
        # A Kafka that is busy does not lead at once what it has just created.
        until(lambda asked=request: not broker.ask(asked, 8).responses[0].partition_responses[0].error_code)  # type: ignore[misc]
    broker.close()
    after = [tuple(str(offsets) if word == "OFFSETS" else word for word in command) for command in AFTER_RECORDS]
    second = printed(bootstrap, after)
    for index, (command, answer) in enumerate(zip((*BEFORE_RECORDS, *AFTER_RECORDS), (*first, *second), strict=True)):
        yield f"{index} {' '.join(command)}", answer


def test_the_tools_print_what_they_print_on_apache_kafka(daemon: Daemon, tmp_path: Path) -> None:
    ours = dict(all_printed(daemon.bootstrap, tmp_path))
    kafka = Kafka(tmp_path)
    try:
        theirs = dict(all_printed(kafka.bootstrap, tmp_path))
    finally:
        kafka.stop()
    assert ours == theirs


def test_the_features_tool_describes_the_levels(daemon: Daemon) -> None:
    (described,) = printed(daemon.bootstrap, [(FEATURES, "describe")])
    levels = [line.split(" Epoch:")[0] for line in described.splitlines() if "transaction.version" in line]
    assert levels == [
        "Feature: transaction.version SupportedMinVersion: 0 SupportedMaxVersion: 2 FinalizedVersionLevel: 2"
    ]
