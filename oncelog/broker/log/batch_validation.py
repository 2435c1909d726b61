"""Decides whether one record batch may be appended, and with which error it is rejected.

Owns: the checks of framing, checksum, counts, timestamps and keys. Does not own: sequences, epochs (`producer_state`).
Invariants
- Any consumer can read an accepted batch, as far as can be checked without decoding every record; with
  `oncelog.record.validation=full` each record is decoded.
- A body that the broker encodes again is one whose records are all there, whatever the validation: `CheckedBody` comes
  from `checked` only, which counts them.
Error codes are those of Kafka's LogValidator, except where Kafka responds with UNKNOWN_SERVER_ERROR: we return a
specific code. KIP-98 (magic 2), KIP-110 (zstd).
"""

from typing import Final, NewType

from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.values import AppendOrigin
from oncelog.broker.turns.ports import WallMs
from oncelog.broker.turns.slices import Sliced, at_once
from oncelog.protocol.checksum import crc32c
from oncelog.protocol.errors import DecompressedSizeError, ErrorCode, InvalidRecordsError, KafkaError, ProtocolError
from oncelog.protocol.records.batch import (
    COMPRESSION_MASK,
    CONTROL_MASK,
    CRC_COVERS_FROM,
    HEADER_SIZE,
    LENGTH_AT,
    LENGTH_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    TRANSACTIONAL_MASK,
    BatchHeader,
    read_header,
)

_SHORTEST_RECORDS_BYTES: Final = 14  # the overhead of magic 0, below which Kafka calls the framing corrupt
_LAST_KNOWN_COMPRESSION: Final = 4
_WALKED_RECORDS: Final = 64
_SHOWN_RECORDS: Final = 3
MAX_DECOMPRESSED_BYTES: Final = 128 * 1024 * 1024
"""More than any consumer is likely to accept, and the most that decompressing one batch may cost the broker."""
_NO_TIMESTAMP: Final = -1
MAX_CHECKED_RECORDS: Final = 500_000
"""A compressed kilobyte can hold millions of records: checking this many takes about a second."""
_MAX_BLAMED_RECORDS: Final = 100
_MAX_TIMESTAMPS_READ: Final = 1_000
AT_ONCE_BYTES: Final = 16 * 1024
AT_ONCE_RECORDS: Final = 100
"""The largest batch that is opened in the turn of its append. Measured: 0.2 ms; a request may have a hundred such
batches."""
_AT_ONCE_PARTS: Final = 16
"""The most compressed frames of such a batch: an empty one of zstd takes 23 µs, and has 9 bytes."""
CheckedBody = NewType("CheckedBody", memoryview)
"""The uncompressed records of a batch, as many as its header announces, with nothing behind them."""
# Snappy has no magic number that all clients write.
_COMPRESSION_MAGIC: Final = {1: b"\x1f\x8b", 3: b"\x04\x22\x4d\x18", 4: b"\x28\xb5\x2f\xfd"}
_ZSTD: Final = 4
_SKIPPABLE: Final = b"\x2a\x4d\x18"
"""The end of the magic number of a skippable zstd frame, after a byte from 0x50 to 0x5f."""


class LongBatch(Exception):
    """To open this batch takes longer than a turn: `opening` does it beside the loop, and in slices."""

    def __init__(self, config: LogConfig) -> None:
        super().__init__()
        self.config = config


def validate_batch(batch: memoryview, config: LogConfig, wall_ms: WallMs, origin: AppendOrigin) -> BatchHeader:
    """The header of the only batch in `batch`. Raises KafkaError, and LongBatch."""
    header = validate_header(batch, config, wall_ms, origin)
    if origin is AppendOrigin.CLIENT:
        _check_records(batch, header, config, wall_ms)
    return header


def validate_header(batch: memoryview, config: LogConfig, wall_ms: WallMs, origin: AppendOrigin) -> BatchHeader:
    """All checks but those of the records. Raises KafkaError."""
    size = len(batch)
    if size < HEADER_SIZE:
        raise _framing_error(batch)
    header = read_header(batch)
    if header.magic != MAGIC or header.batch_length != size - LENGTH_OVERHEAD:
        raise _framing_error(batch)
    if origin is not AppendOrigin.METADATA:  # the metadata log has no topic config in which to raise the limits
        check_size(size, config)
    if crc32c(batch[CRC_COVERS_FROM:]) != header.crc:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "the checksum of the batch does not match its bytes")
    if header.attributes & CONTROL_MASK:
        raise _invalid("a control batch, which only the broker may write")
    record_count = header.record_count
    if record_count <= 0 or header.last_offset_delta + 1 != record_count:
        raise _invalid(f"{record_count} records but a last offset delta of {header.last_offset_delta}")
    if origin is AppendOrigin.CLIENT:
        _check_client_header(header)
        if not config.is_log_append_time:
            _check_timestamps(batch, header, config, wall_ms)
    return header


