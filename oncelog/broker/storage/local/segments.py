"""The segments of one partition, in offset order, and those of their files that await a sync.

Owns: finding the segment of an offset, the roll to a new one, the removal of the oldest, the list of dirty files.
Does not own: offsets of the log, when to roll or remove. Invariants
- Segments are contiguous: each begins where the one before it ends.
- Nothing is on disk before the first append; a failed roll can be retried.
"""

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from uuid import UUID

from oncelog.broker.log.leader_epochs import EpochStart
from oncelog.broker.storage.disk_errors import is_transient
from oncelog.broker.storage.local.checkpoints import LEADER_EPOCHS, encode_leader_epochs
from oncelog.broker.storage.local.deferred import Results
from oncelog.broker.storage.local.partition_directory import PARTITION_METADATA, encode_partition_metadata
from oncelog.broker.storage.local.segment import LOG_SUFFIX, Segment, file_name
from oncelog.broker.storage.local.segment_manifest import INDEX_SUFFIXES, append_entry, entry_of, sum_of
from oncelog.broker.storage.local.segment_summary import SegmentSummary
from oncelog.broker.storage.producer_snapshot import SUFFIXES as SNAPSHOT_SUFFIXES
from oncelog.broker.storage.producer_snapshot import ProducerSnapshot
from oncelog.broker.turns.ports import Disk, File, MonotonicMs, Syncable

_REBUILT_SUFFIXES = (*INDEX_SUFFIXES, *SNAPSHOT_SUFFIXES)
SEGMENT_SUFFIXES = (*_REBUILT_SUFFIXES, LOG_SUFFIX)


