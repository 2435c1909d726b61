"""Group commit: makes many appends durable with one commit of the store.

Owns: when a round begins, and that all of its logs advance together. Does not own: how the store makes records durable
(`log.store`), the offsets (each log advances its own).
Invariants
- At most one round is in flight; what is appended during a round belongs to the next one.
- A high watermark advances only after the records below it are committed. All logs of a round advance in one turn,
  before any waiter or listener is called; those that the store could not make durable do not advance.
- Once the store is in final trouble nothing more is acknowledged.

A client sends its pipelined requests one by one, and as fast as it gets the responses of a round. So where rounds hold
several appends, a round waits for a turn of the loop that brings none; and for a few more while it holds fewer than the
rounds before, if all of them are of one log, as a pipelining producer's are.

What a transaction appends before its end is answered once a kill cannot undo it (`answer_ahead`). Its round begins with
the next append, when a reader asks for it (`start_round`), or a few milliseconds later.
"""

import errno
from collections.abc import Callable

from oncelog.broker.log.store import (
    ALL_DURABLE,
    Durability,
    GrowingLog,
    LogStore,
    Outlives,
    RoundEnds,
    Verdict,
    Verdicts,
)
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Scheduler, Stopwatch
from oncelog.protocol import mypyc_attr

_MOST_TURNS = 16
"""Turns of the loop that a round waits at most: few enough that other clients cannot delay it."""
_ANSWERED_AHEAD_MS = 5
"""How long a round waits that has only appends answered ahead: longer than most transactions take to send their
records."""
_EMPTY_TURNS = 8
"""Turns that it waits although they bring no append. Measured with five requests in flight, compiled: 75 µs a record;
with three turns 92, with twelve 74."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Rounds:
    def __init__(
        self,
        scheduler: Scheduler,
        store: LogStore,
        stopwatch: Stopwatch | None = None,
    ) -> None:
        """`stopwatch` is called when a round begins, and what it returns when its records can be read."""
        self._stopwatch = stopwatch
        self.is_over = False
        """Nothing is appended or acknowledged any more."""
        store.watch_failure(self.end)
        self._scheduler = scheduler
        self._store = store
        self.round_count = 0
        self.append_count = 0
        self._appends_begun = 0
        """How many appends a round has taken so far."""
        self._dirty: dict[GrowingLog, None] = {}
        """The logs of the next round."""
        self._is_scheduled = False
        self._is_in_flight = False
        self._gathers = store.durability.outlives >= Outlives.POWER_CUT
        self._last_append_count = 0
        """How many appends the last round had."""
        self._appends_seen = 0
        """`append_count` when the round was last delayed."""
        self._turns = self._empty_turns = 0
        """Turns by which this round was delayed, and how many of them brought no append."""
        self._usual_append_count = 0
        """How many appends recent rounds had, if each had several and all of them were of one log."""
        self._ahead_count = 0
        """How many appends of the next round were answered ahead."""
        self._is_patience_timed = False

    def arm(self, log: GrowingLog) -> None:
        """`log` has grown: include it in the next round."""
        self.append_count += 1
        self._dirty[log] = None
        self._schedule()

    def start_round(self) -> None:
        """Begin the round for a reader of what was answered ahead, at once if it costs nothing."""
        if not self._dirty:
            return
        self._ahead_count = 0
        if self._gathers:
            self._schedule()
        else:
            self._commit()

    def _schedule(self) -> None:
        if not self._is_scheduled and not self._is_in_flight:
            self._is_scheduled = True
            # Whatever else this turn of the loop appends joins the round.
            self._scheduler.call_soon(self._run)

    def call_soon(self, function: Callable[[], None]) -> None:
        """Run `function` after this turn of the loop."""
        self._scheduler.call_soon(function)

    @property
    def durability(self) -> Durability:
        """See `LogStore.durability`."""
        return self._store.durability

    @property
    def commits_at_once(self) -> bool:
        """Whether an appended record is as durable as it gets, and may be answered."""
        return not self._gathers and not self.is_over

    def end(self) -> None:
        """The store has failed, or was closed; timers may still be due."""
        self.is_over = True

    def answer_ahead(self, append_count: int) -> bool:
        """Whether the last appends, that many, may be answered in this turn, as parts of a transaction: a kill cannot
        undo them, nothing that is appended later is durable before them, and the next start knows of a power cut that
        did undo them."""
        if not self._gathers:
            return True
        if self._is_in_flight or not self._store.durability.answer_ahead():
            return False
        self._ahead_count += append_count
        return True

    @property
    def is_busy(self) -> bool:
        """A commit is in flight or due: a clean stop waits for it."""
        return bool(self._dirty) or self._is_in_flight or self._store.is_busy

    def run_now(self) -> None:
        """Make everything durable on the loop, whatever the flush policy. Raises OSError while a round is in flight, or
        if no file descriptor is left."""
        if self._is_in_flight or self._store.is_busy:
            raise OSError(errno.EBUSY, "a flush round is in flight")
        while self._dirty and not self.is_over:
            ends = self._take()
            self._store.commit_now()
            if not self.is_over:
                _advance(ends)

    def _take(self) -> RoundEnds:
        logs, self._dirty = self._dirty, {}
        self._appends_begun, self._ahead_count = self.append_count, 0
        return [(log, log.log_end_offset) for log in logs if not log.is_closed]

    def _run(self) -> None:
        if self._ahead_count and self._ahead_count == self.append_count - self._appends_begun:
            self._is_scheduled = False
            self._wait_patiently()
            return
        if self._last_append_count > 1 and self._gathers and self._expects_more():
            self._scheduler.call_soon(self._run)
            return
        self._is_scheduled = False
        self._commit()

    def _commit(self) -> None:
        if self.is_over or not self._dirty:
            return
        self._last_append_count = append_count = self.append_count - self._appends_begun
        ends = self._take()
        self.round_count += 1
        on_ended = None if self._stopwatch is None else self._stopwatch()
        committing = self._store.commit(ends, append_count)
        if committing is None:
            _advance(ends, on_ended)
            return
        self._is_in_flight = True
        committing.then(lambda committed: self._on_committed(ends, on_ended, committed))

    def _wait_patiently(self) -> None:
        """All of the round was answered ahead. One timer serves the rounds that begin before it fires."""
        if self._is_patience_timed:
            return
        self._is_patience_timed = True
        round_count = self.round_count

        def on_time() -> None:
            self._is_patience_timed = False
            if round_count == self.round_count:
                self.start_round()
            elif self._ahead_count:
                self._wait_patiently()

        self._scheduler.call_later(_ANSWERED_AHEAD_MS, on_time)

    def _expects_more(self) -> bool:
        if self._appends_seen != self.append_count and self._turns < _MOST_TURNS:
            self._appends_seen, self._turns = self.append_count, self._turns + 1
            return True
        append_count = self.append_count - self._appends_begun
        if append_count < self._usual_append_count and self._waits_without_any():
            return True
        self._turns = self._empty_turns = 0
        self._usual_append_count = max(append_count, self._usual_append_count - 1) if len(self._dirty) == 1 else 0
        return False

    def _waits_without_any(self) -> bool:
        if len(self._dirty) > 1 or self._turns == _MOST_TURNS or self._empty_turns == _EMPTY_TURNS:
            return False
        self._turns += 1
        self._empty_turns += 1
        return True

    def _on_committed(
        self, ends: RoundEnds, on_ended: Callable[[], None] | None, committed: Completion[Verdicts]
    ) -> None:
        self._is_in_flight = False
        verdicts = committed.result()
        if verdicts is not ALL_DURABLE:
            for log, _ in ends:  # before others advance: what follows from that must find these gone
                if verdicts.get(log.stored) is Verdict.NOT_LEADER and not log.is_closed:
                    log.on_lost()
            ends = [(log, next_offset) for log, next_offset in ends if log.stored not in verdicts]
        if ends:
            _advance(ends, on_ended)
        if self._dirty and not self._is_scheduled:
            self._is_scheduled = True
            self._scheduler.call_soon(self._run)


def _advance(ends: RoundEnds, on_ended: Callable[[], None] | None = None) -> None:
    for log, next_offset in ends:
        log.advance_high_watermark(next_offset)
    if on_ended is not None:
        on_ended()
    for log, _ in ends:
        log.notify_high_watermark()
