"""Fetches that wait for data, woken when the offset that bounds their read moves.

Owns: who waits on which partition. Invariant: each waiter is answered at most once, by data or by its deadline, or
cancelled when its client is gone, and is then on no list. Named after Kafka's DelayedOperationPurgatory; here a
wake-up is a plain call in the same turn.
"""

from collections.abc import Callable, Sequence

from broker.log.partition_log import PartitionLog
from broker.ports import Scheduler, Timer


class _Waiter:
    __slots__ = ("done", "logs", "timer", "try_complete")

    def __init__(self, logs: Sequence[PartitionLog], try_complete: Callable[[bool], bool]) -> None:
        self.logs = logs
        self.try_complete = try_complete
        self.timer: Timer | None = None
        self.done = False


class FetchPurgatory:
    """A PartitionListener: hears of every high watermark and last stable offset."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._waiters: dict[PartitionLog, list[_Waiter]] = {}

    @property
    def waiting_count(self) -> int:
        return len({id(waiter) for waiters in self._waiters.values() for waiter in waiters})

    def wait(
        self, logs: Sequence[PartitionLog], max_wait_ms: int, try_complete: Callable[[bool], bool]
    ) -> Callable[[], None]:
        """Call `try_complete(False)` whenever one of `logs` moves until it returns True, and `try_complete(True)`
        at the deadline, when it must answer. Returns what ends the wait without an answer."""
        waiter = _Waiter(logs, try_complete)
        waiter.timer = self._scheduler.call_later(max_wait_ms, lambda: self._expire(waiter))
        for log in logs:
            self._waiters.setdefault(log, []).append(waiter)
        return lambda: self._cancel(waiter)

    def _cancel(self, waiter: _Waiter) -> None:
        if not waiter.done:
            self._finish(waiter)

    def on_high_watermark(self, log: PartitionLog) -> None:
        self._wake(log)

    def on_last_stable_offset(self, log: PartitionLog) -> None:
        self._wake(log)

    def _wake(self, log: PartitionLog) -> None:
        waiters = self._waiters.get(log)
        if not waiters:
            return
        for waiter in list(waiters):
            if not waiter.done and waiter.try_complete(False):
                self._finish(waiter)

    def _expire(self, waiter: _Waiter) -> None:
        if not waiter.done:
            waiter.try_complete(True)
            self._finish(waiter)

    def _finish(self, waiter: _Waiter) -> None:
        waiter.done = True
        if waiter.timer is not None:
            waiter.timer.cancel()
        for log in waiter.logs:
            waiters = self._waiters.get(log)
            if waiters is not None:
                waiters.remove(waiter)
                if not waiters:
                    del self._waiters[log]
