"""Chooses which log to compact and when, and spreads the work over the turns of the loop.

Owns: the round in progress. Does not own: what a round does, how far each log was cleaned (both the store).
Invariants
- A checkpoint advances only after every segment below it is in place: a tombstone must not be removed before the
  records that it deletes.
- One round at a time, in slices with pauses between them: requests have priority.
- A log in which a round found damage is skipped until the next start, and reported once; so is a batch that is intact
  and cannot be decoded, which stays as it is.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.store import LogView, StoreError
from oncelog.broker.storage.disk_errors import is_transient
from oncelog.broker.storage.retention import SegmentList
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Clock, Scheduler, WallMs
from oncelog.broker.turns.schedule import Schedule
from oncelog.protocol.errors import KafkaError, ProtocolError

if TYPE_CHECKING:
    from oncelog.broker.storage.compaction.compaction_round import CompactionRound, Rewriting, Slice

_PAUSE_MS = 2
"""A slice takes about one millisecond: a third of the loop's time at most."""


class CleanableLog(Protocol):
    """A candidate for compaction, as its store holds it: a list of segments."""

    is_closed: bool

    @property
    def segments(self) -> SegmentList: ...


class Checkpoint(Protocol):
    """How far each log has been cleaned."""

    def get(self, topic: str, partition: int) -> int: ...

    def set(self, topic: str, partition: int, offset: int) -> None:
        """Raises OSError."""


LogT = TypeVar("LogT", bound=CleanableLog)


@dataclass(frozen=True, slots=True)
class CompactionSettings:
    scheduler: Scheduler
    memory_bytes: int
    """The memory for the keys of one round (`log.cleaner.dedupe.buffer.size`)."""
    backoff_ms: int
    on_problem: Callable[[str], None]
    """Called for a log that cannot be compacted, or not all of it."""
    replayed_topics: Collection[str] = ()
    """Topics whose logs a start replays before it can serve."""
    replayed_bytes: int = 256 * 1024
    """How much of such a log may be in the segment that is appended to, which is not compacted, while that is more than
    is in the others. A start replays a few thousand records of it, in some 10 ms."""


