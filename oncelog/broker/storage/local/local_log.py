"""The files of one partition, as the StoredLog of its PartitionLog.

Owns: the segments, when to roll, which files await a sync and which deletion. Does not own: offsets, sequences, read
bounds (`broker.log.partition_log`), when to sync (`file_sync`), what is retained (`retention`).
Invariants
- An append that raises has no visible effect: the next one may fit into the same segment.
- Files of removed segments are deleted only when no sync uses them and the snapshot after them is durable.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar
from uuid import UUID

from oncelog.broker.log.leader_epochs import EpochStart
from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.producer_state import ProducerStateManager
from oncelog.broker.log.store import (
    AbortedEntry,
    Batches,
    FoundRecord,
    ReadResult,
    StoreDamagedError,
    StoreError,
)
from oncelog.broker.log.values import AbortedTransaction
from oncelog.broker.storage.disk_errors import is_transient
from oncelog.broker.storage.local.deferred import Deferred, DeferredWork
from oncelog.broker.storage.local.file_sync import FileSync
from oncelog.broker.storage.local.offset_index import ENTRY_BYTES as OFFSET_ENTRY_BYTES
from oncelog.broker.storage.local.reader import (
    collect_aborted,
    find_max_timestamp,
    find_timestamp,
    read_at_most,
    read_records,
    readable_bytes,
    replay_pieces,
)
from oncelog.broker.storage.local.segment import LOG_SUFFIX, Segment
from oncelog.broker.storage.local.segments import SEGMENT_SUFFIXES, Segments
from oncelog.broker.storage.local.sync_targets import SyncTarget
from oncelog.broker.storage.local.time_index import ENTRY as TIME_ENTRY
from oncelog.broker.storage.producer_snapshot import encode_snapshot
from oncelog.broker.storage.retention import retention_start
from oncelog.broker.storage.sections import Span
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Buffer, Clock, Syncable, WallMs
from oncelog.protocol.errors import KafkaError

_MAX_RELATIVE_OFFSET = 2**31 - 1
T = TypeVar("T")
_EMPTY: ReadResult = (memoryview(b""), 0)


class LocalLog:
    __slots__ = (
        "_clock",
        "_deferred",
        "_file_sync",
        "_in_flight",
        "_removed",
        "_span_bytes",
        "_spans",
        "committed_offset",
        "is_closed",
        "is_offline",
        "log_end_offset",
        "log_start_offset",
        "on_damage",
        "partition",
        "segments",
        "synced_ms",
        "synced_offset",
        "topic_id",
    )
    __deletable__ = ("on_damage",)  # for mypyc, as in `Life`

    def __init__(
        self,
        partition: int,
        topic_id: UUID,
        segments: Segments,
        log_start_offset: int,
        log_end_offset: int,
        file_sync: FileSync,
        deferred: DeferredWork,
        clock: Clock,
    ) -> None:
        self.partition = partition
        self.topic_id = topic_id
        self.segments = segments
        self.log_start_offset = log_start_offset
        """Durable; the owner's offset follows it."""
        self.log_end_offset = log_end_offset
        self.committed_offset = log_end_offset
        self.synced_offset, self.synced_ms = log_end_offset, clock.monotonic_ms()
        """Under `os`: up to where the files are synced, and when they last were."""
        self.is_closed = False
        self.is_offline = False
        self.on_damage: Callable[[str], None]
        self._file_sync = file_sync
        self._deferred = deferred
        self._clock = clock
        self._in_flight: list[SyncTarget] = []
        self._removed: list[Segment] = []
        self._spans: list[_OpenSpan] = []
        self._span_bytes = 0

    def attach(self, on_damage: Callable[[str], None]) -> None:
        self.on_damage = on_damage

    def on_offline(self) -> None:
        self.is_offline = True

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
        file_sync = self._file_sync
        segments = self.segments
        segment = segments.active
        try:
            if segment is None or self._must_roll(segment, config, size_bytes, next_offset, timestamp):
                segment = self._roll(producers, is_kept=True)
            segment.append(parts, size_bytes, next_offset, timestamp, config.index_interval_bytes)
        except OSError as error:
            if not is_transient(error):
                file_sync.failure.fail(error)
            file_sync.failure.space.on_error(error, size_bytes)
            raise StoreError(str(error)) from error
        if file_sync.failure.space.error is not None:
            file_sync.failure.space.on_written(size_bytes)
        if file_sync.is_journaling:
            self._collect(segment, parts, size_bytes, next_offset)
        self.log_end_offset = next_offset
        segments.is_active_dirty = True
        file_sync.dirty[self] = None
        if file_sync.note_end is not None:
            file_sync.note_end((self.topic_id, self.partition), next_offset)
            if next_offset - self.synced_offset >= config.flush_messages:
                file_sync.flush(self)
                if file_sync.failure.failed:
                    raise StoreError("it cannot be synced")

    def _roll(self, producers: ProducerStateManager, *, is_kept: bool) -> Segment:
        snapshot = encode_snapshot(producers)
        return self.segments.roll(self.log_end_offset, self._clock.monotonic_ms(), snapshot, is_kept=is_kept)

    def _collect(self, segment: Segment, parts: tuple[Buffer, ...], size_bytes: int, next_offset: int) -> None:
        """Keep what is appended for the journal; of a large round nothing is kept, since its files are synced."""
        self._span_bytes += size_bytes
        spans = self._spans
        if self._span_bytes > self._file_sync.large_bytes:
            spans.clear()
            return
        if not spans or spans[-1].segment_base != segment.base_offset:
            spans.append(_OpenSpan(segment.base_offset, segment.size_bytes - size_bytes, self.log_end_offset))
        spans[-1].parts += parts
        spans[-1].next_offset = next_offset

    def take_spans(self) -> list[Span] | None:
        """See `SyncedLog.take_spans`."""
        self._note_end()
        spans, size_bytes = self._spans, self._span_bytes
        self._spans, self._span_bytes = [], 0
        if size_bytes > self._file_sync.large_bytes:
            return None
        return [span.complete() for span in spans]

    def demand_sync(self) -> None:
        self._spans.clear()
        self._span_bytes = self._file_sync.large_bytes + 1

    def _note_end(self) -> None:
        """The next high watermark: readers will look up its position when the log has already grown."""
        active = self.segments.active
        if active is not None:
            active.note_position(self.log_end_offset, active.size_bytes)

    def keep_epochs(self, epochs: Sequence[EpochStart]) -> None:
        self.segments.keep_epochs(epochs)

    def note_aborted(self, entry: AbortedEntry) -> None:
        self.segments[-1].transaction_index.append(entry)

    def _must_roll(
        self, segment: Segment, config: LogConfig, size_bytes: int, next_offset: int, timestamp: int
    ) -> bool:
        if segment.size_bytes == 0:
            return False
        if (
            segment.size_bytes > config.segment_bytes - size_bytes
            or _is_index_full(segment, config.segment_index_bytes)
            or next_offset - segment.base_offset > _MAX_RELATIVE_OFFSET
        ):
            return True
        # As in Kafka a segment's age comes from its records, so that a rebuilt log rolls at the same offsets.
        first_timestamp = segment.first_timestamp
        if first_timestamp >= 0:
            age_ms = timestamp - first_timestamp
        else:
            age_ms = self._clock.monotonic_ms() - segment.created_ms
        return age_ms > config.earliest_roll_ms and age_ms > config.roll_after_ms(segment.path(""))

    # -- reading

    def read(
        self, from_offset: int, to_offset: int, max_bytes: int, *, at_least_one: bool
    ) -> ReadResult | Completion[ReadResult]:
        if from_offset >= to_offset:
            return _EMPTY
        try:
            return read_records(self.segments, from_offset, to_offset, max_bytes, at_least_one=at_least_one)
        except Deferred as deferred:
            return self._read_later(deferred, from_offset, to_offset, max_bytes, at_least_one)
        except (OSError, KafkaError) as error:
            raise _unreadable(error, from_offset) from error

    def _read_later(
        self, deferred: Deferred, from_offset: int, to_offset: int, max_bytes: int, at_least_one: bool
    ) -> Completion[ReadResult]:
        def read() -> ReadResult:
            return read_records(self.segments, from_offset, to_offset, max_bytes, at_least_one=at_least_one)

        return self._deferred.complete_later(deferred, read, _unreadable)

    def readable_bytes(self, from_offset: int, to_offset: int) -> int:
        try:
            return readable_bytes(self.segments, from_offset, to_offset)
        except (OSError, KafkaError) as error:
            raise _unreadable(error, from_offset) from error

    def read_at_most(self, from_offset: int) -> int:
        return read_at_most(self.segments, from_offset)

    def aborted_between(self, from_offset: int, to_offset: int) -> tuple[AbortedTransaction, ...]:
        return collect_aborted(self.segments, from_offset, to_offset)

    def find_timestamp(
        self, timestamp_ms: int, from_offset: int, to_offset: int
    ) -> FoundRecord | Completion[FoundRecord | None] | None:
        return self._look(lambda: find_timestamp(self.segments, timestamp_ms, from_offset, to_offset))

    def find_max_timestamp(
        self, from_offset: int, to_offset: int
    ) -> FoundRecord | Completion[FoundRecord | None] | None:
        return self._look(lambda: find_max_timestamp(self.segments, from_offset, to_offset))

    def replay(self, from_offset: int, to_offset: int) -> Iterator[Batches | Completion[Batches]]:
        pieces = replay_pieces(self.segments, from_offset, to_offset)

        def next_piece() -> Batches | None:
            piece = next(pieces, None)
            if isinstance(piece, Deferred):
                raise piece
            return piece

        while (piece := self._look(next_piece)) is not None:
            yield piece.map(lambda later: later or []) if isinstance(piece, Completion) else piece

    def _look(self, lookup: Callable[[], T]) -> T | Completion[T]:
        try:
            return lookup()
        except Deferred as deferred:
            return self._deferred.complete_later(deferred, lookup, _unreadable)
        except (OSError, KafkaError) as error:
            raise _unreadable(error) from error

    # -- syncing

    @property
    def awaits_checkpoint(self) -> bool:
        return self.segments.awaits_checkpoint

    def begin_sync(self, *, everything: bool = True) -> SyncTarget:
        """See `SyncedLog.begin_sync`. What another sync has in hand counts as unsynced."""
        synced_offset = self.log_end_offset
        files: list[Syncable] = []
        directories: list[str] = []
        active = self.segments.active
        self._note_end()
        if self._file_sync.policy == "memory":
            synced_offset = 0
        else:
            files, directories = self.segments.take_dirty(with_active=everything)
            if everything:
                for other in self._in_flight:
                    files += [file for file in other.files if file not in files]
                    directories += [directory for directory in other.directories if directory not in directories]
            elif active is not None:
                synced_offset = active.base_offset
        target = SyncTarget(self, self.segments.disk, files, directories, synced_offset)
        self._in_flight.append(target)
        return target

    def is_flush_due(self, config: LogConfig) -> bool:
        """Whether its settings ask for a sync of what was appended (`flush.ms`)."""
        unsynced_ms = self._clock.monotonic_ms() - self.synced_ms
        return self.log_end_offset > self.synced_offset and unsynced_ms >= config.flush_ms

    def begin_sync_of_completed(self) -> SyncTarget | None:
        """See `SyncedLog.begin_sync_of_completed`."""
        self._note_end()
        return self.begin_sync(everything=False) if self._removed or self.segments.awaits_sync else None

    def keep_dirty(self, target: SyncTarget) -> None:
        self.segments.keep_dirty(target.files, target.directories)

    def end_sync(self, target: SyncTarget) -> None:
        self._in_flight.remove(target)
        if target.error is None and target.synced_offset > self.synced_offset:
            self.synced_offset, self.synced_ms = target.synced_offset, self._clock.monotonic_ms()
        for file in target.files:
            if not file.path.endswith(LOG_SUFFIX):
                file.close()  # indexes, snapshots: not needed before the next start
        if self._removed:
            self.delete_removed()

    # -- shrinking

    def retention_start(self, config: LogConfig, high_watermark: int, wall_ms: WallMs) -> int | None:
        return retention_start(self.segments, config, high_watermark, wall_ms)

    def maybe_roll(self, producers: ProducerStateManager, *, is_kept: bool) -> None:
        active = self.segments.active
        if active is None or active.size_bytes == 0 or self._file_sync.failure.failed:
            return
        for is_last_try in (False, True):
            try:
                self._roll(producers, is_kept=is_kept)
            except OSError as error:
                if not is_transient(error):
                    self._file_sync.failure.fail(error)
                if is_last_try or self._file_sync.failure.failed:
                    return
                self._file_sync.make_room()
            else:
                if is_kept:
                    self._file_sync.dirty[self] = None  # the next round completes it
                return

    def drop_below(self, offset: int) -> bool:
        segments = self.segments
        while len(segments) > 1 and segments[0].next_offset <= offset:
            self._removed.append(segments.take_first())
        if self._removed and (segments.secure_first_snapshot() or segments.has_dirty_files):
            self._file_sync.dirty[self] = None
            return True
        self.delete_removed()
        return False

    @property
    def has_removed(self) -> bool:
        """Files of removed segments await deletion."""
        return bool(self._removed)

    def delete_removed(self) -> None:
        """Delete the files of removed segments, in the sync thread, unless a sync still uses them or the snapshot after
        them is not durable."""
        if self._file_sync.failure.failed:  # what a sync has taken may be the snapshot
            return
        is_durable = self._file_sync.policy == "memory" or not self.segments.has_dirty_files
        if not self._removed or self._in_flight or not is_durable:
            return
        removed, self._removed = self._removed, []
        for segment in removed:
            segment.file.close()

        def delete() -> None:
            for segment in removed:
                self.segments.delete_files(segment)

        def on_done(error: Exception | None) -> None:
            if isinstance(error, OSError) and not is_transient(error) and not self.is_closed:
                self._file_sync.failure.fail(error)
            elif error is not None:
                self._removed = removed + self._removed

        self._file_sync.run_between_rounds(delete, on_done)

    def delete_indexes_below(self, offset: int) -> None:
        """Delete the indexes of segments entirely below `offset`: frees space for the journal on a full disk."""
        if not self._in_flight:
            for segment in (*self._removed, *list(self.segments)[:-1]):
                if segment.next_offset <= offset:
                    self.segments.delete_indexes(segment)

    # -- compaction

    def is_flushing(self, segments: Sequence[Segment]) -> bool:
        """Whether a round in flight uses files of `segments`."""
        paths = {segment.path(suffix) for segment in segments for suffix in SEGMENT_SUFFIXES}
        return any(file.path in paths for target in self._in_flight for file in target.files)

    def replace_segments(self, old: list[Segment], new: Segment) -> None:
        """Compaction has written what is retained of `old` to `new`. Not while they are flushed.

        Raises OSError; on a full disk nothing has changed."""
        from oncelog.broker.storage.local.swap import swap_in  # not needed at startup

        segments = self.segments
        try:
            written = swap_in(segments.disk, segments.directory, old, new)
        except OSError as error:
            if not is_transient(error):
                self._file_sync.failure.fail(error)
            self._file_sync.failure.space.on_error(error)
            raise
        segments.replace(old, new)
        segments.mark_dirty(written)

    # -- ending

    def abandon(self) -> None:
        self.is_closed = True
        self.segments.close()

    def detach(self) -> None:
        """The store has withdrawn or released it. Its owner is freed at once then, not by a garbage collection."""
        del self.on_damage

    def complete_segments(self, producers: ProducerStateManager) -> None:
        """Write the active segment's indexes and the producer snapshot before a clean stop, to be synced."""
        self._file_sync.dirty[self] = None
        self.segments.complete(self.log_end_offset, encode_snapshot(producers))

    def close(self) -> None:
        self.segments.close()


