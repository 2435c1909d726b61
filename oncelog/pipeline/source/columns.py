"""Record batches as Arrow columns, without an object for each record.

Owns: the columns of the source, as Spark's Kafka source has them, made from the pieces of a range. Does not own:
fetching, isolation. Keys and values are never looked at: the positions of all of them (`protocol.records.bounds`) are
the offsets of one binary array over the bytes as they came, of which Arrow takes every fourth element.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable
from functools import cache
from itertools import chain
from typing import Any

import pyarrow

from oncelog.client.consuming.ranges import RangePiece
from oncelog.client.values.errors import CorruptBatch
from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.records.batch import BatchHeader, uncompressed
from oncelog.protocol.records.bounds import Bounds
from oncelog.protocol.records.record import decode_records

_HEADERS = pyarrow.list_(pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())]))
_TIMESTAMP_MS, _TIMESTAMP_US = pyarrow.timestamp("ms", tz="UTC"), pyarrow.timestamp("us", tz="UTC")
_FIELDS = [
    ("key", pyarrow.binary()),
    ("value", pyarrow.binary()),
    ("topic", pyarrow.string()),
    ("partition", pyarrow.int32()),
    ("offset", pyarrow.int64()),
    ("timestamp", _TIMESTAMP_US),
    ("timestampType", pyarrow.int32()),
]
SCHEMA = pyarrow.schema(_FIELDS)
SCHEMA_WITH_HEADERS = pyarrow.schema([*_FIELDS, ("headers", _HEADERS)])


def columns(
    piece: RangePiece, topic: str, partition: int, start: int, end: int, *, with_headers: bool
) -> pyarrow.RecordBatch | None:
    """Return the records of a piece that lie in [start, end); None if there are none. Raises CorruptBatch."""
    bodies: list[bytes] = []
    bounds, offsets, types = Bounds(), array("q"), array("i")
    header: BatchHeader
    try:
        for header, batch in piece.batches:
            bodies.append(bytes(uncompressed(header, batch)))
        data = bodies[0] if len(bodies) == 1 else b"".join(bodies)
        position = 0
        for (header, batch), body in zip(piece.batches, bodies, strict=True):
            bounds.add(data, position, position + len(body), header.record_count, header.base_timestamp)
            position += len(body)
            offsets.extend(_offsets(header, batch))
            types.extend([int(header.is_log_append_time)] * header.record_count)
            if header.is_log_append_time and header.record_count:
                bounds.timestamps[-header.record_count :] = [header.max_timestamp] * header.record_count
    except ProtocolError as error:
        where = f"{topic}-{partition} at offset {header.base_offset}"
        raise CorruptBatch(f"the batch in {where} cannot be decoded: {error}") from error
    first, last = bisect_left(offsets, start), bisect_left(offsets, end)
    if first == last:
        return None
    count = len(bounds)
    cuts = pyarrow.py_buffer(array("i", bounds.cuts))
    both = pyarrow.Array.from_buffers(pyarrow.binary(), 4 * count, [None, cuts, pyarrow.py_buffer(data)])
    found = [
        _without_nulls(both.take(_every_fourth(1, count)), bounds.null_keys),
        _without_nulls(both.take(_every_fourth(3, count)), bounds.null_values),
        pyarrow.repeat(topic, count),
        pyarrow.repeat(pyarrow.scalar(partition, pyarrow.int32()), count),
        _numbers(offsets, pyarrow.int64()),
        _numbers(array("q", bounds.timestamps), _TIMESTAMP_MS).cast(_TIMESTAMP_US),
        _numbers(types, pyarrow.int32()),
    ]
    if with_headers:
        found.append(_headers(piece))
    whole = pyarrow.RecordBatch.from_arrays(found, schema=SCHEMA_WITH_HEADERS if with_headers else SCHEMA)
    return whole.slice(first, last - first)


def _offsets(header: BatchHeader, batch: memoryview) -> Iterable[int]:
    if header.last_offset_delta == header.record_count - 1:
        return range(header.base_offset, header.next_offset)
    # Compaction has removed records of this batch.
    return [record.offset for record in decode_records(batch)]


def _every_fourth(first: int, count: int) -> pyarrow.Array:
    return _fourths(first, 1 << count.bit_length()).slice(0, count)


@cache
def _fourths(first: int, count: int) -> pyarrow.Array:
    """Return every fourth index, cached and for powers of two only: to make them takes as long as to take by them."""
    return _numbers(array("i", range(first, first + 4 * count, 4)), pyarrow.int32())


def _numbers(values: "array[int]", kind: Any) -> pyarrow.Array:
    return pyarrow.Array.from_buffers(kind, len(values), [None, pyarrow.py_buffer(values)])


def _without_nulls(values: pyarrow.Array, nulls: list[int]) -> pyarrow.Array:
    """Return the array with these elements null."""
    if not nulls:
        return values
    count = len(values)
    if len(nulls) == count:
        return pyarrow.nulls(count, values.type)
    valid = bytearray(b"\xff" * ((count + 7) // 8))
    for index in nulls:
        valid[index >> 3] &= ~(1 << (index & 7))
    _, offsets, data = values.buffers()
    return pyarrow.Array.from_buffers(values.type, count, [pyarrow.py_buffer(valid), offsets, data])


def _headers(piece: RangePiece) -> pyarrow.Array:
    """Return the headers, None for a record without any, as in Spark's Kafka source."""
    records = chain.from_iterable(decode_records(batch) for _, batch in piece.batches)
    return pyarrow.array(
        [[{"key": key, "value": value} for key, value in record.headers] or None for record in records], _HEADERS
    )
