"""Serializers of the client whose schemas are in a registry, in Confluent's wire format.

Owns: which subject a schema is in, when the registry is asked. A serializer asks once for each subject, a deserializer
once for each schema that it meets: calls that block the event loop for some milliseconds, at most the registry's
`timeout_s`. `prepare` asks before, in a thread. Avro, JSON Schema and Protobuf differ in `format` only.
"""

import asyncio
from typing import Any

from oncelog.client.values.records import Header, Headers
from oncelog.schemas.format import Format, format_of
from oncelog.schemas.framing import framed, unframed
from oncelog.schemas.registry import Schema, SchemaRegistry


class SchemaSerializer:
    """Writes values that a schema describes, as Confluent's serializers do.

        serializer = SchemaSerializer(SchemaRegistry("http://localhost:8081"), ORDER)
        async with Producer("localhost:9092", value_serializer=serializer) as producer:
            await producer.send("orders", {"id": 1, "cents": 990})

    `schema` is a `Schema`, or the text of one of Avro. It is in the subject `TOPIC-value`, of a key (`is_key`) in
    `TOPIC-key`, or in `subject`. It is registered there with the first record, or with `register=False` must be there.
    A record of Avro, an object of JSON and a message of Protobuf are dicts; `message` names the message that is meant,
    by default the first of its file. Raises FormatError for what does not fit the schema, and RegistryError, each
    inside of SerializationError.
    """

    def __init__(
        self,
        registry: SchemaRegistry,
        schema: str | Schema,
        *,
        is_key: bool = False,
        subject: str | None = None,
        register: bool = True,
        message: str | None = None,
    ) -> None:
        self._registry = registry
        self._schema = Schema(schema) if isinstance(schema, str) else schema
        self._part = "key" if is_key else "value"
        self._subject = subject
        self._register = register
        self._message = message
        self._format: Format | None = None

    def serialize(self, topic: str, headers: list[Header], data: Any, /) -> bytes:
        """Return the bytes of a key or value: see `TopicSerializer`."""
        schema_id = self._id_for(topic)
        return framed(schema_id, self._parsed().encode(data))

    async def prepare(self, *topics: str) -> None:
        """Ask the registry now for what records of these topics need. Raises RegistryError, FormatError."""
        for topic in topics:
            await asyncio.to_thread(self._id_for, topic)
        await asyncio.to_thread(self._parsed)

    def _id_for(self, topic: str) -> int:
        find = self._registry.register if self._register else self._registry.lookup
        return find(self._subject or f"{topic}-{self._part}", self._schema)

    def _parsed(self) -> Format:
        if self._format is None:
            self._format = format_of(self._registry, self._schema, self._message)
        return self._format


class SchemaDeserializer:
    """Reads what serializers of a registry wrote: the schema of each record is the one that it names.

    With `schema` values are returned as that one has them: fields that a record lacks have their defaults. Raises
    NotFramed, FormatError and RegistryError, each inside of DeserializationError.
    """

    def __init__(
        self, registry: SchemaRegistry, schema: str | Schema | None = None, *, message: str | None = None
    ) -> None:
        self._registry = registry
        self._wanted = Schema(schema) if isinstance(schema, str) else schema
        self._message = message
        self._reader: Format | None = None
        self._writers: dict[int, Format] = {}

    def deserialize(self, topic: str, headers: Headers, data: bytes, /) -> Any:
        """Return the key or value of these bytes: see `TopicDeserializer`."""
        schema_id, content = unframed(data)
        if self._wanted is not None and self._reader is None:
            self._reader = format_of(self._registry, self._wanted, self._message)
        writer = self._writers.get(schema_id)
        if writer is None:
            writer = self._writers[schema_id] = format_of(self._registry, self._registry.schema(schema_id))
        return writer.decode(content, self._reader)