class LogCleaner(Generic[LogT]):
    def __init__(
        self,
        stored_of: Callable[[LogView], LogT],
        checkpoint: Checkpoint,
        cleanable_end: Callable[[LogView, LogT], int],
        rewriting_of: "Callable[[LogView, LogT], Rewriting[Any, Any]]",
        clock: Clock,
        on_disk_error: Callable[[OSError], None],
        settings: CompactionSettings,
    ) -> None:
        """`stored_of` returns what the store has of a log, `cleanable_end` the offset up to which it is stable and
        durable, `rewriting_of` what a round needs to rewrite it. `on_disk_error` is called for an error that does not
        pass."""
        self._stored_of = stored_of
        self._checkpoint = checkpoint
        self._cleanable_end = cleanable_end
        self._rewriting_of = rewriting_of
        self._on_disk_error = on_disk_error
        self._settings = settings
        self._log: LogView | None = None
        self._stored: LogT | None = None
        self._round: "CompactionRound[Any, Any] | None" = None
        self._slices: "Generator[Slice, None, None] | None" = None
        self._log_start_offset = 0
        self._clock = clock
        self._schedule = Schedule(clock)
        self._uncleanable: set[LogView] = set()
        self._reported: dict[LogView, int] = {}
        """The last batch of each log that was reported as undecodable."""
        self.round_count = 0

    @property
    def is_busy(self) -> bool:
        return self._slices is not None

    def set_up(self, memory_bytes: int, backoff_ms: int) -> None:
        """The settings have changed; they apply from the next round."""
        self._settings = replace(self._settings, memory_bytes=memory_bytes, backoff_ms=backoff_ms)

    def step(self, logs: Iterable[LogView]) -> None:
        """Look for work in the open logs, unless a round is in progress or the backoff has not passed."""
        if self._slices is not None or not self._schedule.take(self._settings.backoff_ms):
            return
        wall_ms = self._clock.wall_ms()
        chosen = self._choose(logs, wall_ms)
        if chosen is not None:
            self._begin(*chosen, wall_ms)

    def stop(self) -> None:
        """Cancel the round in progress; only its work is lost."""
        self._end()

    # -- choosing

    def _choose(self, logs: Iterable[LogView], wall_ms: WallMs) -> tuple[LogView, LogT, int, int] | None:
        """The log with the most to gain, and the offsets where its dirty part begins and its cleanable part ends."""
        best: tuple[float, LogView, LogT, int, int] | None = None
        for log in logs:
            if not log.config.is_compacted or log.offline_error is not None or log in self._uncleanable:
                continue
            stored = self._stored_of(log)
            if log.topic in self._settings.replayed_topics:
                self._maybe_complete(log, stored.segments)
            dirty_offset = self._dirty_offset(log, stored)
            stable_end = self._cleanable_end(log, stored)
            end_offset = _last_cleanable(log.config, stored.segments, dirty_offset, stable_end, wall_ms)
            if end_offset <= dirty_offset:
                continue
            ratio = _dirty_ratio(stored.segments, dirty_offset, end_offset)
            if _is_overdue(log.config, stored.segments, dirty_offset, wall_ms):
                ratio += 1
            elif ratio <= log.config.min_cleanable_dirty_ratio:  # 1.0: never for that alone, as in Kafka
                continue
            if best is None or ratio > best[0]:
                best = (ratio, log, stored, dirty_offset, end_offset)
        return best[1:] if best is not None else None

    def _maybe_complete(self, log: LogView, segments: SegmentList) -> None:
        """Kafka waits for `segment.bytes`, 100 MB of each partition, and replays as much at a start."""
        appended_bytes = segments[-1].size_bytes if len(segments) else 0
        if appended_bytes > max(self._settings.replayed_bytes, segments.size_bytes - appended_bytes):
            log.stored.maybe_roll(log.producer_state, is_kept=True)

    def _dirty_offset(self, log: LogView, stored: LogT) -> int:
        first = stored.segments[0].base_offset if len(stored.segments) else 0
        offset = max(self._checkpoint.get(log.topic, log.partition), first)
        return offset if offset <= log.log_end_offset else first

    # -- working

    def _begin(self, log: LogView, stored: LogT, dirty_offset: int, end_offset: int, wall_ms: WallMs) -> None:
        self._log, self._stored = log, stored
        self._log_start_offset = log.log_start_offset
        from oncelog.broker.storage.compaction.compaction_round import CompactionRound  # not needed at startup

        rewriting = self._rewriting_of(log, stored)
        self._round = CompactionRound(log, rewriting, dirty_offset, end_offset, self._settings.memory_bytes)
        self._slices = self._round.slices(wall_ms)
        self._settings.scheduler.call_soon(self._run_slice)

    def _run_slice(self) -> None:
        slices, log, current = self._slices, self._log, self._round
        if slices is None or log is None or current is None:
            return
        if not self._is_still_wanted(log):
            self._end()
            return
        try:
            work = next(slices)
        except StopIteration:
            self._end()
            if current.clean_offset is not None:
                self._report(log, current.undecodable)
                self._complete(log, current.clean_offset)
        except StoreError:
            self._end()  # a later round tries again
        except (KafkaError, ProtocolError) as damage:
            self._uncleanable.add(log)
            self._settings.on_problem(f"{log.name} cannot be compacted: {damage}")
            self._end()
        except OSError as error:
            self._end()
            self._on_error(log, error)
        else:
            self._wait(work)

    def _report(self, log: LogView, undecodable: Mapping[int, str]) -> None:
        fresh = sorted(offset for offset in undecodable if offset > self._reported.get(log, -1))
        if fresh:
            self._reported[log] = fresh[-1]
            self._settings.on_problem(
                f"{log.name}: compaction keeps {len(fresh)} batches as they are because their records cannot be read, "
                f"the first at offset {fresh[0]}: {undecodable[fresh[0]]}"
            )

    def _complete(self, log: LogView, clean_offset: int) -> None:
        try:
            self._checkpoint.set(log.topic, log.partition, clean_offset)
        except OSError as error:
            self._on_error(log, error)
        else:
            self.round_count += 1
            self._schedule.expedite()

    def _on_error(self, log: LogView, error: OSError) -> None:
        if is_transient(error):
            if not log.is_closed:
                self._settings.on_problem(f"{log.name} is not compacted for now: {error}")
        else:
            self._on_disk_error(error)

    def _wait(self, work: "Slice") -> None:
        if work is None:
            self._settings.scheduler.call_later(_PAUSE_MS, self._run_slice)
        elif isinstance(work, Completion):
            slices = self._slices
            work.then(lambda _: self._settings.scheduler.call_soon(lambda: self._go_on(slices)))
        else:
            self._settings.scheduler.run_beside(work, self._on_worked)

    def _go_on(self, slices: "Generator[Slice, None, None] | None") -> None:
        """Unless the round that has waited is over."""
        if self._slices is slices:
            self._run_slice()

    def _on_worked(self, error: Exception | None) -> None:
        log = self._log
        if error is not None and log is not None:
            self._end()
            self._on_error(log, error if isinstance(error, OSError) else OSError(str(error)))
        else:
            self._run_slice()

    def _is_still_wanted(self, log: LogView) -> bool:
        return (
            not log.is_closed
            and self._stored is not None
            and not self._stored.is_closed
            and log.offline_error is None
            and log.config.is_compacted
            and log.log_start_offset == self._log_start_offset
        )

    def _end(self) -> None:
        slices, self._slices = self._slices, None
        self._log = self._stored = self._round = None
        if slices is not None:
            slices.close()


def _last_cleanable(
    config: LogConfig, segments: SegmentList, dirty_offset: int, stable_end: int, wall_ms: WallMs
) -> int:
    """The end of the last segment that is old enough, stable and durable (Kafka's cleanableOffsets)."""
    end_offset = dirty_offset
    lag_ms = config.min_compaction_lag_ms
    for segment in list(segments)[:-1]:
        if segment.next_offset > stable_end:
            break
        if lag_ms > 0 and segment.next_offset > dirty_offset and segment.max_timestamp > wall_ms - lag_ms:
            break
        end_offset = max(end_offset, segment.next_offset)
    return end_offset


def _dirty_ratio(segments: SegmentList, dirty_offset: int, end_offset: int) -> float:
    clean_bytes = dirty_bytes = 0
    for segment in segments:
        if segment.next_offset <= dirty_offset:
            clean_bytes += segment.size_bytes
        elif segment.base_offset < end_offset:
            dirty_bytes += segment.size_bytes
    return dirty_bytes / (clean_bytes + dirty_bytes) if dirty_bytes else 0.0


def _is_overdue(config: LogConfig, segments: SegmentList, dirty_offset: int, wall_ms: WallMs) -> bool:
    """A complete dirty segment begins with a record older than `max.compaction.lag.ms`: as in Kafka not only the first,
    which may have no timestamp, or a later one."""
    until_ms = wall_ms - config.max_compaction_lag_ms
    dirty = [segment for segment in list(segments)[:-1] if segment.next_offset > dirty_offset]
    return any(0 < segment.first_timestamp < until_ms for segment in dirty)
