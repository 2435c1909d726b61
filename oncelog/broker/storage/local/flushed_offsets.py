"""For recovery: up to which offset the segments of each log are durable, and where it starts.

Owns: the file `flushed-offsets`, one entry per log and checkpoint, rewritten when it has grown. A rewritten file begins
with an entry that counts the others: truncation is detected, and stays recorded (`is_whole`) until every log was
recovered without it. The same entry names the life of the journal (`boot_mark.life_of`) that belongs to it, and the one
before, so that a file of another copy of the directory is known. Another entry says which frame of the journal
(`journal`) is the first that it does not cover.
Invariant: an entry is written after the sync that it records; it is durable before the journal forgets what it covers.

Logs are identified by topic id: a topic recreated under an old name inherits nothing.
"""

import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from struct import Struct
from uuid import UUID

from oncelog.broker.storage.disk_errors import is_transient
from oncelog.broker.storage.local.boot_mark import UNKNOWN
from oncelog.broker.storage.local.partition_directory import partition_of
from oncelog.broker.storage.sections import LogKey
from oncelog.broker.turns.ports import Disk, File
from oncelog.protocol.checksum import crc32c
from oncelog.protocol.topics import ZERO_UUID

NAME = "flushed-offsets"
_ENTRY = Struct(">16siqq")
_ENTRY_BYTES = _ENTRY.size + 4
_REWRITE_BYTES = 4 * 1024 * 1024


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
_JOURNAL = -2
JOURNAL_KEY: LogKey = (ZERO_UUID, _JOURNAL)
"""Its synced offset is the number of the first frame that is not covered; its other number holds the count and the
CRC-32C of the entries that were written together with it, and that it needs to be valid."""
_TORN = "ends in"


