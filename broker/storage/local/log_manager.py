"""All partition logs of one data directory.

Owns: opening (with recovery), deletion, the clean stop, the background turn for retention, compaction and producer
expiry.
Does not own: which partitions should exist (`broker.cluster.topics`), whose a directory is (`data_directory`), the
records.
Invariants
- A partition has at most one open log; no file is made before its first append.
- Files are deleted only once the journal says that nobody will miss them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID

from oncelog.broker.compatibility import OURS, Compatibility
from oncelog.broker.completion import Completion
from oncelog.broker.log.log_config import INT64_MAX, LogConfig
from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.ports import Clock, Disk, PartitionListener, WallMs
from oncelog.broker.schedule import Schedule
from oncelog.broker.slices import PARTITIONS_AN_ELEMENT, Sliced
from oncelog.broker.storage.local.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEAN_SHUTDOWN_CONTENT,
    CLEANER_OFFSET,
    LOG_START,
    RECOVERY_POINT,
    parse_checkpoint,
    write_checkpoint,
)
from oncelog.broker.storage.local.compaction.cleaner import CleanerCheckpoint, CompactionSettings, LogCleaner
from oncelog.broker.storage.local.data_directory import DataDirectory
from oncelog.broker.storage.local.flush_journal import NAME as JOURNAL
from oncelog.broker.storage.local.flush_journal import FlushedOffsets, LogPoints
from oncelog.broker.storage.local.flusher import Flusher, is_transient, trouble
from oncelog.broker.storage.local.partition_directory import directory_of
from oncelog.broker.storage.local.recovery import RecoveredLog, RecoveryReport, empty_log, offline_log, recover_log
from oncelog.broker.storage.local.recovery_progress import RecoveryProgress
from oncelog.broker.storage.local.retention import prepare_log_start
from oncelog.broker.storage.local.segment_check import SegmentCheck
from oncelog.protocol.errors import ErrorCode, KafkaError

_PRODUCER_EXPIRY_INTERVAL_MS = 600_000
_WITHDRAWN_AT_ONCE = 64
_DELETED_AT_ONCE = 4
"""Measured: a directory is renamed in 50 µs, deleted in 0.1 to 5 ms; a flush round may have to wait for so many."""
_DELETED_LOG_ELEMENTS = 4
"""Measured: to take leave of an open log takes up to 20 µs."""


@dataclass(slots=True)
class Withdrawn:
    """A topic that is gone, and those of its partitions whose files are not."""

    topic: str
    topic_id: UUID
    partitions: list[int]
    all_gone: bool = True
    """Nothing has failed so far."""


class LogManager:
    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        flusher: Flusher,
        listener: PartitionListener,
        *,
        on_report: Callable[[RecoveryReport], None] | None = None,
        on_damage: Callable[[PartitionLog, str], None] | None = None,
        compatibility: Compatibility = OURS,
        retention_check_interval_ms: int = 300_000,
        compaction: CompactionSettings | None = None,
        segment_check: SegmentCheck | None = None,
        progress: RecoveryProgress | None = None,
    ) -> None:
        """Unless `compatibility.remembers_batches`, a clean stop leaves one batch a producer whose retry is known.

        `on_report` hears of each recovery that has something to tell, `on_damage` of each log that goes offline later,
        with the reason; without `compaction` nothing is compacted.

        `segment_check` reads what recovery takes over unread; without it only readers do.
        """
        self._disk = disk
        self._clock = clock
        self._flusher = flusher
        self._listener = listener
        self._on_report = on_report
        self._on_damage = on_damage
        self._segment_check = segment_check
        self._progress = progress
        self._compatibility = compatibility
        self._logs: dict[tuple[str, int], PartitionLog] = {}
        self._retention_check_interval_ms = retention_check_interval_ms
        self._retention = Schedule(clock)
        self._expiry = Schedule(clock)
        self.was_clean = disk.exists(CLEAN_SHUTDOWN)
        self.problems: list[str] = []
        """What is wrong with files of the whole directory, a line each; the logs are recovered without them."""
        try:
            disk.delete(CLEAN_SHUTDOWN)
        except OSError as error:
            self.problems.append(f"{CLEAN_SHUTDOWN} cannot be deleted: {error}")
        self._journal = FlushedOffsets(disk)
        flusher.journal = self._journal
        disk.sync_dir("")
        self.directory = DataDirectory(disk, clock, self._journal)
        self._cleaner_checkpoint = CleanerCheckpoint(disk)
        self._note_problems()
        self.cleaner: LogCleaner | None = None
        if compaction is not None:
            self.cleaner = LogCleaner(
                self._logs.values, self._cleaner_checkpoint, self._cleanable_end, self._secure, disk, clock, compaction
            )

    def _note_problems(self) -> None:
        if self._journal.problem is not None:
            weaker = "" if self._journal.is_whole else "; only the last segment of a log may end in a torn write now"
            self.problems.append(f"{JOURNAL} {self._journal.problem}{weaker}")
        if self._disk.exists(CLEANER_OFFSET) and parse_checkpoint(self._disk.read_bytes(CLEANER_OFFSET)) is None:
            self.problems.append(f"{CLEANER_OFFSET} is not what was written; compaction begins anew in each log")

    @property
    def logs(self) -> Iterator[PartitionLog]:
        return iter(self._logs.values())

    def points(self, topic_id: UUID, partition: int) -> LogPoints | None:
        """How far a log is known to be synced, and where it starts; None if nobody knows."""
        return self._journal.get(topic_id, partition)

    def volume_bytes(self) -> tuple[int, int]:
        """Size of the volume that holds the logs, and room on it."""
        return self._disk.volume_bytes()

    def get(self, topic: str, partition: int) -> PartitionLog | None:
        return self._logs.get((topic, partition))

    def has_files(self, topic: str, partition: int) -> bool:
        """Whether anything was ever appended, as far as the disk can tell."""
        return self._disk.exists(directory_of(topic, partition))

    def open(self, topic: str, partition: int, topic_id: UUID, config: LogConfig) -> PartitionLog:
        """The log of a partition, recovered from its files if there are any; an open one is returned as it is."""
        log = self._logs.get((topic, partition))
        if log is not None:
            return log
        recovered = self._recover(topic, partition, topic_id, config)
        if recovered.lines and self._on_report is not None:
            self._on_report(
                RecoveryReport(
                    topic,
                    partition,
                    tuple(recovered.lines),
                    recovered.scanned_bytes,
                    recovered.cut_bytes,
                    recovered.offline_error,
                )
            )
        log = PartitionLog(
            topic,
            partition,
            topic_id,
            config,
            recovered.segments,
            recovered.producer_state,
            self._flusher,
            self._listener,
            self._clock,
            log_start_offset=recovered.log_start_offset,
            log_end_offset=recovered.log_end_offset,
            offline_error=recovered.offline_error,
            on_damage=self._on_damage,
        )
        self._logs[topic, partition] = log
        if recovered.offline_error is None:
            # All of it is synced now. After a power cut the journal may not have known.
            self._journal.note(topic_id, partition, LogPoints(log.log_end_offset, log.log_start_offset))
        if self._segment_check is not None and recovered.offline_error is None:
            self._segment_check.add(log)
        return log

    def _recover(self, topic: str, partition: int, topic_id: UUID, config: LogConfig) -> RecoveredLog:
        points = self._journal.get(topic_id, partition)
        directory = directory_of(topic, partition)
        if not self._disk.exists(directory) and not (points is not None and points.synced_offset):
            return empty_log(self._disk, directory, topic_id)  # asked for at any time: even without a free descriptor
        lines: list[str] = []
        try:
            problem = self.directory.claim(topic, partition, topic_id, lines)
        except OSError as error:
            problem = trouble(error)
        if problem is not None:
            recovered = offline_log(self._disk, directory, topic_id, problem)
            recovered.lines[:0] = lines
            return recovered
        progress = self._progress
        if progress is not None:
            progress.on_partition(directory)
        recovered = recover_log(
            self._disk,
            directory,
            topic_id,
            config,
            points,
            self._clock.monotonic_ms(),
            is_journal_whole=self._journal.is_whole,
            compacted_offset=INT64_MAX if config.is_compacted else self._cleaner_checkpoint.get(topic, partition),
            compatibility=self._compatibility,
            on_scanned=progress.on_scanned if progress is not None else None,
        )
        if progress is not None and len(recovered.segments):
            progress.on_recovered()
        recovered.lines[:0] = lines
        return recovered

    def complete_recovery(self) -> None:
        """Every log that was there is open: what was lost of the journal is known again, unless one is offline."""
        if all(log.offline_error is None for log in self._logs.values()):
            with suppress(OSError):  # a full disk: the next start is as careful as this one
                self._journal.complete_recovery()

    def make_way(self, topic: str, partitions: range) -> None:
        """Before these partitions are made: what stands in their places is set aside, and reported. Raises OSError."""
        for partition, line in self.directory.make_way(topic, partitions):
            self._tell(topic, partition, line)

    def prepare_removal(self, topic_id: UUID) -> None:
        """Before the removal of a topic is logged: from then on a start deletes what is left of its files."""
        self._journal.prepare_removal(topic_id)

    def withdraw(self, topic: str, topic_id: UUID, partition_count: int) -> Sliced[Withdrawn]:
        """Remove a topic's partitions; waiters hear UNKNOWN_TOPIC_OR_PARTITION. At the end the name is free, and the
        files await `delete`."""
        self._cleaner_checkpoint.forget(topic)
        withdrawn = Withdrawn(topic, topic_id, [])
        for start in range(0, partition_count, _WITHDRAWN_AT_ONCE):
            opened = []
            for partition in range(start, min(start + _WITHDRAWN_AT_ONCE, partition_count)):
                # Never opened: whatever may lie in its place is not of this topic.
                log = self._logs.pop((topic, partition), None)
                if log is not None:
                    log.on_deleted()
                    opened.append(partition)
            yield _WITHDRAWN_AT_ONCE // PARTITIONS_AN_ELEMENT + len(opened) * _DELETED_LOG_ELEMENTS
            if opened:
                withdrawn.partitions += yield from self._between_rounds(withdrawn, self.directory.withdraw, opened)
        return withdrawn

    def delete(self, withdrawn: Withdrawn) -> Sliced[bool]:
        """Delete the files of a topic. Whether all are gone: what a stop or the disk leaves is for the next start."""
        partitions = withdrawn.partitions
        for start in range(0, len(partitions), _DELETED_AT_ONCE):
            some = partitions[start : start + _DELETED_AT_ONCE]
            yield from self._between_rounds(withdrawn, self.directory.delete, some)
        if withdrawn.all_gone:
            self._journal.end_removal(withdrawn.topic_id)
        return withdrawn.all_gone

    def _between_rounds(
        self,
        withdrawn: Withdrawn,
        function: Callable[[str, UUID, Sequence[int]], dict[int, OSError | None]],
        partitions: Sequence[int],
    ) -> Sliced[list[int]]:
        """Behind a flush round that may still use the files, and beside the loop: a disk takes its time for this.
        Returns those partitions that were there and for which it has succeeded."""
        topic, topic_id = withdrawn.topic, withdrawn.topic_id
        outcome: dict[int, OSError | None] = {}
        done: Completion[None] = Completion()

        def on_done(error: Exception | None) -> None:
            done.complete(None) if error is None else done.fail(error)

        self._flusher.run_between_rounds(lambda: outcome.update(function(topic, topic_id, partitions)), on_done)
        yield done
        done.result()
        for partition, problem in outcome.items():
            if problem is not None:
                withdrawn.all_gone = False
                line = f"{directory_of(topic, partition)} cannot be deleted: {problem}; the next start tries again"
                self._tell(topic, partition, line)
        return [partition for partition, problem in outcome.items() if problem is None]

    def _tell(self, topic: str, partition: int, line: str) -> None:
        if self._on_report is not None:
            self._on_report(RecoveryReport(topic, partition, (line,), 0, 0, None))

    def delete_records(self, log: PartitionLog, before_offset: int) -> None:
        """Move the start of a log (DeleteRecords); durable on return. Raises KafkaError, and nothing has moved then."""
        log.check_log_start(before_offset)
        if before_offset <= log.log_start_offset:
            return
        try:
            self._move_starts({log: before_offset})
        except OSError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the new log start is not durable: {error}") from error

    def step(self) -> None:
        """One background turn: retention and producer expiry, each when its time has come."""
        self._flusher.step()
        if self._retention.take(self._retention_check_interval_ms):
            self.apply_retention(self._clock.wall_ms())
        if self._expiry.take(_PRODUCER_EXPIRY_INTERVAL_MS):
            for log in self._logs.values():
                log.expire_producers()
        if self.cleaner is not None:
            self.cleaner.step()

    def apply_retention(self, wall_ms: WallMs) -> None:
        """Delete what is too old or too much, everywhere; a full disk may put it off to the next time."""
        starts: dict[PartitionLog, int] = {}
        for log in self._logs.values():
            if log.offline_error is None:
                new_start = prepare_log_start(log.segments, log.config, log.high_watermark, wall_ms)
                if new_start is not None and new_start > log.log_start_offset:
                    starts[log] = new_start
        try:
            if starts:
                self._move_starts(starts)
            for log in self._logs.values():
                if log.has_removed:  # a flush round was using them
                    log.delete_removed()
        except OSError as error:
            if not is_transient(error):
                self._flusher.fail(error)

    def _cleanable_end(self, log: PartitionLog) -> int:
        """Up to where a log is stable and, if it is synced behind the appends, synced."""
        if self._flusher.policy != "os":
            return log.last_stable_offset
        points = self._journal.get(log.topic_id, log.partition)
        return min(log.last_stable_offset, points.synced_offset) if points else 0

    def _secure(self, log: PartitionLog, next_offset: int) -> None:
        """Make it known, durably, that all below `next_offset` is synced: recovery will take no gap there for a write
        that was cut short. Raises OSError."""
        known = self._journal.get(log.topic_id, log.partition)
        synced_offset = max(known.synced_offset if known else 0, next_offset)
        self._journal.set_points(log.topic_id, log.partition, LogPoints(synced_offset, log.log_start_offset))
        self._journal.rewrite()

    def _move_starts(self, starts: Mapping[PartitionLog, int]) -> None:
        """Make new log starts durable, then show them and delete the files below: no crash takes back what readers saw.
        Raises OSError, and nothing has moved then."""
        wanted = {(log.topic_id, log.partition): offset for log, offset in starts.items()}
        try:
            self._journal.move_starts(wanted)
        except OSError as error:
            if not is_transient(error):
                raise
            for log, offset in starts.items():
                log.delete_indexes_below(offset)
            self._journal.move_starts(wanted)
        for log, offset in starts.items():
            log.advance_log_start(offset)
            log.delete_removed()

    def close(self) -> OSError | None:
        """Clean stop: flush, write indexes, snapshots and checkpoints, then the marker. After a failure: only close.

        Returns what kept the stop from being clean, such as a full disk; what is flushed is safe nevertheless.
        """
        problem: OSError | None = None
        if self.cleaner is not None:
            self.cleaner.stop()
        if self._segment_check is not None:
            self._segment_check.stop()
        if not self._flusher.failed:
            try:
                self._stop_cleanly()
            except OSError as error:
                problem = error
        for log in self._logs.values():
            log.close()
        self._journal.close()
        return problem

    def _stop_cleanly(self) -> None:
        usable = [log for log in self._logs.values() if log.offline_error is None and log.log_end_offset > 0]
        problem: OSError | None = None
        for log in usable:
            try:
                log.complete_segments()
            except OSError as error:
                problem = error  # its indexes are rebuilt at the next start; the others need not be
            self._flusher.arm(log)
        self._flusher.flush_now()
        if self._flusher.failed:
            return
        self._journal.rewrite()
        ends = [(log.topic, log.partition, log.log_end_offset) for log in usable]
        starts = [(log.topic, log.partition, log.log_start_offset) for log in usable if log.log_start_offset > 0]
        write_checkpoint(self._disk, RECOVERY_POINT, ends)
        write_checkpoint(self._disk, LOG_START, starts)
        if problem is not None:
            raise problem
        self._disk.write_atomically(CLEAN_SHUTDOWN, CLEAN_SHUTDOWN_CONTENT)
