"""Makes the appends to one data directory durable.

Owns: how a round is committed, the checkpoints, the flush policy. Does not own: when a round begins
(`broker.log.rounds`), the layout of the journal (`journal`), which files of a log are dirty (`LocalLog`).

Under `fsync` a round is one write to the journal: the batches themselves, or, where a log has many bytes, that its
files have been synced. Segments are synced later, all together, by a checkpoint: at the latest when a file of the
journal is full. Under `os` and `memory` an append counts as durable once it is written; under `os` the files that a
roll completes are still synced, so that recovery need not read old segments, and those of a log whose own settings ask
for it: after `flush.messages` records in the turn of the append, as Kafka does it, after `flush.ms` in the background.

Invariants
- A commit completes only when everything appended before it is durable, and one commit runs at a time.
- A round is committed as a whole: by one frame of the journal or, while that cannot be written (at a start, on a full
  disk), by one atomic rewrite of `flushed-offsets` after a sync of its files.
- A checkpoint records no offset that is not committed.
- After a failed sync nothing is synced again. A file that cannot be opened for lack of a descriptor was not synced: its
  commit waits until it is.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, ParamSpec, Protocol
from uuid import UUID

from oncelog.broker.storage.disk_errors import is_transient, lacks_descriptor
from oncelog.broker.storage.local.boot_mark import BootMark
from oncelog.broker.storage.local.failure import Failure
from oncelog.broker.storage.local.flushed_offsets import JOURNAL_KEY, LogPoints
from oncelog.broker.storage.local.journal import Journal, LeftOut, synced_span
from oncelog.broker.storage.local.sync_targets import SyncedLog, SyncTarget, entries_of, failed_of, unopened_of
from oncelog.broker.storage.sections import LogKey, Section
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Clock, Scheduler, Stopwatch
from oncelog.broker.turns.schedule import Schedule

POLICIES = ("fsync", "os", "memory")
# A sync on the loop blocks every other connection, but a thread costs more than a quick sync: of 16 transactional
# producers, a third of the processor time.
_SLOW_SYNC_MS = 2
_ROUNDS_AFTER_A_SLOW_SYNC = 100
APPENDS_ON_LOOP = 64
_RETRY_PAUSE_MS = 100
_CHECKPOINT_INTERVAL_MS = 10_000
LARGE_BYTES = 128 * 1024
"""The size from which a sync of the segment costs less than writing the bytes twice."""

P = ParamSpec("P")
RunAll = Callable[[Sequence[Callable[[], None]]], None]
"""Calls each function and returns when all have returned; possibly in parallel."""


class SyncSettings(NamedTuple):
    """How rounds are written."""

    policy: str = "fsync"
    """`oncelog.flush.policy`."""
    appends_on_loop: int = APPENDS_ON_LOOP
    """A round of up to so many appends is synced on the loop."""
    measures_syncs: bool = True
    """Not after a slow sync, for the next hundred rounds; otherwise each is taken to be quick."""
    large_bytes: int = LARGE_BYTES
    """Where a log has more in a round, its files are synced, and the journal only says so."""
    flush_look_ms: int = 0
    """How often to look for logs that `flush.ms` makes due; 0: at each step."""
    run_all: RunAll | None = None
    stopwatch: Stopwatch | None = None
    """Called when the writing of a round begins, and what it returns once that is durable, both in the thread that
    writes."""


class Points(Protocol):
    """Records, for recovery, up to which offset the segments of each log are durable (`FlushedOffsets`)."""

    def record(self, entries: Iterable[tuple[LogKey, LogPoints]], *, journal_number: int | None = None) -> None: ...

    def sync(self) -> None: ...

    def forget(self, topic_id: UUID, partitions: Iterable[int]) -> None: ...

    def record_all(self, entries: Iterable[tuple[LogKey, LogPoints]]) -> None: ...

    def begin_life(self, life: int, left_life: int, journal_number: int) -> None: ...

    def rewrite(self) -> None: ...

    @property
    def is_sync_owed(self) -> bool: ...


class _Round:
    """The sections and files that one commit makes durable."""

    __slots__ = ("committing", "ends", "error", "is_in_journal", "sections", "targets")

    committing: Completion[bool]
    """Set for a round that does not end in the turn in which it begins."""
    error: OSError | None
    """Why the journal, or `flushed-offsets`, could not be written."""

    def __init__(self, is_in_journal: bool) -> None:
        self.ends: list[tuple[SyncedLog, int]] = []
        self.sections: list[Section] = []
        self.targets: list[SyncTarget] = []
        self.is_in_journal = is_in_journal
        self.error = None


class _Checkpoint:
    """The files that one checkpoint syncs, and the number of the last frame that it covers."""

    __slots__ = ("is_recorded", "number", "targets")

    def __init__(self, targets: Sequence[SyncTarget], number: int) -> None:
        self.targets = targets
        self.number = number
        self.is_recorded = False
        """`flushed-offsets` says durably that it covers the frames."""


class FileSync:
    def __init__(
        self,
        scheduler: Scheduler,
        failure: Failure,
        points: Points,
        journal: Journal,
        clock: Clock,
        settings: SyncSettings,
    ) -> None:
        """Raises ValueError for an unknown policy."""
        if settings.policy not in POLICIES:
            raise ValueError(f"oncelog.flush.policy is {settings.policy!r}, it must be one of {', '.join(POLICIES)}")
        self.policy = settings.policy
        self.failure = failure
        self.journal = journal
        self.large_bytes = settings.large_bytes
        self.dirty: dict[SyncedLog, None] = {}
        """Logs that were appended to."""
        self.is_journaling = False
        """Appends are to be collected for the journal."""
        self.note_end: Callable[[LogKey, int], None] | None = None
        """Where appends are to be noted that go into no journal."""
        self._unsynced: dict[SyncedLog, None] = {}
        """Committed, but the next checkpoint must sync and record them."""
        self._scheduler = scheduler
        self._points = points
        self._clock = clock
        self._measures_syncs = settings.measures_syncs
        self._stopwatch = settings.stopwatch
        self._run_all = settings.run_all or _one_by_one
        self._appends_on_loop = settings.appends_on_loop
        self._rounds_in_thread = 0
        """To come, since a sync was slow."""
        self._background_count = 0
        self._idle: Completion[None] | None = None
        self._is_closed = False
        self._is_journal_settled = False
        self._ended_number = 0
        """The last frame whose logs are among the unsynced: the sync thread may have written one more."""
        self._is_committing = False
        self._is_checkpointing = False
        self._is_checkpoint_wanted = False
        self._ahead: _Round | None = None
        """The beginning of the next round; written to the journal already unless it has sections or targets."""
        self._waiting_round: _Round | None = None
        self._written_in_thread: _Round | None = None
        self._checkpoints = Schedule(clock)
        self._flushes = Schedule(clock)
        self._flush_look_ms = settings.flush_look_ms

    @property
    def is_busy(self) -> bool:
        return self._background_count > 0

    def when_idle(self) -> Completion[None]:
        """Completes when nothing but commits is under way; something may begin in the same turn."""
        if not self.is_busy:
            return Completion.of(None)
        if self._idle is None:
            self._idle = Completion()
        return self._idle

    def _end_background(self) -> None:
        self._background_count -= 1
        if self._background_count == 0 and self._idle is not None:
            idle, self._idle = self._idle, None
            idle.complete(None)

    def run_between_rounds(self, function: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        """Run `function` in the sync thread, between syncs, then `done(error or None)` on the loop."""
        self._scheduler.run_in_thread(function, self._while_open(done))

    def _while_open(self, function: Callable[P, None]) -> Callable[P, None]:
        """A thread or a timer may end after the store was closed: then nothing may be begun any more."""

        def call(*args: P.args, **kwargs: P.kwargs) -> None:
            if not self._is_closed:
                function(*args, **kwargs)

        return call

    def close(self) -> None:
        self._is_closed = True
        self.journal.close()

    # -- commits

    def commit(self, append_count: int) -> Completion[bool] | None:
        """Make everything appended so far durable, `append_count` batches; None: it is already. Else it completes with
        whether it is; False after a failure of the disk."""
        logs = self._take_dirty()
        if self.policy != "fsync":
            targets = [target for log in logs if (target := log.begin_sync_of_completed()) is not None]
            if targets:
                self._sync_in_background(targets)
            return None
        begun = self._begin_round(logs)
        is_small = append_count <= self._appends_on_loop and not begun.targets
        if is_small and not self._rounds_in_thread and self._has_room(begun):
            self._write(begun)
            if begun.error is None:
                self._end_round(begun)
                return None
            begun.committing = Completion()
            self._on_written(begun)
        else:
            begun.committing = Completion()
            self._continue(begun)
        self._is_committing = not begun.committing.done
        return begun.committing

    def write_ahead(self) -> bool:
        """See `Durability.answer_ahead`."""
        if self.policy != "fsync":
            return True
        if not self.is_journaling or self._is_committing or self.failure.failed or self._points.is_sync_owed:
            return False
        begun = self._ahead = self._begin_round(self._take_dirty())
        if begun.targets:
            return False
        try:
            is_written = self.journal.write_ahead(begun.sections)
        except OSError:
            return False  # the round itself finds out what it means
        if is_written:
            begun.sections = []
        return is_written

    def make_room(self) -> None:
        """The disk is full, and something is about to be deleted: see `Journal.make_room`."""
        written = self._written_in_thread
        if self.is_journaling and not self.failure.failed and (written is None or not written.is_in_journal):
            try:
                self.journal.make_room()
            except OSError as error:
                if not is_transient(error):
                    self.failure.fail(error)

    def commit_now(self) -> None:
        """See `LogStore.commit_now`."""
        ahead = [log for log, _ in self._ahead.ends if not log.is_closed] if self._ahead is not None else []
        logs = list(dict.fromkeys((*ahead, *self._take_dirty())))
        if self.is_journaling:
            self._commit_to_journal(logs)  # also if a full disk then prevents all else
        targets = [log.begin_sync() for log in dict.fromkeys((*logs, *self._unsynced)) if not log.is_closed]
        self._sync(targets)
        for unopened in unopened_of(targets):
            self._put_off(targets)
            raise unopened.error or OSError()
        self._judge(targets, None)
        if targets and not self.failure.failed and self.policy != "memory":
            self._record_at_once([(target.log, target.synced_offset) for target in targets])
            self._unsynced = {}
            for target in targets:
                target.log.committed_offset = max(target.log.committed_offset, target.synced_offset)

    def _put_off(self, targets: Sequence[SyncTarget]) -> None:
        """The next round syncs these logs, whatever the journal has of them."""
        for target in targets:
            log = target.log
            log.keep_dirty(target)
            log.demand_sync()
            self.dirty[log] = None
        self._end(targets)

    def _commit_to_journal(self, logs: Sequence[SyncedLog]) -> None:
        begun = self._begin_round(logs)
        if self._has_room(begun):
            self._write(begun)
            if begun.error is None and not failed_of(begun.targets):
                self._note_committed(begun)
        for target in begun.targets:
            target.log.keep_dirty(target)
        self._end(begun.targets)

    def _take_dirty(self) -> list[SyncedLog]:
        logs, self.dirty = self.dirty, {}
        return [log for log in logs if not log.is_closed]

    def _begin_round(self, logs: Sequence[SyncedLog]) -> _Round:
        begun = _Round(self.is_journaling)
        if self._ahead is not None:
            self._continue_round(begun, self._ahead)
        for log in logs:
            begun.ends.append((log, log.log_end_offset))
            spans = log.take_spans()
            if not self.is_journaling:
                begun.targets.append(log.begin_sync())
            elif spans is None:
                begun.targets.append(log.begin_sync())
                begun.sections.append(((log.topic_id, log.partition), synced_span(log.log_end_offset)))
            else:
                begun.sections += [((log.topic_id, log.partition), span) for span in spans]
            if log.awaits_checkpoint:
                self._is_checkpoint_wanted = True
        return begun

    def _continue_round(self, begun: _Round, ahead: _Round) -> None:
        self._ahead = None
        begun.ends, begun.sections, begun.targets = ahead.ends, ahead.sections, ahead.targets

    def _has_room(self, begun: _Round) -> bool:
        return not begun.is_in_journal or self.journal.has_room(begun.sections)

    def _continue(self, begun: _Round) -> None:
        if self._has_room(begun):
            self._written_in_thread = begun
            self._scheduler.run_in_thread(
                lambda: self._write(begun), self._while_open(lambda error: self._on_written(begun, error))
            )
        else:
            self._waiting_round = begun
            self.begin_checkpoint()

    def _write(self, begun: _Round) -> None:
        """On the loop or in the sync thread."""
        on_written = None if self._stopwatch is None else self._stopwatch()
        if begun.targets:
            self._sync(begun.targets)
            if failed_of(begun.targets):
                return
        started_ms = self._clock.monotonic_ms()
        try:
            if begun.is_in_journal:
                if self._points.is_sync_owed:
                    self._points.sync()
                if begun.sections:
                    self.journal.write(begun.sections)
                else:
                    self.journal.sync()
            else:
                self._record_at_once(begun.ends)
        except OSError as error:
            begun.error = error
        if self._measures_syncs and self._clock.monotonic_ms() - started_ms >= _SLOW_SYNC_MS:
            self._rounds_in_thread = _ROUNDS_AFTER_A_SLOW_SYNC
        elif self._rounds_in_thread:
            self._rounds_in_thread -= 1
        if on_written is not None and begun.error is None:
            on_written()

    def _record_at_once(self, ends: Sequence[tuple[SyncedLog, int]]) -> None:
        known = [(log, end_offset) for log, end_offset in ends if end_offset > 0 and not log.is_closed]
        if len(known) == 1:  # one entry is there as a whole, or not
            ((log, end_offset),) = known
            self._points.record([((log.topic_id, log.partition), LogPoints(end_offset, log.log_start_offset))])
            self._points.sync()
            return
        self._points.record_all(
            ((log.topic_id, log.partition), LogPoints(end_offset, log.log_start_offset)) for log, end_offset in known
        )

    def _on_written(self, begun: _Round, error: Exception | None = None) -> None:
        self._written_in_thread = None
        if error is None:
            failed = [target for target in failed_of(begun.targets) if not lacks_descriptor(target.error)]
            waits = begun.error is not None and is_transient(begun.error)
            if not failed and (waits or unopened_of(begun.targets)):
                self._retry(begun)
                return
            error = begun.error
        self._judge(begun.targets, error)
        self._is_committing = False
        if self.failure.failed:
            begun.committing.complete(False)
        else:
            self._end_round(begun)
            begun.committing.complete(True)

    def _retry(self, begun: _Round) -> None:
        """Once there are descriptors, or space; without space for the journal, by a sync of all files."""
        error, begun.error = begun.error, None
        if error is not None:
            self.failure.space.on_error(error)
        if error is not None and begun.is_in_journal and not lacks_descriptor(error):
            begun.is_in_journal = False
            for target in begun.targets:
                target.log.end_sync(target)
            begun.targets = [log.begin_sync() for log, _ in begun.ends if not log.is_closed]
        self._scheduler.call_later(_RETRY_PAUSE_MS, self._while_open(lambda: self._continue(begun)))

    def _end_round(self, begun: _Round) -> None:
        self._note_committed(begun)
        if self._is_checkpoint_wanted or (self.journal.needs_checkpoint and not self._is_checkpointing):
            self.begin_checkpoint()

    def _note_committed(self, begun: _Round) -> None:
        self._ended_number = self.journal.last_number
        for log, end_offset in begun.ends:
            log.committed_offset = max(log.committed_offset, end_offset)
            self._unsynced[log] = None

    # -- checkpoints

    @property
    def is_journal_settled(self) -> bool:
        """`begin_journal` has succeeded."""
        return self._is_journal_settled

    @property
    def is_committing(self) -> bool:
        """A round is in flight."""
        return self._is_committing

    def begin_journal(self, left_out: Mapping[LogKey, LeftOut], note: BootMark) -> None:
        """Every log is open, and recovered: from now on rounds go to the journal, and `note` has what was written.
        Raises OSError."""
        self.commit_now()
        journal, points = self.journal, self._points
        if self.policy == "fsync":
            journal.make_found_durable()
            # First what makes all frames before it obsolete: a stop in between leaves the old journal in use. And the
            # life before `boot` names it, so that one that `flushed-offsets` does not know is of another copy.
            points.begin_life(note.life, journal.found_life or note.named_life, journal.last_number + 1)
            note.begin()
            journal.words = note.words
            journal.begin(note.life, left_out)
            self._ended_number = journal.last_number
            points.record((), journal_number=self._ended_number + 1)
            points.sync()
            self.is_journaling = True
        else:
            self.end_journal(left_out, note)
            self.note_end = note.note_end
        self._is_journal_settled = True

    def end_journal(self, left_out: Mapping[LogKey, LeftOut], note: BootMark) -> None:
        """Every log is durable in its segments, but for those left out: from now on there is no journal. A stop in
        between leaves one that is known, and says whether it counts. Raises OSError."""
        journal, points = self.journal, self._points
        points.begin_life(note.life, journal.found_life or note.named_life, journal.last_number + 1)
        note.begin()
        is_of_no_use = journal.retire(note.life, left_out)
        points.forget(JOURNAL_KEY[0], (JOURNAL_KEY[1],))
        if is_of_no_use:
            points.rewrite()
            journal.remove()

    def checkpoint_when_due(self) -> None:
        if self._unsynced and self._checkpoints.take(_CHECKPOINT_INTERVAL_MS):
            self.begin_checkpoint()

    def begin_checkpoint(self) -> None:
        """Sync the segments of all committed logs, and record it; the journal can then be reused."""
        self._is_checkpoint_wanted = self._is_checkpointing
        if self._is_checkpointing or self.failure.failed or self.policy != "fsync":
            return
        logs, self._unsynced = self._unsynced, {}
        targets = []
        for log in logs:
            if not log.is_closed:
                target = log.begin_sync()
                target.synced_offset = log.committed_offset
                targets.append(target)
        self._is_checkpointing = True
        self._background_count += 1
        begun = _Checkpoint(targets, self._ended_number)
        self._scheduler.run_beside(
            lambda: self._checkpoint(begun), self._while_open(lambda error: self._on_checkpoint(begun, error))
        )

    def _checkpoint(self, begun: "_Checkpoint") -> None:
        self._sync(begun.targets)
        is_complete = self.is_journaling and not failed_of(begun.targets)
        self._points.record(entries_of(begun.targets), journal_number=begun.number + 1 if is_complete else None)
        self._points.sync()
        begun.is_recorded = is_complete

    def _on_checkpoint(self, begun: "_Checkpoint", error: Exception | None) -> None:
        self._is_checkpointing = False
        incomplete: Sequence[SyncTarget] = unopened_of(begun.targets)
        if isinstance(error, OSError) and is_transient(error):
            self.failure.space.on_error(error)
            incomplete, error = begun.targets, None
        for target in incomplete:
            self._unsynced[target.log] = None
            target.log.keep_dirty(target)
        self._judge(begun.targets, error)
        if self.failure.failed:
            if self._waiting_round is not None:
                self._waiting_round.committing.complete(False)
        elif not begun.is_recorded and self.is_journaling:
            self._scheduler.call_later(_RETRY_PAUSE_MS, self._while_open(self.begin_checkpoint))
        else:
            self.journal.release(begun.number)
            waiting, self._waiting_round = self._waiting_round, None
            if waiting is not None:
                self._continue(waiting)
            if self._is_checkpoint_wanted:
                self.begin_checkpoint()
        self._end_background()

    # -- under `os`, for logs whose settings ask for it

    def flush(self, log: SyncedLog) -> None:
        """Sync this log before its append is answered. A failure is final, a lack of descriptors too: the batch is in
        the file, where a retry would be taken for a duplicate that is safe."""
        if self.policy != "os":
            return
        target = log.begin_sync()
        target.sync()
        if target.error is not None:
            self.failure.fail(target.error)
        self._end([target])

    def takes_flush_look(self) -> bool:
        """Whether to look now for logs that `flush.ms` makes due: not while the syncs of an earlier look are late."""
        return self.policy == "os" and not self.is_busy and self._flushes.take(self._flush_look_ms)

    def flush_behind(self, logs: Iterable[SyncedLog]) -> None:
        """Sync these in the background."""
        self._sync_in_background([log.begin_sync() for log in logs])

    # -- in the background: under `os` nothing waits for a sync, but a failure counts

    def _sync_in_background(self, targets: Sequence[SyncTarget]) -> None:
        if not any(target.files or target.directories for target in targets):
            self._end(targets)
            return
        self._background_count += 1

        def sync() -> None:
            self._sync(targets)
            try:
                self._points.record(entries_of(targets))
            except OSError as error:
                if not is_transient(error):  # a full disk: recovery reads more
                    raise

        self._scheduler.run_in_thread(sync, self._while_open(lambda error: self._on_background_synced(targets, error)))

    def _on_background_synced(self, targets: Sequence[SyncTarget], error: Exception | None) -> None:
        unopened = unopened_of(targets)
        self._judge([target for target in targets if target not in unopened], error)
        if unopened and not self.failure.failed:
            self._background_count += 1
            self._scheduler.call_later(_RETRY_PAUSE_MS, self._while_open(lambda: self._retry_in_background(unopened)))
        self._end_background()

    def _retry_in_background(self, targets: Sequence[SyncTarget]) -> None:
        self._sync_in_background(targets)
        self._end_background()

    # -- both

    def _sync(self, targets: Sequence[SyncTarget]) -> None:
        self._run_all([target.sync for target in targets])

    def _judge(self, targets: Sequence[SyncTarget], error: Exception | None) -> None:
        """Fail if any sync did; not for a deleted log, whose files may be gone and have no waiters."""
        if error is not None:
            self.failure.fail(error if isinstance(error, OSError) else OSError(str(error)))
        for target in targets:
            if target.error is not None and not target.log.is_closed and not lacks_descriptor(target.error):
                self.failure.fail(target.error)
        self._end(targets)

    def _end(self, targets: Sequence[SyncTarget]) -> None:
        for target in targets:
            target.log.end_sync(target)


def _one_by_one(functions: Sequence[Callable[[], None]]) -> None:
    for function in functions:
        function()
