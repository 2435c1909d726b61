"""The tables of a shared store in virtual time: they outlive every broker, and statements take time.

Owns: when a statement takes effect and when its answer comes, if it comes; what becomes of statements that are in
flight when their broker ends. Does not own: who takes the lease, and when (`tests.simulation.tables_world`).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

from oncelog.broker.storage.sections import LogKey
from oncelog.broker.storage.shared.fetches import Fetches
from oncelog.broker.storage.shared.log import SharedLog
from oncelog.broker.storage.shared.tables import (
    AddAside,
    AppendRound,
    Catalogue,
    Checkpoint,
    ChunkRow,
    DeleteLogs,
    DropAside,
    DropChunks,
    FetchChunk,
    FindRound,
    FoundRound,
    GiveBackLease,
    KeepPlace,
    Lease,
    LogRow,
    LookAtLease,
    MoveStarts,
    ReadCatalogue,
    ReadRounds,
    RenewLease,
    ReplaceChunks,
    Round,
    Statement,
    TakeLease,
    TakenLease,
    Unanswered,
    WriteBlob,
)
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Clock, Scheduler

T = TypeVar("T")
_DELAYS_MS = (0, 0, 1, 3, 10, 40)
_ROUNDS_A_PIECE = 3


@dataclass
class Database:
    """Outlives every broker. Each method is a statement, all of which happens."""

    epoch: int = 0
    owner: str = ""
    until_us: int = 0
    """When the lease is over; 0 if it was given back."""
    attendant: "FakeTables | None" = None
    """Which broker has a connection open that keeps the lease."""
    is_elsewhere: bool = False
    """It was restored, and no start has gone on from there."""
    journal: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    """Epoch and body by number."""
    trimmed: int = 0
    logs: dict[LogKey, LogRow] = field(default_factory=dict)
    chunks: dict[int, tuple[ChunkRow, bytes]] = field(default_factory=dict)
    aside: set[int] = field(default_factory=set)
    """Which of them belong to no log yet."""
    starts: dict[LogKey, int] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    replaced: dict[int, bytes] = field(default_factory=dict)
    """Chunks that compaction has replaced: only for those who look on."""
    in_flight: list[Callable[[], object]] = field(default_factory=list)
    """What was sent and has not taken effect."""
    late: list[Callable[[], object]] = field(default_factory=list)
    """The same of brokers that have lost the lease."""

    def take_lease(self, random: Random) -> int:
        """What the broker before has sent happens before, or never, or later, as if that broker had slept."""
        in_flight = list(self.in_flight)
        self.in_flight.clear()
        for effect in in_flight:
            fate = random.choice(["before", "never", "later"])
            if fate == "before":
                effect()
            elif fate == "later":
                self.late.append(effect)
        self.epoch += 1
        return self.epoch

    def execute(self, statement: Statement[Any]) -> Any:
        epoch = getattr(statement, "epoch", self.epoch)
        if not self.may_write(epoch):
            return False
        return _EFFECTS[type(statement)](self, statement)

    def wake_sleepers(self) -> None:
        """What was sent by brokers that have lost the lease happens now, if it may."""
        late, self.late = self.late, []
        for effect in late:
            effect()

    def may_write(self, epoch: int) -> bool:
        return epoch == self.epoch

    def read_catalogue(self, statement: ReadCatalogue) -> Catalogue:
        rows = [row for row, _ in self.chunks.values() if row.id not in self.aside]
        chunks = sorted(rows, key=lambda row: row.base_offset)
        return Catalogue(list(self.logs.values()), chunks, dict(self.starts), dict(self.blobs), self.trimmed)

    def read_rounds(self, statement: ReadRounds) -> list[Round]:
        numbers = sorted(number for number in self.journal if number > max(statement.above, self.trimmed))
        return [Round(number, self.journal[number][1]) for number in numbers[:_ROUNDS_A_PIECE]]

    def append_round(self, statement: AppendRound) -> bool:
        if statement.number in self.journal:
            return False
        if statement.number - 1 > self.trimmed and statement.number - 1 not in self.journal:
            return False
        self.journal[statement.number] = statement.epoch, b"".join(statement.bodies)
        return True

    def find_round(self, statement: FindRound) -> FoundRound:
        return FoundRound(self.journal.get(statement.number, (-1, b""))[0], self.epoch)

    def checkpoint(self, statement: Checkpoint) -> bool:
        self.logs.update((row.key, row) for row in statement.logs)
        self.chunks.update((row.id, (row, body)) for row, body in statement.chunks)
        for number in range(self.trimmed + 1, statement.trimmed):
            self.journal.pop(number, None)
        self.trimmed = max(self.trimmed, statement.trimmed)
        return True

    def fetch_chunk(self, statement: FetchChunk) -> bytes | None:
        return self.chunks[statement.id][1] if statement.id in self.chunks else None

    def add_aside(self, statement: AddAside) -> bool:
        new = {row.id: (row, body) for row, body in statement.chunks if row.id not in self.chunks}
        self.chunks.update(new)
        self.aside.update(new)
        return True

    def replace_chunks(self, statement: ReplaceChunks) -> bool:
        for chunk_id in statement.ids:
            if chunk_id in self.chunks:
                self.replaced[chunk_id] = self.chunks.pop(chunk_id)[1]
        self.aside.difference_update(statement.added)
        return True

    def drop_aside(self, statement: DropAside) -> bool:
        for chunk_id in self.aside:
            self.chunks.pop(chunk_id, None)
        self.aside.clear()
        return True

    def drop_chunks(self, statement: DropChunks) -> bool:
        for row, _ in list(self.chunks.values()):
            if row.key == statement.key and row.next_offset <= statement.below:
                del self.chunks[row.id]
        return True

    def move_starts(self, statement: MoveStarts) -> bool:
        for key, offset in statement.starts.items():
            self.starts[key] = max(offset, self.starts.get(key, 0))
        return True

    def delete_logs(self, statement: DeleteLogs) -> bool:
        for key in statement.keys:
            self.logs.pop(key, None)
            self.starts.pop(key, None)
        self.chunks = {number: chunk for number, chunk in self.chunks.items() if chunk[0].key not in statement.keys}
        return True

    def write_blob(self, statement: WriteBlob) -> bool:
        if statement.data is None:
            self.blobs.pop(statement.path, None)
        else:
            self.blobs[statement.path] = statement.data
        return True

    def give_back_lease(self, statement: GiveBackLease) -> bool:
        self.until_us = 0
        return True

    def keep_place(self, statement: KeepPlace) -> bool:
        self.is_elsewhere = False
        return True


_EFFECTS: dict[type, Callable[[Database, Any], object]] = {
    ReadCatalogue: Database.read_catalogue,
    ReadRounds: Database.read_rounds,
    AppendRound: Database.append_round,
    FindRound: Database.find_round,
    Checkpoint: Database.checkpoint,
    FetchChunk: Database.fetch_chunk,
    AddAside: Database.add_aside,
    ReplaceChunks: Database.replace_chunks,
    DropAside: Database.drop_aside,
    DropChunks: Database.drop_chunks,
    MoveStarts: Database.move_starts,
    DeleteLogs: Database.delete_logs,
    WriteBlob: Database.write_blob,
    GiveBackLease: Database.give_back_lease,
    KeepPlace: Database.keep_place,
}


class FakeTables:
    """The database, as one broker reaches it."""

    def __init__(
        self,
        database: Database,
        scheduler: Scheduler,
        clock: Clock,
        random: Random,
        *,
        takes_time: bool = True,
        cut_share: float = 0,
    ) -> None:
        """An answer is lost with the probability `cut_share`, before the statement happens or after."""
        self._database = database
        self._scheduler = scheduler
        self._clock = clock
        self._random = random
        self._takes_time = takes_time
        self.cut_share = cut_share
        self.cut_count = 0
        self.is_instant = False
        """See `at_hand`."""

    def run(self, statement: Statement[T]) -> Completion[T]:
        answered: Completion[T] = Completion()
        if self.is_instant:
            answer = self._execute(statement)
            if answer is None and isinstance(statement, FetchChunk):
                answer = self._database.replaced[statement.id]  # type: ignore[assignment]
            answered.complete(answer)
            return answered

        def effect() -> object:
            is_cut = self._random.random() < self.cut_share
            if is_cut and self._random.random() < 0.5:
                self._after(lambda: self._cut(answered))
                return None
            answer = self._execute(statement)
            self._after(lambda: self._cut(answered) if is_cut else answered.complete(answer))
            return None

        if isinstance(statement, LookAtLease | TakeLease):  # of a broker that no take-over has to do with
            self._after(effect)
            return answered

        def begin() -> None:
            if effect in in_flight:
                in_flight.remove(effect)
                effect()

        in_flight = self._database.in_flight
        in_flight.append(effect)
        self._after(begin)
        return answered

    def _after(self, function: Callable[[], object]) -> None:
        delay_ms = self._random.choice(_DELAYS_MS) if self._takes_time else 0
        if delay_ms:
            self._scheduler.call_later(delay_ms, lambda: _do(function))
        else:
            self._scheduler.call_soon(lambda: _do(function))

    def _cut(self, answered: Completion[Any]) -> None:
        self.cut_count += 1
        answered.fail(Unanswered("the connection was cut"))

    def run_now(self, statement: Statement[T]) -> T:
        if self._random.random() < self.cut_share / 2:
            self.cut_count += 1
            if self._random.random() < 0.5:
                self._execute(statement)
            raise Unanswered("the connection was cut")
        return self._execute(statement)

    def _execute(self, statement: Statement[Any]) -> Any:
        match statement:
            case LookAtLease():
                return self._look_at_lease()
            case TakeLease():
                return self._take_lease(statement)
            case RenewLease():
                return self._renew_lease(statement)
        return self._database.execute(statement)

    def _now_us(self) -> int:
        return self._clock.monotonic_ms() * 1000

    def _look_at_lease(self) -> Lease:
        database = self._database
        left_ms = (database.until_us - self._now_us()) / 1000 if database.until_us else 0
        return Lease(database.epoch, database.owner, database.until_us, left_ms, database.attendant is not None)

    def _take_lease(self, statement: TakeLease) -> TakenLease | None:
        database = self._database
        if database.owner != statement.owner:
            if (database.epoch, database.until_us) != (statement.seen.epoch, statement.seen.renewed):
                return None
            database.take_lease(self._random)
            database.owner, database.attendant = statement.owner, self
            database.until_us = self._now_us() + statement.lease_ms * 1000
        return TakenLease(database.epoch, database.is_elsewhere)

    def _renew_lease(self, statement: RenewLease) -> bool:
        database = self._database
        if not database.may_write(statement.epoch):
            return False
        database.attendant = self
        database.until_us = self._now_us() + statement.lease_ms * 1000
        return True


@contextmanager
def at_hand(log: SharedLog) -> Iterator[None]:
    """For those who look on: what is in chunks comes at once, whatever is in flight."""
    cache = log._cache
    tables = cache._fetches._statements._tables
    assert isinstance(tables, FakeTables)
    fetches, tables.is_instant = cache._fetches, True
    cache._fetches = Fetches(fetches._statements, cache._on_fetched)
    yield
    cache._fetches, tables.is_instant = fetches, False


def _do(function: Callable[[], object]) -> None:
    function()
