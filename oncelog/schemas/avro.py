"""Avro: the bytes of a value by its schema, and the columns that a schema is in Arrow.

Owns: parsing with references, encoding, decoding with the resolution of a reader's schema, and the types. Does not own:
where schemas come from (`registry`), and the id before the bytes (`framing`). Needs fastavro (the extra `schemas`).

The columns are those of Spark's `from_avro`: a union with null may be null, one of int and long is a long, one of float
and double a double; an enum is a string, a fixed is binary. Other unions have no column here.
"""

import json
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

from fastavro import parse_schema, schemaless_reader, schemaless_writer
from fastavro.read import SchemaResolutionError
from fastavro.schema import SchemaParseException, UnknownType
from fastavro.validation import ValidationError

from oncelog.schemas.format import FormatError

_SIMPLE = {
    "null": "null",
    "boolean": "bool_",
    "int": "int32",
    "long": "int64",
    "float": "float32",
    "double": "float64",
    "bytes": "binary",
    "string": "string",
    "enum": "string",
    "fixed": "binary",
}
"""The name of Arrow's type by the type in a schema."""
_LOGICAL = {
    "date": "date32",
    "uuid": "string",
    "timestamp-millis": ("timestamp", "us", "UTC"),
    "timestamp-micros": ("timestamp", "us", "UTC"),
    "local-timestamp-millis": ("timestamp", "us"),
    "local-timestamp-micros": ("timestamp", "us"),
}
_WIDENED = ({"int", "long"}, "long"), ({"float", "double"}, "double")


class AvroSchema:
    """A schema, and those that it refers to: first what others need. Raises FormatError."""

    def __init__(self, text: str, referenced: Sequence[tuple[str, str]] = ()) -> None:
        self._named: dict[str, Any] = {}
        try:
            for _, each in referenced:
                parse_schema(json.loads(each), self._named)
            self.parsed = parse_schema(json.loads(text), self._named)
        except (ValueError, SchemaParseException, UnknownType) as error:
            raise FormatError(f"no schema of Avro: {error}: {text[:200]}") from error

    def encode(self, value: Any) -> bytes:
        """Return the bytes of a value: dict for a record. Raises FormatError."""
        out = BytesIO()
        try:
            schemaless_writer(out, self.parsed, value, strict_allow_default=True)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, ValidationError) as error:
            raise FormatError(f"the value does not fit its schema: {error}") from error
        return out.getvalue()

    def decode(self, content: bytes | memoryview, reader: "AvroSchema | None" = None) -> Any:
        """Return the value of these bytes, as a schema of the reader has it: with the defaults of fields that they
        lack, without those that it lacks. Raises FormatError."""
        source = BytesIO(content)
        wanted = None if reader is None or reader is self else reader.parsed  # fastavro compares the two each time
        try:
            value = schemaless_reader(source, self.parsed, wanted)
        except SchemaResolutionError as error:
            raise FormatError(f"the schema of the record cannot be read as the one that is wanted: {error}") from error
        except (EOFError, ValueError, TypeError, KeyError, IndexError, OverflowError, MemoryError) as error:
            raise FormatError(f"the bytes are no value of their schema: {error!r}") from error
        if left := len(content) - source.tell():
            raise FormatError(f"{left} bytes are left behind the value: they are not of this schema")
        return value

    def arrow_type(self) -> Any:
        """Return the type of its values in pyarrow. Raises FormatError."""
        return self._type(self.parsed, ())

    def to_column(self, value: Any) -> Any:
        """Return the value: what `decode` returns is what the column takes."""
        return value

    def _type(self, node: Any, inside: tuple[str, ...]) -> Any:
        import pyarrow as pa

        if isinstance(node, list):
            return self._of_union(node, inside)
        if isinstance(node, str):
            if node not in _SIMPLE:
                return self._of_name(node, inside)
            return getattr(pa, _SIMPLE[node])()
        kind = node["type"]
        if kind == "record":
            below = (*inside, node["name"])
            return pa.struct([pa.field(each["name"], self._type(each["type"], below)) for each in node["fields"]])
        if kind == "array":
            return pa.list_(self._type(node["items"], inside))
        if kind == "map":
            return pa.map_(pa.string(), self._type(node["values"], inside))
        if isinstance(kind, Mapping | list):
            return self._type(kind, inside)
        return _of_logical(node) or self._type(kind, inside)

    def _of_name(self, name: str, inside: tuple[str, ...]) -> Any:
        if name in inside:
            raise FormatError(f"{name} contains itself, and no column can: select what you need of it before")
        return self._type(self._named[name], inside)

    def _of_union(self, branches: Sequence[Any], inside: tuple[str, ...]) -> Any:
        import pyarrow as pa

        real = [each for each in branches if each != "null"]
        if not real:
            return pa.null()
        if len(real) == 1:
            return self._type(real[0], inside)
        names = {each if isinstance(each, str) else "" for each in real}
        for of, wide in _WIDENED:
            if names == of:
                return self._type(wide, inside)
        raise FormatError(f"a union of {len(real)} types has no column: {json.dumps(branches)[:200]}")


def _of_logical(node: Mapping[str, Any]) -> Any:
    import pyarrow as pa

    logical = node.get("logicalType")
    if logical == "decimal":
        return pa.decimal128(node["precision"], node.get("scale", 0))
    known = _LOGICAL.get(str(logical))
    if known is None:
        return None
    name, *arguments = (known,) if isinstance(known, str) else known
    return getattr(pa, name)(*arguments)