def is_framed(batch: memoryview) -> bool:
    """Whether this is exactly one batch of magic 2, by its header. Kafka looks at this before all else, also before it
    adds partitions to a transaction."""
    size = len(batch)
    if size < HEADER_SIZE or batch[MAGIC_AT] != MAGIC:
        return False
    return int.from_bytes(batch[LENGTH_AT:LENGTH_OVERHEAD], "big", signed=True) == size - LENGTH_OVERHEAD


def check_size(size_bytes: int, config: LogConfig) -> None:
    """Raise KafkaError for a batch that is too large for the topic: as in Kafka also for one of a coordinator."""
    if size_bytes > config.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {size_bytes} bytes, max.message.bytes is {config.max_message_bytes}",
        )
    if size_bytes > config.segment_bytes:
        raise KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"the batch has {size_bytes} bytes, segment.bytes is {config.segment_bytes}",
        )


def _framing_error(batch: memoryview) -> KafkaError:
    """Why this is not exactly one batch of magic 2, by the first field that is wrong."""
    available = len(batch)
    if available <= MAGIC_AT:
        return _invalid("no whole batch")
    length = int.from_bytes(batch[LENGTH_AT:LENGTH_OVERHEAD], "big", signed=True)
    magic = batch[MAGIC_AT]
    if length < _SHORTEST_RECORDS_BYTES or magic > MAGIC:
        return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a batch of length {length} and magic {magic}")
    size = LENGTH_OVERHEAD + length
    if size > available:
        return _invalid(f"the batch claims {size} bytes, the request has {available}")
    if magic != MAGIC:
        return _invalid(f"magic {magic}, only {MAGIC} is accepted")
    if size < available:
        return _invalid("more than one batch for the partition")
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a batch of {size} bytes, its header alone has {HEADER_SIZE}")


def _check_client_header(header: BatchHeader) -> None:
    attributes = header.attributes
    if header.base_offset != 0:
        raise _invalid(f"base offset {header.base_offset}, a producer sends 0")
    if attributes & COMPRESSION_MASK > _LAST_KNOWN_COMPRESSION:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"compression {attributes & COMPRESSION_MASK} is not defined"
        )
    if header.producer_id >= 0:
        if header.base_sequence < 0 or header.producer_epoch < 0:
            raise _invalid(f"producer {header.producer_id} without an epoch and a sequence")
    elif attributes & TRANSACTIONAL_MASK:
        raise _invalid("a transactional batch without a producer id")


def _check_timestamps(batch: memoryview, header: BatchHeader, config: LogConfig, wall_ms: WallMs) -> None:
    is_late = header.max_timestamp > wall_ms + config.message_timestamp_after_max_ms
    if is_late or _is_early(header.base_timestamp, header.base_timestamp, config, wall_ms):
        body = batch[HEADER_SIZE:]
        try:
            if header.compression_type:
                from oncelog.protocol.records.compression import beginning

                body = memoryview(beginning(header.compression_type, body))
        except (KafkaError, ProtocolError):
            body = memoryview(b"")  # the batch is rejected anyway
        raise _out_of_range(body, header, config, wall_ms)


def _is_early(base_timestamp: int, timestamp: int, config: LogConfig, wall_ms: WallMs) -> bool:
    return base_timestamp != _NO_TIMESTAMP and timestamp < wall_ms - config.message_timestamp_before_max_ms


def _out_of_range(body: memoryview, header: BatchHeader, config: LogConfig, wall_ms: WallMs) -> InvalidRecordsError:
    """Blame those at fault among the first records, as far as they can be read. Bounded: to reject a batch must stay
    cheap, and a small batch must not have a large response.
    """
    earliest_ms = wall_ms - config.message_timestamp_before_max_ms
    latest_ms = wall_ms + config.message_timestamp_after_max_ms
    blamed: list[tuple[int, str]] = []
    position = 0
    try:
        for index in range(min(header.record_count, _MAX_TIMESTAMPS_READ)):
            timestamp_delta, _, position = _check_record(body, position, len(body))
            timestamp = header.base_timestamp + timestamp_delta
            if timestamp != _NO_TIMESTAMP and not earliest_ms <= timestamp <= latest_ms:
                text = f"Timestamp {timestamp} of message with offset {index} is out of range."
                blamed.append((index, f"{text} The timestamp should be within [{earliest_ms}, {latest_ms}]"))
    except (KafkaError, ProtocolError):
        pass  # the batch is rejected anyway
    text = "One or more records have been rejected due to invalid timestamp"
    if not blamed:
        text = f"{text}: they should be within [{earliest_ms}, {latest_ms}]"
    return InvalidRecordsError(ErrorCode.INVALID_TIMESTAMP, text, tuple(blamed[:_MAX_BLAMED_RECORDS]))


