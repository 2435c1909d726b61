"""The partitions of one data directory, as the LogStore of this node.

Owns: opening with recovery, the deletion of files, what a clean stop writes, compaction and checks
in the background. Does not own: which partitions should exist (`broker.cluster.topics`), the owner of a directory
(`data_directory`), the open logs (`broker.log.log_manager`).
Invariants
- No file is created before the first append to a partition.
- Files are deleted only once `flushed-offsets` says that recovery must not expect them.
"""

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from oncelog.broker.apis.compatibility import OURS, Compatibility
from oncelog.broker.log.log_config import INT64_MAX, LogConfig
from oncelog.broker.log.producer_state import ProducerStateManager
from oncelog.broker.log.store import Failure, OpenedLog, PartitionKey, StoreError, Withdrawn
from oncelog.broker.storage.compaction.cleaner import CompactionRound, CompactionSettings, LogCleaner
from oncelog.broker.storage.disk_errors import is_transient, trouble
from oncelog.broker.storage.local.boot_mark import BootMark
from oncelog.broker.storage.local.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEAN_SHUTDOWN_CONTENT,
    CLEANER_OFFSET,
    LOG_START,
    RECOVERY_POINT,
    CleanerCheckpoint,
    parse_checkpoint,
    write_checkpoint,
)
from oncelog.broker.storage.local.data_directory import DataDirectory
from oncelog.broker.storage.local.deferred import DeferredWork, Results
from oncelog.broker.storage.local.file_sync import APPENDS_ON_LOOP, LARGE_BYTES, FileSync, RunAll
from oncelog.broker.storage.local.flushed_offsets import JOURNAL_KEY, FlushedOffsets, LogPoints
from oncelog.broker.storage.local.flushed_offsets import NAME as FLUSHED_OFFSETS
from oncelog.broker.storage.local.journal import DEFAULT_FILE_BYTES, Journal, LeftOut
from oncelog.broker.storage.local.left_journal import LeftJournal
from oncelog.broker.storage.local.local_log import LocalLog
from oncelog.broker.storage.local.partition_directory import directory_of
from oncelog.broker.storage.local.segments import Segments
from oncelog.broker.storage.sections import LogKey
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Clock, Disk, Scheduler, Stopwatch
from oncelog.broker.turns.slices import Sliced

if TYPE_CHECKING:
    from oncelog.broker.storage.local.recovered_log import RecoveredLog, RecoveryReport
    from oncelog.broker.storage.local.recovery_progress import RecoveryProgress
    from oncelog.broker.storage.local.segment_check import CheckSummary, SegmentCheck

_DELETED_AT_ONCE = 4
"""Measured: a directory is renamed in 50 µs, deleted in 0.1 to 5 ms; a flush round may have to wait for this many."""


