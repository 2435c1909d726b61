"""Keys and values whose schemas are in a registry: what a record names by an id, read and written (extra `schemas`)."""

from oncelog.schemas.avro import AvroError
from oncelog.schemas.framing import NotFramed
from oncelog.schemas.registry import Reference, Registered, RegistryError, Schema, SchemaNotFound, SchemaRegistry
from oncelog.schemas.serializers import AvroDeserializer, AvroSerializer

__all__ = [
    "AvroDeserializer",
    "AvroError",
    "AvroSerializer",
    "NotFramed",
    "Reference",
    "Registered",
    "RegistryError",
    "Schema",
    "SchemaNotFound",
    "SchemaRegistry",
]
