"""Bounds on what all connections together keep in memory: requests that are not whole, answers that nobody reads.

Owns: the sums, and the verdicts drawn from them. Does not own: the buffers (`broker.net.connection`).
Invariants
- Only connections that hold much are counted and held back: a small request and a small answer always pass.
- Of the requests that are not whole, the oldest may always be read on, so that large ones end one by one; one that
  does not move loses that right (`pass_on`), so that a client that stops in the middle stops nobody else.
- Near the bound of unread answers, the next ones get smaller, down to `SMALL_ANSWER_BYTES`. None is refused.
"""

from typing import Protocol

SMALL_REQUEST_BYTES = 1 << 20
SMALL_ANSWER_BYTES = 1 << 20


class Reader(Protocol):
    def on_memory(self) -> None:
        """`may_read` may have another answer now."""

    @property
    def has_moved(self) -> bool:
        """Bytes came since the last look."""


class RequestMemory:
    """Requests that are not whole yet, by the connection that they come by, the oldest first."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._held: dict[Reader, int] = {}
        self._stalled: dict[Reader, None] = {}
        self.used_bytes = 0

    def note(self, reader: Reader, held_bytes: int) -> None:
        """`reader` holds so much now; less than `SMALL_REQUEST_BYTES` is as good as nothing."""
        if held_bytes < SMALL_REQUEST_BYTES:
            held_bytes = 0
        before = self._held.get(reader, 0)
        if held_bytes == before:
            return
        self.used_bytes += held_bytes - before
        if held_bytes:
            self._held[reader] = held_bytes
        else:
            del self._held[reader]
            self._stalled.pop(reader, None)
            self._tell()

    def may_read(self, reader: Reader) -> bool:
        """Whether it may read on now; if not, it is told when that may have changed."""
        if self._limit_bytes < 0 or self.used_bytes <= self._limit_bytes or reader not in self._held:
            return True
        if next(iter(self._held)) is reader:
            return True
        self._stalled[reader] = None
        return False

    def pass_on(self) -> None:
        """Called now and then: the oldest request gives way if it has not moved while others wait for it."""
        if self._stalled:
            oldest = next(iter(self._held))
            if oldest not in self._stalled and not oldest.has_moved:
                self._held[oldest] = self._held.pop(oldest)
                self._tell()

    def _tell(self) -> None:
        stalled, self._stalled = self._stalled, {}
        for reader in stalled:
            reader.on_memory()


class AnswerMemory:
    """Bytes of answers that could not be sent, by connection."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._unread: dict[object, int] = {}
        self.used_bytes = 0

    def note(self, connection: object, unread_bytes: int) -> None:
        self.used_bytes += unread_bytes - self._unread.pop(connection, 0)
        if unread_bytes:
            self._unread[connection] = unread_bytes

    @property
    def next_answer_bytes(self) -> int:
        """How large the next answer with records may be: half of what is left, so that many may come at once."""
        return max(SMALL_ANSWER_BYTES, (self._limit_bytes - self.used_bytes) // 2)
