"""Makes writes to the files of one data directory durable.

Owns: which logs have unsynced files, the sync thread, the flush policy. Does not own: when a round begins
(`broker.log.rounds`), which files of a log are dirty (`LocalLog`). Invariants
- A commit completes only after every file that was dirty at its start is synced, and one commit runs at a time.
- After a failed sync nothing is synced again. A file that cannot be opened for lack of a descriptor was not synced: its
  commit waits until it is.

The policies: `fsync`, and `os` and `memory`, where an append counts as durable once it is written; under `os` the files
that a roll completes are still synced, so that recovery need not read old segments.
"""

from collections.abc import Callable, Sequence
from typing import Protocol
from uuid import UUID

from oncelog.broker.completion import Completion
from oncelog.broker.log.store import Failure, Fetching
from oncelog.broker.ports import Clock, Disk, Scheduler, Syncable
from oncelog.broker.storage.disk_errors import lacks_descriptor

POLICIES = ("fsync", "os", "memory")
# A sync on the loop saves two thread switches, but blocks every other connection.
_SLOW_SYNC_MS = 2
_NO_DESCRIPTOR_PAUSE_MS = 100

RunAll = Callable[[Sequence[Callable[[], None]]], None]
"""Calls each function and returns when all have returned; possibly in parallel."""


class SyncedLog(Protocol):
    """The files of a partition, as a commit needs them."""

    topic_id: UUID
    partition: int
    log_start_offset: int
    is_deleted: bool

    def begin_sync(self, *, everything: bool = False) -> "SyncTarget":
        """What a round must sync now."""

    def end_sync(self, target: "SyncTarget") -> None:
        """The round no longer uses any file of this log."""


class SyncTarget:
    """What one log must sync in a round, and the offset up to which that syncs it."""

    __slots__ = ("directories", "disk", "error", "files", "log", "synced_offset")

    def __init__(
        self, log: SyncedLog, disk: Disk, files: Sequence[Syncable], directories: Sequence[str], synced_offset: int
    ) -> None:
        self.log = log
        self.disk = disk
        self.files = files
        self.directories = directories
        self.synced_offset = synced_offset
        self.error: OSError | None = None

    def sync(self) -> None:
        """On the loop or in the sync thread; an error is stored for the loop to handle."""
        self.error = None
        try:
            for file in self.files:
                file.sync()
            for directory in self.directories:
                self.disk.sync_dir(directory)
        except OSError as error:
            self.error = error


class Journal(Protocol):
    """Records, for recovery, up to which offset each log was synced."""

    @property
    def is_unsynced(self) -> bool:
        """It has entries that a power cut could lose."""

    def record(self, targets: Sequence[SyncTarget]) -> None: ...

    def sync(self) -> None: ...


