"""The lines of a `.log` or `.checkpoint` file: a line a batch, and below it a line a record.

Owns: Kafka's words for batches, records and control records. Does not own: the formats, what keys and values mean
(`log_dump_decoders`). As in Kafka's tool a batch whose checksum does not hold is shown, and the next one after it.
"""

from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath
from struct import Struct, error
from typing import Any

from oncelog.log_dump_decoders import Decode, Decoded
from oncelog.log_dump_findings import Findings, Problem
from oncelog.log_dump_json import to_text
from oncelog.read_only_disk import ReadOnlyFile
from protocol.errors import ProtocolError
from protocol.records.batch import HEADER_SIZE, LENGTH_OVERHEAD, MAGIC, BatchHeader, check_crc, read_header
from protocol.records.compression import decompress
from protocol.records.record import Record, decode_body, decode_records, read_zigzag

MAX_INT = 2**31 - 1
_BOOTSTRAP = "bootstrap.checkpoint"
_OFFSET_DIGITS = 20
_UP_TO_MAGIC_BYTES = 17
_MIN_BATCH_LENGTH = 14  # of Kafka's first format
_CHUNK_BYTES = 1024 * 1024
_CODECS = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
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
_TWO_SHORTS, _SHORT_AND_INT = Struct(">hh"), Struct(">hi")


@dataclass(frozen=True, slots=True)
class LogOptions:
    """What of a log is shown."""

    decode: Decode
    is_deep: bool = False
    """A line a record."""
    print_data: bool = False
    """Keys and values as well."""
    skip_record_metadata: bool = False
    max_bytes: int = MAX_INT
    """Nothing past this position."""


# --- what is shown ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Title:
    """The first lines of a log."""

    text: str

    def fields(self) -> dict[str, Any] | None:
        return None


@dataclass(frozen=True, slots=True)
class BatchLine:
    header: BatchHeader
    position: int
    is_valid: bool

    @property
    def text(self) -> str:
        header = self.header
        return (
            f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.record_count} "
            f"baseSequence: {header.base_sequence} lastSequence: {_last_sequence(header)} "
            f"producerId: {header.producer_id} producerEpoch: {header.producer_epoch} "
            f"partitionLeaderEpoch: {header.partition_leader_epoch} "
            f"isTransactional: {_bool(header.is_transactional)} isControl: {_bool(header.is_control)} "
            f"deleteHorizonMs: {optional_long(self._delete_horizon_ms)} position: {self.position} "
            f"{_timestamp_type(header)}: {header.max_timestamp} size: {header.size_in_bytes} magic: {header.magic} "
            f"compresscodec: {_codec(header)} crc: {header.crc} isvalid: {_bool(self.is_valid)}"
        )

    @property
    def _delete_horizon_ms(self) -> int | None:
        return self.header.base_timestamp if self.header.has_delete_horizon else None

    def fields(self) -> dict[str, Any]:
        header = self.header
        return {
            "kind": "batch",
            "position": self.position,
            "size_bytes": header.size_in_bytes,
            "base_offset": header.base_offset,
            "last_offset": header.last_offset,
            "record_count": header.record_count,
            "base_sequence": header.base_sequence,
            "last_sequence": _last_sequence(header),
            "producer_id": header.producer_id,
            "producer_epoch": header.producer_epoch,
            "partition_leader_epoch": header.partition_leader_epoch,
            "is_transactional": header.is_transactional,
            "is_control": header.is_control,
            "delete_horizon_ms": self._delete_horizon_ms,
            "timestamp_type": _timestamp_type(header),
            "max_timestamp": header.max_timestamp,
            "magic": header.magic,
            "compression": _codec(header),
            "crc": header.crc,
            "is_valid": self.is_valid,
        }


@dataclass(frozen=True, slots=True)
class ControlValue:
    """What a control record says."""

    name: str
    type_id: int
    coordinator_epoch: int | None = None

    @property
    def text(self) -> str:
        if self.coordinator_epoch is None:
            return f" controlType: {self.name}({self.type_id})"
        return f" endTxnMarker: {self.name} coordinatorEpoch: {self.coordinator_epoch}"


