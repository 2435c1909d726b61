"""The position of a relay, and where a start continues, or why it must not.

Owns: the position as a record of the target, and every rule of a start. Does not own: the queries of the database
(`slot_feed`, `table_feed`) and of the target. All of it is pure.

A place of a slot is an LSN of the write-ahead log, a place of a table the number of a batch (`table_feed`). Places are
compared only within one history: of the same database, the same slot, and for LSNs the same timeline.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

TOPIC_PREFIX = "__oncelog_outbox."
TOPIC_CONFIGS = {"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.1"}
"""A record comes with each transaction, and one of them counts: small segments are compacted soon."""
_RESTORED = "restored from a backup, a snapshot or a copy"
_GO_ON = "`oncelog outbox run --go-on`"


def topic_of(name: str) -> str:
    """Return the topic of a relay's position: compacted, one partition. Each relay has its own, so that no other
    relay's open transaction hides it."""
    return f"{TOPIC_PREFIX}{name}"


@dataclass(eq=False)
class Worded(Exception):
    """An error with a message, and with the fields of its kind."""

    message: str

    def __str__(self) -> str:
        return self.message


@dataclass(eq=False)
class OutboxError(Worded):
    """Raised if the relay cannot begin, or continue; the message says what happened and what to do."""

    resume: "Position | None" = None
    """Where `--go-on` continues; None where it cannot help."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The history to which places belong."""

    system: str
    """The database system identifier: it is made with a data directory, and copied with one."""
    database: str
    slot: int
    """Where the slot begins; 0 of a table. One that is made again begins elsewhere."""
    timeline: int
    """The timeline of the write-ahead log: a promotion or a restored backup begins another; 0 of a table."""
    begins: int = 0
    """Where the timeline begins: two promotions of the same server may give it the same number."""
    generation: int = 0
    """How often a relay has begun to read; 0 of a table."""


@dataclass(frozen=True, slots=True)
class Position:
    """All events of SQL transactions before `place` are in Kafka, and none behind it."""

    origin: Origin
    place: int
    last_event: int
    """The place of the last event that was written; places behind it had no event."""
    time_ms: int = 0
    """When the SQL transaction there was committed, or the database was found to have nothing more."""

    def to_json(self) -> bytes:
        fields = {
            "version": 1,
            "system": self.origin.system,
            "database": self.origin.database,
            "slot": self.origin.slot,
            "timeline": self.origin.timeline,
            "begins": self.origin.begins,
            "generation": self.origin.generation,
            "place": self.place,
            "last_event": self.last_event,
            "time_ms": self.time_ms,
        }
        return json.dumps(fields, separators=(",", ":")).encode()

    @classmethod
    def of_json(cls, data: bytes) -> "Position":
        """Parse a position. Raises OutboxError for a record that no relay wrote."""
        try:
            found = json.loads(data)
            if found["version"] != 1:
                raise ValueError(f"its version is {found['version']}")
            names = ("system", "database", "slot", "timeline", "begins", "generation")
            origin = Origin(*(found[name] for name in names))
            return cls(origin, found["place"], found["last_event"], found["time_ms"])
        except (ValueError, KeyError, TypeError) as error:
            raise OutboxError(
                f"{TOPIC_PREFIX}NAME on the target has a record that this version did not write: {error!r}"
            ) from None


NOWHERE = Position(Origin("", "", 0, 0), 0, 0)
"""The position of a relay before its start."""


class Switch(NamedTuple):
    """A timeline ended here, and the next began."""

    timeline: int
    lsn: int


@dataclass(frozen=True, slots=True)
class FoundSlot:
    """A slot, as the database describes it."""

    name: str
    origin: Origin
    confirmed: int
    """The place up to which everything was confirmed to be in Kafka."""
    history: Sequence[Switch] = ()
    """The timelines before this one from which the server descends."""
    end: int | None = None
    """The end of its write-ahead log."""


@dataclass(frozen=True, slots=True)
class FoundTable:
    """The table, as the database describes it."""

    origin: Origin
    last_batch: int


