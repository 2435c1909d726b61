"""What a format of a registry's schemas can do, and the one that a schema is of.

Owns: the common interface of `avro`, `json_schema` and `protobuf`. Does not own: what any of them does.
"""

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from oncelog.schemas.registry import Schema, SchemaRegistry


class FormatError(ValueError):
    """Raised for a schema or a value that is none, for bytes of another schema, and for a type that has no column."""


class Format(Protocol):
    """A schema that has been parsed."""

    def encode(self, value: Any) -> bytes:
        """Return the bytes of a value, which follow the id of the schema. Raises FormatError."""

    def decode(self, content: memoryview, reader: Any = None) -> Any:
        """Return the value of bytes that follow the id of this schema, as another schema has it. Raises FormatError."""

    def arrow_type(self) -> Any:
        """Return the type of its values in pyarrow. Raises FormatError."""

    def to_column(self, value: Any) -> Any:
        """Return a value that was decoded as `arrow_type` takes it."""


def format_of(registry: "SchemaRegistry", schema: "Schema", message: str | None = None) -> Format:
    """Return a schema, parsed with all that it refers to; `message` is the one of Protobuf that is meant, by default
    the first. Raises RegistryError, FormatError, and ImportError without the extra `schemas`."""
    others = [(name, each.text) for name, each in registry.referenced(schema)]
    try:
        if schema.type == "AVRO":
            from oncelog.schemas.avro import AvroSchema

            return AvroSchema(schema.text, others)
        if schema.type == "JSON":
            from oncelog.schemas.json_schema import JsonSchema

            return JsonSchema(schema.text, others)
        from oncelog.schemas.protobuf import ProtobufSchema
    except ModuleNotFoundError as error:
        from oncelog.installing import how_to_install

        raise ImportError(
            f"a schema of type {schema.type} needs {error.name}: {how_to_install('schemas')}, on executors too"
        ) from error
    return ProtobufSchema(schema.text, others, message)
