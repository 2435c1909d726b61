"""Recovers one partition from its files after any kind of stop.

Owns: the decision what is valid on disk. Does not own: serving. Invariants
- Everything synced is recovered, or the partition is offline with the file and position of the damage: a log never
  silently becomes shorter or gets a gap.
- Above the synced end, the first batch that is not whole is a torn write; it is truncated with everything after it.
  Where the synced end is unknown, only the last segment may be truncated.
- Indexes are used only if they match the manifest; the producer state comes from the newest valid snapshot and the
  batches after it. Otherwise both are rebuilt, and the report says why. A segment adopted unread has the checksum that
  its bytes must have (`Segment.unverified_sum`): reads and the background check enforce it.
- What was scanned is durable before the caller serves it. Recovery is idempotent.
"""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter
from uuid import UUID

from oncelog.broker.apis.compatibility import OURS, Compatibility
from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.producer_state import ProducerStateManager
from oncelog.broker.log.store import AbortedEntry
from oncelog.broker.storage.batch_replay import replay_batch
from oncelog.broker.storage.disk_errors import trouble
from oncelog.broker.storage.local.batch_scan import BatchScan
from oncelog.broker.storage.local.epoch_recovery import EpochRuns, recover_epochs
from oncelog.broker.storage.local.flushed_offsets import LogPoints
from oncelog.broker.storage.local.found_snapshots import FoundSnapshots
from oncelog.broker.storage.local.offset_index import OffsetIndex
from oncelog.broker.storage.local.reader import iterate_batches
from oncelog.broker.storage.local.recovered_log import DamagedLogError, RecoveredLog, empty_log, take_offline
from oncelog.broker.storage.local.segment import LOG_SUFFIX, TRANSACTION_INDEX_SUFFIX, Segment, file_name
from oncelog.broker.storage.local.segment_manifest import (
    INDEX_SUFFIXES,
    NO_SNAPSHOT,
    ManifestEntry,
    entry_of,
    load_manifest,
    manifest_problem,
    rewrite_manifest,
)
from oncelog.broker.storage.local.segment_manifest import NAME as MANIFEST
from oncelog.broker.storage.local.segments import SEGMENT_SUFFIXES, Segments
from oncelog.broker.storage.local.swap import complete_swaps
from oncelog.broker.storage.local.time_index import TimeIndex
from oncelog.broker.storage.producer_snapshot import BATCHES_SUFFIX
from oncelog.broker.storage.producer_snapshot import SUFFIX as SNAPSHOT_SUFFIX
from oncelog.broker.storage.transaction_index import TransactionIndex
from oncelog.broker.turns.ports import Disk, MonotonicMs
from oncelog.protocol.checksum import crc32c
from oncelog.protocol.errors import KafkaError, ProtocolError
from oncelog.protocol.records.batch import BatchHeader

_UNCOMMITTED = "the batches there belong to a round that was not committed"
_NEVER_ACKNOWLEDGED = "no round had committed them, and no response had named them"
_AFTER_THE_JOURNAL = (
    "they come after the end of the journal, so no response had named them, unless its last frames were damaged"
)
_BASE_OFFSET = attrgetter("base_offset")


