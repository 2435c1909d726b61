"""Replays the logs of coordinators: at a start in one go if they are short, otherwise in slices of the event loop.

Owns: the order of replays, and how much is replayed before the first request and in each turn after that. Does not own:
what a record means (the shards), responses meanwhile (`life`), how a damaged log is handled (`runtime`).
Invariants
- Partitions are replayed in the order in which they were gained: at a start offsets before transactions, whose markers
  also end offset commits. A replay that waits for its next piece lets the others pass, and only then.
- One turn of the loop replays a slice, however many partitions there are.
"""

from collections import deque
from collections.abc import Iterator
from typing import Any

from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Scheduler

RECORDS_AT_ONCE = 15_000
"""How many records are read at once, in about a tenth of a second: most brokers have loaded everything before their
first request."""
RETRY_MS = 1_000
RECORDS_IN_A_SLICE = 600
"""How many records are read in a slice, in a few milliseconds, during which other requests wait."""

Replay = Iterator[int | Completion[Any]]
"""Yields the number of records that it has read, or a completion to wait for."""


class CoordinatorLoading:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._ready: deque[Replay] = deque()
        self._waiting_count = 0
        self._turn_is_due = False
        self.caught_up: Completion[None] = Completion()
        """Completes once everything present at the start has been replayed."""

    def add(self, replay: Replay) -> None:
        """Add a replay, whose first slice runs in a later turn."""
        self._ready.append(replay)
        self._need_turn()

    def add_later(self, replay: Replay) -> None:
        """Retry later a replay that failed for a temporary reason."""
        self._scheduler.call_later(RETRY_MS, lambda: self.add(replay))

    def begin(self) -> None:
        """Run the first replays at a start, before the broker accepts requests."""
        self._replay(RECORDS_AT_ONCE)

    @property
    def is_done(self) -> bool:
        return not self._ready and not self._waiting_count

    def _need_turn(self) -> None:
        if self._ready and not self._turn_is_due:
            self._turn_is_due = True
            self._scheduler.call_soon(self._turn)

    def _turn(self) -> None:
        self._turn_is_due = False
        self._replay(RECORDS_IN_A_SLICE)
        self._need_turn()

    def _replay(self, record_count: int) -> None:
        while self._ready and record_count > 0:
            step = next(self._ready[0], None)
            if isinstance(step, int):
                record_count -= max(1, step)  # compaction leaves empty ones
            else:
                replay = self._ready.popleft()
                if step is not None:
                    self._wait(replay, step)
        if self.is_done and not self.caught_up.done:
            self.caught_up.complete(None)

    def _wait(self, replay: Replay, piece: Completion[Any]) -> None:
        self._waiting_count += 1

        def on_piece(_: Completion[Any]) -> None:
            self._waiting_count -= 1
            self._ready.appendleft(replay)
            self._need_turn()

        piece.then(on_piece)
