"""Emits the functions that read: (view, position) to (message, next position).

Invariant of the emitted code: every announced length is checked before it is used, nothing is read past the end, and
the data of a tag ends exactly where its size says.
"""

import re

from oncelog.protocol.codec_parts import (
    FunctionOf,
    Gathered,
    annotation,
    default_text,
    holds_many,
    is_fixed,
    python_type,
    runs,
)
from oncelog.protocol.schema import ArrayOf, Field, FieldType, Structure, attribute
from oncelog.protocol.types import Primitive


class ReaderEmitter:
    """Emits lines of Python that read the layouts of one message, at once or in slices: one step after each element."""

    def __init__(
        self, gathered: Gathered, function_of: FunctionOf, sliced_function_of: FunctionOf | None = None
    ) -> None:
        """With `sliced_function_of`, the names of functions that read in slices, the emitted code does so too."""
        self._gathered = gathered
        self._function_of = function_of
        self._sliced_function_of = sliced_function_of

    def lines(self, structure: Structure, version: int, flexible: bool) -> list[str]:
        """Return the body of the function that reads one layout of a structure."""
        lines: list[str] = []
        for group in runs(structure.fields_in(version)):
            if is_fixed(group[0]):
                lines += self._read_fixed(group)
            else:
                lines += self._read_field(group[0], version, flexible)
        if flexible:
            lines += self._read_tagged(structure.tagged_in(version), version)
        arguments = ", ".join(
            attribute(field.name) if field.in_version(version) else default_text(field) for field in structure.fields
        )
        lines.append(f"return {structure.name}({arguments}), position")
        return lines

    def _read_fixed(self, fields: list[Field]) -> list[str]:
        struct = self._gathered.struct("".join(field.type.letter for field in fields))
        targets = [attribute(field.name) + ("_bytes" if field.type.name == "uuid" else "") for field in fields]
        if len(fields) == 1 and fields[0].type.name == "uuid":
            lines = [f"{attribute(fields[0].name)} = UUID(bytes={struct}.unpack_from(view, position)[0])"]
        else:
            target = f"({targets[0]},)" if len(fields) == 1 else ", ".join(targets)
            lines = [f"{target} = {struct}.unpack_from(view, position)"]
            lines += [
                f"{attribute(field.name)} = UUID(bytes={target})"
                for field, target in zip(fields, targets, strict=True)
                if field.type.name == "uuid"
            ]
        lines.append(f"position += {sum(field.type.size for field in fields)}")
        return lines

    def _read_field(self, field: Field, version: int, flexible: bool, indent: str = "") -> list[str]:
        name = attribute(field.name)
        compact = flexible and not field.plain
        nullable = field.is_nullable(version)
        kind = field.type
        if isinstance(kind, Primitive):
            return [indent + line for line in self._read_fixed([field])]
        if isinstance(kind, ArrayOf):
            return [indent + line for line in self._read_array(name, kind.element, version, compact, nullable)]
        call = self._read_call(kind, version, compact, nullable)
        if isinstance(kind, Structure) and nullable and field.is_tagged(version):
            inner = self._read_call(kind, version, compact, False)
            return [
                f"{indent}{name}: {kind.name} | None = None",
                f"{indent}present, position = {self._gathered.use('read_varint')}(view, position)",
                f"{indent}if present:",
                f"{indent}    {name}, position = {inner}",
            ]
        if isinstance(kind, Structure) and nullable:
            struct = self._gathered.struct("b")
            inner = self._read_call(kind, version, compact, False)
            return [
                f"{indent}{name}: {kind.name} | None = None",
                f"{indent}position += 1",
                f"{indent}if {struct}.unpack_from(view, position - 1)[0] >= 0:",
                f"{indent}    {name}, position = {inner}",
            ]
        return [f"{indent}{name}, position = {call}"]

    def _read_call(self, kind: FieldType, version: int, compact: bool, nullable: bool) -> str:
        if isinstance(kind, Structure):
            if self._sliced_function_of is not None and holds_many(kind, version):
                return f"yield from {self._sliced_function_of(kind, version)}(view, position)"
            return f"{self._function_of(kind, version)}(view, position)"
        name = f"read_{'nullable_' if nullable else ''}{'compact_' if compact else ''}{kind.name}"
        return f"{self._gathered.use(name)}(view, position)"

    def _read_array(self, name: str, element: FieldType, version: int, compact: bool, nullable: bool) -> list[str]:
        kind = python_type(element)
        count = self._gathered.use(f"read_{'nullable_' if nullable else ''}{'compact_' if compact else ''}count")
        lines = [f"count_, position = {count}(view, position)"]
        none = " if count_ >= 0 else None" if nullable else ""
        if isinstance(element, Primitive) and element.name != "uuid" and self._sliced_function_of is not None:
            if nullable:
                lines += [f"{name}: Sequence[{kind}] | None = None", "if count_ >= 0:"]
            read = (
                f'yield from {self._gathered.use("read_numbers_in_slices")}(view, position, count_, "{element.letter}")'
            )
            declared = "    " + name if nullable else f"{name}: Sequence[{kind}]"
            lines += [
                f"{declared} = {read}",
                f"{'    ' if nullable else ''}position += count_{f' * {element.size}' if element.size > 1 else ''}",
            ]
            return lines
        if isinstance(element, Primitive) and element.name != "uuid":
            # The count is at most the bytes left, so neither the format nor what it reads can grow beyond them.
            unpacked = f'unpack_from(f">{{count_}}{element.letter}", view, position)'
            size = f" * {element.size}" if element.size > 1 else ""
            if nullable:
                lines += [
                    f"{name}: Sequence[{kind}] | None = None",
                    "if count_ >= 0:",
                    f"    {name} = {unpacked}",
                    f"    position += count_{size}",
                ]
            else:
                lines += [f"{name}: Sequence[{kind}] = {unpacked}", f"position += count_{size}"]
            return lines
        annotation = f"list[{kind}] | None" if nullable else f"list[{kind}]"
        lines.append(f"{name}: {annotation} = []{none}")
        lines.append("for _ in range(count_):")
        if isinstance(element, Primitive):
            struct = self._gathered.struct(element.letter)
            lines += [
                f"    item = UUID(bytes={struct}.unpack_from(view, position)[0])",
                f"    position += {element.size}",
            ]
        elif isinstance(element, ArrayOf):
            raise TypeError("arrays of arrays do not occur in Kafka's messages")
        else:
            lines.append(f"    item, position = {self._read_call(element, version, compact, False)}")
        appended = f"    {name}.append(item)"
        lines.append(appended + ("  # type: ignore[union-attr]" if nullable else ""))
        if self._sliced_function_of is not None:
            lines.append("    yield 1")
        return _own_item(lines, name)

    def _read_tagged(self, fields: list[Field], version: int) -> list[str]:
        if not fields:
            skip = f"{self._gathered.use('skip_tags')}(view, position)"
            return [f"position = {skip} if view[position] else position + 1"]
        lines = [f"{attribute(field.name)}: {annotation(field)} = {default_text(field)}" for field in fields]
        lines += [
            f"tag_count, position = {self._gathered.use('read_varint')}(view, position)",
            "for _ in range(tag_count):",
            f"    tag, position, end = {self._gathered.use('read_tag')}(view, position)",
        ]
        for index, field in enumerate(fields):
            lines.append(f"    {'if' if index == 0 else 'elif'} tag == {field.tag}:")
            for line in self._read_field(field, version, True, "        "):
                # The name is declared above the loop, with the type of the field.
                lines.append(re.sub(rf"^(\s*{attribute(field.name)}): [^=]+ = ", r"\1 = ", line))
        lines += [
            "    else:",
            "        position = end",
            "    if position != end:",
            f"        {self._gathered.use('refuse_tag')}(tag, position, end)",
        ]
        return _tag_lists(lines, fields)


def _own_item(lines: list[str], name: str) -> list[str]:
    """Give each loop its own item name: two arrays of one message have items of different types."""
    return [re.sub(r"\bitem\b", f"{name}_item", line) for line in lines]


def _tag_lists(lines: list[str], fields: list[Field]) -> list[str]:
    """Fill tagged arrays in a list of their own; the declared type is the field's Sequence."""
    fixed = []
    for line in lines:
        for field in fields:
            name = attribute(field.name)
            if isinstance(field.type, ArrayOf) and line.startswith(f"{name}: "):
                element = python_type(field.type.element)
                optional = " | None" if field.default_value is None or field.nullable else ""
                start = "None" if field.default_value is None else "[]"
                container = "Sequence" if isinstance(field.type.element, Primitive) else "list"
                line = f"{name}: {container}[{element}]{optional} = {start}"
        fixed.append(line)
    return fixed
