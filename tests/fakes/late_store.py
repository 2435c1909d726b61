"""A store where everything comes later, as one on another machine would have it: logs are opened, rounds committed and
bytes fetched in a later turn.
"""

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar
from uuid import UUID

from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.store import (
    ALL_DURABLE,
    Batches,
    OpenedLog,
    Outlives,
    PartitionKey,
    ReadResult,
    RoundEnds,
    Verdicts,
)
from oncelog.broker.storage.compaction.cleaner import CompactionSettings
from oncelog.broker.storage.memory.memory_log import MemoryLog
from oncelog.broker.storage.memory.store import MemoryLogStore
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Clock, Scheduler

T = TypeVar("T")


class LateLog:
    """A StoredLog."""

    def __init__(self, log: MemoryLog, scheduler: Scheduler) -> None:
        self._log = log
        self._scheduler = scheduler
        self.fetch_count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def _later(self, value: T) -> Completion[T]:
        self.fetch_count += 1
        completion: Completion[T] = Completion()
        self._scheduler.call_soon(lambda: completion.complete(value))
        return completion

    def read(self, from_offset: int, to_offset: int, max_bytes: int, *, at_least_one: bool) -> Completion[ReadResult]:
        return self._later(self._log.read(from_offset, to_offset, max_bytes, at_least_one=at_least_one))

    def find_timestamp(self, timestamp_ms: int, from_offset: int, to_offset: int) -> Any:
        return self._later(self._log.find_timestamp(timestamp_ms, from_offset, to_offset))

    def find_max_timestamp(self, from_offset: int, to_offset: int) -> Any:
        return self._later(self._log.find_max_timestamp(from_offset, to_offset))

    def replay(self, from_offset: int, to_offset: int) -> Iterator[Completion[Batches]]:
        return map(self._later, self._log.replay(from_offset, to_offset))


class _Awaited:
    """Durability of a store whose commits are waited for."""

    outlives = Outlives.MACHINE
    rounds_are_whole = True
    may_be_lost = False
    may_be_older = False

    def answer_ahead(self) -> bool:
        return False

    def keep_place(self) -> None:
        return

    def settle(self) -> None:
        return


class LateLogStore(MemoryLogStore):
    def __init__(self, scheduler: Scheduler, clock: Clock, compaction: CompactionSettings | None = None) -> None:
        super().__init__(clock, compaction)
        self._scheduler = scheduler
        self.durability = _Awaited()
        self.late_logs: list[LateLog] = []

    def _later(self, value: T) -> Completion[T]:
        completion: Completion[T] = Completion()
        self._scheduler.call_soon(lambda: completion.complete(value))
        return completion

    def open(self, topic: str, partition: int, topic_id: UUID, config: LogConfig) -> Completion[OpenedLog]:
        opened = super().open(topic, partition, topic_id, config)
        assert isinstance(opened, OpenedLog)
        opened.stored = LateLog(self._logs[topic, partition], self._scheduler)
        self.late_logs.append(opened.stored)
        return self._later(opened)

    def commit(self, ends: RoundEnds, append_count: int) -> Completion[Verdicts]:
        return self._later(ALL_DURABLE)

    def move_starts(self, starts: Mapping[PartitionKey, int]) -> Completion[None]:
        super().move_starts(starts)
        return self._later(None)