class Segments:
    __slots__ = (
        "_base_offsets",
        "_dirty_directories",
        "_dirty_files",
        "_epochs",
        "_list",
        "_topic_id",
        "_unsynced_snapshots",
        "awaits_checkpoint",
        "directory",
        "disk",
        "is_active_dirty",
        "on_occupied",
        "results",
        "summary",
    )

    def __init__(self, disk: Disk, directory: str, topic_id: UUID, segments: list[Segment]) -> None:
        self.disk = disk
        self.directory = directory
        self._topic_id = topic_id
        self._list = segments
        self.summary = SegmentSummary(segments)
        self._base_offsets = [segment.base_offset for segment in segments]
        self._dirty_files: list[Syncable] = []
        self._epochs: Sequence[EpochStart] = ()
        self._dirty_directories: list[str] = []
        self.is_active_dirty = False
        self.awaits_checkpoint = False
        """A segment is complete, or a leader epoch has begun: others read the files that say so."""
        self.results: Results | None = None
        self.on_occupied: Callable[[], None] | None = None
        """Called before the first segment of a log that had no directory when it was opened, if there is one now."""
        self._unsynced_snapshots: set[int] = set()

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._list)

    def __len__(self) -> int:
        return len(self._list)

    def __getitem__(self, slot: int) -> Segment:
        return self._list[slot]

    @property
    def active(self) -> Segment | None:
        return self._list[-1] if self._list else None

    def slot_of(self, offset: int) -> int:
        """Slot of the segment that holds `offset`; the first one for a lower offset. Not for an empty list."""
        if offset >= self._base_offsets[-1]:
            return len(self._list) - 1
        return max(0, bisect_right(self._base_offsets, offset) - 1)

    def may_lack(self, offset: int) -> bool:
        """Whether compaction may have removed the batch of `offset`."""
        return self._list[self.slot_of(offset)].has_gaps

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._list)

    def serve(self, results: Results) -> None:
        """Let the event loop read these and all new segments from now on: see `Segment.serve`."""
        self.results = results
        for segment in self._list:
            segment.serve(results)

    # -- growing

    def roll(
        self, base_offset: int, monotonic_ms: MonotonicMs, snapshot: ProducerSnapshot, *, is_kept: bool = True
    ) -> Segment:
        """Begin a new segment; the one before it, if `is_kept`, is completed with its indexes. Raises OSError, changing
        nothing."""
        dirty: list[Syncable] = []
        if self._list:
            self.awaits_checkpoint = True
            if is_kept:
                dirty += self._complete_active(base_offset, snapshot)
            else:
                dirty += write_snapshot(self.disk, self.directory, base_offset, snapshot)
            dirty.append(self._list[-1].file)
        else:
            is_there = self.disk.exists(self.directory)
            if is_there and self.on_occupied is not None:
                self.on_occupied()
                is_there = False
            self.on_occupied = None
            if not is_there:
                self.disk.make_dir(self.directory)
                self._dirty_directories.append("")
            # The topic id first: no file in here may be taken for another topic's.
            metadata = encode_partition_metadata(self._topic_id)
            epochs = encode_leader_epochs(self._epochs)
            for name, content in ((PARTITION_METADATA, metadata), (LEADER_EPOCHS, epochs)):
                dirty.append(write_file(self.disk, f"{self.directory}/{name}", content))
        segment = self._begin_segment(base_offset, monotonic_ms)
        self._dirty_files += dirty
        if self.directory not in self._dirty_directories:
            self._dirty_directories.append(self.directory)
        self._list.append(segment)
        self._base_offsets.append(base_offset)
        segment.results = self.results
        self.is_active_dirty = False
        return segment

    def _begin_segment(self, base_offset: int, monotonic_ms: MonotonicMs) -> Segment:
        """Create an empty segment. Raises OSError and leaves no file: the next append may fit into the active segment,
        and recovery would find a segment that begins in the middle of it."""
        try:
            segment = Segment(self.disk, self.directory, base_offset, monotonic_ms)
            if segment.file.size_bytes:  # left by a stop during a roll
                segment.file.truncate(0)
        except OSError:
            self.disk.delete(f"{self.directory}/{file_name(base_offset, LOG_SUFFIX)}")
            self._dirty_directories.append(self.directory)
            raise
        return segment

    def _complete_active(self, next_offset: int, snapshot: ProducerSnapshot) -> list[File]:
        active = self._list[-1]
        files, contents = active.write_indexes(self.disk)
        files += write_snapshot(self.disk, self.directory, next_offset, snapshot)
        entry = entry_of(active, contents, sum_of(snapshot.rows))
        return [*files, append_entry(self.disk, self.directory, entry)]

    def complete(self, next_offset: int, snapshot: ProducerSnapshot) -> None:
        """Write what a roll would, so that a start after a clean stop need not scan; synced by the next round."""
        if self._list:
            self._dirty_files += self._complete_active(next_offset, snapshot)
            self._dirty_directories.append(self.directory)

    def keep_epochs(self, epochs: Sequence[EpochStart]) -> None:
        """The content of `leader-epoch-checkpoint` after the next round."""
        self._epochs = epochs
        if self._list:  # otherwise the first roll writes it
            self.awaits_checkpoint = True
            self._dirty_files.append(_EpochsToWrite(self.disk, f"{self.directory}/{LEADER_EPOCHS}", epochs))

    def take_dirty(self, *, with_active: bool) -> tuple[list[Syncable], list[str]]:
        """The files and directories to sync now; from now on they count as clean."""
        files, self._dirty_files = self._dirty_files, []
        directories, self._dirty_directories = self._dirty_directories, []
        self.awaits_checkpoint = False
        if with_active and self.is_active_dirty:
            files.append(self._list[-1].file)
            self.is_active_dirty = False
        return files, directories

    def keep_dirty(self, files: Sequence[Syncable], directories: Sequence[str]) -> None:
        """Their sync has not succeeded: they are dirty again."""
        self._dirty_files += files
        self._dirty_directories += directories

    # -- shrinking

    def take_first(self) -> Segment:
        """Remove the oldest segment from the list; its files stay until `delete_files`. Those that await a sync get it:
        a checkpoint may record offsets beyond them first."""
        segment = self._list.pop(0)
        self.summary.on_first_gone()
        del self._base_offsets[0]
        return segment

    def replace(self, old: list[Segment], new: Segment) -> None:
        """Put `new` in place of the contiguous segments `old`; the caller handles their files."""
        slot = self._list.index(old[0])
        self._list[slot : slot + len(old)] = [new]
        if self.results is not None:
            new.serve(self.results)
        self.summary.forget()
        self._base_offsets[slot : slot + len(old)] = [new.base_offset]
        gone = {segment.path(suffix) for segment in old for suffix in SEGMENT_SUFFIXES}
        self._dirty_files = [file for file in self._dirty_files if file.path not in gone]

    @property
    def awaits_sync(self) -> bool:
        """Whether anything but the active segment does."""
        return bool(self._dirty_files or self._dirty_directories)

    @property
    def has_dirty_files(self) -> bool:
        """Whether files that a roll completed, the snapshot included, await their sync."""
        return bool(self._dirty_files)

    def mark_dirty(self, files: list[File]) -> None:
        """The next round syncs them."""
        self._dirty_files += files

    def note_unsynced_snapshot(self, offset: int) -> None:
        """A start found or wrote this snapshot: it need not be durable as long as the log before it exists."""
        self._unsynced_snapshots.add(offset)

    def secure_first_snapshot(self) -> bool:
        """The log before the first segment will be deleted: whether a round must make its snapshot durable first."""
        offset = self._base_offsets[0]
        if offset not in self._unsynced_snapshots:
            return False
        self._unsynced_snapshots.remove(offset)
        self._dirty_files += open_snapshot(self.disk, self.directory, offset)
        self._dirty_directories.append(self.directory)
        return True

    def delete_files(self, segment: Segment) -> None:
        """Delete a closed segment, its `.log` last: after a crash its indexes can be rebuilt. In any thread."""
        for suffix in SEGMENT_SUFFIXES:
            self.disk.delete(segment.path(suffix))

    def delete_indexes(self, segment: Segment) -> None:
        gone = {segment.path(suffix) for suffix in _REBUILT_SUFFIXES}
        self._dirty_files = [file for file in self._dirty_files if file.path not in gone]
        for path in sorted(gone):
            self.disk.delete(path)

    def close(self) -> None:
        """Give back the descriptors. What was not synced yet opens its own when it is."""
        for segment in self._list:
            segment.file.close()
        for file in self._dirty_files:
            file.close()


