"""The entries of a data directory: our partitions, what removals have left of them, and foreign entries.

Owns: which entry is renamed or deleted, and when. Does not own: the format of names and of `partition.metadata`
(`partition_directory`), the records.
Invariants
- Nothing is written into a directory that is neither empty nor ours (`check_data_directory`).
- A directory is served only as the topic that its `partition.metadata` names.
- An entry is deleted only if it has exactly our name and was a partition of a topic whose removal is durable. It is
  renamed only if it has the name of a partition that never held a record. All other entries stay as they are.
"""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from uuid import UUID

from oncelog.broker.log.store import LOGIN_SECRET
from oncelog.broker.storage.disk_errors import is_transient
from oncelog.broker.storage.local.boot_mark import NAME as BOOT_MARK
from oncelog.broker.storage.local.checkpoints import CLEAN_SHUTDOWN, CLEANER_OFFSET, LOG_START, RECOVERY_POINT
from oncelog.broker.storage.local.flushed_offsets import NAME as FLUSHED_OFFSETS
from oncelog.broker.storage.local.flushed_offsets import FlushedOffsets
from oncelog.broker.storage.local.journal import NAMES as JOURNALS
from oncelog.broker.storage.local.partition_directory import (
    PARTITION_METADATA,
    deleted_name,
    deleted_partition,
    directory_of,
    encode_partition_metadata,
    partition_of,
    read_topic_id,
    stray_name,
)
from oncelog.broker.storage.local.segments import write_file
from oncelog.broker.turns.ports import Clock, Disk
from oncelog.protocol.printable import printable, printable_names

KAFKAS_MARK = "meta.properties"
KAFKAS_MARK_TO_BE = "meta.properties.graduating"
"""`oncelog graduate --in-place` has begun to move our own files out of Apache Kafka's way."""
GRADUATED = "graduated"
"""`oncelog graduate --out` has written the data to another directory, which this file names."""
ADOPTED = "adopted"
"""`oncelog adopt` has made this directory, of those that the file names, and no broker has written to it yet."""
RESTORING = "restoring"
"""`oncelog restore` has begun to fill this directory."""
RESTORED = "restored"
"""`oncelog restore` has filled it, and no start has raised what was given out since the backup."""
BACKUP_SUMS = "SHA256SUMS"
"""`oncelog backup` has made this directory, and the file has the checksums of all others."""
_OWN_FILES = frozenset(
    {
        FLUSHED_OFFSETS,
        *JOURNALS,
        RECOVERY_POINT,
        LOG_START,
        CLEANER_OFFSET,
        CLEAN_SHUTDOWN,
        GRADUATED,
        ADOPTED,
        RESTORING,
        RESTORED,
        BACKUP_SUMS,
        LOGIN_SECRET,
        BOOT_MARK,
    }
)
IMAGE_WANTED = ".backup-wanted"
"""`oncelog backup` wants an image of a directory that is served (`image`), and finds it here:"""
IMAGE = ".backup"
IMAGE_LIST = f"{IMAGE}/list.json"
"""The size of each of its files; or, as `IMAGE_ERROR`, why there is none."""
IMAGE_ERROR = "error"
_TEMPORARY_SUFFIX = ".tmp"
_FLIPPED_BITS = 8
"""An id that differs in at most one byte is the same id, damaged: two random ids share half of their 122 bits."""


class ForeignDirectoryError(Exception):
    """Not a data directory of ours; the message says what it holds and what to do."""


def check_data_directory(disk: Disk, metadata_directory: str) -> None:
    """Raises ForeignDirectoryError unless it is empty or has our files or metadata log; OSError."""
    names = disk.list_dir("")
    if KAFKAS_MARK in names:
        raise ForeignDirectoryError(
            f"it belongs to Apache Kafka (it has {KAFKAS_MARK}); use a directory of its own (--data-dir)"
        )
    if KAFKAS_MARK_TO_BE in names:
        raise ForeignDirectoryError(
            "it is half-way to a directory of Apache Kafka; repeat `oncelog graduate --in-place`, which completes it"
        )
    if GRADUATED in names:
        kafka_dir = printable(disk.read_bytes(GRADUATED).decode(errors="replace").strip())
        raise ForeignDirectoryError(
            f"its data has moved to Apache Kafka, to {kafka_dir}; to serve what was here before, and give up what "
            f"Kafka has taken since, delete the file {GRADUATED}"
        )
    if RESTORING in names:
        raise ForeignDirectoryError("`oncelog restore` has not filled it to the end; repeat that, and it begins anew")
    foreign = [name for name in names if _is_foreign(name)]
    if foreign and FLUSHED_OFFSETS not in names and metadata_directory not in names:
        raise ForeignDirectoryError(
            f"it is neither empty nor a data directory of oncelog: it holds {printable_names(foreign)}; "
            "use an empty or a new one (--data-dir)"
        )