def recover_log(
    disk: Disk,
    directory: str,
    topic_id: UUID,
    config: LogConfig,
    points: LogPoints | None,
    monotonic_ms: MonotonicMs,
    *,
    is_journal_whole: bool,
    is_journal_damaged: bool = False,
    compacted_offset: int = 0,
    committed_offset: int | None = None,
    is_end_proven: bool = False,
    checkpointed_offset: int | None = None,
    compatibility: Compatibility = OURS,
    on_scanned: Callable[[int], None] | None = None,
) -> RecoveredLog:
    """`points` None: nothing of this log was synced, or, unless `is_journal_whole`, that is unknown. With
    `is_journal_damaged` more may have been synced than `points` say.

    Below `compacted_offset` compaction may have removed batches. Nothing at or above `committed_offset` was committed;
    None: that is unknown; `is_end_proven`: no damage can have lowered it. The files beside the log were synced up to
    `checkpointed_offset`; None: as far as the log. Unless `compatibility.remembers_batches`, a snapshot has one batch
    per producer, as in Apache Kafka. `on_scanned` is called with the bytes of each segment that had to be read.
    """
    recovered = empty_log(disk, directory, topic_id)
    may_cut_anywhere = (points is not None or is_journal_whole) and not is_journal_damaged
    recovery = _Recovery(
        disk, directory, topic_id, config, points, monotonic_ms, recovered, may_cut_anywhere, compacted_offset
    )
    recovery.snapshots.remembers_batches = compatibility.remembers_batches
    recovery.committed_offset, recovery.is_end_proven = committed_offset, is_end_proven
    if checkpointed_offset is not None:
        recovery.checkpointed_offset = checkpointed_offset
    recovery.on_scanned = on_scanned
    try:
        recovery.run()
    except DamagedLogError as damage:
        recovered.good_end_offset = damage.good_end_offset
        take_offline(recovered, directory, str(damage))
    except OSError as error:
        take_offline(recovered, directory, trouble(error))
    return recovered


