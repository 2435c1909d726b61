"""The plain construct of every declared message in every version: the readable definition of the format.

Owns: the encoding of each type, plain and compact (KIP-482). Does not own: messages and their versions
(`protocol.schema`). It is the oracle of the property tests; serving code does not import this module.
Invariant: every length and count is checked against the bytes that are left before anything is allocated.
"""

from io import SEEK_END
from typing import Any
from uuid import UUID

import construct
from construct import Construct, Flag, FormatField, FormatFieldError, IntegerError, StreamError, StringError

from oncelog.protocol.schema import ArrayOf, Field, FieldType, Schema, Structure
from oncelog.protocol.types import (
    Boolean,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Primitive,
    UInt16,
    UInt32,
    Uuid,
    Variable,
)

MAX_VARINT_BYTES = 5
LONGEST_TEXT_BYTES = 0x7FFF


def bytes_left(stream: Any) -> int:
    """Return how much of the input has not been parsed yet."""
    here = stream.tell()
    end = stream.seek(0, SEEK_END)
    stream.seek(here)
    return int(end - here)


class UnsignedVarint(Construct):
    """A varint in base 128, low group first, at most five bytes."""

    def _parse(self, stream: Any, _context: Any, path: str) -> int:
        value = 0
        for index in range(MAX_VARINT_BYTES):
            byte: int = construct.stream_read(stream, 1, path)[0]
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                return value
        raise IntegerError("a varint has more than five bytes", path=path)

    def _build(self, obj: int, stream: Any, _context: Any, path: str) -> int:
        value = obj
        while value > 0x7F:
            construct.stream_write(stream, bytes((value & 0x7F | 0x80,)), 1, path)
            value >>= 7
        construct.stream_write(stream, bytes((value,)), 1, path)
        return obj


class Length(Construct):
    """A length or count: the plain integer `plain`, or compact (value + 1 as an unsigned varint, 0 for null); in both
    forms at most `longest`. Where null is allowed, any negative number is read as null, as Kafka does."""

    def __init__(self, plain: Construct, compact: bool, nullable: bool, longest: int | None = None) -> None:
        super().__init__()
        self._plain = plain
        self._compact = compact
        self._nullable = nullable
        self._longest = longest

    def _parse(self, stream: Any, context: Any, path: str) -> int | None:
        if self._compact:
            length = VARINT._parsereport(stream, context, path) - 1
        else:
            length = self._plain._parsereport(stream, context, path)
        if length < 0 and self._nullable:
            return None
        if length < 0:
            raise IntegerError(f"length {length}", path=path)
        if self._longest is not None and length > self._longest:
            raise IntegerError(f"length {length}, {self._longest} is the maximum", path=path)
        if length > bytes_left(stream):
            raise StreamError(f"length {length} is more than is left", path=path)
        return int(length)

    def _build(self, obj: int | None, stream: Any, context: Any, path: str) -> int | None:
        if obj is None and not self._nullable:
            raise IntegerError("null where null is not allowed", path=path)
        length = -1 if obj is None else obj
        if self._compact:
            VARINT._build(length + 1, stream, context, path)
        else:
            self._plain._build(length, stream, context, path)
        return obj


class Sized(Construct):
    """Bytes after their length, with a construct inside."""

    def __init__(self, length: Length) -> None:
        super().__init__()
        self._length = length

    def _parse(self, stream: Any, context: Any, path: str) -> bytes | None:
        length = self._length._parse(stream, context, path)
        return None if length is None else construct.stream_read(stream, length, path)

    def _build(self, obj: Any, stream: Any, context: Any, path: str) -> Any:
        self._length._build(None if obj is None else len(obj), stream, context, path)
        if obj is not None:
            construct.stream_write(stream, bytes(obj), len(obj), path)
        return obj


class Utf8(Construct):
    """Text after its length in bytes."""

    def __init__(self, length: Length) -> None:
        super().__init__()
        self._sized = Sized(length)

    def _parse(self, stream: Any, context: Any, path: str) -> str | None:
        data = self._sized._parse(stream, context, path)
        try:
            return None if data is None else data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise StringError(str(error), path=path) from error

    def _build(self, obj: str | None, stream: Any, context: Any, path: str) -> str | None:
        self._sized._build(None if obj is None else obj.encode("utf-8"), stream, context, path)
        return obj


class UuidBytes(Construct):
    """Sixteen bytes, big-endian."""

    def _parse(self, stream: Any, _context: Any, path: str) -> UUID:
        return UUID(bytes=construct.stream_read(stream, 16, path))

    def _build(self, obj: UUID, stream: Any, _context: Any, path: str) -> UUID:
        construct.stream_write(stream, obj.bytes, 16, path)
        return obj


