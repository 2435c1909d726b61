"""Which messages a search wants, and what one look through batches finds: pure.

Owns: the criteria, paths into JSON, the limits of one look. Does not own: reading batches (`reading`), fates
(`partition_map`), how a message is shown (`messages`).
Invariant: a look opens batches one after the other, and ends with the first that exceeds a limit; it says how far it
got, and the next one continues there. So a search of any topic costs its broker and this console one bounded step at a
time.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from oncelog.client.consuming.raw_batches import RawBatch
from oncelog.client.values.records import Record, TopicPartition
from oncelog.console.messages import MOST_BATCH_BYTES, Message, decoded, marker_of, message_of
from oncelog.console.partition_map import Cell, cells_of
from oncelog.console.query import BadQuery
from oncelog.protocol.errors import ProtocolError
from oncelog.tools.log.map.partition import State

STATES = (State.COMMITTED, State.ABORTED, State.OPEN, State.PLAIN, State.COMMIT_MARKER, State.ABORT_MARKER)
MOST_FOUND = 100
"""The most messages that one look finds: as many as a page of messages has."""
MOST_OPENED_BYTES = 32 * 1024 * 1024
"""The most bytes that one look opens, and those of one batch more."""
MOST_RECORDS = 50_000

_STEP = re.compile(r'\.?([^.\[\]"]+)|\[(\d+)\]|\[(\*)\]|\.(\*)|\["((?:[^"\\]|\\.)*)"\]')
_ANY = None
Step = str | int | None


@dataclass(frozen=True, slots=True)
class Wanted:
    """The criteria that a message must all fulfil; an empty one is fulfilled by any."""

    text: str = ""
    """A text in the key, the value, or a header, in capitals or not."""
    path: tuple[Step, ...] = ()
    """A path that the value, as JSON, must have."""
    value: str = ""
    """The value at the path: a text, or JSON."""
    state: State | None = None

    @property
    def is_anything(self) -> bool:
        return not (self.text or self.path or self.state)

    def is_marker(self, cell: Cell) -> bool:
        """Whether the marker in this batch is wanted."""
        return not self.text and not self.path and self.state is cell.state

    def fits(self, record: Record, cell: Cell) -> bool:
        """Whether a record of this batch is wanted."""
        return (
            self.state in (None, cell.state)
            and (not self.text or any(self.text.casefold() in each.casefold() for each in _texts(record)))
            and (not self.path or any(self._is_value(each) for each in _values_at(record, self.path)))
        )

    def _is_value(self, found: object) -> bool:
        return not self.value or found == self.value or (not isinstance(found, str) and _is_json(self.value, found))


def path_of(text: str) -> tuple[Step, ...]:
    """Return the steps of `$.lines[0].sku`, `lines[*].sku` or `["a name"]`. Raises BadQuery."""
    steps: list[Step] = []
    place = 1 if text.startswith("$") else 0
    while place < len(text):
        match = _STEP.match(text, place)
        if match is None:
            raise BadQuery(f"path={text!r} is not a path such as customer.city, lines[0].sku or lines[*].sku")
        name, index, any_index, any_name, quoted = match.groups()
        if index is not None:
            steps.append(int(index))
        elif quoted is not None:
            steps.append(json.loads(f'"{quoted}"'))
        else:
            steps.append(_ANY if any_index or any_name or name == "*" else name)
        place = match.end()
    return tuple(steps)


def _texts(record: Record) -> Iterator[str]:
    internal = decoded(record)
    if internal is not None:
        yield from (each.text for each in internal)
        return
    for data in (record.key, record.value, *(value for _, value in record.headers)):
        if data is not None:
            yield data.decode("utf-8", "replace")
    yield from (name for name, _ in record.headers)


def _values_at(record: Record, path: Sequence[Step]) -> list[Any]:
    """Return what the record's value has at the path; nothing if it is no JSON."""
    internal = decoded(record)
    data = record.value if internal is None else internal[1].text
    try:
        found = [json.loads(data or b"")]
    except (ValueError, RecursionError):
        return []
    for step in path:
        found = [inner for each in found for inner in _step_into(each, step)]
    return found


def _step_into(value: Any, step: Step) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values()) if step is _ANY else [value[step]] if step in value else []
    if isinstance(value, list):
        if step is _ANY:
            return value
        return value[step : step + 1] if isinstance(step, int) else []
    return []


def _is_json(text: str, found: object) -> bool:
    try:
        wanted = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return bool(wanted == found) and isinstance(wanted, bool) == isinstance(found, bool)


@dataclass(frozen=True, slots=True)
class Look:
    """The result for a part of a partition: its offsets from `first_offset` to before `next_offset`."""

    place: TopicPartition
    first_offset: int
    next_offset: int
    record_count: int
    unread_count: int
    """The records in batches that cannot be opened."""
    opened_bytes: int
    found: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Position:
    """The place where a search continues: one of its partitions, and an offset; None is the start of its log."""

    index: int = 0
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Search:
    """The looks of one page, partition by partition."""

    looks: Sequence[Look]
    goes_on: Position | None
    """The place of the next look; None where everything was searched."""

    @property
    def found_count(self) -> int:
        return sum(len(each.found) for each in self.looks)

    @property
    def record_count(self) -> int:
        return sum(each.record_count for each in self.looks)

    @property
    def unread_count(self) -> int:
        return sum(each.unread_count for each in self.looks)


def look_through(
    place: TopicPartition, batches: Sequence[RawBatch], start_offset: int, wanted: Wanted, most: int = MOST_FOUND
) -> Look:
    """Look through batches from an offset on, until there are no more or a limit is exceeded."""
    found: list[Message] = []
    next_offset, record_count, unread_count, opened_bytes = start_offset, 0, 0, 0
    for batch, cell in zip(batches, cells_of(batches), strict=True):
        if batch.control_type is not None:
            if wanted.is_marker(cell) and cell.base_offset >= start_offset:
                found.append(marker_of(batch, cell))
        else:
            try:
                records = [each for each in batch.records(MOST_BATCH_BYTES) if each.offset >= start_offset]
            except ProtocolError:
                records, unread_count = [], unread_count + cell.record_count
                opened_bytes += MOST_BATCH_BYTES  # as much as it may have cost
            record_count += len(records)
            opened_bytes += sum(map(_size, records))
            found += [message_of(each, cell) for each in records if wanted.fits(each, cell)]
        next_offset = cell.next_offset
        if len(found) > most:  # in the middle of a batch
            found, next_offset = found[:most], found[most].offset
        if len(found) == most or opened_bytes >= MOST_OPENED_BYTES or record_count >= MOST_RECORDS:
            break
    return Look(place, start_offset, next_offset, record_count, unread_count, opened_bytes, tuple(found))


def _size(record: Record) -> int:
    return len(record.key or b"") + len(record.value or b"") + sum(len(value or b"") for _, value in record.headers)
