"""Every message in every version through Apache Kafka's own generated codecs: the same bytes, and the same fields.

Needs Java and Kafka's jars: ONCELOG_KAFKA_LIBS names their directory.
"""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.schema import Schema
from tests.support.kafka.converted_json import as_json, renamed
from tests.support.kafka.java import ask_kafka
from tests.support.requests.messages import every_version, generated, message_from

pytestmark = pytest.mark.kafka

PROGRAM = Path(__file__).parent / "KafkaCodec.java"
MESSAGES_OF_EACH_VERSION = 20
Case = tuple[Schema, int, Any, bytes]


def cases() -> Iterator[Case]:
    for schema, version in every_version():
        source = random.Random(f"{schema.name} {version}")
        for _ in range(MESSAGES_OF_EACH_VERSION):
            message = message_from(schema, version, source)
            yield schema, version, message, b"".join(generated(schema).encode(message, version))


def test_kafka_reads_what_we_write_and_writes_the_same_bytes() -> None:
    sent = list(cases())
    answers = ask_kafka(PROGRAM, [f"{schema.name} {version} {data.hex()}" for schema, version, _, data in sent])
    for (schema, version, message, data), answer in zip(sent, answers, strict=True):
        where = f"{schema.name} version {version}"
        assert not answer.startswith("!"), f"{where}: {answer}"
        written, _, printed = answer.partition(" ")
        assert written == data.hex(), where
        expected = as_json(message, schema.structure, version)
        assert renamed(json.loads(printed), schema.structure, version) == expected, where


def test_our_defaults_are_kafkas() -> None:
    versions = list(every_version())
    answers = ask_kafka(PROGRAM, [f"{schema.name} {version} default" for schema, version in versions])
    for (schema, version), answer in zip(versions, answers, strict=True):
        where = f"{schema.name} version {version}"
        message = getattr(generated(schema), schema.name)()
        if answer.startswith("!"):
            # Kafka has no default that this version can carry (null where null is not allowed); nor have we.
            with pytest.raises((ProtocolError, TypeError, AttributeError)):
                generated(schema).encode(message, version)
            continue
        written = answer.partition(" ")[0]
        assert b"".join(generated(schema).encode(message, version)).hex() == written, where
