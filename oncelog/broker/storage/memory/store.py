"""All partitions of one node in memory, as its LogStore.

Owns: the open logs. Nothing outlives the process; a commit completes at once.
"""

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from errno import ENOENT
from typing import TYPE_CHECKING, Any
from uuid import UUID

from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.producer_state import ProducerStateManager
from oncelog.broker.log.store import (
    Durability,
    LogView,
    OpenedLog,
    Outlives,
    PartitionKey,
    Removal,
    RoundEnds,
    TopicStorage,
    Trouble,
    Verdicts,
)
from oncelog.broker.storage.compaction.cleaner import CompactionSettings, LogCleaner
from oncelog.broker.storage.memory.memory_log import MemoryLog
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Buffer, Clock
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol import mypyc_attr

if TYPE_CHECKING:
    from oncelog.broker.storage.compaction.compaction_round import Rewriting

_UNKNOWN_VOLUME = (-1, -1)
_Kept = tuple[dict[PartitionKey, MemoryLog], dict[PartitionKey, OpenedLog], dict[PartitionKey, OpenedLog]]
"""The logs of a store, those that are open, and those that were released."""


@mypyc_attr(allow_interpreted_subclasses=True)
class MemoryLogStore:
    def __init__(self, clock: Clock, compaction: CompactionSettings | None = None) -> None:
        """Without `compaction` nothing is compacted."""
        self._logs: dict[PartitionKey, MemoryLog] = {}
        self._opened: dict[PartitionKey, OpenedLog] = {}
        self._released: dict[PartitionKey, OpenedLog] = {}
        self._clock = clock
        self.durability: Durability = _MemoryDurability()
        self.topics: TopicStorage = _MemoryTopics((self._logs, self._opened, self._released))
        self.blobs = MemoryBlobs()
        self.cleaner: LogCleaner[MemoryLog] | None = None
        if compaction is not None:
            self.cleaner = LogCleaner(
                lambda log: self._logs[log.topic, log.partition],
                Cleaned(),
                lambda view, _: view.last_stable_offset,
                _rewriting_of,
                clock,
                _no_disk,
                compaction,
            )

    def on_background_error(self, error: OSError) -> None:
        return

    # -- the logs

    def open(self, topic: str, partition: int, topic_id: UUID, config: LogConfig) -> OpenedLog | Completion[OpenedLog]:
        key = topic, partition
        opened = self._released.pop(key, None)
        if opened is None:
            log = self._logs[key] = MemoryLog(f"{topic}-{partition}", 0, self._clock)
            opened = OpenedLog(log, ProducerStateManager(), 0, 0)
        self._opened[key] = opened
        return opened

    def release(self, topic: str, partition: int, producers: ProducerStateManager) -> Completion[None]:
        """It waits here for the time when it is opened again."""
        key = topic, partition
        opened = self._released[key] = self._opened.pop(key)
        opened.log_end_offset = self._logs[key].log_end_offset
        return Completion.of(None)

    def begin_serving(self, *, is_recovered: bool) -> None:
        return

    # -- durability

    @property
    def trouble(self) -> Trouble | None:
        return None

    def watch_failure(self, on_failed: Callable[[], None]) -> None:
        """Memory does not fail."""

    def commit(self, ends: RoundEnds, append_count: int) -> Completion[Verdicts] | None:
        return None

    def commit_now(self) -> None:
        return

    @property
    def is_busy(self) -> bool:
        return False

    def when_idle(self) -> Completion[None]:
        return Completion.of(None)

    def move_starts(self, starts: Mapping[PartitionKey, int]) -> Completion[None]:
        for key, offset in starts.items():
            self._opened[key].log_start_offset = offset
        return Completion.of(None)

    # -- the rest

    @property
    def lease(self) -> None:
        return None

    def volume_bytes(self) -> tuple[int, int]:
        return _UNKNOWN_VOLUME

    def figures(self) -> Mapping[str, float]:
        return {}

    def step(self, logs: Iterable[LogView]) -> None:
        if self.cleaner is not None:
            self.cleaner.step(logs)

    def set_up_compaction(self, memory_bytes: int, backoff_ms: int) -> None:
        if self.cleaner is not None:
            self.cleaner.set_up(memory_bytes, backoff_ms)

    def close(self, producers: Mapping[PartitionKey, ProducerStateManager], *, cleanly: bool) -> OSError | None:
        if self.cleaner is not None:
            self.cleaner.stop()
        return None


class _MemoryTopics:
    """Topics whose storage is their open logs."""

    def __init__(self, kept: _Kept) -> None:
        self._kept = kept

    def partitions(self) -> Collection[PartitionKey]:
        return self._kept[0].keys()

    def make_way(self, topic: str, partitions: range) -> None:
        return

    def begin_removal(self, topic: str, topic_id: UUID) -> Removal:
        return _MemoryRemoval(self._kept, topic)

    def finish_removals(self, removed: Mapping[UUID, str], live: Container[UUID]) -> list[str]:
        return []

    def unknown_entries(self, known: Container[PartitionKey]) -> list[str]:
        return []


class _MemoryRemoval:
    def __init__(self, kept: _Kept, topic: str) -> None:
        self._kept = kept
        self._topic = topic

    def withdraw(self, partitions: Sequence[int]) -> Sliced[None]:
        for partition in partitions:
            for kept in self._kept:
                kept.pop((self._topic, partition), None)
            yield 0

    def delete(self) -> Sliced[bool]:
        yield 0
        return True


class MemoryBlobs:
    """The small values of a broker without files."""

    def __init__(self) -> None:
        self._blobs: dict[str, bytes] = {}

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
        self._blobs[path] = bytes(data)

    def delete(self, path: str) -> None:
        self._blobs.pop(path, None)


class _MemoryDurability:
    """Nothing is lost but everything, with the process."""

    outlives = Outlives.NOTHING
    rounds_are_whole = True
    may_be_lost = False
    may_be_older = False

    def answer_ahead(self) -> bool:
        return True

    def settle(self) -> None:
        return

    def keep_place(self) -> None:
        return


class Cleaned:
    """How far each log has been cleaned."""

    def __init__(self) -> None:
        self._offsets: dict[PartitionKey, int] = {}

    def get(self, topic: str, partition: int) -> int:
        return self._offsets.get((topic, partition), 0)

    def set(self, topic: str, partition: int, offset: int) -> None:
        self._offsets[topic, partition] = offset


def _rewriting_of(_: LogView, log: MemoryLog) -> "Rewriting[Any, Any]":
    from oncelog.broker.storage.memory.rewriting import MemoryRewriting  # not needed at startup

    return MemoryRewriting(log)


def _no_disk(error: OSError) -> None:
    raise error
