"""Group commit: makes many appends durable with one round of syncs.

Owns: the rounds. Does not own: files (each log hands over what is dirty), offsets (each log moves its own).
Invariants
- At most one round is in flight; what is appended during a round belongs to the next.
- A high watermark moves only after every file of its log that was dirty at the start of the round is synced; all logs
  of a round move in one turn, and only then is anybody told.
- After a failed sync or write nothing more is acknowledged and nothing is synced again: the kernel may have dropped the
  pages, so a second sync that succeeds would prove nothing. A file that cannot be opened for want of a descriptor was
  not synced at all: its round is not over until it is.

The policies: `fsync`, and `os` and `memory`, where an append is as durable as it gets once it is written; what a roll
completes is still synced under `os`, so that recovery need not read old segments again.
"""

import errno
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from oncelog.broker.ports import Clock, Disk, File, Scheduler

if TYPE_CHECKING:
    from oncelog.broker.log.partition_log import PartitionLog

POLICIES = ("fsync", "os", "memory")
# A sync on the loop saves two thread hand-overs, but every other connection waits for it meanwhile.
_SLOW_SYNC_MS = 2
_NO_DESCRIPTOR_ERRORS = frozenset({errno.EMFILE, errno.ENFILE})
# No room, or no descriptor: nothing was written, and the client may retry once there is.
_TRANSIENT_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG}) | _NO_DESCRIPTOR_ERRORS
_NO_DESCRIPTOR_PAUSE_MS = 100


def is_transient(error: Exception) -> bool:
    """The disk is as good as before and may do better later; after any other failed write it cannot be trusted."""
    return isinstance(error, OSError) and error.errno in _TRANSIENT_ERRORS


def lacks_descriptor(error: Exception | None) -> bool:
    """The process or the system has too many open files: the file was not touched, not even by a sync."""
    return isinstance(error, OSError) and error.errno in _NO_DESCRIPTOR_ERRORS


def trouble(error: OSError) -> str:
    """What went wrong with which file, and what a person can do about it."""
    if is_transient(error):
        return f"{error}: free some room, or file descriptors, and start again"
    if isinstance(error, PermissionError):
        return f"{error}: let the broker's user read and write it, and start again"
    if isinstance(error, IsADirectoryError | NotADirectoryError):
        return f"{error}: put the file back, or take away what stands in its place, and start again"
    return f"{error}: look after the disk; `oncelog log repair` goes round what it cannot give"


class FlushTarget:
    """What one log wants synced in a round, and how far it counts as durable (`next_offset`) and is synced then."""

    __slots__ = ("directories", "disk", "error", "files", "log", "next_offset", "synced_offset")

    def __init__(
        self,
        log: "PartitionLog",
        disk: Disk,
        files: Sequence[File],
        directories: Sequence[str],
        next_offset: int,
        synced_offset: int,
    ) -> None:
        self.log = log
        self.disk = disk
        self.files = files
        self.directories = directories
        self.next_offset = next_offset
        self.synced_offset = synced_offset
        self.error: OSError | None = None

    def sync(self) -> None:
        """On the loop or in the flusher's thread; a failure is kept for the loop to judge."""
        self.error = None
        try:
            for file in self.files:
                file.sync()
            for directory in self.directories:
                self.disk.sync_dir(directory)
        except OSError as error:
            self.error = error


class FlushJournal(Protocol):
    """Remembers across a crash how far each log was durable."""

    @property
    def is_unsynced(self) -> bool:
        """Something was recorded that a power cut could take."""

    def record(self, targets: Sequence[FlushTarget]) -> None: ...

    def sync(self) -> None: ...


