"""What Apache Kafka's own generated classes read and write, recorded, so that checking against them needs no Java.

`answers/golden_messages.jsonl.gz` holds for each message in each version one instance with nearly every field set: the
bytes as Kafka writes them, and the JSON that Kafka prints after reading them; and the bytes of a message as Kafka
constructs it, null where a version cannot carry that. Its first line names the Kafka that they come from. To record
again, with Java and Kafka's jars:

    ONCELOG_KAFKA_LIBS=DIRECTORY python -m tests.conformance.golden_messages
"""

import gzip
import json
import random
from pathlib import Path
from typing import Any, NamedTuple

from oncelog.protocol.schema import Schema
from tests.support.kafka.java import ask_kafka, kafka_version
from tests.support.requests.messages import SCHEMAS, every_version, generated, message_from

FILE = Path(__file__).parent / "answers" / "golden_messages.jsonl.gz"
PROGRAM = Path(__file__).with_name("KafkaCodec.java")
_MOST_BYTES = 500
_CANDIDATES = 40


class Golden(NamedTuple):
    schema: Schema
    version: int
    written: bytes
    """One instance, as Kafka writes it."""
    printed: Any
    """Its fields, as Kafka prints them."""
    default: bytes | None
    """A message as Kafka constructs it; None where this version cannot carry that."""


def load() -> list[Golden]:
    with gzip.open(FILE, "rt", encoding="utf-8") as lines:
        next(lines)
        return [_golden(*json.loads(line)) for line in lines]


def _golden(name: str, version: int, written: str, printed: Any, default: str | None) -> Golden:
    bare = None if default is None else bytes.fromhex(default)
    return Golden(SCHEMAS[name], version, bytes.fromhex(written), printed, bare)


def provenance() -> dict[str, str]:
    with gzip.open(FILE, "rt", encoding="utf-8") as lines:
        told: dict[str, str] = json.loads(next(lines))
    return told


def record() -> None:
    versions = list(every_version())
    instances = [_rich_instance(schema, version).hex() for schema, version in versions]
    questions = [f"{schema.name} {version} {data}" for (schema, version), data in zip(versions, instances, strict=True)]
    answers = ask_kafka(PROGRAM, questions)
    defaults = ask_kafka(PROGRAM, [f"{schema.name} {version} default" for schema, version in versions])
    source = f"Apache Kafka {kafka_version()}, its generated message classes"
    rows: list[Any] = [{"recorded from": source, "by": PROGRAM.name}]
    for (schema, version), answer, default in zip(versions, answers, defaults, strict=True):
        if answer.startswith("!"):
            raise RuntimeError(f"{schema.name} {version}: {answer}")
        written, _, printed = answer.partition(" ")
        bare = None if default.startswith("!") else default.partition(" ")[0]
        rows.append([schema.name, version, written, json.loads(printed), bare])
    text = "".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows)
    # No time in the header: the same answers give the same file.
    FILE.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(f"{len(rows) - 1} messages in {FILE.stat().st_size} bytes")


def _rich_instance(schema: Schema, version: int) -> bytes:
    """The longest of some that are not too long: nearly every field is set in it."""
    source = random.Random(f"golden {schema.name} {version}")
    candidates = [
        b"".join(generated(schema).encode(message_from(schema, version, source), version)) for _ in range(_CANDIDATES)
    ]
    fitting = [data for data in candidates if len(data) <= _MOST_BYTES]
    return max(fitting, key=len) if fitting else min(candidates, key=len)


if __name__ == "__main__":
    record()