class FlushedOffsets:
    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._lock = threading.Lock()  # the sync thread records while the loop deletes and rewrites
        self._points: dict[LogKey, LogPoints] = {}
        self.life = UNKNOWN
        """The life of the journal that covers what these entries do not; unknown in a file of an earlier version."""
        self.left_life = UNKNOWN
        """The life of the journal that the run of `life` has found, which counts until that run begins its own."""
        self.is_sync_owed = False
        """The next round needs an entry that is written and not synced."""
        is_present = disk.exists(NAME)
        data = disk.read_bytes(NAME) if is_present else b""
        self.problem = self._load(data)
        """The fault of the file, as text; None if there is none."""
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
        entries, damaged_count, wanted_count, torn_from = 0, 0, 0, 0
        for at in range(0, len(data) - _ENTRY_BYTES + 1, _ENTRY_BYTES):
            content = data[at : at + _ENTRY.size]
            if crc32c(content) != int.from_bytes(data[at + _ENTRY.size : at + _ENTRY_BYTES], "big"):
                damaged_count += 1
                continue
            topic_id, partition, synced_offset, log_start_offset = _ENTRY.unpack(content)
            if topic_id == _HEADER_ID.bytes and partition == _JOURNAL:
                if not _has_all(data, at, log_start_offset):
                    continue
                # Everything up to here was synced together: only what follows may be torn.
                torn_from = damaged_count
                log_start_offset = 0
            elif topic_id == _HEADER_ID.bytes:
                wanted_count, self.life, self.left_life = partition, synced_offset, log_start_offset
                continue
            entries += 1
            self._points[UUID(bytes=topic_id), partition] = LogPoints(synced_offset, log_start_offset)
        self._points = {key: points for key, points in self._points.items() if points != _NOTHING}
        torn_count = damaged_count - torn_from if self.journal_number is not None else 0
        if damaged_count > torn_count:
            return f"is damaged: {damaged_count - torn_count} of its entries have a wrong checksum"
        if wanted_count == _NOT_WHOLE:
            return "was damaged or missing at an earlier start, and a partition has been offline since"
        if entries < wanted_count:
            return f"is too short: {wanted_count} entries were written, {entries} are left"
        torn_bytes = torn_count * _ENTRY_BYTES + len(data) % _ENTRY_BYTES
        return f"{_TORN} {torn_bytes} bytes of a torn write" if torn_bytes else None

    def image(self, ends: Mapping[LogKey, LogPoints]) -> bytes:
        """The file of a directory without a journal, in which these logs are durable."""
        with self._lock:
            points = {key: known for key, known in self._points.items() if key != JOURNAL_KEY}
            points.update({key: self._latest(key, end) for key, end in ends.items()})
            return self._encode_all(points)

    def get(self, topic_id: UUID, partition: int) -> LogPoints | None:
        return self._points.get((topic_id, partition))

    def record(self, entries: Iterable[tuple[LogKey, LogPoints]], *, journal_number: int | None = None) -> None:
        """These logs are synced up to there, and with them, once `sync` has returned, every frame of the journal before
        this number is covered. In any thread. Raises OSError."""
        written = []
        with self._lock:
            for key, points in entries:
                points = self._points[key] = self._latest(key, points)
                written.append(_encode(*key, points))
            if journal_number is not None:
                self._points[JOURNAL_KEY] = LogPoints(journal_number, 0)
                together = len(written) << 32 | crc32c(b"".join(written))
                written.append(_encode(*JOURNAL_KEY, LogPoints(journal_number, together)))
            if written:
                self._file.append(written)
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
        self.is_sync_owed = False  # first: another thread may write one meanwhile
        with self._lock:
            file = self._file
        file.sync()

    @property
    def journal_number(self) -> int | None:
        """The first frame of the journal that these entries do not cover; None: no journal is in use."""
        points = self._points.get(JOURNAL_KEY)
        return points.synced_offset if points is not None else None

    def record_all(self, entries: Iterable[tuple[LogKey, LogPoints]]) -> None:
        """Record all of these entries or none, durably, by a new file. In any thread. Raises OSError."""
        with self._lock:
            self._rewrite_with({key: self._latest(key, points) for key, points in entries})

    def begin_life(self, life: int, left_life: int, journal_number: int) -> None:
        """Record durably that the journal of this life counts once it has a frame, and that all frames of the journal
        that was left are covered, before this number. Raises OSError, and then nothing has changed."""
        before = self.life, self.left_life
        self.life, self.left_life = life, left_life
        try:
            self.record_all([(JOURNAL_KEY, LogPoints(journal_number, 0))])
        except OSError:
            self.life, self.left_life = before
            raise

    def disown(self, kept_as: str) -> None:
        """This file is of another copy of the directory: it is kept under this name, and counts as missing. Raises
        OSError."""
        self._file.close()
        self._disk.rename(NAME, kept_as)
        self._points = {}
        self.life = self.left_life = UNKNOWN
        self.is_whole = False
        self.problem = f"is of another copy of this directory, and kept as {kept_as}"
        self._write_new_file()
        self._file = self._disk.open(NAME)

    def _latest(self, key: LogKey, points: LogPoints) -> LogPoints:
        """No offset decreases: the loop, the sync thread and a checkpoint may each know more than the others."""
        known = self._points.get(key, _NOTHING)
        return LogPoints(
            max(known.synced_offset, points.synced_offset), max(known.log_start_offset, points.log_start_offset)
        )

    def prepare_removal(self, topic_id: UUID) -> None:
        """If a start finds the removal of this topic, it deletes all files of its partitions, synced or not; so this
        must be synced before the removal is."""
        self.note(topic_id, _ALL_PARTITIONS, _REMOVED)
        self.is_sync_owed = True

    def end_removal(self, topic_id: UUID) -> None:
        """The files are deleted: if an operator restores them, they stay. Raises OSError."""
        self.forget(topic_id, (_ALL_PARTITIONS,))

    def is_removed(self, topic_id: UUID) -> bool:
        """Whether a removal of this topic was begun here, and the files of its partitions must be deleted. A metadata
        log of another copy of the directory may say so too, of a topic that has records here."""
        return (topic_id, _ALL_PARTITIONS) in self._points

    def forget(self, topic_id: UUID, partitions: Iterable[int]) -> None:
        """These partitions are deleted: recovery need not expect their files. In any thread. Raises OSError unless it
        is for want of space or descriptors: the topic id is never reused, its entries are merely garbage then."""
        with self._lock:
            known = [partition for partition in partitions if self._points.pop((topic_id, partition), None) is not None]
            if known:
                try:
                    self._file.append([_encode(topic_id, partition, _NOTHING) for partition in known])
                except OSError as error:
                    if not is_transient(error):
                        raise

    def rewrite(self) -> None:
        """Write every log's latest entry, durably and at once. Raises OSError."""
        with self._lock:
            self._rewrite()

    def move_starts(self, starts: Mapping[LogKey, int]) -> None:
        """Make new log start offsets durable, by topic id and partition; none decreases. In any thread. Raises OSError
        and keeps the old ones."""
        with self._lock:
            self._rewrite_with({key: self._latest(key, LogPoints(0, start)) for key, start in starts.items()})

    def _rewrite_with(self, changed: Mapping[LogKey, LogPoints]) -> None:
        """If it fails, nothing has changed: another entry, written later, would make a part of these durable."""
        before = dict(self._points)
        self._points.update(changed)
        try:
            self._rewrite()
        except OSError:
            self._points = before
            raise

    def _rewrite(self) -> None:
        self._file.close()
        try:
            self._write_new_file()
        finally:
            self._file = self._disk.open(NAME)  # the new file may be in place although its directory is not synced

    def _write_new_file(self) -> None:
        self._points = {key: points for key, points in self._points.items() if points != _NOTHING}
        self._disk.write_atomically(NAME, self._encode_all(self._points))

    def _encode_all(self, points: Mapping[LogKey, LogPoints]) -> bytes:
        entries = [_encode(*key, known) for key, known in points.items() if known != _NOTHING]
        count = len(entries) if self.is_whole else _NOT_WHOLE
        return b"".join((_encode(_HEADER_ID, count, LogPoints(self.life, self.left_life)), *entries))

    def complete_recovery(self) -> None:
        """Every log was recovered, and none is offline: the journal is complete again. Raises OSError."""
        if not self.is_whole:
            self.is_whole = True
            self.rewrite()

    def close(self) -> None:
        self._file.close()


def _has_all(data: bytes, end: int, together: int) -> bool:
    """Whether the entries before `end` are those that were written with a journal's entry."""
    count, expected_crc = together >> 32, together & 0xFFFFFFFF
    return count == 0 or crc32c(data[max(0, end - count * _ENTRY_BYTES) : end]) == expected_crc


def _encode(topic_id: UUID, partition: int, points: LogPoints) -> bytes:
    data = _ENTRY.pack(topic_id.bytes, partition, points.synced_offset, points.log_start_offset)
    return data + crc32c(data).to_bytes(4, "big")