class _OpenSpan:
    """A span that grows (`journal.Span`)."""

    __slots__ = ("first_offset", "next_offset", "parts", "position", "segment_base")

    def __init__(self, segment_base: int, position: int, first_offset: int) -> None:
        self.segment_base = segment_base
        self.position = position
        self.first_offset = first_offset
        self.next_offset = first_offset
        self.parts: list[Buffer] = []

    def complete(self) -> Span:
        return Span(self.segment_base, self.position, self.first_offset, self.next_offset, b"".join(self.parts))


def _is_index_full(segment: Segment, index_bytes: int) -> bool:
    """Return whether an index is full. As in Kafka the index of times counts as well, with one entry kept free for the
    end of the segment; it has at most as many entries as that of offsets."""
    most_times = index_bytes // TIME_ENTRY.size - 1
    offsets_bytes = segment.index.size_bytes
    return offsets_bytes >= OFFSET_ENTRY_BYTES * most_times and (
        offsets_bytes >= index_bytes or len(segment.time_index) >= most_times
    )


def _unreadable(error: Exception, offset: int | None = None) -> StoreError | StoreDamagedError:
    if isinstance(error, KafkaError):
        return StoreDamagedError(error.message)
    if is_transient(error):
        return StoreError(str(error))
    return StoreDamagedError(f"it cannot be read{'' if offset is None else f' at offset {offset}'}: {error}")
