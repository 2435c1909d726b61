"""The partitions of one data directory, as the LogStore of this node.

Owns: opening with recovery, what a release and a clean stop write, compaction and checks in the background. Does not
own: which partitions should exist (`broker.cluster.topics`), the owner of a directory (`data_directory`), the removal
of topics (`topic_files`), the open logs (`broker.log.log_manager`).
Invariant: no file is created before the first append to a partition.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from oncelog.broker.apis.compatibility import OURS, Compatibility
from oncelog.broker.log.log_config import INT64_MAX, LogConfig
from oncelog.broker.log.producer_state import ProducerStateManager
from oncelog.broker.log.store import (
    ALL_DURABLE,
    LogView,
    OpenedLog,
    PartitionKey,
    RoundEnds,
    StoreError,
    Trouble,
    Verdict,
    Verdicts,
)
from oncelog.broker.storage.compaction.cleaner import CompactionSettings, LogCleaner
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
from oncelog.broker.storage.local.data_directory import IMAGE, IMAGE_WANTED, DataDirectory
from oncelog.broker.storage.local.deferred import DeferredWork, Results
from oncelog.broker.storage.local.disk_space import SpaceListener
from oncelog.broker.storage.local.durability import LocalDurability
from oncelog.broker.storage.local.failure import Failure
from oncelog.broker.storage.local.file_sync import FileSync, SyncSettings
from oncelog.broker.storage.local.flushed_offsets import NAME as FLUSHED_OFFSETS
from oncelog.broker.storage.local.flushed_offsets import FlushedOffsets, LogPoints
from oncelog.broker.storage.local.journal import DEFAULT_FILE_BYTES, Journal, LeftOut
from oncelog.broker.storage.local.left_journal import LeftJournal
from oncelog.broker.storage.local.local_log import LocalLog
from oncelog.broker.storage.local.partition_directory import directory_of
from oncelog.broker.storage.local.segments import Segments
from oncelog.broker.storage.local.topic_files import TopicFiles
from oncelog.broker.storage.sections import LogKey
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Clock, Disk, Scheduler

if TYPE_CHECKING:
    from oncelog.broker.storage.compaction.compaction_round import Rewriting
    from oncelog.broker.storage.local.log_recovery import LogRecovery
    from oncelog.broker.storage.local.recovered_log import RecoveryReport
    from oncelog.broker.storage.local.recovery_progress import RecoveryProgress
    from oncelog.broker.storage.local.segment_check import CheckSummary, SegmentCheck


class LocalLogStore:
    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        scheduler: Scheduler,
        on_failure: Callable[[OSError], None],
        *,
        syncing: SyncSettings | None = None,
        on_report: "Callable[[RecoveryReport], None] | None" = None,
        on_checked: "Callable[[CheckSummary], None] | None" = None,
        progress: "RecoveryProgress | None" = None,
        compatibility: Compatibility = OURS,
        compaction: CompactionSettings | None = None,
        journal_file_bytes: int = DEFAULT_FILE_BYTES,
        space_listener: SpaceListener | None = None,
    ) -> None:
        """`on_failure` is called once, when the files can no longer be trusted. Unless
        `compatibility.remembers_batches`, a clean stop keeps one batch per producer to recognise retries. Without
        `compaction` nothing is compacted. `on_report` gets each recovery and deletion of interest to an operator. With
        `on_checked`, segments that recovery adopted unread are read in the background, and it gets the summary; without
        it only reads check them. Raises OSError, and ValueError for an unknown flush policy."""
        syncing = syncing or SyncSettings()
        self._disk = self.blobs = disk
        self._clock, self._scheduler = clock, scheduler
        self.failure, self._on_report = Failure(on_failure), on_report
        self.failure.space.watch(space_listener, clock)
        self._logs: dict[PartitionKey, LocalLog] = {}
        self.was_clean = disk.exists(CLEAN_SHUTDOWN)
        self.problems: list[str] = []
        self._mark = BootMark(disk, was_clean=self.was_clean, commits_at_once=syncing.policy != "fsync")
        self.failure.watch(self._mark.forget)
        self._forget_clean_stop()
        if disk.exists(IMAGE) or disk.exists(IMAGE_WANTED):
            from oncelog.broker.storage.local.image import forget_images  # left by a backup

            forget_images(disk)
        self._flushed = FlushedOffsets(disk)
        self._left = LeftJournal(disk, self._flushed, self._mark, was_clean=self.was_clean)
        disk.sync_dir("")
        journal = Journal(disk, self._left.contents, journal_file_bytes)
        self.file_sync = FileSync(scheduler, self.failure, self._flushed, journal, clock, syncing)
        self.durability = LocalDurability(disk, self.file_sync, self._mark)
        self._results, self._deferred = Results(disk), DeferredWork(scheduler)
        self._is_serving = False
        self.directory = DataDirectory(disk, clock, self._flushed, self._had_records)
        self._cleaner_checkpoint = CleanerCheckpoint(disk)
        self.topics = TopicFiles(self.directory, self._flushed, self.file_sync, self._report, self._forget)
        self._recovering: LogRecovery | None = None
        self._compatibility, self._progress = compatibility, progress
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
            lambda log: self._logs[log.topic, log.partition],
            self._cleaner_checkpoint,
            self._cleanable_end,
            self._rewriting_of,
            self._clock,
            self.failure.fail,
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

    def _had_records(self, topic_id: UUID, partition: int) -> bool:
        return self._left.tail((topic_id, partition)) is not None or self._flushed.get(topic_id, partition) is not None

    def open(self, topic: str, partition: int, topic_id: UUID, config: LogConfig) -> OpenedLog:
        if self._is_serving and not self._disk.exists(directory_of(topic, partition)):
            return self._serve_empty(topic, partition, topic_id)
        opened = self._open(topic, partition, topic_id, config)
        noted_end = self._mark.lost_end((topic_id, partition), opened.log_end_offset)
        if noted_end is not None and opened.offline_error is None:
            line = f"offsets {opened.log_end_offset} to {noted_end - 1} were written by the last run, and are gone"
            self._report(topic, partition, [f"{directory_of(topic, partition)}: {line}"])
        return opened

    def _open(self, topic: str, partition: int, topic_id: UUID, config: LogConfig) -> OpenedLog:
        points = self.points(topic_id, partition)
        if not self._disk.exists(directory_of(topic, partition)) and not (points is not None and points.synced_offset):
            return self._serve_empty(topic, partition, topic_id)
        recovered = self._recovery().recover(topic, partition, topic_id, config)
        if recovered.lines:
            self._report(
                topic,
                partition,
                recovered.lines,
                scanned_bytes=recovered.scanned_bytes,
                cut_bytes=recovered.cut_bytes,
                offline_error=recovered.offline_error,
            )
        log = self._serve(
            topic, partition, topic_id, recovered.segments, recovered.log_start_offset, recovered.log_end_offset
        )
        log.is_offline = recovered.offline_error is not None
        opened = OpenedLog(
            log,
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
            self._check_later(log)
        return opened

    def _recovery(self) -> "LogRecovery":
        if self._recovering is None:
            from oncelog.broker.storage.local.log_recovery import LogRecovery  # not needed at a first start

            self._recovering = LogRecovery(
                self._disk,
                self._clock,
                self.directory,
                self._flushed,
                self._left,
                self._cleaner_checkpoint,
                self._compatibility,
                self._progress,
            )
        return self._recovering

    def _serve_empty(self, topic: str, partition: int, topic_id: UUID) -> OpenedLog:
        segments = Segments(self._disk, directory_of(topic, partition), topic_id, [])
        segments.on_occupied = partial(self._make_way, topic, partition)
        return OpenedLog(self._serve(topic, partition, topic_id, segments, 0, 0), ProducerStateManager(), 0, 0)

    def _make_way(self, topic: str, partition: int) -> None:
        """Something has been put in the place of a partition that has no files yet. Raises StoreError."""
        try:
            line = self.directory.set_aside(topic, partition, "it came while the broker ran")
        except OSError as error:
            raise StoreError(trouble(error)) from error
        self._report(topic, partition, [line])

    def _serve(
        self,
        topic: str,
        partition: int,
        topic_id: UUID,
        segments: Segments,
        log_start_offset: int,
        log_end_offset: int,
    ) -> LocalLog:
        log = LocalLog(
            partition,
            topic_id,
            segments,
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

    def get(self, topic: str, partition: int) -> LocalLog:
        """An open log; KeyError if it is not."""
        return self._logs[topic, partition]

    def points(self, topic_id: UUID, partition: int) -> LogPoints | None:
        """Up to which offset a log is known to be durable, and where it starts; None if unknown."""
        return self._left.points(topic_id, partition)

    def settle_journal(self, directories: Mapping[LogKey, str]) -> None:
        """Put everything back that only the journal has, for these partitions, and end its use: before a repair, which
        moves records. What no round has committed is removed when they are opened next. Where a segment contradicts the
        journal, the segment counts, as it is. Raises OSError."""
        left_out: dict[LogKey, LeftOut] = {}
        for (topic_id, partition), directory in directories.items():
            if self._recovery().put_back(directory, topic_id, partition, []) is not None:
                self._left.must_be_kept = True
                continue  # the journal says neither where this log ends nor what of it was committed
            points = self.points(topic_id, partition)
            if points is not None:
                self._flushed.record_all([((topic_id, partition), points)])
            committed_offset = self._left.committed_offset(topic_id, partition)
            if committed_offset is not None:
                # Only that: a repair may leave the log with a lower end.
                left_out[topic_id, partition] = LeftOut(0, (), committed_offset)
        self._left.keep()
        self.file_sync.end_journal(left_out, self._mark)
        self._left.end()

    def begin_serving(self, *, is_recovered: bool) -> None:
        if is_recovered:
            with suppress(OSError):  # a full disk: the next start repeats these checks
                self._flushed.complete_recovery()
        self._begin_journal()
        self._is_serving = True
        for log in self._logs.values():
            log.segments.serve(self._results)

    def _begin_journal(self) -> None:
        """Begin this start's own journal, or none, now that everything it found is durable. Without space this is tried
        again later (`step`); until then commits sync the files."""
        if self.file_sync.is_journal_settled or self.file_sync.is_committing:
            return
        left_out: dict[LogKey, LeftOut] = {}
        for log in self._logs.values():
            if log.is_offline:
                key = (log.topic_id, log.partition)
                left_out[key] = self._left.carried_over(key)
        try:
            self.file_sync.begin_journal(left_out, self._mark)
        except OSError as error:
            # Under another policy, a journal that stays would make the next start discard what was committed.
            if not is_transient(error) or self.file_sync.policy != "fsync":
                self.failure.fail(error)
        else:
            # A log that is opened from now on was put here by hand.
            self._left.end()

    def release(self, topic: str, partition: int, producers: ProducerStateManager) -> Completion[None]:
        """Release one log as a clean stop does, in the sync thread: after a round that may still use its files."""
        log = self._logs.pop((topic, partition))
        log.detach()
        released: Completion[None] = Completion()
        key, end_offset = (log.topic_id, partition), log.committed_offset
        is_usable = not log.is_offline and not log.is_closed and end_offset > 0
        target = None
        if is_usable:
            with suppress(OSError):  # its indexes are rebuilt when it is opened again
                log.complete_segments(producers)
            target = log.begin_sync()
        log.is_closed = True

        def write() -> None:
            if target is not None:
                target.sync()
                if target.error is None:
                    self._flushed.record([(key, LogPoints(end_offset, log.log_start_offset))])
                    self._flushed.sync()

        def on_written(error: Exception | None) -> None:
            problem = error if target is None or target.error is None else target.error
            if target is not None:
                log.end_sync(target)
            if isinstance(problem, OSError) and not is_transient(problem):
                self.failure.fail(problem)
            log.close()
            released.complete(None)

        self.file_sync.run_between_rounds(write, on_written)
        return released

    # -- durability

    @property
    def trouble(self) -> Trouble | None:
        failure = self.failure
        if failure.failed:
            return Trouble(failure.error or OSError("the store was closed"), True)
        return Trouble(failure.space.error, False) if failure.space.error is not None else None

    def watch_failure(self, on_failed: Callable[[], None]) -> None:
        self.failure.watch(on_failed)

    def commit(self, ends: RoundEnds, append_count: int) -> Completion[Verdicts] | None:
        committing = self.file_sync.commit(append_count)
        if committing is None:
            return None
        return committing.map(lambda is_durable: ALL_DURABLE if is_durable else _all_failed(ends))

    def commit_now(self) -> None:
        self.file_sync.commit_now()

    def on_background_error(self, error: OSError) -> None:
        if not is_transient(error):
            self.failure.fail(error)

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
        on_moved = partial(self._on_starts_moved, logs, moved)

        def on_first(error: Exception | None) -> None:
            if error is None or not is_transient(error):
                on_moved(error)
                return
            self.failure.space.on_error(error)
            for log, offset in logs.items():  # no space: delete what can be rebuilt
                log.delete_indexes_below(offset)
            self.file_sync.make_room()
            self.file_sync.run_between_rounds(move, on_moved)

        self.file_sync.run_between_rounds(move, on_first)
        return moved

    def _on_starts_moved(self, logs: Mapping[LocalLog, int], moved: Completion[None], error: Exception | None) -> None:
        if error is not None:
            moved.fail(StoreError(str(error)) if is_transient(error) else error)
            return
        for log, offset in logs.items():
            log.log_start_offset = max(log.log_start_offset, offset)
        moved.complete(None)

    # -- reports

    def _forget(self, topic: str, partitions: Sequence[int]) -> None:
        """These are withdrawn."""
        self._cleaner_checkpoint.forget(topic)
        for partition in partitions:
            self._logs.pop((topic, partition)).detach()

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

    @property
    def lease(self) -> None:
        return None

    def volume_bytes(self) -> tuple[int, int]:
        return self._disk.volume_bytes()

    def figures(self) -> Mapping[str, float]:
        return {}

    def step(self, logs: Collection[LogView]) -> None:
        self._begin_journal()
        if self._disk.exists(IMAGE_WANTED) and self.file_sync.is_journal_settled and not self.failure.failed:
            self._take_image()
        self.failure.space.step(self._disk, self._scheduler)
        self._mark.step()
        self.file_sync.checkpoint_when_due()
        if self.file_sync.takes_flush_look():
            self._flush_behind(logs)
        for log in self._logs.values():
            if log.has_removed:  # a sync was using them
                log.delete_removed()
        if self.cleaner is not None:
            self.cleaner.step(logs)

    def _flush_behind(self, views: Collection[LogView]) -> None:
        asked = [view for view in views if view.config.flush_ms != INT64_MAX]
        found = [(self._logs.get((view.topic, view.partition)), view.config) for view in asked]
        self.file_sync.flush_behind([log for log, config in found if log is not None and log.is_flush_due(config)])

    def _take_image(self) -> None:
        from oncelog.broker.storage.local.image import take_image  # not needed unless there are backups

        with suppress(OSError):  # without space for the list: who waits for it gives up, and says so
            take_image(
                self._disk,
                self._logs.values(),
                self._flushed,
                self.file_sync.journal,
                may_be_lost=self._mark.may_be_lost,
            )

    def set_up_compaction(self, memory_bytes: int, backoff_ms: int) -> None:
        if self.cleaner is not None:
            self.cleaner.set_up(memory_bytes, backoff_ms)

    def _cleanable_end(self, view: LogView, log: LocalLog) -> int:
        """The offset up to which a log is stable and its segments durable."""
        stable_end = view.last_stable_offset
        if self.file_sync.policy == "memory":
            return stable_end
        points = self._flushed.get(log.topic_id, log.partition)
        return min(stable_end, points.synced_offset) if points else 0

    def _rewriting_of(self, view: LogView, log: LocalLog) -> "Rewriting[Any, Any]":
        from oncelog.broker.storage.local.rewriting import LocalRewriting  # not needed at startup

        return LocalRewriting(log, view.config, self._disk, self._secure)

    def _secure(self, log: LocalLog, next_offset: int) -> None:
        """Record durably that everything below `next_offset` is synced: recovery must not take a gap there for a torn
        write. Raises OSError."""
        self._flushed.record_all([((log.topic_id, log.partition), LogPoints(next_offset, log.log_start_offset))])

    # -- stopping

    def close(self, producers: Mapping[PartitionKey, ProducerStateManager], *, cleanly: bool) -> OSError | None:
        if self.cleaner is not None:
            self.cleaner.stop()
        if self._segment_check is not None:
            self._segment_check.stop()
        problem: OSError | None = None
        if cleanly:
            try:
                self._stop_cleanly(producers)
            except OSError as error:
                problem = error
        for log in self._logs.values():
            log.close()
        self.file_sync.close()
        self._flushed.close()
        self.failure.end()  # timers may still be due
        return problem

    def _stop_cleanly(self, producers: Mapping[PartitionKey, ProducerStateManager]) -> None:
        """Write indexes, snapshots and checkpoints, then the marker. Raises OSError."""
        usable = [(key, log) for key, log in self._logs.items() if key in producers and log.log_end_offset > 0]
        problem: OSError | None = None
        for key, log in usable:
            try:
                log.complete_segments(producers[key])
            except OSError as error:
                problem = error  # its indexes are rebuilt at the next start; the others need not be
        self.commit_now()
        if self.failure.failed:
            return
        self._flushed.rewrite()
        ends = [(*key, log.log_end_offset) for key, log in usable]
        starts = [(*key, log.log_start_offset) for key, log in usable if log.log_start_offset > 0]
        write_checkpoint(self._disk, RECOVERY_POINT, ends)
        write_checkpoint(self._disk, LOG_START, starts)
        if problem is not None:
            raise problem
        self._mark.keep()
        self._disk.write_atomically(CLEAN_SHUTDOWN, CLEAN_SHUTDOWN_CONTENT)


def _all_failed(ends: RoundEnds) -> Verdicts:
    return {log.stored: Verdict.FAILED for log, _ in ends}
