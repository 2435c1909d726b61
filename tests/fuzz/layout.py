"""A message as the pieces it is written of, so that each can be replaced by a lie that sits in the right place.

The pieces joined are what the generated codec writes: `segments` is a third writer of every format, and checks itself.
"""

from dataclasses import dataclass
from typing import Any

from oncelog.protocol.message import varint
from oncelog.protocol.plain_construct import PRIMITIVES
from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure, attribute
from oncelog.protocol.types import Primitive, Variable


@dataclass(frozen=True, slots=True)
class Segment:
    """`kind`: "length", "compact" (the length as a varint), "tags", "marker" (of a nullable struct), "data", "text",
    or a primitive's name."""

    kind: str
    data: bytes


def segments(schema: Schema, version: int, message: Any) -> list[Segment]:
    out: list[Segment] = []
    _structure(out, schema.structure, version, schema.is_flexible(version), message)
    return out


def _structure(out: list[Segment], structure: Structure, version: int, flexible: bool, message: Any) -> None:
    for field in structure.fields_in(version):
        value = getattr(message, attribute(field.name))
        _value(out, field.type, version, flexible, value, field.is_nullable(version))
    if flexible:
        _tags(out, structure, version, message)


def _tags(out: list[Segment], structure: Structure, version: int, message: Any) -> None:
    section, count = b"", 0
    for field in structure.tagged_in(version):
        value = getattr(message, attribute(field.name))
        if _is_default(message, field, value):
            continue
        inner: list[Segment] = []
        _value(inner, field.type, version, True, value, field.is_nullable(version), tagged=True)
        data = b"".join(segment.data for segment in inner)
        section += varint(field.tag or 0) + varint(len(data)) + data
        count += 1
    out.append(Segment("tags", varint(count) + section))


def _is_default(message: Any, field: Field, value: Any) -> bool:
    default = getattr(type(message)(), attribute(field.name))
    return bool(value == default or (isinstance(value, list) and not value and default == ()))


def _value(
    out: list[Segment], kind: Any, version: int, flexible: bool, value: Any, nullable: bool, tagged: bool = False
) -> None:
    match kind:
        case Structure():
            if nullable:
                null, present = (b"\x00", b"\x01") if tagged else (b"\xff", b"\x01")
                out.append(Segment("marker", null if value is None else present))
            if value is not None:
                _structure(out, kind, version, flexible, value)
        case ArrayOf():
            out.append(_length(None if value is None else len(value), flexible, 4))
            for item in value or ():
                _value(out, kind.element, version, flexible, item, False)
        case Variable(name=name):
            data = value.encode() if isinstance(value, str) else value
            out.append(_length(None if data is None else len(data), flexible, 2 if name == "string" else 4))
            if data:
                out.append(Segment("text" if name == "string" else "data", bytes(data)))
        case Primitive():
            out.append(Segment(kind.name, PRIMITIVES[kind].build(value)))


def _length(length: int | None, compact: bool, size: int) -> Segment:
    number = -1 if length is None else length
    if compact:
        return Segment("compact", varint(number + 1))
    return Segment("length", number.to_bytes(size, "big", signed=True))
