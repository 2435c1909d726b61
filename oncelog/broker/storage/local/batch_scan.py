"""Scans the batches of an unverified `.log` file, up to the first one that is not whole.

Owns: the definition of a whole batch. Does not own: what a bad one means. Invariant: a batch is yielded only if its
length, offsets and checksum are all correct.
"""

from collections.abc import Callable, Iterator

from oncelog.protocol.records.batch import (
    HEADER_SIZE,
    LENGTH_AT,
    LENGTH_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    BatchHeader,
    check_crc,
    read_header,
)

_CHUNK_BYTES = 1024 * 1024

ReadView = Callable[[int, int], memoryview]


class BatchScan:
    """Iterate once; `problem` then says what is wrong at `position`, or is None if the file is valid to its end."""

    def __init__(
        self,
        read_view: ReadView,
        file_bytes: int,
        base_offset: int,
        *,
        has_gaps: bool,
        end_offset: int | None = None,
        position: int = 0,
    ) -> None:
        """Scan from the boundary at `position`, where the batch of `base_offset` is expected, or with `has_gaps` a
        later one. None may extend past `end_offset`, where the next segment begins: the checksum of a batch does not
        cover its base offset."""
        self._read_view = read_view
        self._file_bytes = file_bytes
        self._has_gaps = has_gaps
        self._end_offset = end_offset
        self.position = position
        self.next_offset = base_offset
        self.problem: str | None = None

    def __iter__(self) -> Iterator[tuple[BatchHeader, memoryview]]:
        chunk, chunk_start = memoryview(b""), 0
        while self.position < self._file_bytes:
            position = self.position
            at = position - chunk_start
            size_bytes = _size_at(chunk, at)
            if size_bytes is None or at + size_bytes > len(chunk):
                chunk, chunk_start, at = self._read_view(position, position + _CHUNK_BYTES), position, 0
                size_bytes = _size_at(chunk, 0)
                if size_bytes is not None and len(chunk) < size_bytes <= self._file_bytes - position:
                    chunk = self._read_view(position, position + size_bytes)
            self.problem = _problem(chunk, at, size_bytes, self.next_offset, has_gaps=self._has_gaps)
            if self.problem is not None or size_bytes is None:
                return
            batch = chunk[at : at + size_bytes]
            header = read_header(batch)
            if self._end_offset is not None and header.next_offset > self._end_offset:
                self.problem = f"a batch of offset {header.base_offset} overlaps the next segment"
                return
            self.position = position + size_bytes
            self.next_offset = header.next_offset
            yield header, batch


def _size_at(chunk: memoryview, at: int) -> int | None:
    if at < 0 or at + LENGTH_OVERHEAD > len(chunk):
        return None
    return LENGTH_OVERHEAD + int.from_bytes(chunk[at + LENGTH_AT : at + LENGTH_OVERHEAD], "big", signed=True)


def _problem(chunk: memoryview, at: int, size_bytes: int | None, expected_offset: int, *, has_gaps: bool) -> str | None:
    left = len(chunk) - at
    if size_bytes is None or left < HEADER_SIZE or size_bytes > left:
        return f"the last {left} bytes hold no whole batch"
    if size_bytes < HEADER_SIZE or chunk[at + MAGIC_AT] != MAGIC:
        return "no batch begins here"
    header = read_header(chunk, at)
    if header.base_offset < expected_offset or (header.base_offset > expected_offset and not has_gaps):
        return f"a batch of offset {header.base_offset} where {expected_offset} is expected"
    if header.last_offset_delta < 0 or not check_crc(chunk[at : at + size_bytes]):
        return "the checksum of the batch does not match its bytes"
    return None
