"""Determines what is intact and what is lost of a damaged partition: file by file, batch by batch, past the damage.

Owns: the decision only; changes nothing (`repair` does). Invariants
- A whole batch counts as lost only if keeping it could expose an aborted record.
- If a transaction is open where the damage begins, its marker may be lost: a later marker of the same producer must not
  decide it. Everything after the damage then counts as lost.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from oncelog.broker.storage.local.batch_scan import BatchScan
from oncelog.broker.storage.local.segment import LOG_SUFFIX, file_name
from oncelog.broker.turns.ports import Disk
from oncelog.protocol.errors import ProtocolError
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
from oncelog.protocol.records.control import decode_end_txn_marker

_OFFSET_PREFIX_BYTES = 5  # of eight: almost always the same in all batches of a segment


@dataclass(frozen=True, slots=True)
class LostRange:
    """Lost offsets [first_offset, next_offset), with the position and the reason."""

    first_offset: int
    next_offset: int
    file: str
    position: int
    problem: str


@dataclass(frozen=True, slots=True)
class KeptRange:
    """A run of whole batches: the bytes [start, end) of a file."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class FillerRange:
    """Offsets that an empty batch must hold, so that none is reused."""

    first_offset: int
    next_offset: int


@dataclass(slots=True)
class FileSurvey:
    """The content that one `.log` file should have after the repair."""

    base_offset: int
    size_bytes: int | None
    """The size of the file; None if it is missing."""
    parts: list[KeptRange | FillerRange] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        if self.size_bytes is None:
            return False
        return self.parts == ([KeptRange(0, self.size_bytes)] if self.size_bytes else [])


@dataclass(slots=True)
class Survey:
    directory: str
    files: list[FileSurvey] = field(default_factory=list)
    lost: list[LostRange] = field(default_factory=list)
    end_offset: int = 0
    open_transactions: dict[int, int] = field(default_factory=dict)
    """Producer id and first offset of the transactions open at the damage, which make later batches unsafe."""

    @property
    def lost_count(self) -> int:
        return sum(lost.next_offset - lost.first_offset for lost in self.lost)


def survey_partition(
    disk: Disk,
    directory: str,
    start_offset: int | None,
    synced_offset: int,
    *,
    has_gaps: bool,
    can_skip_damage: bool = True,
) -> Survey:
    """Read every `.log` file. `start_offset`: where the log must begin, None if unknown; `synced_offset`: everything
    below it was durable; `has_gaps`: compaction may have removed batches; unless `can_skip_damage`, records are useless
    without all those before them."""
    return _Surveyor(disk, directory, synced_offset, has_gaps, can_skip_damage).run(start_offset)


