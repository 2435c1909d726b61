"""The tables of a shared store in virtual time, as one broker reaches them: statements take time.

Owns: when a statement takes effect, and when its answer comes, if it comes; connections, and the locks that they have.
Does not own: the rows (`database`), who takes the lease, and when (`tests.simulation.tables_world`).
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from random import Random
from typing import Any, TypeVar

from oncelog.broker.storage.shared.fetches import Fetches
from oncelog.broker.storage.shared.log import SharedLog
from oncelog.broker.storage.shared.statements import _WAITED_OUT, RoundsLost
from oncelog.broker.storage.shared.tables import (
    NO_NODE,
    AppendRound,
    Attendance,
    AttendLease,
    Checkpoint,
    DeleteLogs,
    DropChunks,
    DropNode,
    Failing,
    FetchChunk,
    FindRound,
    GiveBackLease,
    KeepNode,
    KeptNode,
    Lease,
    ListOutbox,
    LookAtLease,
    LookAtNodes,
    LookAtOutbox,
    NewerTables,
    Refused,
    RefuseRows,
    RenewLease,
    ReplaceChunks,
    SeenNodes,
    Statement,
    TakeLease,
    TakenLease,
    Unanswered,
)
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Clock, Scheduler
from oncelog.testing.memory_disk import PowerCut
from tests.fakes.database import Database, Effect
from tests.history.auditor import HistoryError

T = TypeVar("T")
_DELAYS_MS = (0, 0, 1, 3, 10, 40)
_LONG_MS = (*_DELAYS_MS, *_DELAYS_MS, 400, 2_500)
_LATE_MS = (1, 40, 400, 4_000)
_ANSWER_MS = 15_000
KEEPALIVE_MS = 11_000
"""The keepalive that `storage.postgres` asks for."""
_LONG = Checkpoint | ReplaceChunks | DropChunks | DeleteLogs
"""They may have much to do."""
_OF_LEASE = LookAtLease | TakeLease | RenewLease
_OF_NODE = KeepNode | DropNode
_NOT_WRITTEN = AppendRound | GiveBackLease | AttendLease | RefuseRows
"""Statements that have an epoch, and are not counted as written beside rounds."""
_CANCELLED = (*_WAITED_OUT, RenewLease)
_LOCKING = AttendLease | KeepNode
"""Statements whose effect ends with their connection."""


class Fate(Enum):
    """The outcome of a statement."""

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
        self.is_silent = False
        """All packets of its connection are dropped, and neither side has noticed that."""


class FakeTables:
    """The database, as one broker reaches it: rounds, the lease, and what is written beside them have a connection
    each, the lease and its attendance have another one each while the first does not answer, and what is read comes in
    any order."""

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
        """`cut_share` is the probability that a connection is cut instead of an answer. `scheduler` and `clock` are the
        database's, and `to_broker` runs what its broker does about an answer, where brokers have a time of their own.
        """
        self._database = database
        self._scheduler = scheduler
        self._clock = clock
        self._random = random
        self._takes_time = takes_time
        self._to_broker = to_broker
        self._rounds, self._beside, self._node, self._outbox = (_Line() for _ in range(4))
        self._lease, self._attending = ([_Line(), _Line()] for _ in range(2))
        """The first of them was asked last."""
        self._asked_over = _Line()
        """The connection of the statement that happens."""
        self._written = database.written
        self._appended = 0
        """The newest round that its broker knows to be appended."""
        self.cut_share = cut_share
        self.is_away = False
        """The database refuses every connection."""
        self.release = 1
        """The version of the tables that this release knows."""
        self.cancel_share = 0.0
        """The probability that a statement is cancelled: one that is asked before a broker leads, or a renewal."""
        self._is_closed = False
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
            self._queue(_free(self._lease), statement, answered)
        elif isinstance(statement, AttendLease):
            self._queue(_free(self._attending), statement, answered)
        elif isinstance(statement, LookAtOutbox | ListOutbox | RefuseRows):
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
        if line.is_silent or fate is Fate.NEVER:
            self._lose(line, answered)
            return
        # A take-over has nothing to do with what asks for no epoch, or for a lock alone.
        is_fenced = _writes(statement) and not isinstance(statement, AttendLease)
        in_flight: list[Effect] = self._database.in_flight if is_fenced else []
        cut_alls, has_happened = self._cut_alls, False

        def effect(database: Database) -> None:
            nonlocal has_happened
            has_happened = True
            if line is not self._rounds:
                # A transaction that is in its commit has its locks; a round may not have begun to be carried out.
                self._settle_late(line)
            self._asked_over = line
            is_cancelled = isinstance(statement, _CANCELLED) and self._random.random() < self.cancel_share
            answer = _cancelled() if is_cancelled else self._executed(database, statement)
            if database is self._database:  # its broker is alive, maybe
                done = database.written, self._appended_by(statement, answer)
                self._after(lambda: self._answer(line, answered, fate, answer, done, cut_alls))

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
        done: tuple[int, int],
        cut_alls: int,
    ) -> None:
        if fate is Fate.LOST or (fate is Fate.ANSWERED and cut_alls != self._cut_alls):
            self._cut(line, answered)
        elif fate is Fate.ANSWERED:
            self._to_broker(lambda: self._on_answer(answered, answer, *done))

    @staticmethod
    def _appended_by(statement: Statement[Any], answer: Completion[Any]) -> int:
        is_added = isinstance(statement, AppendRound) and answer.error is None and answer.result()
        return statement.number if is_added else 0  # type: ignore[attr-defined]

    def _on_answer(self, answered: Completion[Any], answer: Completion[Any], written: int, appended: int) -> None:
        self._written, self._appended = max(self._written, written), max(self._appended, appended)
        answer.then(answered._end_as)

    def _cut(self, line: _Line, answered: Completion[Any]) -> None:
        self.cut_count += 1
        self._release(line)
        if self._is_closed:
            self._to_broker(lambda: _cancelled().then(answered._end_as))
        else:
            self._to_broker(lambda: answered.fail(Unanswered("the connection was cut")))

    def _lose(self, line: _Line, answered: Completion[Any]) -> None:
        if line.is_silent:
            self._scheduler.call_later(_ANSWER_MS, lambda: self._cut(line, answered))
        else:
            self._after(lambda: self._cut(line, answered))

    def _release(self, line: _Line) -> None:
        """A server lets go of the locks of a connection that it knows to be cut."""
        database, connection = self._database, line.connection
        line.connection, line.is_silent = object(), False
        if database.attendant is not None and database.attendant[0] is connection:
            database.attendant = None
        for node_id in [node_id for node_id, each in database.node_attendants.items() if each is connection]:
            del database.node_attendants[node_id]

    def cut_all(self) -> None:
        """Every connection of this broker, whatever it waits for."""
        self._cut_alls += 1
        self.leave()

    def close(self) -> None:
        """Its broker closes the connections: a driver cancels what is in flight."""
        self._is_closed = True
        self.cut_all()

    def cut_attendance(self) -> None:
        """The connection that attends to the lease."""
        self._release(self._attending[0])

    def drop_packets(self, *, of_attendance: bool) -> None:
        """Drop the packets of one connection, the one that attends to the lease or that renews it. The server notices
        that after its keepalives, and this side after what an answer may take.
        """
        line = (self._attending if of_attendance else self._lease)[0]
        line.is_silent = True
        database, connection = self._database, line.connection

        def on_noticed() -> None:
            if database.attendant is not None and database.attendant[0] is connection:
                database.attendant = None

        self._scheduler.call_later(KEEPALIVE_MS, on_noticed)

    def be_silent(self) -> None:
        """Hold back everything on either side, unnoticed."""
        self._is_silent = True

    def be_heard(self) -> None:
        """Deliver what was held back meanwhile."""
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
                done = self._database.written, self._appended_by(statement, Completion.of(answer))
                self._written, self._appended = max(self._written, done[0]), max(self._appended, done[1])
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
        except (Failing, NewerTables, Refused, RoundsLost) as refusal:
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
            if database.written < self._written or database.newest < self._appended:
                raise RoundsLost
            database.written += 1
        database.writer = self
        return database.execute(statement)

    def _now_us(self) -> int:
        return self._clock.monotonic_ms() * 1000

    def _look_at_lease(self, database: Database) -> Lease:
        left_ms = (database.until_us - self._now_us()) / 1000 if database.until_us else 0
        is_attended = database.attendant is not None and database.attendant[1] == database.epoch
        return Lease(
            *(database.epoch, database.owner, database.until_us, left_ms, is_attended),
            *(database.node_id, database.successor, (self._now_us() - database.since_us) / 1000, database.wanted),
        )

    def _take_lease(self, database: Database, statement: TakeLease) -> TakenLease | None:
        if not self._knows(database):
            raise NewerTables(database.version, self.release)
        if database.owner != statement.owner:
            deposed, was_held = database.owner, database.until_us > 0
            if database.take_lease(self._random, statement.seen, statement.jump) is None:
                return None
            if was_held:
                database.depose(deposed, self._now_us())
            if self.release < database.version:
                raise HistoryError(
                    f"I36, no node takes the lease of tables that a newer release has changed: release {self.release} "
                    f"took it at version {database.version}"
                )
            database.owner, database.node_id, database.attendant = statement.owner, statement.node_id, None
            database.successor = database.wanted = NO_NODE
            database.since_us = self._now_us()
            database.until_us = database.since_us + statement.lease_ms * 1000
            database.note()
        return TakenLease(database.epoch, database.is_elsewhere, database.place)

    def _knows(self, database: Database) -> bool:
        return database.version <= self.release

    def _renew_lease(self, database: Database, statement: RenewLease) -> str:
        if not database.may_write(statement.epoch):
            return ""
        if database.until_us:
            database.until_us = self._now_us() + statement.lease_ms * 1000
        return database.place

    def _attend_lease(self, database: Database, statement: AttendLease) -> Attendance:
        if not database.may_write(statement.epoch):
            return Attendance.NONE
        attendant = self._asked_over.connection, statement.epoch
        if database.attendant is not None and database.attendant[1] == statement.epoch:
            if database.attendant == attendant:
                return Attendance.KEPT
            database.attendant = None  # it is an earlier connection of the same owner
            return Attendance.NONE
        database.attendant = attendant
        return Attendance.BEGUN

    def _keep_node(self, database: Database, statement: KeepNode) -> KeptNode:
        row = statement.row
        connection = self._node.connection
        if database.node_attendants.setdefault(row.node_id, connection) is not connection:
            other, until_us = database.nodes.get(row.node_id, (row, 0))
            return KeptNode(False, other.owner, until_us)
        known = database.nodes.get(row.node_id)
        if not row.addresses and known is not None:
            row = row._replace(addresses=known[0].addresses)
        database.nodes[row.node_id] = row, self._now_us() + statement.lease_ms * 1000
        return KeptNode(True, row.owner, 0)

    def _look_at_nodes(self, database: Database) -> SeenNodes:
        now_us = self._now_us()
        rows = [
            row._replace(is_over=until_us <= now_us, left_ms=(until_us - now_us) / 1000)
            for row, until_us in database.nodes.values()
        ]
        return SeenNodes(sorted(rows), database.newest, database.wanted)

    def leave(self) -> None:
        """Its connections are closed."""
        for line in (*self._attending, self._node):
            self._release(line)


def _free(lines: list[_Line]) -> _Line:
    """The one that was asked last, unless it has not answered."""
    found = next((line for line in lines if not line.waiting), lines[0])
    lines.sort(key=lambda line: line is not found)
    return found


def _cancelled() -> Completion[Any]:
    return Completion.failed(Refused("canceling statement due to user request"))


def _writes(statement: Statement[Any]) -> bool:
    return hasattr(statement, "epoch")


@contextmanager
def at_hand(log: SharedLog) -> Iterator[None]:
    """Read chunks at once, whatever is in flight, for observers."""
    cache = log._cache
    tables = cache._fetches._statements._tables
    assert isinstance(tables, FakeTables)
    fetches, tables.is_instant = cache._fetches, True
    cache._fetches = Fetches(fetches._statements, cache._on_fetched)
    yield
    cache._fetches, tables.is_instant = fetches, False
