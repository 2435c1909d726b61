"""What is written beside the rounds: one statement at a time, in the order of the decisions.

Owns: the queue. Does not own: what a statement says, which is decided when its turn comes. Invariants
- What a decision deletes was written before, and nothing of it is written after.
- A statement that the database lacks space for goes to the end of the queue: others may free some.
- After a failure nothing more is written.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from oncelog.broker.log.store import StoreError
from oncelog.broker.storage.shared.room import RETRY_MS, Room
from oncelog.broker.storage.shared.statements import RefusedAfterLoss, Statements
from oncelog.broker.storage.shared.tables import Refused, Statement
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Scheduler

MakeStatement = Callable[[], Statement[bool]]


class _Wanted(NamedTuple):
    make: MakeStatement
    written: Completion[None]
    is_repeated: bool


class Beside:
    def __init__(
        self, statements: Statements, scheduler: Scheduler, room: Room, on_failure: Callable[[OSError], None]
    ) -> None:
        """`on_failure` is called with errors whose outcome is unknown."""
        self._statements = statements
        self._scheduler = scheduler
        self._room = room
        self._on_failure = on_failure
        self._queue: deque[_Wanted] = deque()
        self._is_writing = False
        self._failure: OSError | None = None
        self._unwritten_count = 0
        self._idle: Completion[None] = Completion()
        self._last: Completion[None] = Completion.of(None)

    @property
    def is_busy(self) -> bool:
        return self._unwritten_count > 0

    def when_idle(self) -> Completion[None]:
        return self._idle if self.is_busy else Completion.of(None)

    def settled(self) -> Completion[None]:
        """Completes once the outcome of every statement so far is known, except of those that were refused."""
        settled: Completion[None] = Completion()
        self._last.then(lambda _: settled.complete(None))
        return settled

    def write(self, make: MakeStatement, *, is_repeated: bool = True) -> Completion[None]:
        """Completes once the statement is committed. If the database lacks space for it, it is sent again; without
        `is_repeated` it fails with StoreError instead, provided that it is known not to be committed. Any other error
        is an OSError."""
        wanted = _Wanted(make, Completion(), is_repeated)
        self._unwritten_count += 1
        self._last = wanted.written
        self._add(wanted)
        return wanted.written

    def _add(self, wanted: _Wanted) -> None:
        self._queue.append(wanted)
        self._write_next()

    def _write_next(self) -> None:
        if self._is_writing:
            return
        if self._failure is not None:
            while self._queue:
                self._end(self._queue.popleft(), self._failure)
        elif self._queue:
            self._is_writing = True
            wanted = self._queue.popleft()
            self._statements.write(wanted.make()).then(lambda answer: self._on_answer(wanted, answer.error))

    def _on_answer(self, wanted: _Wanted, error: Exception | None) -> None:
        self._is_writing = False
        if isinstance(error, RefusedAfterLoss) or (isinstance(error, Refused) and wanted.is_repeated):
            self._room.on_refused(wanted.written, error)
            self._scheduler.call_later(RETRY_MS, lambda: self._add(wanted._replace(is_repeated=True)))
        elif isinstance(error, Refused):
            self._end(wanted, StoreError(str(error)))
        else:
            self._room.on_ended(wanted.written)
            if isinstance(error, OSError):
                self._failure = error
                self._on_failure(error)
            self._end(wanted, error)
        self._write_next()

    def _end(self, wanted: _Wanted, error: Exception | None) -> None:
        self._unwritten_count -= 1
        if error is None:
            wanted.written.complete(None)
        else:
            wanted.written.fail(error)
        if not self._unwritten_count:
            idle, self._idle = self._idle, Completion()
            idle.complete(None)