class _Surveyor:
    def __init__(self, disk: Disk, directory: str, synced_offset: int, has_gaps: bool, can_skip_damage: bool) -> None:
        self._disk = disk
        self._directory = directory
        self._synced_offset = synced_offset
        self._has_gaps = has_gaps
        self._can_skip_damage = can_skip_damage
        self._survey = Survey(directory)
        self._open: dict[int, int] = {}
        self._file = FileSurvey(0, None)
        self._is_unsafe = False

    def run(self, start_offset: int | None) -> Survey:
        names = [name for name in self._disk.list_dir(self._directory) if name.endswith(LOG_SUFFIX)]
        bases = sorted(int(name[:20]) for name in names if len(name) == 24 and name[:20].isdecimal())
        first = bases[0] if bases else start_offset or 0
        expected = first if start_offset is None else min(first, start_offset)
        for slot, base_offset in enumerate(bases):
            next_base = bases[slot + 1] if slot + 1 < len(bases) else None
            if base_offset > expected and not (self._has_gaps and slot):
                self._on_missing(expected, base_offset)
            expected = self._read_file(base_offset, next_base)
        if expected < self._synced_offset:
            last = self._file.parts[-1] if self._file.parts else None
            is_good_to_its_end = isinstance(last, KeptRange) and last.end == self._file.size_bytes
            if self._file.size_bytes is None or is_good_to_its_end:
                self._on_missing(expected, self._synced_offset)
            else:
                self._lose(expected, self._synced_offset, self._path, self._file.size_bytes, "the file is too short")
            expected = self._synced_offset
        self._survey.end_offset = expected
        return self._survey

    @property
    def _path(self) -> str:
        return f"{self._directory}/{file_name(self._file.base_offset, LOG_SUFFIX)}"

    def _on_missing(self, first_offset: int, next_offset: int) -> None:
        self._begin_file(first_offset, None)
        self._lose(first_offset, next_offset, self._path, 0, "the file is missing")

    def _begin_file(self, base_offset: int, size_bytes: int | None) -> None:
        self._file = FileSurvey(base_offset, size_bytes)
        self._survey.files.append(self._file)

    def _lose(self, first_offset: int, next_offset: int, file: str, position: int, problem: str) -> None:
        if next_offset > first_offset:
            self._survey.lost.append(LostRange(first_offset, next_offset, file, position, problem))
            self._file.parts.append(FillerRange(first_offset, next_offset))
        if (self._open or not self._can_skip_damage) and not self._is_unsafe:
            self._is_unsafe = True
            self._survey.open_transactions = dict(self._open)

    # -- one file

    def _read_file(self, base_offset: int, next_base: int | None) -> int:
        """Survey one file; returns the offset after the last one that it accounts for."""
        path = f"{self._directory}/{file_name(base_offset, LOG_SUFFIX)}"
        file = self._disk.open(path)
        size_bytes = file.size_bytes
        self._begin_file(base_offset, size_bytes)
        expected, position = base_offset, 0
        while True:
            scan = BatchScan(
                file.read_view,
                size_bytes,
                expected,
                has_gaps=self._has_gaps and next_base is not None,
                end_offset=next_base,
                position=position,
            )
            problem = self._take_run(scan)
            expected, position = scan.next_offset, scan.position
            problem = problem or scan.problem
            if problem is None:
                break
            found = _next_batch(bytes(file.read_view(position, size_bytes)), expected, next_base)
            if found is None:
                expected = self._lose_rest(expected, next_base, position, problem)
                break
            at, next_offset = found
            self._lose(expected, next_offset, path, position, problem)
            expected, position = next_offset, position + at
        file.close()
        return expected

    def _lose_rest(self, expected: int, next_base: int | None, position: int, problem: str) -> int:
        end = self._synced_offset if next_base is None else next_base
        if end <= expected:
            return expected  # a torn write
        self._lose(expected, end, self._path, position, problem)
        return end

    def _take_run(self, scan: BatchScan) -> str | None:
        """Keep the batches that the scan finds, up to an invalid marker."""
        start = position = scan.position
        problem = None
        first_offset = next_offset = scan.next_offset
        for header, batch in scan:
            problem = self._follow(header, batch)
            if problem is not None:
                scan.position, scan.next_offset = position, next_offset
                break
            position, next_offset = scan.position, scan.next_offset
        if position > start:
            if not self._is_unsafe:
                self._file.parts.append(KeptRange(start, position))
            else:
                why = "records before it are lost" if not self._open else "a transaction was open where damage began"
                self._lose(first_offset, next_offset, self._path, start, why)
        return problem

    def _follow(self, header: BatchHeader, batch: memoryview) -> str | None:
        if header.is_control and header.record_count:
            try:
                decode_end_txn_marker(batch)
            except ProtocolError as error:
                return f"a control batch that is not a marker: {error}"
            self._open.pop(header.producer_id, None)
        elif header.is_transactional:
            self._open.setdefault(header.producer_id, header.base_offset)
        return None


def _next_batch(data: bytes, expected: int, next_base: int | None) -> tuple[int, int] | None:
    """(position, base offset) of the first whole batch after a bad one at the start of `data`."""
    view = memoryview(data)
    for at in _candidates(data, expected):
        size_bytes = LENGTH_OVERHEAD + int.from_bytes(view[at + LENGTH_AT : at + LENGTH_OVERHEAD], "big", signed=True)
        if view[at + MAGIC_AT] != MAGIC or not HEADER_SIZE <= size_bytes <= len(data) - at:
            continue
        header = read_header(view, at)
        is_in_place = header.base_offset > expected and (next_base is None or header.base_offset < next_base)
        if is_in_place and header.last_offset_delta >= 0 and check_crc(view[at : at + size_bytes]):
            return at, header.base_offset
    return None


def _candidates(data: bytes, expected: int) -> Iterator[int]:
    """Where a batch may begin: after the bad one, by its length, then wherever the first bytes of an offset occur."""
    claimed = LENGTH_OVERHEAD + int.from_bytes(data[LENGTH_AT:LENGTH_OVERHEAD], "big", signed=True)
    if HEADER_SIZE <= claimed <= len(data) - HEADER_SIZE:
        yield claimed
    prefix = expected.to_bytes(8, "big")[:_OFFSET_PREFIX_BYTES]
    at = data.find(prefix, 1)
    while 0 <= at <= len(data) - HEADER_SIZE:
        yield at
        at = data.find(prefix, at + 1)