class Flusher:
    def __init__(
        self,
        scheduler: Scheduler,
        policy: str,
        on_failure: Callable[[OSError], None],
        clock: Clock | None = None,
        run_all: Callable[[Sequence[Callable[[], None]]], None] | None = None,
    ) -> None:
        """`run_all` calls each function given and returns when all have returned; perhaps side by side."""
        if policy not in POLICIES:
            raise ValueError(f"oncelog.flush.policy is {policy!r}, it must be one of {', '.join(POLICIES)}")
        self._scheduler = scheduler
        self._clock = clock
        self._run_all = run_all or _one_by_one
        self._on_failure = on_failure
        self.policy = policy
        self.journal: FlushJournal | None = None
        self.failed = False
        self.round_count = 0
        self.append_count = 0
        self._appends_waiting = 0
        self._dirty: list[PartitionLog] = []
        self._is_scheduled = False
        self._is_in_flight = False
        self._behind_count = 0
        self._is_syncing_journal = False
        self._last_sync_ms = 0

    def run_between_rounds(self, function: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        """Run `function` in the thread of the syncs, while none runs there, then `done(error or None)` on the loop."""
        self._scheduler.run_in_thread(function, done)

    def arm(self, log: "PartitionLog") -> None:
        """`log` has grown: include it in the next round."""
        self.append_count += 1
        self._appends_waiting += 1
        if not log.is_dirty:
            log.is_dirty = True
            self._dirty.append(log)
        if not self._is_scheduled and not self._is_in_flight:
            self._is_scheduled = True
            # Whatever else this turn of the loop appends joins the round.
            self._scheduler.call_soon(self._run_round)

    def call_soon(self, function: Callable[[], None]) -> None:
        """Run `function` when this turn of the loop is over."""
        self._scheduler.call_soon(function)

    def fail(self, error: OSError) -> None:
        """The disk cannot be trusted any more: stop acknowledging and tell the broker, once."""
        if not self.failed:
            self.failed = True
            self._on_failure(error)

    def flush_now(self) -> None:
        """Sync everything on the loop, whatever the policy: for a clean stop.

        Raises OSError while a round is in flight, and when there is no descriptor to do it with."""
        if self._is_in_flight or self._behind_count:
            raise OSError(errno.EBUSY, "a flush round has not ended")
        while self._dirty and not self.failed:
            logs, self._dirty = self._dirty, []
            targets = [log.begin_flush(everything=True) for log in logs if not log.is_deleted]
            self._sync(targets)
            for target in _unopened(targets):
                if target.error is not None:
                    raise target.error
            self._complete(targets)

    def step(self) -> None:
        """Make the journal durable, now and then: what it does not know, recovery may take for a torn tail."""
        journal = self.journal
        if journal is None or self.failed or self._is_syncing_journal or not journal.is_unsynced:
            return
        if self.policy == "fsync":
            self._is_syncing_journal = True
            self._scheduler.run_in_thread(journal.sync, self._on_journal_synced)

    def _on_journal_synced(self, error: Exception | None) -> None:
        self._is_syncing_journal = False
        if error is not None and not lacks_descriptor(error):
            self.fail(error if isinstance(error, OSError) else OSError(str(error)))

    @property
    def is_busy(self) -> bool:
        """Something is being synced or is about to be: a clean stop waits for it."""
        return bool(self._dirty) or self._is_in_flight or self._behind_count > 0

    def _run_round(self) -> None:
        self._is_scheduled = False
        if self.failed or not self._dirty:
            return
        logs, self._dirty = self._dirty, []
        is_single = self._appends_waiting == 1
        self._appends_waiting = 0
        self.round_count += 1
        targets = [log.begin_flush() for log in logs if not log.is_deleted]
        if self.policy != "fsync":
            _advance(targets)
            self._sync_behind(targets)
        elif is_single and self._last_sync_ms < _SLOW_SYNC_MS:
            self._sync(targets)
            self._on_synced(targets)
        else:
            self._is_in_flight = True
            self._sync_in_thread(targets, targets)

    def _sync_in_thread(self, targets: Sequence[FlushTarget], wanted: Sequence[FlushTarget]) -> None:
        """`wanted` are those of the round's `targets` that are not synced yet."""
        self._scheduler.run_in_thread(lambda: self._sync(wanted), lambda error: self._on_synced(targets, error))

    def _sync_behind(self, targets: Sequence[FlushTarget]) -> None:
        """Under `os`: nobody waits for it, but a failure counts."""
        if not any(target.files or target.directories for target in targets):
            self._judge(targets, None)
        else:
            self._behind_count += 1
            self._scheduler.run_in_thread(
                lambda: self._sync(targets), lambda error: self._on_synced_behind(targets, error)
            )

    def _on_synced_behind(self, targets: Sequence[FlushTarget], error: Exception | None) -> None:
        self._behind_count -= 1
        unopened = _unopened(targets)
        self._judge([target for target in targets if target not in unopened], error)
        if unopened and not self.failed:
            self._behind_count += 1
            self._scheduler.call_later(_NO_DESCRIPTOR_PAUSE_MS, lambda: self._sync_behind_again(unopened))

    def _sync_behind_again(self, targets: Sequence[FlushTarget]) -> None:
        self._behind_count -= 1
        self._sync_behind(targets)

    def _sync(self, targets: Sequence[FlushTarget]) -> None:
        started_ms = self._clock.monotonic_ms() if self._clock is not None else 0
        self._run_all([target.sync for target in targets])
        if self._clock is not None:
            self._last_sync_ms = self._clock.monotonic_ms() - started_ms
        if self.journal is not None:
            self.journal.record([target for target in targets if target.error is None])

    def _on_synced(self, targets: Sequence[FlushTarget], error: Exception | None = None) -> None:
        unopened = _unopened(targets)
        has_failed = error is not None or sum(target.error is not None for target in targets) > len(unopened)
        self._is_in_flight = bool(unopened) and not has_failed
        if self._is_in_flight:
            self._scheduler.call_later(_NO_DESCRIPTOR_PAUSE_MS, lambda: self._sync_in_thread(targets, unopened))
            return
        self._complete(targets, error)
        if self._dirty and not self._is_scheduled:
            self._is_scheduled = True
            self._scheduler.call_soon(self._run_round)

    def _complete(self, targets: Sequence[FlushTarget], error: Exception | None = None) -> None:
        self._judge(targets, error)
        if not self.failed:
            _advance(targets)

    def _judge(self, targets: Sequence[FlushTarget], error: Exception | None) -> None:
        """Fail if any sync did; a deleted log's files may have gone under it, and nobody waits for them."""
        if error is not None:
            self.fail(OSError(str(error)))
        for target in targets:
            is_wanted = not target.log.is_deleted and not lacks_descriptor(target.error)
            if target.error is not None and is_wanted:
                self.fail(target.error)
            target.log.end_flush(target)


def _one_by_one(functions: Sequence[Callable[[], None]]) -> None:
    for function in functions:
        function()


def _unopened(targets: Sequence[FlushTarget]) -> list[FlushTarget]:
    """Those of which a file could not be opened; what is deleted meanwhile needs no sync."""
    return [target for target in targets if lacks_descriptor(target.error) and not target.log.is_deleted]


def _advance(targets: Sequence[FlushTarget]) -> None:
    for target in targets:
        target.log.advance_high_watermark(target.next_offset)
    for target in targets:
        target.log.tell_high_watermark()
