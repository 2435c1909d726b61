"""The tables of a shared store in virtual time: they outlive every broker, and statements take time.

Owns: what rows there are; what becomes of statements that are in flight when their broker ends; what is lost when the
tables go back to an earlier state. Does not own: when a statement takes effect and when its answer comes, if it comes
(`FakeTables`), who takes the lease, and when (`tests.simulation.tables_world`).
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, fields
from enum import Enum
from random import Random
from typing import Any, NamedTuple, TypeVar

from oncelog.broker.storage.sections import LogKey
from oncelog.broker.storage.shared.fetches import Fetches
from oncelog.broker.storage.shared.log import SharedLog
from oncelog.broker.storage.shared.statements import RoundsLost
from oncelog.broker.storage.shared.tables import (
    LOST_EPOCHS,
    NOBODY,
    AddAside,
    AppendRound,
    Attendance,
    AttendLease,
    Catalogue,
    Checkpoint,
    ChunkRow,
    DeleteLogs,
    DropAside,
    DropChunks,
    DropNode,
    FetchChunk,
    FindRound,
    Followed,
    FollowMetadata,
    ForgetPlace,
    FoundRound,
    GiveBackLease,
    KeepNode,
    KeepPlace,
    KeptNode,
    Lease,
    LogRow,
    LookAtLease,
    LookAtNodes,
    LookAtOutbox,
    MeasureTables,
    MoveStarts,
    NodeRow,
    OutboxRow,
    ReadBlobs,
    ReadCatalogue,
    ReadRounds,
    Refused,
    RefuseRows,
    RenewLease,
    ReplaceChunks,
    Round,
    SeenNodes,
    Statement,
    TakeLease,
    TakenLease,
    Unanswered,
    WaitingRows,
    WantLeader,
    WriteBlob,
)
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Clock, Scheduler
from oncelog.protocol.topics import METADATA_TOPIC_ID
from oncelog.testing.memory_disk import PowerCut

T = TypeVar("T")
Effect = Callable[["Database"], object]
_DELAYS_MS = (0, 0, 1, 3, 10, 40)
_LONG_MS = (*_DELAYS_MS, *_DELAYS_MS, 400, 2_500)
_LATE_MS = (1, 40, 400, 4_000)
_LONG = Checkpoint | ReplaceChunks | DropChunks | DeleteLogs
"""They may have much to do."""
_OF_LEASE = LookAtLease | TakeLease | RenewLease
_OF_NODE = KeepNode | DropNode
_NOT_WRITTEN = AppendRound | GiveBackLease | AttendLease | RefuseRows
"""Beside rounds; they have an epoch."""
_NOT_IN_FLIGHT = (
    LookAtLease | LookAtOutbox | TakeLease | AttendLease | KeepNode | LookAtNodes | FollowMetadata | ReadBlobs
)
"""A take-over has nothing to do with them."""
_LOCKING = AttendLease | KeepNode
"""Of which nothing is left after their connection."""
_ROUNDS_A_PIECE = 3
_STATES = 400
"""How many of the last ones are kept, at most."""


class State(NamedTuple):
    """All rows after a statement that changed some."""

    tick: int
    rows: dict[str, Any]


@dataclass
class Database:
    """Outlives every broker. Each method is a statement, all of which happens."""

    epoch: int = 0
    owner: str = ""
    until_us: int = 0
    """When the lease is over; 0 if it was given back."""
    node_id: int = NOBODY
    """Of the owner."""
    successor: int = NOBODY
    wanted: int = NOBODY
    since_us: int = 0
    """When the lease was taken."""
    nodes: dict[int, tuple[NodeRow, int]] = field(default_factory=dict)
    """With the time until which each is there."""
    attendant: tuple[object, int] | None = None
    """Which connection attends to the lease, and in which epoch."""
    node_attendants: dict[int, object] = field(default_factory=dict)
    """Which connection keeps each node id."""
    is_elsewhere: bool = False
    """It was restored, and no start has gone on from there."""
    journal: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    """Epoch and body by number."""
    followed: set[int] = field(default_factory=set)
    """Which of them have something of the metadata log."""
    halves: dict[int, int] = field(default_factory=dict)
    """In which half of the journal each is."""
    trimmed: int = 0
    written: int = 0
    """Statements that were written beside rounds."""
    logs: dict[LogKey, LogRow] = field(default_factory=dict)
    chunks: dict[int, tuple[ChunkRow, bytes]] = field(default_factory=dict)
    aside: set[int] = field(default_factory=set)
    """Which of them belong to no log yet."""
    starts: dict[LogKey, int] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    outbox: dict[int, OutboxRow] = field(default_factory=dict)
    refused_rows: dict[int, tuple[OutboxRow, str]] = field(default_factory=dict)
    """With the reasons."""
    replaced: dict[int, bytes] = field(default_factory=dict)
    """Chunks that compaction has replaced: only for those who look on."""
    in_flight: list[Effect] = field(default_factory=list)
    """What was sent and has not taken effect."""
    late: list[Effect] = field(default_factory=list)
    """The same of brokers that have lost the lease."""
    restores: int = 0
    """How often the rows went back to an earlier state. Whoever was connected before is not any more."""
    states: deque[State] = field(default_factory=lambda: deque(maxlen=_STATES))
    tick: Callable[[], int] | None = None
    """The time for `states`, which are noted if there is one."""

    def copy(self) -> "Database":
        """Another with the same rows, and the same in flight."""
        rows = {name: copy(getattr(self, name)) for name in (*_ROWS, "replaced", "in_flight", "late")}
        return Database(**rows)

    def restore(self, statements: int) -> int:
        """Go back by so many statements that have changed something, as a standby that had not got them, or a backup;
        one at least, and what was there when the first was noted stays. What was in flight never happens. Returns the
        tick of the first that is lost."""
        lost = [self.states.pop() for _ in range(max(1, min(statements, len(self.states) - 1)))]
        for name, rows in self.states[-1].rows.items():
            setattr(self, name, copy(rows))
        self.in_flight.clear()
        self.late.clear()
        self.is_elsewhere = True
        self.attendant = None
        self.node_attendants.clear()
        self.restores += 1
        return lost[-1].tick

    def note(self) -> None:
        if self.tick is not None:
            self.states.append(State(self.tick(), {name: copy(getattr(self, name)) for name in _ROWS}))

    def take_lease(self, random: Random, seen: Lease | None = None) -> int | None:
        """What the broker before has sent happens before, or never, or later, as if that broker had slept. None: the
        lease is not as it was `seen`."""
        never: list[Effect] = []
        later: list[Effect] = []
        for effect in list(self.in_flight):
            fate = random.choice(["before", "never", "later"])
            if fate == "before":
                self.in_flight.remove(effect)
                effect(self)
            else:
                (never if fate == "never" else later).append(effect)
        if seen is not None and (self.epoch, self.until_us) != (seen.epoch, seen.renewed):
            return None
        for effect in never + later:
            if effect in self.in_flight:  # another has not made it happen
                self.in_flight.remove(effect)
                self.late += [effect] if effect in later else []
        self.epoch += LOST_EPOCHS if self.is_elsewhere else 1
        return self.epoch

    def execute(self, statement: Statement[Any]) -> Any:
        epoch = getattr(statement, "epoch", self.epoch)
        if not self.may_write(epoch):
            return False
        answer = _EFFECTS[type(statement)](self, statement)
        if hasattr(statement, "epoch"):
            self.note()
        return answer

    def wake_sleepers(self) -> None:
        """What was sent by brokers that have lost the lease happens now, if it may."""
        late, self.late = self.late, []
        for effect in late:
            effect(self)

    def may_write(self, epoch: int) -> bool:
        return epoch == self.epoch

    def read_catalogue(self, statement: ReadCatalogue) -> Catalogue:
        rows = [row for row, _ in self.chunks.values() if row.id not in self.aside]
        chunks = sorted(rows, key=lambda row: row.base_offset)
        return Catalogue(list(self.logs.values()), chunks, dict(self.starts), dict(self.blobs), self.trimmed)

    def read_rounds(self, statement: ReadRounds) -> list[Round]:
        numbers = sorted(number for number in self.journal if number > max(statement.above, self.trimmed))
        return [Round(number, self.journal[number][1], self.halves[number]) for number in numbers[:_ROUNDS_A_PIECE]]

    def append_round(self, statement: AppendRound) -> bool:
        if statement.number in self.journal:
            return False
        before = statement.number - 1
        if before > self.trimmed and (before not in self.journal or self.halves[before] != statement.half_before):
            return False
        if not self.outbox.keys() >= set(statement.taken):
            return False
        for row_id in statement.taken:
            del self.outbox[row_id]
        self.journal[statement.number] = statement.epoch, b"".join(statement.bodies)
        self.halves[statement.number] = statement.half
        if statement.is_followed:
            self.followed.add(statement.number)
        return True

    def find_round(self, statement: FindRound) -> FoundRound:
        before = statement.number - 1
        has_before = before in self.journal or before <= self.trimmed
        return FoundRound(self.journal.get(statement.number, (-1, b""))[0], self.epoch, has_before)

    def look_at_outbox(self, statement: LookAtOutbox) -> WaitingRows:
        rows: list[OutboxRow] = []
        before_bytes = 0
        for row_id in sorted(self.outbox)[: statement.row_count]:
            row = self.outbox[row_id]
            if before_bytes < statement.size_bytes:
                is_larger = row.size_bytes > statement.largest_bytes
                rows.append(row._replace(key=None, value=None) if is_larger else row)
            before_bytes += row.size_bytes
        return WaitingRows(rows, 0)

    def refuse_rows(self, statement: RefuseRows) -> bool:
        for row_id, reason in statement.reasons:
            if row_id in self.outbox:
                self.refused_rows[row_id] = self.outbox.pop(row_id), reason
        return True

    def produce(self, rows: Iterable[OutboxRow]) -> None:
        """A SQL transaction of somebody else is committed."""
        self.outbox.update((row.id, row) for row in rows)
        self.note()

    def checkpoint(self, statement: Checkpoint) -> bool:
        self.logs.update((row.key, row) for row in statement.logs)
        self.chunks.update((row.id, (row, body)) for row, body in statement.chunks)
        for number in [number for number in self.journal if number <= statement.trimmed]:
            del self.journal[number], self.halves[number]
            self.followed.discard(number)
        left = {self.halves[number] for number in self.journal}
        assert left <= {statement.half}, "a round is in the half that is to be left empty"
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
            if row.next_offset <= statement.below.get(row.key, -1):
                del self.chunks[row.id]
        return True

    def move_starts(self, statement: MoveStarts) -> bool:
        for key, offset in statement.starts.items():
            self.starts[key] = max(offset, self.starts.get(key, 0))
        return True

    def delete_logs(self, statement: DeleteLogs) -> bool:
        gone = set(statement.keys)
        for key in gone:
            self.logs.pop(key, None)
            self.starts.pop(key, None)
        self.chunks = {number: chunk for number, chunk in self.chunks.items() if chunk[0].key not in gone}
        return True

    def write_blob(self, statement: WriteBlob) -> bool:
        if statement.data is None:
            self.blobs.pop(statement.path, None)
        else:
            self.blobs[statement.path] = statement.data
        return True

    def measure_tables(self, statement: MeasureTables) -> int:
        return sum(row.size_bytes for row, _ in self.chunks.values())

    def give_back_lease(self, statement: GiveBackLease) -> bool:
        self.until_us, self.successor = 0, statement.successor
        return True

    def drop_node(self, statement: DropNode) -> None:
        if statement.node_id in self.nodes and self.nodes[statement.node_id][0].owner == statement.owner:
            del self.nodes[statement.node_id]

    def want_leader(self, statement: WantLeader) -> None:
        self.wanted = statement.node_id

    def read_blobs(self, statement: ReadBlobs) -> dict[str, bytes]:
        return {path: data for path, data in self.blobs.items() if path.startswith(statement.prefix)}

    @property
    def newest(self) -> int:
        return max(self.journal, default=self.trimmed)

    def follow_metadata(self, statement: FollowMetadata) -> Followed:
        key = METADATA_TOPIC_ID, 0
        chunks = [(row, body) for row, body in self.chunks.values() if row.key == key and row.id not in self.aside]
        chunks.sort(key=lambda chunk: chunk[0].base_offset)
        wanted = [body for row, body in chunks if row.next_offset > statement.from_offset]
        above = max(statement.above, self.trimmed)
        rounds = [
            self.journal[number][1] for number in sorted(self.journal) if number > above and number in self.followed
        ]
        return Followed(self.newest, self.starts.get(key, 0), wanted if self.trimmed > statement.above else [], rounds)

    def keep_place(self, statement: KeepPlace) -> bool:
        self.is_elsewhere = False
        return True

    def forget_place(self, _: ForgetPlace) -> None:
        self.is_elsewhere = True


_BESIDE = frozenset({"attendant", "node_attendants", "replaced", "in_flight", "late", "restores", "states", "tick"})
"""What of a Database is no row of it."""
_ROWS = tuple(each.name for each in fields(Database) if each.name not in _BESIDE)
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
    MeasureTables: Database.measure_tables,
    GiveBackLease: Database.give_back_lease,
    KeepPlace: Database.keep_place,
    LookAtOutbox: Database.look_at_outbox,
    RefuseRows: Database.refuse_rows,
    ForgetPlace: Database.forget_place,
    DropNode: Database.drop_node,
    WantLeader: Database.want_leader,
    ReadBlobs: Database.read_blobs,
    FollowMetadata: Database.follow_metadata,
}


class Fate(Enum):
    """What becomes of a statement."""

    ANSWERED = "answered"
    LOST = "it happens, and the connection is cut before its answer"
    LATE = "the connection is cut, and it happens later"
    NEVER = "the connection is cut, and it never happens"


class End(Enum):
    """How a broker ends at a statement that writes (`FakeTables.writes_left`)."""

    BEFORE = "it never happens"
    AFTER = "it happens"
    LOST = "it happens, its answer is lost, and the broker goes on"


class _Line:
    """The statements of one connection: one is in flight, and those behind it wait for its answer."""

    def __init__(self) -> None:
        self.connection = object()
        """Has the locks that it has taken, until it is cut."""
        self.waiting: deque[tuple[Statement[Any], Completion[Any]]] = deque()
        self.late: list[Effect] = []
        """Sent over connections that were cut, and still to happen: what is sent again waits for their locks."""


class FakeTables:
    """The database, as one broker reaches it: rounds, the lease, and what is written beside them have a connection
    each, and what is read comes in any order."""

    def __init__(
        self,
        database: Database,
        scheduler: Scheduler,
        clock: Clock,
        random: Random,
        *,
        takes_time: bool = True,
        cut_share: float = 0,
        to_broker: Callable[[Callable[[], None]], None] = lambda function: function(),
    ) -> None:
        """With the probability `cut_share` a connection is cut instead of an answer. `scheduler` and `clock` are the
        database's, and `to_broker` runs what its broker does about an answer, where brokers have a time of their own.
        """
        self._database = database
        self._scheduler = scheduler
        self._clock = clock
        self._random = random
        self._takes_time = takes_time
        self._to_broker = to_broker
        self._rounds, self._lease, self._beside, self._attending, self._node, self._outbox = (_Line() for _ in range(6))
        self._written = database.written
        self.cut_share = cut_share
        self.is_away = False
        """The database refuses every connection."""
        self._is_silent = False
        self._unheard: list[Callable[[], object]] = []
        self._cut_alls = 0
        self.cut_count = 0
        self.late_count = 0
        self.is_instant = False
        """See `at_hand`."""
        self.refused: tuple[type, ...] = ()
        """The kinds of statements for which the database lacks space."""
        self.writes_left: int | None = None
        """How many statements that write until the broker ends as `end` says; negative: it has."""
        self.end = End.BEFORE

    def run(self, statement: Statement[T]) -> Completion[T]:
        answered: Completion[T] = Completion()
        if self.is_instant:
            answer = self._execute(self._database, statement)
            if answer is None and isinstance(statement, FetchChunk):
                answer = self._database.replaced.get(statement.id)
            answered.complete(answer)
        elif isinstance(statement, AppendRound | FindRound):
            self._queue(self._rounds, statement, answered)
        elif isinstance(statement, _OF_LEASE):
            self._queue(self._lease, statement, answered)
        elif isinstance(statement, AttendLease):
            self._queue(self._attending, statement, answered)
        elif isinstance(statement, LookAtOutbox | RefuseRows):
            self._queue(self._outbox, statement, answered)
        elif isinstance(statement, _OF_NODE):
            self._queue(self._node, statement, answered)
        elif _writes(statement):
            self._queue(self._beside, statement, answered)
        else:
            self._send(_Line(), statement, answered)
        return answered

    def _queue(self, line: _Line, statement: Statement[Any], answered: Completion[Any]) -> None:
        line.waiting.append((statement, answered))
        if len(line.waiting) > 1:
            return

        def on_answer(_: object) -> None:
            line.waiting.popleft()
            if line.waiting:
                following, completion = line.waiting[0]
                completion.then(on_answer)
                self._send(line, following, completion)

        answered.then(on_answer)
        self._send(line, statement, answered)

    def _send(self, line: _Line, statement: Statement[Any], answered: Completion[Any]) -> None:
        fate = self._fate(statement)
        if fate is Fate.NEVER:
            self._after(lambda: self._cut(line, answered))
            return
        # No take-over has to do with what a start asks of the lease.
        in_flight: list[Effect] = [] if isinstance(statement, _NOT_IN_FLIGHT) else self._database.in_flight
        cut_alls, has_happened = self._cut_alls, False

        def effect(database: Database) -> None:
            nonlocal has_happened
            has_happened = True
            if line is not self._rounds:
                # A transaction that is in its commit has its locks; a round may not have begun to be carried out.
                self._settle_late(line)
            answer = self._executed(database, statement)
            if database is self._database:  # its broker is alive, maybe
                number = database.written
                self._after(lambda: self._answer(line, answered, fate, answer, number, cut_alls))

        def begin() -> None:
            is_there = effect in in_flight
            is_cut = cut_alls != self._cut_alls
            if is_there and not (is_cut and (isinstance(statement, _LOCKING) or self._random.random() < 0.5)):
                in_flight.remove(effect)
                effect(self._database)
            elif not has_happened and fate is not Fate.LATE and effect not in self._database.late:
                if is_there:
                    in_flight.remove(effect)
                self._cut(line, answered)

        in_flight.append(effect)
        if fate is Fate.LATE:
            self.late_count += 1
            line.late.append(effect)
            self._after(begin, _LATE_MS)
            self._after(lambda: self._cut(line, answered))
        else:
            self._after(begin, _LONG_MS if isinstance(statement, _LONG) else _DELAYS_MS)

    def _settle_late(self, line: _Line) -> None:
        late, line.late = line.late, []
        for effect in late:
            if effect in self._database.in_flight:
                self._database.in_flight.remove(effect)
                effect(self._database)

    def _fate(self, statement: Statement[Any]) -> Fate:
        if self.writes_left is not None and _writes(statement) and not isinstance(statement, RenewLease):
            self.writes_left -= 1
            if self.writes_left < 0:
                if self.writes_left == -1 and self.end is not End.BEFORE:
                    if self.end is End.LOST:
                        return Fate.LOST
                    self._execute(self._database, statement)
                if self.end is not End.LOST:
                    raise PowerCut(f"at {type(statement).__name__}")
        if self.is_away:
            return Fate.NEVER
        if self._random.random() >= self.cut_share:
            return Fate.ANSWERED
        may_be_late = _writes(statement) and not isinstance(statement, _LOCKING)
        fates = [Fate.LOST, Fate.NEVER, Fate.LATE] if may_be_late else [Fate.LOST, Fate.NEVER]
        return self._random.choice(fates)

    def _after(self, function: Callable[[], object], delays_ms: Sequence[int] = _DELAYS_MS) -> None:
        def arrive() -> None:
            if self._is_silent:
                self._unheard.append(function)
            else:
                function()

        delay_ms = self._random.choice(delays_ms) if self._takes_time else 0
        if delay_ms:
            self._scheduler.call_later(delay_ms, arrive)
        else:
            self._scheduler.call_soon(arrive)

    def _answer(
        self,
        line: _Line,
        answered: Completion[Any],
        fate: Fate,
        answer: Completion[Any],
        number: int,
        cut_alls: int,
    ) -> None:
        if fate is Fate.LOST or (fate is Fate.ANSWERED and cut_alls != self._cut_alls):
            self._cut(line, answered)
        elif fate is Fate.ANSWERED:
            self._to_broker(lambda: self._on_answer(answered, answer, number))

    def _on_answer(self, answered: Completion[Any], answer: Completion[Any], number: int) -> None:
        self._written = max(self._written, number)
        answer.then(answered._end_as)

    def _cut(self, line: _Line, answered: Completion[Any]) -> None:
        self.cut_count += 1
        self._release(line)
        self._to_broker(lambda: answered.fail(Unanswered("the connection was cut")))

    def _release(self, line: _Line) -> None:
        """A server lets go of the locks of a connection that it knows to be cut."""
        database, connection = self._database, line.connection
        line.connection = object()
        if database.attendant is not None and database.attendant[0] is connection:
            database.attendant = None
        for node_id in [node_id for node_id, each in database.node_attendants.items() if each is connection]:
            del database.node_attendants[node_id]

    def cut_all(self) -> None:
        """Every connection of this broker, whatever it waits for."""
        self._cut_alls += 1
        self.leave()

    def cut_attendance(self) -> None:
        """The connection that attends to the lease."""
        self._release(self._attending)

    def be_silent(self) -> None:
        """Nothing arrives on either side, and nobody notices."""
        self._is_silent = True

    def be_heard(self) -> None:
        """What was sent meanwhile arrives."""
        self._is_silent = False
        unheard, self._unheard = self._unheard, []
        for function in unheard:
            function()

    def run_now(self, statement: Statement[T]) -> T:
        fate = Fate.NEVER if self._is_silent else self._fate(statement)
        self._settle_late(self._beside)
        if fate in (Fate.ANSWERED, Fate.LOST):
            answer: T = self._execute(self._database, statement)
            if fate is Fate.ANSWERED:
                self._written = max(self._written, self._database.written)
                return answer
        elif fate is Fate.LATE:
            # Before whatever writes the same rows.
            self._beside.late.append(effect := lambda database: self._executed(database, statement))
            self._database.in_flight.append(effect)
        self.cut_count += 1
        raise Unanswered("the connection was cut")

    def _executed(self, database: Database, statement: Statement[Any]) -> Completion[Any]:
        try:
            return Completion.of(self._execute(database, statement))
        except (Refused, RoundsLost) as refusal:
            return Completion.failed(refusal)

    def _execute(self, database: Database, statement: Statement[Any]) -> Any:
        if isinstance(statement, self.refused):
            raise Refused("could not extend a file: no space left on device")
        match statement:
            case LookAtLease():
                return self._look_at_lease(database)
            case TakeLease():
                return self._take_lease(database, statement)
            case RenewLease():
                return self._renew_lease(database, statement)
            case AttendLease():
                return self._attend_lease(database, statement)
            case KeepNode():
                return self._keep_node(database, statement)
            case LookAtNodes():
                return self._look_at_nodes(database)
        if _writes(statement) and not isinstance(statement, _NOT_WRITTEN):
            if database.written < self._written:
                raise RoundsLost
            database.written += 1
        return database.execute(statement)

    def _now_us(self) -> int:
        return self._clock.monotonic_ms() * 1000

    def _look_at_lease(self, database: Database) -> Lease:
        left_ms = (database.until_us - self._now_us()) / 1000 if database.until_us else 0
        is_attended = database.attendant is not None and database.attendant[1] == database.epoch
        return Lease(
            *(database.epoch, database.owner, database.until_us, left_ms, is_attended),
            *(database.node_id, database.successor, (self._now_us() - database.since_us) / 1000),
        )

    def _take_lease(self, database: Database, statement: TakeLease) -> TakenLease | None:
        if database.owner != statement.owner:
            if database.take_lease(self._random, statement.seen) is None:
                return None
            database.owner, database.node_id, database.attendant = statement.owner, statement.node_id, None
            database.successor = database.wanted = NOBODY
            database.since_us = self._now_us()
            database.until_us = database.since_us + statement.lease_ms * 1000
            database.note()
        return TakenLease(database.epoch, database.is_elsewhere)

    def _renew_lease(self, database: Database, statement: RenewLease) -> bool:
        if not database.may_write(statement.epoch):
            return False
        database.until_us = self._now_us() + statement.lease_ms * 1000
        return True

    def _attend_lease(self, database: Database, statement: AttendLease) -> Attendance:
        if not database.may_write(statement.epoch):
            return Attendance.NONE
        attendant = self._attending.connection, statement.epoch
        if database.attendant is not None and database.attendant[1] == statement.epoch:
            return Attendance.KEPT if database.attendant == attendant else Attendance.NONE
        database.attendant = attendant
        return Attendance.BEGUN

    def _keep_node(self, database: Database, statement: KeepNode) -> KeptNode:
        row = statement.row
        connection = self._node.connection
        if database.node_attendants.setdefault(row.node_id, connection) is not connection:
            known, until_us = database.nodes.get(row.node_id, (row, 0))
            return KeptNode(False, known.owner, until_us)
        database.nodes[row.node_id] = row, self._now_us() + statement.lease_ms * 1000
        return KeptNode(True, row.owner, 0)

    def _look_at_nodes(self, database: Database) -> SeenNodes:
        now_us = self._now_us()
        rows = [row._replace(is_over=until_us <= now_us) for row, until_us in database.nodes.values()]
        return SeenNodes(sorted(rows), database.newest, database.wanted)

    def leave(self) -> None:
        """Its connections are closed."""
        for line in (self._attending, self._node):
            self._release(line)


def _writes(statement: Statement[Any]) -> bool:
    return hasattr(statement, "epoch")


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
