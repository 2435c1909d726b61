"""The port to a database: statements as values, so that one whose answer was lost can be sent again.

Owns: what each statement means. Does not own: its SQL (`storage.postgres`), when it is sent again
(`statements`).

Contract
- A statement happens as a whole or not at all, and is durable before it is answered. Those of one broker that are in
  flight at the same time happen in any order.
- One that has an `epoch` happens only if that is the newest at its commit. Else it changes nothing and answers False.
- Each can be sent again after it has happened: it changes nothing then. Only `AppendRound` answers differently.
- A statement that was answered is there when the next is written. In a database that was restored, or a standby of it
  that was promoted too early, it may be missing: the next write then fails with RoundsLost (`statements`), and changes
  nothing.
- A round that `FindRound` has found is as durable as one that was answered, even if it was visible before it was.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from errno import ENOSPC
from typing import Generic, NamedTuple, Protocol, TypeVar

from oncelog.broker.log.leader_epochs import EpochStart
from oncelog.broker.storage.sections import LogKey
from oncelog.broker.turns.completion import Completion

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
NO_NODE = -1
"""Stands for no node, in the place of a node id."""
LARGEST_BYTES = 32 * 1024 * 1024
"""The limit of key, value and headers of an outbox's row: as in the relay (`oncelog outbox`) and oncelog.produce."""


class Unanswered(OSError):
    """The statement's outcome is unknown, and it may still be executed: its connection was lost."""


class Refused(OSError):
    """The database lacks something for the statement, such as space: it is not committed, and may be when it is sent
    again."""

    def __init__(self, reason: str) -> None:
        super().__init__(ENOSPC, reason)

    def __str__(self) -> str:
        return str(self.strerror)  # the number is of one reason among others


class Failing(OSError):
    """The database fails at the statement itself and lacks nothing: it is not committed, and would fail again."""


class NewerTables(OSError):
    """A newer release has changed the tables, so this one cannot know what they mean."""

    def __init__(self, version: int, known: int) -> None:
        super().__init__(
            f"the tables have version {version} since a newer release was started on them, and this one knows {known}: "
            "upgrade this node"
        )


class LogRow(NamedTuple):
    """The row of one log in the catalogue."""

    key: LogKey
    topic: str
    next_offset: int
    """Everything below it is in chunks, or deleted; the rest is in the journal."""
    epochs: tuple[EpochStart, ...]
    snapshot: bytes
    """The producers at `next_offset`, see `storage.producer_snapshot`."""
    producer_batches: bytes


class ChunkRow(NamedTuple):
    """A chunk without its batches."""

    key: LogKey
    id: int
    segment_base: int
    base_offset: int
    next_offset: int
    size_bytes: int
    checksum: int
    """CRC-32C of the batches."""
    first_timestamp: int
    max_timestamp: int
    aborted: bytes
    """The aborted transactions whose markers it holds, see `storage.transaction_index`."""
    open_producers: tuple[int, ...]
    """The producers with a transaction open at the base of its segment."""


class NewChunk(NamedTuple):
    row: ChunkRow
    body: bytes


class Round(NamedTuple):
    number: int
    body: bytes
    half: int


class Catalogue(NamedTuple):
    logs: Sequence[LogRow]
    chunks: Sequence[ChunkRow]
    """In the order of their offsets."""
    starts: Mapping[LogKey, int]
    blobs: Mapping[str, bytes]
    trimmed: int
    """The number of the newest round that the catalogue covers."""


class OutboxRow(NamedTuple):
    """A record that a SQL transaction of the same database has produced, and that waits to be taken."""

    id: int
    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    """The value; None as well if key, value and headers together exceed the limit of the question."""
    headers: str | None
    """Pairs of texts, as JSON."""
    at_ms: int
    """When it was produced, by the clock of the database."""
    size_bytes: int
    problem: str = ""
    """Why the row cannot become a record, if so: `oncelog.produce` did not write it."""


class WaitingRows(NamedTuple):
    rows: Sequence[OutboxRow]
    """The rows, ordered by id. Every row that a transaction committed before is among them, or was taken."""
    waited_ms: float
    """How long the first of them has waited."""
    problem: str = ""
    """Why none can be read, if one of them makes PostgreSQL fail the query. The connection and the tables are fine, and
    the query fails each time."""


class Statement(Generic[T_co]):
    """A question or command to the database; T is the type of its answer."""


class Lease(NamedTuple):
    """The lease as one look has found it: its owner, and for how long it lasts."""

    epoch: int
    owner: str
    """Empty if the lease was never taken."""
    renewed: int
    """Changes with each renewal; 0 once it was given back."""
    left_ms: float
    """The time until it is over, by the clock of the database; not above 0 once it is, or was given back."""
    is_attended: bool
    """Whether a connection of the owner is open."""
    node_id: int = NO_NODE
    """The node id of the owner."""
    successor: int = NO_NODE
    """The node to which it was given back."""
    held_ms: float = 0
    """The time since it was taken."""
    wanted: int = NO_NODE
    """The node to which it will soon be given."""


