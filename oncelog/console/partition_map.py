"""A window of a partition, batch by batch, as a reader's map of it: pure.

Owns: what each batch is, which of them read_committed readers may see yet, where the named offsets lie between them,
which window shows the end of a log. Does not own: reading (`reading`), drawing (the templates).

`RawBatch.fate` says "open" of every transactional batch at and above the last stable offset. If the window contains its
marker, the map says how it ended, as `oncelog log map` does, and that readers wait: `is_stable` is False.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from oncelog.client.consuming.raw_batches import RawBatch
from oncelog.client.values.records import TopicPartition
from oncelog.protocol.records.control import ControlRecordType
from oncelog.tools.log.map.partition import MEANINGS, State

MAX_WINDOW_BYTES = 4 * 1024 * 1024
"""The most bytes that a window may make the cluster send, whatever its batches hold."""
_FATES = {
    "plain": State.PLAIN,
    "committed": State.COMMITTED,
    "aborted": State.ABORTED,
    "open": State.OPEN,
}
_MARKERS = {ControlRecordType.COMMIT: State.COMMIT_MARKER, ControlRecordType.ABORT: State.ABORT_MARKER}
_ENDED = {State.COMMIT_MARKER: State.COMMITTED, State.ABORT_MARKER: State.ABORTED}
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True, slots=True)
class Bounds:
    """The offsets that bound a partition for its readers."""

    log_start_offset: int
    last_stable_offset: int
    high_watermark: int
    log_end_offset: int

    @property
    def unstable_count(self) -> int:
        """The number of offsets that read_committed readers wait for."""
        return self.high_watermark - self.last_stable_offset

    @property
    def named(self) -> tuple[tuple[str, str, int], ...]:
        """The bounds from the first to the last, each with its short name, its whole name and its offset."""
        return (
            ("start", "log start offset", self.log_start_offset),
            ("LSO", "last stable offset", self.last_stable_offset),
            ("HW", "high watermark", self.high_watermark),
            ("end", "log end offset", self.log_end_offset),
        )


@dataclass(frozen=True, slots=True)
class Cell:
    """One batch on the map."""

    state: State
    base_offset: int
    last_offset: int
    record_count: int
    size_bytes: int
    compression: str
    timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_stable: bool
    """Whether it is below the last stable offset, so that a read_committed reader has passed it, or may."""

    @property
    def next_offset(self) -> int:
        return self.last_offset + 1

    @property
    def letter(self) -> str:
        return MEANINGS[self.state][0]

    @property
    def meaning(self) -> str:
        return MEANINGS[self.state][1]

    @property
    def width(self) -> int:
        """The width of the cell, from 1 to 4: the decimal digits of the number of records."""
        return min(4, len(str(self.record_count)))


@dataclass(frozen=True, slots=True)
class Window:
    """Consecutive batches of a partition, read from `start_offset` on; `is_cut` if a limit ended it."""

    partition: TopicPartition
    bounds: Bounds
    start_offset: int
    cells: tuple[Cell, ...]
    is_cut: bool = False

    @property
    def first_offset(self) -> int:
        return self.cells[0].base_offset if self.cells else self.start_offset

    @property
    def next_offset(self) -> int:
        return self.cells[-1].next_offset if self.cells else self.bounds.high_watermark

    @property
    def older_offset(self) -> int | None:
        """Where a window of as many offsets before this one begins; None at the start of the log."""
        if self.first_offset <= self.bounds.log_start_offset:
            return None
        span = max(1, self.next_offset - self.first_offset)
        return max(self.bounds.log_start_offset, self.first_offset - span)

    @property
    def newer_offset(self) -> int | None:
        """Where the window after this one begins; None at the end of the log."""
        return self.next_offset if self.next_offset < self.bounds.high_watermark else None


def cells_of(batches: Iterable[RawBatch]) -> tuple[Cell, ...]:
    """Return the cells of one partition's batches in order, with the fate of those whose marker is among them."""
    cells: list[Cell] = []
    undecided: dict[int, list[int]] = {}
    for batch in batches:
        cell = _cell(batch)
        if cell.state is State.OPEN:
            undecided.setdefault(cell.producer_id, []).append(len(cells))
        elif cell.state in _ENDED:
            for number in undecided.pop(cell.producer_id, ()):
                cells[number] = replace(cells[number], state=_ENDED[cell.state])
        cells.append(cell)
    return tuple(cells)


