"""Messages of any declared schema, drawn by hypothesis, and the same messages as construct sees them."""

import random
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from oncelog.broker.apis.descriptor import Api
from oncelog.protocol.codec_parts import snake_case
from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure, attribute
from oncelog.protocol.types import Primitive, Variable
from tools.write_codecs import all_schemas

SCHEMAS: dict[str, Schema] = {schema.name: schema for _, schema in all_schemas()}

_INTEGERS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_UNSIGNED = {"uint16": 16, "uint32": 32}
_CHARACTERS = "aZ0 .ü漢🙂\x00"


def generated(schema: Schema) -> ModuleType:
    return import_module(f"oncelog.protocol.generated.{snake_case(schema.name)}")


def every_version() -> Iterator[tuple[Schema, int]]:
    for schema in SCHEMAS.values():
        for version in schema.version_range:
            yield schema, version


def messages(schema: Schema, version: int) -> st.SearchStrategy[Any]:
    """Any message of one version; fields that the version lacks keep their defaults.

    hypothesis draws the seed of a message and not each field: forty draws a message would take the suite minutes.
    """
    return st.integers(0, 2**32).map(lambda seed: message_from(schema, version, random.Random(seed)))


def message_from(schema: Schema, version: int, source: random.Random) -> Any:
    return _structure(schema.structure, version, generated(schema), source)


def _structure(structure: Structure, version: int, module: ModuleType, source: random.Random) -> Any:
    values = {}
    for field in structure.fields:
        # A fifth of all fields keep their default, which is what tagged fields leave out.
        if field.in_version(version) and source.random() < 0.8:
            values[attribute(field.name)] = _field(field, version, module, source)
    return getattr(module, structure.name)(**values)


def _field(field: Field, version: int, module: ModuleType, source: random.Random) -> Any:
    if field.is_nullable(version) and source.random() < 0.2:
        return None
    if isinstance(field.type, ArrayOf):
        count = source.choice((0, 1, 1, 2, 3))
        return [_value(field.type.element, version, module, source) for _ in range(count)]
    return _value(field.type, version, module, source)


def _value(kind: Any, version: int, module: ModuleType, source: random.Random) -> Any:
    match kind:
        case Structure():
            return _structure(kind, version, module, source)
        case Variable(name="string"):
            # 200 characters make a compact length of two bytes.
            return "".join(source.choices(_CHARACTERS, k=source.choice((0, 1, 3, 200))))
        case Variable():
            return source.randbytes(source.choice((0, 1, 5, 130)))
        case Primitive(name="bool"):
            return source.random() < 0.5
        case Primitive(name="uuid"):
            return UUID(bytes=source.randbytes(16))
        case Primitive(name="float64"):
            return source.uniform(-1e9, 1e9)
        case Primitive(name=name) if name in _INTEGERS:
            top = 1 << (_INTEGERS[name] - 1)
            return source.choice((0, -1, top - 1, -top, source.randrange(-top, top)))
        case Primitive(name=name):
            return source.randrange(1 << _UNSIGNED[name])
    raise TypeError(f"{kind!r} is not a field type")


def as_container(message: Any, structure: Structure, version: int, flexible: bool) -> dict[str, Any]:
    """The message as the plain construct of that version takes and gives it."""
    container = {field.name: _plain(message, field, version, flexible) for field in structure.fields_in(version)}
    if flexible:
        container["_tagged_fields"] = {
            field.name: _plain(message, field, version, flexible)
            for field in structure.tagged_in(version)
            if not _is_default(message, field)
        }
    return container


def _is_default(message: Any, field: Field) -> bool:
    value = getattr(message, attribute(field.name))
    default = getattr(type(message)(), attribute(field.name))
    return bool(value == default or (value == [] and default == ()))


def _plain(message: Any, field: Field, version: int, flexible: bool) -> Any:
    value = getattr(message, attribute(field.name))
    if value is None:
        return None
    match field.type:
        case Structure() as structure:
            return as_container(value, structure, version, flexible)
        case ArrayOf(element=Structure() as structure):
            return [as_container(item, structure, version, flexible) for item in value]
        case ArrayOf():
            return list(value)
        case Variable(name="records"):
            return bytes(value)
    return value


def without_bookkeeping(parsed: Any) -> Any:
    """A value that construct parsed, as plain dicts and lists."""
    if isinstance(parsed, dict):
        return {key: without_bookkeeping(value) for key, value in parsed.items() if key != "_io"}
    if isinstance(parsed, list):
        return [without_bookkeeping(item) for item in parsed]
    return parsed


def filled(structure: Structure, classes: Any) -> Any:
    """A message with one element in every array, so that handlers go through all of it."""
    values = {}
    for field in structure.fields:
        kind = field.type
        if isinstance(kind, ArrayOf) and isinstance(kind.element, Structure):
            values[field.name] = [filled(kind.element, classes)]
        elif isinstance(kind, Structure) and not field.nullable:
            values[field.name] = filled(kind, classes)
        elif field.name in ("name", "topic", "group_id", "transactional_id") and field.default_value == "":
            values[field.name] = "topic"
        elif field.name == "client_software_name" or field.name == "client_software_version":
            values[field.name] = "test"
        elif field.name == "protocol_type":
            values[field.name] = "consumer"
        elif field.name == "session_timeout_ms":
            values[field.name] = 10_000
    return getattr(classes, structure.name)(**values)


def filled_request(api: Api) -> Any:
    schema: Schema = getattr(import_module(f"oncelog.protocol.messages.{api.name}"), f"{api.name}_request".upper())
    return filled(schema.structure, generated(schema))
