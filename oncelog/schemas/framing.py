"""The bytes in which a record names its schema: a zero, the id in four bytes, and for Protobuf which message of it.

Owns: this wire format of Confluent's. Does not own: what follows it.
"""

from struct import Struct, error

from oncelog.protocol.records.record import zigzag

_HEAD = Struct(">bI")
_FIRST_MESSAGE = b"\x00"
"""The place of the first message of a schema, which is written as one byte."""


class NotFramed(ValueError):
    """Raised for bytes that do not name a schema."""


def framed(schema_id: int, content: bytes) -> bytes:
    """Return content behind the id of its schema."""
    return _HEAD.pack(0, schema_id) + content


def unframed(data: bytes) -> tuple[int, memoryview]:
    """Return the id of the schema, and what follows it. Raises NotFramed."""
    try:
        magic, schema_id = _HEAD.unpack_from(data)
    except error:
        raise NotFramed(f"{len(data)} bytes do not name a schema: that takes five at least") from None
    if magic:
        raise NotFramed(f"the first byte is {data[0]:#04x} and not 0: no serializer of a registry wrote this")
    return schema_id, memoryview(data)[_HEAD.size :]


def message_indexes(path: tuple[int, ...]) -> bytes:
    """Return the place of a message in its schema: the index of a message of the file, of one inside it, and so on."""
    return _FIRST_MESSAGE if path == (0,) else b"".join(map(zigzag, (len(path), *path)))


def read_message_indexes(content: memoryview) -> tuple[tuple[int, ...], memoryview]:
    """Return the place of the message, and what follows it. Raises NotFramed."""
    count, position = _number(content, 0)
    if count == 0:
        return (0,), content[position:]
    if not 0 < count <= len(content):
        raise NotFramed(f"a place of {count} numbers is no place of a message")
    path = []
    for _ in range(count):
        index, position = _number(content, position)
        path.append(index)
    return tuple(path), content[position:]


def _number(content: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(content) and shift < 35:
        byte = content[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
    raise NotFramed("the place of a message ends early")
