"""The building blocks of generated code: Python names, types and defaults, and a module's collected helpers.

Owns: how a declaration is written in Python. Does not own: what is read and written (`codec_reader`, `codec_writer`).
"""

import re
from collections.abc import Callable
from uuid import UUID

from oncelog.protocol.schema import ArrayOf, Field, FieldType, Structure
from oncelog.protocol.types import Primitive, Variable

FunctionOf = Callable[[Structure, int], str]
"""Returns the name of the function that reads (or writes) a structure in a version, emitted on first use."""


class Gathered:
    """The globals of one module besides its functions: precompiled structs, helpers of `protocol.message`."""

    def __init__(self) -> None:
        self.structs: dict[str, str] = {}
        self.helpers: set[str] = set()

    def struct(self, letters: str) -> str:
        return self.structs.setdefault(letters, f"_S{len(self.structs)}")

    def use(self, helper: str) -> str:
        self.helpers.add(helper)
        return helper


def snake_case(name: str) -> str:
    name = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()


def python_type(kind: FieldType) -> str:
    match kind:
        case Primitive() | Variable():
            return kind.python
        case ArrayOf():
            return f"Sequence[{python_type(kind.element)}]"
        case Structure():
            return kind.name
    raise TypeError(kind)


def annotation(field: Field) -> str:
    kind = python_type(field.type)
    nullable = bool(field.nullable) or (field.default_value is None and not isinstance(field.type, Structure))
    return f"{kind} | None" if nullable else kind


def shared_default(structure: Structure) -> str:
    """Return the name of the constant that holds a structure made of defaults."""
    return f"_{snake_case(structure.name).upper()}"


def default_text(field: Field) -> str:
    value = field.default_value
    if field.defaults_to_structure:
        return shared_default(field.type)
    if isinstance(value, UUID):
        return "_ZERO_UUID"
    if isinstance(value, str):
        return '"' + value + '"'
    return repr(value) if value != b"" else 'b""'


def is_fixed(field: Field) -> bool:
    return isinstance(field.type, Primitive)


def runs(fields: list[Field]) -> list[list[Field]]:
    """Return neighbouring fields of fixed size as one group, every other field by itself."""
    groups: list[list[Field]] = []
    for field in fields:
        if groups and is_fixed(field) and is_fixed(groups[-1][0]):
            groups[-1].append(field)
        else:
            groups.append([field])
    return groups


def holds_many(kind: FieldType, version: int) -> bool:
    """Whether a message or a part of one may have any number of elements, so that it is read and written in slices."""
    match kind:
        case ArrayOf():
            return True
        case Structure():
            return any(holds_many(field.type, version) for field in kind.fields_in(version))
    return False
