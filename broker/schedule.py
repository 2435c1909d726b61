"""When a job is due that runs every so often, such as retention: on the monotonic clock.

Owns: the moment of the next run. Does not own: the job, or who asks (`step`, once a second).
Invariant: however the wall clock is set, the job runs once an interval, neither sooner nor, if it is asked for, later.
"""

from oncelog.broker.ports import Clock


class Schedule:
    __slots__ = ("_clock", "_due_ms")

    def __init__(self, clock: Clock, *, first_in_ms: int = 0) -> None:
        self._clock = clock
        self._due_ms = clock.monotonic_ms() + first_in_ms

    def take(self, interval_ms: int) -> bool:
        """Is the job due? If so it runs now, and next time in `interval_ms`."""
        monotonic_ms = self._clock.monotonic_ms()
        if monotonic_ms < self._due_ms:
            return False
        self._due_ms = monotonic_ms + interval_ms
        return True

    def expedite(self) -> None:
        """There is more to do: the job is due at once."""
        self._due_ms = self._clock.monotonic_ms()