class FileSync:
    def __init__(
        self,
        scheduler: Scheduler,
        policy: str,
        failure: Failure,
        journal: Journal,
        clock: Clock | None = None,
        run_all: RunAll | None = None,
    ) -> None:
        """Without a `clock` a single append is always synced on the loop."""
        if policy not in POLICIES:
            raise ValueError(f"oncelog.flush.policy is {policy!r}, it must be one of {', '.join(POLICIES)}")
        self.policy = policy
        self.failure = failure
        self.dirty: list[SyncedLog] = []
        """Logs with unsynced files, each once (`LocalLog.is_dirty`)."""
        self._scheduler = scheduler
        self._journal = journal
        self._clock = clock
        self._run_all = run_all or _one_by_one
        self._last_sync_ms = 0
        self._background_count = 0
        self._is_syncing_journal = False

    @property
    def is_busy(self) -> bool:
        return self._background_count > 0

    def run_between_rounds(self, function: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        """Run `function` in the sync thread, between syncs, then `done(error or None)` on the loop."""
        self._scheduler.run_in_thread(function, done)

    def commit(self, append_count: int) -> Fetching | None:
        """See `LogStore.commit`."""
        targets = self._take(everything=False)
        if self.policy != "fsync":
            self._sync_in_background(targets)
            return None
        if append_count == 1 and self._last_sync_ms < _SLOW_SYNC_MS:
            self._sync(targets)
            if not any(target.error for target in targets):
                self._end(targets)
                return None
            committing: Fetching = Completion()
            self._on_synced(committing, targets)
        else:
            committing = Completion()
            self._sync_in_thread(committing, targets, targets)
        return committing

    def commit_now(self) -> None:
        """See `LogStore.commit_now`."""
        targets = self._take(everything=True)
        self._sync(targets)
        for target in _unopened(targets):
            if target.error is not None:
                raise target.error
        self._judge(targets, None)

    def _take(self, *, everything: bool) -> list[SyncTarget]:
        logs, self.dirty = self.dirty, []
        return [log.begin_sync(everything=everything) for log in logs if not log.is_deleted]

    def sync_journal(self) -> None:
        """Sync the journal, periodically: recovery may take what it lacks for a torn write."""
        if self.policy != "fsync" or self.failure.failed or self._is_syncing_journal or not self._journal.is_unsynced:
            return
        self._is_syncing_journal = True
        self._scheduler.run_in_thread(self._journal.sync, self._on_journal_synced)

    def _on_journal_synced(self, error: Exception | None) -> None:
        self._is_syncing_journal = False
        if error is not None and not lacks_descriptor(error):
            self.failure.fail(error if isinstance(error, OSError) else OSError(str(error)))

    def _sync_in_thread(
        self, committing: Fetching, targets: Sequence[SyncTarget], wanted: Sequence[SyncTarget]
    ) -> None:
        """`wanted` are those of the round's `targets` that are not synced yet."""
        self._scheduler.run_in_thread(
            lambda: self._sync(wanted), lambda error: self._on_synced(committing, targets, error)
        )

    def _sync(self, targets: Sequence[SyncTarget]) -> None:
        started_ms = self._clock.monotonic_ms() if self._clock is not None else 0
        self._run_all([target.sync for target in targets])
        if self._clock is not None:
            self._last_sync_ms = self._clock.monotonic_ms() - started_ms
        self._journal.record([target for target in targets if target.error is None])

    def _on_synced(self, committing: Fetching, targets: Sequence[SyncTarget], error: Exception | None = None) -> None:
        unopened = _unopened(targets)
        has_failed = error is not None or sum(target.error is not None for target in targets) > len(unopened)
        if unopened and not has_failed:
            self._scheduler.call_later(
                _NO_DESCRIPTOR_PAUSE_MS, lambda: self._sync_in_thread(committing, targets, unopened)
            )
            return
        self._judge(targets, error)
        if self.failure.failed:
            committing.fail(OSError("the store has failed"))
        else:
            committing.complete(None)

    # -- in the background: under `os` nothing waits for a sync, but a failure counts

    def _sync_in_background(self, targets: Sequence[SyncTarget]) -> None:
        if not any(target.files or target.directories for target in targets):
            self._end(targets)
        else:
            self._background_count += 1
            self._scheduler.run_in_thread(
                lambda: self._sync(targets), lambda error: self._on_background_synced(targets, error)
            )

    def _on_background_synced(self, targets: Sequence[SyncTarget], error: Exception | None) -> None:
        self._background_count -= 1
        unopened = _unopened(targets)
        self._judge([target for target in targets if target not in unopened], error)
        if unopened and not self.failure.failed:
            self._background_count += 1
            self._scheduler.call_later(_NO_DESCRIPTOR_PAUSE_MS, lambda: self._retry_in_background(unopened))

    def _retry_in_background(self, targets: Sequence[SyncTarget]) -> None:
        self._background_count -= 1
        self._sync_in_background(targets)

    def _judge(self, targets: Sequence[SyncTarget], error: Exception | None) -> None:
        """Fail if any sync did; not for a deleted log, whose files may be gone and have no waiters."""
        if error is not None:
            self.failure.fail(OSError(str(error)))
        for target in targets:
            if target.error is not None and not target.log.is_deleted and not lacks_descriptor(target.error):
                self.failure.fail(target.error)
        self._end(targets)

    def _end(self, targets: Sequence[SyncTarget]) -> None:
        for target in targets:
            target.log.end_sync(target)


def _one_by_one(functions: Sequence[Callable[[], None]]) -> None:
    for function in functions:
        function()


def _unopened(targets: Sequence[SyncTarget]) -> list[SyncTarget]:
    """Targets with a file that could not be opened; a log deleted meanwhile needs no sync."""
    return [target for target in targets if lacks_descriptor(target.error) and not target.log.is_deleted]
