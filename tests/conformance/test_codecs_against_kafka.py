"""Every message in every version through Apache Kafka's own generated codecs: the same bytes, and the same fields.

Needs Java and Kafka's jars: ONCELOG_KAFKA_LIBS names their directory.
"""

import base64
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from protocol.codec_parts import attribute
from protocol.errors import ProtocolError
from protocol.schema import ArrayOf, Field, Schema, Structure
from protocol.types import Primitive, Variable
from tests.support.java import ask_kafka
from tests.support.messages import every_version, generated, message_from

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


def as_json(message: Any, structure: Structure, version: int) -> dict[str, Any]:
    """The message as Kafka's JsonConverter prints it."""
    values = {}
    for field in structure.fields:
        if field.in_version(version):
            value = getattr(message, attribute(field.name))
            if field.is_tagged(version) and _is_left_out(message, field, value):
                continue
            values[field.name] = _json_value(field.type, value, version)
    return values


def _is_left_out(message: Any, field: Field, value: Any) -> bool:
    default = getattr(type(message)(), attribute(field.name))
    return bool(value == default or (value == [] and default == ()))


def _json_value(kind: Any, value: Any, version: int) -> Any:
    match kind:
        case _ if value is None:
            return None
        case Structure():
            return as_json(value, kind, version)
        case ArrayOf():
            return [_json_value(kind.element, item, version) for item in value]
        case Primitive(name="uuid"):
            return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")
        case Variable(name="bytes"):
            return base64.b64encode(value).decode()
        case Variable(name="records"):
            return ""  # not printed; the bytes are compared
    return value


def renamed(printed: Any, structure: Structure, version: int) -> dict[str, Any]:
    """What Kafka printed, under our names; its names are the same in camel case."""
    fields = {field.name.replace("_", ""): field for field in structure.fields}
    values = {}
    for name, value in printed.items():
        field = fields[name.removesuffix("SizeInBytes").lower()]
        kind = field.type.element if isinstance(field.type, ArrayOf) else field.type
        if isinstance(kind, Structure) and value is not None:
            many = isinstance(field.type, ArrayOf)
            value = [renamed(item, kind, version) for item in value] if many else renamed(value, kind, version)
        values[field.name] = value
    return values


def test_kafka_reads_what_we_write_and_writes_the_same_bytes() -> None:
    sent = list(cases())
    answers = ask_kafka(PROGRAM, [f"{schema.name} {version} {data.hex()}" for schema, version, _, data in sent])
    for (schema, version, message, data), answer in zip(sent, answers, strict=True):
        where = f"{schema.name} version {version}"
        assert not answer.startswith("!"), f"{where}: {answer}"
        written, _, printed = answer.partition(" ")
        assert written == data.hex(), where
        assert renamed(json.loads(printed), schema.structure, version) == as_json(message, schema.structure, version), (
            where
        )


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
