"""One segment of a partition: its `.log` file and three indexes.

Owns: bytes and positions of the batches between two offsets. Does not own: what may be appended, read bounds.
Invariants
- `.log` holds whole batches with increasing offsets, in Kafka's format; `next_offset` follows the last one, or, after
  compaction (`has_gaps`), is where the next segment begins.
- Indexes grow in memory and are written when the segment is complete (`write_indexes`): a file that does not match the
  manifest is never used.
- `crc` is the CRC-32C of everything appended, updated by each append: of the bytes that the file should have.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from oncelog.broker.storage.local.deferred import Results
from oncelog.broker.storage.local.offset_index import OffsetIndex
from oncelog.broker.storage.local.time_index import TimeIndex
from oncelog.broker.storage.transaction_index import TransactionIndex
from oncelog.broker.turns.ports import Buffer, Disk, File, MonotonicMs
from oncelog.protocol.checksum import crc32c
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.records.batch import LENGTH_AT, LENGTH_OVERHEAD, SPAN

_SPAN_BYTES = SPAN.size
LOG_SUFFIX = ".log"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
_HINT_LIMIT = 64
_SCAN_BYTES = 64 * 1024
_BOUNDARY_SCAN_BYTES = 4 * 1024
"""The bytes of an offset index interval, by default: one read finds a boundary among small batches."""
_NOTHING = memoryview(b"")
_WARM_BYTES = 32 * 1024 * 1024
"""The newest bytes are assumed to be in the page cache: at least this many, at most twice as many."""


def file_name(offset: int, suffix: str) -> str:
    """Kafka's file names: 20 digits and the suffix."""
    return f"{offset:020d}{suffix}"


@dataclass(frozen=True, slots=True)
class BatchSpan:
    """The position of one batch, read from its header only."""

    base_offset: int
    last_offset: int
    position: int
    size_bytes: int
    max_timestamp: int


