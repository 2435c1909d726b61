"""The settings of Apache Kafka 4.3 with their types and defaults, as its own classes list them.

Recorded in `answers/kafka_settings.tsv`: `ONCELOG_KAFKA_LIBS=DIRECTORY python -m tests.conformance.kafka_settings`
writes it.
"""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

RECORDED = Path(__file__).parent / "answers" / "kafka_settings.tsv"
_PROGRAM = Path(__file__).with_name("KafkaSettings.java")

RECORDED_CLIENTS = RECORDED.with_name("kafka_client_settings.tsv")
"""The names of client settings, each with the kind of client, as `KafkaClientSettings.java` prints them."""


@dataclass(frozen=True, slots=True)
class KafkaSetting:
    type: str
    is_required: bool
    default: str | None
    allowed: str
    """What its validator says: a range as `[0,...]` or `[1,...,9]`, choices as `[a, b]`, or empty."""


def kafka_settings(kind: str) -> dict[str, KafkaSetting]:
    """Return the recorded settings by name; `kind` is "broker" or "topic"."""
    found: dict[str, KafkaSetting] = {}
    for line in RECORDED.read_text(encoding="utf-8").splitlines():
        of_kind, name, type_name, default, allowed = line.split("\t")
        if of_kind == kind:
            text = default.removeprefix("=")
            has_none = default in ("required", "=null")
            found[name] = KafkaSetting(type_name, default == "required", None if has_none else text, allowed)
    return found


def client_settings(owner: str) -> set[str]:
    """The names of all settings of one client: `owner` is "producer", "consumer" or "admin"."""
    lines = (line.split("\t") for line in RECORDED_CLIENTS.read_text(encoding="utf-8").splitlines())
    return {name for of_owner, name in lines if of_owner == owner}


def asked() -> str:
    """Run the program on Kafka's jars and return what it prints."""
    command = ["java", "-cp", f"{os.environ['ONCELOG_KAFKA_LIBS']}/*", str(_PROGRAM)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout


if __name__ == "__main__":
    RECORDED.write_text(asked(), encoding="utf-8")
