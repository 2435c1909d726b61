"""Finds batches in the segments of one partition: by offset, by timestamp, and the aborted transactions between.

Owns: nothing; pure functions over `Segments`. They never read past the bound from the partition's log, always a batch
boundary. In segments that the event loop reads (`Segment.serve`) they raise Deferred for data that is not cached.
"""

from collections.abc import Iterator

from oncelog.broker.log.store import PLENTY_BYTES, Batches, ReadResult
from oncelog.broker.log.values import AbortedTransaction
from oncelog.broker.storage.local.deferred import Deferred
from oncelog.broker.storage.local.segment import BatchSpan, Segment
from oncelog.broker.storage.local.segments import Segments
from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.records.batch import BatchHeader, check_crc, iter_batches, read_header
from oncelog.protocol.records.record import decode_records

_EMPTY = memoryview(b"")
_CHUNK_BYTES = 128 * 1024
_MAX_SEARCHED_RECORDS = 50_000
_MAX_SEARCHED_BYTES = 8 * 1024 * 1024
_SEARCHED_AT_ONCE = 100
"""A batch with more records, or a compressed one, is decoded in a thread instead of on the event loop."""


def read_records(
    segments: Segments, fetch_offset: int, upper_bound: int, max_bytes: int, *, at_least_one: bool
) -> ReadResult:
    """Whole batches of one segment from the one that holds `fetch_offset`, and an offset at or past their end."""
    slot = segments.slot_of(fetch_offset)
    segment = segments[slot]
    start = segment.position_of(fetch_offset)
    while start == segment.size_bytes and segment.has_gaps and segment.next_offset < upper_bound:
        slot += 1
        segment, start = segments[slot], 0
    if upper_bound >= segment.next_offset:
        end, end_offset = segment.size_bytes, segment.next_offset
    else:
        end, end_offset = segment.position_of(upper_bound), upper_bound
    if end - start > max_bytes:
        end, end_offset = segment.last_boundary(start, start + max_bytes, whole_first=at_least_one)
    if start == end:
        return _EMPTY, end_offset
    records = segment.read(start, end)
    if segment.unverified_sum is not None:
        _check_batches(segment, start, records, fetch_offset)
    segment.note_position(end_offset, end)
    return records, end_offset


def read_at_most(segments: Segments, fetch_offset: int) -> int:
    """An upper bound of the bytes that one read can return: it ends with its segment."""
    segment = segments[segments.slot_of(fetch_offset)]
    return segment.size_bytes - segment.index.lookup(fetch_offset)


def readable_bytes(segments: Segments, fetch_offset: int, upper_bound: int) -> int:
    """The bytes between two offsets, the lower one first; PLENTY_BYTES if they are in different segments, or if a
    position is not cached."""
    # Not the slot of the bound itself: after a roll that may be the start of the next segment.
    segment = segments[segments.slot_of(upper_bound - 1)]
    if fetch_offset < segment.base_offset:
        return PLENTY_BYTES
    try:
        end = segment.size_bytes if upper_bound >= segment.next_offset else segment.position_of(upper_bound)
        return end - segment.position_of(fetch_offset)
    except Deferred:
        return PLENTY_BYTES


def _check_batches(segment: Segment, position: int, records: memoryview, fetch_offset: int) -> None:
    """The segment was not read since an earlier run: a flipped bit must not reach a client that trusts the broker."""
    expected = segment.base_offset if position == 0 else None
    for header, batch in _whole_batches(records):
        base_offset = header.base_offset  # not covered by the checksum: it must follow from the previous batches
        follows = base_offset <= fetch_offset if expected is None else base_offset == expected
        is_in_segment = segment.base_offset <= base_offset and header.next_offset <= segment.next_offset
        if header.magic != 2 or not check_crc(batch) or not is_in_segment or not (follows or segment.has_gaps):
            raise segment.damaged(base_offset, position)
        expected = header.next_offset
        position += len(batch)


def collect_aborted(segments: Segments, fetch_offset: int, upper_bound: int) -> tuple[AbortedTransaction, ...]:
    """The aborted transactions that have data in [fetch_offset, upper_bound), in the order of their markers."""
    found: list[tuple[int, int]] = []
    slot = segments.summary.slot_with_aborted(segments.slot_of(fetch_offset), upper_bound)
    while slot is not None and not segments[slot].transaction_index.collect(fetch_offset, upper_bound, found):
        slot = segments.summary.slot_with_aborted(slot + 1, upper_bound)
    return tuple([AbortedTransaction(*entry) for entry in found])


