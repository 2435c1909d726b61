"""Chunks that are written before they are part of a log, and put in the place of others by one small statement.

Owns: the statements. Invariants
- What lies aside belongs to no log. After an end in between whoever writes next deletes it.
- One at a time writes aside: a round of compaction, or who joins small chunks.
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
        """Once it completes, every change of chunks that was wanted before is known, too."""
        return self._write(lambda: DropAside(self._epoch))

    def add(self, chunks: Sequence[NewChunk]) -> Completion[None]:
        return self._write(lambda: AddAside(self._epoch, chunks))

    def put_in_place(self, decide: Callable[[], tuple[ChunkIds, ChunkIds]]) -> Completion[None]:
        """`decide` says, when the time has come, which chunks go, and which of those aside come."""
        return self._write(lambda: ReplaceChunks(self._epoch, *decide()))

    def _write(self, make: MakeStatement) -> Completion[None]:
        """Fails with StoreError if there is no space."""
        return self._beside.write(make, is_repeated=False)
