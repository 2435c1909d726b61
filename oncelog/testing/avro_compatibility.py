"""Whether what was written by one Avro schema can be read by another: the rules of Avro's schema resolution.

Owns: these rules, on parsed schemas. Does not own: who asks, in which direction (`schema_subjects`). Names are compared
without their namespaces, as Avro's specification allows, and by aliases of the reader.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_PROMOTED: Mapping[str, tuple[str, ...]] = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
"""The other types that may read each type."""
_NAMED = ("record", "error", "enum", "fixed")
_DEFINED = (*_NAMED, "array", "map")


class NotAvro(ValueError):
    """Raised for what is no schema; the message says where."""


@dataclass(frozen=True, slots=True)
class Parsed:
    root: Any
    named: Mapping[str, Any]
    """Records, enums and fixed types by their names, with their namespaces and without."""

    def resolved(self, schema: Any) -> Any:
        """Return the definition of what a name means, or the schema itself, without what is only said about it."""
        while True:
            if isinstance(schema, str) and schema not in _PRIMITIVES:
                schema = self.named[schema]
            elif isinstance(schema, dict) and schema["type"] not in _DEFINED:
                schema = schema["type"]
            else:
                return schema


def parse(text: str, referenced: Iterable[str]) -> Parsed:
    """Parse a schema, and those that it refers to. Raises NotAvro."""
    named: dict[str, Any] = {}
    root: Any = None
    try:
        for each in (*referenced, text):
            root = json.loads(each)
            _collect(root, named, "")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NotAvro(str(error)) from None
    return Parsed(root, named)


def _collect(schema: Any, named: dict[str, Any], namespace: str) -> None:
    """Add the definitions in a schema, each under both of its names. Raises NotAvro, and KeyError for what it lacks."""
    if isinstance(schema, str):
        if schema not in _PRIMITIVES and schema not in named:
            raise NotAvro(f"{schema!r} is no type")
    elif isinstance(schema, list):
        for each in schema:
            _collect(each, named, namespace)
    elif schema["type"] in _NAMED:
        namespace, _, name = _full_name(schema, namespace).rpartition(".")
        named[name] = named[f"{namespace}.{name}" if namespace else name] = schema
        of = {"enum": "symbols", "fixed": "size"}.get(schema["type"], "fields")
        if of not in schema:
            raise NotAvro(f"{name} has no {of}")
        for field in schema["fields"] if of == "fields" else ():
            if not isinstance(field["name"], str):
                raise NotAvro(f"a field of {name} has no name")
            _collect(field["type"], named, namespace)
    elif schema["type"] in ("array", "map"):
        _collect(schema["items" if schema["type"] == "array" else "values"], named, namespace)
    else:
        _collect(schema["type"], named, namespace)


def _full_name(schema: Mapping[str, Any], around: str) -> str:
    name, namespace = schema["name"], schema.get("namespace", around)
    return f"{namespace}.{name}" if namespace and "." not in name else str(name)


def can_read(reader: Parsed, writer: Parsed) -> list[str]:
    """Return why the reader cannot read all that the writer writes; nothing if it can."""
    return [*_Comparison(reader, writer, set()).reasons(reader.root, writer.root, "")]


@dataclass(frozen=True, slots=True)
class _Comparison:
    reader: Parsed
    writer: Parsed
    begun: set[tuple[int, int]]
    """The pairs of definitions that are compared already: a schema may contain itself."""

    def reasons(self, reads: Any, writes: Any, at: str) -> Iterator[str]:
        reads, writes = self.reader.resolved(reads), self.writer.resolved(writes)
        if (id(reads), id(writes)) in self.begun and not isinstance(reads, str):
            return
        self.begun.add((id(reads), id(writes)))
        if isinstance(writes, list):
            for branch in writes:
                yield from self.reasons(reads, branch, at)
            return
        if isinstance(reads, list):
            yield from self._in_a_branch(reads, writes, at)
            return
        kind, written = _kind(reads), _kind(writes)
        if kind != written:
            if kind not in _PROMOTED.get(written, ()):
                yield f"{_shown(at)} is {kind}, and was {written}"
            return
        compare = {"record": self._record, "enum": self._enum, "fixed": self._fixed}.get(kind)
        if compare is not None:
            yield from compare(reads, writes, at)
        elif kind in ("array", "map"):
            of = "items" if kind == "array" else "values"
            yield from self.reasons(reads[of], writes[of], f"{at}.{of}")

    def _in_a_branch(self, reads: list[Any], writes: Any, at: str) -> Iterator[str]:
        """Avro takes the first branch that fits."""
        for branch in reads:
            inside = _Comparison(self.reader, self.writer, set(self.begun))
            if not any(True for _ in inside.reasons(branch, writes, at)):
                return
        yield f"{_shown(at)} has no branch for {_kind(writes)}"

    def _record(self, reads: Mapping[str, Any], writes: Mapping[str, Any], at: str) -> Iterator[str]:
        yield from _names_differ(reads, writes, at)
        written = {field["name"]: field for field in writes["fields"]}
        for field in reads["fields"]:
            names = [field["name"], *field.get("aliases", ())]
            found = next((written[name] for name in names if name in written), None)
            if found is not None:
                yield from self.reasons(field["type"], found["type"], f"{at}.{field['name']}")
            elif "default" not in field:
                yield f"{_shown(at + '.' + field['name'])} is new and has no default"

    def _enum(self, reads: Mapping[str, Any], writes: Mapping[str, Any], at: str) -> Iterator[str]:
        yield from _names_differ(reads, writes, at)
        missing = [each for each in writes["symbols"] if each not in reads["symbols"]]
        if missing and "default" not in reads:
            yield f"{_shown(at)} lacks the symbols {', '.join(missing)}"

    def _fixed(self, reads: Mapping[str, Any], writes: Mapping[str, Any], at: str) -> Iterator[str]:
        yield from _names_differ(reads, writes, at)
        if reads["size"] != writes["size"]:
            yield f"{_shown(at)} has {reads['size']} bytes, and had {writes['size']}"


def _kind(schema: Any) -> str:
    if isinstance(schema, list):
        return "union"
    kind = schema["type"] if isinstance(schema, dict) else schema
    return "record" if kind == "error" else str(kind)


def _names_differ(reads: Mapping[str, Any], writes: Mapping[str, Any], at: str) -> Iterator[str]:
    names = {each.rpartition(".")[2] for each in (reads["name"], *reads.get("aliases", ()))}
    if writes["name"].rpartition(".")[2] not in names:
        yield f"{_shown(at)} is named {reads['name']}, and was {writes['name']}"


def _shown(at: str) -> str:
    return at.removeprefix(".") or "the schema"
