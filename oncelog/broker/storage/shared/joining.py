"""Small chunks that follow one another become one: checkpoints of a log that grows slowly leave a few bytes each time.

Owns: which chunks are worth it, and the work in progress. Does not own: how others are put in their place (`aside`).
Invariants
- No chunk is changed: a reader of one that is gone looks it up again.
- What is written again becomes part of something at least twice as large: a byte is written a dozen times at most until
  its chunk is full.
"""

from collections import deque
from collections.abc import Generator, Iterable, Sequence
from typing import Any, NamedTuple

from oncelog.broker.log.store import LogView, StoreDamagedError, StoreError
from oncelog.broker.storage.shared.aside import Aside, ChunkIds
from oncelog.broker.storage.shared.chunks import ChunkCache
from oncelog.broker.storage.shared.log import SharedLog, SharedSegment
from oncelog.broker.storage.shared.tables import ChunkRow, NewChunk
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Clock
from oncelog.broker.turns.schedule import Schedule

_LOOK_MS = 10_000
_LOGS_A_STEP = 500
_SEEN = 64
"""How many of the last chunks of a segment are looked at."""
_LEAST = 8
"""How many are worth to be joined."""
_BYTES_AT_ONCE = 1024 * 1024


class Run(NamedTuple):
    """Adjacent chunks of a segment."""

    log: SharedLog
    segment: SharedSegment
    rows: Sequence[ChunkRow]

    def is_there(self) -> bool:
        """Whether neither retention nor the end of the log has removed them."""
        return not self.log.is_closed and self.segment in self.log.segments


Steps = Generator[Completion[Any], None, None]


class Joiner:
    def __init__(self, aside: Aside, cache: ChunkCache, clock: Clock) -> None:
        self._aside = aside
        self._cache = cache
        self._schedule = Schedule(clock, first_in_ms=_LOOK_MS)
        self._left: deque[LogView] = deque()
        """To be looked at."""
        self._steps: Steps | None = None

    @property
    def is_busy(self) -> bool:
        return self._steps is not None

    def step(self, logs: Iterable[LogView]) -> None:
        """Look for small chunks in some logs. Call it while no compaction writes aside."""
        if self._steps is not None:
            return
        if not self._left and self._schedule.take(_LOOK_MS):
            self._left.extend(logs)
        runs = self._next_runs()
        if runs:
            self._steps = self._join(runs)
            self._go_on()

    def stop(self) -> None:
        self._steps = None

    def _next_runs(self) -> list[Run]:
        runs: list[Run] = []
        left_bytes = _BYTES_AT_ONCE
        for _ in range(min(_LOGS_A_STEP, len(self._left))):
            view = self._left.popleft()
            log = view.stored
            if isinstance(log, SharedLog) and not log.is_closed and view.offline_error is None:
                for segment in list(log.segments)[-2:]:
                    rows = small_run(segment.chunks[-_SEEN:], self._aside.writer.chunk_bytes)
                    if rows:
                        runs.append(Run(log, segment, rows))
                        left_bytes -= sum(row.size_bytes for row in rows)
            if left_bytes <= 0:
                break
        return runs

    def _go_on(self) -> None:
        steps = self._steps
        if steps is None:
            return
        try:
            step = next(steps)
        except (StopIteration, StoreError, OSError):  # the database does not answer: its writer handles that
            self._steps = None
        else:
            step.then(lambda _: self._go_on() if self._steps is steps else None)

    def _join(self, runs: Sequence[Run]) -> Steps:
        cleared = self._aside.clear()
        yield cleared
        cleared.result()
        joined: list[tuple[Run, NewChunk]] = []
        for run in runs:
            bodies = yield from self._bodies(run)
            if bodies is not None:
                joined.append((run, self._aside.writer.joined(run.rows, b"".join(bodies))))
        added = self._aside.add([chunk for _, chunk in joined])
        yield added
        added.result()
        placed: list[tuple[Run, NewChunk]] = []

        def decide() -> tuple[ChunkIds, ChunkIds]:
            placed[:] = [(run, chunk) for run, chunk in joined if run.is_there()]
            ids = tuple([row.id for run, _ in placed for row in run.rows])
            return ids, tuple([chunk.row.id for _, chunk in placed])

        def on_placed(_: None) -> None:
            for run, chunk in placed:
                run.segment.join(run.rows, chunk.row)
                self._cache.on_joined(run.rows, chunk)

        placing = self._aside.put_in_place(decide).map(on_placed)
        yield placing
        placing.result()

    def _bodies(self, run: Run) -> Generator[Completion[Any], None, list[memoryview] | None]:
        """Return the batches of the run's chunks; None if one of them is gone or damaged."""
        bodies: list[memoryview] = []
        for row in run.rows:
            wanted = self._cache.get(row, row.next_offset)
            fetched = wanted if isinstance(wanted, Completion) else Completion.of(wanted)
            if not fetched.done:
                yield fetched
            try:
                found = fetched.result()
            except StoreDamagedError as damage:
                run.log.on_damage(str(damage))
                return None
            if found is None or not run.is_there():
                return None
            if row.size_bytes:
                bodies.append(found.joined(0, len(found.ends)))
        return bodies


def small_run(rows: Sequence[ChunkRow], chunk_bytes: int) -> Sequence[ChunkRow]:
    """Adjacent ones that fit into one chunk, the largest no larger than all others together; none if there are only
    a few. The last such run."""
    for end in range(len(rows), _LEAST - 1, -1):
        size_bytes = largest = 0
        found = first = end
        while first and size_bytes + rows[first - 1].size_bytes <= chunk_bytes:
            first -= 1
            size_bytes += rows[first].size_bytes
            largest = max(largest, rows[first].size_bytes)
            if end - first >= _LEAST and 2 * largest <= size_bytes:
                found = first
        if found < end:
            return rows[found:end]
    return []
