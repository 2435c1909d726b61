"""Chunks that are written before they are part of a log, and put in the place of others by one small statement.

Owns: the statements. Invariants
- Chunks that lie aside belong to no log. If the broker ends before they are put in place, the next writer deletes them.
- There is one writer at a time: a round of compaction, or the joiner of small chunks.
- What the database lacks space for is given up, and not wanted later: what replaces chunks would come after what
  deletes those that lie aside.
"""

from collections.abc import Callable, Sequence

from oncelog.broker.storage.shared.beside import Beside, MakeStatement
from oncelog.broker.storage.shared.chunks import ChunkWriter
from oncelog.broker.storage.shared.tables import AddAside, DropAside, NewChunk, ReplaceChunks
from oncelog.broker.turns.completion import Completion

ChunkIds = tuple[int, ...]


class Aside:
    def __init__(self, epoch: int, writer: ChunkWriter, beside: Beside) -> None:
        self._epoch = epoch
        self._beside = beside
        self.writer = writer

    def clear(self) -> Completion[None]:
        """Delete the chunks that lie aside. When it completes, the outcome of each earlier statement is known, too."""
        return self._write(lambda: DropAside(self._epoch))

    def add(self, chunks: Sequence[NewChunk]) -> Completion[None]:
        return self._write(lambda: AddAside(self._epoch, chunks))

    def put_in_place(self, decide: Callable[[], tuple[ChunkIds, ChunkIds]]) -> Completion[None]:
        """Swap chunks of a log for chunks that lie aside. `decide` is called when the statement is sent, and returns
        the ids of the old and of the new ones."""
        return self._write(lambda: ReplaceChunks(self._epoch, *decide()))

    def _write(self, make: MakeStatement) -> Completion[None]:
        """Write the statement once. Fails with StoreError if the database lacks space."""
        return self._beside.write(make, is_repeated=False)
