"""Serializers of the client whose schemas are in a registry: Avro, in Confluent's wire format.

Owns: which subject a schema is in, when the registry is asked. A serializer asks once for each subject, a deserializer
once for each schema that it meets: calls that block the event loop for some milliseconds, at most the registry's
`timeout_s`. `prepare` asks before, in a thread.
"""

import asyncio
from typing import Any

from oncelog.client.values.records import Header, Headers
from oncelog.schemas.avro import AvroSchema
from oncelog.schemas.framing import framed, unframed
from oncelog.schemas.registry import RegistryError, Schema, SchemaRegistry


class AvroSerializer:
    """Writes values that a schema describes, as Confluent's serializers do.

        serializer = AvroSerializer(SchemaRegistry("http://localhost:8081"), ORDER)
        async with Producer("localhost:9092", value_serializer=serializer) as producer:
            await producer.send("orders", {"id": 1, "cents": 990})

    The schema is in the subject `TOPIC-value`, of a key (`is_key`) in `TOPIC-key`, or in `subject`. It is registered
    there with the first record, or with `register=False` must be there. A record is a dict. Raises AvroError for what
    does not fit the schema, and RegistryError, each inside of SerializationError.
    """

    def __init__(
        self,
        registry: SchemaRegistry,
        schema: str | Schema,
        *,
        is_key: bool = False,
        subject: str | None = None,
        register: bool = True,
    ) -> None:
        self._registry = registry
        self._schema = Schema(schema) if isinstance(schema, str) else schema
        self._part = "key" if is_key else "value"
        self._subject = subject
        self._register = register
        self._avro: AvroSchema | None = None

    def serialize(self, topic: str, headers: list[Header], data: Any, /) -> bytes:
        """Return the bytes of a key or value: see `TopicSerializer`."""
        schema_id = self._id_for(topic)
        if self._avro is None:
            self._avro = avro_of(self._registry, self._schema)
        return framed(schema_id, self._avro.encode(data))

    def _id_for(self, topic: str) -> int:
        find = self._registry.register if self._register else self._registry.lookup
        return find(self._subject or f"{topic}-{self._part}", self._schema)

    async def prepare(self, *topics: str) -> None:
        """Ask the registry now for what records of these topics need. Raises RegistryError."""
        for topic in topics:
            await asyncio.to_thread(self._id_for, topic)
        self._avro = await asyncio.to_thread(avro_of, self._registry, self._schema)


class AvroDeserializer:
    """Reads what serializers of a registry wrote: the schema of each record is the one that it names.

    With `schema` values are returned as that one has them: fields that a record lacks have their defaults. Raises
    NotFramed, AvroError and RegistryError, each inside of DeserializationError.
    """

    def __init__(self, registry: SchemaRegistry, schema: str | Schema | None = None) -> None:
        self._registry = registry
        self._wanted = Schema(schema) if isinstance(schema, str) else schema
        self._reader: AvroSchema | None = None
        self._writers: dict[int, AvroSchema] = {}

    def deserialize(self, topic: str, headers: Headers, data: bytes, /) -> Any:
        """Return the key or value of these bytes: see `TopicDeserializer`."""
        schema_id, content = unframed(data)
        if self._wanted is not None and self._reader is None:
            self._reader = avro_of(self._registry, self._wanted)
        writer = self._writers.get(schema_id)
        if writer is None:
            writer = self._writers[schema_id] = avro_of(self._registry, self._registry.schema(schema_id))
        return writer.decode(content, self._reader)


def avro_of(registry: SchemaRegistry, schema: Schema) -> AvroSchema:
    """Return a schema with all that it refers to. Raises RegistryError, AvroError."""
    if schema.type != "AVRO":
        raise RegistryError(f"the schema is of type {schema.type}, and Avro is wanted: {schema.text[:100]}")
    return AvroSchema(schema.text, [each.text for _, each in registry.referenced(schema)])
