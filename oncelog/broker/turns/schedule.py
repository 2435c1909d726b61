"""When a periodic job, such as retention, is due: on the monotonic clock.

Owns: the time of the next run. Does not own: the job, or who polls it (`step`, once a second).
Invariant: however the wall clock is set, the job runs once per interval, not sooner and not later than polled.
"""

from oncelog.broker.turns.ports import Clock


class Schedule:
    __slots__ = ("_clock", "_due_ms")

    def __init__(self, clock: Clock, *, first_in_ms: int = 0) -> None:
        self._clock = clock
        self._due_ms = clock.monotonic_ms() + first_in_ms

    def take(self, interval_ms: int) -> bool:
        """Whether the job is due. If so it runs now, and next in `interval_ms`."""
        monotonic_ms = self._clock.monotonic_ms()
        if monotonic_ms < self._due_ms:
            return False
        self._due_ms = monotonic_ms + interval_ms
        return True

    def expedite(self) -> None:
        """Make the job due at once: more work is left."""
        self._due_ms = self._clock.monotonic_ms()