class _EpochsToWrite:
    """Leader epochs as a file to sync: written atomically by the sync, not in the turn of an append."""

    def __init__(self, disk: Disk, path: str, epochs: Sequence[EpochStart]) -> None:
        self.path = path
        self._disk = disk
        self._epochs = epochs
        self._lock = threading.Lock()  # a round and a checkpoint may have it in hand at once
        self._is_written = False

    def sync(self) -> None:
        with self._lock:
            if self._is_written:
                return
            try:
                self._disk.write_atomically(self.path, encode_leader_epochs(self._epochs))
            except OSError as error:
                if not is_transient(error):
                    raise
                # A start rebuilds missing epochs from the records.
            self._is_written = True

    def close(self) -> None:
        """Nothing stays open."""


def write_snapshot(disk: Disk, directory: str, offset: int, snapshot: ProducerSnapshot) -> list[File]:
    """The files of a snapshot, to be synced."""
    files = []
    for suffix, data in zip(SNAPSHOT_SUFFIXES, (snapshot.rows, snapshot.batches), strict=True):
        path = f"{directory}/{file_name(offset, suffix)}"
        if data:
            files.append(write_file(disk, path, data))
        elif disk.exists(path):
            disk.delete(path)
    return files


def open_snapshot(disk: Disk, directory: str, offset: int) -> list[File]:
    """The existing files of a snapshot."""
    paths = [f"{directory}/{file_name(offset, suffix)}" for suffix in SNAPSHOT_SUFFIXES]
    return [disk.open(path) for path in paths if disk.exists(path)]


def write_file(disk: Disk, path: str, data: bytes) -> File:
    """Create or replace a file with this content; returns it, to be synced."""
    file = disk.open(path)
    file.truncate(0)
    file.append([data])
    return file
