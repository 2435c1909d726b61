"""Emits the functions that write: a message to parts that are joined later.

Invariants of the emitted code: record data becomes a part as it was given, tagged fields are in ascending order without
those at their default, and a field that the version lacks is left out whatever its value.
"""

from oncelog.protocol.codec_parts import FunctionOf, Gathered, default_text, holds_many, is_fixed, runs
from oncelog.protocol.schema import ArrayOf, Field, FieldType, Structure, attribute
from oncelog.protocol.types import Primitive, Variable


class WriterEmitter:
    """Emits lines of Python that write the layouts of one message, at once or in slices: one step after each
    element."""

    def __init__(
        self, gathered: Gathered, function_of: FunctionOf, sliced_function_of: FunctionOf | None = None
    ) -> None:
        """With `sliced_function_of`, the names of functions that write in slices, the emitted code does so too."""
        self._gathered = gathered
        self._function_of = function_of
        self._sliced_function_of = sliced_function_of

    def lines(self, structure: Structure, version: int, flexible: bool) -> list[str]:
        """Return the body of the function that writes one layout of a structure."""
        lines: list[str] = []
        for group in runs(structure.fields_in(version)):
            if is_fixed(group[0]):
                struct = self._gathered.struct("".join(field.type.letter for field in group))
                values = ", ".join(_packed(field, "message.") for field in group)
                lines.append(f"out.append({struct}.pack({values}))")
            else:
                field = group[0]
                compact = flexible and not field.plain
                lines += self._write_field(field, version, compact, f"message.{attribute(field.name)}", "out")
        if flexible:
            lines += self._write_tagged(structure.tagged_in(version), version)
        return lines or ["pass"]

    def _write_field(self, field: Field, version: int, compact: bool, value: str, out: str) -> list[str]:
        nullable = field.is_nullable(version)
        kind = field.type
        if isinstance(kind, Primitive):
            struct = self._gathered.struct(kind.letter)
            return [f"{out}.append({struct}.pack({value}{'.bytes' if kind.name == 'uuid' else ''}))"]
        if isinstance(kind, Variable):
            return [self._write_variable(kind, compact, nullable, value, out, bool(field.nullable))]
        if isinstance(kind, ArrayOf):
            return self._write_array(field, kind.element, version, compact, value, out)
        function = self._call_of(kind, version)
        if not nullable:
            cast = "  # type: ignore[arg-type]" if field.nullable else ""
            return [f"{function}({out}, {value}){cast}"]
        # KIP-893 says -1 for null; in a tagged field Kafka writes a varint 0.
        null = "\\x00" if field.is_tagged(version) else "\\xff"
        return [
            f"if {value} is None:",
            f'    {out}.append(b"{null}")',
            "else:",
            f'    {out}.append(b"\\x01")',
            f"    {function}({out}, {value})",
        ]

    def _call_of(self, kind: Structure, version: int) -> str:
        if self._sliced_function_of is not None and holds_many(kind, version):
            return f"yield from {self._sliced_function_of(kind, version)}"
        return self._function_of(kind, version)

    def _write_variable(
        self, kind: Variable, compact: bool, nullable: bool, value: str, out: str, sometimes_null: bool
    ) -> str:
        if kind.name == "string":
            name = f"{'nullable_' if nullable else ''}{'compact_' if compact else ''}string"
            ignore = "  # type: ignore[arg-type]" if sometimes_null and not nullable else ""
            return f"{out}.append({self._gathered.use(name)}({value})){ignore}"
        return f"{self._gathered.use('write_data')}({out}, {value}, {compact})"

    def _write_array(
        self, field: Field, element: FieldType, version: int, compact: bool, value: str, out: str
    ) -> list[str]:
        nullable = field.is_nullable(version)
        name = self._gathered.use(f"{'nullable_' if nullable else ''}{'compact_' if compact else ''}count")
        ignore = "  # type: ignore[arg-type]" if field.nullable and not nullable else ""
        lines = [f"{out}.append({name}({value})){ignore}"]
        source = f"{value} or ()" if field.nullable else value
        if isinstance(element, Primitive) and element.name != "uuid":
            lines.append(f"if {value}:")
            lines.append(f'    {out}.append(pack(f">{{len({value})}}{element.letter}", *{value}))')
            if self._sliced_function_of is not None:
                lines.append(f"    yield len({value}) // 16")
            return lines
        lines.append(f"for item_{attribute(field.name)} in {source}:")
        item = f"item_{attribute(field.name)}"
        if isinstance(element, Primitive):
            lines.append(f"    {out}.append({item}.bytes)")
        elif isinstance(element, Variable):
            lines.append("    " + self._write_variable(element, compact, False, item, out, False))
        else:
            lines.append(f"    {self._call_of(element, version)}({out}, {item})")
        if self._sliced_function_of is not None:
            lines.append("    yield 1")
        return lines

    def _write_tagged(self, fields: list[Field], version: int) -> list[str]:
        if not fields:
            return ['out.append(b"\\x00")']
        lines = ["    tags: list[tuple[int, list[Data]]] = []"]
        conditions = []
        for field in fields:
            value = f"message.{attribute(field.name)}"
            conditions.append(self._differs(field, value))
            if len(fields) > 1:
                lines.append(f"    if {conditions[-1]}:")
            indent = "        " if len(fields) > 1 else "    "
            lines.append(f"{indent}data: list[Data] = []" if field is fields[0] else f"{indent}data = []")
            lines += [f"{indent}{line}" for line in self._write_field(field, version, True, value, "data")]
            lines.append(f"{indent}tags.append(({field.tag}, data))")
        lines.append(f"    {self._gathered.use('write_tags')}(out, tags)")
        # Most messages have no tagged field to write: one look at all of them.
        return [f"if {' or '.join(map(_in_disjunction, conditions))}:", *lines, "else:", '    out.append(b"\\x00")']

    def _differs(self, field: Field, value: str) -> str:
        default = default_text(field)
        if default == "None":
            return f"{value} is not None"
        if default == "()":
            return f"{value} is None or len({value})" if field.nullable else f"len({value})"
        if default in ("True", "False"):
            return value if default == "False" else f"not {value}"
        if isinstance(field.type, Structure):
            return f"{value} is not {default} and {value} != {default}"
        return f"{value} != {default}"


def _in_disjunction(condition: str) -> str:
    return f"({condition})" if " and " in condition else condition


def _packed(field: Field, prefix: str) -> str:
    name = prefix + attribute(field.name)
    return f"{name}.bytes" if field.type.name == "uuid" else name
