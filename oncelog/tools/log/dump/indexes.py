"""The entries of `.index` and `.timeindex`, compared with the log.

Owns: which entries are wrong. Does not own: the formats. A file is read entry by entry: the broker's own readers reject
a bad file as a whole, and a dump shows how far it is good.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from oncelog.broker.storage.local import time_index
from oncelog.broker.storage.local.offset_index import ENTRY as OFFSET_ENTRY
from oncelog.broker.storage.local.offset_index import ENTRY_BYTES
from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.records.batch import HEADER_SIZE, BatchHeader, read_header
from oncelog.protocol.records.record import decode_records
from oncelog.tools.log.dump.batches import MAX_INT
from oncelog.tools.log.dump.findings import Findings
from oncelog.tools.log.read_only_disk import SegmentFile
from oncelog.tools.terminal import Row


@dataclass(frozen=True, slots=True)
class IndexOptions:
    sanity_only: bool = False
    """Whether to check only what a broker checks in an index at its start."""
    verify_only: bool = False
    """Whether to compare entries with the log without showing them."""
    max_message_bytes: int = 5 * 1024 * 1024


# --- the offset index -------------------------------------------------------------------------------------------------


def dump_offset_index(
    data: bytes, log: SegmentFile, path: str, options: IndexOptions, findings: Findings
) -> Iterator[Row]:
    base_offset = _base_offset(path)
    entries = [
        (base_offset + relative, position)
        for relative, position in OFFSET_ENTRY.iter_unpack(_used_entries(data, ENTRY_BYTES))
    ]
    if not entries:
        yield {"kind": "empty"}
    elif options.sanity_only:
        problem = None
        if entries[-1][0] < base_offset:
            problem = f"its last offset {entries[-1][0]} is below its base offset {base_offset}"
        yield from _sanity(problem or _odd_size(data, ENTRY_BYTES), path, findings)
        return
    for slot, (offset, position) in enumerate(entries):
        header = _header_at(log, position, options.max_message_bytes)
        if header is None:
            problem = f"entry {slot} names position {position} of the log, where no batch begins"
            findings.add_problem(path, problem, slot * ENTRY_BYTES, offset)
        elif header.last_offset != offset:
            findings.add_pair("index_mismatch", path, offset, header.last_offset)
        if not options.verify_only:
            yield {"kind": "offset_index_entry", "offset": offset, "position": position}
    note_odd_size(data, ENTRY_BYTES, path, findings)


def _header_at(log: SegmentFile, position: int, max_bytes: int = MAX_INT) -> BatchHeader | None:
    """Return the header at `position`, if a batch of at most `max_bytes` can begin there."""
    view = log.read_view(max(position, 0), position + HEADER_SIZE)
    if position < 0 or len(view) < HEADER_SIZE:
        return None
    header = read_header(view)
    is_there = HEADER_SIZE <= header.size_in_bytes <= min(max_bytes, log.size_bytes - position)
    return header if is_there else None


def whole_entries(data: bytes, entry_bytes: int) -> bytes:
    return data[: len(data) - len(data) % entry_bytes]


def _used_entries(data: bytes, entry_bytes: int) -> bytes:
    """Return the whole entries without the zeros that Kafka preallocates in the index of the active segment."""
    used_bytes = len(data.rstrip(b"\x00"))
    return whole_entries(data[: used_bytes + -used_bytes % entry_bytes], entry_bytes)


def _odd_size(data: bytes, entry_bytes: int) -> str | None:
    return f"its size of {len(data)} bytes is not a multiple of {entry_bytes}" if len(data) % entry_bytes else None


def note_odd_size(data: bytes, entry_bytes: int, path: str, findings: Findings) -> None:
    problem = _odd_size(data, entry_bytes)
    if problem is not None:
        findings.add_problem(path, problem, len(data) - len(data) % entry_bytes)


def _sanity(problem: str | None, path: str, findings: Findings) -> Iterator[Row]:
    if problem is None:
        yield {"kind": "sane"}
    else:
        findings.add_problem(path, problem)


def _base_offset(path: str) -> int:
    return int(PurePath(path).name.partition(".")[0])


# --- the time index ---------------------------------------------------------------------------------------------------


def dump_time_index(
    data: bytes, log: SegmentFile, offset_index: bytes, path: str, options: IndexOptions, findings: Findings
) -> Iterator[Row]:
    base_offset, entry_bytes = _base_offset(path), time_index.ENTRY.size
    entries = [
        (timestamp, base_offset + relative)
        for timestamp, relative in time_index.ENTRY.iter_unpack(_used_entries(data, entry_bytes))
    ]
    if options.sanity_only:
        problem = _disorder(entries, base_offset) or _odd_size(data, entry_bytes)
        yield from _sanity(problem, path, findings)
        return
    places = list(OFFSET_ENTRY.iter_unpack(whole_entries(offset_index, ENTRY_BYTES)))
    previous = -1
    for timestamp, offset in entries:
        before = bisect_right(places, (offset - base_offset, MAX_INT)) - 1
        found = _batch_of(log, places[before][1] if before >= 0 else 0, offset)
        if found is None or found[0].last_offset != offset:
            findings.add_pair("offset_not_found", path, offset, -1 if found is None else found[0].last_offset)
        else:
            greatest = _max_timestamp(log, *found, path, findings)
            if greatest != timestamp:
                findings.add_pair("timestamp_mismatch", path, timestamp, greatest)
            if previous >= timestamp:
                findings.add_pair("timestamp_out_of_order", path, timestamp, previous)
        if not options.verify_only:
            yield {"kind": "time_index_entry", "timestamp": timestamp, "offset": offset}
        previous = timestamp
    note_odd_size(data, entry_bytes, path, findings)


def _disorder(entries: Sequence[tuple[int, int]], base_offset: int) -> str | None:
    """Return what is wrong with the first and the last (timestamp, offset), by Kafka's sanity check; None if nothing
    is."""
    if entries and entries[-1][0] < entries[0][0]:
        return f"its last timestamp {entries[-1][0]} is below its first {entries[0][0]}"
    if entries and entries[-1][1] < base_offset:
        return f"its last offset {entries[-1][1]} is below its base offset {base_offset}"
    return None


def _batch_of(log: SegmentFile, position: int, offset: int) -> tuple[BatchHeader, int] | None:
    """Return the first batch from `position` on that reaches `offset`, and its position."""
    header = _header_at(log, position)
    while header is not None and header.last_offset < offset:
        position += header.size_in_bytes
        header = _header_at(log, position)
    return None if header is None else (header, position)


def _max_timestamp(log: SegmentFile, header: BatchHeader, position: int, path: str, findings: Findings) -> int:
    """Return the greatest timestamp of the records themselves: compaction may have removed those with the batch's."""
    if not header.record_count:
        return -1
    try:
        records = decode_records(log.read_view(position, position + header.size_in_bytes))
    except ProtocolError as problem:
        findings.add_problem(path, f"the batch of the log: {problem}", None, header.base_offset)
        return header.max_timestamp
    return max(record.timestamp for record in records)
