"""Reads the batches of a partition, segment by segment, into a map.

Owns: going through the files, the outcomes of transactions, what can be read after damage. Does not own: the map.
Invariant: changes nothing and locks nothing; a broker may be writing meanwhile, and the end is as of that moment.

A transaction's batches are open until a marker of their producer follows. As compaction keeps a marker while any batch
of its transaction is left, a marker never decides about a transaction before its own.
"""

import re
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from oncelog.broker.storage.local.batch_scan import BatchScan
from oncelog.broker.storage.producer_snapshot import SUFFIX, load_snapshot
from oncelog.broker.turns.ports import MonotonicMs
from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.records.batch import HEADER_SIZE, LENGTH_AT, LENGTH_OVERHEAD, BatchHeader
from oncelog.protocol.records.control import ControlRecordType, decode_end_txn_marker
from oncelog.tools.file_copies import read
from oncelog.tools.log.map.partition import OpenTransaction, PartitionMap, SegmentMap, State
from oncelog.tools.log.points import KnownPoints
from oncelog.tools.log.read_only_disk import ReadOnlyFile, SegmentFile

_LOG_NAME = re.compile(r"\d{20}\.log")
_BATCHES_A_STEP = 2_000


class NoPartition(Exception):
    """Raised if there is no partition; the message says why."""


def log_files(directory: Path) -> list[Path]:
    """Raises NoPartition."""
    if not directory.is_dir():
        raise NoPartition(f"{directory} is not a directory")
    files = sorted(path for path in directory.iterdir() if _LOG_NAME.fullmatch(path.name))
    if not files:
        partitions = sorted(
            {path.parent for path in directory.glob("*/*.log") if not path.parent.name.startswith("__")}
        )
        hint = f"; {partitions[0]} is one" if partitions else ""
        raise NoPartition(f"{directory} is not a directory of a partition: it has no .log file{hint}")
    return files


def read_map(directory: Path, points: KnownPoints, on_progress: Callable[[int], None] | None = None) -> PartitionMap:
    """Read every batch; `on_progress` is called with the number of bytes read. Raises NoPartition, OSError."""
    topic, _, partition = directory.resolve().name.rpartition("-")
    if not topic or not partition.isdecimal():
        raise NoPartition(f"{directory} is not a directory of a partition, which would be named TOPIC-NUMBER")
    files = log_files(directory)
    try:
        snapshot = read(files[0].with_suffix(SUFFIX))
    except FileNotFoundError:
        snapshot = b""
    segments = [(int(path.stem), partial(ReadOnlyFile, str(path), path.name)) for path in files]
    return read_map_of(topic, int(partition), points, segments, snapshot, on_progress)


def read_map_of(
    topic: str,
    partition: int,
    points: KnownPoints,
    segments: Sequence[tuple[int, Callable[[], SegmentFile]]],
    snapshot: bytes,
    on_progress: Callable[[int], None] | None = None,
) -> PartitionMap:
    """Read every batch of segments, each given by its base offset and how it is opened. `snapshot` has the producers
    before the first one. Raises OSError."""
    reader = _Reader(PartitionMap(topic, partition, points), on_progress)
    reader.begin(snapshot)
    next_bases = [*(base_offset for base_offset, _ in segments[1:]), None]
    for (base_offset, open_segment), next_base in zip(segments, next_bases, strict=True):
        with closing(open_segment()) as file:
            reader.read_segment(file, base_offset, next_base)
    reader.finish()
    return reader.map


@dataclass(slots=True)
class _Transaction:
    producer_epoch: int
    first_offset: int
    cells: list[int] = field(default_factory=list)


