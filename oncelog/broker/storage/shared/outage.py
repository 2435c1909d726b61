"""Detection of outages of the database.

Owns: which statements have been without an answer for long. Does not own: how long they are repeated (`statements`).
Invariants
- A connection that is cut and made again is no outage: that lasts a second at least.
- It is over with an answer, once no statement is late any more: one connection may answer while another cannot be made.
"""

from typing import Protocol

from oncelog.broker.turns.ports import Clock, MonotonicMs

LATE_MS = 1_000


class OutageListener(Protocol):
    def on_away(self, error: OSError) -> None:
        """A statement has been without an answer for a second, for this reason."""

    def on_back(self, duration_ms: int) -> None:
        """All statements are answered again, after this time."""


class Outage:
    def __init__(self, clock: Clock, listener: OutageListener | None) -> None:
        self._clock = clock
        self._listener = listener
        self._late: set[object] = set()
        self._since_ms: MonotonicMs | None = None

    def on_repeated(self, statement: object, since_ms: MonotonicMs, error: OSError) -> None:
        """The statement has had no answer since then, and will be sent again."""
        if self._clock.monotonic_ms() - since_ms < LATE_MS:
            return
        self._late.add(statement)
        if self._since_ms is None:
            self._since_ms = since_ms
            if self._listener is not None:
                self._listener.on_away(error)

    def on_given_up(self, statement: object) -> None:
        """The statement had no answer, and will not be sent again."""
        self._late.discard(statement)

    def on_answered(self, statement: object) -> None:
        if self._since_ms is None:
            return
        self._late.discard(statement)
        if not self._late:
            duration_ms, self._since_ms = self._clock.monotonic_ms() - self._since_ms, None
            if self._listener is not None:
                self._listener.on_back(duration_ms)
