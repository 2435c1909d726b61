"""One round of compaction over one log in memory: a CompactionRound.

Owns: the work in slices. A segment is replaced in the turn that filters the last of its batches.
"""

from collections.abc import Generator

from oncelog.broker.log.store import LogView
from oncelog.broker.storage.compaction.batch_filter import BatchFilter, known_producers
from oncelog.broker.storage.compaction.cleaner import RoundResult, Slice
from oncelog.broker.storage.compaction.offset_map import OffsetMap
from oncelog.broker.storage.compaction.transactions import AbortedTransactions, CleanedTransactions
from oncelog.broker.storage.memory.memory_log import MemoryLog, MemorySegment
from oncelog.broker.turns.ports import WallMs


class MemoryCompactionRound:
    def __init__(self, view: LogView, log: MemoryLog, dirty_offset: int, end_offset: int, memory_bytes: int) -> None:
        self._view = view
        self._log = log
        self._dirty_offset = dirty_offset
        self._end_offset = end_offset
        self._map = OffsetMap(memory_bytes)
        self.result = RoundResult(self._map.undecodable, clean_offset=dirty_offset)

    def slices(self, wall_ms: WallMs) -> Generator[Slice, None, None]:
        log, offset_map = self._log, self._map
        aborted = AbortedTransactions(entry for segment in log.segments for entry in segment.transaction_index.entries)
        producers = known_producers(self._view.producer_state)
        yield from self._read_keys(aborted)
        clean_offset = offset_map.latest_offset + 1
        if clean_offset <= self._dirty_offset:
            return
        batch_filter = BatchFilter(
            offset_map,
            CleanedTransactions(aborted),
            producers,
            self._end_offset,
            wall_ms,
            self._view.config.delete_retention_ms,
        )
        for segment in [segment for segment in log.segments if segment.next_offset <= self._end_offset]:
            if segment.base_offset >= clean_offset:
                break
            batch_filter.transactions.on_snapshot(set(segment.open_producers))
            new = MemorySegment(segment.base_offset, segment.open_producers, segment.created_ms)
            for piece in log.replay(segment.base_offset, segment.next_offset):
                for header, batch in piece:
                    remainder = batch_filter.prepare(header, batch)
                    if remainder is not None:
                        timestamp = remainder.max_timestamp if remainder.record_count else -1
                        new.append(bytes(remainder.data), header.next_offset, timestamp)
                yield None
            new.next_offset = segment.next_offset
            for entry in batch_filter.transactions.take_kept():
                new.transaction_index.append(entry)
            if log.is_closed or segment not in list(log.segments):
                return
            log.segments.replace([segment], new)
            self.result.bytes_written += new.size_bytes
        self.result.clean_offset = clean_offset
        self.result.is_complete = True

    def _read_keys(self, aborted: AbortedTransactions) -> Generator[Slice, None, None]:
        offset_map = self._map
        for piece in self._log.replay(self._dirty_offset, self._end_offset):
            for header, batch in piece:
                self.result.bytes_read += len(batch)
                if not offset_map.read(header, batch, aborted):
                    return
            yield None
        offset_map.latest_offset = max(offset_map.latest_offset, self._end_offset - 1)