def start_at_slot(stored: Position | None, found: FoundSlot) -> Position:
    """Return where to continue. Raises OutboxError where something would be lost, or doubled."""
    begin = Position(found.origin, found.confirmed, found.origin.slot)
    if stored is None:
        if found.confirmed > found.origin.slot:
            raise OutboxError(
                f"the target has no position of this relay, though its slot {found.name} was read up to "
                f"{lsn_text(found.confirmed)}: it is another target than before, or its topic {TOPIC_PREFIX}NAME was "
                f"deleted. Name the right one; or continue there with {_GO_ON}: what was committed before is not "
                "written",
                begin,
            )
        return begin
    _check_database(stored, found.origin, begin)
    if stored.origin.slot != found.origin.slot:
        raise OutboxError(
            f"the slot {found.name} was made again: it begins at {lsn_text(found.origin.slot)}, and the position, "
            f"{lsn_text(stored.place)}, is of the one before. What was committed between the two is in no slot. "
            f"{_GO_ON} continues with what this one has",
            begin,
        )
    stored = _in_this_history(stored, found)
    if stored.origin.generation > found.origin.generation or (found.end is not None and found.end < stored.place):
        raise OutboxError(
            f"the database went back, {_RESTORED}: Kafka has events of transactions up to "
            f"{lsn_text(stored.last_event)} of its log, which it does not know. {_GO_ON} continues where the slot is, "
            f"at {lsn_text(found.confirmed)}: what was committed since is written, some of it perhaps twice",
            begin,
        )
    if found.confirmed > stored.place:
        raise OutboxError(
            f"the slot {found.name} was read up to {lsn_text(found.confirmed)} by something else, and the target has "
            f"what was committed before {lsn_text(stored.place)}: the events in between are gone from the slot, or the "
            f"target was reset. {_GO_ON} continues behind them",
            begin,
        )
    return replace(stored, origin=found.origin)


def _in_this_history(stored: Position, found: FoundSlot) -> Position:
    """Return the position as one of the server's log. Raises OutboxError if that does not have what was written."""
    parted = _parted(stored.origin, found)
    if parted is None or stored.place <= parted:
        return stored
    if stored.last_event > parted:
        raise OutboxError(
            f"the promotion to timeline {found.origin.timeline} lost commits: the server continued at "
            f"{lsn_text(parted)}, and Kafka has the events of transactions up to {lsn_text(stored.last_event)}. They "
            f"are in Kafka, and not in the database. {_GO_ON} continues with what was committed since the promotion",
            Position(found.origin, parted, parted, stored.time_ms),
        )
    return replace(stored, place=parted)


def _parted(origin: Origin, found: FoundSlot) -> int | None:
    """Return where the history of a position and the server's part; None if the server is where the position is. Raises
    OutboxError if the server does not descend from it."""
    begins = 0
    for timeline, end in (*found.history, Switch(found.origin.timeline, -1)):
        if timeline == origin.timeline:
            if begins != origin.begins:
                return min(begins, origin.begins)
            return None if end < 0 else end
        begins = end
    raise OutboxError(
        f"the server is on timeline {found.origin.timeline} of its write-ahead log, which does not descend from "
        f"timeline {origin.timeline} of the position: it is the primary of before a failover, or another copy. Name "
        "the primary that applications write to"
    )


def start_at_table(stored: Position | None, found: FoundTable) -> Position:
    """Return where to continue. Raises OutboxError where something would be lost, or doubled."""
    begin = Position(found.origin, found.last_batch, found.last_batch)
    if stored is None:
        if found.last_batch:
            raise OutboxError(
                f"the target has no position of this relay, though {found.last_batch} batches of the table were read: "
                f"it is another target than before, or its topic {TOPIC_PREFIX}NAME was deleted. Name the right one; "
                f"or continue behind them with {_GO_ON}",
                begin,
            )
        return begin
    _check_database(stored, found.origin, begin)
    if found.last_batch < stored.place:
        raise OutboxError(
            f"the database went back: it has {found.last_batch} batches, and Kafka {stored.place}. Commits were lost, "
            "by a promotion or a restored backup, after which rows may be there again that Kafka has already. "
            f"{_GO_ON} writes all rows that are not in a batch, and leaves out those of batches up to "
            f"{found.last_batch}",
            Position(found.origin, stored.place, stored.place, stored.time_ms),
        )
    return stored


def _check_database(stored: Position, origin: Origin, begin: Position) -> None:
    if (stored.origin.system, stored.origin.database) != (origin.system, origin.database):
        raise OutboxError(
            f"the position on the target is of another database: {stored.origin.database!r} of the system "
            f"{stored.origin.system}; this one is {origin.database!r} of {origin.system}. Give each database a relay "
            f"of its own with --name; or, if this one took the place of the other, {_GO_ON} continues with what its "
            "outbox has now",
            begin,
        )


def lsn_text(lsn: int) -> str:
    """Return an LSN as PostgreSQL writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def lsn_of(text: str) -> int:
    """Return the number of an LSN as PostgreSQL writes it. Raises ValueError."""
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)


def history_of(text: str) -> list[Switch]:
    """Return the timelines of a history file."""
    found = []
    for line in text.splitlines():
        fields = line.split("#", 1)[0].split()
        if len(fields) >= 2 and fields[0].isdigit():
            found.append(Switch(int(fields[0]), lsn_of(fields[1])))
    return found
