"""One log in memory, as a round of compaction rewrites it. Segments are replaced in one turn."""

from collections.abc import Iterator, Sequence

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

    def finish(self, group: Sequence[MemorySegment], output: MemorySegment) -> Iterator[Slice]:
        yield None
        output.next_offset = group[-1].next_offset

    def put_in_place(self, group: Sequence[MemorySegment], output: MemorySegment) -> Iterator[Slice]:
        self._log.segments.replace(group, output)
        yield from ()

    def discard(self, output: MemorySegment) -> None:
        """It is freed with its last reference."""
