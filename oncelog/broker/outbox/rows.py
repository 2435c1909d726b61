"""Decisions on the rows of a look: the partition and the batch of each, or why it is refused.

Owns: these decisions, which change nothing. Does not own: whether a log can be written now (`feeder`).
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from oncelog.broker.cluster.metadata_log import Topic
from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.storage.shared.tables import LARGEST_BYTES, OutboxRow
from oncelog.broker.turns.ports import WallMs
from oncelog.protocol.partitioning import partition_for_key
from oncelog.protocol.records.batch import HEADER_SIZE
from oncelog.protocol.records.record import Record

_RECORD_BYTES = 40
"""The most bytes that a record has beside key, value and headers: eight numbers of up to five bytes."""
_HEADER_BYTES = 10
_JSON_EXPANSION = 6
"""How many times longer headers can be as JSON than in a record: two bytes are `["", null], `, one is `\\u0001`. Longer
ones are refused unparsed: to make a record of them first would take seconds of the loop, and a gigabyte."""

HeaderList = Sequence[tuple[str, bytes | None]]
Place = tuple[str, int]
"""A topic, and a partition of it."""


class Sorted(NamedTuple):
    rows: Mapping[Place, Sequence[OutboxRow]]
    """The rows of each partition, in order."""
    refused: Sequence[tuple[int, str]]


class Piece(NamedTuple):
    """Rows that become one batch."""

    ids: Sequence[int]
    records: Sequence[Record]


class Pieces(NamedTuple):
    pieces: Sequence[Piece]
    refused: Sequence[tuple[int, str]]


def sort_rows(rows: Sequence[OutboxRow], find_topic: Callable[[str], Topic | None], look: int) -> Sorted:
    """Sort the rows by partition: the row's own, or that of its key by Kafka's default partitioner. Rows without either
    all go to one partition of their topic, another one at each `look`."""
    sorted_rows: dict[Place, list[OutboxRow]] = {}
    refused: list[tuple[int, str]] = []
    for row in rows:
        topic = find_topic(row.topic)
        if row.problem:
            refused.append((row.id, row.problem))
        elif row.topic.startswith("__"):
            refused.append((row.id, f"{row.topic} is an internal topic"))
        elif row.size_bytes > LARGEST_BYTES:
            refused.append((row.id, f"it has {row.size_bytes:,} bytes, and at most {LARGEST_BYTES:,} are taken"))
        elif topic is None:
            refused.append((row.id, f"there is no topic {row.topic}"))
        elif row.partition is not None and not 0 <= row.partition < topic.partition_count:
            refused.append((row.id, f"{row.topic} has {topic.partition_count} partitions, and no {row.partition}"))
        else:
            sorted_rows.setdefault((row.topic, _partition_of(row, topic.partition_count, look)), []).append(row)
    return Sorted(sorted_rows, refused)


def _partition_of(row: OutboxRow, partition_count: int, look: int) -> int:
    if row.partition is not None:
        return row.partition
    return look % partition_count if row.key is None else partition_for_key(row.key, partition_count)


def pieces_of(rows: Sequence[OutboxRow], config: LogConfig, wall_ms: WallMs) -> Pieces:
    """Return the batches of one partition. A record that is too large alone has its own, which the log refuses."""
    refused: list[tuple[int, str]] = []
    return Pieces(list(_pieces(rows, config, wall_ms, refused)), refused)


def _pieces(
    rows: Sequence[OutboxRow], config: LogConfig, wall_ms: WallMs, refused: list[tuple[int, str]]
) -> Iterator[Piece]:
    limit_bytes = min(config.max_message_bytes, config.segment_bytes)
    ids: list[int] = []
    records: list[Record] = []
    total_bytes = HEADER_SIZE
    for row in rows:
        if config.is_compacted and row.key is None:
            refused.append((row.id, f"{row.topic} is compacted, and the row has no key"))
            continue
        if row.headers is not None and len(row.headers) > _JSON_EXPANSION * limit_bytes:
            size = f"it has {row.size_bytes:,} bytes, and {row.topic} takes {limit_bytes:,} (max.message.bytes)"
            refused.append((row.id, size))
            continue
        try:
            headers = () if row.headers is None else headers_of(row.headers)
        except ValueError as error:
            refused.append((row.id, str(error)))
            continue
        size_bytes = _size_of(row, headers)
        if records and total_bytes + size_bytes > limit_bytes:
            yield Piece(ids, records)
            ids, records, total_bytes = [], [], HEADER_SIZE
        ids.append(row.id)
        # A database whose clock is ahead would let retention keep it for longer.
        records.append(Record(len(records), min(row.at_ms, wall_ms), row.key, row.value, tuple(headers)))
        total_bytes += size_bytes
    if records:
        yield Piece(ids, records)


def _size_of(row: OutboxRow, headers: HeaderList) -> int:
    """Return an upper bound of the record's size."""
    size_bytes = _RECORD_BYTES + len(row.key or b"") + len(row.value or b"")
    return size_bytes + sum(len(name.encode()) + len(value or b"") + _HEADER_BYTES for name, value in headers)


def headers_of(text: str | bytes) -> HeaderList:
    """Parse headers as `oncelog.produce` writes them: pairs of a text and a text or null. Raises ValueError."""
    try:
        return [_header(name, value) for name, value in json.loads(text)]
    except (TypeError, ValueError, RecursionError):
        raise ValueError("its headers are not pairs of texts") from None


def _header(name: object, value: object) -> tuple[str, bytes | None]:
    if not isinstance(name, str) or not isinstance(value, str | None):
        raise TypeError(name)
    return name, None if value is None else value.encode()
