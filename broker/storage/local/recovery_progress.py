"""Tells while a start recovers how far it is, for starts that take longer than a moment.

Owns: when a line is due. Invariant: nothing is told within the first interval: a quick start is silent.
"""

from collections.abc import Callable

from oncelog.broker.ports import Clock
from oncelog.broker.schedule import Schedule

INTERVAL_MS = 1_000


class RecoveryProgress:
    def __init__(self, clock: Clock, tell: Callable[[int, int, str], None]) -> None:
        """`tell(scanned_bytes, partition_count, name)` hears of all bytes read so far, the partitions that are done,
        and the one that is being read."""
        self._tell = tell
        self._lines = Schedule(clock, first_in_ms=INTERVAL_MS)
        self._scanned_bytes = 0
        self._partition_count = 0
        self._name = ""

    def on_partition(self, name: str) -> None:
        self._name = name

    def on_recovered(self) -> None:
        self._partition_count += 1
        self._maybe_tell()

    def on_scanned(self, size_bytes: int) -> None:
        self._scanned_bytes += size_bytes
        self._maybe_tell()

    def _maybe_tell(self) -> None:
        if self._lines.take(INTERVAL_MS):
            self._tell(self._scanned_bytes, self._partition_count, self._name)