@dataclass(frozen=True, slots=True)
class RecordLine:
    header: BatchHeader
    record: Record
    sequence: int
    control: ControlValue | None
    decoded: Decoded | None
    has_metadata: bool

    @property
    def text(self) -> str:
        record, parts = self.record, []
        if self.has_metadata:
            control = self.control.text if self.control is not None else ""
            header_keys = ",".join(name for name, _ in record.headers)
            parts.append(
                f"| offset: {record.offset} {_timestamp_type(self.header)}: {record.timestamp} "
                f"keySize: {_size(record.key)} valueSize: {_size(record.value)} "
                f"sequence: {self.sequence} headerKeys: [{header_keys}]{control}"
            )
        if self.decoded is not None:
            named = (("key", self.decoded.key), ("payload", self.decoded.value))
            contents = [f"{name}: {_text(content)}" for name, content in named if content is not None]
            if contents and not self.has_metadata:
                parts.append("|")
            parts += contents
        return " ".join(parts)

    def fields(self) -> dict[str, Any]:
        record = self.record
        fields: dict[str, Any] = {"kind": "record", "offset": record.offset}
        if self.has_metadata:
            fields |= {
                "timestamp": record.timestamp,
                "key_bytes": _size(record.key),
                "value_bytes": _size(record.value),
                "sequence": self.sequence,
                "header_keys": [name for name, _ in record.headers],
            }
            if self.control is not None:
                fields |= {"control_type": self.control.name, "coordinator_epoch": self.control.coordinator_epoch}
        if self.decoded is not None:
            fields |= _content("key", record.key, self.decoded.key)
            fields |= _content("value", record.value, self.decoded.value)
        return fields


def _content(name: str, data: bytes | None, decoded: Any) -> dict[str, Any]:
    """Text that is not the bytes any more is given as base64 as well."""
    if not isinstance(decoded, str) or data is None or decoded.encode() == data or "\ufffd" not in decoded:
        return {name: decoded}
    return {name: decoded, f"{name}_base64": b64encode(data).decode()}


def _bool(value: bool) -> str:
    return "true" if value else "false"


def optional_long(value: int | None) -> str:
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def _timestamp_type(header: BatchHeader) -> str:
    return "LogAppendTime" if header.is_log_append_time else "CreateTime"


def _last_sequence(header: BatchHeader) -> int:
    """Of a negative number that means nothing as well, as Kafka counts it on."""
    return add_to_sequence(header.base_sequence, header.last_offset_delta) if header.base_sequence != -1 else -1


def add_to_sequence(sequence: int, count: int) -> int:
    """Kafka's sum in Java's 32 bits, for numbers too that no producer writes."""
    if sequence > _int32(MAX_INT - count):
        return _int32(count - _int32(MAX_INT - sequence) - 1)
    return _int32(sequence + count)