def _is_foreign(name: str) -> bool:
    """Neither our file nor part of a fresh volume: `lost+found`, dot files."""
    is_own = name.removesuffix(_TEMPORARY_SUFFIX) in _OWN_FILES
    return not is_own and not name.startswith(".") and name != "lost+found"


class DataDirectory:
    def __init__(
        self, disk: Disk, clock: Clock, flushed: FlushedOffsets, had_records: Callable[[UUID, int], bool]
    ) -> None:
        """Lists the directory once: later entries are ours, or are noticed when their name is needed. `had_records`:
        whether a partition is known to have had any."""
        self._disk = disk
        self._clock = clock
        self._flushed = flushed
        self._had_records = had_records
        self._present = frozenset(disk.list_dir(""))
        self._topic_ids: tuple[Container[UUID], ...] = ()
        self.is_of_earlier_version = not any(
            disk.exists(f"{name}/{PARTITION_METADATA}") for name in sorted(self._present) if partition_of(name)
        )
        """Made by a version without `partition.metadata`: directories are identified by their names."""

    def partitions(self) -> list[tuple[str, int]]:
        """(topic, partition) of every entry with the name of a partition, ours or not."""
        return [place for place in map(partition_of, self._disk.list_dir("")) if place is not None]

    def was_found(self, topic: str, partition: int, topic_id: UUID) -> bool:
        """Whether the directory of a partition existed at the start, or its records did."""
        return directory_of(topic, partition) in self._present or self._had_records(topic_id, partition)

    def unknown_entries(self, known: Container[tuple[str, int]]) -> list[str]:
        """Entries that are neither a partition of `known` nor our file."""
        return [name for name in self._disk.list_dir("") if _is_foreign(name) and partition_of(name) not in known]

    # -- removals

    def withdraw(self, topic: str, topic_id: UUID, partitions: Sequence[int]) -> dict[int, OSError | None]:
        """Rename the directories of partitions of this topic, to be deleted under the new names: a crash must not leave
        half a partition under its own name. Returns None or the error for each that exists. In any thread."""
        withdrawn: dict[int, OSError | None] = {}
        for partition in partitions:
            directory = directory_of(topic, partition)
            try:
                if read_topic_id(self._disk, directory) == topic_id:
                    self._disk.rename(directory, deleted_name(topic, partition, topic_id))
                    withdrawn[partition] = None
            except OSError as error:
                withdrawn[partition] = error
        try:
            if withdrawn:
                self._disk.sync_dir("")
            self._flushed.forget(topic_id, [partition for partition in partitions if withdrawn.get(partition) is None])
        except OSError as error:
            return dict.fromkeys(withdrawn or partitions, error)
        return withdrawn

    def delete(self, topic: str, topic_id: UUID, partitions: Sequence[int]) -> dict[int, OSError | None]:
        """Delete what was withdrawn; returns None or the error for each. In any thread."""
        deleted: dict[int, OSError | None] = {}
        for partition in partitions:
            try:
                self._disk.delete_tree(deleted_name(topic, partition, topic_id))
                deleted[partition] = None
            except OSError as error:
                deleted[partition] = error
        return deleted

    def finish_removals(self, removed: Mapping[UUID, str], live: Container[UUID]) -> list[str]:
        """Delete what is left of removed topics (id and name), before any log is opened; returns a line for each."""
        self._topic_ids = (removed, live)
        lines = []
        left: set[str] = set()
        for name in sorted(self._present):
            try:
                unfinished = self._unfinished(name, removed, live)
                if unfinished is not None:
                    topic_id, partition, new_name = unfinished
                    if name != new_name:
                        self._disk.rename(name, new_name)
                        self._disk.sync_dir("")
                    self._disk.delete_tree(new_name)
                    self._flushed.forget(topic_id, [partition])
                    lines.append(f"{name} is deleted: the broker had stopped between the removal of its topic and this")
            except OSError as error:
                lines.append(f"{name} is left of a removed topic and cannot be deleted: {error}")
                left.add((partition_of(name) or ("", 0))[0])
        for topic_id, topic in removed.items():
            if topic in left:
                continue  # its directory would be taken for one that was restored
            try:
                self._flushed.end_removal(topic_id)
            except OSError as error:
                lines.append(f"the removal of {topic} cannot be noted as complete: {error}; the next start retries")
        return lines

    def _unfinished(
        self, name: str, removed: Mapping[UUID, str], live: Container[UUID]
    ) -> tuple[UUID, int, str] | None:
        """Topic id, partition and the name under which to delete a directory, if its deletion has begun or is due."""
        begun = deleted_partition(name)
        if begun is not None:
            topic_id, partition = begun
            is_ours = topic_id in removed or (topic_id not in live and read_topic_id(self._disk, name) == topic_id)
            return (topic_id, partition, name) if is_ours else None
        topic, partition = partition_of(name) or ("", 0)
        for topic_id in [known for known, known_name in removed.items() if known_name == topic]:
            # `flushed-offsets` forgets the removal when it is over: a directory restored since then stays.
            if self._flushed.is_removed(topic_id) and read_topic_id(self._disk, name) == topic_id:
                return topic_id, partition, deleted_name(topic, partition, topic_id)
        return None

    # -- the owner of a directory

    def claim(self, topic: str, partition: int, topic_id: UUID, lines: list[str]) -> str | None:
        """Check that the directory of a partition, if it exists, is its own. Appends what was done to `lines`; returns
        why it must not be served, or None. Raises OSError."""
        directory = directory_of(topic, partition)
        if not self._disk.exists(directory):
            return None
        found = read_topic_id(self._disk, directory)
        if found == topic_id:
            return None
        if found is not None and (found.int ^ topic_id.int).bit_count() <= _FLIPPED_BITS:
            found = None
        if found is None and (directory in self._present or not self._disk.list_dir(directory)):
            self._adopt(directory, topic_id, lines)
            return None
        whose = f"a partition of the topic with id {found}" if found is not None else "not a partition of this broker"
        is_proved = found is None or any(found in known for known in self._topic_ids)
        if is_proved and self._flushed.is_whole and not self._had_records(topic_id, partition):
            lines.append(self.set_aside(topic, partition, f"it is {whose}"))
            return None
        return f"the directory is {whose}, {topic} has id {topic_id}: restore its own directory, or remove this one"

    def _adopt(self, directory: str, topic_id: UUID, lines: list[str]) -> None:
        """Its `partition.metadata` is missing or unreadable: because of an earlier version, a stop, or damage."""
        path = f"{directory}/{PARTITION_METADATA}"
        if not self.is_of_earlier_version:
            problem = "damaged" if self._disk.exists(path) else "missing"
            lines.append(f"{path} is {problem}, it is rewritten")
        try:
            write_file(self._disk, path, encode_partition_metadata(topic_id)).close()
        except OSError as error:
            if not is_transient(error):
                raise  # otherwise the disk is full, and the next start retries

    def make_way(self, topic: str, partitions: range) -> Iterator[tuple[int, str]]:
        """Rename directories found at the start that have the names of new partitions, so that these do not adopt them;
        yields the partition and a line for each. Raises OSError."""
        present = self._present
        standing = [partition for partition in partitions if f"{topic}-{partition}" in present]
        for partition in standing:
            if self._disk.exists(directory_of(topic, partition)):
                yield partition, self.set_aside(topic, partition, "it existed before the topic")

    def set_aside(self, topic: str, partition: int, why: str) -> str:
        """Rename the directory in the place of a partition; returns a line about it. Raises OSError."""
        directory = directory_of(topic, partition)
        number: int = self._clock.wall_ms()
        while self._disk.exists(stray_name(topic, partition, number)):
            number += 1
        stray = stray_name(topic, partition, number)
        self._disk.rename(directory, stray)
        self._disk.sync_dir("")
        return f"{directory} is renamed to {stray}: {why}"
