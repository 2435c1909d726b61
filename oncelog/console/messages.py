"""Records with what became of each, as rows: pure.

Owns: the text of keys, values and headers, and how much of them is shown; the meaning of coordinators' records. Does
not own: fates (`partition_map`), reading. Bytes that are UTF-8 are shown as text, others as hexadecimal digits.
"""

from codecs import getincrementaldecoder
from collections.abc import Sequence
from dataclasses import dataclass

from oncelog.client.consuming.raw_batches import RawBatch
from oncelog.client.values.records import Record
from oncelog.console.json_layout import MOST_LINES, lines_of
from oncelog.console.partition_map import Cell, cells_of
from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.printable import json_text
from oncelog.protocol.records.record import Record as LogRecord
from oncelog.protocol.topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from oncelog.tools.log.dump import decoders

SHOWN_CHARACTERS = 160
"""How many characters of a key or value are shown in its row; up to MOST_CHARACTERS when it is opened."""
MOST_CHARACTERS = 8_000
MOST_BATCH_BYTES = 16 * 1024 * 1024
"""The most bytes of a batch once it is decompressed: a producer can make some kilobytes be gigabytes."""
_UTF_8 = getincrementaldecoder("utf-8")
_DECODERS = {
    CONSUMER_OFFSETS: decoders.offsets,
    TRANSACTION_STATE: decoders.transactions,
    SHARE_GROUP_STATE: decoders.share_states,
}


@dataclass(frozen=True, slots=True)
class Shown:
    """Bytes as text: `brief` for a row, `text` as far as it is ever shown."""

    text: str
    size_bytes: int
    kind: str
    """The kind of text: "text", "hex", "decoded", or "null" for a key or value that is not there."""
    is_cut: bool
    lines: tuple[str, ...] = ()
    """The text laid out, if it is a JSON object or list and has not too many lines."""

    @property
    def brief(self) -> str:
        return self.text if not self.is_long else f"{self.text[:SHOWN_CHARACTERS]}…"

    @property
    def is_long(self) -> bool:
        return len(self.text) > SHOWN_CHARACTERS


@dataclass(frozen=True, slots=True)
class Message:
    """A record, or a marker, with the batch that it is in."""

    offset: int
    timestamp_ms: int
    cell: Cell
    key: Shown
    value: Shown
    headers: tuple[tuple[str, Shown], ...] = ()
    is_marker: bool = False


def shown(data: bytes | None) -> Shown:
    if data is None:
        return Shown("null", 0, "null", is_cut=False)
    head = data[:MOST_CHARACTERS]
    is_cut = len(data) > len(head)
    try:
        # A character that the limit splits is no reason for digits.
        text = _UTF_8().decode(head, final=not is_cut)
    except UnicodeDecodeError:
        digits = data[: MOST_CHARACTERS // 2]
        return Shown(digits.hex(" ", 4), len(data), "hex", len(data) > len(digits))
    return Shown(text, len(data), "text", is_cut, _laid_out(text))


def _laid_out(text: str) -> tuple[str, ...]:
    lines = lines_of(text)
    return lines if len(lines) <= MOST_LINES else ()


def messages_of(batches: Sequence[RawBatch], start_offset: int, limit: int) -> list[Message]:
    """Return up to `limit` records and markers from `start_offset` on."""
    rows: list[Message] = []
    for batch, cell in zip(batches, cells_of(batches), strict=True):
        rows += [each for each in _rows(batch, cell) if each.offset >= start_offset]
        if len(rows) >= limit:
            return rows[:limit]
    return rows


def _rows(batch: RawBatch, cell: Cell) -> list[Message]:
    if batch.control_type is not None:
        return [marker_of(batch, cell)]
    try:
        return [message_of(record, cell) for record in batch.records(MOST_BATCH_BYTES)]
    except ProtocolError as error:
        why = Shown(f"{cell.record_count} records that cannot be shown: {error}", 0, "decoded", is_cut=False)
        return [Message(cell.base_offset, cell.timestamp_ms, cell, shown(None), why)]


def marker_of(batch: RawBatch, cell: Cell) -> Message:
    kind = "control" if batch.control_type is None else batch.control_type.name
    epoch = -1 if batch.coordinator_epoch is None else batch.coordinator_epoch
    said = Shown(f"{kind}, coordinator epoch {epoch}", 0, "decoded", is_cut=False)
    return Message(cell.base_offset, cell.timestamp_ms, cell, shown(None), said, is_marker=True)


def message_of(record: Record, cell: Cell) -> Message:
    headers = tuple((name, shown(value)) for name, value in record.headers)
    key, value = decoded(record) or (shown(record.key), shown(record.value))
    return Message(record.offset, record.timestamp_ms, cell, key, value, headers)


def decoded(record: Record) -> tuple[Shown, Shown] | None:
    """Return key and value of a coordinator's record as Kafka's dump tool prints them; None for any other record."""
    decode = _DECODERS.get(record.topic)
    if decode is None:
        return None
    try:
        found = decode(LogRecord(record.offset, record.timestamp_ms, record.key, record.value))
    except ProtocolError:
        return None
    return _json(found.key, record.key), _json(found.value, record.value)


def _json(value: object, data: bytes | None) -> Shown:
    if value is None:
        return shown(data)
    text = value if isinstance(value, str) else json_text(value, is_ascii=False)
    head = text[:MOST_CHARACTERS]
    return Shown(head, len(data or b""), "decoded", len(text) > len(head), _laid_out(head))
