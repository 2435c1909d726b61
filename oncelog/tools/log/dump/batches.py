"""The batches and records of a `.log` or `.checkpoint` file, as far as they can be read.

Owns: the rows of a log, and its problems. Does not own: the formats, the table (`tables`), the meaning of keys and
values (`decoders`). A batch with a wrong checksum is shown, and so is the one after it.
"""

from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath
from struct import Struct, error
from typing import Any

from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.records.batch import (
    HEADER_SIZE,
    LENGTH_AT,
    LENGTH_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    NO_SEQUENCE,
    SEQUENCE_MASK,
    BatchHeader,
    check_crc,
    read_header,
    uncompressed,
)
from oncelog.protocol.records.record import Record, decode_body, decode_records, read_zigzag
from oncelog.tools.log.dump.decoders import Decode
from oncelog.tools.log.dump.findings import Findings
from oncelog.tools.log.read_only_disk import SegmentFile
from oncelog.tools.terminal import Row

MAX_INT = 2**31 - 1

_BOOTSTRAP = "bootstrap.checkpoint"
_OFFSET_DIGITS = 20
_UP_TO_MAGIC_BYTES = MAGIC_AT + 1
_MIN_BATCH_LENGTH = 14  # of Kafka's first format
_CHUNK_BYTES = 1024 * 1024
_CONTROL_TYPES = (
    "ABORT",
    "COMMIT",
    "LEADER_CHANGE",
    "SNAPSHOT_HEADER",
    "SNAPSHOT_FOOTER",
    "KRAFT_VERSION",
    "KRAFT_VOTERS",
)
_END_TXN_TYPES = ("ABORT", "COMMIT")
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_TWO_SHORTS, _SHORT_AND_INT = Struct(">hh"), Struct(">hi")


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The parts of a log that are shown."""

    decode: Decode
    is_deep: bool = False
    """Whether to print one line per record."""
    print_data: bool = False
    """Whether to print keys and values too."""
    skip_record_metadata: bool = False
    max_bytes: int = MAX_INT
    """The position past which nothing is printed."""


def dump_log(file: SegmentFile, path: str, options: LogOptions, findings: Findings) -> Iterator[Row]:
    """Yield a row for each batch of one file, and with `is_deep` for its records; problems go to `findings`."""
    name = PurePath(path).name
    end = min(file.size_bytes, options.max_bytes)
    position, last_offset = 0, -1
    next_offset = 0 if name == _BOOTSTRAP else int(name[:_OFFSET_DIGITS])
    for batch in _batches(file, path, end, findings):
        header = read_header(batch)
        is_valid = len(batch) == header.size_in_bytes and check_crc(batch)
        yield _batch_row(header, position, is_valid)
        if not is_valid or header.magic != MAGIC:
            problem = "the checksum of the batch does not match its bytes"
            if is_valid:
                problem = f"the batch has format {header.magic}, {MAGIC} is the newest known"
            findings.add_problem(path, problem, position, header.base_offset)
        if options.is_deep:
            for row in _records(batch, header, position, path, options, findings):
                if row["offset"] != last_offset + 1:
                    findings.add_pair("offset_gap", path, last_offset, row["offset"])
                last_offset = row["offset"]
                yield row
        position += header.size_in_bytes
        next_offset = header.next_offset
    if file.size_bytes > position and options.max_bytes == MAX_INT and findings.last_position(path) != position:
        problem = f"the last {file.size_bytes - position} bytes hold no whole batch"
        findings.add_problem(path, problem, position, next_offset)


def _batches(file: SegmentFile, path: str, end: int, findings: Findings) -> Iterator[memoryview]:
    """Yield batch after batch by their lengths, whatever their checksums."""
    position, chunk, chunk_start = 0, memoryview(b""), 0
    while position < end - _UP_TO_MAGIC_BYTES:
        at = position - chunk_start
        if at + HEADER_SIZE > len(chunk) or at + _size_at(chunk, at) > len(chunk):
            chunk, chunk_start, at = file.read_view(position, position + _CHUNK_BYTES), position, 0
            chunk = file.read_view(position, position + max(_CHUNK_BYTES, _size_at(chunk, 0)))
        size_bytes = _size_at(chunk, at)
        problem = None
        if size_bytes < LENGTH_OVERHEAD + _MIN_BATCH_LENGTH:
            problem = f"no batch begins here: it would have {size_bytes} bytes"
        elif size_bytes > end - position:
            return
        elif chunk[at + MAGIC_AT] < MAGIC:
            problem = "this batch has a format older than Kafka 0.11, which is not supported"
        elif at + HEADER_SIZE > len(chunk):
            problem = "the header of the batch is cut off"
        if problem is not None:
            offset = int.from_bytes(chunk[at : at + LENGTH_AT], "big", signed=True)
            findings.add_problem(path, problem, position, offset)
            return
        yield chunk[at : at + max(size_bytes, HEADER_SIZE)]
        position += size_bytes


def _size_at(chunk: memoryview, at: int) -> int:
    return LENGTH_OVERHEAD + int.from_bytes(chunk[at + LENGTH_AT : at + LENGTH_OVERHEAD], "big", signed=True)


def _batch_row(header: BatchHeader, position: int, is_valid: bool) -> Row:
    kind = header.compression_type
    return {
        "kind": "batch",
        "position": position,
        "size_bytes": header.size_in_bytes,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "record_count": header.record_count,
        "base_sequence": header.base_sequence,
        "last_sequence": header.last_sequence,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "partition_leader_epoch": header.partition_leader_epoch,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        "delete_horizon_ms": header.base_timestamp if header.has_delete_horizon else None,
        "timestamp_type": "LogAppendTime" if header.is_log_append_time else "CreateTime",
        "max_timestamp": header.max_timestamp,
        "magic": header.magic,
        "compression": _CODECS[kind] if kind < len(_CODECS) else str(kind),
        "crc": header.crc,
        "is_valid": is_valid,
    }


def _records(
    batch: memoryview, header: BatchHeader, position: int, path: str, options: LogOptions, findings: Findings
) -> Iterator[Row]:
    if not header.record_count:
        return  # emptied by compaction
    try:
        records = decode_records(batch)
    except ProtocolError as problem:
        records = list(_whole_records(batch, header))
        offset = records[-1].offset + 1 if records else header.base_offset
        findings.add_problem(path, str(problem), position, offset)
    for record in records:
        row: Row = {"kind": "record", "offset": record.offset}
        if not options.skip_record_metadata:
            row |= _record_metadata(header, record)
        try:
            if header.is_control:
                control = _control_of(record)
                row |= {} if options.skip_record_metadata else control
            elif options.print_data:
                decoded = options.decode(record)
                row |= _content("key", record.key, decoded.key) | _content("value", record.value, decoded.value)
        except ProtocolError as problem:
            findings.add_problem(path, str(problem), position, record.offset)
        yield row


def _record_metadata(header: BatchHeader, record: Record) -> Row:
    sequence = NO_SEQUENCE
    if header.base_sequence >= 0:
        sequence = (header.base_sequence + record.offset - header.base_offset) & SEQUENCE_MASK
    return {
        "timestamp": record.timestamp,
        "key_bytes": -1 if record.key is None else len(record.key),
        "value_bytes": -1 if record.value is None else len(record.value),
        "sequence": sequence,
        "header_keys": [name for name, _ in record.headers],
    }


def _content(name: str, data: bytes | None, decoded: Any) -> Row:
    """Return a value by its name; text that is not the exact bytes is given as base64 too."""
    if not isinstance(decoded, str) or data is None or decoded.encode() == data or "\ufffd" not in decoded:
        return {name: decoded}
    return {name: decoded, f"{name}_base64": b64encode(data).decode()}


def _whole_records(batch: memoryview, header: BatchHeader) -> Iterator[Record]:
    """Yield the records before a malformed one in the batch."""
    log_append_time = header.max_timestamp if header.is_log_append_time else None
    try:
        body = bytes(uncompressed(header, batch))
        position = 0
        for _ in range(header.record_count):
            length, start = read_zigzag(body, position)
            one, position = body[position : start + length], start + length
            yield from decode_body(one, 1, header.base_offset, header.base_timestamp, log_append_time)
    except (ProtocolError, IndexError):
        return


def _control_of(record: Record) -> Row:
    """Return the type of a control record, and of a marker the epoch of the coordinator that wrote it."""
    try:
        _, type_id = _TWO_SHORTS.unpack_from(record.key or b"")
        name = _CONTROL_TYPES[type_id] if 0 <= type_id < len(_CONTROL_TYPES) else "UNKNOWN"
        coordinator_epoch = None
        if name in _END_TXN_TYPES:
            _, coordinator_epoch = _SHORT_AND_INT.unpack_from(record.value or b"")
    except error as problem:
        raise ProtocolError(f"the control record at offset {record.offset} is malformed: {problem}") from problem
    return {"control_type": name, "coordinator_epoch": coordinator_epoch}