def _int32(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


def _codec(header: BatchHeader) -> str:
    return _CODECS.get(header.compression_type, str(header.compression_type))


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _text(content: Any) -> str:
    return to_text(content) if isinstance(content, dict) else str(content)


# --- reading ----------------------------------------------------------------------------------------------------------

LogLine = Title | BatchLine | RecordLine


def dump_log(
    file: ReadOnlyFile, shown_path: str, full_path: str, options: LogOptions, findings: Findings
) -> Iterator[LogLine]:
    """Every line of one file; what is wrong with it goes to `findings`."""
    name = PurePath(shown_path).name
    yield Title(_title(name))
    end = min(file.size_bytes, options.max_bytes)
    position, last_offset = 0, -1
    next_offset = 0 if name == _BOOTSTRAP else int(name[:_OFFSET_DIGITS])
    for batch in _batches(file, shown_path, end, findings):
        header = read_header(batch)
        is_valid = len(batch) == header.size_in_bytes and check_crc(batch)
        yield BatchLine(header, position, is_valid)
        if not is_valid or header.magic != MAGIC:
            problem = "the checksum of the batch does not match its bytes"
            if is_valid:
                problem = f"the batch is of format {header.magic}, {MAGIC} is the newest that is known"
            findings.problems.append(Problem(shown_path, problem, position, header.base_offset))
        if options.is_deep:
            for line in _records(batch, header, position, shown_path, options, findings):
                if line.record.offset != last_offset + 1:
                    findings.offset_gaps.setdefault(full_path, []).append((last_offset, line.record.offset))
                last_offset = line.record.offset
                yield line
        position += header.size_in_bytes
        next_offset = header.next_offset
    if file.size_bytes > position and options.max_bytes == MAX_INT:
        rest_bytes = file.size_bytes - position
        yield Title(f"Found {rest_bytes} invalid bytes at the end of {name}")
        if not findings.problems or findings.problems[-1].position != position:
            problem = f"the last {rest_bytes} bytes hold no whole batch"
            findings.problems.append(Problem(shown_path, problem, position, next_offset))


def _title(name: str) -> str:
    if name.endswith(".log"):
        return f"Log starting offset: {int(name.partition('.')[0])}"
    if name == _BOOTSTRAP:
        return "KRaft bootstrap snapshot"
    offset, _, epoch = name.partition(".")[0].partition("-")
    return f"Snapshot end offset: {int(offset)}, epoch: {int(epoch)}"


def _batches(file: ReadOnlyFile, shown_path: str, end: int, findings: Findings) -> Iterator[memoryview]:
    """Batch after batch by their lengths, whatever their checksums say, as far as Kafka's tool goes."""
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
        elif chunk[at + _UP_TO_MAGIC_BYTES - 1] < MAGIC:
            problem = "this batch is of a format older than Kafka 0.11, which is not read here"
        elif at + HEADER_SIZE > len(chunk):
            problem = "the header of the batch is cut off"
        if problem is not None:
            offset = int.from_bytes(chunk[at : at + 8], "big", signed=True)
            findings.problems.append(Problem(shown_path, problem, position, offset))
            return
        yield chunk[at : at + max(size_bytes, HEADER_SIZE)]
        position += size_bytes


def _size_at(chunk: memoryview, at: int) -> int:
    return LENGTH_OVERHEAD + int.from_bytes(chunk[at + 8 : at + LENGTH_OVERHEAD], "big", signed=True)


def _records(
    batch: memoryview, header: BatchHeader, position: int, shown_path: str, options: LogOptions, findings: Findings
) -> Iterator[RecordLine]:
    def fail(problem: ProtocolError, offset: int) -> None:
        findings.problems.append(Problem(shown_path, str(problem), position, offset))

    if not header.record_count:
        return  # emptied by compaction
    try:
        records = decode_records(batch)
    except ProtocolError as problem:
        records = list(_whole_records(batch, header))
        fail(problem, records[-1].offset + 1 if records else header.base_offset)
    has_sequences = header.base_sequence >= 0
    for record in records:
        decoded, control = None, None
        try:
            if header.is_control:
                control = _control_of(record)
            elif options.print_data:
                decoded = options.decode(record)
        except ProtocolError as problem:
            fail(problem, record.offset)
        sequence = add_to_sequence(header.base_sequence, record.offset - header.base_offset) if has_sequences else -1
        yield RecordLine(header, record, sequence, control, decoded, not options.skip_record_metadata)


def _whole_records(batch: memoryview, header: BatchHeader) -> Iterator[Record]:
    """Of a batch with a malformed record: those before it."""
    log_append_time = header.max_timestamp if header.is_log_append_time else None
    try:
        body = bytes(batch[HEADER_SIZE:])
        if header.compression_type:
            body = decompress(header.compression_type, body)
        position = 0
        for _ in range(header.record_count):
            length, start = read_zigzag(body, position)
            one, position = body[position : start + length], start + length
            yield from decode_body(one, 1, header.base_offset, header.base_timestamp, log_append_time)
    except (ProtocolError, IndexError):
        return


def _control_of(record: Record) -> ControlValue:
    try:
        _, type_id = _TWO_SHORTS.unpack_from(record.key or b"")
        name = _CONTROL_TYPES[type_id] if 0 <= type_id < len(_CONTROL_TYPES) else "UNKNOWN"
        if name in _END_TXN_TYPES:
            _, coordinator_epoch = _SHORT_AND_INT.unpack_from(record.value or b"")
            return ControlValue(name, type_id, coordinator_epoch)
        return ControlValue(name, type_id)
    except error as problem:
        raise ProtocolError(f"the control record at offset {record.offset} is malformed: {problem}") from problem
