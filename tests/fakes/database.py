"""A database of a shared store: the rows of its tables, which outlive every broker.

Owns: what each statement does to them; what becomes of statements that are in flight when their broker ends; what is
lost when the tables go back to an earlier state. Does not own: when a statement takes effect, connections and their
locks, and whether an answer comes (`tables`).
"""

from collections import deque
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass, field, fields
from random import Random
from typing import Any, NamedTuple

from oncelog.broker.storage.sections import LogKey
from oncelog.broker.storage.shared.tables import (
    LOST_EPOCHS,
    NO_NODE,
    AddAside,
    AppendRound,
    Catalogue,
    Checkpoint,
    ChunkRow,
    DeleteLogs,
    DropAside,
    DropChunks,
    DropNode,
    Failing,
    FetchChunk,
    FindRound,
    Followed,
    FollowMetadata,
    ForgetPlace,
    FoundRound,
    GiveBackLease,
    KeepPlace,
    Lease,
    ListOutbox,
    LogRow,
    LookAtOutbox,
    MeasureTables,
    MoveStarts,
    NodeRow,
    OutboxRow,
    ReadBlobs,
    ReadCatalogue,
    ReadRounds,
    RefuseRows,
    ReplaceChunks,
    Round,
    Statement,
    WaitingRows,
    WantLeader,
    WriteBlob,
)
from oncelog.protocol.topics import METADATA_TOPIC_ID
from tests.history.auditor import HistoryError

