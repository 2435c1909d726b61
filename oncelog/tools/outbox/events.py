"""What a feed hands to the relay: events, and the ends of SQL transactions.

Owns: these values, and the bytes of a message in the write-ahead log, which `oncelog.produce` writes (`sql`). Does not
own: where they come from.
"""

from struct import Struct, error
from typing import NamedTuple

from oncelog.broker.outbox.rows import HeaderList, headers_of
from oncelog.broker.storage.postgres.outbox_rows import read_texts
from oncelog.broker.storage.shared.tables import LARGEST_BYTES
from oncelog.tools.outbox.position import Position

_HEAD = Struct(">Bi")
_LENGTH = Struct(">i")
_VERSION = 1


class Event(NamedTuple):
    """A record that a SQL transaction publishes."""

    transaction: int
    """The SQL transaction, or the batch of them: with `ordinal` the event's identity, which stays when it is read
    again."""
    ordinal: int
    topic: str
    key: bytes | None
    value: bytes | None
    headers: HeaderList = ()
    partition: int | None = None
    timestamp_ms: int | None = None
    problem: str = ""
    """Why it is none, if it cannot be read; it is refused with this."""
    row: int | None = None
    """The row of oncelog.outbox that has what could not be read."""
    is_in_row: bool = False
    """Whether key, value and headers are only in that row."""


class Committed(NamedTuple):
    """The end of a SQL transaction, behind its events; without any, only the position moves."""

    position: Position
    time_ms: int
    """When it was committed."""


Item = Event | Committed


def encoded(
    topic: str, key: bytes | None, value: bytes | None, headers: str | None = None, partition: int | None = None
) -> bytes:
    """Return the message that `oncelog.produce` writes; `headers` is their text as JSON: pairs."""
    fields = topic.encode(), key, value, None if headers is None else headers.encode()
    parts = [_HEAD.pack(_VERSION, -1 if partition is None else partition)]
    for each in fields:
        parts.append(_LENGTH.pack(-1 if each is None else len(each)))
        parts.append(each or b"")
    return b"".join(parts)


def event_of_message(transaction: int, ordinal: int, data: bytes, timestamp_ms: int) -> Event:
    """Return the event of a message; one with a `problem` if `oncelog.produce` did not write it."""
    try:
        version, partition = _HEAD.unpack_from(data)
        if version != _VERSION:
            raise ValueError(f"its version is {version}, and this relay knows {_VERSION}")
        fields: list[bytes | None] = []
        place = _HEAD.size
        for _ in range(4):
            (length,) = _LENGTH.unpack_from(data, place)
            place += _LENGTH.size
            if length > len(data) - place:
                raise ValueError("it is cut off")
            fields.append(None if length < 0 else data[place : place + length])
            place += max(0, length)
        topic, key, value, headers = fields
        if not topic:
            raise ValueError("it names no topic")
        return Event(
            transaction,
            ordinal,
            topic.decode(),
            key,
            value,
            () if headers is None else headers_of(headers),
            None if partition < 0 else partition,
            timestamp_ms,
        )
    except (ValueError, error) as problem:
        text = f"a message with the prefix of the outbox that oncelog.produce did not write: {problem}"
        return Event(transaction, ordinal, "", None, data, (), None, timestamp_ms, text)


class Texts(NamedTuple):
    """The text of a row of oncelog.outbox, as the bytes that the database has."""

    topic: bytes | None
    headers: bytes | None
    encoding: str


def event_of_row(
    texts: Texts,
    identity: tuple[int, int],
    number: int,
    size_bytes: int,
    timestamp_ms: int,
    key: bytes | None = None,
    value: bytes | None = None,
    partition: int | None = None,
) -> Event:
    """Return the event of a row; one with a `problem` if it can be none, since oncelog.produce did not write it. A row
    that is too large comes without key, value and headers."""
    topic, text, problem = read_texts(*texts)
    headers: HeaderList = ()
    is_too_large = size_bytes > LARGEST_BYTES
    if is_too_large:
        problem = f"it has {size_bytes:,} bytes, and at most {LARGEST_BYTES:,} are taken"
    elif not problem and text is not None:
        try:
            headers = headers_of(text)
        except ValueError as error:
            problem = str(error)
    if not problem:
        return Event(*identity, topic, key, value, headers, partition, timestamp_ms)
    problem_text = f"{_row(number)}: {problem}"
    return Event(*identity, topic, key, value, (), partition, timestamp_ms, problem_text, number, is_too_large)


def event_of_unreadable(identity: tuple[int, int], number: int, error: str) -> Event:
    """Return the event of a row that PostgreSQL cannot read."""
    problem = f"{_row(number)}: it cannot be read: {error}"
    return Event(*identity, "", None, None, problem=problem, row=number, is_in_row=True)


def _row(number: int) -> str:
    return f"row {number} of oncelog.outbox"
