"""The records of one partition in memory, as the StoredLog of its PartitionLog.

Owns: the batches, in segments of up to `segment.bytes`, so that retention and compaction remove as much at a time as
they do with files. An append is as durable as it gets.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

from oncelog.broker.log.leader_epochs import EpochStart
from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.producer_state import ProducerStateManager
from oncelog.broker.log.store import PLENTY_BYTES, AbortedEntry, Batches, FoundRecord, ReadResult
from oncelog.broker.log.values import AbortedTransaction
from oncelog.broker.storage.retention import StoredSegment, retention_start
from oncelog.broker.storage.transaction_index import TransactionIndex
from oncelog.broker.turns.ports import Buffer, Clock, MonotonicMs, WallMs
from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.records.batch import read_header
from oncelog.protocol.records.record import decode_records

_REPLAYED_BATCHES = 100
_BYTES_A_BATCH = 160
"""The memory that a batch takes beside its own bytes."""
_MAX_SEARCHED_BYTES = 8 * 1024 * 1024


class RollableSegment(StoredSegment, Protocol):
    created_ms: MonotonicMs


class MemorySegment:
    """Consecutive batches; compaction may leave gaps between them."""

    __slots__ = (
        "base_offset",
        "batches",
        "created_ms",
        "ends",
        "first_timestamp",
        "max_timestamp",
        "next_offset",
        "open_producers",
        "positions",
        "size_bytes",
        "timestamps",
        "transaction_index",
    )

    def __init__(self, base_offset: int, open_producers: frozenset[int], created_ms: MonotonicMs) -> None:
        """`open_producers` have a transaction open at `base_offset`."""
        self.base_offset = base_offset
        self.created_ms = created_ms
        self.next_offset = base_offset
        self.open_producers = open_producers
        self.size_bytes = 0
        self.first_timestamp = -1
        self.max_timestamp = -1
        self.batches: list[bytes] = []
        self.ends: list[int] = []
        """The offset after each batch."""
        self.positions: list[int] = []
        """The bytes before each batch."""
        self.timestamps: list[int] = []
        """The greatest timestamp of each batch."""
        self.transaction_index = TransactionIndex()

    def append(self, batch: bytes, next_offset: int, timestamp: int) -> None:
        if not self.batches:
            self.first_timestamp = timestamp
        self.batches.append(batch)
        self.ends.append(next_offset)
        self.positions.append(self.size_bytes)
        self.timestamps.append(timestamp)
        self.size_bytes += len(batch)
        self.next_offset = next_offset
        self.max_timestamp = max(self.max_timestamp, timestamp)

    @property
    def held_bytes(self) -> int:
        return self.size_bytes + _BYTES_A_BATCH * len(self.batches)

    def position_of(self, offset: int) -> int:
        """The bytes before the batch that holds `offset`, or, in a gap, before the next one."""
        slot = self.slot_of(offset)
        return self.positions[slot] if slot < len(self.positions) else self.size_bytes

    def slot_of(self, offset: int) -> int:
        """The slot of the batch that holds `offset`, or, in a gap, of the next one."""
        return bisect_right(self.ends, offset)

    def batch(self, slot: int) -> bytes:
        return self.batches[slot]

    def joined(self, first: int, last: int) -> memoryview:
        """The batches from one slot to before another."""
        return memoryview(self.batches[first] if last == first + 1 else b"".join(self.batches[first:last]))

    def find_timestamp(self, timestamp_ms: int, from_offset: int) -> FoundRecord | None:
        """The first record from `from_offset` with at least `timestamp_ms`."""
        for slot in range(self.slot_of(from_offset), len(self.ends)):
            if self.timestamps[slot] >= timestamp_ms:
                found = first_as_late(self.batches[slot], timestamp_ms, from_offset)
                if found is not None:
                    return found
        return None


SegmentT = TypeVar("SegmentT", bound=StoredSegment)


class MemorySegments(Generic[SegmentT]):
    """A SegmentList."""

    __slots__ = ("_bases", "_list")

    def __init__(self) -> None:
        self._list: list[SegmentT] = []
        self._bases: list[int] = []

    def __iter__(self) -> Iterator[SegmentT]:
        return iter(self._list)

    def __len__(self) -> int:
        return len(self._list)

    def __getitem__(self, slot: int, /) -> SegmentT:
        return self._list[slot]

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._list)

    def slot_of(self, offset: int) -> int:
        return max(0, bisect_right(self._bases, offset) - 1)

    def append(self, segment: SegmentT) -> None:
        self._list.append(segment)
        self._bases.append(segment.base_offset)

    def take_first(self) -> None:
        del self._list[0], self._bases[0]

    def replace(self, old: Sequence[SegmentT], new: SegmentT) -> None:
        """Put one in the place of adjacent ones."""
        first = self._list.index(old[0])
        self._list[first : first + len(old)] = [new]
        self._bases[first : first + len(old)] = [new.base_offset]


class MemoryLog:
    def __init__(self, name: str, log_end_offset: int, clock: Clock) -> None:
        self._name = name
        self.log_end_offset = log_end_offset
        self._clock = clock
        self.segments: MemorySegments[MemorySegment] = MemorySegments()
        self.is_closed = False

    def attach(self, on_damage: Callable[[str], None]) -> None:
        """Drop `on_damage`: batches in memory are never found damaged."""

    def on_offline(self) -> None:
        """Do nothing: a log in memory does not go offline."""

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    # -- appending

    def append(
        self,
        parts: tuple[Buffer, ...],
        size_bytes: int,
        next_offset: int,
        timestamp: int,
        config: LogConfig,
        producers: ProducerStateManager,
    ) -> None:
        segments = self.segments
        segment = segments[-1] if len(segments) else None
        if segment is None or must_roll(self._name, segment, config, size_bytes, timestamp, self._clock.monotonic_ms()):
            segment = self._roll(producers)
        segment.append(b"".join(parts), next_offset, timestamp)
        self.log_end_offset = next_offset

    def _roll(self, producers: ProducerStateManager) -> MemorySegment:
        segment = MemorySegment(self.log_end_offset, producers.open_producers(), self._clock.monotonic_ms())
        self.segments.append(segment)
        return segment

    def keep_epochs(self, epochs: Sequence[EpochStart]) -> None:
        """Nothing to store: who has the epochs lives as long as the log."""

    def note_aborted(self, entry: AbortedEntry) -> None:
        self.segments[-1].transaction_index.append(entry)

    # -- reading

    def read(self, from_offset: int, to_offset: int, max_bytes: int, *, at_least_one: bool) -> ReadResult:
        batches: list[bytes] = []
        end_offset, left = from_offset, max_bytes
        for batch, next_offset in self._batches(from_offset, to_offset):
            if len(batch) > left and (batches or not at_least_one):
                break
            batches.append(batch)
            left -= len(batch)
            end_offset = next_offset
        records = memoryview(batches[0] if len(batches) == 1 else b"".join(batches))
        return records, end_offset

    def _batches(self, from_offset: int, to_offset: int) -> Iterator[tuple[bytes, int]]:
        """(batch, the offset after it), starting with the one that holds `from_offset`."""
        segments = self.segments
        for number in range(segments.slot_of(from_offset), len(segments)):
            segment = segments[number]
            ends = segment.ends
            for slot in range(segment.slot_of(from_offset), len(ends)):
                if ends[slot] > to_offset:
                    return
                yield segment.batches[slot], ends[slot]

    def readable_bytes(self, from_offset: int, to_offset: int) -> int:
        segments = self.segments
        segment = segments[segments.slot_of(to_offset - 1)]
        if from_offset < segment.base_offset:
            return PLENTY_BYTES
        return segment.position_of(to_offset) - segment.position_of(from_offset)

    def read_at_most(self, from_offset: int) -> int:
        return self.segments.size_bytes

    def aborted_between(self, from_offset: int, to_offset: int) -> tuple[AbortedTransaction, ...]:
        found: list[tuple[int, int]] = []
        segments = self.segments
        for number in range(segments.slot_of(from_offset), len(segments)):
            if segments[number].transaction_index.collect(from_offset, to_offset, found):
                break
        return tuple([AbortedTransaction(*entry) for entry in found])

    def find_timestamp(self, timestamp_ms: int, from_offset: int, to_offset: int) -> FoundRecord | None:
        for segment in self.segments:
            if segment.next_offset <= from_offset or segment.max_timestamp < timestamp_ms:
                continue
            found = segment.find_timestamp(timestamp_ms, from_offset)
            if found is not None:
                return found if found[0] < to_offset else None
        return None

    def find_max_timestamp(self, from_offset: int, to_offset: int) -> FoundRecord | None:
        latest = max((segment.max_timestamp for segment in self.segments), default=-1)
        return self.find_timestamp(latest, from_offset, to_offset) if latest >= 0 else None

    def replay(self, from_offset: int, to_offset: int) -> Iterator[Batches]:
        piece: Batches = []
        for batch, _ in self._batches(from_offset, to_offset):
            piece.append((read_header(batch), memoryview(batch)))
            if len(piece) == _REPLAYED_BATCHES:
                yield piece
                piece = []
        if piece:
            yield piece

    # -- shrinking

    def retention_start(self, config: LogConfig, high_watermark: int, wall_ms: WallMs) -> int | None:
        return retention_start(self.segments, config, high_watermark, wall_ms)

    def maybe_roll(self, producers: ProducerStateManager, *, is_kept: bool) -> None:
        if len(self.segments) and self.segments[-1].size_bytes:
            self._roll(producers)

    def drop_below(self, offset: int) -> bool:
        segments = self.segments
        while len(segments) > 1 and segments[0].next_offset <= offset:
            segments.take_first()
        return False

    def abandon(self) -> None:
        self.is_closed = True


def must_roll(
    name: str, segment: RollableSegment, config: LogConfig, size_bytes: int, timestamp: int, monotonic_ms: MonotonicMs
) -> bool:
    """Whether a batch of this size and greatest timestamp begins a new segment in the log of that name."""
    if segment.size_bytes == 0:
        return False
    if segment.size_bytes > config.segment_bytes - size_bytes:
        return True
    if segment.first_timestamp >= 0:
        age_ms = timestamp - segment.first_timestamp
    else:
        age_ms = monotonic_ms - segment.created_ms
    if age_ms <= config.earliest_roll_ms:
        return False
    return age_ms > config.roll_after_ms(f"{name}/{segment.base_offset}")


def first_as_late(batch: Buffer, timestamp_ms: int, from_offset: int) -> FoundRecord | None:
    """The first record of a batch, from `from_offset`, with at least `timestamp_ms`."""
    for offset, timestamp in _times(memoryview(batch), from_offset):
        if offset >= from_offset and timestamp >= timestamp_ms:
            return offset, timestamp
    return None


def _times(batch: memoryview, from_offset: int) -> Iterator[tuple[int, int]]:
    """Offset and timestamp of each record; for a batch that cannot be decoded, or not quickly, its base offset."""
    try:
        for record in decode_records(batch, _MAX_SEARCHED_BYTES):
            yield record.offset, record.timestamp
        return
    except ProtocolError:
        header = read_header(batch)
    yield max(header.base_offset, from_offset), header.max_timestamp
