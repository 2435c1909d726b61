"""What the relay needs of a database: the interface of `slot_feed` and `table_feed`."""

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
    """What the database was asked for when it failed for a reason that is in the data: it may fail each time."""

    name: str
    """Which event it was, or which rows."""
    way: str
    """What to do, if it fails there again."""
    resume: Position | None = None
    """Where `--go-on` continues; None if it cannot pass it."""
    xid: int | None = None
    """The id of the SQL transaction that `--go-on` passes, as 32 bits, if its rows are in the table."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """How much the database has that is not in Kafka."""

    size_bytes: int | None = None
    """Of write-ahead log, which also has what is not of the outbox."""
    rows: int | None = None
    """Of the table."""
    held_bytes: int | None = None
    """How much log the server keeps for the slot."""


class Feed(Protocol):
    """Reads the events of one database, in the order of commits: it is opened, started, read and closed; closed, it can
    be opened again."""

    async def open(self, stored: Position | None, *, goes_on: bool, counts: bool) -> Position:
        """Connect, and return where to continue; with `goes_on` past what is refused otherwise. `counts`: the database
        keeps that a relay began. Raises OutboxError, and FeedLost."""

    async def keep_passed(self, place: Place) -> None:
        """Keep the rows of what is passed by, which are in no topic. Raises FeedLost."""

    async def start(self, position: Position) -> None:
        """Begin to read there. Raises OutboxError, FeedLost."""

    async def next(self, timeout_s: float) -> Sequence[Item]:
        """Return what comes next: whole or in pieces, but each SQL transaction's events before its end, and not mixed
        with another's. Nothing after `timeout_s`. Raises FeedLost."""

    async def on_stored(self, position: Position) -> None:
        """Note that all before this is in Kafka, and may be forgotten. Raises FeedLost."""

    async def backlog(self) -> Backlog:
        """Raises FeedLost."""

    async def close(self) -> None:
        """Disconnect; never raises."""


_PASSING = ("", "08", "25", "28", "40", "53", "55", "57")
"""The classes of SQLSTATE that pass by themselves: none, a connection, a standby in the place of its primary, a
password that is changed, a conflict, resources, a slot that is in use, a server that stops."""
_OF_DATA = ("22", "54", "XX")
"""The classes that say something of what is read: no value of its type, beyond PostgreSQL's limits, an internal
error."""
_STATEMENT = Place("the same statement", "the server's log has it; mend that, and start again")
DELETION = Place(
    "the deletion of rows that are in Kafka",
    "mend oncelog.outbox, or keep the rows (`oncelog outbox run --keep forever`), and start again",
)


def lost(error: BaseException, place: Place = _STATEMENT) -> FeedLost | OutboxError:
    """Return what an error of the database is: one that passes by itself, or one that may stay, with its place; or a
    statement that it will never take, for rights that are missing or a table that is gone."""
    state = _class_of(error)
    if state == "42":
        return OutboxError(f"the database: {text_of(error)}")
    return FeedLost(text_of(error), None if state in _PASSING else place)


def is_of_data(error: BaseException) -> bool:
    """Return whether what was read may be to blame for an error of the database."""
    return _class_of(error) in _OF_DATA


def is_unreadable(error: BaseException) -> bool:
    """Return whether PostgreSQL has lost what it was to read: the others of these errors may be of what it writes."""
    return _class_of(error) == "XX"


def _class_of(error: BaseException) -> str:
    return (getattr(error, "sqlstate", None) or "")[:2]


def text_of(error: BaseException) -> str:
    """Return what the database said, on one line."""
    return " ".join(str(error).split()) or type(error).__name__
