"""The records of one partition in tables, as the StoredLog of its PartitionLog.

Owns: what is known of each segment, and the tails: the batches that no checkpoint has copied into chunks yet.
Invariants
- The chunks of a segment come before its tail, and have no gap between them, but where compaction or a moved start has
  left one.
- A read takes batches from one chunk or one tail. What was fetched for it is looked for again when it comes: chunks may
  have been replaced or dropped meanwhile.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

from oncelog.broker.log.leader_epochs import EpochStart
from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.producer_state import ProducerStateManager
from oncelog.broker.log.store import (
    PLENTY_BYTES,
    AbortedEntry,
    Batches,
    FoundRecord,
    OpenedLog,
    ReadResult,
    StoreDamagedError,
)
from oncelog.broker.log.values import AbortedTransaction
from oncelog.broker.storage.memory.memory_log import MemorySegment, MemorySegments, must_roll
from oncelog.broker.storage.retention import retention_start
from oncelog.broker.storage.sections import LogKey, Section, Span
from oncelog.broker.storage.shared.batches import HeldBatches
from oncelog.broker.storage.shared.chunks import ChunkCache
from oncelog.broker.storage.shared.room import Room
from oncelog.broker.storage.shared.tables import ChunkRow
from oncelog.broker.storage.transaction_index import TransactionIndex
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Buffer, Clock, MonotonicMs, WallMs
from oncelog.protocol.records.batch import BatchHeader, read_header

_REPLAYED_BATCHES = 100
_REMEMBERED_READS = 16
_AHEAD_BYTES = 4 * 1024 * 1024
_AHEAD = 8
"""How many chunks are asked for ahead of one reader, and of how many bytes."""
_NOTHING = memoryview(b"")


class SharedSegment:
    """A StoredSegment: chunks, then what is to become chunks, and then a tail."""

    __slots__ = (
        "base_offset",
        "chunk_bytes",
        "chunks",
        "created_ms",
        "first_timestamp",
        "max_timestamp",
        "next_offset",
        "open_producers",
        "sealed",
        "size_bytes",
        "tail",
        "transaction_index",
    )

    def __init__(
        self, base_offset: int, open_producers: frozenset[int], created_ms: MonotonicMs, chunk_bytes: int
    ) -> None:
        self.chunk_bytes = chunk_bytes
        self.base_offset = base_offset
        self.open_producers = open_producers
        self.created_ms = created_ms
        self.next_offset = base_offset
        self.size_bytes = 0
        self.first_timestamp = -1
        self.max_timestamp = -1
        self.chunks: list[ChunkRow] = []
        self.sealed: list[MemorySegment] = []
        """Each becomes one chunk as it is."""
        self.tail = MemorySegment(base_offset, open_producers, created_ms)
        self.transaction_index = TransactionIndex()

    def append(self, batch: bytes, next_offset: int, timestamp: int) -> None:
        if not self.size_bytes:
            self.first_timestamp = timestamp
        if self.tail.size_bytes and self.tail.size_bytes + len(batch) > self.chunk_bytes:
            self.seal()
        self.tail.append(batch, next_offset, timestamp)
        self.next_offset = next_offset
        self.size_bytes += len(batch)
        self.max_timestamp = max(self.max_timestamp, timestamp)

    def add_chunk(self, row: ChunkRow) -> None:
        """Add the next chunk that a start has found."""
        self.chunks.append(row)
        self.tail.base_offset = self.tail.next_offset = self.next_offset = row.next_offset
        self.size_bytes += row.size_bytes
        self.first_timestamp = row.first_timestamp
        self.max_timestamp = max(self.max_timestamp, row.max_timestamp)
        if row.aborted:
            for entry in TransactionIndex.from_bytes(row.aborted).entries:
                self.transaction_index.append(entry)

    def seal(self) -> None:
        """Close the tail: what is appended from now on goes to another chunk."""
        if self.tail.size_bytes:
            self.sealed.append(self.tail)
            self.tail = MemorySegment(self.next_offset, self.open_producers, self.created_ms)

    def on_written(self, rows: Sequence[ChunkRow]) -> None:
        """Replace the first sealed pieces by the chunks that they were written to."""
        self.chunks += rows
        del self.sealed[: len(rows)]

    def join(self, rows: Sequence[ChunkRow], joined: ChunkRow) -> None:
        """Replace adjacent chunks by the one that they were joined to."""
        slot = bisect_right(self.chunks, rows[0].base_offset, key=_next_offset)
        self.chunks[slot : slot + len(rows)] = [joined]

    def piece_of(self, offset: int) -> "ChunkRow | MemorySegment":
        slot = bisect_right(self.chunks, offset, key=_next_offset)
        if slot < len(self.chunks):
            return self.chunks[slot]
        slot = bisect_right(self.sealed, offset, key=_next_offset)
        return self.sealed[slot] if slot < len(self.sealed) else self.tail


class SharedLog:
    def __init__(
        self,
        topic: str,
        partition: int,
        key: LogKey,
        next_offset: int,
        clock: Clock,
        cache: ChunkCache,
        chunk_bytes: int,
        room: Room,
        collect: "Callable[[SharedLog, Section], None]",
        drop: Callable[[Sequence[ChunkRow]], None],
        check_gone: Callable[[], Completion[None]],
    ) -> None:
        """`collect` is called with each batch for the next round, `drop` to delete the first chunks; `check_gone`
        completes if no statement in flight and no other leader can have replaced a chunk that is gone, else it fails
        with StoreError."""
        self.name = f"{topic}-{partition}"
        self.topic = topic
        self.key = key
        self.log_end_offset = next_offset
        self.checkpointed = next_offset
        """Everything below it is in chunks, or deleted."""
        self.epochs: tuple[EpochStart, ...] = ()
        self.opened: OpenedLog
        """The log as it was opened."""
        self.segments: MemorySegments[SharedSegment] = MemorySegments()
        self.is_closed = False
        self.before_change: Callable[[SharedLog], None] | None = None
        """Called before the next change, while a checkpoint has yet to note the state of the log."""
        self._read_ends: tuple[int, ...] = ()
        """The offsets at which the last reads of chunks ended: a read that begins at one is sequential."""
        self._clock = clock
        self._cache = cache
        self._chunk_bytes = chunk_bytes
        self._room = room
        self._collect = collect
        self._drop = drop
        self._check_gone = check_gone
        self.on_damage: Callable[[str], None] = _ignored

    def attach(self, on_damage: Callable[[str], None]) -> None:
        self.on_damage = on_damage

    def on_offline(self) -> None:
        """Does nothing: the tables keep what they have."""

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
        self._room.check()
        if self.before_change is not None:
            self.before_change(self)
        segments, first_offset = self.segments, self.log_end_offset
        segment = segments[-1] if len(segments) else None
        if segment is None or must_roll(self.name, segment, config, size_bytes, timestamp, self._clock.monotonic_ms()):
            segment = self.segment_from(first_offset, producers.open_producers())
        batch = b"".join(parts)
        position = segment.size_bytes
        segment.append(batch, next_offset, timestamp)
        self.log_end_offset = next_offset
        self._collect(self, (self.key, Span(segment.base_offset, position, first_offset, next_offset, batch)))

    def segment_from(self, base_offset: int, open_producers: frozenset[int]) -> SharedSegment:
        """Return the last segment if it begins at `base_offset`, else a new one."""
        segments = self.segments
        if not len(segments) or segments[-1].base_offset != base_offset:
            created_ms = self._clock.monotonic_ms()
            segments.append(SharedSegment(base_offset, open_producers, created_ms, self._chunk_bytes))
        return segments[-1]

    def keep_epochs(self, epochs: Sequence[EpochStart]) -> None:
        """Keep the epochs for the next checkpoint; in the journal each batch has its own."""
        if self.before_change is not None:
            self.before_change(self)
        self.epochs = tuple(epochs)

    def note_aborted(self, entry: AbortedEntry) -> None:
        self.segments[-1].transaction_index.append(entry)

    # -- reading

    def read(
        self, from_offset: int, to_offset: int, max_bytes: int, *, at_least_one: bool
    ) -> ReadResult | Completion[ReadResult]:
        offset = from_offset
        while (piece := self._piece_of(offset)) is not None and piece.base_offset < to_offset:
            batches = self._batches_of(piece, offset, goes_on=offset in self._read_ends)
            if isinstance(batches, Completion):
                return self._read_later(batches, offset, to_offset, max_bytes, at_least_one=at_least_one)
            slot = batches.slot_of(offset)
            if slot < len(batches.ends):
                result = _taken(batches, slot, to_offset, max_bytes, at_least_one=at_least_one)
                if batches is not piece:
                    self._read_ends = (*self._read_ends[1 - _REMEMBERED_READS :], result[1])
                return result
            offset = batches.next_offset
        return _NOTHING, offset

    def _read_later(
        self, batches: Completion[HeldBatches], from_offset: int, to_offset: int, max_bytes: int, *, at_least_one: bool
    ) -> Completion[ReadResult]:
        """Read from the batches that are being fetched, or from what follows them."""

        def on_batches(found: HeldBatches) -> Completion[ReadResult]:
            slot = found.slot_of(from_offset)
            if slot < len(found.ends):
                result = _taken(found, slot, to_offset, max_bytes, at_least_one=at_least_one)
                self._read_ends = (*self._read_ends[1 - _REMEMBERED_READS :], result[1])
                return Completion.of(result)
            offset = max(found.next_offset, from_offset)
            if offset == from_offset:
                return Completion.of((_NOTHING, offset))
            later = self.read(offset, to_offset, max_bytes, at_least_one=at_least_one)
            return later if isinstance(later, Completion) else Completion.of(later)

        return batches.flat_map(on_batches)

    def _piece_of(self, offset: int) -> ChunkRow | MemorySegment | None:
        """Return the chunk or tail that holds `offset`, or the next one; None at the end."""
        segments = self.segments
        for number in range(segments.slot_of(offset), len(segments)):
            piece = segments[number].piece_of(offset)
            if offset < piece.next_offset:
                return piece
        return None

    def _batches_of(
        self, piece: ChunkRow | MemorySegment, offset: int, *, goes_on: bool
    ) -> HeldBatches | Completion[HeldBatches]:
        """Return the batches of the piece; if they have to be fetched, of what is in its place by then. `goes_on` says
        that the reader is sequential, so that the chunks behind it are prefetched."""
        if isinstance(piece, MemorySegment):
            return piece
        found = self._cache.get(piece, offset)
        if goes_on:
            self._cache.read_ahead(self._following(piece))
        if not isinstance(found, Completion):
            return found
        return found.flat_map(lambda batches: self._arrived(piece, offset, batches))

    def _following(self, row: ChunkRow) -> Iterator[ChunkRow]:
        """Yield the chunks behind it that are worth prefetching."""
        offset, left_bytes = row.next_offset, _AHEAD_BYTES
        for _ in range(_AHEAD):
            piece = self._piece_of(offset)
            if not isinstance(piece, ChunkRow) or left_bytes <= 0:
                return
            yield piece
            offset = piece.next_offset
            left_bytes -= piece.size_bytes

    def _arrived(self, row: ChunkRow, offset: int, batches: HeldBatches | None) -> Completion[HeldBatches]:
        if batches is None:
            # A statement whose answer is on its way has replaced or dropped it, or the next leader has, or it is lost.
            return self._check_gone().flat_map(lambda _: self._look_again(offset, gone=row))
        if self._piece_of(offset) is row:
            return Completion.of(batches)
        return self._look_again(offset)

    def _look_again(self, offset: int, gone: ChunkRow | None = None) -> Completion[HeldBatches]:
        piece = None if self.is_closed else self._piece_of(offset)
        if piece is None:
            return Completion.of(MemorySegment(offset, frozenset(), self._clock.monotonic_ms()))
        if piece is gone:
            return Completion.failed(StoreDamagedError(f"chunk {gone.id} at offset {gone.base_offset} is gone"))
        batches = self._batches_of(piece, offset, goes_on=False)
        return batches if isinstance(batches, Completion) else Completion.of(batches)

    def readable_bytes(self, from_offset: int, to_offset: int) -> int:
        piece = self._piece_of(from_offset)
        if not isinstance(piece, MemorySegment) or to_offset > piece.next_offset:
            return PLENTY_BYTES
        return piece.position_of(to_offset) - piece.position_of(from_offset)

    def read_at_most(self, from_offset: int) -> int:
        return self.segments.size_bytes

    def aborted_between(self, from_offset: int, to_offset: int) -> tuple[AbortedTransaction, ...]:
        found: list[tuple[int, int]] = []
        segments = self.segments
        for number in range(segments.slot_of(from_offset), len(segments)):
            if segments[number].transaction_index.collect(from_offset, to_offset, found):
                break
        return tuple([AbortedTransaction(*entry) for entry in found])

    def find_timestamp(
        self, timestamp_ms: int, from_offset: int, to_offset: int
    ) -> FoundRecord | Completion[FoundRecord | None] | None:
        offset = from_offset
        while (piece := self._piece_of(offset)) is not None and piece.base_offset < to_offset:
            if piece.max_timestamp >= timestamp_ms:
                batches = self._batches_of(piece, offset, goes_on=False)
                if isinstance(batches, Completion):
                    return self._find_later(batches, timestamp_ms, offset, to_offset)
                found = batches.find_timestamp(timestamp_ms, offset)
                if found is not None:
                    return found if found[0] < to_offset else None
            offset = piece.next_offset
        return None

    def _find_later(
        self, batches: Completion[HeldBatches], timestamp_ms: int, from_offset: int, to_offset: int
    ) -> Completion[FoundRecord | None]:
        """Search the batches that are being fetched, and what follows them."""

        def on_batches(found_batches: HeldBatches) -> Completion[FoundRecord | None]:
            found = found_batches.find_timestamp(timestamp_ms, from_offset)
            if found is not None:
                return Completion.of(found if found[0] < to_offset else None)
            offset = max(found_batches.next_offset, from_offset)
            if offset == from_offset:
                return Completion.of(None)
            later = self.find_timestamp(timestamp_ms, offset, to_offset)
            return later if isinstance(later, Completion) else Completion.of(later)

        return batches.flat_map(on_batches)

    def find_max_timestamp(
        self, from_offset: int, to_offset: int
    ) -> FoundRecord | Completion[FoundRecord | None] | None:
        latest = max((segment.max_timestamp for segment in self.segments), default=-1)
        return self.find_timestamp(latest, from_offset, to_offset) if latest >= 0 else None

    def replay(self, from_offset: int, to_offset: int) -> Iterator[Batches | Completion[Batches]]:
        offset = from_offset
        while (piece := self._piece_of(offset)) is not None and piece.base_offset < to_offset:
            batches = self._batches_of(piece, offset, goes_on=True)
            if isinstance(batches, Completion):
                yield batches.map(lambda _: [])
                batches = batches.result()
            slot = batches.slot_of(offset)
            end = bisect_right(batches.ends, to_offset)
            for first in range(slot, end, _REPLAYED_BATCHES):
                yield [_with_header(batches.batch(at)) for at in range(first, min(first + _REPLAYED_BATCHES, end))]
            if end < len(batches.ends) or batches.next_offset <= offset:
                return
            offset = batches.next_offset

    # -- shrinking

    def retention_start(self, config: LogConfig, high_watermark: int, wall_ms: WallMs) -> int | None:
        return retention_start(self.segments, config, high_watermark, wall_ms)

    def maybe_roll(self, producers: ProducerStateManager, *, is_kept: bool) -> None:
        if len(self.segments) and self.segments[-1].size_bytes:
            self.segment_from(self.log_end_offset, producers.open_producers())

    def drop_below(self, offset: int) -> bool:
        segments = self.segments
        dropped: list[ChunkRow] = []
        while len(segments) > 1 and segments[0].next_offset <= offset:
            dropped += segments[0].chunks
            segments.take_first()
        self.drop(dropped)
        return False

    def drop(self, rows: Sequence[ChunkRow]) -> None:
        """Delete these chunks, the first of the log; they are not read any more."""
        if rows:
            self._drop(rows)

    def abandon(self) -> None:
        self.is_closed = True

    def rows(self) -> Iterator[ChunkRow]:
        """All chunks, in the order of their offsets."""
        return (row for segment in self.segments for row in segment.chunks)

    # -- checkpoints

    def seal(self) -> list[tuple[SharedSegment, list[MemorySegment]]]:
        """Close the tails, and return the pieces of each segment that are in no chunk yet."""
        found: list[tuple[SharedSegment, list[MemorySegment]]] = []
        segments = self.segments
        for number in range(len(segments) - 1, -1, -1):
            segment = segments[number]
            segment.seal()
            if segment.sealed:
                found.append((segment, list(segment.sealed)))
            elif segment.size_bytes:
                break
        return found[::-1]

    def holds(self, segment: SharedSegment) -> bool:
        """Whether retention has left the segment."""
        return len(self.segments) > 0 and segment.base_offset >= self.segments[0].base_offset

    def replace(
        self, group: Sequence[SharedSegment], rows: Sequence[ChunkRow], replaced: Completion[None]
    ) -> Completion[None]:
        """Replace adjacent segments by the chunks that compaction has left of them, once `replaced` completes."""
        new = SharedSegment(group[0].base_offset, group[0].open_producers, group[-1].created_ms, self._chunk_bytes)
        for row in rows:
            new.add_chunk(row)

        def on_replaced(_: None) -> None:
            left = [segment for segment in group if segment in self.segments]  # retention may have dropped some
            if left:
                self.segments.replace(left, new)

        return replaced.map(on_replaced)


def _next_offset(piece: ChunkRow | MemorySegment) -> int:
    return piece.next_offset


def _ignored(problem: str) -> None:
    """Stands in until `attach`: before that nothing is read."""


def _taken(batches: HeldBatches, slot: int, to_offset: int, max_bytes: int, *, at_least_one: bool) -> ReadResult:
    """Return the batches from `slot` on that end by `to_offset` and fit into `max_bytes`. There is one at `slot`."""
    end = bisect_right(batches.ends, to_offset, slot)
    start = batches.positions[slot]
    if end > slot and (batches.positions[end] if end < len(batches.ends) else batches.size_bytes) > start + max_bytes:
        end = max(bisect_right(batches.positions, start + max_bytes, slot, end) - 1, slot + at_least_one)
    if end == slot:
        return _NOTHING, batches.base_offset
    return batches.joined(slot, end), batches.ends[end - 1]


def _with_header(batch: Buffer) -> tuple[BatchHeader, memoryview]:
    view = memoryview(batch)
    return read_header(view), view
