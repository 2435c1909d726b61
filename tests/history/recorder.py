"""Writes a history down while it happens: an operation is noted when it is asked, and completed when it is answered.

So that what a client that died has asked is in the history too, with its outcome unknown.
"""

from dataclasses import replace
from itertools import count
from typing import Any, Generic, TypeVar

from tests.history.events import (
    NEVER,
    NOT_SAID,
    Bounds,
    End,
    GroupCommit,
    History,
    Init,
    Leading,
    OffsetFetch,
    Outcome,
    Partition,
    Poll,
    Send,
    SendOffset,
    Span,
)

Operation = TypeVar("Operation", Init, Send, SendOffset, End, Poll, OffsetFetch, GroupCommit)


class Pending(Generic[Operation]):
    def __init__(self, recorder: "Recorder", operations: list[Operation], operation: Operation) -> None:
        self._recorder = recorder
        self._operations: list[Operation] = operations
        self._place = len(operations)
        operations.append(operation)

    def done(self, outcome: Outcome = Outcome.OK, **told: Any) -> None:
        """Complete the operation with the fields of its answer."""
        operation = self._operations[self._place]
        completed_at = NEVER if outcome is Outcome.UNKNOWN else self._recorder.tick()
        span = Span(operation.span.invoked_at, completed_at, outcome)
        self._operations[self._place] = replace(operation, span=span, **told)


class Recorder:
    def __init__(self, history: History | None = None) -> None:
        self.history = history or History()
        self._ticks = count(1)

    def tick(self) -> int:
        return next(self._ticks)

    def asked(self) -> Span:
        return Span(self.tick())

    def now(self) -> Span:
        """A span of one moment."""
        at = self.tick()
        return Span(at, at, Outcome.OK)

    def note_bounds(
        self,
        asked: Span,
        partition: Partition,
        log_start_offset: int = NOT_SAID,
        last_stable_offset: int = NOT_SAID,
        high_watermark: int = NOT_SAID,
    ) -> None:
        """The answer to what was asked at `asked` shows these."""
        span = Span(asked.invoked_at, self.tick(), Outcome.OK)
        self.history.bounds.append(Bounds(span, partition, log_start_offset, last_stable_offset, high_watermark))

    def note_leader_epoch(self, asked: Span, partition: Partition, epoch: int) -> None:
        """The answer to what was asked at `asked` shows it."""
        self.history.leading.append(Leading(Span(asked.invoked_at, self.tick(), Outcome.OK), partition, epoch))

    def begin(self, operations: list[Operation], operation: Operation) -> Pending[Operation]:
        return Pending(self, operations, operation)
