"""Whether the disk has space for what is written, as the writes themselves find out.

Owns: that state, when it begins and when it ends. Does not own: the writes (`broker.storage.local`), who reports the
state (`broker.assembly`). Invariants
- It begins with a write that was refused, and is reported once; so is its end, however many writes are refused between.
- It ends when a trial write succeeds, whether or not a client still wants to write: a quota and used-up inodes do not
  show in the free space of the volume. A file that may not grow (EFBIG) says nothing about others, so there a write of
  that size has to succeed.
"""

import errno
from typing import Protocol

from oncelog.broker.turns.ports import Clock, Disk, MonotonicMs, Scheduler

_NO_SPACE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_TRIAL_PATH = ".space"
_LEAST_TRIAL_BYTES = 1 << 16
_MOST_TRIAL_BYTES = 1 << 20
"""Above that the free space of the volume decides: a trial is repeated every second."""


class SpaceListener(Protocol):
    def on_full(self, error: OSError) -> None:
        """A write was refused for lack of space."""

    def on_space(self, refused_count: int, duration_ms: int) -> None:
        """There is space again; so many writes were refused, in this time."""


class DiskSpace:
    """`error` is that of the first write that was refused, None while there is space."""

    __slots__ = ("_clock", "_is_trying", "_listener", "_refused_bytes", "_refused_count", "_since_ms", "error")

    def __init__(self) -> None:
        self.error: OSError | None = None
        self._listener: SpaceListener | None = None
        self._clock: Clock | None = None
        self._refused_bytes = self._refused_count = 0
        self._since_ms = MonotonicMs(0)
        self._is_trying = False

    def watch(self, listener: SpaceListener | None, clock: Clock) -> None:
        self._listener, self._clock = listener, clock

    def on_error(self, error: Exception, size_bytes: int = 0) -> None:
        """A write of so many bytes has failed; any error, of which only those for lack of space count."""
        if not isinstance(error, OSError) or error.errno not in _NO_SPACE_ERRORS:
            return
        self._refused_count += 1
        self._refused_bytes = max(self._refused_bytes, size_bytes)
        if self.error is None:
            self.error = error
            if self._listener is not None and self._clock is not None:
                self._since_ms = self._clock.monotonic_ms()
                self._listener.on_full(error)

    def on_written(self, size_bytes: int) -> None:
        """A write of so many bytes has succeeded, while writes were refused."""
        if self.error is not None and self.error.errno == errno.EFBIG and size_bytes >= self._refused_bytes:
            self._end()

    def step(self, disk: Disk, scheduler: Scheduler) -> None:
        """Try whether there is space again, off the loop: the trial is synced."""
        if self.error is None or self._is_trying or self.error.errno == errno.EFBIG:
            return
        if disk.volume_bytes()[1] < self._refused_bytes:
            return
        self._is_trying = True
        size_bytes = min(max(self._refused_bytes, _LEAST_TRIAL_BYTES), _MOST_TRIAL_BYTES)
        scheduler.run_beside(lambda: _try(disk, size_bytes), self._on_tried)

    def _on_tried(self, error: Exception | None) -> None:
        self._is_trying = False
        if error is None:
            self._end()

    def _end(self) -> None:
        refused_count, self._refused_count = self._refused_count, 0
        self.error, self._refused_bytes = None, 0
        if self._listener is not None and self._clock is not None:
            self._listener.on_space(refused_count, self._clock.monotonic_ms() - self._since_ms)


def _try(disk: Disk, size_bytes: int) -> None:
    """Raises OSError. Bytes that no file system leaves out as a hole."""
    disk.delete(_TRIAL_PATH)  # of a run that was killed
    try:
        file = disk.open(_TRIAL_PATH)
        file.append((b"\xff" * size_bytes,))
        file.sync()
        file.close()
    finally:
        disk.delete(_TRIAL_PATH)
