"""Record batches, magic 2 (KIP-98): a header of 61 bytes, then the records.

Owns: the header's layout, its checksum, iterating over batches. Does not own: the records (`record`). The readable
declaration is `protocol.records.formats.BATCH_HEADER`; a property test compares this optimised form with it.

Base offset and partition leader epoch lie outside the checksum, so that a broker stamps them without touching it.
"""

from collections.abc import Iterator, Sequence
from struct import Struct, error
from typing import Final, NamedTuple

from oncelog.protocol.checksum import crc32c
from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.records.record import Record, TupleT, decode_as, encode_records

HEADER_SIZE: Final = 61
LENGTH_OVERHEAD: Final = 12
"""The size of base offset and batch length, which the batch length does not include."""
MAGIC: Final = 2

# Where a field begins, for code that reads single fields of a header.
LENGTH_AT: Final = 8
MAGIC_AT: Final = 16
CRC_AT: Final = 17
CRC_COVERS_FROM: Final = 21
ATTRIBUTES_AT: Final = 21
FLAGS_AT: Final = 22
"""The place of the lower byte of the attributes: all bits that have a meaning so far."""
LAST_OFFSET_DELTA_AT: Final = 23
BASE_TIMESTAMP_AT: Final = 27
MAX_TIMESTAMP_AT: Final = 35
PRODUCER_ID_AT: Final = 43
PRODUCER_EPOCH_AT: Final = 51
BASE_SEQUENCE_AT: Final = 53
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
SEQUENCE_MASK: Final = 0x7FFFFFFF
"""The mask of sequences, which wrap after 2^31 - 1."""

COMPRESSION_MASK: Final = 0x07
TIMESTAMP_TYPE_MASK: Final = 0x08
TRANSACTIONAL_MASK: Final = 0x10
CONTROL_MASK: Final = 0x20
DELETE_HORIZON_MASK: Final = 0x40
"""The flag of a compacted batch whose base timestamp is when its tombstones and markers may be removed (KIP-534)."""

PREFIX: Final = Struct(">qii")
"""The layout of base offset, batch length and partition leader epoch: everything outside the checksum."""
SPAN: Final = Struct(">qi11xiqq")
"""The layout of the header up to its max timestamp, and of it base offset, batch length, last offset delta and both
timestamps."""
_HEADER: Final = Struct(">qiibIhiqqqhii")
_BEFORE_BODY: Final = Struct(">qiibI")
_BODY: Final = Struct(">hiqqqhii")
# A NamedTuple's own constructor is a Python function that does only this.
_new_header: Final = tuple.__new__


class BatchHeader(NamedTuple):
    """The header's fields, as in Kafka's DefaultRecordBatch."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_MASK != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_MASK != 0

    @property
    def compression_type(self) -> int:
        """The codec: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & COMPRESSION_MASK

    @property
    def is_log_append_time(self) -> bool:
        return self.attributes & TIMESTAMP_TYPE_MASK != 0

    @property
    def has_delete_horizon(self) -> bool:
        return self.attributes & DELETE_HORIZON_MASK != 0

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The last sequence, which wraps after 2^31 - 1; -1 when the batch has none."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & SEQUENCE_MASK

    @property
    def size_in_bytes(self) -> int:
        """The size of the whole batch, header included."""
        return self.batch_length + LENGTH_OVERHEAD


def read_header(view: bytes | memoryview, position: int = 0) -> BatchHeader:
    """Return the header at `position`, not validated. Raises ProtocolError when fewer than 61 bytes are left."""
    try:
        return _new_header(BatchHeader, _HEADER.unpack_from(view, position))
    except error:
        raise ProtocolError(f"a batch header needs {HEADER_SIZE} bytes, {len(view) - position} are left") from None


def check_crc(batch: memoryview) -> bool:
    """Whether the checksum of exactly this one batch is correct."""
    return crc32c(batch[CRC_COVERS_FROM:]) == int.from_bytes(batch[CRC_AT:CRC_COVERS_FROM], "big")


