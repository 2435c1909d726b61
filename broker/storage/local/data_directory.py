"""The entries of a data directory: partitions of ours, what removals have left of them, and what is somebody else's.

Owns: which entry is renamed or deleted, and when. Does not own: the form of names and of `partition.metadata`
(`partition_directory`), the records.
Invariants
- Nothing is written into a directory that is neither empty nor ours (`check_data_directory`).
- A directory is served only as the topic that its `partition.metadata` names.
- Deleted is only what has exactly our name, and was a partition of a topic whose removal is durable. Renamed is only
  what stands where a partition must go that has never held anything. All else stays as it is.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from uuid import UUID

from oncelog.broker.ports import Clock, Disk
from oncelog.broker.storage.disk_errors import is_transient
from oncelog.broker.storage.local.checkpoints import CLEAN_SHUTDOWN, CLEANER_OFFSET, LOG_START, RECOVERY_POINT
from oncelog.broker.storage.local.flush_journal import NAME as JOURNAL
from oncelog.broker.storage.local.flush_journal import FlushedOffsets
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
from oncelog.broker.storage.local.segments import write_anew
from oncelog.protocol.printable import printable

_KAFKAS_MARK = "meta.properties"
_OWN_FILES = frozenset({JOURNAL, RECOVERY_POINT, LOG_START, CLEANER_OFFSET, CLEAN_SHUTDOWN})
_TEMPORARY_SUFFIX = ".tmp"
_NAMES_SHOWN = 5
_FLIPPED_BITS = 8
"""An id that differs in no more than a byte is the same one, damaged: of 122 random bits two ids share about half."""


class ForeignDirectoryError(Exception):
    """Not a data directory of ours; the message says what is there and what to do."""


def check_data_directory(disk: Disk, metadata_directory: str) -> None:
    """Raises ForeignDirectoryError unless there is nothing yet, or our journal or metadata log; OSError."""
    names = disk.list_dir("")
    if _KAFKAS_MARK in names:
        raise ForeignDirectoryError(
            f"it belongs to Apache Kafka (it has {_KAFKAS_MARK}); it takes a directory of its own (--data-dir)"
        )
    foreign = [name for name in names if _is_foreign(name)]
    if foreign and JOURNAL not in names and metadata_directory not in names:
        raise ForeignDirectoryError(
            f"it is neither empty nor a data directory of oncelog: it holds {shown(foreign)}; "
            "it takes an empty or a new one (--data-dir)"
        )


def _is_foreign(name: str) -> bool:
    """Neither a file of ours nor what a fresh volume holds: `lost+found`, dot files."""
    is_own = name.removesuffix(_TEMPORARY_SUFFIX) in _OWN_FILES
    return not is_own and not name.startswith(".") and name != "lost+found"


def shown(names: list[str]) -> str:
    """A few of these names: anybody may have chosen them."""
    more = len(names) - _NAMES_SHOWN
    return ", ".join(f"'{printable(name)}'" for name in names[:_NAMES_SHOWN]) + (
        f" and {more} more" if more > 0 else ""
    )


class DataDirectory:
    def __init__(self, disk: Disk, clock: Clock, journal: FlushedOffsets) -> None:
        """Looks once at what is there: what comes later is ours, or is noticed when it stands in the way."""
        self._disk = disk
        self._clock = clock
        self._journal = journal
        self._present = frozenset(disk.list_dir(""))
        self._topic_ids: tuple[Container[UUID], ...] = ()
        self.is_of_earlier_version = not any(
            disk.exists(f"{name}/{PARTITION_METADATA}") for name in sorted(self._present) if partition_of(name)
        )
        """Before `partition.metadata` was written: directories are then taken for what their names say."""

    def partitions(self) -> list[tuple[str, int]]:
        """(topic, partition) of everything that has the name of a partition, whoever made it."""
        return [place for place in map(partition_of, self._disk.list_dir("")) if place is not None]

    def was_found(self, topic: str, partition: int, topic_id: UUID) -> bool:
        """Whether the directory of a partition was there at the start, or the memory of it is."""
        return directory_of(topic, partition) in self._present or self._journal.get(topic_id, partition) is not None

    def unknown_entries(self, known: Container[tuple[str, int]]) -> list[str]:
        """What is neither a partition of `known` nor a file of ours."""
        return [name for name in self._disk.list_dir("") if _is_foreign(name) and partition_of(name) not in known]

    # -- removals

    def withdraw(self, topic: str, topic_id: UUID, partitions: Sequence[int]) -> dict[int, OSError | None]:
        """Take the directories of partitions from their names, those that are of this topic, to be deleted under other
        names: a crash in the middle must not leave half a partition under its own. None, or why it cannot be, for each
        that is there. In any thread."""
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
        except OSError as error:
            return dict.fromkeys(withdrawn, error)
        self._journal.forget(topic_id, [partition for partition in partitions if withdrawn.get(partition) is None])
        return withdrawn

    def delete(self, topic: str, topic_id: UUID, partitions: Sequence[int]) -> dict[int, OSError | None]:
        """Delete what was withdrawn; None, or why it cannot be, for each. In any thread."""
        deleted: dict[int, OSError | None] = {}
        for partition in partitions:
            try:
                self._disk.delete_tree(deleted_name(topic, partition, topic_id))
                deleted[partition] = None
            except OSError as error:
                deleted[partition] = error
        return deleted

    def finish_removals(self, removed: Mapping[UUID, str], live: Container[UUID]) -> list[str]:
        """Delete what a stop has left of removed topics (id and name); a line for each. Before any log is opened."""
        self._topic_ids = (removed, live)
        lines = []
        for name in sorted(self._present):
            try:
                doomed = self._unfinished(name, removed, live)
                if doomed is not None:
                    topic_id, partition, doomed_name = doomed
                    if name != doomed_name:
                        self._disk.rename(name, doomed_name)
                        self._disk.sync_dir("")
                    self._disk.delete_tree(doomed_name)
                    self._journal.forget(topic_id, [partition])
                    lines.append(f"{name} is deleted: the stop had come between the removal of its topic and this")
            except OSError as error:
                lines.append(f"{name} is left of a removed topic and cannot be deleted: {error}")
        for topic_id in removed:
            self._journal.end_removal(topic_id)
        return lines

    def _unfinished(
        self, name: str, removed: Mapping[UUID, str], live: Container[UUID]
    ) -> tuple[UUID, int, str] | None:
        """Topic id, partition and the name to delete a directory under, if its deletion has begun or is still due."""
        begun = deleted_partition(name)
        if begun is not None:
            topic_id, partition = begun
            is_ours = topic_id in removed or (topic_id not in live and read_topic_id(self._disk, name) == topic_id)
            return (topic_id, partition, name) if is_ours else None
        topic, partition = partition_of(name) or ("", 0)
        for topic_id in [known for known, known_name in removed.items() if known_name == topic]:
            # The journal forgets a partition when it is deleted: what somebody has put back since then stays.
            if self._journal.is_removed(topic_id, partition) and read_topic_id(self._disk, name) == topic_id:
                return topic_id, partition, deleted_name(topic, partition, topic_id)
        return None

    # -- whose a directory is

    def claim(self, topic: str, partition: int, topic_id: UUID, lines: list[str]) -> str | None:
        """Make sure that the directory of a partition, if there is one, is its own. `lines` gets what was done; why it
        must not be served, or None. Raises OSError."""
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
        whose = f"a partition of the topic with id {found}" if found is not None else "no partition of this broker"
        is_proved = found is None or any(found in known for known in self._topic_ids)
        if is_proved and self._journal.is_whole and self._journal.get(topic_id, partition) is None:
            lines.append(self._set_aside(topic, partition, f"it is {whose}"))
            return None
        return f"the directory is {whose}, {topic} has id {topic_id}: put its own directory back, or take this one away"

    def _adopt(self, directory: str, topic_id: UUID, lines: list[str]) -> None:
        """Its `partition.metadata` is missing, or says nothing: an earlier version made it, a stop, or damage."""
        path = f"{directory}/{PARTITION_METADATA}"
        if not self.is_of_earlier_version:
            problem = "not what was written" if self._disk.exists(path) else "missing"
            lines.append(f"{path} is {problem}, it is written anew")
        try:
            write_anew(self._disk, path, encode_partition_metadata(topic_id)).close()
        except OSError as error:
            if not is_transient(error):
                raise  # otherwise there is no room, and the next start tries again

    def make_way(self, topic: str, partitions: range) -> Iterator[tuple[int, str]]:
        """Set aside what has stood since the start where new partitions will go, so that nothing takes it for its own;
        the partition and a line of each. Raises OSError."""
        present = self._present
        standing = [partition for partition in partitions if f"{topic}-{partition}" in present]
        for partition in standing:
            if self._disk.exists(directory_of(topic, partition)):
                yield partition, self._set_aside(topic, partition, "it was there before the topic")

    def _set_aside(self, topic: str, partition: int, why: str) -> str:
        directory = directory_of(topic, partition)
        number: int = self._clock.wall_ms()
        while self._disk.exists(stray_name(topic, partition, number)):
            number += 1
        stray = stray_name(topic, partition, number)
        self._disk.rename(directory, stray)
        self._disk.sync_dir("")
        return f"{directory} is set aside as {stray}: {why}"