class _Reader:
    def __init__(self, partition_map: PartitionMap, on_progress: Callable[[int], None] | None) -> None:
        self.map = partition_map
        self._on_progress = on_progress
        self._read_bytes = 0
        self._open: dict[int, _Transaction] = {}
        # Open where damage begins: their markers may be lost, and no later marker is certain to be theirs.
        self._lost_sight_of: list[tuple[int, _Transaction]] = []
        self._undecided: list[int] = []

    def begin(self, snapshot: bytes) -> None:
        """Find the transactions that were open where the log now begins: readers wait for them, even if their batches
        are gone."""
        try:
            producers = load_snapshot(snapshot, MonotonicMs(0)).producers()
        except ValueError:
            return
        for state in producers:
            if state.current_transaction_first_offset >= 0:
                first_offset = state.current_transaction_first_offset
                self._open[state.producer_id] = _Transaction(state.producer_epoch, first_offset)

    def read_segment(self, file: SegmentFile, base_offset: int, next_base: int | None) -> None:
        segment = SegmentMap(file.path, base_offset, file.size_bytes, len(self.map.states), 0, base_offset, [])
        position: int | None = 0
        while position is not None:
            position = self._read_run(file, segment, position, next_base)
        segment.end_cell = len(self.map.states)
        self.map.segments.append(segment)
        self._read_bytes += segment.size_bytes
        self._report(0)

    def _read_run(self, file: SegmentFile, segment: SegmentMap, start: int, next_base: int | None) -> int | None:
        """Read up to the first bad batch; returns where the next one may begin after it, None at the end of the
        file."""
        scan = BatchScan(
            file.read_view, file.size_bytes, segment.next_offset, has_gaps=True, end_offset=next_base, position=start
        )
        position = start
        for number, (header, batch) in enumerate(scan):
            self._add(header, position, len(batch), self._state_of(header, batch))
            position = scan.position
            if number % _BATCHES_A_STEP == 0:
                self._report(position)
        segment.next_offset = scan.next_offset
        if scan.problem is None:
            return None
        prefix = file.read_view(position, position + LENGTH_OVERHEAD)
        size_bytes = LENGTH_OVERHEAD + int.from_bytes(prefix[LENGTH_AT:], "big", signed=True)
        left_bytes = file.size_bytes - position
        goes_on = HEADER_SIZE <= size_bytes <= left_bytes - HEADER_SIZE
        self._add_damage(segment, position, size_bytes if goes_on else left_bytes, next_base)
        segment.problems.append((position, segment.next_offset, scan.problem))
        return position + size_bytes if goes_on else None

    def _report(self, position: int) -> None:
        if self._on_progress is not None:
            self._on_progress(self._read_bytes + position)

    def _add(self, header: BatchHeader, position: int, size_bytes: int, state: State) -> None:
        columns = self.map
        if columns.states and columns.states[-1] == State.DAMAGED:
            columns.next_offsets[-1] = header.base_offset  # now the extent of the damage is known
        columns.states.append(state)
        columns.base_offsets.append(header.base_offset)
        columns.next_offsets.append(header.next_offset)
        columns.positions.append(position)
        columns.sizes_bytes.append(size_bytes)
        columns.record_counts.append(header.record_count)
        columns.producer_ids.append(header.producer_id)

    def _add_damage(self, segment: SegmentMap, position: int, size_bytes: int, next_base: int | None) -> None:
        self._lost_sight_of += self._open.items()
        self._open.clear()
        columns = self.map
        columns.states.append(State.DAMAGED)
        columns.base_offsets.append(segment.next_offset)
        columns.next_offsets.append(segment.next_offset if next_base is None else next_base)
        columns.positions.append(position)
        columns.sizes_bytes.append(size_bytes)
        columns.record_counts.append(0)
        columns.producer_ids.append(-1)

    def _state_of(self, header: BatchHeader, batch: memoryview) -> State:
        if not header.record_count:
            return State.EMPTIED
        if header.is_control:
            return self._end(header, batch)
        if not header.is_transactional:
            return State.PLAIN
        transaction = self._open.get(header.producer_id)
        if transaction is None:
            transaction = self._open[header.producer_id] = _Transaction(header.producer_epoch, header.base_offset)
        transaction.cells.append(len(self.map.states))
        return State.OPEN

    def _end(self, header: BatchHeader, batch: memoryview) -> State:
        try:
            control_type, _ = decode_end_txn_marker(batch)
        except ProtocolError:
            return State.OTHER_CONTROL
        is_commit = control_type is ControlRecordType.COMMIT
        transaction = self._open.pop(header.producer_id, None)
        if transaction is not None:
            for cell in transaction.cells:
                self.map.states[cell] = State.COMMITTED if is_commit else State.ABORTED
            durable_end = self.map.points.high_watermark
            if durable_end is not None and header.base_offset >= durable_end:
                self._undecided.append(transaction.first_offset)
        return State.COMMIT_MARKER if is_commit else State.ABORT_MARKER

    def finish(self) -> None:
        still_open = sorted((*self._lost_sight_of, *self._open.items()), key=lambda found: found[1].first_offset)
        self.map.open_transactions = [
            OpenTransaction(producer_id, found.producer_epoch, found.first_offset, len(found.cells))
            for producer_id, found in still_open
        ]
        undecided = [*self._undecided, *(found.first_offset for _, found in still_open)]
        self.map.undecided_offset = min(undecided, default=None)
