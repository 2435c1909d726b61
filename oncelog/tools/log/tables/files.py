"""Partitions in tables as the files that they would have: for `oncelog log dump` and `oncelog log map`.

Owns: names, and which bytes are at which position. What a chunk lacks is zeros: that is where it is damaged. Does not
own: files that are written (`oncelog.tools.log.tables.export`).
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from pathlib import PurePath

from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.log.producer_state import ProducerStateManager
from oncelog.broker.log.store import LOGIN_SECRET
from oncelog.broker.storage.local.segment import LOG_SUFFIX, TRANSACTION_INDEX_SUFFIX, file_name
from oncelog.broker.storage.producer_snapshot import SUFFIXES, encode_snapshot
from oncelog.broker.storage.shared.tables import ChunkRow, Tables
from oncelog.protocol.errors import KafkaError
from oncelog.protocol.printable import printable_names
from oncelog.tools.log.read_only_disk import SegmentFile
from oncelog.tools.log.tables.content import METADATA, TablesContent, TableSegment
from oncelog.tools.log.tables.export import add_open


class NoSuchPartition(Exception):
    """The message says which there are."""


class PartitionFiles:
    def __init__(self, content: TablesContent, log: PartitionLog) -> None:
        self.log = log
        self._content = content
        self._segments = content.segments_of(log)
        self.size_bytes = sum(segment.size_bytes for segment in self._segments)

    def segments(self) -> list[tuple[int, Callable[[], SegmentFile]]]:
        """The base offset of each, and how it is opened."""
        return [(segment.base_offset, partial(_Segment, self._content, segment)) for segment in self._segments]

    def first_snapshot(self) -> bytes:
        """The producers before the first segment, as far as they are known."""
        state = ProducerStateManager()
        if self._segments:
            aborted = [entry for segment in self._segments for entry in segment.aborted.entries]
            add_open(state, self._segments[0], self.log.producer_state, aborted)
        return encode_snapshot(state).rows

    def files(self) -> dict[str, Callable[[], SegmentFile]]:
        """Return the segments, aborted transactions, and the producers at the end, by name of file."""
        found: dict[str, Callable[[], SegmentFile]] = {}
        for segment in self._segments:
            found[file_name(segment.base_offset, LOG_SUFFIX)] = partial(_Segment, self._content, segment)
            if len(segment.aborted):
                name = file_name(segment.base_offset, TRANSACTION_INDEX_SUFFIX)
                found[name] = partial(_Bytes, name, segment.aborted.to_bytes())
        snapshot = encode_snapshot(self.log.producer_state)
        for suffix, data in zip(SUFFIXES, (snapshot.rows, snapshot.batches), strict=True):
            name = file_name(self.log.log_end_offset, suffix)
            if data and self.log.log_end_offset:
                found[name] = partial(_Bytes, name, data)
        return found


def partition_files(tables: Tables, name: str) -> PartitionFiles:
    """Raises NoSuchPartition, OSError."""
    return _partition(TablesContent(tables), name)


def _partition(content: TablesContent, name: str) -> PartitionFiles:
    if name == METADATA.name:
        return PartitionFiles(content, content.open(METADATA))
    try:
        places = {place.name: place for place in content.places(content.metadata())}
    except KafkaError as error:
        raise NoSuchPartition(
            f"the metadata log cannot be replayed, which names the partitions: {error.message}"
        ) from error
    if name not in places:
        users = [each for each in sorted(places) if not each.startswith("__")]
        hint = f"; there are {printable_names(users)}" if users else ""
        raise NoSuchPartition(f"there is no partition {name} with records{hint}")
    log = content.open(places[name])
    if log.offline_error is not None:
        raise NoSuchPartition(log.offline_error)
    return PartitionFiles(content, log)


class TableFiles:
    """The Files of `oncelog log dump`."""

    def __init__(self, tables: Tables) -> None:
        self._content = TablesContent(tables)
        self._found: dict[str, Callable[[], SegmentFile]] = {
            path: partial(_Bytes, path, self._content.blobs[path])
            for path in self._content.kept_beside()
            if path != LOGIN_SECRET
        }

    def paths_of(self, name: str) -> list[str]:
        """The files of a partition, or the one that is named. Raises NoSuchPartition, OSError."""
        partition, _, file = name.rstrip("/").partition("/")
        files = _partition(self._content, partition).files()
        self._found |= {f"{partition}/{each}": opener for each, opener in files.items()}
        if file:
            return [name]
        return sorted(path for path in self._found if path.startswith(f"{partition}/"))

    def exists(self, path: str) -> bool:
        return path in self._found

    def open(self, path: str) -> SegmentFile:
        try:
            return self._found[path]()
        except KeyError:
            raise FileNotFoundError(2, "there is no such file", path) from None


class _Bytes:
    def __init__(self, path: str, data: bytes) -> None:
        self.path = PurePath(path).name
        self.size_bytes = len(data)
        self._data = memoryview(data)

    def read_view(self, start: int, end: int) -> memoryview:
        return self._data[start:end]

    def close(self) -> None:
        """Nothing is open."""


class _Segment:
    """Its chunks one after the other, fetched when they are read; the last one stays."""

    def __init__(self, content: TablesContent, segment: TableSegment) -> None:
        self.path = file_name(segment.base_offset, LOG_SUFFIX)
        self._content = content
        self._rows: Sequence[ChunkRow] = segment.chunks
        self._tail = memoryview(segment.journal)
        self._starts = [0, *accumulate(row.size_bytes for row in segment.chunks)]
        self.size_bytes = segment.size_bytes
        self._last: tuple[int, memoryview] = (-1, memoryview(b""))

    def read_view(self, start: int, end: int) -> memoryview:
        """Raises OSError."""
        parts: list[memoryview] = []
        position, end = start, min(end, self.size_bytes)
        while position < end:
            slot = bisect_right(self._starts, position) - 1
            data, at = self._piece(slot), position - self._starts[slot]
            parts.append(data[at : at + end - position])
            position += len(parts[-1])
        return parts[0] if len(parts) == 1 else memoryview(b"".join(parts))

    def _piece(self, slot: int) -> memoryview:
        if slot == len(self._rows):
            return self._tail
        if self._last[0] != slot:
            row = self._rows[slot]
            body = self._content.body_of(row) or b""
            self._last = slot, memoryview(body[: row.size_bytes].ljust(row.size_bytes, b"\0"))
        return self._last[1]

    def close(self) -> None:
        """Nothing is open."""
