"""Topics in tables, and the small values beside their logs.

Owns: what a start has found that no log was opened for. A topic's id is the name of what it stores, so nothing is ever
in the way of another topic of the same name.
"""

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from errno import ENOENT
from uuid import UUID

from oncelog.broker.log.store import PartitionKey
from oncelog.broker.storage.sections import LogKey
from oncelog.broker.storage.shared.beside import Beside
from oncelog.broker.storage.shared.log import SharedLog
from oncelog.broker.storage.shared.opening import Found
from oncelog.broker.storage.shared.statements import Statements
from oncelog.broker.storage.shared.tables import ChunkRow, WriteBlob
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Buffer
from oncelog.broker.turns.slices import Sliced

Delete = Callable[[Mapping[LogKey, Iterable[ChunkRow]]], Completion[None]]
"""Delete these logs with their chunks."""


class SharedTopics:
    def __init__(self, found: Found, logs: dict[PartitionKey, SharedLog], delete: Delete) -> None:
        """Topics over what was `found`; `logs` are those that were opened."""
        self._found = found
        self._logs = logs
        self._delete = delete

    def partitions(self) -> Collection[PartitionKey]:
        """Return all partitions that were found or opened. A log without a row in the catalogue has no name there: its
        topic's id stands for it."""
        named = [
            (str(topic_id) if found.row is None else found.row.topic, partition)
            for (topic_id, partition), found in self._found.logs.items()
        ]
        return {*named, *self._logs}

    def make_way(self, topic: str, partitions: range) -> None:
        """Does nothing, as logs are named by topic ids."""

    def begin_removal(self, topic: str, topic_id: UUID) -> "SharedRemoval":
        return SharedRemoval(topic, self._logs, self._delete)

    def finish_removals(self, removed: Mapping[UUID, str], live: Container[UUID]) -> list[str]:
        """Delete the logs of removed topics in the background: they are invisible, and may have thousands of chunks."""
        left = [key for key in self._found.logs if key[0] in removed and key[0] not in live]
        self._delete({key: self._found.logs.pop(key).chunks for key in left})
        topics = sorted({removed[topic_id] for topic_id, _ in left})
        return [f"what is left of the topic {topic} is being deleted" for topic in topics]

    def unknown_entries(self, known: Container[PartitionKey]) -> list[str]:
        return [f"{topic}-{partition}" for topic, partition in self.partitions() if (topic, partition) not in known]


class SharedRemoval:
    def __init__(self, topic: str, logs: dict[PartitionKey, SharedLog], delete: Delete) -> None:
        self._topic = topic
        self._logs = logs
        self._delete = delete
        self._withdrawn: list[SharedLog] = []

    def withdraw(self, partitions: Sequence[int]) -> Sliced[None]:
        for partition in partitions:
            log = self._logs.pop((self._topic, partition), None)
            if log is not None:
                self._withdrawn.append(log)
            yield 0

    def delete(self) -> Sliced[bool]:
        deleted = self._delete({log.key: log.rows() for log in self._withdrawn})
        yield deleted
        return deleted.error is None


class SharedBlobs:
    def __init__(self, found: Found, statements: Statements, beside: Beside) -> None:
        self._epoch = found.epoch
        self._blobs = found.blobs
        self._statements = statements
        self._beside = beside

    def exists(self, path: str) -> bool:
        return path in self._blobs

    def list_dir(self, path: str) -> list[str]:
        return sorted(name.removeprefix(f"{path}/") for name in self._blobs if name.startswith(f"{path}/"))

    def read_bytes(self, path: str) -> bytes:
        try:
            return self._blobs[path]
        except KeyError:
            raise FileNotFoundError(ENOENT, "there is none", path) from None

    def write_atomically(self, path: str, data: Buffer) -> None:
        value = bytes(data)
        self._statements.write_now(WriteBlob(self._epoch, path, value))
        self._blobs = {**self._blobs, path: value}  # this may be another thread

    def delete(self, path: str) -> None:
        """Delete the value in the background: this is called while the broker serves."""
        if path in self._blobs:
            self._blobs = {name: data for name, data in self._blobs.items() if name != path}
            self._beside.write(lambda: WriteBlob(self._epoch, path, None))