def _check_records(batch: memoryview, header: BatchHeader, config: LogConfig, wall_ms: WallMs) -> None:
    """Under `full`, and for the keys of a compacted topic, every record; otherwise what the length walk shows. A batch
    that is encoded again has every record counted then (`recompression`)."""
    compression = header.attributes & COMPRESSION_MASK
    body = batch[HEADER_SIZE:]
    if config.checks_every_record:
        checked_at_once(batch, header, config, wall_ms)
    elif not compression:
        _walk_records(body, header.record_count)
    else:
        magic = _COMPRESSION_MAGIC.get(compression)
        if magic is not None and body[: len(magic)] != magic and not (compression == _ZSTD and _is_skippable(body)):
            raise _invalid("the records are not compressed as the batch claims")


def _is_skippable(body: memoryview) -> bool:
    return len(body) > 0 and body[0] & 0xF0 == 0x50 and bytes(body[1:4]) == _SKIPPABLE


def decompressed(compression: int, body: memoryview, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> bytearray:
    """The records' bytes. Raises INVALID_RECORD if they cannot be decompressed or exceed `max_bytes`."""
    from oncelog.protocol.records.compression import decompress_in_steps  # not at the start

    try:
        return decompress_in_steps(compression, body, max_bytes)
    except ProtocolError as error:
        raise _invalid(str(error)) from error


def checked_at_once(batch: memoryview, header: BatchHeader, config: LogConfig, wall_ms: WallMs) -> CheckedBody:
    """The records of a batch, opened and `checked` in this turn. Raises LongBatch if they are more than
    `AT_ONCE_RECORDS`, or have more than `AT_ONCE_BYTES` before or after decompression."""
    if header.record_count > AT_ONCE_RECORDS:
        raise LongBatch(config)
    body = batch[HEADER_SIZE:]
    if header.attributes & COMPRESSION_MASK:
        body = memoryview(_opened_at_once(header.compression_type, body, config))
    return at_once(checked(body, header, config, wall_ms))


def _opened_at_once(compression: int, body: memoryview, config: LogConfig) -> bytes:
    from oncelog.protocol.records.compression import decompress

    if len(body) > AT_ONCE_BYTES:  # however little it becomes
        raise LongBatch(config)
    try:
        return decompress(compression, body, AT_ONCE_BYTES, _AT_ONCE_PARTS)
    except DecompressedSizeError as error:
        raise LongBatch(config) from error
    except ProtocolError as error:
        raise _invalid(str(error)) from error


def _walk_records(body: memoryview, record_count: int) -> None:
    """Check the first record fully and skip over up to 64 by their lengths: a wrong count ends in the wrong place."""
    end = len(body)
    _, _, position = _check_record(body, 0, end)
    for _ in range(1, min(record_count, _WALKED_RECORDS)):
        length, position = _record_length(body, position, end)
        position += length
    if record_count <= _WALKED_RECORDS:
        _check_end(position, end, record_count)


def _check_end(position: int, end: int, record_count: int) -> None:
    if position != end:
        raise _invalid(f"{end - position} bytes follow the last of {record_count} records")


def checked(body: memoryview, header: BatchHeader, config: LogConfig, wall_ms: WallMs) -> Sliced[CheckedBody]:
    """Check every record, without keeping any, or count them by their lengths if the topic asks for no more. Yields how
    many were looked at since last. Raises KafkaError."""
    if header.record_count > MAX_CHECKED_RECORDS:
        raise _invalid(f"{header.record_count} records in one batch, at most {MAX_CHECKED_RECORDS} are checked")
    yield from _check_all(body, header, config, wall_ms) if config.checks_every_record else _count_all(body, header)
    return CheckedBody(body)


def stored_problem(batch: memoryview, header: BatchHeader) -> str | None:
    """Open a whole batch of a log, from any writer, and return why its records are not those that its header announces;
    None if they are. Compaction leaves gaps between their offsets."""
    body = batch[HEADER_SIZE:]
    try:
        if header.compression_type:
            body = memoryview(decompressed(header.compression_type, body))
        _check_offsets(body, header)
    except KafkaError as error:
        return error.message
    return None


def _check_offsets(body: memoryview, header: BatchHeader) -> None:
    end = len(body)
    position, before = 0, -1
    for _ in range(header.record_count):
        if position >= end:
            raise _invalid(f"{header.record_count} records are announced, and fewer are there")
        _, at = _record_length(body, position, end)
        _, at = _varint(body, at + 1, end, 10)
        delta, _ = _varint(body, at, end)
        if not before < delta <= header.last_offset_delta:
            raise _invalid(f"a record of offset {header.base_offset + delta} where a later one is expected, or none")
        before = delta
        _, _, position = _check_record(body, position, end)
    _check_end(position, end, header.record_count)


def _count_all(body: memoryview, header: BatchHeader) -> Sliced[None]:
    end = len(body)
    _, _, position = _check_record(body, 0, end)
    for index in range(1, header.record_count):
        length, position = _record_length(body, position, end)
        position += length
        if index % AT_ONCE_RECORDS == 0:
            yield AT_ONCE_RECORDS
    _check_end(position, end, header.record_count)


def _check_all(body: memoryview, header: BatchHeader, config: LogConfig, wall_ms: WallMs) -> Sliced[None]:
    position = 0
    end = len(body)
    without_key: list[int] = []
    earliest_delta = 0
    for index in range(header.record_count):
        timestamp_delta, has_key, position = _check_record(body, position, end)
        if not has_key:
            without_key.append(index)
        earliest_delta = min(earliest_delta, timestamp_delta)
        if index % AT_ONCE_RECORDS == AT_ONCE_RECORDS - 1:
            yield AT_ONCE_RECORDS
    _check_end(position, end, header.record_count)
    if without_key and config.is_compacted:
        raise _without_keys(without_key)
    earliest = header.base_timestamp + earliest_delta
    if not config.is_log_append_time and _is_early(header.base_timestamp, earliest, config, wall_ms):
        raise _out_of_range(body, header, config, wall_ms)


def _without_keys(indexes: list[int]) -> InvalidRecordsError:
    text = "A compacted topic rejects records without a key."
    shown = ", ".join(str(index) for index in indexes[:_SHOWN_RECORDS])
    return InvalidRecordsError(
        ErrorCode.INVALID_RECORD,
        f"{text} {len(indexes)} of the batch have none, the first of them: {shown}.",
        tuple((index, text) for index in indexes[:_MAX_BLAMED_RECORDS]),
    )


def _record_length(body: memoryview, position: int, end: int) -> tuple[int, int]:
    if position + 1 < end and (byte := body[position]) > 0x7F > body[position + 1]:  # spelt out: most records
        length, position = body[position + 1] << 6 | (byte & 0x7F) >> 1, position + 2
        length = -length - 1 if byte & 1 else length
    else:
        length, position = _varint(body, position, end)
    if not 0 < length <= end - position:
        raise _invalid(f"a record of length {length} with {end - position} bytes left")
    return length, position


def _check_record(body: memoryview, position: int, body_end: int) -> tuple[int, bool, int]:
    """The record's timestamp delta, whether it has a key, and where it ends."""
    length, position = _record_length(body, position, body_end)
    end = position + length
    if length > 2 and (byte := body[position + 1]) < 0x80 and body[position + 2] < 0x80:  # spelt out: most records
        timestamp_delta = (byte >> 1) ^ -(byte & 1)
        position += 3
    else:
        timestamp_delta, position = _varint(body, position + 1, end, 10)  # after the attributes
        _, position = _varint(body, position, end)  # offset delta
    key_length, position = _varint(body, position, end)  # every negative length is a null, as in Kafka
    position += max(0, key_length)
    length, position = _varint(body, position, end)
    position += max(0, length)
    if position + 1 == end and body[position] == 0:  # no headers: most records
        return timestamp_delta, key_length >= 0, end
    header_count, position = _varint(body, position, end)
    if not 0 <= header_count <= (end - position) // 2:
        raise _invalid(f"{header_count} headers with {end - position} bytes left")
    for _ in range(header_count):
        name_length, position = _varint(body, position, end)
        if name_length < 0:
            raise _invalid("a record header without a key")
        length, position = _varint(body, position + name_length, end)
        position += max(0, length)
    if position != end:
        raise _invalid("a record's fields do not fill its length")
    return timestamp_delta, key_length >= 0, end


def _varint(batch: memoryview, position: int, end: int, limit: int = 5) -> tuple[int, int]:
    if position < end and (byte := batch[position]) < 0x80:  # most deltas, and short lengths
        return (byte >> 1) ^ -(byte & 1), position + 1
    if position + 1 < end and (second := batch[position + 1]) < 0x80:
        value = byte & 0x7F | second << 7
        return (value >> 1) ^ -(value & 1), position + 2
    value = shift = 0
    last = min(end, position + limit)
    while position < last:
        byte = batch[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
    raise _invalid("a varint is too long or truncated")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, message)
