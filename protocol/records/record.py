"""Records inside a batch: varint-coded, each relative to its batch's base offset and base timestamp.

Owns: the way from records to bytes and back, uncompressed. Does not own: the batch header (`batch`), codecs
(`compression`). Invariant: a record that is not what its lengths claim raises ProtocolError; nothing is read past the
end, and a batch must hold exactly the records that it announces.
"""

from collections.abc import Sequence
from typing import NamedTuple

from protocol.errors import ProtocolError

Headers = Sequence[tuple[str, bytes | None]]

_NULL = b"\x01"
_MAX_SHIFT = 63


class Record(NamedTuple):
    """One record; `offset` is absolute when decoded, relative to the batch when encoded."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def zigzag(value: int) -> bytes:
    """A signed varint (zigzag, base 128)."""
    value = (value << 1) ^ (value >> 63)
    if 0 <= value < 0x80:
        return bytes((value,))
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_zigzag(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """The signed varint at `position`, and the position after it; raises ProtocolError, or IndexError at the end."""
    byte = data[position]
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    value = byte & 0x7F
    shift = 7
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
        if shift > _MAX_SHIFT:
            raise ProtocolError(f"the varint that ends at byte {position} has more than ten bytes")


def encode_record(record: Record, offset_delta: int, timestamp_delta: int) -> bytes:
    """One record with its length in front."""
    key, value = record.key, record.value
    parts = [b"\x00", zigzag(timestamp_delta), zigzag(offset_delta)]
    if key is None:
        parts.append(_NULL)
    else:
        parts += (zigzag(len(key)), key)
    if value is None:
        parts.append(_NULL)
    else:
        parts += (zigzag(len(value)), value)
    parts.append(zigzag(len(record.headers)))
    for name, content in record.headers:
        encoded = name.encode()
        parts += (zigzag(len(encoded)), encoded)
        if content is None:
            parts.append(_NULL)
        else:
            parts += (zigzag(len(content)), content)
    body = b"".join(parts)
    return zigzag(len(body)) + body


def encode_records(records: Sequence[Record], base_timestamp: int) -> bytes:
    """All records of a batch, numbered from 0."""
    return b"".join(
        [encode_record(record, index, record.timestamp - base_timestamp) for index, record in enumerate(records)]
    )


def decode_body(
    data: bytes | memoryview, record_count: int, base_offset: int, base_timestamp: int, log_append_time: int | None
) -> list[Record]:
    """The records of an uncompressed body; with LogAppendTime every record has the batch's timestamp."""
    data = bytes(data)
    if record_count < 0 or record_count * 7 > len(data) + 7:
        raise ProtocolError(f"{record_count} records do not fit into {len(data)} bytes")
    records: list[Record] = []
    position = 0
    try:
        for _ in range(record_count):
            length, position = read_zigzag(data, position)
            end = position + length
            if length < 0 or end > len(data):
                raise ProtocolError(f"a record of {length} bytes at byte {position} of {len(data)}")
            timestamp_delta, position = read_zigzag(data, position + 1)
            offset_delta, position = read_zigzag(data, position)
            key, position = _read_bytes(data, position, end)
            value, position = _read_bytes(data, position, end)
            header_count, position = read_zigzag(data, position)
            headers: Headers = ()
            if header_count:
                headers, position = _read_headers(data, position, end, header_count)
            if position != end:
                raise ProtocolError(f"a record ends at byte {position} instead of {end}")
            timestamp = base_timestamp + timestamp_delta if log_append_time is None else log_append_time
            records.append(Record(base_offset + offset_delta, timestamp, key, value, headers))
    except (IndexError, UnicodeDecodeError) as error:
        raise ProtocolError(f"record {len(records)} is malformed: {error}") from error
    if position != len(data):
        raise ProtocolError(f"{len(data) - position} bytes are left behind the last of {record_count} records")
    return records


def _read_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = read_zigzag(data, position)
    if length == -1:
        return None, position
    stop = position + length
    if length < 0 or stop > end:
        raise ProtocolError(f"{length} bytes are announced at byte {position}, {end - position} are left")
    return data[position:stop], stop


def _read_headers(data: bytes, position: int, end: int, count: int) -> tuple[Headers, int]:
    if not 0 <= count <= (end - position) // 2:
        raise ProtocolError(f"{count} headers are announced, {end - position} bytes are left")
    headers = []
    for _ in range(count):
        name, position = _read_bytes(data, position, end)
        if name is None:
            raise ProtocolError(f"the header before byte {position} has no name")
        content, position = _read_bytes(data, position, end)
        headers.append((name.decode(), content))
    return tuple(headers), position


def decode_records(batch: memoryview, max_bytes: int | None = None) -> list[Record]:
    """The records of a whole batch, decompressed if need be (to at most `max_bytes`); raises ProtocolError."""
    from protocol.records.batch import HEADER_SIZE, read_header

    header = read_header(batch)
    if header.size_in_bytes > len(batch) or header.size_in_bytes < HEADER_SIZE:
        raise ProtocolError(f"a batch of {header.size_in_bytes} bytes is announced, {len(batch)} are there")
    body: bytes | memoryview = batch[HEADER_SIZE : header.size_in_bytes]
    if header.compression_type:
        from protocol.records.compression import decompress

        body = decompress(header.compression_type, body, max_bytes)
    log_append_time = header.max_timestamp if header.is_log_append_time else None
    return decode_body(body, header.record_count, header.base_offset, header.base_timestamp, log_append_time)
