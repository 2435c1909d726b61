"""A journal for recovery: up to which offset each log was synced, and where it starts.

Owns: the file `flushed-offsets`, one entry per log and flush round, rewritten when it has grown. A rewritten journal
begins with an entry that counts the others: truncation is detected, and stays recorded (`is_whole`) until every log was
recovered without it.
Invariant: an entry is written after the sync that it records. The journal itself is synced in the background, about
once a second (`FileSync.sync_journal`), not in each round, which would double its time: after a kill it is exact, after
a power cut it may lag by a second, and damage to what was written in that second looks like a torn write.

Logs are identified by topic id: a topic recreated under an old name inherits nothing.
"""

import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from struct import Struct
from uuid import UUID

from oncelog.broker.ports import Disk, File
from oncelog.broker.storage.disk_errors import is_transient
from oncelog.broker.storage.local.file_sync import SyncTarget
from oncelog.broker.storage.local.partition_directory import partition_of
from oncelog.protocol.checksum import crc32c
from oncelog.protocol.topics import ZERO_UUID

NAME = "flushed-offsets"
_ENTRY = Struct(">16siqq")
_ENTRY_BYTES = _ENTRY.size + 4
_REWRITE_BYTES = 4 * 1024 * 1024

LogKey = tuple[UUID, int]


@dataclass(frozen=True, slots=True)
class LogPoints:
    synced_offset: int
    log_start_offset: int


_NOTHING = LogPoints(0, 0)
_ALL_PARTITIONS = -1
_REMOVED = LogPoints(1, 0)
"""The entry of every partition of a topic while it is deleted."""
_HEADER_ID = ZERO_UUID
_NOT_WHOLE = -1
"""The header's count while entries are known to be lost."""
_TORN = "ends in"


