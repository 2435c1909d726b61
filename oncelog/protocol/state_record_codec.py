"""Keys and values of coordinator records: a two-byte type or version, then the message.

A key starts with the record type, a value with the version of its schema (Kafka's CoordinatorRecordSerde).
"""

import sys
from struct import Struct, error
from types import ModuleType
from typing import Any

from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.message import Message

_PREFIX = Struct(">h")


def encode_key(message: Message) -> bytes:
    """Encode type and key; keys have one version, 0."""
    module = _module(message)
    return b"".join((_PREFIX.pack(module.API_KEY), *module.encode(message, module.VERSIONS.start)))


def encode_value(message: Message, version: int) -> bytes:
    return b"".join((_PREFIX.pack(version), *_module(message).encode(message, version)))


def prefix(data: bytes | memoryview) -> int:
    """Return the type of a key, or the version of a value; raises ProtocolError."""
    try:
        return int(_PREFIX.unpack_from(data)[0])
    except error as problem:
        raise ProtocolError(f"a coordinator record of {len(data)} bytes has no type") from problem


def decode(module: ModuleType, data: bytes | memoryview, version: int | None = None) -> Any:
    """Decode the message after the prefix; `version` is passed for keys, and read from the prefix for values."""
    message, _ = module.decode(memoryview(data), prefix(data) if version is None else version, 2)
    return message


def _module(message: Message) -> ModuleType:
    return sys.modules[type(message).__module__]
