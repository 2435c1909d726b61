"""Decoded messages as JSON, as Kafka's tools print it: Kafka's field names, and only the fields of the version.

Owns: how a value becomes JSON. Does not own: the decoding, and which fields a version has: the declarations say that.
"""

from base64 import b64encode, urlsafe_b64encode
from functools import cache
from importlib import import_module
from typing import Any
from uuid import UUID

from oncelog.protocol.message import Message
from oncelog.protocol.schema import ArrayOf, FieldType, Schema, Structure, attribute

_OUR_TAGS_FROM = 1_000
"""The tags of fields that we add to Kafka's records; its tools ignore them."""
_CONSUMER_PROTOCOL = "consumer_protocol_"


@cache
def _structure(name: str) -> Structure:
    """Return the declaration of a message, from its module: few logs contain all of them."""
    room = "messages" if name.startswith(_CONSUMER_PROTOCOL) else "state_records"
    module = import_module(f"oncelog.protocol.{room}.{name}")
    return next(value.structure for value in vars(module).values() if isinstance(value, Schema))


def as_json(name: str, message: Message, version: int) -> dict[str, Any]:
    """Return a message, by the name of its module, as JSON types; tagged fields with their default are left out."""
    return _fields(_structure(name), message, version)


def _fields(structure: Structure, message: Message, version: int) -> dict[str, Any]:
    default = type(message)()
    fields = {}
    for field in structure.fields:
        if not field.in_version(version) or (field.tag or 0) >= _OUR_TAGS_FROM:
            continue
        value = getattr(message, attribute(field.name))
        if not (field.is_tagged(version) and value == getattr(default, attribute(field.name))):
            fields[_camel_case(field.name)] = _value(field.type, value, version)
    return fields


def _value(kind: FieldType, value: Any, version: int) -> Any:
    match value:
        case Message():
            return _fields(kind, value, version)
        case UUID():
            return urlsafe_b64encode(value.bytes).decode().rstrip("=")
        case bytes() | bytearray() | memoryview():
            return b64encode(value).decode()
        case tuple() | list():
            element = kind.element if isinstance(kind, ArrayOf) else kind
            return [_value(element, each, version) for each in value]
    return value


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))
