"""One broker's logs over fake tables, whose statements can be held, refused and counted."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import TypeVar
from uuid import UUID

from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.log_manager import LogManager
from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.log.rounds import Rounds
from oncelog.broker.storage.shared.lease import LeaseTerms
from oncelog.broker.storage.shared.log import SharedLog
from oncelog.broker.storage.shared.store import SharedLogStore, SharedSizes, open_store
from oncelog.broker.storage.shared.tables import FetchChunk, Statement
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.slices import Slices
from tests.fakes.database import Database
from tests.fakes.logs import TOPIC_ID, Listener
from tests.fakes.scheduler import ManualClock, ManualScheduler
from tests.fakes.tables import FakeTables

T = TypeVar("T")
_LONG_MS = 10**9


class HeldTables(FakeTables):
    def __init__(self, database: Database, scheduler: ManualScheduler, clock: ManualClock) -> None:
        super().__init__(database, scheduler, clock, Random(1), takes_time=False)
        self.held: tuple[type, ...] = ()
        """The kinds of statements that are not answered before `let_go`."""
        self.waiting: list[tuple[Statement[object], Completion[object]]] = []
        self.sent: list[Statement[object]] = []
        self.sent_now: list[Statement[object]] = []

    def run(self, statement: Statement[T]) -> Completion[T]:
        self.sent.append(statement)
        if not isinstance(statement, self.held):
            return super().run(statement)
        answered: Completion[T] = Completion()
        self.waiting.append((statement, answered))  # type: ignore[arg-type]
        return answered

    def run_now(self, statement: Statement[T]) -> T:
        self.sent_now.append(statement)
        return super().run_now(statement)

    def let_go(self) -> None:
        self.held = ()
        waiting, self.waiting = self.waiting, []
        for statement, answered in waiting:
            super().run(statement).then(answered._end_as)

    def sent_of(self, kind: type[T]) -> list[T]:
        return [statement for statement in self.sent if isinstance(statement, kind)]


class Space:
    """A SpaceListener."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def on_full(self, error: OSError) -> None:
        self.events.append("full")

    def on_space(self, refused_count: int, duration_ms: int) -> None:
        self.events.append("space")


class Outages:
    """An OutageListener."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def on_away(self, error: OSError) -> None:
        self.events.append("away")

    def on_back(self, duration_ms: int) -> None:
        self.events.append("back")


def lasting_terms(owner: str) -> LeaseTerms:
    """Terms of a lease that outlasts each test, in which time may pass without a timer that renews it. The next start
    takes it at once: it is one of the same node.
    """
    return LeaseTerms(owner, lease_ms=_LONG_MS, unattended_ms=_LONG_MS, node_id=1)


def until_ours(store: SharedLogStore, scheduler: ManualScheduler) -> None:
    """Nothing is acknowledged before it knows that its lease is its own."""
    scheduler.run()
    while not store.lease.is_ours:
        scheduler.run_timers()
        scheduler.run()


class TablesStore:
    """`logs` are those that were opened, partition by partition."""

    def __init__(
        self,
        database: Database,
        partition_count: int = 1,
        *,
        name: str = "first",
        segment_bytes: int = 2**30,
        **sizes: int,
    ) -> None:
        self.scheduler, self.clock = ManualScheduler(), ManualClock()
        self.config = replace(LogConfig(), segment_bytes=segment_bytes)
        self.failures: list[OSError] = []
        self.space = Space()
        self.outages = Outages()
        self.tables = HeldTables(database, self.scheduler, self.clock)
        database.attendant = None  # the broker that had the lease was killed
        opening = Slices(self.scheduler).run_own(
            open_store(
                self.tables,
                self.clock,
                self.scheduler,
                self.failures.append,
                None,
                SharedSizes(**sizes),
                lasting_terms(name),
                self.space,
                None,
                self.outages,
            )
        )
        self.run_until_done(opening)
        self.store: SharedLogStore = opening.result()
        until_ours(self.store, self.scheduler)
        self.rounds = Rounds(self.scheduler, self.store)
        self.manager = LogManager(self.store, self.rounds, Listener(), self.clock)
        self.logs = [self.open(partition) for partition in range(partition_count)]
        self.manager.begin_serving()

    def open(self, partition: int, topic: str = "topic", topic_id: UUID = TOPIC_ID) -> PartitionLog:
        opening = Slices(self.scheduler).run_own(self.manager.open(topic, partition, topic_id, self.config))
        self.scheduler.run()
        return opening.result()

    def stored(self, partition: int = 0) -> SharedLog:
        stored = self.logs[partition].stored
        assert isinstance(stored, SharedLog)
        return stored

    def append(self, data: memoryview, partition: int = 0) -> Completion[None]:
        """Completes once it is acknowledged."""
        log = self.logs[partition]
        return log.when_durable(log.append(data, wall_ms=self.clock.wall_ms()).last_offset + 1)

    def step(self, passed_ms: int = 0) -> None:
        self.clock.time_ms += passed_ms
        self.manager.step()
        self.scheduler.run()

    def let_time_pass(self) -> None:
        """All timers fire, once."""
        self.scheduler.run_timers()
        self.scheduler.run()

    def run_until_done(self, completion: Completion[T]) -> None:
        self.scheduler.run()
        while not completion.done:
            self.clock.time_ms += 1_000
            self.let_time_pass()


def fetched(statements: Sequence[Statement[object]]) -> int:
    return sum(isinstance(statement, FetchChunk) for statement in statements)
