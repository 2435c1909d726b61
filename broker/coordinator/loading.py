"""Replays the logs of coordinators at a start: at once while that is a blink, in slices of the event loop after that.

Owns: how much is replayed before anybody is listened to, and in one turn afterwards; the order (offsets before
transactions, whose markers end offsets too). Does not own: what a record means (the shards), what is answered meanwhile
(COORDINATOR_LOAD_IN_PROGRESS: `runtime`).
Invariant: a coordinator is told that it is loaded once, in the turn in which its last record was replayed.
"""

from collections.abc import Callable, Iterator, Sequence

from oncelog.broker.completion import Completion
from oncelog.broker.ports import Scheduler
from oncelog.protocol.errors import KafkaError

RECORDS_AT_ONCE = 5_000
"""About a tenth of a second: most brokers are whole before their first request."""
RECORDS_IN_A_SLICE = 200
"""A few milliseconds, which is what others wait for."""

Stage = tuple[Callable[[], Iterator[int | Completion[None]]], Callable[[], None]]
"""What replays, yielding how many records each batch held or what must end first; what to call when that is done."""


class CoordinatorLoading:
    def __init__(self, scheduler: Scheduler, on_failure: Callable[[KafkaError], None]) -> None:
        """`on_failure` hears of a log that is found damaged after `begin`."""
        self._scheduler = scheduler
        self._on_failure = on_failure
        self._replayed: Iterator[int | Completion[None]] = iter(())
        self.is_done = False

    def begin(self, stages: Sequence[Stage]) -> None:
        """Raises KafkaError for a log that cannot be replayed, if it comes to that at once."""
        self._replayed = _one_after_the_other([(begin(), on_loaded) for begin, on_loaded in stages])
        self._replay(RECORDS_AT_ONCE)

    def _go_on(self) -> None:
        try:
            self._replay(RECORDS_IN_A_SLICE)
        except KafkaError as error:
            self._on_failure(error)

    def _on_fetched(self, fetched: Completion[None]) -> None:
        if isinstance(fetched.error, KafkaError):
            self._on_failure(fetched.error)
        else:
            self._scheduler.call_soon(self._go_on)

    def _replay(self, record_count: int) -> None:
        for step in self._replayed:
            if isinstance(step, Completion):
                step.then(self._on_fetched)
                return
            record_count -= max(1, step)  # compaction leaves empty ones
            if record_count <= 0:
                self._scheduler.call_soon(self._go_on)
                return
        self.is_done = True


def _one_after_the_other(
    stages: Sequence[tuple[Iterator[int | Completion[None]], Callable[[], None]]],
) -> Iterator[int | Completion[None]]:
    for replayed, on_loaded in stages:
        yield from replayed
        on_loaded()
