"""The port to a database: statements as values, so that one whose answer was lost can be sent again.

Owns: what each statement means. Does not own: how it is said in SQL (`storage.postgres`), when it is sent again
(`statements`).

Contract
- A statement happens as a whole or not at all, and is durable before it is answered. Those of one broker that are in
  flight at the same time happen in any order.
- One that has an `epoch` happens only if that is the newest at its commit. Else it changes nothing and answers False.
- Each can be sent again after it has happened: it changes nothing then. Only `AppendRound` answers differently.
- What was answered is there when the next is written. In a database that was restored, or a standby of it that was
  promoted too early, it may not be: what is written then fails with RoundsLost (`statements`), and changes nothing.
- What `FindRound` has found is as durable as an answer: it may have been read before it was.
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
NOBODY = -1
"""In the place of a node id."""
LARGEST_BYTES = 32 * 1024 * 1024
"""Key, value and headers of a row of the outbox that is taken: as the relay (`oncelog outbox`) and oncelog.produce."""


class Unanswered(OSError):
    """Nobody knows whether the statement has happened, or will happen: its connection was lost."""


class Refused(OSError):
    """The database lacks something for it, such as space: it has not happened, and may when it is sent again."""

    def __init__(self, reason: str) -> None:
        super().__init__(ENOSPC, reason)

    def __str__(self) -> str:
        return str(self.strerror)  # the number is of one reason among others


class Failing(OSError):
    """The database fails at the statement itself, for want of nothing: it has not happened, and would fail again."""


class NewerTables(OSError):
    """A newer release has changed the tables: this one cannot know what they mean."""

    def __init__(self, version: int, known: int) -> None:
        super().__init__(
            f"the tables have version {version} since a newer release was started on them, and this one knows {known}: "
            "upgrade this node"
        )


class LogRow(NamedTuple):
    """What the catalogue has of one log."""

    key: LogKey
    topic: str
    next_offset: int
    """Everything below it is in chunks, or deleted; the rest is in the journal."""
    epochs: tuple[EpochStart, ...]
    snapshot: bytes
    """The producers at `next_offset`, see `storage.producer_snapshot`."""
    producer_batches: bytes


class ChunkRow(NamedTuple):
    """What is known of a chunk without its batches."""

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
    """Those with a transaction open at the base of its segment."""


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
    """Without key, value and headers if they have more bytes than was asked for."""
    headers: str | None
    """Pairs of texts, as JSON."""
    at_ms: int
    """When it was produced, by the clock of the database."""
    size_bytes: int
    problem: str = ""
    """Why it can be no record, if it cannot be read: the function did not write it."""


class WaitingRows(NamedTuple):
    rows: Sequence[OutboxRow]
    """In the order of their ids: those that were produced before by a transaction that had been committed are there,
    too, or were taken."""
    waited_ms: float
    """How long the first of them has."""
    problem: str = ""
    """Why none can be read, if one of them makes PostgreSQL fail the question. The connection and the tables are fine:
    it fails again each time."""


class Statement(Generic[T_co]):
    """Something to ask of the database; T is the type of the answer."""


class Lease(NamedTuple):
    """Who may write, and for how long."""

    epoch: int
    owner: str
    """Empty: nobody has ever had it."""
    renewed: int
    """Changes with each renewal; 0 once it was given back."""
    left_ms: float
    """Until it is over, by the clock of the database; not above 0 once it is, or was given back."""
    is_attended: bool
    """Whether a connection of the owner is open."""
    node_id: int = NOBODY
    """Of the owner."""
    successor: int = NOBODY
    """The node to which it was given back."""
    held_ms: float = 0
    """Since it was taken."""
    wanted: int = NOBODY
    """The node to which it will soon be given."""


class NodeAddress(NamedTuple):
    listener: str
    host: str
    port: int


class NodeRow(NamedTuple):
    """A node at work on the tables, whether it leads or stands by."""

    node_id: int
    owner: str
    """As in its lease: a name that no other start has."""
    addresses: tuple[NodeAddress, ...]
    """Where it listens, as its clients are told; until it does, where the start before this one has listened: clients
    would forget a node that is not named for a moment."""
    followed: int = -1
    """The round up to which it knows the metadata log, if it stands by; a leader has all of it."""
    is_over: bool = False
    """It has ended, or was not renewed in time."""
    left_ms: float = 0
    """Until it is over unless it is renewed, by the clock of the database; what a node writes has none."""


class SeenNodes(NamedTuple):
    nodes: Sequence[NodeRow]
    """In the order of their ids."""
    newest: int
    """The number of the newest round."""
    wanted: int
    """The node that an operator wants to lead; `NOBODY` if none."""


class Attendance(Enum):
    """What `AttendLease` has found."""

    KEPT = "this connection attends to it since the last time"
    BEGUN = "it does from now on"
    NONE = "another connection does, or the lease is another's"


class KeptNode(NamedTuple):
    is_kept: bool
    owner: str
    """Who has the node id, in the newest row."""
    renewed: int
    """Changes each time that owner renews it."""


class Followed(NamedTuple):
    """What was committed to one log since the last look."""

    number: int
    """The newest round that was looked at."""
    start_offset: int
    chunks: Sequence[bytes]
    """Batches of it that are in chunks, in order; only if rounds that were not looked at are trimmed."""
    rounds: Sequence[bytes]
    """The rounds that have something of it, in order."""


class TakenLease(NamedTuple):
    epoch: int
    is_elsewhere: bool
    """The database is not where the last start has left it: it was promoted, or restored, or is a copy. What it had
    acknowledged may be gone."""
    place: str = ""
    """Where it is now, as a renewal answers it."""


LOST_EPOCHS = 1 << 16
"""How far the epoch of the lease moves at least if the database is elsewhere. What is lost may be younger than the
lease of a broker that is still alive, and no other may have its epoch."""
LOST_EPOCHS_SPREAD = 1 << 20
"""How much further it moves at random: the epoch of a database that goes back twice moves from the same number twice.
An epoch has 31 bits (`chunks` puts it before the 32 of a counter), which is room for 1,900 moves of the largest size.
"""


class FoundRound(NamedTuple):
    epoch: int
    """In which it was appended; −1 if there is none."""
    newest_epoch: int
    """Of the lease."""
    has_before: bool = True
    """Whether the round before it is there, or trimmed."""


@dataclass(frozen=True)
class LookAtLease(Statement[Lease]):
    """Who has the lease."""


@dataclass(frozen=True)
class TakeLease(Statement[TakenLease | None]):
    """Become the broker that may write, if the lease is still as it was seen; else None. What the one before has in
    flight has happened by then, or never will. Fails with NewerTables if a newer release has changed the tables, which
    it may have done since this broker looked at them.

    The epoch moves by one. It moves by `jump` in the first leadership in a database that is elsewhere."""

    seen: Lease
    owner: str
    """A name that nobody else has."""
    lease_ms: int
    jump: int
    """See `LOST_EPOCHS`; another one each time."""
    node_id: int = NOBODY


@dataclass(frozen=True)
class RenewLease(Statement[str]):
    """Have it for so long from now on, unless it was given back: a renewal that was in flight may come behind that.
    Answers where the database is, which changes when it is promoted, restored or copied; empty if it has not happened.
    """

    epoch: int
    lease_ms: int


@dataclass(frozen=True)
class AttendLease(Statement[Attendance]):
    """Keep a connection open that tells others that the owner of this epoch is alive. Writes nothing."""

    epoch: int


@dataclass(frozen=True)
class GiveBackLease(Statement[bool]):
    """Others need not wait for its end, and the successor is the first of them."""

    epoch: int
    successor: int = NOBODY


@dataclass(frozen=True)
class KeepNode(Statement[KeptNode]):
    """Be seen as a node for so long from now on, unless another connection keeps the row of this node id."""

    row: NodeRow
    lease_ms: int


@dataclass(frozen=True)
class DropNode(Statement[None]):
    """The node is not at work any more. Where it was is known for a while."""

    node_id: int
    owner: str


@dataclass(frozen=True)
class LookAtNodes(Statement[SeenNodes]):
    """Which nodes there are."""


@dataclass(frozen=True)
class WantLeader(Statement[None]):
    """Ask the leader to give the lease to this node; taking the lease fulfils it."""

    node_id: int


@dataclass(frozen=True)
class ReadBlobs(Statement[Mapping[str, bytes]]):
    """The small values whose paths begin so."""

    prefix: str


@dataclass(frozen=True)
class FollowMetadata(Statement[Followed]):
    """What the metadata log has got above this round, and from this offset on."""

    above: int
    from_offset: int


@dataclass(frozen=True)
class KeepPlace(Statement[bool]):
    """Whatever follows from `TakenLease.is_elsewhere` is durable: the next start compares with where we are now. In a
    database that is not there any more it changes nothing."""

    epoch: int
    place: str
    """As the newest renewal has answered it."""


@dataclass(frozen=True)
class ForgetPlace(Statement[None]):
    """The database lacks what was committed in it: whatever the next start would compare, it is elsewhere."""


@dataclass(frozen=True)
class ReadCatalogue(Statement[Catalogue]):
    """Everything that a start needs beside the journal."""


@dataclass(frozen=True)
class ReadRounds(Statement[Sequence[Round]]):
    """The next rounds of the journal in order, as many as fit into one answer; none at its end."""

    above: int


@dataclass(frozen=True)
class MeasureTables(Statement[int]):
    """The bytes of all tables with their indexes."""


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
    """Where in the journal it goes, which has two halves, so that one can be emptied while the other grows."""
    half_before: int = 0
    """Where the round before it is, if it is not trimmed."""
    is_followed: bool = False
    """Whether it has something of the metadata log, which others follow."""
    taken: tuple[int, ...] = ()
    """The ids of the rows."""


@dataclass(frozen=True)
class LookAtOutbox(Statement[WaitingRows]):
    """The first rows that wait: at most so many, of about as many bytes, but at least one."""

    row_count: int
    size_bytes: int
    largest_bytes: int
    """Rows that are larger come without key, value and headers."""
    ids: tuple[int, ...] | None = None
    """Only these."""
    left: tuple[int, ...] = ()
    """None of these."""


@dataclass(frozen=True)
class ListOutbox(Statement[Sequence[int]]):
    """The ids of the first rows that wait: at most so many, none of `left`. Nothing else of them is read."""

    row_count: int
    left: tuple[int, ...] = ()


@dataclass(frozen=True)
class RefuseRows(Statement[bool]):
    """Move rows to those that no log takes, each with the reason."""

    epoch: int
    reasons: tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class FindRound(Statement[FoundRound]):
    """What has become of the round with this number."""

    number: int


@dataclass(frozen=True)
class Checkpoint(Statement[bool]):
    """Add chunks, replace rows of the catalogue, and trim the journal up to a round."""

    epoch: int
    trimmed: int
    half: int
    """Where later rounds go: the other half is left empty."""
    logs: Iterable[LogRow]
    chunks: Iterable[NewChunk]
    """Made when they are asked for, the same each time: a driver that takes as many at a time as it can send holds
    neither all of them nor the loop."""


@dataclass(frozen=True)
class FetchChunk(Statement[bytes | None]):
    """The batches of a chunk; None if it is gone."""

    id: int


@dataclass(frozen=True)
class AddAside(Statement[bool]):
    """Write chunks that are part of no log, and not in the catalogue, until `ReplaceChunks` makes them so."""

    epoch: int
    chunks: Sequence[NewChunk]


@dataclass(frozen=True)
class ReplaceChunks(Statement[bool]):
    """Put chunks that were written aside in the place of those with the ids."""

    epoch: int
    ids: tuple[int, ...]
    added: tuple[int, ...]


@dataclass(frozen=True)
class DropAside(Statement[bool]):
    """Delete the chunks that lie aside: whoever has written them has ended before."""

    epoch: int


@dataclass(frozen=True)
class DropChunks(Statement[bool]):
    """Delete the chunks of these logs that end at or below these offsets."""

    epoch: int
    below: Mapping[LogKey, int]


@dataclass(frozen=True)
class MoveStarts(Statement[bool]):
    """Logs start at these offsets; none goes back."""

    epoch: int
    starts: Mapping[LogKey, int]


@dataclass(frozen=True)
class DeleteLogs(Statement[bool]):
    """Delete what there is of these logs, but for the journal."""

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
        """Send it. Fails with Unanswered, Refused, or with another OSError if the database can never do it."""

    def run_now(self, statement: Statement[T]) -> T:
        """The same while nothing else runs, or from another thread. Raises as `run` fails."""
