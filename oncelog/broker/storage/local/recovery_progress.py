"""Reports the progress of recovery during a long start.

Owns: when a line is due. Invariant: nothing is reported within the first interval: a quick start is silent.
"""

from collections.abc import Callable

from oncelog.broker.turns.ports import Clock
from oncelog.broker.turns.schedule import Schedule

INTERVAL_MS = 1_000


class RecoveryProgress:
    def __init__(self, clock: Clock, report: Callable[[int, int, str], None]) -> None:
        """`report(scanned_bytes, partition_count, name)` gets the bytes read so far, the number of recovered
        partitions, and the one in progress."""
        self._report = report
        self._lines = Schedule(clock, first_in_ms=INTERVAL_MS)
        self._scanned_bytes = 0
        self._partition_count = 0
        self._name = ""

    def on_partition(self, name: str) -> None:
        self._name = name

    def on_recovered(self) -> None:
        self._partition_count += 1
        self._maybe_report()

    def on_scanned(self, size_bytes: int) -> None:
        self._scanned_bytes += size_bytes
        self._maybe_report()

    def _maybe_report(self) -> None:
        if self._lines.take(INTERVAL_MS):
            self._report(self._scanned_bytes, self._partition_count, self._name)
