"""Versioned declarations of messages: the language of `protocol.messages`.

Owns: the meaning of a declaration. Does not own: its uses: the plain construct of each version, which defines the
format (`protocol.plain_construct`), and the codecs that `protocol.codec` generates.

A field's `versions`, `nullable` and `tagged` are ranges as in Kafka's own schemas: "3+", "0-12", "4".
"""

import keyword
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from oncelog.protocol.types import Primitive, Variable

MAX_VERSION = 32_767


def version_range(text: str) -> range:
    """Parse `"3+"`, `"0-12"`, `"4"` or `""` (never) as a range."""
    if not text:
        return range(0)
    if text.endswith("+"):
        return range(int(text[:-1]), MAX_VERSION + 1)
    low, _, high = text.partition("-")
    return range(int(low), int(high or low) + 1)


def attribute(name: str) -> str:
    """Return the field's name in Python."""
    return name + "_" if keyword.iskeyword(name) else name


@dataclass(frozen=True, slots=True)
class ArrayOf:
    """A counted array; its elements are never null."""

    element: "FieldType"


FieldType = Any
"""The type of a field: Primitive, Variable, ArrayOf or Structure; `Any` because the four have no common base and need
none."""

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
    """True if the field is never compact, even in flexible versions (the client id of a request header)."""

    def in_version(self, version: int) -> bool:
        return version in version_range(self.versions)

    def is_nullable(self, version: int) -> bool:
        return version in version_range(self.nullable)

    def is_tagged(self, version: int) -> bool:
        return self.tag is not None and version in version_range(self.tagged)

    @property
    def defaults_to_structure(self) -> bool:
        """Whether the default is a structure of its fields' defaults: it is without an explicit one."""
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
    """A named group of fields, standalone or as the element of an array."""

    __slots__ = ("fields", "name")

    def __init__(self, name: str, *fields: Field) -> None:
        self.name = name
        self.fields = fields

    def fields_in(self, version: int) -> list[Field]:
        """Return the untagged fields of a version, in wire order."""
        return [field for field in self.fields if field.in_version(version) and not field.is_tagged(version)]

    def tagged_in(self, version: int) -> list[Field]:
        """Return the tagged fields of a version, by tag."""
        tagged = [field for field in self.fields if field.in_version(version) and field.is_tagged(version)]
        return sorted(tagged, key=lambda field: field.tag or 0)

    def nested(self) -> Iterator["Structure"]:
        """Yield every nested structure, innermost first, each once."""
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
