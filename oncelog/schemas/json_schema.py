"""JSON Schema: text by a schema that is checked, and the columns that a schema is in Arrow.

Owns: checking, the text, the types. Does not own: where schemas come from (`registry`), and the id before the text
(`framing`). Needs jsonschema (the extra `schemas`).

A column has a type where the schema has one: `object` with `properties` is a struct, `integer` a long, `number` a
double, `array` an array of its `items`; with `null` beside it, it may be null. What has none, or several, is its text
as JSON.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from jsonschema.exceptions import SchemaError, best_match
from jsonschema.validators import validator_for
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT7

from oncelog.schemas.format import FormatError

_SIMPLE = {"string": "string", "integer": "int64", "number": "float64", "boolean": "bool_", "null": "null"}
"""The name of Arrow's type by the type in a schema."""


class JsonSchema:
    """A schema, and those that it refers to by their names. Raises FormatError."""

    def __init__(self, text: str, referenced: Sequence[tuple[str, str]] = ()) -> None:
        try:
            self._node = json.loads(text)
            others = [(name, Resource.from_contents(json.loads(each), DRAFT7)) for name, each in referenced]
            kind = validator_for(
                self._node, default=validator_for({"$schema": "http://json-schema.org/draft-07/schema#"})
            )
            kind.check_schema(self._node)
        except (ValueError, SchemaError) as error:
            raise FormatError(f"no JSON Schema: {error}: {text[:200]}") from error
        self._registry = Registry().with_resources(others)
        self._check = kind(self._node, registry=self._registry)

    def encode(self, value: Any) -> bytes:
        """Return the text of a value. Raises FormatError."""
        self._checked(value)
        try:
            return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
        except (TypeError, ValueError) as error:
            raise FormatError(f"the value has no text in JSON: {error}") from error

    def decode(self, content: bytes | memoryview, reader: "JsonSchema | None" = None) -> Any:
        """Return the value of a text, checked by a schema of the reader, or by this one. Raises FormatError."""
        try:
            value = json.loads(bytes(content))
        except ValueError as error:
            raise FormatError(f"the bytes are no JSON: {error}") from error
        (reader or self)._checked(value)
        return value

    def _checked(self, value: Any) -> None:
        try:
            found = best_match(self._check.iter_errors(value))
        except Unresolvable as error:
            raise FormatError(f"the schema refers to {error.ref}, which is not known") from error
        if found is not None:
            raise FormatError(f"the value does not fit its schema: {found.json_path}: {found.message[:300]}")

    def arrow_type(self) -> Any:
        """Return the type of its values in pyarrow."""
        return self._type(self._node, ())

    def to_column(self, value: Any) -> Any:
        """Return a value as its column has it: as text where that has no type."""
        return _to_column(value, self.arrow_type())

    def _type(self, node: Any, inside: tuple[str, ...]) -> Any:
        import pyarrow as pa

        if not isinstance(node, Mapping):
            return pa.string()
        if "$ref" in node:
            return self._of_reference(str(node["$ref"]), inside)
        kinds = node.get("type")
        kinds = [each for each in (kinds if isinstance(kinds, list) else [kinds]) if each != "null"]
        kind = kinds[0] if len(kinds) == 1 else None
        if kind == "object" and node.get("properties"):
            return pa.struct([pa.field(name, self._type(each, inside)) for name, each in node["properties"].items()])
        if kind == "object" and isinstance(node.get("additionalProperties"), Mapping):
            return pa.map_(pa.string(), self._type(node["additionalProperties"], inside))
        if kind == "array" and isinstance(node.get("items"), Mapping):
            return pa.list_(self._type(node["items"], inside))
        return getattr(pa, _SIMPLE.get(str(kind), "string"))()

    def _of_reference(self, reference: str, inside: tuple[str, ...]) -> Any:
        if reference in inside:
            raise FormatError(f"{reference} contains itself, and no column can: select what you need of it before")
        whole = self._registry.with_resource("", Resource.from_contents(self._node, default_specification=DRAFT7))
        try:
            found = whole.resolver("").lookup(reference).contents
        except Unresolvable as error:
            raise FormatError(f"the schema refers to {reference}, which is not known") from error
        return self._type(found, (*inside, reference))


def _to_column(value: Any, kind: Any) -> Any:
    import pyarrow as pa

    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {each.name: _to_column(value.get(each.name), each.type) for each in kind}
    if pa.types.is_list(kind):
        return [_to_column(each, kind.value_type) for each in value]
    if pa.types.is_map(kind):
        return [(name, _to_column(each, kind.item_type)) for name, each in value.items()]
    if pa.types.is_string(kind) and not isinstance(value, str):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return value
