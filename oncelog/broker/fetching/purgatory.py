"""Which partitions of which fetches are notified of a log's offsets, and how many fetches wait.

Owns: the watchers of each log. Does not own: a watcher's reaction (`broker.fetching.session`), how long a fetch may
wait. Invariant: a watcher is notified of each move after it began to watch, in the turn of the move, until it stops.
Named after Kafka's DelayedOperationPurgatory; here a wake-up is a plain call.
"""

from collections.abc import Callable
from typing import Protocol

from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.turns.ports import Scheduler, Timer


class Watcher(Protocol):
    def on_moved(self) -> None:
        """An offset of the log moved, or the log went offline or was deleted."""


class FetchPurgatory:
    """A PartitionListener: notified of every high watermark and log start offset."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._watchers: dict[PartitionLog, dict[Watcher, None]] = {}
        self.waiting_count = 0

    # -- watching

    def watch(self, log: PartitionLog, watcher: Watcher) -> None:
        watchers = self._watchers.get(log)
        if watchers is None:
            watchers = self._watchers[log] = {}
        watchers[watcher] = None

    def unwatch(self, log: PartitionLog, watcher: Watcher) -> None:
        watchers = self._watchers.get(log)
        if watchers is not None:
            watchers.pop(watcher, None)
            if not watchers:
                del self._watchers[log]

    @property
    def watcher_count(self) -> int:
        return sum(map(len, self._watchers.values()))

    # -- waiting

    def wait(self, max_wait_ms: int, on_expired: Callable[[], None]) -> Timer:
        """A fetch begins to wait; `end_wait` with the timer ends it, also after it has expired."""
        self.waiting_count += 1
        return self._scheduler.call_later(max_wait_ms, on_expired)

    def end_wait(self, timer: Timer) -> None:
        self.waiting_count -= 1
        timer.cancel()

    # -- notifications

    def on_log_start_offset(self, log: PartitionLog) -> None:
        self.on_high_watermark(log)

    def on_high_watermark(self, log: PartitionLog) -> None:
        watchers = self._watchers.get(log)
        if watchers is not None:
            # A notified watcher may stop watching, and so may others whose wait ends with it.
            for watcher in tuple(watchers):
                if watcher in watchers:
                    watcher.on_moved()
