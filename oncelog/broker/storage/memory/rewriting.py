"""One log in memory, as a round of compaction rewrites it. Segments are replaced in one turn."""

from collections.abc import Generator, Iterator, Sequence

from oncelog.broker.log.store import Batches
from oncelog.broker.storage.compaction.compaction_round import Slice
from oncelog.broker.storage.memory.memory_log import MemoryLog, MemorySegment


class MemoryRewriting:
    def __init__(self, log: MemoryLog) -> None:
        self._log = log

    def prepare(self) -> Slice:
        return None

    @property
    def segments(self) -> Sequence[MemorySegment]:
        return list(self._log.segments)

    def pieces(self, from_offset: int, to_offset: int) -> Iterator[Batches]:
        return self._log.replay(from_offset, to_offset)

    def index_bytes_of(self, segment: MemorySegment) -> int:
        return 0

    def output(self, group: Sequence[MemorySegment]) -> MemorySegment:
        return MemorySegment(group[0].base_offset, group[0].open_producers, group[-1].created_ms)

    def put_in_place(self, group: Sequence[MemorySegment], output: MemorySegment) -> Generator[Slice, None, bool]:
        yield None
        output.next_offset = group[-1].next_offset
        segments = self._log.segments
        known = list(segments)
        if self._log.is_closed or any(segment not in known for segment in group):
            return False
        segments.replace(group, output)
        return True

    def discard(self, output: MemorySegment) -> None:
        """It is freed with its last reference."""
