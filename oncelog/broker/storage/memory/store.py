"""All partitions of one node in memory, as its LogStore.

Owns: the open logs. Nothing outlives the process; a commit completes at once.
"""

from collections.abc import Collection, Container, Mapping, Sequence
from errno import ENOENT
from uuid import UUID

from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.producer_state import ProducerStateManager
from oncelog.broker.log.store import Failure, OpenedLog, PartitionKey, Withdrawn
from oncelog.broker.storage.compaction.cleaner import CompactionRound, CompactionSettings, LogCleaner
from oncelog.broker.storage.memory.memory_log import MemoryLog
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Buffer, Clock
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol import mypyc_attr

_UNKNOWN_VOLUME = (-1, -1)


@mypyc_attr(allow_interpreted_subclasses=True)
class MemoryLogStore:
    def __init__(self, clock: Clock, failure: Failure, compaction: CompactionSettings | None = None) -> None:
        """Without `compaction` nothing is compacted."""
        self._logs: dict[PartitionKey, MemoryLog] = {}
        self._clock = clock
        self.problems: Sequence[str] = ()
        self.ahead = _NothingIsLost()
        self.blobs = MemoryBlobs()
        self.cleaner: LogCleaner[MemoryLog] | None = None
        if compaction is not None:
            self.cleaner = LogCleaner(
                self._logs.values, _Cleaned(), _cleanable_end, _begin_compaction, clock, failure, compaction
            )

    # -- opening

    def holds(self, topic: str, partition: int, topic_id: UUID) -> bool:
        return False

    def open(self, topic: str, partition: int, topic_id: UUID, config: LogConfig) -> OpenedLog:
        return self.create(topic, partition, topic_id, config)

    def create(self, topic: str, partition: int, topic_id: UUID, config: LogConfig) -> OpenedLog:
        producer_state = ProducerStateManager()
        log = self._logs[topic, partition] = MemoryLog(producer_state, self._clock)
        return OpenedLog(log, producer_state, 0, 0)

    def complete_recovery(self) -> None:
        return

    def begin_serving(self) -> None:
        return

    def partitions(self) -> Collection[PartitionKey]:
        return self._logs.keys()

    def unknown_entries(self, known: Container[PartitionKey]) -> list[str]:
        return []

    # -- durability

    @property
    def commits_at_once(self) -> bool:
        return True

    def commit(self, append_count: int) -> Completion[None] | None:
        return None

    def write_ahead(self) -> bool:
        return True

    def commit_now(self) -> None:
        return

    @property
    def rounds_are_whole(self) -> bool:
        return True

    @property
    def is_busy(self) -> bool:
        return False

    def when_idle(self) -> Completion[None]:
        return Completion.of(None)

    def move_starts(self, starts: Mapping[PartitionKey, int]) -> Completion[None]:
        return Completion.of(None)

    # -- topics

    def make_way(self, topic: str, partitions: range) -> None:
        return

    def prepare_removal(self, topic_id: UUID) -> None:
        return

    def withdraw(self, withdrawn: Withdrawn, partitions: Sequence[int]) -> Sliced[None]:
        for partition in partitions:
            self._logs.pop((withdrawn.topic, partition)).detach()
            yield 0

    def delete(self, withdrawn: Withdrawn) -> Sliced[None]:
        yield 0

    def finish_removals(self, removed: Mapping[UUID, str], live: Container[UUID]) -> list[str]:
        return []

    # -- the rest

    def volume_bytes(self) -> tuple[int, int]:
        return _UNKNOWN_VOLUME

    def step(self) -> None:
        if self.cleaner is not None:
            self.cleaner.step()

    def set_up_compaction(self, memory_bytes: int, backoff_ms: int) -> None:
        if self.cleaner is not None:
            self.cleaner.set_up(memory_bytes, backoff_ms)

    def stop_background(self) -> None:
        if self.cleaner is not None:
            self.cleaner.stop()

    def close(self, *, cleanly: bool) -> OSError | None:
        return None


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


class _NothingIsLost:
    """But everything, with the process."""

    are_possible = True
    may_be_lost = False

    def settle(self) -> None:
        return


class _Cleaned:
    """How far each log has been cleaned."""

    def __init__(self) -> None:
        self._offsets: dict[PartitionKey, int] = {}

    def get(self, topic: str, partition: int) -> int:
        return self._offsets.get((topic, partition), 0)

    def set(self, topic: str, partition: int, offset: int) -> None:
        self._offsets[topic, partition] = offset


def _cleanable_end(log: MemoryLog) -> int:
    return log.owner.last_stable_offset


def _begin_compaction(log: MemoryLog, dirty_offset: int, end_offset: int, memory_bytes: int) -> CompactionRound:
    from oncelog.broker.storage.memory.compaction_round import MemoryCompactionRound  # not needed at startup

    return MemoryCompactionRound(log, dirty_offset, end_offset, memory_bytes)