class LocalLogStore:
    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        scheduler: Scheduler,
        failure: Failure,
        *,
        policy: str = "fsync",
        run_all: RunAll | None = None,
        on_report: "Callable[[RecoveryReport], None] | None" = None,
        on_checked: "Callable[[CheckSummary], None] | None" = None,
        progress: "RecoveryProgress | None" = None,
        compatibility: Compatibility = OURS,
        compaction: CompactionSettings | None = None,
        measures_syncs: bool = True,
        journal_file_bytes: int = DEFAULT_FILE_BYTES,
        appends_on_loop: int = APPENDS_ON_LOOP,
        large_bytes: int = LARGE_BYTES,
        stopwatch: Stopwatch | None = None,
    ) -> None:
        """`policy` is `oncelog.flush.policy`. Unless `compatibility.remembers_batches`, a clean stop keeps one batch
        per producer to recognise retries. Without `compaction` nothing is compacted. Unless `measures_syncs` each is
        taken to be quick. `on_report` gets each recovery and deletion of interest to an operator. With `on_checked`,
        segments that recovery adopted unread are read in the background, and it gets the summary; without it only reads
        check them. `stopwatch` as in `FileSync`. Raises OSError, and ValueError for an unknown policy."""
        self._disk = self.blobs = disk
        self._clock, self._scheduler = clock, scheduler
        self._failure, self._on_report = failure, on_report
        self._progress = progress
        self._compatibility = compatibility
        self._logs: dict[PartitionKey, LocalLog] = {}
        self.was_clean = disk.exists(CLEAN_SHUTDOWN)
        self.problems: list[str] = []
        self.ahead = BootMark(disk, was_clean=self.was_clean, commits_at_once=policy != "fsync")
        failure.watch(self.ahead.forget)
        self._forget_clean_stop()
        self._flushed = FlushedOffsets(disk)
        self._left = LeftJournal(disk, self._flushed, self.ahead, was_clean=self.was_clean)
        disk.sync_dir("")
        self.file_sync = FileSync(
            scheduler,
            policy,
            failure,
            self._flushed,
            Journal(disk, self._left.contents, journal_file_bytes),
            clock,
            run_all,
            measures_syncs=measures_syncs,
            appends_on_loop=appends_on_loop,
            large_bytes=large_bytes,
            stopwatch=stopwatch,
        )
        self._results, self._deferred = Results(disk), DeferredWork(scheduler)
        self._is_serving = False
        self.directory = DataDirectory(disk, clock, self._flushed, self._had_records)
        self._cleaner_checkpoint = CleanerCheckpoint(disk)
        self._note_problems()
        self._segment_check: SegmentCheck | None = None
        self._on_checked = on_checked
        self.cleaner = self._make_cleaner(compaction) if compaction is not None else None

    def _forget_clean_stop(self) -> None:
        try:
            self._disk.delete(CLEAN_SHUTDOWN)
        except OSError as error:
            self.problems.append(f"{CLEAN_SHUTDOWN} cannot be deleted: {error}")

    def _make_cleaner(self, compaction: CompactionSettings) -> LogCleaner[LocalLog]:
        return LogCleaner(
            self._logs.values,
            self._cleaner_checkpoint,
            self._cleanable_end,
            self._begin_compaction,
            self._clock,
            self._failure,
            compaction,
        )

    def _note_problems(self) -> None:
        self.problems += self._left.problems
        if self._flushed.problem is not None:
            weaker = "" if self._flushed.is_whole else "; now only the last segment of a log may end in a torn write"
            self.problems.append(f"{FLUSHED_OFFSETS} {self._flushed.problem}{weaker}")
        if self._disk.exists(CLEANER_OFFSET) and parse_checkpoint(self._disk.read_bytes(CLEANER_OFFSET)) is None:
            self.problems.append(f"{CLEANER_OFFSET} is damaged; compaction starts over in each log")

    # -- opening

    def holds(self, topic: str, partition: int, topic_id: UUID) -> bool:
        return self.directory.was_found(topic, partition, topic_id)

    def _had_records(self, topic_id: UUID, partition: int) -> bool:
        return self._left.tail((topic_id, partition)) is not None or self._flushed.get(topic_id, partition) is not None

    def open(self, topic: str, partition: int, topic_id: UUID, config: LogConfig) -> OpenedLog:
        opened = self._open(topic, partition, topic_id, config)
        noted_end = self.ahead.lost_end((topic_id, partition), opened.log_end_offset)
        if noted_end is not None and opened.offline_error is None:
            line = f"offsets {opened.log_end_offset} to {noted_end - 1} were written by the last run, and are gone"
            self._report(topic, partition, [f"{directory_of(topic, partition)}: {line}"])
        return opened

    def _open(self, topic: str, partition: int, topic_id: UUID, config: LogConfig) -> OpenedLog:
        points = self.points(topic_id, partition)
        if not self._disk.exists(directory_of(topic, partition)) and not (points is not None and points.synced_offset):
            return self._serve_empty(topic, partition, topic_id)
        recovered = self._recover(topic, partition, topic_id, config)
        if recovered.lines:
            self._report(
                topic,
                partition,
                recovered.lines,
                scanned_bytes=recovered.scanned_bytes,
                cut_bytes=recovered.cut_bytes,
                offline_error=recovered.offline_error,
            )
        opened = OpenedLog(
            self._serve(
                topic,
                partition,
                topic_id,
                recovered.segments,
                recovered.producer_state,
                recovered.log_start_offset,
                recovered.log_end_offset,
            ),
            recovered.producer_state,
            recovered.log_start_offset,
            recovered.log_end_offset,
            recovered.offline_error,
            recovered.epochs,
        )
        if recovered.offline_error is None:
            # Everything is synced now.
            self._left.forget((topic_id, partition))
            points = LogPoints(recovered.log_end_offset, recovered.log_start_offset)
            self._flushed.note(topic_id, partition, points)
            self._check_later(self._logs[topic, partition])
        return opened

    def create(self, topic: str, partition: int, topic_id: UUID, config: LogConfig) -> OpenedLog:
        if self._disk.exists(directory_of(topic, partition)):  # created by hand since the start
            return self.open(topic, partition, topic_id, config)
        return self._serve_empty(topic, partition, topic_id)

    def _serve_empty(self, topic: str, partition: int, topic_id: UUID) -> OpenedLog:
        segments = Segments(self._disk, directory_of(topic, partition), topic_id, [])
        producer_state = ProducerStateManager()
        return OpenedLog(self._serve(topic, partition, topic_id, segments, producer_state, 0, 0), producer_state, 0, 0)

    def _serve(
        self,
        topic: str,
        partition: int,
        topic_id: UUID,
        segments: Segments,
        producer_state: ProducerStateManager,
        log_start_offset: int,
        log_end_offset: int,
    ) -> LocalLog:
        log = LocalLog(
            partition,
            topic_id,
            segments,
            producer_state,
            log_start_offset,
            log_end_offset,
            self.file_sync,
            self._deferred,
            self._clock,
        )
        if self._is_serving:
            segments.serve(self._results)
        self._cleaner_checkpoint.on_opened(topic, partition, log_end_offset)
        self._logs[topic, partition] = log
        return log

    def _check_later(self, log: LocalLog) -> None:
        """Read in the background what recovery adopted unread."""
        if self._on_checked is None or all(segment.unverified_sum is None for segment in log.segments):
            return
        if self._segment_check is None:
            from oncelog.broker.storage.local.segment_check import SegmentCheck  # not needed at a first start

            self._segment_check = SegmentCheck(self._disk, self._scheduler, self._clock, self._on_checked)
        self._segment_check.add(log)

    def _recover(self, topic: str, partition: int, topic_id: UUID, config: LogConfig) -> "RecoveredLog":
        from oncelog.broker.storage.local.recovered_log import offline_log
        from oncelog.broker.storage.local.recovery import recover_log  # not needed at a first start

        points, recorded = self.points(topic_id, partition), self._flushed.get(topic_id, partition)
        directory = directory_of(topic, partition)
        lines: list[str] = []
        try:
            problem = self.directory.claim(topic, partition, topic_id, lines)
            if problem is None:
                self._put_back(directory, topic_id, partition, lines)
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
            is_journal_whole=self._flushed.is_whole,
            compacted_offset=INT64_MAX if config.is_compacted else self._cleaner_checkpoint.get(topic, partition),
            committed_offset=self._left.committed_offset(topic_id, partition),
            is_end_proven=self._left.is_end_proven,
            checkpointed_offset=recorded.synced_offset if recorded is not None else 0,
            compatibility=self._compatibility,
            on_scanned=progress.on_scanned if progress is not None else None,
        )
        if progress is not None and len(recovered.segments):
            progress.on_recovered()
        recovered.lines[:0] = lines
        return recovered

    def _put_back(self, directory: str, topic_id: UUID, partition: int, lines: list[str]) -> None:
        tail = self._left.tail((topic_id, partition))
        if tail is not None and tail.spans:
            from oncelog.broker.storage.local.redo import put_back  # needed only after a kill

            points = self._flushed.get(topic_id, partition)
            log_start_offset = points.log_start_offset if points is not None else 0
            missing_bytes = put_back(
                self._disk,
                directory,
                topic_id,
                tail.above(points),
                log_start_offset,
                only_extend=not self._left.is_in_use,
            )
            # Also if the log turns out to be damaged: what a repair makes of its segments must stay.
            tail.synced_offset, tail.spans = tail.end_offset(points), []
            if missing_bytes:
                lines.append(f"{directory}: {missing_bytes} bytes come from the journal")

    def get(self, topic: str, partition: int) -> LocalLog:
        """An open log; KeyError if it is not."""
        return self._logs[topic, partition]

    def points(self, topic_id: UUID, partition: int) -> LogPoints | None:
        """Up to which offset a log is known to be durable, and where it starts; None if unknown."""
        return self._left.points(topic_id, partition)

    def settle_journal(self, directories: Mapping[LogKey, str]) -> None:
        """Put everything back that only the journal has, for these partitions, and end its use: before a repair, which
        moves records. What no round has committed is removed when they are opened next. Raises OSError."""
        left_out: dict[LogKey, LeftOut] = {}
        for (topic_id, partition), directory in directories.items():
            self._put_back(directory, topic_id, partition, [])
            points = self.points(topic_id, partition)
            if points is not None:
                self._flushed.record_all([((topic_id, partition), points)])
            committed_offset = self._left.committed_offset(topic_id, partition)
            if committed_offset is not None:
                # Only that: a repair may leave the log with a lower end.
                left_out[topic_id, partition] = LeftOut(0, (), committed_offset)
        self.file_sync.journal.retire(left_out)
        self._flushed.forget(JOURNAL_KEY[0], (JOURNAL_KEY[1],))
        self._flushed.rewrite()
        self._left.end()
        self.ahead.begin()  # the note speaks of the journal that is gone

    def complete_recovery(self) -> None:
        with suppress(OSError):  # a full disk: the next start repeats these checks
            self._flushed.complete_recovery()

    def begin_serving(self) -> None:
        self._begin_journal()
        self._is_serving = True
        for log in self._logs.values():
            log.segments.serve(self._results)

    def _begin_journal(self) -> None:
        """What this start found is durable now: a journal of its own, or none. Without space it is tried again later
        (`step`); until then commits sync the files."""
        if self.file_sync.is_journal_settled or self.file_sync.is_committing:
            return
        left_out: dict[LogKey, LeftOut] = {}
        for log in self._logs.values():
            if log.owner.offline_error is not None:
                key = (log.topic_id, log.partition)
                left_out[key] = self._left.carried_over(key)
        try:
            self.ahead.begin()
            self.file_sync.begin_journal(left_out, self.ahead)
        except OSError as error:
            # Under another policy, a journal that stays would make the next start discard what was committed.
            if not is_transient(error) or self.file_sync.policy != "fsync":
                self._failure.fail(error)
        else:
            # A log that is opened from now on was put here by hand.
            self._left.end()

    def partitions(self) -> Collection[PartitionKey]:
        return self.directory.partitions()

    def unknown_entries(self, known: Container[PartitionKey]) -> list[str]:
        return self.directory.unknown_entries(known)

    # -- durability

    @property
    def commits_at_once(self) -> bool:
        return self.file_sync.policy != "fsync"

    def commit(self, append_count: int) -> Completion[None] | None:
        return self.file_sync.commit(append_count)

    def write_ahead(self) -> bool:
        return self.file_sync.write_ahead()

    def commit_now(self) -> None:
        self.file_sync.commit_now()

    @property
    def rounds_are_whole(self) -> bool:
        """Once the journal is in use; it may be begun late, on a full disk. Under `os` the order of appends outlives a
        kill, and nothing is promised for a power cut."""
        return self.file_sync.is_journal_settled

    @property
    def is_busy(self) -> bool:
        return self.file_sync.is_busy

    def when_idle(self) -> Completion[None]:
        return self.file_sync.when_idle()

    def move_starts(self, starts: Mapping[PartitionKey, int]) -> Completion[None]:
        """In the sync thread, after a round that may still append to the journal."""
        moved: Completion[None] = Completion()
        logs = {self._logs[key]: offset for key, offset in starts.items()}
        wanted = {(log.topic_id, log.partition): offset for log, offset in logs.items()}
        move = partial(self._flushed.move_starts, wanted)
        on_moved = partial(_on_starts_moved, logs, moved)

        def on_first(error: Exception | None) -> None:
            if error is None or not is_transient(error):
                on_moved(error)
                return
            self._failure.space.on_error(error)
            for log, offset in logs.items():  # no space: delete what can be rebuilt
                log.delete_indexes_below(offset)
            self.file_sync.make_room()
            self.file_sync.run_between_rounds(move, on_moved)

        self.file_sync.run_between_rounds(move, on_first)
        return moved

    # -- topics

    def make_way(self, topic: str, partitions: range) -> None:
        for partition, line in self.directory.make_way(topic, partitions):
            self._report(topic, partition, [line])

    def prepare_removal(self, topic_id: UUID) -> None:
        self._flushed.prepare_removal(topic_id)

    def withdraw(self, withdrawn: Withdrawn, partitions: Sequence[int]) -> Sliced[None]:
        """In the sync thread, after a round that may still use the files."""
        self._cleaner_checkpoint.forget(withdrawn.topic)
        for partition in partitions:
            self._logs.pop((withdrawn.topic, partition)).detach()
        withdrawn.partitions += yield from self._between_rounds(withdrawn, self.directory.withdraw, partitions)

    def delete(self, withdrawn: Withdrawn) -> Sliced[None]:
        partitions = withdrawn.partitions
        for start in range(0, len(partitions), _DELETED_AT_ONCE):
            some = partitions[start : start + _DELETED_AT_ONCE]
            yield from self._between_rounds(withdrawn, self.directory.delete, some)
        if withdrawn.all_gone:
            self._flushed.end_removal(withdrawn.topic_id)

    def _between_rounds(
        self,
        withdrawn: Withdrawn,
        function: Callable[[str, UUID, Sequence[int]], dict[int, OSError | None]],
        partitions: Sequence[int],
    ) -> Sliced[list[int]]:
        """After a flush round that may still use the files, and off the loop, which must not block on the disk. Returns
        the partitions that existed and for which it succeeded."""
        topic, topic_id = withdrawn.topic, withdrawn.topic_id
        outcome: dict[int, OSError | None] = {}
        done: Completion[None] = Completion()
        self.file_sync.run_between_rounds(
            lambda: outcome.update(function(topic, topic_id, partitions)), partial(_end, done)
        )
        yield done
        done.result()
        for partition, problem in outcome.items():
            if problem is not None:
                withdrawn.all_gone = False
                line = f"{directory_of(topic, partition)} cannot be deleted: {problem}; the next start retries"
                self._report(topic, partition, [line])
        return [partition for partition, problem in outcome.items() if problem is None]

    def finish_removals(self, removed: Mapping[UUID, str], live: Container[UUID]) -> list[str]:
        return self.directory.finish_removals(removed, live)

    def _report(
        self,
        topic: str,
        partition: int,
        lines: Sequence[str],
        *,
        scanned_bytes: int = 0,
        cut_bytes: int = 0,
        offline_error: str | None = None,
    ) -> None:
        if self._on_report is not None:
            from oncelog.broker.storage.local.recovered_log import RecoveryReport

            self._on_report(RecoveryReport(topic, partition, tuple(lines), scanned_bytes, cut_bytes, offline_error))

    # -- background work

    def volume_bytes(self) -> tuple[int, int]:
        return self._disk.volume_bytes()

    def step(self) -> None:
        self._begin_journal()
        self._failure.space.step(self._disk, self._scheduler)
        self.ahead.step()
        self.file_sync.checkpoint_when_due()
        for log in self._logs.values():
            if log.has_removed:  # a sync was using them
                log.delete_removed()
        if self.cleaner is not None:
            self.cleaner.step()

    def set_up_compaction(self, memory_bytes: int, backoff_ms: int) -> None:
        if self.cleaner is not None:
            self.cleaner.set_up(memory_bytes, backoff_ms)

    def _cleanable_end(self, log: LocalLog) -> int:
        """The offset up to which a log is stable and its segments durable."""
        stable_end = log.owner.last_stable_offset
        if self.file_sync.policy == "memory":
            return stable_end
        points = self._flushed.get(log.topic_id, log.partition)
        return min(stable_end, points.synced_offset) if points else 0

    def _begin_compaction(self, log: LocalLog, dirty_from: int, end_offset: int, memory_bytes: int) -> CompactionRound:
        from oncelog.broker.storage.local.compaction_round import LocalCompactionRound  # not needed at startup

        return LocalCompactionRound(log, self._disk, dirty_from, end_offset, memory_bytes, self._secure)

    def _secure(self, log: LocalLog, next_offset: int) -> None:
        """Record durably that everything below `next_offset` is synced: recovery must not take a gap there for a torn
        write. Raises OSError."""
        self._flushed.record_all([((log.topic_id, log.partition), LogPoints(next_offset, log.log_start_offset))])

    # -- stopping

    def stop_background(self) -> None:
        if self.cleaner is not None:
            self.cleaner.stop()
        if self._segment_check is not None:
            self._segment_check.stop()

    def close(self, *, cleanly: bool) -> OSError | None:
        problem: OSError | None = None
        if cleanly:
            try:
                self._stop_cleanly()
            except OSError as error:
                problem = error
        for log in self._logs.values():
            log.close()
        self.file_sync.close()
        self._flushed.close()
        return problem

    def _stop_cleanly(self) -> None:
        """Write indexes, snapshots and checkpoints, then the marker. Raises OSError."""
        usable = [
            (key, log) for key, log in self._logs.items() if log.owner.offline_error is None and log.log_end_offset > 0
        ]
        problem: OSError | None = None
        for _, log in usable:
            try:
                log.complete_segments()
            except OSError as error:
                problem = error  # its indexes are rebuilt at the next start; the others need not be
        self.commit_now()
        if self._failure.failed:
            return
        self._flushed.rewrite()
        ends = [(*key, log.log_end_offset) for key, log in usable]
        starts = [(*key, log.log_start_offset) for key, log in usable if log.log_start_offset > 0]
        write_checkpoint(self._disk, RECOVERY_POINT, ends)
        write_checkpoint(self._disk, LOG_START, starts)
        if problem is not None:
            raise problem
        self.ahead.keep()
        self._disk.write_atomically(CLEAN_SHUTDOWN, CLEAN_SHUTDOWN_CONTENT)


def _on_starts_moved(logs: Mapping[LocalLog, int], moved: Completion[None], error: Exception | None) -> None:
    if error is not None:
        moved.fail(StoreError(str(error)) if is_transient(error) else error)
        return
    for log, offset in logs.items():
        log.log_start_offset = max(log.log_start_offset, offset)
    moved.complete(None)


def _end(done: Completion[None], error: Exception | None) -> None:
    done.complete(None) if error is None else done.fail(error)
