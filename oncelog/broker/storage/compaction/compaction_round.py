"""One round of compaction over one log: read the keys of the dirty part, then rewrite the segments.

Owns: the work in slices, so that the broker serves between them. Does not own: how a store reads batches and replaces
segments (`Rewriting`). Invariants
- Only whole segments below the last stable offset and the high watermark are touched, never the active one.
- A round that ends early, for any reason, leaves the log readable and is repeated later.
"""

from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.store import Batches, LogView
from oncelog.broker.storage.compaction.batch_filter import BatchFilter, known_producers
from oncelog.broker.storage.compaction.offset_map import OffsetMap
from oncelog.broker.storage.compaction.transactions import AbortedTransactions, CleanedTransactions
from oncelog.broker.storage.retention import StoredSegment
from oncelog.broker.storage.transaction_index import TransactionIndex
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import WallMs
from oncelog.protocol.records.batch import BatchHeader

SLICE_BYTES = 64 * 1024
_MAX_RELATIVE_OFFSET = 2**31 - 1


Slice = Callable[[], None] | Completion[Any] | None
"""Work to run off the loop before the next slice, or what must have ended by then; None: this was just a pause for the
loop."""


class CompactedSegment(StoredSegment, Protocol):
    transaction_index: TransactionIndex


class Output(Protocol):
    """The rewritten group of segments, which readers do not see yet."""

    transaction_index: TransactionIndex

    @property
    def open_producers(self) -> Collection[int]:
        """The producers with a transaction open where it begins, if a start may begin there."""

    def append(self, batch: bytes, next_offset: int, timestamp: int, /) -> Slice:
        """Add a batch whose greatest timestamp is `timestamp`; returns what must end before the next one. Raises
        OSError."""


SegmentT = TypeVar("SegmentT", bound=CompactedSegment)
OutputT = TypeVar("OutputT", bound=Output)


class Rewriting(Protocol[SegmentT, OutputT]):
    """One log, as a round needs it. Methods raise OSError, KafkaError or ProtocolError on damage, and StoreError if
    a later round should try again."""

    def prepare(self) -> Slice:
        """Return the work that must end before the round reads anything."""

    @property
    def segments(self) -> Sequence[SegmentT]: ...

    def pieces(self, from_offset: int, to_offset: int) -> Iterator[Batches | Slice]:
        """The batches between two offsets; a Slice must end before the next piece is requested."""

    def index_bytes_of(self, segment: SegmentT) -> int:
        """Its share of `segment.index.bytes`."""

    def output(self, group: Sequence[SegmentT]) -> OutputT: ...

    def finish(self, group: Sequence[SegmentT], output: OutputT) -> Iterator[Slice]:
        """Complete the output, so that it can take the place of `group` at once."""

    def put_in_place(self, group: Sequence[SegmentT], output: OutputT) -> Iterator[Slice]:
        """Replace adjacent segments, which are part of the log, by what is left of them."""

    def discard(self, output: OutputT) -> None:
        """It does not come in place."""


