"""What is deleted from the tables: chunks by the thousand, in pieces of which none takes long.

Owns: what is still to be deleted. Invariant: one piece at a time is among what is written beside the rounds, so a
checkpoint waits for one at most.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from oncelog.broker.storage.sections import LogKey
from oncelog.broker.storage.shared.beside import Beside
from oncelog.broker.storage.shared.tables import ChunkRow, DeleteLogs, DropChunks, Statement
from oncelog.broker.turns.completion import Completion

_CHUNKS_A_PIECE = 64
_LOGS_A_PIECE = 1_000


class _Logs(NamedTuple):
    keys: tuple[LogKey, ...]
    deleted: Completion[None]


class Deletions:
    def __init__(self, epoch: int, beside: Beside) -> None:
        self._epoch = epoch
        self._beside = beside
        self._left: deque[ChunkRow | _Logs] = deque()
        self._is_deleting = False

    def drop(self, rows: Iterable[ChunkRow]) -> None:
        """Delete the first chunks of a log, in the order of their offsets."""
        self._left += rows
        self._next()

    def delete(self, logs: Mapping[LogKey, Iterable[ChunkRow]]) -> Completion[None]:
        """Delete these logs with their chunks. Completes once they are gone."""
        deleted: Completion[None] = Completion.of(None)
        for rows in logs.values():
            self._left += rows
        keys = tuple(logs)
        for at in range(0, len(keys), _LOGS_A_PIECE):
            deleted = Completion()
            self._left.append(_Logs(keys[at : at + _LOGS_A_PIECE], deleted))
        self._next()
        return deleted

    def _next(self) -> None:
        if self._is_deleting or not self._left:
            return
        self._is_deleting = True
        first = self._left[0]
        statement = self._drop_chunks() if isinstance(first, ChunkRow) else DeleteLogs(self._epoch, first.keys)

        def on_deleted(ended: Completion[None]) -> None:
            if ended.error is not None:
                self._fail(ended.error)
                return
            self._is_deleting = False
            if isinstance(first, _Logs):
                self._left.popleft()
                first.deleted.complete(None)
            self._next()

        self._write(statement).then(on_deleted)

    def _write(self, statement: Statement[bool]) -> Completion[None]:
        return self._beside.write(lambda: statement)

    def _drop_chunks(self) -> DropChunks:
        below: dict[LogKey, int] = {}
        for _ in range(_CHUNKS_A_PIECE):
            row = self._left[0] if self._left else None
            if not isinstance(row, ChunkRow):
                break
            below[row.key] = row.next_offset
            self._left.popleft()
        return DropChunks(self._epoch, below)

    def _fail(self, error: Exception) -> None:
        """Give up all deletions that are left, and fail those that are awaited."""
        left, self._left = self._left, deque()
        for each in left:
            if isinstance(each, _Logs):
                each.deleted.fail(error)