def iterate_batches(segments: Segments, from_offset: int, end_offset: int) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Every batch that overlaps [from_offset, end_offset), in order, for callers that may block on the disk.

    For replay, where a damaged or missing batch would give a different state: raises CORRUPT_MESSAGE instead.
    """
    for piece in replay_pieces(segments, from_offset, end_offset):
        if isinstance(piece, Deferred):
            piece.run()
        else:
            yield from piece


def replay_pieces(segments: Segments, from_offset: int, end_offset: int) -> Iterator[Batches | Deferred]:
    """Yield the batches of `iterate_batches` in pieces; run a Deferred off the event loop before the next piece."""
    offset = from_offset
    while offset < end_offset and len(segments):
        piece: Batches | Deferred
        try:
            piece, offset = _next_piece(segments, offset, from_offset, end_offset)
            if not piece:
                return  # compaction removed everything up to the end
        except Deferred as deferred:
            piece = deferred
        yield piece


def _next_piece(segments: Segments, offset: int, from_offset: int, end_offset: int) -> tuple[Batches, int]:
    """The batches of one read, and the offset after them."""
    segment = segments[segments.slot_of(offset)]
    records, _ = read_records(segments, offset, end_offset, _CHUNK_BYTES, at_least_one=True)
    before = offset
    batches: Batches = []
    if len(records) or not segment.has_gaps:
        for header, batch in _whole_batches(records):
            is_next = header.base_offset == offset or (
                offset == from_offset if header.base_offset < offset else segments.may_lack(offset)
            )
            if not is_next or header.magic != 2 or header.last_offset_delta < 0 or not check_crc(batch):
                break
            offset = header.base_offset + header.last_offset_delta + 1
            batches.append((header, batch))
        if offset == before:
            raise segment.damaged(offset)
    return batches, offset


def _whole_batches(records: memoryview) -> Iterator[tuple[BatchHeader, memoryview]]:
    try:
        yield from iter_batches(records)
    except ProtocolError:
        return


def find_timestamp(segments: Segments, timestamp_ms: int, start_offset: int, end_offset: int) -> tuple[int, int] | None:
    """(offset, timestamp) of the first record in [start_offset, end_offset) with at least this timestamp."""
    if not len(segments):
        return None
    slot = segments.summary.slot_with_timestamp(segments.slot_of(start_offset), timestamp_ms)
    while slot is not None and segments[slot].base_offset < end_offset:
        found = _find_in_segment(segments[slot], timestamp_ms, start_offset, end_offset)
        if found is not None:
            return found
        slot = segments.summary.slot_with_timestamp(slot + 1, timestamp_ms)
    return None


def _find_in_segment(segment: Segment, timestamp_ms: int, start_offset: int, end_offset: int) -> tuple[int, int] | None:
    position = segment.position_of(max(start_offset, segment.time_index.lookup(timestamp_ms)))
    for span in segment.spans(position):
        if span.base_offset >= end_offset:
            return None
        if span.max_timestamp < timestamp_ms:
            continue
        found = _find_in_batch(segment, span, timestamp_ms, start_offset)
        if found is not None:
            return found if found[0] < end_offset else None
    return None


def _find_in_batch(segment: Segment, span: BatchSpan, timestamp_ms: int, start_offset: int) -> tuple[int, int] | None:
    batch = segment.view(span.position, span.position + span.size_bytes)

    def search() -> tuple[int, int] | None:
        for offset, timestamp in _times(segment, batch, start_offset):
            if timestamp >= timestamp_ms and offset >= start_offset:
                return offset, timestamp
        return None

    header = read_header(batch)
    is_short = header.record_count <= _SEARCHED_AT_ONCE and not header.compression_type
    if is_short or segment.results is None:
        return search()
    found: tuple[int, int] | None = segment.results.get((segment, span.position, timestamp_ms, start_offset), search)
    return found


def _times(segment: Segment, batch: memoryview, start_offset: int) -> Iterator[tuple[int, int]]:
    """Yield offset and timestamp of each record. A batch that takes long to decode (a kilobyte may hold millions of
    records), or that cannot be decoded, yields its base offset: a reader from there gets every record it
    asked for."""
    header = read_header(batch)
    beginning = max(header.base_offset, start_offset), header.max_timestamp
    if header.record_count > _MAX_SEARCHED_RECORDS:
        yield beginning
        return
    try:
        for record in decode_records(batch, _MAX_SEARCHED_BYTES):
            yield record.offset, record.timestamp
        return
    except ProtocolError as error:
        if not check_crc(batch):
            raise segment.damaged(header.base_offset) from error
    yield beginning


def find_max_timestamp(segments: Segments, start_offset: int, end_offset: int) -> tuple[int, int] | None:
    """(offset, timestamp) of the first record that has the greatest timestamp of all."""
    max_timestamp = segments.summary.max_timestamp()
    return find_timestamp(segments, max_timestamp, start_offset, end_offset) if max_timestamp >= 0 else None