class CompactionRound(Generic[SegmentT, OutputT]):
    def __init__(
        self,
        view: LogView,
        rewriting: Rewriting[SegmentT, OutputT],
        dirty_offset: int,
        end_offset: int,
        memory_bytes: int,
    ) -> None:
        """`dirty_offset`: where the dirty part begins; `end_offset`: where the last cleanable segment ends;
        `memory_bytes`: for the keys."""
        self._view = view
        self._rewriting = rewriting
        self._dirty_offset = dirty_offset
        self._end_offset = end_offset
        self._map = OffsetMap(memory_bytes)
        self.clean_offset: int | None = None
        """Everything below it is clean; None: the round is not complete."""

    @property
    def undecodable(self) -> Mapping[int, str]:
        """The base offsets of batches that are retained as they are because their records cannot be read, and why."""
        return self._map.undecodable

    def slices(self, wall_ms: WallMs) -> Generator[Slice, None, None]:
        """Do the work and set `clean_offset`. Raises as `Rewriting`."""
        view, rewriting = self._view, self._rewriting
        yield from ended(rewriting.prepare())
        aborted = AbortedTransactions(
            entry for segment in rewriting.segments for entry in segment.transaction_index.entries
        )
        producers, log_end_offset = known_producers(view.producer_state), view.log_end_offset
        yield from self._read_keys(aborted)
        clean_offset = self._map.latest_offset + 1
        if clean_offset <= self._dirty_offset:
            return
        while view.high_watermark < log_end_offset:
            # A crash may lose the last batches of a producer: until they are durable the earlier ones must stay.
            yield None
        batch_filter = BatchFilter(
            self._map,
            CleanedTransactions(aborted),
            producers,
            self._end_offset,
            wall_ms,
            view.config.delete_retention_ms,
        )
        for group in self._groups(clean_offset, view.config):
            if not (yield from self._clean(group, batch_filter)):
                return
        self.clean_offset = clean_offset

    def _batches(self, from_offset: int, to_offset: int) -> Iterator[tuple[BatchHeader, memoryview] | Slice]:
        """Each batch, and between them what the loop must run or wait for."""
        left = SLICE_BYTES
        for piece in self._rewriting.pieces(from_offset, to_offset):
            if not isinstance(piece, list):
                yield from _waited(piece)
                continue
            for each in piece:
                yield each
                left -= len(each[1])
                if left <= 0:
                    left = SLICE_BYTES
                    yield None

    def _read_keys(self, aborted: AbortedTransactions) -> Iterator[Slice]:
        """The newest offset of each key."""
        offset_map = self._map
        for each in self._batches(self._dirty_offset, self._end_offset):
            if not isinstance(each, tuple):
                yield each
            elif not offset_map.read(*each, aborted):
                return
        # Offsets that compaction removed at the end of the range are clean too.
        offset_map.latest_offset = max(offset_map.latest_offset, self._end_offset - 1)

    def _clean(self, group: Sequence[SegmentT], batch_filter: BatchFilter) -> Generator[Slice, None, bool]:
        """Replace `group` by what is left of it; returns False if it is no longer part of the log."""
        rewriting, transactions = self._rewriting, batch_filter.transactions
        output = rewriting.output(group)
        is_in_place = False
        try:
            transactions.on_snapshot(set(output.open_producers))
            for each in self._batches(group[0].base_offset, group[-1].next_offset):
                if not isinstance(each, tuple):
                    yield each
                    continue
                header = each[0]
                remainder = batch_filter.prepare(*each)
                if remainder is None:
                    continue
                timestamp = remainder.max_timestamp if remainder.record_count else -1
                yield from ended(output.append(bytes(remainder.data), header.next_offset, timestamp))
                for entry in transactions.take_kept():
                    output.transaction_index.append(entry)
            yield from rewriting.finish(group, output)
            segments = rewriting.segments
            if all(segment in segments for segment in group):  # retention may have dropped some
                yield from rewriting.put_in_place(group, output)
                is_in_place = True
        finally:
            if not is_in_place:
                rewriting.discard(output)
        return is_in_place

    def _groups(self, clean_offset: int, config: LogConfig) -> list[list[SegmentT]]:
        """Adjacent segments that fit into one: otherwise compaction leaves many small ones."""
        groups: list[list[SegmentT]] = []
        size = index_size = 0
        for segment in self._rewriting.segments:
            if segment.base_offset >= clean_offset or segment.next_offset > self._end_offset:
                break
            index_bytes = self._rewriting.index_bytes_of(segment)
            fits = (
                groups
                and size + segment.size_bytes <= config.segment_bytes
                and index_size + index_bytes <= config.segment_index_bytes
                and segment.next_offset - groups[-1][0].base_offset <= _MAX_RELATIVE_OFFSET
            )
            if not fits:
                groups.append([])
                size = index_size = 0
            groups[-1].append(segment)
            size += segment.size_bytes
            index_size += index_bytes
        return groups


def ended(work: Slice) -> Iterator[Slice]:
    """Yield it until it has ended. Raises the error of a Completion."""
    if work is not None:
        yield from _waited(work)
    if isinstance(work, Completion):
        work.result()


def _waited(work: Slice) -> Iterator[Slice]:
    if not isinstance(work, Completion):
        yield work
        return
    while not work.done:
        yield work
