"""One log in tables, as a round of compaction rewrites it.

Owns: what is left of a group of segments. Invariants
- It is written aside, chunk by chunk (`aside`). One statement then puts it in the place of the group; until that is
  answered the old chunks are read.
- In memory are the keys, one chunk that is read and one that is written, however large the segments are.
"""

from collections.abc import Iterator, Sequence

from oncelog.broker.log.store import Batches, StoreDamagedError, StoreError
from oncelog.broker.storage.compaction.compaction_round import Slice, ended
from oncelog.broker.storage.memory.memory_log import MemorySegment
from oncelog.broker.storage.shared.aside import Aside
from oncelog.broker.storage.shared.log import SharedLog, SharedSegment
from oncelog.broker.storage.shared.tables import ChunkRow
from oncelog.broker.storage.transaction_index import TransactionIndex
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import MonotonicMs

_NEVER = MonotonicMs(0)


class SharedRewriting:
    def __init__(self, log: SharedLog, aside: Aside) -> None:
        self._log = log
        self._aside = aside

    def prepare(self) -> Slice:
        return self._aside.clear()

    @property
    def segments(self) -> Sequence[SharedSegment]:
        return list(self._log.segments)

    def pieces(self, from_offset: int, to_offset: int) -> Iterator[Batches | Slice]:
        try:
            yield from self._log.replay(from_offset, to_offset)
        except StoreDamagedError as damage:
            self._log.on_damage(str(damage))
            raise StoreError(str(damage)) from damage

    def index_bytes_of(self, segment: SharedSegment) -> int:
        return 0

    def output(self, group: Sequence[SharedSegment]) -> "WrittenAside":
        return WrittenAside(self._log, group[0], self._aside)

    def finish(self, group: Sequence[SharedSegment], output: "WrittenAside") -> Iterator[Slice]:
        return ended(output.write(group[-1].next_offset))

    def put_in_place(self, group: Sequence[SharedSegment], output: "WrittenAside") -> Iterator[Slice]:
        rows = output.rows
        old = tuple(row.id for segment in group for row in segment.chunks)
        added = tuple(row.id for row in rows)
        return ended(self._log.replace(group, rows, self._aside.put_in_place(lambda: (old, added))))

    def discard(self, output: "WrittenAside") -> None:
        """The next round deletes what lies aside."""


class WrittenAside:
    """One segment in the place of a group of segments, written chunk by chunk."""

    def __init__(self, log: SharedLog, first: SharedSegment, aside: Aside) -> None:
        self.base_offset = first.base_offset
        self.open_producers = first.open_producers
        self.first_timestamp = -1
        self.transaction_index = TransactionIndex()
        self.rows: list[ChunkRow] = []
        self._key = log.key
        self._aside = aside
        self._begin(first.base_offset)

    def _begin(self, offset: int) -> None:
        self._part = MemorySegment(offset, self.open_producers, _NEVER)

    def append(self, batch: bytes, next_offset: int, timestamp: int, /) -> Slice:
        part, writing = self._part, None
        if part.size_bytes > 0 and part.size_bytes + len(batch) > self._aside.writer.chunk_bytes:
            writing = self.write(part.next_offset)
        if not self.rows and not self._part.size_bytes:
            self.first_timestamp = timestamp
        self._part.append(batch, next_offset, timestamp)
        return writing

    def write(self, end_offset: int) -> Completion[None]:
        """Write the next chunk, which ends there."""
        chunks = self._aside.writer.split(self._key, self, self._part, end_offset)
        self.rows += [row for row, _ in chunks]
        self.transaction_index = TransactionIndex()  # the next marker is in the next chunk
        self._begin(end_offset)
        return self._aside.add(chunks)