class FlushedOffsets:
    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._lock = threading.Lock()  # the sync thread records while the loop deletes and rewrites
        self._points: dict[LogKey, LogPoints] = {}
        self.is_unsynced = False
        is_present = disk.exists(NAME)
        data = disk.read_bytes(NAME) if is_present else b""
        self.problem = self._load(data)
        """What is wrong with the file, as text; None if nothing is."""
        if not data and any(map(partition_of, disk.list_dir(""))):
            self.problem = "is empty" if is_present else "is missing"
        # Whole: a log without an entry was never synced. Otherwise its entry may be lost.
        self.is_whole = self.problem is None or self.problem.startswith(_TORN)
        try:
            if len(data) != (len(self._points) + 1) * _ENTRY_BYTES or not self.is_whole:
                self._write_new_file()
            self._file: File = disk.open(NAME)
        except OSError as error:
            if not is_transient(error) or not data:
                raise
            self._file = disk.open(NAME)  # no space to rewrite it: append after the last whole entry
            self._file.truncate(len(data) - len(data) % _ENTRY_BYTES)

    def _load(self, data: bytes) -> str | None:
        entries, damaged_count, wanted_count = 0, 0, 0
        for at in range(0, len(data) - _ENTRY_BYTES + 1, _ENTRY_BYTES):
            content = data[at : at + _ENTRY.size]
            if crc32c(content) != int.from_bytes(data[at + _ENTRY.size : at + _ENTRY_BYTES], "big"):
                damaged_count += 1
                continue
            topic_id, partition, synced_offset, log_start_offset = _ENTRY.unpack(content)
            if topic_id == _HEADER_ID.bytes:
                wanted_count = partition
                continue
            entries += 1
            self._points[UUID(bytes=topic_id), partition] = LogPoints(synced_offset, log_start_offset)
        self._points = {key: points for key, points in self._points.items() if points != _NOTHING}
        if damaged_count:
            return f"is damaged: {damaged_count} of its entries have a wrong checksum"
        if wanted_count == _NOT_WHOLE:
            return "was damaged or missing at an earlier start, and a partition has been offline since"
        if entries < wanted_count:
            return f"is too short: {wanted_count} entries were written, {entries} are left"
        rest = len(data) % _ENTRY_BYTES
        return f"{_TORN} {rest} bytes of a torn write" if rest else None

    def get(self, topic_id: UUID, partition: int) -> LogPoints | None:
        return self._points.get((topic_id, partition))

    def record(self, targets: Sequence[SyncTarget]) -> None:
        """Write entries for the logs of a round whose syncs have succeeded; on the loop or in the sync thread.

        A full disk must not prevent acknowledging what is durable: without the entry, the journal merely lags.
        """
        entries = []
        for target in targets:
            log = target.log
            if target.synced_offset > 0 and not log.is_deleted:
                entries.append((log.topic_id, log.partition, LogPoints(target.synced_offset, log.log_start_offset)))
        if not entries:
            return
        with self._lock:
            for slot, (topic_id, partition, points) in enumerate(entries):
                known = self._points.get((topic_id, partition), points)
                if known.log_start_offset > points.log_start_offset:  # advanced meanwhile by the loop
                    points = LogPoints(points.synced_offset, known.log_start_offset)
                    entries[slot] = topic_id, partition, points
                self._points[topic_id, partition] = points
            with suppress(OSError):
                self._file.append([_encode(*entry) for entry in entries])
                self.is_unsynced = True
                if self._file.size_bytes > _REWRITE_BYTES:
                    self._rewrite()

    def note(self, topic_id: UUID, partition: int, points: LogPoints) -> None:
        """Record what recovery found and synced; like an entry of a round it may lag after a power cut."""
        if points in (self._points.get((topic_id, partition)), _NOTHING):
            return
        with self._lock:
            self._points[topic_id, partition] = points
            with suppress(OSError):
                self._file.append([_encode(topic_id, partition, points)])

    def sync(self) -> None:
        """Make every entry written so far durable; in any thread. Raises OSError."""
        with self._lock:
            file = self._file
            self.is_unsynced = False
        try:
            file.sync()
        except OSError:
            self.is_unsynced = True
            raise

    def set_points(self, topic_id: UUID, partition: int, points: LogPoints) -> None:
        """`rewrite` makes it durable."""
        with self._lock:
            self._points[topic_id, partition] = points

    def prepare_removal(self, topic_id: UUID) -> None:
        """If a start finds the removal of this topic, it deletes all files of its partitions, synced or not."""
        self.note(topic_id, _ALL_PARTITIONS, _REMOVED)

    def end_removal(self, topic_id: UUID) -> None:
        """The files are deleted: if an operator restores them, they stay."""
        self.forget(topic_id, (_ALL_PARTITIONS,))

    def is_removed(self, topic_id: UUID, partition: int) -> bool:
        """Whether the files of this partition of a removed topic must be deleted."""
        return (topic_id, partition) in self._points or (topic_id, _ALL_PARTITIONS) in self._points

    def forget(self, topic_id: UUID, partitions: Iterable[int]) -> None:
        """These partitions are deleted: recovery need not expect their files. In any thread."""
        with self._lock:
            known = [partition for partition in partitions if self._points.pop((topic_id, partition), None) is not None]
            if known:
                with suppress(OSError):  # the topic id is never reused, its entries are merely garbage
                    self._file.append([_encode(topic_id, partition, _NOTHING) for partition in known])

    def rewrite(self) -> None:
        """Write every log's latest entry, durably. Raises OSError."""
        with self._lock:
            self._rewrite()

    def move_starts(self, starts: Mapping[LogKey, int]) -> None:
        """Make new log start offsets durable, by topic id and partition; none decreases. In any thread. Raises OSError
        and keeps the old ones."""
        with self._lock:
            before = {key: self._points.get(key, _NOTHING) for key in starts}
            for key, log_start_offset in starts.items():
                known = before[key]
                self._points[key] = LogPoints(known.synced_offset, max(known.log_start_offset, log_start_offset))
            try:
                self._rewrite()
            except OSError:
                self._points.update(before)
                raise

    def _rewrite(self) -> None:
        self._file.close()
        try:
            self._write_new_file()
        finally:
            self._file = self._disk.open(NAME)  # the new file may be in place although its directory is not synced

    def _write_new_file(self) -> None:
        self._points = {key: points for key, points in self._points.items() if points != _NOTHING}
        entries = [_encode(topic_id, partition, points) for (topic_id, partition), points in self._points.items()]
        count = len(entries) if self.is_whole else _NOT_WHOLE
        self._disk.write_atomically(NAME, b"".join((_encode(_HEADER_ID, count, _NOTHING), *entries)))
        self.is_unsynced = False

    def complete_recovery(self) -> None:
        """Every log was recovered, and none is offline: the journal is complete again. Raises OSError."""
        if not self.is_whole:
            self.is_whole = True
            self.rewrite()

    def close(self) -> None:
        self._file.close()


def _encode(topic_id: UUID, partition: int, points: LogPoints) -> bytes:
    data = _ENTRY.pack(topic_id.bytes, partition, points.synced_offset, points.log_start_offset)
    return data + crc32c(data).to_bytes(4, "big")
