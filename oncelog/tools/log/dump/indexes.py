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
from oncelog.tools.log.dump.entries import EntryLine, IndexLine, Note
from oncelog.tools.log.dump.findings import Findings, Problem
from oncelog.tools.log.dump.lines import MAX_INT
from oncelog.tools.log.read_only_disk import SegmentFile


@dataclass(frozen=True, slots=True)
class IndexOptions:
    sanity_only: bool = False
    """Whether to check only what a broker checks in an index at its start."""
    verify_only: bool = False
    """Whether to compare entries with the log without showing them."""
    max_message_bytes: int = 5 * 1024 * 1024


# --- the offset index -------------------------------------------------------------------------------------------------


def dump_offset_index(
    data: bytes, log: SegmentFile, shown_path: str, full_path: str, options: IndexOptions, findings: Findings
) -> Iterator[IndexLine]:
    base_offset = _base_offset(shown_path)
    entries = [
        (base_offset + relative, position)
        for relative, position in OFFSET_ENTRY.iter_unpack(whole_entries(data, ENTRY_BYTES))
    ]
    if not entries:
        yield Note(f"{shown_path} is empty.", "empty")
    elif options.sanity_only:
        problem = None
        if entries[-1][0] < base_offset:
            problem = f"its last offset {entries[-1][0]} is below its base offset {base_offset}"
        yield from _sanity(problem or _odd_size(data, ENTRY_BYTES), shown_path, findings)
        return
    used_bytes = _used_bytes(data)
    for slot, (offset, position) in enumerate(entries):
        if offset == base_offset and slot:
            return  # zeros: preallocated and unused
        header = _header_at(log, position, options.max_message_bytes)
        if slot * ENTRY_BYTES >= used_bytes:
            pass  # Kafka reports its own empty index as inconsistent
        elif header is None:
            problem = f"entry {slot} names position {position} of the log, where no batch begins"
            findings.problems.append(Problem(shown_path, problem, slot * ENTRY_BYTES, offset))
        elif header.last_offset != offset:
            findings.index_mismatches.setdefault(full_path, []).append((offset, header.last_offset))
        if not options.verify_only:
            yield EntryLine("offset_index_entry", (("offset", offset), ("position", position)))
    note_odd_size(data, ENTRY_BYTES, shown_path, findings)


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


def _used_bytes(data: bytes) -> int:
    """Return the size without the space that Kafka preallocates for entries of the active segment."""
    return len(data.rstrip(b"\x00"))


def _odd_size(data: bytes, entry_bytes: int) -> str | None:
    return f"its size of {len(data)} bytes is not a multiple of {entry_bytes}" if len(data) % entry_bytes else None


def note_odd_size(data: bytes, entry_bytes: int, shown_path: str, findings: Findings) -> None:
    problem = _odd_size(data, entry_bytes)
    if problem is not None:
        findings.problems.append(Problem(shown_path, problem, len(data) - len(data) % entry_bytes))


def _sanity(problem: str | None, shown_path: str, findings: Findings) -> Iterator[Note]:
    if problem is None:
        yield Note(f"{shown_path} passed sanity check.", "sane")
    else:
        findings.problems.append(Problem(shown_path, problem))


def _base_offset(path: str) -> int:
    return int(PurePath(path).name.partition(".")[0])


# --- the time index ---------------------------------------------------------------------------------------------------


def dump_time_index(
    data: bytes,
    log: SegmentFile,
    offset_index: bytes,
    shown_path: str,
    full_path: str,
    options: IndexOptions,
    findings: Findings,
) -> Iterator[IndexLine]:
    base_offset, entry_bytes = _base_offset(shown_path), time_index.ENTRY.size
    entries = [
        (timestamp, base_offset + relative)
        for timestamp, relative in time_index.ENTRY.iter_unpack(whole_entries(data, entry_bytes))
    ]
    if options.sanity_only:
        problem = _disorder(entries, base_offset) or _odd_size(data, entry_bytes)
        yield from _sanity(problem, shown_path, findings)
        return
    places = list(OFFSET_ENTRY.iter_unpack(whole_entries(offset_index, ENTRY_BYTES)))
    previous, used_bytes = -1, _used_bytes(data)
    for slot, (timestamp, offset) in enumerate(entries):
        if offset == base_offset and slot:
            return  # zeros, as above
        if slot * entry_bytes >= used_bytes:
            if not options.verify_only:
                yield EntryLine("time_index_entry", (("timestamp", timestamp), ("offset", offset)))
            return
        before = bisect_right(places, (offset - base_offset, MAX_INT)) - 1
        found = _batch_of(log, places[before][1] if before >= 0 else 0, offset)
        if found is None or found[0].last_offset != offset:
            pair = (offset, -1 if found is None else found[0].last_offset)
            findings.offsets_not_found.setdefault(full_path, []).append(pair)
        else:
            greatest = _max_timestamp(log, *found, shown_path, findings)
            if greatest != timestamp:
                findings.timestamp_mismatches.setdefault(full_path, []).append((timestamp, greatest))
            if previous >= timestamp:
                findings.timestamps_out_of_order.setdefault(full_path, []).append((timestamp, previous))
        if not options.verify_only:
            yield EntryLine("time_index_entry", (("timestamp", timestamp), ("offset", offset)))
        previous = timestamp
    note_odd_size(data, entry_bytes, shown_path, findings)


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


def _max_timestamp(log: SegmentFile, header: BatchHeader, position: int, shown_path: str, findings: Findings) -> int:
    """Return the greatest timestamp of the records themselves: compaction may have removed those with the batch's."""
    if not header.record_count:
        return -1
    try:
        records = decode_records(log.read_view(position, position + header.size_in_bytes))
    except ProtocolError as problem:
        findings.problems.append(Problem(shown_path, f"the batch of the log: {problem}", None, header.base_offset))
        return header.max_timestamp
    return max(record.timestamp for record in records)
