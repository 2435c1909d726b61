"""Kafka's own TransactionsCommand prints here what it prints on Apache Kafka, and finds and ends what hangs.

A transaction hangs when a partition holds it open and no coordinator knows of it. Kafka is brought to that by a write
that it is set not to verify; ours verifies each, so that its coordinator loses its log between two starts.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.clients.conversation import Conversation
from tests.support.kafka.java import ask_kafka
from tests.support.kafka.server import Kafka
from tests.support.processes.daemon import LOOKS_AT_FILES, Daemon
from tests.support.transactions.hanging import conversation, hang

pytestmark = pytest.mark.kafka

PROGRAM = Path(__file__).parent / "AdminTools.java"
COMMAND = "org.apache.kafka.tools.TransactionsCommand"
TOPIC = "payments"
PLACE = ("--topic", TOPIC, "--partition", "0")
NOISY = (
    "ProducerId",
    "LatestCoordinatorEpoch",
    "LastTimestamp",
    "CurrentTransactionStartTimeMs",
    "TransactionDurationMs",
    "Duration(min)",
)
"""Columns of what no two runs have in common."""

BEFORE_THE_END: tuple[tuple[str, ...], ...] = (
    ("list",),
    ("list", "--transactional-id-pattern", "o.*"),
    ("list", "--transactional-id-pattern", "o("),
    ("list", "--duration-filter", "3000000"),
    ("describe", "--transactional-id", "open"),
    ("describe", "--transactional-id", "done"),
    ("describe", "--transactional-id", "nobody"),
    ("describe-producers", *PLACE),
    ("describe-producers", "--topic", TOPIC, "--partition", "1"),
    ("find-hanging", "--broker-id", "1"),
    ("find-hanging", "--topic", TOPIC),
    ("find-hanging", *PLACE),
    ("find-hanging", "--topic", TOPIC, "--partition", "1"),
    ("find-hanging", "--broker-id", "1", "--max-transaction-timeout", "90"),
    ("find-hanging",),
    ("abort", *PLACE, "--start-offset", "77"),
)
THE_END: tuple[tuple[str, ...], ...] = (
    ("describe-producers", *PLACE),
    ("find-hanging", "--broker-id", "1"),
    ("forceTerminateTransaction", "--transactionalId", "open"),
    ("forceTerminateTransaction", "--transactionalId", "done"),
    ("describe-producers", "--topic", TOPIC, "--partition", "1"),
    ("list",),
)


@dataclass(frozen=True)
class Scene:
    """One id of each kind, and a transaction on partition 0 that hangs."""

    bootstrap: str
    talk: Conversation
    start_offset: int


def with_others(bootstrap: str, talk: Conversation, start_offset: int) -> Scene:
    opened = talk.started("open")
    assert opened.add(1, topic=TOPIC) == ["NONE"]
    assert opened.write(1, topic=TOPIC) == "NONE"
    done = talk.started("done")
    assert done.add(1, topic=TOPIC) == ["NONE"]
    assert done.write(1, topic=TOPIC) == "NONE"
    done.ended(True)
    return Scene(bootstrap, talk, start_offset)


def scene_on_kafka(bootstrap: str) -> Scene:
    talk = conversation(bootstrap)
    talk.create_topic(TOPIC, 2)
    error, start_offset = talk.started("lost").produce(0, topic=TOPIC)
    assert error == "NONE"
    return with_others(bootstrap, talk, start_offset)


def scene_on_ours(daemon: Daemon) -> Scene:
    start_offset = hang(daemon, TOPIC)
    talk = conversation(daemon.bootstrap)
    talk.started("lost")
    return with_others(daemon.bootstrap, talk, start_offset)


def printed(scene: Scene, commands: Sequence[Sequence[str]]) -> list[str]:
    questions = ["\t".join((COMMAND, "--bootstrap-server", scene.bootstrap, *command)) for command in commands]
    return [without_noise(answer, scene.bootstrap) for answer in ask_kafka(PROGRAM, questions)]


def without_noise(answer: str, bootstrap: str) -> str:
    """Ids are handed out in blocks, times pass; columns are as wide as what is in them."""
    told = answer.replace(bootstrap, "ADDRESS").split("\\n")
    lines = [re.sub(r"\[\d{4}-\d\d-\d\d [^\]]*\] *", "", line) for line in told]
    lines = [re.sub(r"[\t ]+", " ", line.replace("\\t", " ")).strip() for line in lines]
    kept = [line for line in lines if line and not line.startswith(("at ", "SLF4J", "... "))]
    header: list[str] = []
    shown = []
    for line in kept:
        words = line.split(" ")
        if line.startswith("exit code"):
            header = []
        elif "ProducerId" in words or "TransactionalId" in words:
            header = words
        elif header and len(words) >= len(header) - 1:
            line = " ".join(
                "N" if word.isdigit() and name in NOISY else word
                for name, word in zip((*header, *[""] * len(words)), words, strict=False)
            )
        shown.append(line)
    # Both list their answers in the order of a hash table.
    return "\n".join((shown[0], *sorted(shown[1:])))


def all_printed(scene: Scene) -> dict[str, str]:
    abort = ("abort", *PLACE, "--start-offset", str(scene.start_offset))
    commands = (*BEFORE_THE_END, abort, *THE_END)
    return {
        f"{index} {' '.join(command)}": answer
        for index, (command, answer) in enumerate(zip(commands, printed(scene, commands), strict=True))
    }


@LOOKS_AT_FILES
def test_the_command_prints_what_it_prints_on_apache_kafka(start_daemon: Callable[..., Daemon], tmp_path: Path) -> None:
    ours = all_printed(scene_on_ours(start_daemon()))
    place = tmp_path / "kafka"  # both keep their data in "data", and Kafka would take over what the other has left
    place.mkdir()
    kafka = Kafka(place, overrides=("transaction.partition.verification.enable=false",))
    try:
        theirs = all_printed(scene_on_kafka(kafka.bootstrap))
    finally:
        kafka.stop()
    assert ours == theirs
    hanging = [name for name in ours if "find-hanging" in name and f"{TOPIC} 0 N" in ours[name]]
    assert [name.split()[0] for name in hanging] == ["9", "10", "11"], "found until it was aborted, and then no more"
