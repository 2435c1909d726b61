"""Transaction timeouts: calls back when an open transaction has reached its timeout.

Owns: one timer for each open transaction. Does not own: the abort (`coordinator`).
Invariants
- A transaction's time counts from its first partition, whatever is added later, and is exact. Kafka checks every
  `check_interval_ms` instead, so a transaction may outlive its timeout by as much; 0 is exact.
- A two-phase commit transaction has no timeout.
- While running, the scheduler's clock counts: a wall clock that jumps neither ends a transaction early nor keeps it
  open. After a restart only the logged start is known.
"""

from collections.abc import Callable

from oncelog.broker.coordinator.transaction.metadata import NO_TIMEOUT_MS, TransactionMetadata
from oncelog.broker.turns.ports import Clock, Scheduler, Timer

RETRY_MS = 20


class TransactionTimeouts:
    def __init__(
        self,
        clock: Clock,
        scheduler: Scheduler,
        on_timeout: Callable[[TransactionMetadata], None],
        check_interval_ms: int = 0,
    ) -> None:
        self._clock = clock
        self._scheduler = scheduler
        self._on_timeout = on_timeout
        self._check_interval_ms = check_interval_ms
        self._started_ms = clock.monotonic_ms()
        self._timers: dict[str, Timer] = {}

    def watch(self, opened: TransactionMetadata, elapsed_ms: int = 0) -> None:
        """Arm the timer of a transaction that was opened, or found open; does nothing if it is already armed."""
        if opened.timeout_ms != NO_TIMEOUT_MS and opened.transactional_id not in self._timers:
            self._arm(opened, max(0, opened.timeout_ms - max(0, elapsed_ms)))

    def retry(self, opened: TransactionMetadata) -> None:
        """Arm the timer again: the owner could not abort the transaction just now. A partition added meanwhile has
        armed it, too."""
        self.stop(opened.transactional_id)
        self._arm(opened, RETRY_MS)

    def stop(self, transactional_id: str) -> None:
        timer = self._timers.pop(transactional_id, None)
        if timer is not None:
            timer.cancel()

    def stop_all(self) -> None:
        for transactional_id in list(self._timers):
            self.stop(transactional_id)

    def _arm(self, opened: TransactionMetadata, delay_ms: int) -> None:
        def expire() -> None:
            del self._timers[opened.transactional_id]
            self._on_timeout(opened)

        self._timers[opened.transactional_id] = self._scheduler.call_later(self._delay_until_check_ms(delay_ms), expire)

    def _delay_until_check_ms(self, delay_ms: int) -> int:
        if self._check_interval_ms == 0:
            return delay_ms
        running_ms = self._clock.monotonic_ms() - self._started_ms
        # Kafka's check finds what is past its timeout, not what has just reached it.
        checks = (running_ms + delay_ms) // self._check_interval_ms + 1
        return checks * self._check_interval_ms - running_ms
