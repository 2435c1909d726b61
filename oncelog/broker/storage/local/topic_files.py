"""The life of the files of topics, as the store's TopicStorage.

Owns: the order of a removal, and that each step runs where it may block. Does not own: names and owners of directories
(`data_directory`), what recovery expects of a removed topic (`flushed_offsets`).
Invariant: files are deleted only once `flushed-offsets` says that recovery must not expect them.
"""

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from functools import partial
from uuid import UUID

from oncelog.broker.log.store import PartitionKey
from oncelog.broker.storage.local.data_directory import DataDirectory
from oncelog.broker.storage.local.file_sync import FileSync
from oncelog.broker.storage.local.flushed_offsets import FlushedOffsets
from oncelog.broker.storage.local.partition_directory import directory_of
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.slices import Sliced

_DELETED_AT_ONCE = 4
"""Measured: a directory is renamed in 50 µs, deleted in 0.1 to 5 ms; a flush round may have to wait for this many."""

Report = Callable[[str, int, Sequence[str]], None]
"""Gets a topic, a partition, and lines of interest to an operator."""


class TopicFiles:
    def __init__(
        self,
        directory: DataDirectory,
        flushed: FlushedOffsets,
        file_sync: FileSync,
        report: Report,
        forget: Callable[[str, Sequence[int]], None],
    ) -> None:
        """`forget(topic, partitions)` is called when these are withdrawn."""
        self.directory = directory
        self.flushed = flushed
        self.file_sync = file_sync
        self.report = report
        self.forget = forget

    def partitions(self) -> Collection[PartitionKey]:
        return self.directory.partitions()

    def make_way(self, topic: str, partitions: range) -> None:
        for partition, line in self.directory.make_way(topic, partitions):
            self.report(topic, partition, [line])

    def begin_removal(self, topic: str, topic_id: UUID) -> "FileRemoval":
        self.flushed.prepare_removal(topic_id)
        return FileRemoval(self, topic, topic_id)

    def finish_removals(self, removed: Mapping[UUID, str], live: Container[UUID]) -> list[str]:
        return self.directory.finish_removals(removed, live)

    def unknown_entries(self, known: Container[PartitionKey]) -> list[str]:
        return self.directory.unknown_entries(known)


class FileRemoval:
    """The store's Removal of one topic."""

    def __init__(self, files: TopicFiles, topic: str, topic_id: UUID) -> None:
        self._files = files
        self._topic = topic
        self._topic_id = topic_id
        self._withdrawn: list[int] = []
        """The partitions whose files still use disk space."""
        self._is_complete = True
        """No step has failed so far."""

    def withdraw(self, partitions: Sequence[int]) -> Sliced[None]:
        self._files.forget(self._topic, partitions)
        self._withdrawn += yield from self._between_rounds(self._files.directory.withdraw, partitions)

    def delete(self) -> Sliced[bool]:
        for start in range(0, len(self._withdrawn), _DELETED_AT_ONCE):
            some = self._withdrawn[start : start + _DELETED_AT_ONCE]
            yield from self._between_rounds(self._files.directory.delete, some)
        if self._is_complete:
            try:
                self._files.flushed.end_removal(self._topic_id)
            except OSError as error:
                self._files.file_sync.failure.fail(error)
        return self._is_complete

    def _between_rounds(
        self, function: Callable[[str, UUID, Sequence[int]], dict[int, OSError | None]], partitions: Sequence[int]
    ) -> Sliced[list[int]]:
        """In the sync thread, after a flush round that may still use the files, and off the loop, which must not block
        on the disk. Returns the partitions that existed and for which it succeeded."""
        topic, topic_id = self._topic, self._topic_id
        outcome: dict[int, OSError | None] = {}
        done: Completion[None] = Completion()
        self._files.file_sync.run_between_rounds(
            lambda: outcome.update(function(topic, topic_id, partitions)), partial(_end, done)
        )
        yield done
        done.result()
        for partition, problem in outcome.items():
            if problem is not None:
                self._is_complete = False
                line = f"{directory_of(topic, partition)} cannot be deleted: {problem}; the next start retries"
                self._files.report(topic, partition, [line])
        return [partition for partition, problem in outcome.items() if problem is None]


def _end(done: Completion[None], error: Exception | None) -> None:
    done.complete(None) if error is None else done.fail(error)
