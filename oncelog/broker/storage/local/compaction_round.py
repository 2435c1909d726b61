"""One round of compaction over one log: read the keys of the dirty part, then rewrite the segments.

Owns: the work in slices, so that the broker serves between them. Invariants
- Only whole segments below the last stable offset and the high watermark are touched, never the active one.
- A round that ends early, for any reason, leaves the log readable and is repeated later.

A slice that must block on the disk is yielded as a function to run off the loop.
"""

from collections.abc import Callable, Generator, Iterator

from oncelog.broker.log.store import LogView
from oncelog.broker.storage.compaction.batch_filter import BatchFilter, known_producers
from oncelog.broker.storage.compaction.cleaner import RoundResult, Slice
from oncelog.broker.storage.compaction.offset_map import OffsetMap
from oncelog.broker.storage.compaction.transactions import AbortedTransactions, CleanedTransactions
from oncelog.broker.storage.local.deferred import Deferred
from oncelog.broker.storage.local.local_log import LocalLog
from oncelog.broker.storage.local.reader import replay_pieces
from oncelog.broker.storage.local.segment import Segment
from oncelog.broker.storage.local.swap import CLEANED_SUFFIX
from oncelog.broker.storage.producer_snapshot import SUFFIX as SNAPSHOT_SUFFIX
from oncelog.broker.storage.producer_snapshot import open_producers
from oncelog.broker.turns.ports import Disk, WallMs

SLICE_BYTES = 64 * 1024
_SYNC_BYTES = 8 * 1024 * 1024
_MAX_RELATIVE_OFFSET = 2**31 - 1


class LocalCompactionRound:
    def __init__(
        self,
        view: LogView,
        log: LocalLog,
        disk: Disk,
        dirty_offset: int,
        end_offset: int,
        memory_bytes: int,
        secure: Callable[[LocalLog, int], None],
    ) -> None:
        """`dirty_offset`: where the dirty part begins; `end_offset`: where the last cleanable segment ends; `secure` is
        called before a segment with gaps is put in place."""
        self._secure = secure
        self._view = view
        self._log = log
        self._disk = disk
        self._dirty_offset = dirty_offset
        self._end_offset = end_offset
        self._map = OffsetMap(memory_bytes)
        self.result = RoundResult(self._map.undecodable, clean_offset=dirty_offset)

    def slices(self, wall_ms: WallMs) -> Generator[Slice, None, None]:
        """Do the work and set `result`. Raises KafkaError or ProtocolError on damage, OSError."""
        aborted = AbortedTransactions(
            entry for segment in self._log.segments for entry in segment.transaction_index.entries
        )
        producers, log_end_offset = known_producers(self._view.producer_state), self._view.log_end_offset
        yield from self._read_keys(aborted)
        clean_offset = self._map.latest_offset + 1
        if clean_offset <= self._dirty_offset:
            return
        while self._view.high_watermark < log_end_offset:
            # A power cut may lose the last batches of a producer: until they are durable the earlier ones must stay.
            yield None
        segments = [segment for segment in self._log.segments if segment.base_offset < clean_offset]
        segments = [segment for segment in segments if segment.next_offset <= self._end_offset]
        batch_filter = BatchFilter(
            self._map,
            CleanedTransactions(aborted),
            producers,
            self._end_offset,
            wall_ms,
            self._view.config.delete_retention_ms,
        )
        for group in _groups(segments, self._view.config.segment_bytes, self._view.config.segment_index_bytes):
            replaced = yield from self._clean(group, batch_filter)
            if not replaced:
                return
        self.result.clean_offset = clean_offset
        self.result.is_complete = True

    # -- the newest offset of each key

    def _read_keys(self, aborted: AbortedTransactions) -> Iterator[Slice]:
        offset_map = self._map
        left = SLICE_BYTES
        for piece in replay_pieces(self._log.segments, self._dirty_offset, self._end_offset):
            if isinstance(piece, Deferred):
                yield piece.run
                continue
            for header, batch in piece:
                if not offset_map.read(header, batch, aborted):
                    return
                self.result.bytes_read += len(batch)
                left -= len(batch)
                if left <= 0:
                    left = SLICE_BYTES
                    yield None
        # Offsets that compaction removed at the end of the range are clean too.
        offset_map.latest_offset = max(offset_map.latest_offset, self._end_offset - 1)

    # -- writing what is retained

    def _clean(self, group: list[Segment], batch_filter: BatchFilter) -> Generator[Slice, None, bool]:
        """Replace `group` by one segment; False if the group is no longer part of the log."""
        log = self._log
        first, last = group[0], group[-1]
        new = Segment(self._disk, first.directory, first.base_offset, last.created_ms, suffix=CLEANED_SUFFIX)
        is_in_place = False
        try:
            new.file.truncate(0)
            batch_filter.transactions.on_snapshot(self._open_producers(first))
            for segment in group:
                yield from self._copy(segment, new, batch_filter)
            new.has_gaps = True
            new.next_offset = last.next_offset
            for entry in batch_filter.transactions.take_kept():
                new.transaction_index.append(entry)
            yield new.file.sync
            while log.is_flushing(group):
                yield None
            if log.holds(group):
                self._secure(log, new.next_offset)
                log.replace_segments(group, new)
                is_in_place = True
        finally:
            if not is_in_place:
                new.file.close()
                self._disk.delete(new.path(CLEANED_SUFFIX))
        self.result.bytes_written += new.size_bytes
        return is_in_place

    def _open_producers(self, segment: Segment) -> set[int]:
        """From the producer snapshot before `segment`; empty if recovery would not use it."""
        path = segment.path(SNAPSHOT_SUFFIX)
        try:
            return open_producers(self._disk.read_bytes(path)) if self._disk.exists(path) else set()
        except ValueError:
            return set()

    def _copy(self, segment: Segment, new: Segment, batch_filter: BatchFilter) -> Iterator[Slice]:
        index_interval_bytes = self._view.config.index_interval_bytes
        unsynced_bytes = 0
        left = SLICE_BYTES
        for piece in replay_pieces(self._log.segments, segment.base_offset, segment.next_offset):
            if isinstance(piece, Deferred):
                yield piece.run
                continue
            for header, batch in piece:
                remainder = batch_filter.prepare(header, batch)
                if remainder is not None:
                    size = len(remainder.data)
                    timestamp = remainder.max_timestamp if remainder.record_count else -1
                    new.append((remainder.data,), size, header.next_offset, timestamp, index_interval_bytes)
                    unsynced_bytes += size
                self.result.bytes_read += len(batch)
                left -= len(batch)
                if unsynced_bytes >= _SYNC_BYTES:
                    # A single sync of the whole file at its end would delay the flush rounds of all logs.
                    unsynced_bytes = 0
                    yield new.file.sync
                elif left <= 0:
                    left = SLICE_BYTES
                    yield None


def _groups(segments: list[Segment], segment_bytes: int, index_bytes: int) -> list[list[Segment]]:
    """Adjacent segments that fit into one: otherwise compaction leaves many small ones."""
    groups: list[list[Segment]] = []
    size = index_size = 0
    for segment in segments:
        fits = (
            groups
            and size + segment.size_bytes <= segment_bytes
            and index_size + segment.index.size_bytes <= index_bytes
            and segment.next_offset - groups[-1][0].base_offset <= _MAX_RELATIVE_OFFSET
        )
        if not fits:
            groups.append([])
            size = index_size = 0
        groups[-1].append(segment)
        size += segment.size_bytes
        index_size += segment.index.size_bytes
    return groups
