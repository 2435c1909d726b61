"""What a commit or a checkpoint syncs of each log.

Owns: the targets of one sync, and what has become of them. Does not own: when they are synced (`file_sync`), which
files of a log are dirty (`LocalLog`).
"""

from collections.abc import Iterator, Sequence
from typing import Protocol
from uuid import UUID

from oncelog.broker.storage.disk_errors import lacks_descriptor
from oncelog.broker.storage.local.flushed_offsets import LogPoints
from oncelog.broker.storage.sections import LogKey, Span
from oncelog.broker.turns.ports import Disk, Syncable


class SyncedLog(Protocol):
    """The files of a partition, as commits and checkpoints need them."""

    topic_id: UUID
    partition: int
    log_start_offset: int
    log_end_offset: int
    committed_offset: int
    is_closed: bool

    @property
    def awaits_checkpoint(self) -> bool:
        """It has files that should be synced soon, such as a completed segment."""

    def take_spans(self) -> list[Span] | None:
        """Return the spans appended since the last call; None if they are large: to be synced."""

    def demand_sync(self) -> None:
        """Let `take_spans` return None the next time."""

    def begin_sync(self) -> "SyncTarget":
        """Return the files that must be synced now."""

    def begin_sync_of_completed(self) -> "SyncTarget | None":
        """Return the files that must be synced and grow no more; None if there are none."""

    def keep_dirty(self, target: "SyncTarget") -> None:
        """Let the next sync repeat this one, which has not succeeded."""

    def end_sync(self, target: "SyncTarget") -> None:
        """The sync no longer uses any file of this log."""


class SyncTarget:
    """The files that one log must sync, and the offset up to which that syncs it."""

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
        """On the loop or in a thread; an error is stored for the loop to handle."""
        self.error = None
        try:
            for file in self.files:
                file.sync()
            for directory in self.directories:
                self.disk.sync_dir(directory)
        except OSError as error:
            self.error = error


def entries_of(targets: Sequence[SyncTarget]) -> Iterator[tuple[LogKey, LogPoints]]:
    for target in targets:
        log = target.log
        if target.error is None and target.synced_offset > 0 and not log.is_closed:
            yield (log.topic_id, log.partition), LogPoints(target.synced_offset, log.log_start_offset)


def failed_of(targets: Sequence[SyncTarget]) -> list[SyncTarget]:
    """A log deleted meanwhile needs no sync."""
    return [target for target in targets if target.error is not None and not target.log.is_closed]


def unopened_of(targets: Sequence[SyncTarget]) -> list[SyncTarget]:
    """Targets with a file that could not be opened."""
    return [target for target in failed_of(targets) if lacks_descriptor(target.error)]
