"""A store elsewhere, in virtual time: it outlives a broker, and may say that another node leads a partition.

Owns: when a statement takes effect and when its answer comes, if it comes: the broker may stop in between. Does not
own: which node gets a partition that was taken away (none here), and when it comes back
(`tests.simulation.shared_world`). A statement makes a round durable as a whole, but for the logs that it refuses; so
rounds are not whole (`Durability`).
"""

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar
from uuid import UUID

from oncelog.broker.log.leader_epochs import EpochStart, LeaderEpochs
from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.producer_state import ProducerStateManager
from oncelog.broker.log.store import (
    ALL_DURABLE,
    Batches,
    LogView,
    OpenedLog,
    Outlives,
    PartitionKey,
    ReadResult,
    RoundEnds,
    Trouble,
    Verdict,
    Verdicts,
)
from oncelog.broker.storage.batch_replay import replay_batch
from oncelog.broker.storage.memory.memory_log import MemoryLog
from oncelog.broker.storage.memory.store import MemoryBlobs
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Buffer, Clock, Scheduler
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.records.batch import read_header
from oncelog.protocol.topics import METADATA_TOPIC

T = TypeVar("T")
_DELAYS_MS = (0, 0, 1, 3, 10, 40)


@dataclass
class KeptLog:
    """A log on the shelf. Its batches stay when their records are deleted: the log's end, producers and epochs are
    derived from them.
    """

    topic: str
    batches: list[tuple[bytes, int, int]] = field(default_factory=list)
    """A batch, the offset after it, and its timestamp."""
    epochs: Sequence[EpochStart] = ()
    log_start_offset: int = 0

    @property
    def log_end_offset(self) -> int:
        return self.batches[-1][1] if self.batches else 0


@dataclass
class Shelf:
    """Outlives every broker."""

    logs: dict[tuple[UUID, int], KeptLog] = field(default_factory=dict)
    blobs: MemoryBlobs = field(default_factory=MemoryBlobs)
    is_calm: bool = False
    """Nothing is taken away any more."""


class SharedLog:
    """A StoredLog: what is appended waits in `staged` for its commit."""

    def __init__(self, topic: str, partition: int, topic_id: UUID, kept: KeptLog, clock: Clock, pace: "Pace") -> None:
        self.key = topic, partition
        self.kept_key = topic_id, partition
        self.staged: list[tuple[bytes, int, int]] = []
        self.staged_epochs: Sequence[EpochStart] | None = None
        self.pace = pace
        self._log = MemoryLog(f"{topic}-{partition}", kept.log_start_offset, clock)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def recovered(self, kept: KeptLog, config: LogConfig, clock: Clock) -> OpenedLog:
        producers, epochs, log = ProducerStateManager(), LeaderEpochs(kept.epochs), self._log
        for data, next_offset, timestamp in kept.batches:
            header = read_header(data)
            if next_offset > kept.log_start_offset:
                log.append((data,), len(data), next_offset, timestamp, config, producers)
            aborted = replay_batch(producers, header, memoryview(data), clock.monotonic_ms())
            if aborted is not None and next_offset > kept.log_start_offset:
                log.note_aborted(aborted)
        return OpenedLog(self, producers, kept.log_start_offset, kept.log_end_offset, None, epochs)

    def append(
        self,
        parts: tuple[Buffer, ...],
        size_bytes: int,
        next_offset: int,
        timestamp: int,
        config: LogConfig,
        producers: ProducerStateManager,
    ) -> None:
        self._log.append(parts, size_bytes, next_offset, timestamp, config, producers)
        self.staged.append((b"".join(parts), next_offset, timestamp))

    def keep_epochs(self, epochs: Sequence[EpochStart]) -> None:
        self.staged_epochs = tuple(epochs)

    def read(
        self, from_offset: int, to_offset: int, max_bytes: int, *, at_least_one: bool
    ) -> ReadResult | Completion[ReadResult]:
        return self.pace.soon(self._log.read(from_offset, to_offset, max_bytes, at_least_one=at_least_one))

    def find_timestamp(self, timestamp_ms: int, from_offset: int, to_offset: int) -> Any:
        return self.pace.soon(self._log.find_timestamp(timestamp_ms, from_offset, to_offset))

    def find_max_timestamp(self, from_offset: int, to_offset: int) -> Any:
        return self.pace.soon(self._log.find_max_timestamp(from_offset, to_offset))

    def replay(self, from_offset: int, to_offset: int) -> Iterator[Batches | Completion[Batches]]:
        return map(self.pace.soon, self._log.replay(from_offset, to_offset))


class Pace:
    """How long statements take."""

    def __init__(self, scheduler: Scheduler, random: Random) -> None:
        self._scheduler = scheduler
        self._random = random
        self.is_instant = False
        """Read without delay, for observers."""

    def soon(self, value: T) -> T | Completion[T]:
        if self.is_instant:
            return value
        completion: Completion[T] = Completion()
        self._scheduler.call_soon(lambda: completion.complete(value))
        return completion

    def statement(self, effect: Callable[[], T]) -> Completion[T]:
        """It takes effect, and later its answer comes; the broker may end before either."""
        answered: Completion[T] = Completion()

        def take_effect() -> None:
            value = effect()
            self._scheduler.call_later(self._random.choice(_DELAYS_MS), lambda: answered.complete(value))

        self._scheduler.call_later(self._random.choice(_DELAYS_MS), take_effect)
        return answered


