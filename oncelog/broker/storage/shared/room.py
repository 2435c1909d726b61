"""Whether there is room for more: in the database, which may have a full disk, and in the memory of this broker.

Owns: which statements the database has refused, and how much waits to be committed. Does not own: when a statement is
sent again (`beside`, `store`). Invariants
- What was refused has not happened. It is sent again until it has; until then nothing is appended, and the store says
  what it lacks. So a decision is never left half written, and statements that free space continue.
- Nothing but memory keeps what was appended and is not committed: at most `limit_bytes`, and one batch.
"""

from oncelog.broker.log.store import StoreError
from oncelog.broker.storage.local.disk_space import SpaceListener
from oncelog.broker.turns.ports import Clock, MonotonicMs

RETRY_MS = 1_000


class Room:
    def __init__(self, limit_bytes: int, clock: Clock, listener: SpaceListener | None = None) -> None:
        self.error: OSError | None = None
        """The first refusal, while a refused statement is not committed."""
        self.waiting_bytes = 0
        """The bytes that were appended and are in no committed round."""
        self._limit_bytes = limit_bytes
        self._clock = clock
        self._listener = listener
        self._refused: set[object] = set()
        self._refused_count = 0
        self._since_ms = MonotonicMs(0)

    def check(self) -> None:
        """Raises StoreError if nothing may be appended."""
        if self.error is not None:
            self._refused_count += 1
            raise StoreError(str(self.error))
        if self.waiting_bytes > self._limit_bytes:
            raise StoreError(f"{self.waiting_bytes} bytes wait for the database, which is slower than they come")

    def on_refused(self, statement: object, error: OSError) -> None:
        """The database has refused the statement for now; it will be sent again."""
        self._refused.add(statement)
        self._refused_count += 1
        if self.error is None:
            self.error, self._since_ms = error, self._clock.monotonic_ms()
            if self._listener is not None:
                self._listener.on_full(error)

    def on_ended(self, statement: object) -> None:
        """The statement has ended otherwise than by a refusal."""
        self._refused.discard(statement)
        if self.error is not None and not self._refused:
            refused_count, self._refused_count, self.error = self._refused_count, 0, None
            if self._listener is not None:
                self._listener.on_space(refused_count, self._clock.monotonic_ms() - self._since_ms)