Effect = Callable[["Database"], object]
_ROUNDS_A_PIECE = 3
_STATES = 400
"""The number of the newest states that are kept."""


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
    node_id: int = NO_NODE
    """The node id of the owner."""
    successor: int = NO_NODE
    wanted: int = NO_NODE
    since_us: int = 0
    """When the lease was taken."""
    nodes: dict[int, tuple[NodeRow, int]] = field(default_factory=dict)
    """Each node, and the time until which it is there."""
    attendant: tuple[object, int] | None = None
    """The connection that attends to the lease, and its epoch."""
    node_attendants: dict[int, object] = field(default_factory=dict)
    """The connection that keeps each node id."""
    is_elsewhere: bool = False
    """It was restored, and no start has continued from there."""
    has_jumped: bool = False
    """The epoch has moved past the lost ones since the restore."""
    journal: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    """Epoch and body by number."""
    followed: set[int] = field(default_factory=set)
    """The numbers of rounds with records of the metadata log."""
    halves: dict[int, int] = field(default_factory=dict)
    """The half of the journal that holds each round."""
    trimmed: int = 0
    written: int = 0
    """Statements that were written beside rounds."""
    logs: dict[LogKey, LogRow] = field(default_factory=dict)
    chunks: dict[int, tuple[ChunkRow, bytes]] = field(default_factory=dict)
    aside: set[int] = field(default_factory=set)
    """The ids of chunks that belong to no log yet."""
    starts: dict[LogKey, int] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    outbox: dict[int, OutboxRow] = field(default_factory=dict)
    unreadable: set[int] = field(default_factory=set)
    """The rows of the outbox at which each question fails that reads them."""
    unmovable: set[int] = field(default_factory=set)
    """The ids of rows that the table of refused rows does not take."""
    refused_rows: dict[int, tuple[OutboxRow, str]] = field(default_factory=dict)
    """The refused rows, with the reasons."""
    replaced: dict[int, bytes] = field(default_factory=dict)
    """Chunks that compaction has replaced: for observers only."""
    in_flight: list[Effect] = field(default_factory=list)
    """Statements that were sent and have not taken effect."""
    late: list[Effect] = field(default_factory=list)
    """Statements in flight of brokers that have lost the lease."""
    writer: object = None
    """The broker whose statement is carried out: for observers only."""
    version: int = 1
    """The version of the tables: the newest release that was started on them."""
    restores: int = 0
    """How often the rows went back to an earlier state. That cuts every connection."""
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
        self.is_elsewhere, self.has_jumped = True, False
        self.attendant = None
        self.node_attendants.clear()
        self.restores += 1
        return lost[-1].tick

    @property
    def place(self) -> str:
        """Name the server, timeline or copy."""
        return f"restored {self.restores} times"

    def note(self) -> None:
        if self.tick is not None:
            self.states.append(State(self.tick(), {name: copy(getattr(self, name)) for name in _ROWS}))

    def take_lease(self, random: Random, seen: Lease | None = None, jump: int = LOST_EPOCHS) -> int | None:
        """Take the lease: return the new epoch, or None if the lease is not as it was `seen`. Statements that the old
        owner has in flight take effect before, later (as if it had slept), or never. The epoch moves by `jump` if
        others may be lost.
        """
        never: list[Effect] = []
        later: list[Effect] = []
        for effect in list(self.in_flight):
            fate = random.choice(["before", "never", "later"])
            if effect not in self.in_flight:
                continue  # another has made it happen
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
        self.epoch += jump if self.is_elsewhere and not self.has_jumped else 1
        self.has_jumped = self.is_elsewhere
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
        """Carry out the statements of brokers that have lost the lease, where they still may write."""
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
        taken = set(statement.taken)
        if not self.outbox.keys() >= taken or len(taken) < len(statement.taken):
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
        wanted = self.outbox.keys() if statement.ids is None else self.outbox.keys() & set(statement.ids)
        first = sorted(wanted - set(statement.left))[: statement.row_count]
        if not self.unreadable.isdisjoint(first):
            return WaitingRows((), 0, "one of them cannot be read")
        for row_id in first:
            row = self.outbox[row_id]
            if before_bytes < statement.size_bytes:
                is_larger = row.size_bytes > statement.largest_bytes
                rows.append(row._replace(key=None, value=None) if is_larger else row)
            before_bytes += row.size_bytes
        return WaitingRows(rows, 0)

    def list_outbox(self, statement: ListOutbox) -> list[int]:
        return sorted(self.outbox.keys() - set(statement.left))[: statement.row_count]

    def refuse_rows(self, statement: RefuseRows) -> bool:
        if not self.unmovable.isdisjoint(self.outbox.keys() & {row_id for row_id, _ in statement.reasons}):
            raise Failing("it violates a check constraint")
        for row_id, reason in statement.reasons:
            if row_id in self.outbox:
                self.refused_rows[row_id] = self.outbox.pop(row_id), reason
        return True

    def produce(self, rows: Iterable[OutboxRow]) -> None:
        """Commit a SQL transaction of an application."""
        self.outbox.update((row.id, row) for row in rows)
        self.note()

    def checkpoint(self, statement: Checkpoint) -> bool:
        self.logs.update((row.key, row) for row in statement.logs)
        self.chunks.update((row.id, (row, body)) for row, body in statement.chunks)
        for number in [number for number in self.journal if number <= statement.trimmed]:
            del self.journal[number], self.halves[number]
            self.followed.discard(number)
        left = {self.halves[number] for number in self.journal}
        if not left <= {statement.half}:
            raise HistoryError("a round is in the half that is to be left empty")
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
            self.nodes[statement.node_id] = self.nodes[statement.node_id][0]._replace(followed=NO_NODE), 0

    def depose(self, owner: str, now_us: int) -> None:
        """It has ended, until it renews its row."""
        for node_id, (row, until_us) in self.nodes.items():
            if row.owner == owner:
                self.nodes[node_id] = row, min(until_us, now_us)

    def want_leader(self, statement: WantLeader) -> None:
        self.wanted = statement.node_id

    def read_blobs(self, statement: ReadBlobs) -> dict[str, bytes]:
        return {path: data for path, data in self.blobs.items() if path.startswith(statement.prefix)}

    @property
    def newest(self) -> int:
        return max((self.trimmed, *self.journal))

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
        if statement.place == self.place:
            self.is_elsewhere = False
        return True

    def forget_place(self, _: ForgetPlace) -> None:
        self.is_elsewhere, self.has_jumped = True, False


_BESIDE = frozenset(
    {"attendant", "node_attendants", "replaced", "in_flight", "late", "writer", "restores", "states", "tick"}
)
"""The fields of a Database that are no rows of it."""
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
    ListOutbox: Database.list_outbox,
    RefuseRows: Database.refuse_rows,
    ForgetPlace: Database.forget_place,
    DropNode: Database.drop_node,
    WantLeader: Database.want_leader,
    ReadBlobs: Database.read_blobs,
    FollowMetadata: Database.follow_metadata,
}