def iter_batches(view: memoryview) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield complete batches in order; a partial one at the end, as a Fetch may return, is left out."""
    position = 0
    end = len(view)
    while end - position >= HEADER_SIZE:
        header = read_header(view, position)
        size = header.batch_length + LENGTH_OVERHEAD
        if size < HEADER_SIZE:
            raise ProtocolError(f"the batch at byte {position} announces {size} bytes")
        if size > end - position:
            return
        yield header, view[position : position + size]
        position += size


def decode_batch(
    header: BatchHeader,
    batch: memoryview,
    kind: type[TupleT],
    place: tuple[str, int] | None,
    max_bytes: int | None = None,
) -> list[TupleT]:
    """Return the records of a whole batch, as those of `decode_as`, decompressed if necessary (to at most `max_bytes`);
    raises ProtocolError, also if they are not exactly as many as the header announces."""
    body = uncompressed(header, batch, max_bytes)
    log_append_time = header.max_timestamp if header.attributes & TIMESTAMP_TYPE_MASK else None
    return decode_as(kind, place, body, header.record_count, header.base_offset, header.base_timestamp, log_append_time)


def uncompressed(header: BatchHeader, batch: memoryview, max_bytes: int | None = None) -> bytes | memoryview:
    """Return the body of a whole batch, decompressed if necessary (to at most `max_bytes`); raises ProtocolError. Only
    who counts the records in it knows that it is whole."""
    # Its properties would cost more than the fields.
    size, codec = header.batch_length + LENGTH_OVERHEAD, header.attributes & COMPRESSION_MASK
    if size > len(batch) or size < HEADER_SIZE:
        raise ProtocolError(f"a batch of {size} bytes is announced, {len(batch)} are present")
    body = batch[HEADER_SIZE:size]
    if not codec:
        return body
    from oncelog.protocol.records.compression import decompress

    return decompress(codec, body, max_bytes)


def encode_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    compression: str = "none",
    transactional: bool = False,
    control: bool = False,
    log_append_time: bool = False,
    partition_leader_epoch: int = -1,
) -> bytes:
    """Encode a batch of at least one record, numbered from `base_offset`. Timestamps are the records' own (CreateTime);
    with LogAppendTime all have the same."""
    base_timestamp = records[0].timestamp
    body = encode_records(records, base_timestamp)
    attributes = TRANSACTIONAL_MASK if transactional else 0
    if control:
        attributes |= CONTROL_MASK
    if log_append_time:
        attributes |= TIMESTAMP_TYPE_MASK
    if compression != "none":
        from oncelog.protocol.records.compression import CODECS, compress

        attributes |= CODECS[compression]
        body = compress(CODECS[compression], body)
    count = len(records)
    max_timestamp = base_timestamp if count == 1 else max([record.timestamp for record in records])
    tail = attributes, count - 1, base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, count
    return _with_checksum(base_offset, partition_leader_epoch, _BODY.pack(*tail), body)


def assemble_batch(
    body: bytes | memoryview,
    *,
    attributes: int,
    record_count: int,
    base_timestamp: int,
    max_timestamp: int,
    base_offset: int = 0,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    partition_leader_epoch: int = -1,
    last_offset_delta: int | None = None,
) -> bytes:
    """Return header and checksum around an encoded (and compressed) body of `record_count` records.

    `last_offset_delta` is passed where records are missing: in a batch of a compacted log.
    """
    tail = _BODY.pack(
        attributes,
        record_count - 1 if last_offset_delta is None else last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    return _with_checksum(base_offset, partition_leader_epoch, tail, body)


def stamp_producer(
    batch: bytes | memoryview, *, producer_id: int, producer_epoch: int, base_sequence: int, transactional: bool
) -> bytes:
    """Return a copy of a batch under another producer, with the checksum that it then has; its records stay as they
    are."""
    header = read_header(batch)
    attributes = header.attributes & ~TRANSACTIONAL_MASK | (TRANSACTIONAL_MASK if transactional else 0)
    tail = _BODY.pack(
        attributes,
        header.last_offset_delta,
        header.base_timestamp,
        header.max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        header.record_count,
    )
    return _with_checksum(header.base_offset, header.partition_leader_epoch, tail, memoryview(batch)[HEADER_SIZE:])


def assemble_head(body: bytes | memoryview, *, attributes: int, record_count: int, timestamp_ms: int) -> bytes:
    """Return the header, with its checksum, of a body that belongs to no producer yet, and whose records have one time.
    The batch is both, one behind the other: a large body need not be copied."""
    tail = _BODY.pack(
        attributes,
        record_count - 1,
        timestamp_ms,
        timestamp_ms,
        NO_PRODUCER_ID,
        NO_PRODUCER_EPOCH,
        NO_SEQUENCE,
        record_count,
    )
    return _head(0, -1, tail, body)


def _with_checksum(base_offset: int, partition_leader_epoch: int, tail: bytes, body: bytes | memoryview) -> bytes:
    """Return the batch of a header from the attributes on, and a body."""
    return b"".join((_head(base_offset, partition_leader_epoch, tail, body), body))


def _head(base_offset: int, partition_leader_epoch: int, tail: bytes, body: bytes | memoryview) -> bytes:
    length = HEADER_SIZE - LENGTH_OVERHEAD + len(body)
    return _BEFORE_BODY.pack(base_offset, length, partition_leader_epoch, MAGIC, crc32c(body, crc32c(tail))) + tail