class NodeAddress(NamedTuple):
    listener: str
    host: str
    port: int


class NodeRow(NamedTuple):
    """A node at work on the tables, whether it leads or stands by."""

    node_id: int
    owner: str
    """The owner's name, as in its lease: no other start has it."""
    addresses: tuple[NodeAddress, ...]
    """Its advertised addresses; until it listens, those of the start before this one: clients would forget a node that
    is not named for a moment."""
    followed: int = -1
    """The round up to which it knows the metadata log, if it stands by; a leader has all of it."""
    is_over: bool = False
    """Whether it has ended, or was not renewed in time."""
    left_ms: float = 0
    """The time until it is over unless it is renewed, by the clock of the database; 0 in a row that a node writes."""


class SeenNodes(NamedTuple):
    nodes: Sequence[NodeRow]
    """In the order of their ids."""
    newest: int
    """The number of the newest round."""
    wanted: int
    """The node that an operator wants to lead; `NO_NODE` if none."""


class Attendance(Enum):
    """The result of `AttendLease`."""

    KEPT = "this connection attends to it since the last time"
    BEGUN = "it does from now on"
    NONE = "another connection does, or the lease is another's"


class KeptNode(NamedTuple):
    is_kept: bool
    owner: str
    """The owner of the node id, in the newest row."""
    renewed: int
    """Changes each time that owner renews it."""


class Followed(NamedTuple):
    """The news of one log since the last look."""

    number: int
    """The newest round that was looked at."""
    start_offset: int
    chunks: Sequence[bytes]
    """Its batches that are in chunks, in order; only if rounds that were not looked at are trimmed."""
    rounds: Sequence[bytes]
    """The rounds that have records of it, in order."""


class TakenLease(NamedTuple):
    epoch: int
    is_elsewhere: bool
    """Whether the database is not where the last start has left it: it was promoted, or restored, or is a copy. Records
    that it had acknowledged may be gone."""
    place: str = ""
    """Where the database is now, as a renewal answers it."""


LOST_EPOCHS = 1 << 16
"""How far the epoch of the lease moves at least if the database is elsewhere. A broker that is still alive may have an
epoch from the lost part of the past, and no other may get the same."""
LOST_EPOCHS_SPREAD = 1 << 20
"""How much further it moves at random: the epoch of a database that is restored twice moves from the same number twice.
An epoch has 31 bits (`chunks` puts it before the 32 of a counter), which is room for 1,900 moves of the largest size.
"""


class FoundRound(NamedTuple):
    epoch: int
    """The epoch in which the round was appended; −1 if there is none."""
    newest_epoch: int
    """The epoch of the lease."""
    has_before: bool = True
    """Whether the round before it is there, or trimmed."""


@dataclass(frozen=True)
class LookAtLease(Statement[Lease]):
    """Read the lease."""


@dataclass(frozen=True)
class TakeLease(Statement[TakenLease | None]):
    """Become the broker that may write, if the lease is still as it was seen; else None. Statements that the owner
    before has in flight are committed by then, or never will be. Fails with NewerTables if a newer release has changed
    the tables, which it may have done since this broker looked at them.

    The epoch moves by one. It moves by `jump` in the first leadership in a database that is elsewhere."""

    seen: Lease
    owner: str
    """A unique name."""
    lease_ms: int
    jump: int
    """A distance as `epoch_jump` draws it, another one each time."""
    node_id: int = NO_NODE


@dataclass(frozen=True)
class RenewLease(Statement[str]):
    """Extend the lease to `lease_ms` from now, unless it was given back: a renewal in flight may come after that.
    Answers where the database is, which changes when it is promoted, restored or copied; empty if nothing was renewed.
    """

    epoch: int
    lease_ms: int


@dataclass(frozen=True)
class AttendLease(Statement[Attendance]):
    """Keep a connection open that shows others that the owner of this epoch is alive. Writes nothing."""

    epoch: int


@dataclass(frozen=True)
class GiveBackLease(Statement[bool]):
    """Release the lease; `successor` may take it first."""

    epoch: int
    successor: int = NO_NODE


@dataclass(frozen=True)
class KeepNode(Statement[KeptNode]):
    """Renew the row of this node for `lease_ms`, unless another connection keeps the row of its id."""

    row: NodeRow
    lease_ms: int


@dataclass(frozen=True)
class DropNode(Statement[None]):
    """Mark the node as ended. Its addresses stay known for a while."""

    node_id: int
    owner: str


@dataclass(frozen=True)
class LookAtNodes(Statement[SeenNodes]):
    """Read the rows of all nodes."""


@dataclass(frozen=True)
class WantLeader(Statement[None]):
    """Ask the leader to give the lease to this node; the wish ends when the lease is taken."""

    node_id: int


@dataclass(frozen=True)
class ReadBlobs(Statement[Mapping[str, bytes]]):
    """Read the small values whose paths begin with `prefix`."""

    prefix: str


@dataclass(frozen=True)
class FollowMetadata(Statement[Followed]):
    """Read what was added to the metadata log above this round, from this offset on."""

    above: int
    from_offset: int