class CountedArray(Construct):
    """Elements after their count; a count larger than the bytes left is rejected before the first element."""

    def __init__(self, count: Length, element: Construct) -> None:
        super().__init__()
        self._count = count
        self._element = element

    def _parse(self, stream: Any, context: Any, path: str) -> list[Any] | None:
        count = self._count._parse(stream, context, path)
        if count is None:
            return None
        return [self._element._parsereport(stream, context, f"{path}[{index}]") for index in range(count)]

    def _build(self, obj: Any, stream: Any, context: Any, path: str) -> Any:
        self._count._build(None if obj is None else len(obj), stream, context, path)
        for index, element in enumerate(obj or ()):
            self._element._build(element, stream, context, f"{path}[{index}]")
        return obj


VARINT = UnsignedVarint()


class NullableStruct(Construct):
    """A struct after one byte, -1 for null and 1 otherwise (KIP-893); in a tagged field 0 for null and 1 otherwise."""

    def __init__(self, element: Construct, tagged: bool) -> None:
        super().__init__()
        self._element = element
        self._null = 0 if tagged else -1
        self._marker: Construct = VARINT if tagged else construct.Int8sb

    def _parse(self, stream: Any, context: Any, path: str) -> Any:
        if self._marker._parsereport(stream, context, path) <= self._null:
            return None
        return self._element._parsereport(stream, context, path)

    def _build(self, obj: Any, stream: Any, context: Any, path: str) -> Any:
        self._marker._build(self._null if obj is None else 1, stream, context, path)
        if obj is not None:
            self._element._build(obj, stream, context, path)
        return obj


class TaggedFields(Construct):
    """Tagged fields (KIP-482): a count, then tag, size and data of each; ascending, unknown ones skipped, defaults not
    written."""

    def __init__(self, fields: list[Field], version: int) -> None:
        super().__init__()
        self._constructs = {field.tag or 0: (field, _field(field, version, True)) for field in fields}

    def _parse(self, stream: Any, context: Any, path: str) -> dict[str, Any]:
        values = {}
        for _ in range(VARINT._parse(stream, context, path)):
            tag = VARINT._parse(stream, context, path)
            size = VARINT._parse(stream, context, path)
            if size > bytes_left(stream):
                raise construct.StreamError(f"tagged field {tag} is longer than what is left", path=path)
            data = construct.stream_read(stream, size, path)
            if tag in self._constructs:
                field, inner = self._constructs[tag]
                values[field.name] = construct.FocusedSeq("value", "value" / inner, construct.Terminated).parse(data)
        return values

    def _build(self, obj: dict[str, Any], stream: Any, context: Any, path: str) -> dict[str, Any]:
        VARINT._build(len(obj), stream, context, path)
        for tag, (field, inner) in self._constructs.items():
            if field.name in obj:
                data = inner.build(obj[field.name])
                VARINT._build(tag, stream, context, path)
                VARINT._build(len(data), stream, context, path)
                construct.stream_write(stream, data, len(data), path)
        return obj


def schema_construct(schema: Schema, version: int) -> Construct:
    """Return the plain construct of one version: it parses to a Container, and builds from one."""
    if version not in schema.version_range:
        raise ValueError(f"{schema.name} has no version {version}")
    return _struct(schema.structure, version, schema.is_flexible(version))


def _struct(structure: Structure, version: int, flexible: bool) -> Construct:
    subcons = [field.name / _field(field, version, flexible) for field in structure.fields_in(version)]
    if flexible:
        subcons.append("_tagged_fields" / TaggedFields(structure.tagged_in(version), version))
    return construct.Struct(*subcons)


def _field(field: Field, version: int, flexible: bool) -> Construct:
    compact, tagged = flexible and not field.plain, field.is_tagged(version)
    return _type(field.type, version, flexible, compact, field.is_nullable(version), tagged)


def _type(
    kind: FieldType, version: int, flexible: bool, compact: bool, nullable: bool, tagged: bool = False
) -> Construct:
    match kind:
        case Primitive():
            return PRIMITIVES[kind]
        case Variable(name="string"):
            return Utf8(Length(construct.Int16sb, compact, nullable, LONGEST_TEXT_BYTES))
        case Variable():
            return Sized(Length(construct.Int32sb, compact, nullable))
        case ArrayOf():
            count = Length(construct.Int32sb, compact, nullable)
            return CountedArray(count, _type(kind.element, version, flexible, compact, False))
        case Structure():
            inner = _struct(kind, version, flexible)
            return NullableStruct(inner, tagged) if nullable else inner
    raise TypeError(f"{kind!r} is not a field type")


PRIMITIVES: dict[Primitive, Construct] = {
    Int8: FormatField(">", "b"),
    Int16: FormatField(">", "h"),
    Int32: FormatField(">", "l"),
    Int64: FormatField(">", "q"),
    UInt16: FormatField(">", "H"),
    UInt32: FormatField(">", "L"),
    Float64: FormatField(">", "d"),
    Boolean: Flag,
    Uuid: UuidBytes(),
}

MALFORMED = (construct.ConstructError, FormatFieldError, StreamError, IntegerError, StringError)
"""The errors that parsing raises for malformed bytes."""
