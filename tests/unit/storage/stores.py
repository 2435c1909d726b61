"""The stores that must do what `broker.log.store` says, and a partition over each to try it with.

A store of another kind joins by a line in STORES: every test of this folder then runs over it.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import count
from random import Random
from typing import Any, TypeVar

import pytest

from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.log_manager import LogManager
from oncelog.broker.log.partition_log import FetchIsolation, PartitionLog, Records
from oncelog.broker.log.rounds import Rounds
from oncelog.broker.log.store import LogStore
from oncelog.broker.log.values import AppendResult, EndMarker, ReadBounds
from oncelog.broker.storage.compaction.cleaner import CompactionSettings
from oncelog.broker.storage.local.file_sync import SyncSettings
from oncelog.broker.storage.local.local_log import LocalLog
from oncelog.broker.storage.local.log_store import LocalLogStore
from oncelog.broker.storage.memory.store import MemoryLogStore
from oncelog.broker.storage.shared.store import SharedLogStore, SharedSizes, open_store
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.slices import Slices
from oncelog.protocol.records.batch import BatchHeader
from oncelog.testing.memory_disk import MemoryDisk
from tests.fakes.coroutines import WaitingCoroutines
from tests.fakes.database import Database
from tests.fakes.late_store import LateLogStore
from tests.fakes.logs import TOPIC_ID, FetchResult, Listener, delete_topic
from tests.fakes.scheduler import ManualClock, ManualScheduler
from tests.fakes.tables import FakeTables
from tests.support.postgres.server import shared
from tests.unit.storage.tables_store import lasting_terms, until_ours

T = TypeVar("T")
MakeStore = Callable[[ManualScheduler, ManualClock, Callable[[OSError], None], CompactionSettings], LogStore]


def _local(policy: str, disk: MemoryDisk) -> MakeStore:
    def make(
        scheduler: ManualScheduler,
        clock: ManualClock,
        on_failure: Callable[[OSError], None],
        compaction: CompactionSettings,
    ) -> LogStore:
        return LocalLogStore(disk, clock, scheduler, on_failure, syncing=SyncSettings(policy), compaction=compaction)

    return make


def _cold() -> MemoryDisk:
    """Most of what is asked for is not in the page cache, and what is there may go again."""
    disk, random = MemoryDisk(), Random(1)
    disk.is_cold = lambda path, start, end: random.random() < 0.8
    return disk


def _memory(
    scheduler: ManualScheduler,
    clock: ManualClock,
    on_failure: Callable[[OSError], None],
    compaction: CompactionSettings,
) -> LogStore:
    return MemoryLogStore(clock, compaction)


def _late(
    scheduler: ManualScheduler,
    clock: ManualClock,
    on_failure: Callable[[OSError], None],
    compaction: CompactionSettings,
) -> LogStore:
    return LateLogStore(scheduler, clock, compaction)


def _tables(database: Database, sizes: SharedSizes) -> MakeStore:
    def make(
        scheduler: ManualScheduler,
        clock: ManualClock,
        on_failure: Callable[[OSError], None],
        compaction: CompactionSettings,
    ) -> LogStore:
        tables = FakeTables(database, scheduler, clock, Random(1), takes_time=False)
        terms = lasting_terms(f"start {next(_starts)}")
        opening = Slices(scheduler).run_own(open_store(tables, clock, scheduler, on_failure, compaction, sizes, terms))
        return _held(opening, scheduler)

    return make


def _postgres() -> MakeStore:
    """A store over PostgreSQL, if there is one; each store has a schema of its own."""
    pytest.importorskip("asyncpg", reason="asyncpg is not installed")
    from oncelog.broker.storage.postgres.preparing import prepare
    from oncelog.broker.storage.postgres.session import Server
    from oncelog.broker.storage.postgres.tables import PostgresTables

    dsn, schema = new_schema()

    def make(
        scheduler: ManualScheduler,
        clock: ManualClock,
        on_failure: Callable[[OSError], None],
        compaction: CompactionSettings,
    ) -> LogStore:
        coroutines = WaitingCoroutines(scheduler)
        server = Server(dsn, schema, coroutines, scheduler)
        coroutines.run_now(prepare(server, may_lose=False))
        terms = lasting_terms(f"start {next(_starts)}")
        opening = Slices(scheduler).run_own(
            open_store(PostgresTables(server), clock, scheduler, on_failure, compaction, _SMALL, terms)
        )
        return _held(opening, scheduler)

    return make


def _held(opening: Completion[SharedLogStore], scheduler: ManualScheduler) -> SharedLogStore:
    scheduler.run()
    store = opening.result()
    until_ours(store, scheduler)
    return store


def new_schema() -> tuple[str, str]:
    """The address of a PostgreSQL, and a name that is unused in it."""
    return shared().dsn, f"store_{next(_schemas)}"


_schemas = count()
_starts = count()
_SMALL = SharedSizes(row_bytes=100, checkpoint_bytes=1, chunk_bytes=150, written_bytes=0, fetched_bytes=200)
COLD = "files that are not in the page cache"
STORES: dict[str, Callable[[], MakeStore]] = {
    "files": lambda: _local("fsync", MemoryDisk()),
    "files, synced behind": lambda: _local("os", MemoryDisk()),
    COLD: lambda: _local("fsync", _cold()),
    "memory": lambda: _memory,
    "everything later": lambda: _late,
    "tables": lambda: _tables(Database(), SharedSizes(checkpoint_bytes=2_000)),
    "tables, most of it in chunks that must be fetched": lambda: _tables(Database(), _SMALL),
    "PostgreSQL": _postgres,
}


def named(names: Iterable[str]) -> list[Any]:
    """The names of stores as parameters of a test: what needs a PostgreSQL is marked so."""
    return [pytest.param(name, marks=[pytest.mark.postgres] if name == "PostgreSQL" else []) for name in names]


class Stored:
    """One partition over a store of this kind."""

    def __init__(self, name: str, *, replayed_bytes: int | None = None, **settings: int | str) -> None:
        """Open the store; if `replayed_bytes` is given, a start replays the log before it can serve
        (`CompactionSettings`).
        """
        self._is_cold = name == COLD
        self.scheduler = ManualScheduler()
        self.clock = ManualClock()
        self.failures: list[OSError] = []
        self.problems: list[str] = []
        self.listener = Listener()
        self._make = STORES[name]()
        self._replayed_bytes = replayed_bytes
        self._replayed = (
            {} if replayed_bytes is None else {"replayed_topics": ("topic",), "replayed_bytes": replayed_bytes}
        )
        self.config = replace(LogConfig(), **settings)  # type: ignore[arg-type]
        self._begin()
        self.manager.begin_serving()
        self.log = self.create(0)

    def _begin(self) -> None:
        replayed_topics = () if self._replayed_bytes is None else ("topic",)
        compaction = CompactionSettings(
            self.scheduler, 1_000_000, 0, self.problems.append, replayed_topics, self._replayed_bytes or 0
        )
        self.store = self._make(self.scheduler, self.clock, self.failures.append, compaction)
        self.rounds = Rounds(self.scheduler, self.store)
        self.manager = LogManager(self.store, self.rounds, self.listener, self.clock)

    def start_again(self) -> None:
        """Stop cleanly, and start over what is left. A store that leaves nothing stays as it is."""
        if isinstance(self.store, MemoryLogStore):
            return
        assert self.manager.close() is None
        self._begin()
        self.log = self.create(0)
        self.manager.begin_serving()

    def create(self, partition: int) -> PartitionLog:
        """The log of a partition that this node leads now."""
        opening = Slices(self.scheduler).run_own(self.manager.open("topic", partition, TOPIC_ID, self.config))
        self.scheduler.run()
        return opening.result()

    def give_away(self) -> None:
        """Another node leads the partition, for a while."""
        released = self.manager.resign("topic", 0)
        self.scheduler.run()
        assert released.done
        self.log = self.create(0)

    def append(self, data: memoryview) -> AppendResult:
        return self.log.append(data, wall_ms=self.clock.wall_ms())

    def end(self, producer_id: int, *, committed: bool) -> AppendResult:
        return self.log.append_end_txn_marker(EndMarker(producer_id, 0, committed, 0), self.clock.wall_ms())

    def settle(self) -> None:
        """Everything that waits for a turn or a thread has had it."""
        self.scheduler.run()
        if self._is_cold and isinstance(self.log.stored, LocalLog):
            for segment in self.log.stored.segments:
                segment.warm_from = segment.size_bytes

    def let_work(self) -> None:
        """Background work, to its end."""
        for _ in range(200):
            self.manager.step()
            self.scheduler.run()
            self.scheduler.run_timers()
            self.scheduler.run()

    def wait_for(self, look: Callable[[], T | Completion[T]]) -> T:
        """Return what the store finds, now or later."""
        found = look()
        for _ in range(1000):
            if not isinstance(found, Completion):
                return found
            if found.done:
                return found.result()
            self.settle()
        raise AssertionError("it never comes")

    def read(
        self, offset: int, max_bytes: int = 2**30, isolation: FetchIsolation = FetchIsolation.LOG_END
    ) -> FetchResult:
        return self.wait_for(lambda: self.look(offset, max_bytes, self.log.bounds(isolation)))

    def look(
        self, offset: int, max_bytes: int, bounds: ReadBounds, *, at_least_one: bool = True
    ) -> FetchResult | Completion[FetchResult]:
        """One read, as a fetch does it."""

        def result(read: Records) -> FetchResult:
            return FetchResult(
                read[0], bounds.high_watermark, bounds.last_stable_offset, bounds.log_start_offset, read[1]
            )

        self.log.check_readable(offset)
        found = self.log.read(offset, max_bytes, bounds, at_least_one=at_least_one)
        return found.map(result) if isinstance(found, Completion) else result(found)

    def replayed(self, from_offset: int = 0) -> list[tuple[BatchHeader, bytes]]:
        found: list[tuple[BatchHeader, bytes]] = []
        for piece in self.log.replay(from_offset):
            batches = self.wait_for(lambda piece=piece: piece)  # type: ignore[misc]
            found += [(header, bytes(batch)) for header, batch in batches]
        return found

    def delete_topic(self) -> None:
        delete_topic(self.manager, self.scheduler, "topic")
        self.settle()