@dataclass(frozen=True)
class KeepPlace(Statement[bool]):
    """Note where the database is, for the next start to compare, once all consequences of `TakenLease.is_elsewhere` are
    durable. Changes nothing if the database has moved since."""

    epoch: int
    place: str
    """The place that the newest renewal has answered."""


@dataclass(frozen=True)
class ForgetPlace(Statement[None]):
    """Make the next start find the database elsewhere, as it lacks rounds that were committed in it."""


@dataclass(frozen=True)
class ReadCatalogue(Statement[Catalogue]):
    """Read everything that a start needs beside the journal."""


@dataclass(frozen=True)
class ReadRounds(Statement[Sequence[Round]]):
    """Read the next rounds of the journal in order, as many as fit into one answer; none at its end."""

    above: int


@dataclass(frozen=True)
class MeasureTables(Statement[int]):
    """Measure the bytes of all tables with their indexes."""


@dataclass(frozen=True)
class AppendRound(Statement[bool]):
    """Add a round to the journal, and delete the rows of the outbox that became records in it. False: nothing was
    added or deleted, as the lease is another's, the number is taken, the round before it is gone, or one of the rows
    is."""

    epoch: int
    number: int
    bodies: tuple[bytes, ...]
    """The body, in pieces that a row may have."""
    half: int = 0
    """The half of the journal to which it goes: one half can be emptied while the other grows."""
    half_before: int = 0
    """The half that has the round before it, if that is not trimmed."""
    is_followed: bool = False
    """Whether it has records of the metadata log, which other nodes follow."""
    taken: tuple[int, ...] = ()
    """The ids of the outbox's rows."""


@dataclass(frozen=True)
class LookAtOutbox(Statement[WaitingRows]):
    """Read the first rows that wait: at most `row_count`, of about `size_bytes`, but at least one."""

    row_count: int
    size_bytes: int
    largest_bytes: int
    """Rows that are larger come without key, value and headers."""
    ids: tuple[int, ...] | None = None
    """The only rows to read, if given."""
    left: tuple[int, ...] = ()
    """Rows to pass by."""


@dataclass(frozen=True)
class ListOutbox(Statement[Sequence[int]]):
    """List the ids of the first rows that wait: at most `row_count`, none of `left`. No other column is read."""

    row_count: int
    left: tuple[int, ...] = ()


@dataclass(frozen=True)
class RefuseRows(Statement[bool]):
    """Move rows to the refused ones, each with the reason."""

    epoch: int
    reasons: tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class FindRound(Statement[FoundRound]):
    """Look whether the round with this number is in the journal, and in which epoch it was appended."""

    number: int


@dataclass(frozen=True)
class Checkpoint(Statement[bool]):
    """Add chunks, replace rows of the catalogue, and trim the journal up to a round."""

    epoch: int
    trimmed: int
    half: int
    """The half to which later rounds go: the other half is left empty."""
    logs: Iterable[LogRow]
    chunks: Iterable[NewChunk]
    """Chunks that are made as they are iterated, the same each time: a driver that takes as many as it can send keeps
    neither all of them in memory nor the loop busy."""


@dataclass(frozen=True)
class FetchChunk(Statement[bytes | None]):
    """Read the batches of a chunk; None if it is gone."""

    id: int


@dataclass(frozen=True)
class AddAside(Statement[bool]):
    """Write chunks that are part of no log, and not in the catalogue, until `ReplaceChunks` puts them in place."""

    epoch: int
    chunks: Sequence[NewChunk]


@dataclass(frozen=True)
class ReplaceChunks(Statement[bool]):
    """Replace the chunks `ids` by the chunks `added`, which were written aside."""

    epoch: int
    ids: tuple[int, ...]
    added: tuple[int, ...]


@dataclass(frozen=True)
class DropAside(Statement[bool]):
    """Delete the chunks that lie aside, which an earlier writer has left."""

    epoch: int


@dataclass(frozen=True)
class DropChunks(Statement[bool]):
    """Delete the chunks of these logs that end at or below these offsets."""

    epoch: int
    below: Mapping[LogKey, int]


@dataclass(frozen=True)
class MoveStarts(Statement[bool]):
    """Move the start offsets of logs forward to these; none moves back."""

    epoch: int
    starts: Mapping[LogKey, int]


@dataclass(frozen=True)
class DeleteLogs(Statement[bool]):
    """Delete everything of these logs except their rounds in the journal."""

    epoch: int
    keys: tuple[LogKey, ...]


@dataclass(frozen=True)
class WriteBlob(Statement[bool]):
    """Replace a small value; None deletes it."""

    epoch: int
    path: str
    data: bytes | None


class Tables(Protocol):
    """A database, as one broker reaches it."""

    def run(self, statement: Statement[T]) -> Completion[T]:
        """Send the statement. Fails with Unanswered, Refused, or another OSError if the database can never do it."""

    def run_now(self, statement: Statement[T]) -> T:
        """Run it now, blocking, from any thread. Raises as `run` fails."""