class Segment:
    __slots__ = (
        "_bytes_since_index_entry",
        "_positions",
        "base_offset",
        "crc",
        "created_ms",
        "directory",
        "file",
        "first_timestamp",
        "has_gaps",
        "index",
        "max_timestamp",
        "max_timestamp_offset",
        "next_offset",
        "results",
        "size_bytes",
        "time_index",
        "transaction_index",
        "unverified_sum",
        "warm_from",
    )

    def __init__(
        self, disk: Disk, directory: str, base_offset: int, created_ms: MonotonicMs, *, suffix: str = LOG_SUFFIX
    ) -> None:
        self.directory = directory
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.file: File = disk.open(self.path(suffix))
        self.size_bytes = 0
        self.results: Results | None = None
        """The cache for lookups of the event loop; None: readers may block on the disk."""
        self.warm_from = 0
        """The position after which everything was written recently by this process."""
        self.crc = 0
        # (size, CRC-32C) of bytes that an earlier run wrote and that were not read since; None: verified.
        self.unverified_sum: tuple[int, int] | None = None
        self.created_ms = created_ms
        self.index = OffsetIndex(base_offset)
        self.time_index = TimeIndex(base_offset)
        self.transaction_index = TransactionIndex()
        self.first_timestamp = -1
        # Compacted: offsets may be missing, including the last ones before `next_offset`.
        self.has_gaps = False
        self.max_timestamp = -1
        self.max_timestamp_offset = base_offset  # last offset of the batch with max_timestamp
        self._bytes_since_index_entry = 0
        # Batch boundaries of recent reads: a tail reader finds its position without a search.
        self._positions: dict[int, int] = {}

    def path(self, suffix: str) -> str:
        return f"{self.directory}/{file_name(self.base_offset, suffix)}"

    def append(
        self,
        parts: Sequence[Buffer],
        size_bytes: int,
        next_offset: int,
        max_timestamp: int,
        index_interval_bytes: int,
    ) -> None:
        """Write one batch. Raises OSError, changing nothing."""
        self.file.append(parts)
        for part in parts:
            self.crc = crc32c(part, self.crc)
        self.on_batch(size_bytes, next_offset, max_timestamp, index_interval_bytes)

    def on_batch(self, size_bytes: int, next_offset: int, max_timestamp: int, index_interval_bytes: int) -> None:
        """A batch is in the file at `size_bytes`: extend the indexes. Recovery rebuilds them with the same step."""
        position = self.size_bytes
        if self._bytes_since_index_entry > index_interval_bytes:
            if position - self.warm_from > 2 * _WARM_BYTES and self.results is not None:
                self.warm_from = position - _WARM_BYTES
            self.index.append(next_offset - 1, position)
            self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset)
            self._bytes_since_index_entry = 0
        self._bytes_since_index_entry += size_bytes
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = next_offset - 1
        if position == 0:
            self.first_timestamp = max_timestamp
        self.size_bytes = position + size_bytes
        self.next_offset = next_offset

    def serve(self, results: Results) -> None:
        """Let the event loop read this segment from now on: reading bytes not in the page cache raises Deferred."""
        self.results = results
        self.warm_from = self.size_bytes

    def view(self, start: int, end: int) -> memoryview:
        """The bytes [start, end), fewer at the end of the file. Raises Deferred, OSError."""
        if start >= self.warm_from or self.results is None:
            return self.file.read_view(start, end)
        view = self.file.cached_view(start, end)
        if view is not None:
            return view
        read_range, path = self.results.read_range, self.file.path

        def fetch() -> bytes:
            try:
                return read_range(path, start, end)
            except FileNotFoundError:
                return b""  # deleted by retention or compaction; otherwise the retry finds it too short

        fetched: bytes = self.results.get((self, start, end), fetch, end - start)
        return memoryview(fetched)

    def note_position(self, offset: int, position: int) -> None:
        """Cache a batch boundary that a reader is likely to request."""
        if len(self._positions) >= _HINT_LIMIT:
            self._positions.clear()
        self._positions[offset] = position

    def position_of(self, offset: int) -> int:
        """Position of the first batch whose last offset is at or past `offset`; the end if compaction removed it."""
        if offset >= self.next_offset:
            return self.size_bytes
        if offset <= self.base_offset:
            return 0
        position = self._positions.get(offset)
        if position is None:
            for span in self.spans(self.index.lookup(offset)):
                if span.last_offset >= offset:
                    self.note_position(offset, span.position)
                    return span.position
            if self.has_gaps:
                return self.size_bytes
            raise self.damaged(offset)
        return position

    def spans(self, position: int = 0) -> Iterator[BatchSpan]:
        """The batches from a boundary, by their headers; stops where no whole batch follows."""
        end = self.size_bytes
        chunk, chunk_start = memoryview(b""), position
        while position + _SPAN_BYTES <= end:
            at = position - chunk_start
            if at + _SPAN_BYTES > len(chunk):
                chunk, chunk_start, at = self.view(position, min(end, position + _SCAN_BYTES)), position, 0
                if len(chunk) < _SPAN_BYTES:
                    return  # the file was truncated meanwhile
            base_offset, length, last_delta, _, max_timestamp = SPAN.unpack_from(chunk, at)
            size_bytes = LENGTH_OVERHEAD + length
            if size_bytes < _SPAN_BYTES or position + size_bytes > end:
                return
            yield BatchSpan(base_offset, base_offset + last_delta, position, size_bytes, max_timestamp)
            position += size_bytes

    def last_boundary(self, start: int, limit: int, *, whole_first: bool) -> tuple[int, int]:
        """The last batch boundary between `start`, which is one, and `limit`, before the end, and an offset at or past
        the records before it; the end of the first batch, if that is past `limit` and `whole_first`. Raises Deferred.
        """
        position = max(start, self.index.position_at_or_before(limit))
        chunk, at = _NOTHING, 0
        while True:
            if at + _SPAN_BYTES > len(chunk):
                ahead = min(limit - position, _BOUNDARY_SCAN_BYTES) + _SPAN_BYTES
                chunk, at = self.view(position, min(self.size_bytes, position + ahead)), 0
                if len(chunk) < _SPAN_BYTES:
                    raise self.damaged(None, position)
            base_offset, length, last_delta, _, _ = SPAN.unpack_from(chunk, at)
            after = position + LENGTH_OVERHEAD + length
            if LENGTH_OVERHEAD + length < _SPAN_BYTES or after > self.size_bytes:
                raise self.damaged(None, position)
            if after > limit and not (whole_first and position == start):
                return position, base_offset
            if after >= limit:
                return after, base_offset + last_delta + 1
            at += after - position
            position = after

    def read(self, start: int, end: int) -> memoryview:
        """The bytes between two batch boundaries. Raises Deferred."""
        view = self.file.read_view(start, end) if start >= self.warm_from else self.view(start, end)
        if len(view) < end - start:
            raise self.damaged(None, start + len(view))  # shorter than it was: must not look like the end
        first_bytes = LENGTH_OVERHEAD + int.from_bytes(view[LENGTH_AT:LENGTH_OVERHEAD], "big")
        if not _SPAN_BYTES <= first_bytes <= end - start:
            raise self.damaged(None, start)
        return view

    def damaged(self, offset: int | None = None, position: int | None = None) -> KafkaError:
        """The error for a reader that finds no valid batch in a segment that was whole."""
        known = (("position", position), ("offset", offset))
        where = ", ".join(f"{name} {value}" for name, value in known if value is not None)
        return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{self.path(LOG_SUFFIX)} is damaged: no whole batch at {where}")

    def write_indexes(self, disk: Disk) -> tuple[list[File], list[bytes]]:
        """Write the index files of a complete segment; returns the files, to be synced, and the contents of all three.
        As in Kafka an empty transaction index has no file."""
        self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset)
        contents = [self.index.to_bytes(), self.time_index.to_bytes(), self.transaction_index.to_bytes()]
        files: list[File] = []
        for suffix, data in zip((".index", ".timeindex", TRANSACTION_INDEX_SUFFIX), contents, strict=True):
            if suffix == TRANSACTION_INDEX_SUFFIX and not data and not disk.exists(self.path(suffix)):
                continue
            file = disk.open(self.path(suffix))
            # A file that is already right stays: truncating ten thousand files takes a file system half a minute.
            if file.size_bytes != len(data) or (data and file.read_view(0, len(data)) != data):
                file.truncate(0)
                if data:
                    file.append([data])
            files.append(file)
        return files, contents
