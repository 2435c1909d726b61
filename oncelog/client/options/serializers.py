"""Keys and values of records as objects of the program, and back.

Owns: what a serializer is, three that many programs need, and which error is raised about which record. Does not own:
when they run (`producer`, `consumer`). Invariants: without serializers nothing here runs; None is never passed to one,
since it is a tombstone on both sides; whatever one raises names the record.
"""

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from oncelog.client.values.errors import DeserializationError, SerializationError
from oncelog.client.values.records import Header, Headers, K, ProducerRecord, Record, V

T = TypeVar("T")
T_in = TypeVar("T_in", contravariant=True)
T_out = TypeVar("T_out", covariant=True)


class TopicSerializer(Protocol[T_in]):
    """A serializer that depends on the topic or on the headers, as Java's: a schema registry's, say."""

    def serialize(self, topic: str, headers: list[Header], data: T_in, /) -> bytes | None:
        """Return the bytes of `data`, a key or a value. What is appended to `headers` becomes part of the record."""


class TopicDeserializer(Protocol[T_out]):
    """A deserializer that depends on the topic or on the headers: the other direction of `TopicSerializer`."""

    def deserialize(self, topic: str, headers: Headers, data: bytes, /) -> T_out:
        """Return the object that these bytes of a key or value are."""


Serializer = Callable[[T], bytes | None] | TopicSerializer[T]
"""Makes bytes of keys or values: a function of the object, or an object with `serialize(topic, headers, data)`."""
Deserializer = Callable[[bytes], T] | TopicDeserializer[T]
"""Makes objects of bytes: a function of the bytes, or an object with `deserialize(topic, headers, data)`."""


@dataclass(frozen=True)  # with slots, Python 3.11 cannot call Serde[int](...)
class Serde(Generic[T]):
    """A serializer and deserializer in one: `Serde(encode, decode)`."""

    to_bytes: Callable[[T], bytes]
    from_bytes: Callable[[bytes], T]

    def serialize(self, topic: str, headers: list[Header], data: T, /) -> bytes:
        """Return the bytes of `data`: see `TopicSerializer.serialize`."""
        return self.to_bytes(data)

    def deserialize(self, topic: str, headers: Headers, data: bytes, /) -> T:
        """Return the object of these bytes: see `TopicDeserializer.deserialize`."""
        return self.from_bytes(data)


def _to_json(data: Any) -> bytes:
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode()


_LONG = struct.Struct(">q")


def _to_int(data: bytes) -> int:
    number: int
    (number,) = _LONG.unpack(data)
    return number


JSON = Serde[Any](_to_json, json.loads)
"""A serializer of whatever `json` takes, as compact UTF-8."""
STRING = Serde[str](str.encode, bytes.decode)
"""A serializer of text as UTF-8, as Java's StringSerializer."""
INT64 = Serde[int](_LONG.pack, _to_int)
"""A serializer of a signed integer in 8 bytes, the highest first, as Java's LongSerializer."""


def serializing(
    key_serializer: Serializer[K] | None, value_serializer: Serializer[V] | None
) -> Callable[[ProducerRecord[K, V]], ProducerRecord] | None:
    """Return a function that serializes a record's parts; None without serializers. It raises SerializationError; a
    part without a serializer stays as it is."""
    if key_serializer is None and value_serializer is None:
        return None

    def serialized(record: ProducerRecord[K, V]) -> ProducerRecord:
        headers = list(record.headers)
        key: Any = record.key
        value: Any = record.value
        if key is not None and key_serializer is not None:
            key = _serialized("key", key_serializer, record.topic, headers, key)
        if value is not None and value_serializer is not None:
            value = _serialized("value", value_serializer, record.topic, headers, value)
        return ProducerRecord(record.topic, value, key, record.partition, headers, record.timestamp_ms)

    return serialized


def _serialized(part: str, serializer: Serializer[T], topic: str, headers: list[Header], data: T) -> bytes | None:
    try:
        if callable(serializer):
            return serializer(data)
        return serializer.serialize(topic, headers, data)
    except Exception as error:
        raise SerializationError(f"the {part} of a record for {topic!r}: {error!r}") from error


def deserializing(
    key_deserializer: Deserializer[K] | None, value_deserializer: Deserializer[V] | None
) -> Callable[[Record], Record[K, V]] | None:
    """Return a function that deserializes records; None without deserializers. It raises DeserializationError."""
    if key_deserializer is None and value_deserializer is None:
        return None

    def deserialized(record: Record) -> Record[K, V]:
        key: Any = record.key
        value: Any = record.value
        if key is not None and key_deserializer is not None:
            key = _deserialized("key", key_deserializer, record, key)
        if value is not None and value_deserializer is not None:
            value = _deserialized("value", value_deserializer, record, value)
        return Record(record.topic, record.partition, record.offset, record.timestamp_ms, key, value, record.headers)

    return deserialized


def _deserialized(part: str, deserializer: Deserializer[T], record: Record, data: bytes) -> T:
    try:
        if callable(deserializer):
            return deserializer(data)
        return deserializer.deserialize(record.topic, record.headers, data)
    except Exception as error:
        raise DeserializationError(f"the {part}: {error!r}", record=record) from error
