"""Chooses which log to compact and when, and spreads the work over the turns of the loop.

Owns: `cleaner-offset-checkpoint` (Kafka's file and form), the one round that is going on. Does not own: what a round
does. Invariants
- A checkpoint moves only after every segment below it is in place: a tombstone must not be forgotten before what it
  deletes.
- One round at a time, in slices with pauses between: serving goes first.
- A log in which a round met damage is left alone until the next start, and told of once.
"""

from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from oncelog.broker.log.store import Failure
from oncelog.broker.ports import Clock, Disk, Scheduler, WallMs
from oncelog.broker.schedule import Schedule
from oncelog.broker.storage.local.checkpoints import CLEANER_OFFSET, read_checkpoint, write_checkpoint
from oncelog.broker.storage.local.disk_errors import is_transient
from oncelog.broker.storage.local.local_log import LocalLog
from oncelog.protocol.errors import KafkaError, ProtocolError

if TYPE_CHECKING:
    from oncelog.broker.storage.local.compaction.round import CompactionRound, Slice

_PAUSE_MS = 2
"""A slice takes about one millisecond: a third of the loop's time at most."""


class CleanerCheckpoint:
    """How far each log has been cleaned."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._offsets = {
            (topic, partition): offset for topic, partition, offset in read_checkpoint(disk, CLEANER_OFFSET)
        }

    def get(self, topic: str, partition: int) -> int:
        return self._offsets.get((topic, partition), 0)

    def set(self, topic: str, partition: int, offset: int) -> None:
        self._offsets[topic, partition] = offset
        self._write()

    def forget(self, topic: str) -> None:
        """The topic is gone: one that gets its name inherits nothing."""
        gone = [key for key in self._offsets if key[0] == topic]
        for key in gone:
            del self._offsets[key]
        if gone:
            with suppress(OSError):  # a full disk; the next write leaves it out
                self._write()

    def _write(self) -> None:
        write_checkpoint(self._disk, CLEANER_OFFSET, [(*key, offset) for key, offset in self._offsets.items()])


@dataclass(frozen=True, slots=True)
class CompactionSettings:
    scheduler: Scheduler
    memory_bytes: int
    """For the keys of one round (`log.cleaner.dedupe.buffer.size`)."""
    backoff_ms: int
    on_problem: Callable[[str], None]
    """Hears of a log that cannot be compacted."""


class LogCleaner:
    def __init__(
        self,
        logs: Callable[[], Iterable[LocalLog]],
        checkpoint: CleanerCheckpoint,
        cleanable_end: Callable[[LocalLog], int],
        secure: Callable[[LocalLog, int], None],
        disk: Disk,
        clock: Clock,
        failure: Failure,
        settings: CompactionSettings,
    ) -> None:
        """`logs` are those that are open now; `cleanable_end` tells how far one is stable and synced, `secure` makes
        that durable knowledge."""
        self._logs = logs
        self._checkpoint = checkpoint
        self._cleanable_end = cleanable_end
        self._secure = secure
        self._disk = disk
        self._failure = failure
        self._settings = settings
        self._log: LocalLog | None = None
        self._round: "CompactionRound | None" = None
        self._slices: "Generator[Slice, None, None] | None" = None
        self._log_start_offset = 0
        self._clock = clock
        self._look = Schedule(clock)
        self._uncleanable: set[LocalLog] = set()
        self.round_count = 0

    @property
    def is_busy(self) -> bool:
        return self._slices is not None

    def set_up(self, memory_bytes: int, backoff_ms: int) -> None:
        """Settings changed: the next round works with them."""
        self._settings = replace(self._settings, memory_bytes=memory_bytes, backoff_ms=backoff_ms)

    def step(self) -> None:
        """Look for work, unless there is some already or the last look was a moment ago."""
        if self._slices is not None or not self._look.take(self._settings.backoff_ms):
            return
        wall_ms = self._clock.wall_ms()
        chosen = self._choose(wall_ms)
        if chosen is not None:
            self._begin(*chosen, wall_ms)

    def stop(self) -> None:
        """Give up the round that is going on; nothing of it is lost but the work."""
        self._end()

    # -- choosing

    def _choose(self, wall_ms: WallMs) -> tuple[LocalLog, int, int] | None:
        """The log with the most to gain: itself, where its uncleaned part begins, where what may be cleaned ends."""
        best: tuple[float, LocalLog, int, int] | None = None
        for log in self._logs():
            if not log.owner.config.is_compacted or log.owner.offline_error is not None or log in self._uncleanable:
                continue
            dirty_offset = self._dirty_offset(log)
            end_offset = _last_cleanable(log, dirty_offset, self._cleanable_end(log), wall_ms)
            if end_offset <= dirty_offset:
                continue
            ratio = _dirty_ratio(log, dirty_offset, end_offset)
            if _is_overdue(log, dirty_offset, wall_ms):
                ratio += 1
            elif ratio < log.owner.config.min_cleanable_dirty_ratio:
                continue
            if best is None or ratio > best[0]:
                best = (ratio, log, dirty_offset, end_offset)
        return best[1:] if best is not None else None

    def _dirty_offset(self, log: LocalLog) -> int:
        first = log.segments[0].base_offset if len(log.segments) else 0
        offset = max(self._checkpoint.get(log.owner.topic, log.partition), first)
        return offset if offset <= log.owner.log_end_offset else first

    # -- working

    def _begin(self, log: LocalLog, dirty_offset: int, end_offset: int, wall_ms: WallMs) -> None:
        # Late: a start needs none of it.
        from oncelog.broker.storage.local.compaction.round import CompactionRound

        self._log = log
        self._log_start_offset = log.owner.log_start_offset
        self._round = CompactionRound(
            log, self._disk, dirty_offset, end_offset, self._settings.memory_bytes, self._secure
        )
        self._slices = self._round.slices(wall_ms)
        self._settings.scheduler.call_soon(self._go_on)

    def _go_on(self) -> None:
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
            if current.result.is_complete:
                self._complete(log, current.result.clean_offset)
        except (KafkaError, ProtocolError) as error:
            self._uncleanable.add(log)
            self._settings.on_problem(f"{log.owner.name} cannot be compacted: {error}")
            self._end()
        except OSError as error:
            self._end()
            self._on_disk_error(log, error)
        else:
            self._wait(work)

    def _complete(self, log: LocalLog, clean_offset: int) -> None:
        try:
            self._checkpoint.set(log.owner.topic, log.partition, clean_offset)
        except OSError as error:
            self._on_disk_error(log, error)
        else:
            self.round_count += 1
            self._look.expedite()

    def _on_disk_error(self, log: LocalLog, error: OSError) -> None:
        if is_transient(error):
            self._settings.on_problem(f"{log.owner.name} is not compacted for now: {error}")
        else:
            self._failure.fail(error)

    def _wait(self, work: "Slice") -> None:
        if work is None:
            self._settings.scheduler.call_later(_PAUSE_MS, self._go_on)
        else:
            self._settings.scheduler.run_beside(work, self._on_worked)

    def _on_worked(self, error: Exception | None) -> None:
        log = self._log
        if error is not None and log is not None:
            self._end()
            self._on_disk_error(log, error if isinstance(error, OSError) else OSError(str(error)))
        else:
            self._go_on()

    def _is_still_wanted(self, log: LocalLog) -> bool:
        return (
            not log.is_deleted
            and log.owner.offline_error is None
            and log.owner.config.is_compacted
            and log.owner.log_start_offset == self._log_start_offset
        )

    def _end(self) -> None:
        slices, self._slices = self._slices, None
        self._log = self._round = None
        if slices is not None:
            slices.close()


def _last_cleanable(log: LocalLog, dirty_offset: int, stable_end: int, wall_ms: WallMs) -> int:
    """Where the last whole segment ends that is old enough, stable and durable (Kafka's cleanableOffsets)."""
    end_offset = dirty_offset
    lag_ms = log.owner.config.min_compaction_lag_ms
    for segment in list(log.segments)[:-1]:
        if segment.next_offset > stable_end:
            break
        if lag_ms > 0 and segment.next_offset > dirty_offset and segment.max_timestamp > wall_ms - lag_ms:
            break
        end_offset = max(end_offset, segment.next_offset)
    return end_offset


def _dirty_ratio(log: LocalLog, dirty_offset: int, end_offset: int) -> float:
    clean_bytes = dirty_bytes = 0
    for segment in log.segments:
        if segment.next_offset <= dirty_offset:
            clean_bytes += segment.size_bytes
        elif segment.base_offset < end_offset:
            dirty_bytes += segment.size_bytes
    return dirty_bytes / (clean_bytes + dirty_bytes) if dirty_bytes else 0.0


def _is_overdue(log: LocalLog, dirty_offset: int, wall_ms: WallMs) -> bool:
    """The oldest record that was never cleaned is older than `max.compaction.lag.ms`."""
    for segment in log.segments:
        if segment.next_offset > dirty_offset:
            first = segment.first_timestamp
            return first >= 0 and wall_ms - first > log.owner.config.max_compaction_lag_ms
    return False
