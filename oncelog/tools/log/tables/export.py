"""`oncelog log export`: tables as a data directory, as a clean stop leaves one.

Owns: the way of each segment into files, and when they get their name. Does not own: the formats: the writers of
`storage.local` are used.
Invariants
- A directory that is not whole never has its name.
- The files follow from the tables alone: the same tables give the same bytes.
- No byte is written whose chunk has not its checksum.

Tables know the producers at the end of a log, and which of them had a transaction open at the base of each segment. The
snapshots between are made from the records, as a start makes those that it misses.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from oncelog.broker.log.leader_epochs import EpochStart, LeaderEpochs
from oncelog.broker.log.log_config import INT64_MAX, LogConfig
from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.log.producer_state import ProducerState, ProducerStateManager
from oncelog.broker.log.store import AbortedEntry
from oncelog.broker.storage.batch_replay import replay_batch
from oncelog.broker.storage.local.checkpoints import CleanerCheckpoint
from oncelog.broker.storage.local.local_log import LocalLog
from oncelog.broker.storage.local.log_store import LocalLogStore
from oncelog.broker.storage.local.segments import write_snapshot
from oncelog.broker.storage.producer_snapshot import encode_snapshot
from oncelog.broker.storage.shared.cleaned import PATH as CLEANED
from oncelog.broker.storage.shared.cleaned import decode_cleaned
from oncelog.broker.storage.shared.opening import FoundLog
from oncelog.broker.system.clock import SystemClock
from oncelog.broker.system.disk import RealDisk
from oncelog.broker.turns.ports import Disk, MonotonicMs
from oncelog.protocol.records.batch import iter_batches, read_header
from oncelog.tools.log.stopped_directory import NoLoop, raise_it
from oncelog.tools.log.tables.check import Walk
from oncelog.tools.log.tables.content import METADATA, Place, TablesContent, TableSegment
from oncelog.tools.new_directory import made_whole

_UNFINISHED_SUFFIX = ".exporting"
_SYNCED_BYTES = 256 * 1024 * 1024
_NEVER = MonotonicMs(0)
_EPOCH_UNKNOWN = 0


class NotWhole(Exception):
    """Something in the tables is damaged; the message says what."""


@dataclass(frozen=True, slots=True)
class Exported:
    cluster_id: str | None
    partition_count: int
    size_bytes: int

    def as_dict(self) -> dict[str, Any]:
        return {"cluster_id": self.cluster_id, "partitions": self.partition_count, "bytes": self.size_bytes}


def export(content: TablesContent, data_dir: Path, on_written: Callable[[int], None] = lambda _: None) -> Exported:
    """Make the directory. `on_written` is called with the bytes so far. Raises
    NotWhole, NotNew, KafkaError for a metadata log that cannot be replayed, OSError; then there is no directory."""
    if content.problems:
        raise NotWhole(content.problems[0])
    with made_whole(data_dir, _UNFINISHED_SUFFIX) as unfinished:
        disk = RealDisk(unfinished)
        try:
            disk.lock()
            return write(content, disk, on_written)
        finally:
            disk.close()


def write(content: TablesContent, disk: Disk, on_written: Callable[[int], None] = lambda _: None) -> Exported:
    """Fill an empty directory. Raises as `export`."""
    filling = _Filling(content, disk, on_written)
    filling.write(METADATA)
    state = content.metadata()
    places = content.places(state)
    for place in places:
        filling.write(place)
    filling.close()
    return Exported(state.cluster_id, len(places), filling.written_bytes)


class _Filling:
    def __init__(self, content: TablesContent, disk: Disk, on_written: Callable[[int], None]) -> None:
        self._content = content
        self._disk = disk
        self._on_written = on_written
        self.written_bytes = self._unsynced_bytes = 0
        self._store = LocalLogStore(disk, SystemClock(), NoLoop(), raise_it)
        self._known_cleaned = decode_cleaned(content.blobs.get(CLEANED, b""))
        self._cleaned = CleanerCheckpoint(disk)
        self._producers: dict[tuple[str, int], ProducerStateManager] = {}

    def write(self, place: Place) -> None:
        log = self._content.open(place)
        if log.offline_error is not None:
            raise NotWhole(log.offline_error)
        segments = self._content.segments_of(log)
        walk = Walk(place, log, self._content.found.get(place.key, FoundLog()))
        _check(walk)
        if not log.log_end_offset:
            return  # it has no files
        self._store.open(place.topic, place.partition, place.topic_id, place.config)
        target = self._store.get(place.topic, place.partition)
        target.keep_epochs(_epochs_of(log))
        aborted = [entry for segment in segments for entry in segment.aborted.entries]
        state, cleaned_offset = ProducerStateManager(), 0
        for segment in segments:
            add_open(state, segment, log.producer_state, aborted)
            self._begin_segment(target, segment.base_offset, state)
            if self._fill(target, place.config, _batches(segment, walk), segment, state):
                cleaned_offset = segment.next_offset
        walk.end()
        _check(walk)
        if cleaned_offset == log.log_end_offset or not segments:
            # A last segment has no gaps: what recovery misses there was never written.
            self._begin_segment(target, log.log_end_offset, log.producer_state)
        cleaned_offset = max(cleaned_offset, self._known_cleaned.get(place.key, 0))
        if cleaned_offset:
            self._cleaned.set(place.topic, place.partition, cleaned_offset)
        target.log_start_offset = log.log_start_offset
        self._producers[place.topic, place.partition] = log.producer_state
        if self._unsynced_bytes > _SYNCED_BYTES:
            self._store.commit_now()
            self._unsynced_bytes = 0

    def _begin_segment(self, target: LocalLog, base_offset: int, state: ProducerStateManager) -> None:
        segments, snapshot = target.segments, encode_snapshot(state)
        last = segments.active
        if last is not None:
            last.next_offset = base_offset  # compaction may have removed the end
        segments.roll(base_offset, _NEVER, snapshot)
        if last is None and base_offset:
            segments.mark_dirty(write_snapshot(self._disk, segments.directory, base_offset, snapshot))
        target.log_end_offset = base_offset

    def _fill(
        self,
        target: LocalLog,
        config: LogConfig,
        batches: Iterator[memoryview],
        segment: TableSegment,
        state: ProducerStateManager,
    ) -> bool:
        """Returns whether compaction has left gaps."""
        # It ends where the segment in the tables does, and nowhere else.
        config = replace(config, segment_bytes=INT64_MAX, segment_ms=INT64_MAX, segment_index_bytes=INT64_MAX)
        has_gaps = False
        for batch in batches:
            header = read_header(batch)
            has_gaps = has_gaps or header.base_offset != target.log_end_offset
            timestamp = header.max_timestamp if header.record_count else -1
            target.append((batch,), len(batch), header.next_offset, timestamp, config, state)
            replay_batch(state, header, batch, _NEVER)
            self.written_bytes += len(batch)
            self._unsynced_bytes += len(batch)
            self._on_written(self.written_bytes)
        for entry in segment.aborted.entries:
            target.note_aborted(entry)
        return has_gaps or target.log_end_offset != segment.next_offset

    def close(self) -> None:
        """What is beside the logs, and a clean stop."""
        for path in self._content.kept_beside():
            self._disk.write_atomically(path, self._content.blobs[path])
        problem = self._store.close(self._producers, cleanly=True)
        if problem is not None:
            raise problem


def _epochs_of(log: PartitionLog) -> Sequence[EpochStart]:
    """Return the epochs as recovery would leave them; of an empty log the last one that had records."""
    epochs = LeaderEpochs(log.epochs.entries)
    epochs.truncate_end(log.log_end_offset)
    if log.log_start_offset == log.log_end_offset:
        return epochs.entries[-1:]
    epochs.truncate_start(log.log_start_offset)
    return epochs.entries


def _batches(segment: TableSegment, walk: Walk) -> Iterator[memoryview]:
    """Raises NotWhole, OSError."""
    for row, body in segment.pieces():
        if row is None:
            walk.on_tail(segment)
        else:
            walk.on_chunk(row, body)
        _check(walk)
        for _, batch in iter_batches(memoryview(body or b"")):
            yield batch


def _check(walk: Walk) -> None:
    if walk.lost:
        lost = walk.lost[0]
        raise NotWhole(
            f"{walk.name}: {lost.file}: {lost.problem}, offsets {lost.first_offset} to {lost.next_offset - 1}"
        )


def add_open(
    state: ProducerStateManager,
    segment: TableSegment,
    at_end: ProducerStateManager,
    aborted: Sequence[AbortedEntry],
) -> None:
    """Open the transactions that were open at the base of the segment, and whose beginning is gone: a compaction
    that begins there must not take the marker of one for obsolete."""
    missing = sorted(segment.open_producers - state.open_producers())
    taken = {producer.current_transaction_first_offset for producer in state.producers()}
    free = (offset for offset in range(segment.base_offset - 1, -1, -1) if offset not in taken)
    for producer_id in missing:
        known = state.producer(producer_id) or ProducerState(producer_id, _EPOCH_UNKNOWN)
        first_offset = _first_offset(producer_id, segment.base_offset, at_end, aborted)
        if first_offset is None or first_offset in taken:
            first_offset = next(free)
        taken.add(first_offset)
        known.current_transaction_first_offset = first_offset
        state.restore(known)
    if missing:
        state.restored()


def _first_offset(
    producer_id: int, base_offset: int, at_end: ProducerStateManager, aborted: Sequence[AbortedEntry]
) -> int | None:
    """Where the transaction began that the producer had open there, if anything says so."""
    for entry in aborted:
        if entry.producer_id == producer_id and entry.first_offset < base_offset <= entry.last_offset:
            return entry.first_offset
    last = at_end.producer(producer_id)
    if last is not None and 0 <= last.current_transaction_first_offset < base_offset:
        return last.current_transaction_first_offset
    return None