def _cell(batch: RawBatch) -> Cell:
    header = batch.header
    if not header.record_count:
        state = State.EMPTIED
    elif batch.control_type is not None:
        state = _MARKERS[batch.control_type]
    else:
        state = _FATES[batch.fate]
    return Cell(
        state,
        header.base_offset,
        header.last_offset,
        header.record_count,
        len(batch.data),
        COMPRESSIONS[header.compression_type],
        header.max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.base_offset < batch.last_stable_offset,
    )


def better_start(window: Window, wanted_count: int) -> int:
    """Return where to read instead so that the window shows about `wanted_count` batches up to the end, within its
    limit of bytes; its own start if the window shows nothing better."""
    start, end = window.start_offset, window.bounds.high_watermark
    if not window.cells or start >= end:
        return start
    offsets = window.next_offset - window.first_offset
    sizes = sum(each.size_bytes for each in window.cells)
    affordable = MAX_WINDOW_BYTES // 2 * offsets // sizes
    if window.next_offset < end:
        return max(start, end - max(1, affordable))
    if len(window.cells) > wanted_count // 2 or start <= window.bounds.log_start_offset:
        return start
    wanted = wanted_count * 3 // 4 * offsets // len(window.cells)
    return min(start, max(window.bounds.log_start_offset, end - min(wanted, affordable)))


# --- what is drawn ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ruler:
    """Named offsets that lie before the same cell: ("LSO", "HW") at 42."""

    names: tuple[str, ...]
    title: str
    offset: int


@dataclass(frozen=True, slots=True)
class Strip:
    """A window as a row of cells and rulers in their order, and how many cells there are of each state."""

    window: Window
    items: tuple[Cell | Ruler, ...]
    counts: tuple[tuple[State, int], ...]


def strip_of(window: Window) -> Strip:
    """Return the strip of a window. A ruler stands before the first batch that ends after its offset; rulers outside
    the window are left out, except those at its very end."""
    items: list[Cell | Ruler] = []
    rulers = [each for each in _rulers(window.bounds) if each.offset >= window.first_offset]
    for cell in window.cells:
        while rulers and rulers[0].offset < cell.next_offset:
            items.append(rulers.pop(0))
        items.append(cell)
    if window.newer_offset is None:
        items += rulers
    states = [each.state for each in window.cells]
    counts = tuple((state, states.count(state)) for state in MEANINGS if state in states)
    return Strip(window, tuple(items), counts)


def _rulers(bounds: Bounds) -> list[Ruler]:
    by_offset: dict[int, list[tuple[str, str]]] = {}
    for short, name, offset in bounds.named:
        by_offset.setdefault(offset, []).append((short, name))
    return [
        Ruler(tuple(short for short, _ in names), " = ".join(name for _, name in names), offset)
        for offset, names in sorted(by_offset.items())
    ]


@dataclass(frozen=True, slots=True)
class Track:
    """A whole log as a bar of 1,000 units: where it becomes unstable, and which part a window shows."""

    unstable_from: int
    shown_from: int
    shown_width: int


TRACK_UNITS = 1_000
_LEAST_WIDTH = 8
"""The least width of a window, in units: a narrower one could not be seen."""


def track_of(window: Window) -> Track:
    bounds = window.bounds
    span = max(1, bounds.log_end_offset - bounds.log_start_offset)

    def unit(offset: int) -> int:
        return min(TRACK_UNITS, max(0, (offset - bounds.log_start_offset) * TRACK_UNITS // span))

    start = min(unit(window.first_offset), TRACK_UNITS - _LEAST_WIDTH)
    width = max(_LEAST_WIDTH, unit(window.next_offset) - start)
    return Track(unit(bounds.last_stable_offset), start, width)
