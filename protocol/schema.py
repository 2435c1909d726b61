"""Versioned declarations of messages: what `protocol.messages` is written in.

Owns: the meaning of a declaration, and the plain construct for each of its versions (`Schema.construct`), which is
the readable definition of the format and the oracle of the property tests. Does not own: the codecs that serve, which
`protocol.codec` writes from the same declarations.

A field's `versions`, `nullable` and `tagged` are ranges as in Kafka's own schemas: "3+", "0-12", "4".
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import construct
from construct import Construct

from oncelog.protocol.types import VARINT, CountedArray, Length, NullableStruct, Primitive, Variable, bytes_left

MAX_VERSION = 32_767


def version_range(text: str) -> range:
    """`"3+"`, `"0-12"`, `"4"` or `""` (never) as a range."""
    if not text:
        return range(0)
    if text.endswith("+"):
        return range(int(text[:-1]), MAX_VERSION + 1)
    low, _, high = text.partition("-")
    return range(int(low), int(high or low) + 1)


@dataclass(frozen=True, slots=True)
class ArrayOf:
    """A counted array; its elements are never null."""

    element: "FieldType"


FieldType = Any
"""Primitive, Variable, ArrayOf or Structure; `Any` because the four have no common base and need none."""

_REQUIRED = object()


@dataclass(frozen=True, slots=True)
class Field:
    """One field. Without `default` it has its type's zero (0, "", no elements, a zero UUID)."""

    name: str
    type: FieldType
    versions: str = "0+"
    nullable: str = ""
    default: Any = _REQUIRED
    tag: int | None = None
    tagged: str = ""
    plain: bool = False
    """Never compact, even in flexible versions (the client id of a request header)."""

    def in_version(self, version: int) -> bool:
        return version in version_range(self.versions)

    def is_nullable(self, version: int) -> bool:
        return version in version_range(self.nullable)

    def is_tagged(self, version: int) -> bool:
        return self.tag is not None and version in version_range(self.tagged)

    @property
    def defaults_to_structure(self) -> bool:
        """Without a default of its own a structure has one made of its fields' defaults, even where it is nullable."""
        return isinstance(self.type, Structure) and self.default is _REQUIRED

    @property
    def default_value(self) -> Any:
        """The default; None for one that `defaults_to_structure`."""
        if self.default is not _REQUIRED:
            return self.default
        match self.type:
            case Primitive(name="uuid"):
                return UUID(int=0)
            case Primitive(name="bool"):
                return False
            case Primitive():
                return 0
            case Variable(name="string"):
                return ""
            case Variable():
                return b""
            case ArrayOf():
                return ()
        return None


class Structure:
    """A named group of fields, by itself or as the element of an array."""

    __slots__ = ("fields", "name")

    def __init__(self, name: str, *fields: Field) -> None:
        self.name = name
        self.fields = fields

    def fields_in(self, version: int) -> list[Field]:
        """The untagged fields of a version, in wire order."""
        return [field for field in self.fields if field.in_version(version) and not field.is_tagged(version)]

    def tagged_in(self, version: int) -> list[Field]:
        """The tagged fields of a version, by tag."""
        tagged = [field for field in self.fields if field.in_version(version) and field.is_tagged(version)]
        return sorted(tagged, key=lambda field: field.tag or 0)

    def construct(self, version: int, flexible: bool) -> Construct:
        subcons = [field.name / _construct(field, version, flexible) for field in self.fields_in(version)]
        if flexible:
            subcons.append("_tagged_fields" / TaggedFields(self.tagged_in(version), version))
        return construct.Struct(*subcons)

    def nested(self) -> Iterator["Structure"]:
        """Every structure used inside, innermost first, each once."""
        seen: dict[str, Structure] = {}
        for field in self.fields:
            inner = field.type
            while isinstance(inner, ArrayOf):
                inner = inner.element
            if isinstance(inner, Structure):
                for structure in (*inner.nested(), inner):
                    seen.setdefault(structure.name, structure)
        yield from seen.values()


@dataclass(frozen=True, slots=True)
class Schema:
    """A message or record: its API key (None for a header), its versions, the first flexible one, its fields."""

    name: str
    api_key: int | None
    versions: str
    flexible: str
    fields: tuple[Field, ...]

    @property
    def structure(self) -> Structure:
        return Structure(self.name, *self.fields)

    @property
    def version_range(self) -> range:
        return version_range(self.versions)

    def is_flexible(self, version: int) -> bool:
        return version in version_range(self.flexible)

    @property
    def flexible_from(self) -> int | None:
        return next(filter(self.is_flexible, self.version_range), None)

    def construct(self, version: int) -> Construct:
        """The plain construct of one version: parses to a Container, builds from one."""
        if version not in self.version_range:
            raise ValueError(f"{self.name} has no version {version}")
        return self.structure.construct(version, self.is_flexible(version))


class TaggedFields(Construct):
    """KIP-482: a count, then tag, size and data of each; ascending, unknown ones skipped, defaults not written."""

    def __init__(self, fields: list[Field], version: int) -> None:
        super().__init__()
        self._constructs = {field.tag or 0: (field, _construct(field, version, True)) for field in fields}

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


def _construct(field: Field, version: int, flexible: bool) -> Construct:
    compact, tagged = flexible and not field.plain, field.is_tagged(version)
    return _type_construct(field.type, version, flexible, compact, field.is_nullable(version), tagged)


def _type_construct(
    kind: FieldType, version: int, flexible: bool, compact: bool, nullable: bool, tagged: bool = False
) -> Construct:
    match kind:
        case Primitive():
            return kind.construct
        case Variable():
            return kind.construct(compact, nullable)
        case ArrayOf():
            count = Length(construct.Int32sb, compact, nullable)
            return CountedArray(count, _type_construct(kind.element, version, flexible, compact, False))
        case Structure():
            inner = kind.construct(version, flexible)
            return NullableStruct(inner, tagged) if nullable else inner
    raise TypeError(f"{kind!r} is not a field type")
