"""Positions in partitions as people write them: `start`, `end`, `42`, `-10`, `@2026-11-01T10:00`, `@-15m`.

Owns: the words, and the offsets that they mean. Does not own: who moves there (`record consume`, `group reset`, ...).
"""

import re
import time
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal, TypeVar

import click

from oncelog.protocol import amounts
from oncelog.tools.asking import NotFound

if TYPE_CHECKING:
    from oncelog.client.admin.client import Admin
    from oncelog.client.values.records import IsolationLevel, TopicPartition

HELP = "start, end, an OFFSET, -COUNT from the end, or @TIME: milliseconds since 1970, 2026-11-01T10:00, or -15m ago."
_LONGEST_DAYS = 24
"""The longest duration: it must exceed a transaction's timeout, which has 31 bits of milliseconds."""
_PLACES = re.compile(r"[^:]+(:\d+(,\d+)*)?")
"""The pattern of TOPIC or TOPIC:0,1: a topic's name has no colon."""


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a log. `value` is an offset, a count from the end, or milliseconds since the epoch."""

    kind: Literal["start", "end", "offset", "last", "time"]
    value: int = 0


def duration_ms(text: str) -> int:
    """Parse `30s`, `500ms`, `2m`, `1.5h`, `7d`. Raises BadParameter."""
    try:
        return amounts.duration_ms(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def position(text: str, now_ms: int) -> Position:
    """Raises BadParameter."""
    if text in ("start", "beginning", "earliest"):
        return Position("start")
    if text in ("end", "latest"):
        return Position("end")
    if re.fullmatch(r"\d+", text):
        return Position("offset", int(text))
    if re.fullmatch(r"-\d+", text):
        return Position("last", -int(text))
    if text.startswith("@"):
        return Position("time", _time_ms(text[1:], now_ms))
    raise click.BadParameter(f"{text!r} is not a position: {HELP}")


def position_option(_context: click.Context, _parameter: click.Parameter, text: str) -> Position:
    """Parse a position, as a click callback."""
    return position(text, time.time_ns() // 1_000_000)


def duration_option(_context: click.Context, _parameter: click.Parameter, text: str | None) -> int:
    """Return milliseconds, 0 if the option is not given, as a click callback."""
    milliseconds = 0 if text is None else duration_ms(text)
    if milliseconds > _LONGEST_DAYS * 86_400_000:
        raise click.BadParameter(f"{text} is longer than {_LONGEST_DAYS} days")
    return milliseconds


def _time_ms(text: str, now_ms: int) -> int:
    """Return a time not below 0: the protocol has other meanings for negative times."""
    if text.startswith("-"):
        return max(0, now_ms - duration_ms(text[1:]))
    if text.isdecimal() and int(text) < 2**63:
        return int(text)
    try:
        return max(0, int(datetime.fromisoformat(text).timestamp() * 1000))
    except ValueError as error:
        raise click.BadParameter(
            f"{text!r} is not a time: milliseconds since 1970, 2026-11-01T10:00, or -15m for as long ago"
        ) from error


async def offsets_at(
    admin: "Admin",
    places: Collection["TopicPartition"],
    wanted: Position,
    isolation_level: "IsolationLevel" = "read_uncommitted",
) -> "dict[TopicPartition, int]":
    """Return the offset of each partition. After the newest record a time means the end. Raises NotFound for an offset
    that a partition does not have."""
    starts = {place: each.offset for place, each in (await admin.list_offsets(places, "earliest")).items()}
    if wanted.kind == "start":
        return starts
    found = await admin.list_offsets(places, isolation_level=isolation_level)
    ends = {place: each.offset for place, each in found.items()}
    if wanted.kind == "end":
        return ends
    if wanted.kind == "last":
        return {place: max(starts[place], ends[place] - wanted.value) for place in places}
    if wanted.kind == "time":
        at = await admin.list_offsets(places, wanted.value)
        return {place: at[place].offset if at[place].offset >= 0 else ends[place] for place in places}
    for place in places:
        if not starts[place] <= wanted.value <= ends[place]:
            raise NotFound(
                f"{place.topic}-{place.partition} has no offset {wanted.value}: "
                f"it starts at {starts[place]} and ends at {ends[place]}"
            )
    return dict.fromkeys(places, wanted.value)


Texts = TypeVar("Texts", str, tuple[str, ...])


def places_option(_context: click.Context, _parameter: click.Parameter, texts: Texts) -> Texts:
    """Check what `partitions_of` takes, one or many, as a click callback."""
    for text in (texts,) if isinstance(texts, str) else texts:
        if not _PLACES.fullmatch(text):
            raise click.BadParameter(f"{text!r} is not TOPIC or TOPIC:0,1,2")
    return texts


async def partitions_of(admin: "Admin", text: str) -> "list[TopicPartition]":
    """Return the partitions that TOPIC or TOPIC:0,2 names. Raises UNKNOWN_TOPIC_OR_PARTITION, NotFound."""
    from oncelog.client.values.records import TopicPartition

    topic, colon, numbers = text.partition(":")
    (described,) = await admin.describe_topics(topic)
    if not colon:
        return [TopicPartition(topic, index) for index in range(described.partition_count)]
    wanted = [int(number) for number in numbers.split(",")]
    if max(wanted) >= described.partition_count:
        last = described.partition_count - 1
        raise NotFound(f"topic {topic!r} has no partition {max(wanted)}: the last is {last}")
    return [TopicPartition(topic, number) for number in wanted]
