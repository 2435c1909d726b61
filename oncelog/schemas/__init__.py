"""Keys and values whose schemas are in a registry: what a record names by an id, read and written (extra `schemas`)."""

from oncelog.schemas.format import FormatError
from oncelog.schemas.framing import NotFramed
from oncelog.schemas.registry import Reference, Registered, RegistryError, Schema, SchemaNotFound, SchemaRegistry
from oncelog.schemas.serializers import SchemaDeserializer, SchemaSerializer

__all__ = [
    "FormatError",
    "NotFramed",
    "Reference",
    "Registered",
    "RegistryError",
    "Schema",
    "SchemaDeserializer",
    "SchemaNotFound",
    "SchemaRegistry",
    "SchemaSerializer",
]