class _Recovery:
    def __init__(
        self,
        disk: Disk,
        directory: str,
        topic_id: UUID,
        config: LogConfig,
        points: LogPoints | None,
        monotonic_ms: MonotonicMs,
        recovered: RecoveredLog,
        may_cut_anywhere: bool,
        compacted_offset: int,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._topic_id = topic_id
        self._config = config
        self._synced_offset = points.synced_offset if points else 0
        self._may_cut_anywhere = may_cut_anywhere
        self._expected_start = points.log_start_offset if points else None
        # Compaction synced the journal before it changed anything: above that, a gap is a torn write.
        self._gap_end = min(compacted_offset, self._synced_offset) if self._may_cut_anywhere else compacted_offset
        self._monotonic_ms = monotonic_ms
        self._recovered = recovered
        self.snapshots = FoundSnapshots(disk, directory, monotonic_ms, self._report)
        self._state = ProducerStateManager()
        self._state_offset = -1  # the producer state is as of this offset; -1: not loaded
        self._state_is_whole = False  # it includes what producers did before the first segment
        self._segments: list[Segment] = []
        self._epoch_runs = EpochRuns()
        self.checkpointed_offset = self._synced_offset
        self.committed_offset: int | None = None
        self.is_end_proven = False
        self.on_scanned: Callable[[int], None] | None = None

    def run(self) -> None:
        for line in complete_swaps(self._disk, self._directory):
            self._report(line)
        names = self._disk.list_dir(self._directory)
        self.snapshots.offsets = _offsets_named(names, SNAPSHOT_SUFFIX)
        base_offsets = _offsets_named(names, LOG_SUFFIX)
        if not base_offsets:
            if self._synced_offset > 0:
                raise DamagedLogError(f"no segment file is left, offsets below {self._synced_offset} were durable", 0)
            return
        manifest = self._load_manifest(names, len(base_offsets))
        self._check_first(base_offsets[0], manifest)
        self.snapshots.sums = {
            entry.next_offset: entry.snapshot for entry in manifest.values() if entry.snapshot != NO_SNAPSHOT
        }
        vouched: list[ManifestEntry] = []
        rebuilt: list[Segment] = []
        for slot, base_offset in enumerate(base_offsets):
            next_base = base_offsets[slot + 1] if slot + 1 < len(base_offsets) else None
            segment = Segment(self._disk, self._directory, base_offset, self._monotonic_ms)
            self._segments.append(segment)
            segment.has_gaps = next_base is not None and next_base <= self._gap_end
            entry = manifest.get(base_offset)
            if entry is None and manifest and (next_base is not None or file_name(base_offset, ".index") in names):
                self._report(
                    f"{self._directory}/{MANIFEST} has no entry for {segment.path(LOG_SUFFIX)}: its batches are read"
                )
            if entry is not None and self._adopt(segment, entry, next_base):
                vouched.append(entry)
            else:
                self._scan(segment, next_base)
                rebuilt.append(segment)
                if segment.has_gaps and next_base is not None:
                    self._check_gap(segment, next_base, manifest)
            if next_base is not None and segment.next_offset != next_base:
                self._drop_segments(base_offsets[slot + 1 :], segment.next_offset, manifest)
                break
        self._finish(manifest, vouched, rebuilt)

    def _load_manifest(self, names: list[str], segment_count: int) -> dict[int, ManifestEntry]:
        path = f"{self._directory}/{MANIFEST}"
        manifest, problem = load_manifest(self._disk, self._directory), None
        if MANIFEST in names:
            problem = manifest_problem(self._disk.read_bytes(path))
        elif segment_count > 1 or any(name.endswith(INDEX_SUFFIXES) for name in names):
            problem = "missing"
        if problem is not None:
            self._report(f"{path} is {problem}: the batches that it does not cover are read")
        return manifest

    def _check_first(self, base_offset: int, manifest: dict[int, ManifestEntry]) -> None:
        start = self._expected_start
        if start is not None and base_offset > start:
            raise DamagedLogError(
                f"its first segment begins at offset {base_offset}, the log started at {start}"
                + self._missing_file(start, base_offset, manifest),
                start,
            )

    def _missing_file(self, first_offset: int, next_offset: int, manifest: dict[int, ManifestEntry]) -> str:
        """Names the file that held the first of these missing offsets, if the manifest knows it."""
        found = {segment.base_offset for segment in self._segments}
        known = [base for base, entry in manifest.items() if base < next_offset and entry.next_offset > first_offset]
        missing = [base for base in known if base not in found]
        return f": {self._directory}/{file_name(min(missing), LOG_SUFFIX)} is missing" if missing else ""

    def _check_gap(self, segment: Segment, next_base: int, manifest: dict[int, ManifestEntry]) -> None:
        """Compaction may have removed the last batches of a segment, but not a segment that the manifest still has."""
        missing = [base for base in manifest if segment.base_offset < base < next_base]
        if missing:
            raise DamagedLogError(
                f"{self._directory}/{file_name(min(missing), LOG_SUFFIX)} is missing", segment.next_offset
            )
        segment.next_offset = next_base

    def _drop_segments(self, base_offsets: list[int], end_offset: int, manifest: dict[int, ManifestEntry]) -> None:
        """Drop the segments after one that ends too early: they were never durable, or prove damage."""
        next_file = f"{self._directory}/{file_name(base_offsets[0], LOG_SUFFIX)}"
        before = self._segments[-1].path(LOG_SUFFIX) if self._segments else "the segment"
        problem = f"{before} before {next_file} ends at offset {end_offset}"
        is_uncommitted = self.committed_offset is not None and base_offsets[0] > self.committed_offset
        if end_offset < self._synced_offset or not self._may_cut_anywhere:
            raise DamagedLogError(problem + self._missing_file(end_offset, base_offsets[0], manifest), end_offset)
        cut_bytes = 0
        for base_offset in reversed(base_offsets):
            segment = Segment(self._disk, self._directory, base_offset, self._monotonic_ms)
            cut_bytes += segment.file.size_bytes
            for suffix in SEGMENT_SUFFIXES:
                self._disk.delete(segment.path(suffix))
            if self.snapshots.has(base_offset):
                self.snapshots.offsets.remove(base_offset)
        self._recovered.cut_bytes += cut_bytes
        what = f"{problem}: {len(base_offsets)} later segments ({cut_bytes} bytes)"
        if is_uncommitted:
            self._report(f"{what} are deleted: {self._why_uncommitted}")
        else:
            self._report(f"{what} were never durable and are deleted")

    def _adopt(self, segment: Segment, entry: ManifestEntry, next_base: int | None) -> bool:
        """Adopt a completed and synced segment unread, if all of its files are as they were written."""
        if entry.next_offset > self._synced_offset or entry.size_bytes != segment.file.size_bytes:
            return False
        if next_base is not None and entry.next_offset != next_base:
            return False
        contents = [self._read_index(segment, slot, entry) for slot in range(len(INDEX_SUFFIXES))]
        if None in contents:
            return False
        offsets, times, transactions = (content or b"" for content in contents)
        try:
            segment.index = OffsetIndex.from_bytes(segment.base_offset, offsets)
            segment.time_index = TimeIndex.from_bytes(segment.base_offset, times)
            segment.transaction_index = TransactionIndex.from_bytes(transactions)
        except ValueError as error:
            self._report(f"the indexes of {segment.path(LOG_SUFFIX)} are rebuilt: {error}")
            return False
        segment.size_bytes = entry.size_bytes
        segment.crc = entry.log_crc
        segment.unverified_sum = (entry.size_bytes, entry.log_crc)
        segment.next_offset = entry.next_offset
        segment.first_timestamp = entry.first_timestamp
        segment.max_timestamp = entry.max_timestamp
        segment.max_timestamp_offset = entry.max_timestamp_offset
        return True

    def _read_index(self, segment: Segment, slot: int, entry: ManifestEntry) -> bytes | None:
        path = segment.path(INDEX_SUFFIXES[slot])
        if not self._disk.exists(path):
            if INDEX_SUFFIXES[slot] == TRANSACTION_INDEX_SUFFIX and entry.vouches_for(slot, b""):
                return b""
            self._report(f"{path} is missing, the segment's indexes are rebuilt")
            return None
        data = self._disk.read_bytes(path)
        if entry.vouches_for(slot, data):
            return data
        self._report(f"{path} does not match the manifest, the segment's indexes are rebuilt")
        return None

    # -- reading batches

    def _scan(self, segment: Segment, next_base: int | None) -> None:
        """Read every batch: rebuild the indexes, replay the producers, find where valid data ends."""
        self._load_state(segment.base_offset)
        file_bytes = segment.file.size_bytes
        segment.index = OffsetIndex(segment.base_offset)
        segment.time_index = TimeIndex(segment.base_offset)
        segment.transaction_index = TransactionIndex()
        scan = BatchScan(
            segment.file.read_view, file_bytes, segment.base_offset, has_gaps=segment.has_gaps, end_offset=next_base
        )
        problem: str | None = None
        removed_end = 0
        for header, batch in scan:
            if removed_end or (self.committed_offset is not None and header.next_offset > self.committed_offset):
                problem, removed_end = _UNCOMMITTED, header.next_offset
            else:
                self._take(segment, header, batch)
        self._recovered.scanned_bytes += segment.size_bytes
        if self.on_scanned is not None:
            self.on_scanned(segment.size_bytes)
        problem = problem or scan.problem
        if problem is None:
            return
        place = f"{segment.path(LOG_SUFFIX)} at position {segment.size_bytes}, offset {segment.next_offset}"
        if problem is not _UNCOMMITTED and (
            segment.next_offset < self._synced_offset or (next_base is not None and not self._may_cut_anywhere)
        ):
            raise DamagedLogError(f"{place}: {problem}", segment.next_offset)
        cut_bytes = file_bytes - segment.size_bytes
        segment.file.truncate(segment.size_bytes)
        self._recovered.cut_bytes += cut_bytes
        if problem is not _UNCOMMITTED:
            self._report(f"{place}: {problem}; {cut_bytes} bytes that were never durable are truncated")
        else:
            what = f"offsets {segment.next_offset} to {removed_end - 1} ({cut_bytes} bytes)"
            self._report(f"{segment.path(LOG_SUFFIX)}: {what} are removed: {self._why_uncommitted}")

    @property
    def _why_uncommitted(self) -> str:
        return _NEVER_ACKNOWLEDGED if self.is_end_proven else _AFTER_THE_JOURNAL

    def _take(self, segment: Segment, header: BatchHeader, batch: memoryview) -> None:
        self._epoch_runs.add(header)
        aborted = self._replay(header, batch)
        max_timestamp = header.max_timestamp if header.record_count else -1
        segment.crc = crc32c(batch, segment.crc)
        segment.on_batch(len(batch), header.next_offset, max_timestamp, self._config.index_interval_bytes)
        if aborted is not None:
            segment.transaction_index.append(aborted)

    def _replay(self, header: BatchHeader, batch: memoryview) -> AbortedEntry | None:
        self._state_offset = header.next_offset
        try:
            return replay_batch(self._state, header, batch, self._monotonic_ms)
        except ProtocolError as error:
            raise DamagedLogError(
                f"the control batch at offset {header.base_offset} is not a marker: {error}", header.base_offset
            ) from error

    # -- producer state

    def _load_state(self, offset: int) -> None:
        """Load the producer state as of `offset`: the newest valid snapshot, then the batches after it."""
        if self._state_offset == offset and self._state_is_whole:
            return  # the usual case: scanned segments in order
        # Not one below the first segment: a deletion has left it, and the batches after it are gone.
        newer_than = max(self._state_offset if self._state_is_whole else -1, self._segments[0].base_offset - 1)
        newest = self.snapshots.newest(newer_than, offset)
        if newest is not None:
            (self._state_offset, self._state), self._state_is_whole = newest, True
        if self._state_offset < 0:
            self._state_offset = self._segments[0].base_offset
            # An interrupted deletion of the first segments may have removed the snapshot before them.
            self._state_is_whole = self._state_offset == 0
        passed = [known for known in self.snapshots.without_batches if self._state_offset <= known <= offset]
        first = max(0, bisect_right(self._segments, self._state_offset, key=_BASE_OFFSET) - 1)
        end = bisect_right(self._segments, offset, key=_BASE_OFFSET)
        segments = Segments(self._disk, self._directory, self._topic_id, self._segments[first:end])
        try:
            for header, batch in iterate_batches(segments, self._state_offset, offset):
                self._recovered.scanned_bytes += len(batch)
                self._replay(header, batch)
        except KafkaError as error:
            raise DamagedLogError(error.message, max(self._state_offset, 0)) from error
        for known in passed:
            self._state.adopt_missing(self.snapshots.without_batches[known])
        self._state_offset = offset

    def _renew_snapshots(self) -> dict[int, tuple[int, int]]:
        """Rewrite invalid snapshots before a segment: once retention has removed the segments before it, they are the
        only source of the producer state. They are synced then. Returns the sums of rewritten snapshots, by offset."""
        live = self._state, self._state_offset
        self._state, self._state_offset, self._state_is_whole = ProducerStateManager(), -1, False
        renewed: dict[int, tuple[int, int]] = {}
        for segment in self._segments[1:]:
            offset = segment.base_offset
            if not self.snapshots.has(offset) or self.snapshots.load(offset) is None:
                self._load_state(offset)
                renewed[offset] = self.snapshots.write(offset, self._state)
            # A valid one may be unsynced too: a start advances the synced end, and may be killed.
            self._recovered.segments.note_unsynced_snapshot(offset)
        self._state, self._state_offset = live
        return renewed

    # -- ending

    def _finish(self, manifest: dict[int, ManifestEntry], vouched: list[ManifestEntry], rebuilt: list[Segment]) -> None:
        log_end_offset = self._segments[-1].next_offset
        if log_end_offset < self._synced_offset:
            last = self._segments[-1]
            entry = manifest.get(last.base_offset)
            is_complete = entry is not None and entry.next_offset == log_end_offset
            file = file_name(log_end_offset if is_complete else last.base_offset, LOG_SUFFIX)
            raise DamagedLogError(
                f"{self._directory}/{file} is {'missing' if is_complete else 'too short'}: "
                f"the log ends at offset {log_end_offset}, offsets below {self._synced_offset} were durable",
                log_end_offset,
            )
        log_start_offset = max(self._segments[0].base_offset, self._expected_start or 0)
        if log_start_offset > log_end_offset:
            raise DamagedLogError(
                f"it ends at offset {log_end_offset}, before its start at {log_start_offset}", log_end_offset
            )
        self.snapshots.drop_above(log_end_offset)
        self._load_state(log_end_offset)
        batches_offsets = _offsets_named(self._disk.list_dir(self._directory), BATCHES_SUFFIX)
        self.snapshots.drop_old({segment.base_offset for segment in self._segments}, batches_offsets)
        # A stop between advancing the log start and the deletion leaves segments below it.
        removed_count = sum(segment.next_offset <= log_start_offset for segment in self._segments[:-1])
        first_base = self._segments[removed_count].base_offset
        entries = [self._without_lost_snapshot(entry) for entry in vouched] + self._make_durable(rebuilt)
        recovered = self._recovered
        recovered.segments = Segments(self._disk, self._directory, self._topic_id, self._segments)
        renewed = self._renew_snapshots()
        entries = [
            replace(entry, snapshot=renewed.get(entry.next_offset, entry.snapshot))
            for entry in entries
            if entry.base_offset >= first_base
        ]
        if {entry.base_offset: entry for entry in entries} != manifest:
            rewrite_manifest(self._disk, self._directory, entries)
        if removed_count:
            self.snapshots.sync(first_base)
        for _ in range(removed_count):
            recovered.segments.delete_files(recovered.segments.take_first())
        recovered.producer_state = self._state
        recovered.producer_state.on_high_watermark(log_end_offset)
        recovered.log_start_offset = log_start_offset
        recovered.log_end_offset = log_end_offset
        try:
            recovered.epochs = recover_epochs(
                recovered.segments,
                self._epoch_runs,
                self.checkpointed_offset,
                log_start_offset,
                log_end_offset,
                self._report,
            )
        except KafkaError as error:
            raise DamagedLogError(error.message, log_start_offset) from error

    def _without_lost_snapshot(self, entry: ManifestEntry) -> ManifestEntry:
        if entry.snapshot == NO_SNAPSHOT or self.snapshots.has(entry.next_offset):
            return entry
        self._report(f"{self.snapshots.path(entry.next_offset)} is missing, the producer state comes from the log")
        return replace(entry, snapshot=NO_SNAPSHOT)

    def _make_durable(self, rebuilt: list[Segment]) -> list[ManifestEntry]:
        """Sync what was scanned: it may be only in the page cache. Returns the manifest entries of completed segments.

        Index files are not synced: the manifest detects lost ones, and they are rebuilt again.
        """
        entries: list[ManifestEntry] = []
        for segment in rebuilt:
            if segment is not self._segments[-1]:
                files, contents = segment.write_indexes(self._disk)
                entries.append(entry_of(segment, contents, self.snapshots.sum_at(segment.next_offset)))
                for file in files:
                    file.close()
            if segment.next_offset > self._synced_offset or segment is self._segments[-1]:
                segment.file.sync()
        if rebuilt:
            self._disk.sync_dir(self._directory)
        return entries

    def _report(self, line: str) -> None:
        self._recovered.lines.append(line)


def _offsets_named(names: list[str], suffix: str) -> list[int]:
    stems = [name.removesuffix(suffix) for name in names if name.endswith(suffix)]
    return sorted(int(stem) for stem in stems if len(stem) == 20 and stem.isdecimal())
