"""The batches and records of a `.log` or `.checkpoint` file, as far as they can be read.

Owns: going through the file, and its problems. Does not own: the formats, the lines (`lines`), the meaning of keys and
values (`decoders`). As in Kafka's tool a batch with a wrong checksum is shown, and so is the one after it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath
from struct import Struct, error

from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.records.batch import (
    HEADER_SIZE,
    LENGTH_AT,
    LENGTH_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    BatchHeader,
    check_crc,
    read_header,
    uncompressed,
)
from oncelog.protocol.records.record import Record, decode_body, decode_records, read_zigzag
from oncelog.tools.log.dump.decoders import Decode
from oncelog.tools.log.dump.findings import Findings, Problem
from oncelog.tools.log.dump.lines import MAX_INT, BatchLine, ControlValue, LogLine, RecordLine, Title, add_to_sequence
from oncelog.tools.log.read_only_disk import SegmentFile

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
_TWO_SHORTS, _SHORT_AND_INT = Struct(">hh"), Struct(">hi")
_SHORT, _SHORT_AND_LONG = Struct(">h"), Struct(">hq")


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Which parts of a log are shown."""

    decode: Decode
    is_deep: bool = False
    """Whether to print one line per record."""
    print_data: bool = False
    """Whether to print keys and values too."""
    skip_record_metadata: bool = False
    max_bytes: int = MAX_INT
    """The position past which nothing is printed."""


def dump_log(
    file: SegmentFile, shown_path: str, full_path: str, options: LogOptions, findings: Findings
) -> Iterator[LogLine]:
    """Yield every line of one file; problems go to `findings`."""
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
                problem = f"the batch has format {header.magic}, {MAGIC} is the newest known"
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


def _batches(file: SegmentFile, shown_path: str, end: int, findings: Findings) -> Iterator[memoryview]:
    """Yield batch after batch by their lengths, whatever their checksums, as far as Kafka's tool reads."""
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
            findings.problems.append(Problem(shown_path, problem, position, offset))
            return
        yield chunk[at : at + max(size_bytes, HEADER_SIZE)]
        position += size_bytes


def _size_at(chunk: memoryview, at: int) -> int:
    return LENGTH_OVERHEAD + int.from_bytes(chunk[at + LENGTH_AT : at + LENGTH_OVERHEAD], "big", signed=True)


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


def _control_of(record: Record) -> ControlValue:
    try:
        _, type_id = _TWO_SHORTS.unpack_from(record.key or b"")
        name = _CONTROL_TYPES[type_id] if 0 <= type_id < len(_CONTROL_TYPES) else "UNKNOWN"
        if name in _END_TXN_TYPES:
            _, coordinator_epoch = _SHORT_AND_INT.unpack_from(record.value or b"")
            return ControlValue(name, type_id, coordinator_epoch)
        if name == "SNAPSHOT_HEADER":
            version, timestamp = _SHORT_AND_LONG.unpack_from(record.value or b"")
            header = f'SnapshotHeader {{"version":{version},"lastContainedLogTimestamp":{timestamp}}}'
            return ControlValue(name, type_id, snapshot=header)
        if name == "SNAPSHOT_FOOTER":
            (version,) = _SHORT.unpack_from(record.value or b"")
            return ControlValue(name, type_id, snapshot=f'SnapshotFooter {{"version":{version}}}')
        return ControlValue(name, type_id)
    except error as problem:
        raise ProtocolError(f"the control record at offset {record.offset} is malformed: {problem}") from problem
