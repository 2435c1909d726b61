"""The interface of a database to the relay, which `slot_feed` and `table_feed` implement."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from oncelog.tools.outbox.events import Item
from oncelog.tools.outbox.position import OutboxError, Position, Worded


@dataclass(eq=False)
class FeedLost(Worded):
    """Raised if the database is away, or has ended the connection: it passes by itself, unless it has a `place`."""

    place: "Place | None" = None


@dataclass(frozen=True, slots=True)
class Place:
    """The place in the data at which the database failed because of the data: it may fail there each time."""

    name: str
    """The event or the rows, in words."""
    way: str
    """The advice, if it fails there again."""
    resume: Position | None = None
    """Where `--go-on` continues; None if it cannot pass it."""
    xid: int | None = None
    """The id of the SQL transaction that `--go-on` passes, as 32 bits, if its rows are in the table."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """How much the database has that is not in Kafka."""

    size_bytes: int | None = None
    """The size of the write-ahead log, which also has records that are not the outbox's."""
    rows: int | None = None
    """The rows of the table."""
    held_bytes: int | None = None
    """How much log the server keeps for the slot."""


class Feed(Protocol):
    """Reads the events of one database, in the order of commits: it is opened, started, read and closed; closed, it can
    be opened again."""

    async def open(self, stored: Position | None, *, goes_on: bool, counts: bool) -> Position:
        """Connect, and return where to continue; with `goes_on` also where that is refused otherwise. With `counts` the
        database notes that a relay began. Raises OutboxError, and FeedLost."""

    async def keep_passed(self, place: Place) -> None:
        """Keep the rows of events that are passed by, which are in no topic. Raises FeedLost."""

    async def start(self, position: Position) -> None:
        """Begin to read at the position. Raises OutboxError, FeedLost."""

    async def next(self, timeout_s: float) -> Sequence[Item]:
        """Return the next events, whole transactions or pieces: each SQL transaction's events come before its end, and
        not mixed with another's. Empty after `timeout_s`. Raises FeedLost."""

    async def on_stored(self, position: Position) -> None:
        """Note that all events before the position are in Kafka, and may be forgotten. Raises FeedLost."""

    async def backlog(self) -> Backlog:
        """Return how much is not in Kafka yet. Raises FeedLost."""

    async def close(self) -> None:
        """Disconnect; never raises."""


_PASSING = ("", "08", "25", "28", "40", "53", "55", "57")
"""The classes of SQLSTATE that pass by themselves: none, a connection, a standby in the place of its primary, a
password that is changed, a conflict, resources, a slot that is in use, a server that stops."""
_OF_DATA = ("22", "54", "XX")
"""The classes of errors in the data that is read: no value of its type, beyond PostgreSQL's limits, an internal error.
"""
_STATEMENT = Place("the same statement", "the server's log has it; mend that, and start again")
DELETION = Place(
    "the deletion of rows that are in Kafka",
    "mend oncelog.outbox, or keep the rows (`oncelog outbox run --keep forever`), and start again",
)


def lost(error: BaseException, place: Place = _STATEMENT) -> FeedLost | OutboxError:
    """Return the exception for an error of the database: FeedLost for one that passes by itself, and, with its place,
    for one that may stay; OutboxError for a statement that always fails, as a right or a table is missing."""
    state = _class_of(error)
    if state == "42":
        return OutboxError(f"the database: {text_of(error)}")
    return FeedLost(text_of(error), None if state in _PASSING else place)


def is_of_data(error: BaseException) -> bool:
    """Return whether the data that was read may have caused an error of the database."""
    return _class_of(error) in _OF_DATA


def is_unreadable(error: BaseException) -> bool:
    """Return whether PostgreSQL cannot read its own data: the other errors of data may also come from a write."""
    return _class_of(error) == "XX"


def _class_of(error: BaseException) -> str:
    return (getattr(error, "sqlstate", None) or "")[:2]


def text_of(error: BaseException) -> str:
    """Return the database's message, on one line."""
    return " ".join(str(error).split()) or type(error).__name__
