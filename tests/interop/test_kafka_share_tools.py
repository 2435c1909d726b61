"""Kafka's own tools for share groups print here what they print on Apache Kafka; so do its formatters, which read the
records of `__share_group_state` and of share groups in `__consumer_offsets`."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, ShareConsumer

from tests.support.foreign.interop import QUICK_GROUPS, SHARE_STATE_ON_ONE_NODE
from tests.support.kafka.java import ask_kafka
from tests.support.kafka.server import serving
from tests.support.patience import PATIENCE_MS, PATIENCE_S

pytestmark = pytest.mark.kafka

PROGRAM = Path(__file__).parent / "AdminTools.java"
TOOLS = "org.apache.kafka.tools."
CONFIGS = "kafka.admin.ConfigCommand"
CONSOLE = TOOLS + "consumer.ConsoleConsumer"
CONSUMER_GROUPS = TOOLS + "consumer.group.ConsumerGroupCommand"
GROUPS = TOOLS + "GroupsCommand"
PERFORMANCE = TOOLS + "ShareConsumerPerformance"
SHARE_CONSOLE = TOOLS + "consumer.ConsoleShareConsumer"
SHARE_GROUPS = TOOLS + "consumer.group.ShareGroupCommand"
TOPICS = TOOLS + "TopicCommand"

READERS = ("--entity-type", "groups", "--entity-name", "readers")
DESCRIBE = (SHARE_GROUPS, "--describe", "--group", "readers")
RESET = (SHARE_GROUPS, "--reset-offsets", "--group", "readers")
DELETE_OFFSETS = (SHARE_GROUPS, "--delete-offsets", "--group", "readers")
READ = (SHARE_CONSOLE, "--topic", "queue", "--group", "readers", "--timeout-ms", str(PATIENCE_MS))
SHOWN = ("--formatter-property", "print.delivery=true", "--formatter-property", "print.offset=true")
TO_THE_END = ("--partition", "0", "--offset", "earliest", "--timeout-ms", "3000")
VALUES = 10

Command = tuple[str, ...]
BEFORE: tuple[Command, ...] = (
    (TOPICS, "--create", "--topic", "queue"),
    (TOPICS, "--create", "--topic", "pair", "--partitions", "2"),
    (TOPICS, "--create", "--topic", "other"),
    *(
        (CONFIGS, "--alter", *READERS, "--add-config", f"share.{setting}")
        for setting in (
            "auto.offset.reset=earliest",
            "auto.offset.reset=soon",
            "record.lock.duration.ms=5",
            "isolation.level=dirty",
            "session.timeout.ms=5",
            "delivery.count.limit=99",
            "partition.max.record.locks=1",
            "renew.acknowledge.enable=perhaps",
        )
    ),
    (CONFIGS, "--describe", *READERS),
)
WITH_A_MEMBER: tuple[Command, ...] = (
    (SHARE_GROUPS, "--list", "--state", "Stable"),
    (*DESCRIBE, "--members"),
    (*DESCRIBE, "--members", "--verbose"),
    (*DESCRIBE, "--state"),
    (*DESCRIBE, "--state", "--verbose"),
    (*RESET, "--topic", "queue", "--to-earliest", "--execute"),
    (*DELETE_OFFSETS, "--topic", "queue"),
    (SHARE_GROUPS, "--delete", "--group", "readers"),
)
AFTER: tuple[Command, ...] = (
    (*READ, "--max-messages", "4", *SHOWN),
    (*READ, "--max-messages", "2", "--release", *SHOWN),
    (*READ, "--max-messages", "2", "--reject", *SHOWN),
    (SHARE_GROUPS, "--list"),
    (SHARE_GROUPS, "--list", "--state"),
    (SHARE_GROUPS, "--list", "--state", "Stable"),
    DESCRIBE,
    (*DESCRIBE, "--offsets", "--verbose"),
    (*DESCRIBE, "--members", "--verbose"),
    (*DESCRIBE, "--state", "--verbose"),
    (SHARE_GROUPS, "--describe", "--all-groups"),
    (SHARE_GROUPS, "--describe", "--group", "nobody"),
    (*RESET, "--topic", "queue", "--to-earliest", "--dry-run"),
    (*RESET, "--topic", "queue", "--to-latest", "--execute"),
    (*RESET, "--all-topics", "--to-earliest", "--execute"),
    (*RESET, "--topic", "pair:1", "--to-latest", "--execute"),
    (*RESET, "--topic", "pair:7", "--to-earliest", "--execute"),
    (*RESET, "--topic", "nowhere", "--to-earliest", "--execute"),
    (*RESET, "--topic", "pair", "--to-datetime", "2020-01-01T00:00:00.000", "--execute"),
    (*RESET, "--topic", "other", "--to-latest", "--execute"),
    (SHARE_GROUPS, "--reset-offsets", "--group", "nobody", "--topic", "other", "--to-latest", "--execute"),
    (*DESCRIBE, "--offsets", "--verbose"),
    (*DELETE_OFFSETS, "--topic", "other"),
    (*DELETE_OFFSETS, "--topic", "other"),
    (*DELETE_OFFSETS, "--topic", "nowhere"),
    (SHARE_GROUPS, "--delete-offsets", "--group", "unknown", "--topic", "queue"),
    DESCRIBE,
    (GROUPS, "--list"),
    (GROUPS, "--list", "--share"),
    (CONSUMER_GROUPS, "--describe", "--group", "readers"),
    (CONSUMER_GROUPS, "--list"),
    (PERFORMANCE, *READ[1:-2], "--num-records", str(VALUES), "--timeout", str(PATIENCE_MS), "--hide-header"),
    DESCRIBE,
    (CONSOLE, "--topic", "__share_group_state", *TO_THE_END, "--formatter",
     TOOLS + "consumer.group.share.ShareGroupStateMessageFormatter"),
    (CONSOLE, "--topic", "__consumer_offsets", *TO_THE_END, "--formatter",
     TOOLS + "consumer.ShareGroupMessageFormatter"),
    (SHARE_GROUPS, "--delete", "--group", "readers"),
    (SHARE_GROUPS, "--delete", "--group", "readers"),
    (SHARE_GROUPS, "--delete", "--all-groups"),
    (SHARE_GROUPS, "--list"),
    DESCRIBE,
)  # fmt: skip
OVERRIDES = (
    *QUICK_GROUPS,
    *SHARE_STATE_ON_ONE_NODE,
    "share.coordinator.state.topic.num.partitions=1",
    "offsets.topic.num.partitions=1",
)
# Times, ids (22 characters, of topics and members), hashes over ids, and the tool's own lines of log.
_NOISE = re.compile(
    r"(?<=Timestamp\":)\d+|(?<=metadataHash\":)-?\d{2,}|(?<![\w.+/-])[\w+/-]{22}(?![\w.+/-])"
    r"|\[\d{4}-\d\d-\d\d [^\]]*\] *"
)


def printed(bootstrap: str, commands: Sequence[Command]) -> Iterator[tuple[str, str]]:
    questions = ["\t".join((name, *arguments, "--bootstrap-server", bootstrap)) for name, *arguments in commands]
    for number, (command, answer) in enumerate(zip(commands, ask_kafka(PROGRAM, questions), strict=True)):
        lines = answer.replace(bootstrap, "ADDRESS").replace('{"key":', '\\n{"key":').split("\\n")
        shown = [re.sub(r"\s+", " ", _NOISE.sub("1", line)).strip() for line in lines]
        kept = [line for line in shown if line and not line.startswith(("at ", "\\tat ", "SLF4J"))]
        if command[0] == PERFORMANCE:
            kept = [line.split(", ")[5] if ", " in line else line for line in kept]
        if command[0] == CONSOLE:
            kept = in_order(kept)
        yield f"{number} {' '.join(command)}", "\n".join(kept)


def in_order(records: Sequence[str]) -> list[str]:
    """Normalise what Apache Kafka leaves to its hash tables: the order of topics, in a record and of requests.

    Kafka also repeats records where there is nothing to delete: duplicates are removed here.
    """
    parsed = [json.loads(line.partition("Processed")[0]) for line in records if line.startswith("{")]
    for record in parsed:
        for value in record["value"]["data"].values() if record["value"] else ():
            if isinstance(value, list) and value and "topicName" in value[0]:
                value.sort(key=lambda topic: topic["topicName"])
    return sorted({json.dumps(record) for record in parsed if not _is_beginning(record)})


def _is_beginning(record: Any) -> bool:
    """Whether a record is the start offset of a group. It is written here before the group's first records are
    returned; Kafka writes it with the first acknowledgement, and so loses the records before it if it is killed.
    """
    return (
        record["key"]["type"] == 1 and record["value"] is not None and record["value"]["data"].get("stateBatches") == []
    )


def all_printed_by(kind: str, directory: Path) -> Iterator[tuple[str, str]]:
    directory.mkdir()
    with serving(kind, directory, *OVERRIDES) as bootstrap:
        yield from all_printed(bootstrap)


def all_printed(bootstrap: str) -> Iterator[tuple[str, str]]:
    yield from printed(bootstrap, BEFORE)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(VALUES):
        producer.produce("queue", f"value{number}")
    assert producer.flush(PATIENCE_S) == 0
    with member(bootstrap):
        yield from printed(bootstrap, WITH_A_MEMBER)
    yield from printed(bootstrap, AFTER)


def member(bootstrap: str) -> ShareConsumer:
    """One that has its assignment, and has had one record of a queue of its own."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "readers", "client.id": "reader"}
    consumer = ShareConsumer(settings)
    consumer.subscribe(["other"])
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce("other", "value")
    assert producer.flush(PATIENCE_S) == 0
    assert [message.value() for message in consumer.poll(PATIENCE_S)] == [b"value"]
    consumer.commit_sync()
    return consumer


@pytest.mark.slow
def test_the_tools_print_what_they_print_on_apache_kafka(tmp_path: Path) -> None:
    ours, theirs = (dict(all_printed_by(kind, tmp_path / kind)) for kind in ("oncelog", "kafka"))
    assert ours == theirs