class SharedStore:
    """A LogStore over a shelf."""

    outlives = Outlives.MACHINE
    rounds_are_whole = False
    may_be_lost = False
    may_be_older = False
    trouble: Trouble | None = None
    lease = None
    is_busy = False

    def __init__(
        self,
        shelf: Shelf,
        scheduler: Scheduler,
        clock: Clock,
        random: Random,
        *,
        take_share: float = 0,
        on_taken: Callable[[str, int], None] = lambda topic, partition: None,
    ) -> None:
        """A commit refuses a log with the probability `take_share`, and `on_taken` is called then."""
        self.shelf = shelf
        self.durability = self.topics = self
        self.blobs = shelf.blobs
        self.cleaner = None
        self._clock = clock
        self._pace = Pace(scheduler, random)
        self._random = random
        self._take_share = take_share
        self._on_taken = on_taken
        self._logs: dict[PartitionKey, SharedLog] = {}
        self._committing: Completion[Verdicts] = Completion.of(ALL_DURABLE)

    # -- the logs

    def open(self, topic: str, partition: int, topic_id: UUID, config: LogConfig) -> Completion[OpenedLog]:
        kept = self.shelf.logs.setdefault((topic_id, partition), KeptLog(topic))

        def recovered() -> OpenedLog:
            log = self._logs[topic, partition] = SharedLog(topic, partition, topic_id, kept, self._clock, self._pace)
            return log.recovered(kept, config, self._clock)

        return self._pace.statement(recovered)

    def release(self, topic: str, partition: int, producers: ProducerStateManager) -> Completion[None]:
        """After the statement in flight, which may still make its records durable."""
        log = self._logs.pop((topic, partition))
        log.staged.clear()
        return self._committing.map(lambda _: None)

    def begin_serving(self, *, is_recovered: bool) -> None:
        return

    def on_background_error(self, error: OSError) -> None:
        raise error

    # -- durability

    def watch_failure(self, on_failed: Callable[[], None]) -> None:
        return

    def answer_ahead(self) -> bool:
        return False

    def keep_place(self) -> None:
        return

    def settle(self) -> None:
        return

    def commit(self, ends: RoundEnds, append_count: int) -> Completion[Verdicts]:
        logs = [log.stored for log, _ in ends if isinstance(log.stored, SharedLog)]
        rows = [(log, self._take(log)) for log in logs]

        def effect() -> Verdicts:
            refused: dict[Any, Verdict] = {}
            for log, row in rows:
                if self._is_taken(log):
                    refused[log] = Verdict.NOT_LEADER
                    self._on_taken(*log.key)
                else:
                    self._keep(log, *row)
            return refused or ALL_DURABLE

        self._committing = self._pace.statement(effect)
        return self._committing

    def _is_taken(self, log: SharedLog) -> bool:
        is_own = log.key[0] == METADATA_TOPIC
        return not is_own and not self.shelf.is_calm and self._random.random() < self._take_share

    def _take(self, log: SharedLog) -> tuple[list[tuple[bytes, int, int]], Sequence[EpochStart] | None]:
        batches, log.staged = log.staged, []
        epochs, log.staged_epochs = log.staged_epochs, None
        return batches, epochs

    def _keep(self, log: SharedLog, batches: list[tuple[bytes, int, int]], epochs: Sequence[EpochStart] | None) -> None:
        kept = self.shelf.logs.get(log.kept_key)
        if kept is not None:  # else its topic is deleted
            kept.batches += batches
            kept.epochs = kept.epochs if epochs is None else epochs

    def commit_now(self) -> None:
        for log in self._logs.values():
            self._keep(log, *self._take(log))

    def when_idle(self) -> Completion[None]:
        return Completion.of(None)

    def move_starts(self, starts: Mapping[PartitionKey, int]) -> Completion[None]:
        moved = [(self._logs[key].kept_key, offset) for key, offset in starts.items()]

        def effect() -> None:
            for key, offset in moved:
                if key in self.shelf.logs:
                    kept = self.shelf.logs[key]
                    kept.log_start_offset = max(kept.log_start_offset, offset)

        return self._pace.statement(effect)

    # -- topics

    def partitions(self) -> Collection[PartitionKey]:
        return [(kept.topic, partition) for (_, partition), kept in self.shelf.logs.items()]

    def make_way(self, topic: str, partitions: range) -> None:
        return

    def begin_removal(self, topic: str, topic_id: UUID) -> "SharedRemoval":
        return SharedRemoval(self._logs, self.shelf, topic, topic_id)

    def finish_removals(self, removed: Mapping[UUID, str], live: Container[UUID]) -> list[str]:
        for topic_id in removed:
            remove(self.shelf, topic_id)
        return []

    def unknown_entries(self, known: Container[PartitionKey]) -> list[str]:
        return [f"{topic}-{partition}" for topic, partition in self.partitions() if (topic, partition) not in known]

    # -- the rest

    def volume_bytes(self) -> tuple[int, int]:
        return -1, -1

    def figures(self) -> Mapping[str, float]:
        return {}

    def step(self, logs: Iterable[LogView]) -> None:
        return

    def set_up_compaction(self, memory_bytes: int, backoff_ms: int) -> None:
        return

    def close(self, producers: Mapping[PartitionKey, ProducerStateManager], *, cleanly: bool) -> OSError | None:
        return None


class SharedRemoval:
    def __init__(self, logs: dict[PartitionKey, SharedLog], shelf: Shelf, topic: str, topic_id: UUID) -> None:
        self._logs = logs
        self._shelf = shelf
        self._topic = topic
        self._topic_id = topic_id

    def withdraw(self, partitions: Sequence[int]) -> Sliced[None]:
        for partition in partitions:
            self._logs.pop((self._topic, partition), None)
            yield 0

    def delete(self) -> Sliced[bool]:
        remove(self._shelf, self._topic_id)
        yield 0
        return True


def remove(shelf: Shelf, topic_id: UUID) -> None:
    for key in [key for key in shelf.logs if key[0] == topic_id]:
        del shelf.logs[key]
