"""Replays the logs of coordinators: at a start at once while that is a blink, and in slices of the event loop.

Owns: whose turn it is, how much is replayed before anybody is listened to, and in one turn afterwards. Does not own:
what a record means (the shards), what is answered meanwhile (`life`), what a damaged log comes to (`runtime`).
Invariants
- Partitions are replayed in the order in which they were gained: at a start offsets before transactions, whose markers
  end offsets too. Only one whose next piece has yet to come lets the others pass.
- One turn of the loop replays a slice, however many partitions there are.
"""

from collections import deque
from collections.abc import Iterator
from typing import Any

from oncelog.broker.completion import Completion
from oncelog.broker.ports import Scheduler

RECORDS_AT_ONCE = 5_000
"""About a tenth of a second: most brokers are whole before their first request."""
RETRY_MS = 1_000
RECORDS_IN_A_SLICE = 200
"""A few milliseconds, which is what others wait for."""

Replay = Iterator[int | Completion[Any]]
"""Tells of each batch how many records it held; a completion is waited for."""


class CoordinatorLoading:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._ready: deque[Replay] = deque()
        self._waiting_count = 0
        self._turn_is_due = False
        self.has_caught_up = False
        """All that was there at the start is replayed."""

    def add(self, replay: Replay) -> None:
        """Its first slice comes in a later turn."""
        self._ready.append(replay)
        self._need_turn()

    def add_later(self, replay: Replay) -> None:
        """One that could not be finished for want of something that may be there in a while."""
        self._scheduler.call_later(RETRY_MS, lambda: self.add(replay))

    def begin(self) -> None:
        """At a start, before anybody is listened to."""
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
        self.has_caught_up |= self.is_done

    def _wait(self, replay: Replay, piece: Completion[Any]) -> None:
        self._waiting_count += 1

        def on_piece(_: Completion[Any]) -> None:
            self._waiting_count -= 1
            self._ready.appendleft(replay)
            self._need_turn()

        piece.then(on_piece)
