"""The log of one partition: the only owner of its offsets.

Owns: `log_start_offset`, `last_stable_offset`, `high_watermark`, `log_end_offset`, the segments, who waits for
durability. Does not own: sequences, epochs (`producer_state`), when to sync (`flusher`), what to delete (`retention`).
Invariants
- log_start_offset ≤ last_stable_offset ≤ high_watermark ≤ log_end_offset, checked after each change.
- The high watermark is the durable end: it moves only when a flush round has ended.
- An append decides first and changes nothing when it refuses or when the disk does.

KIP-98 (transactions, last stable offset), KIP-101 (leader epoch), KIP-74 (a first batch is returned whole).
"""

from bisect import insort
from collections.abc import Callable, Iterator
from operator import itemgetter
from uuid import UUID

from oncelog.broker.completion import Completion
from oncelog.broker.log.batch_validation import validate_batch
from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.producer_state import ProducerStateManager
from oncelog.broker.log.values import AbortedTransaction, AppendOrigin, AppendResult, FetchIsolation, FetchResult
from oncelog.broker.ports import Buffer, Clock, File, PartitionListener, WallMs
from oncelog.broker.storage.local.compaction.swap import swap_in
from oncelog.broker.storage.local.flusher import Flusher, FlushTarget, is_transient
from oncelog.broker.storage.local.producer_snapshot import encode_snapshot
from oncelog.broker.storage.local.reader import (
    collect_aborted,
    find_max_timestamp,
    find_timestamp,
    iterate_batches,
    read_records,
    readable_bytes,
)
from oncelog.broker.storage.local.segment import LOG_SUFFIX, Segment
from oncelog.broker.storage.local.segments import SEGMENT_SUFFIXES, Segments
from oncelog.broker.storage.local.transaction_index import AbortedEntry
from oncelog.protocol.checksum import crc32c
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.records.batch import (
    CRC_AT,
    LAST_OFFSET_DELTA_AT,
    MAX_TIMESTAMP_AT,
    PREFIX,
    PRODUCER_ID_AT,
    TIMESTAMP_TYPE_MASK,
    BatchHeader,
)
from oncelog.protocol.records.control import ControlRecordType, encode_end_txn_marker

__all__ = [
    "AbortedTransaction",
    "AppendOrigin",
    "AppendResult",
    "FetchIsolation",
    "FetchResult",
    "LogInvariantError",
    "PartitionLog",
]

_MAX_RELATIVE_OFFSET = 2**31 - 1

_wait_offset = itemgetter(0)


class LogInvariantError(Exception):
    """The offsets of a partition contradict each other: the broker must stop and recover."""


class PartitionLog:
    __slots__ = (
        "_clock",
        "_flusher",
        "_in_flight",
        "_listener",
        "_on_damage",
        "_removed",
        "_segments",
        "_told_high_watermark",
        "_waiters",
        "config",
        "high_watermark",
        "is_deleted",
        "is_dirty",
        "last_stable_offset",
        "leader_epoch",
        "log_end_offset",
        "log_start_offset",
        "offline_error",
        "partition",
        "producer_state",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        topic_id: UUID,
        config: LogConfig,
        segments: Segments,
        producer_state: ProducerStateManager,
        flusher: Flusher,
        listener: PartitionListener,
        clock: Clock,
        *,
        log_start_offset: int = 0,
        log_end_offset: int = 0,
        offline_error: str | None = None,
        on_damage: Callable[["PartitionLog", str], None] | None = None,
    ) -> None:
        """A recovered log: all of it counts as durable. `on_damage` hears once why it went offline after that."""
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.leader_epoch = 0
        self.config = config
        self.producer_state = producer_state
        self.offline_error = offline_error
        self._on_damage = on_damage
        self.is_dirty = False
        self.is_deleted = False
        self._segments = segments
        self._flusher = flusher
        self._listener = listener
        self._clock = clock
        self._waiters: list[tuple[int, Completion[None]]] = []
        self._in_flight: list[FlushTarget] = []
        self._removed: list[Segment] = []
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.high_watermark = log_start_offset
        self.last_stable_offset = log_start_offset
        self.advance_high_watermark(log_end_offset)
        self._told_high_watermark = log_end_offset

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def size_bytes(self) -> int:
        return self._segments.size_bytes

    @property
    def segments(self) -> Segments:
        return self._segments

    # -- appending

    def append(
        self,
        batch: memoryview,
        *,
        wall_ms: WallMs,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        transaction_version: int = 0,
    ) -> AppendResult:
        """Append one batch, or answer the retry of an earlier one; raises KafkaError."""
        self._check_writable()
        config = self.config
        header = validate_batch(batch, config, wall_ms, origin)
        is_log_append_time = config.is_log_append_time
        producer_state = self.producer_state
        if header.producer_id >= 0:
            earlier = producer_state.prepare_append(header, origin, transaction_version)
            if earlier is not None:
                log_append_time_ms = earlier.timestamp if is_log_append_time else -1
                return AppendResult(
                    earlier.first_offset, earlier.last_offset, log_append_time_ms, self.log_start_offset, True
                )
        if config.compression_type != "producer" and origin is AppendOrigin.CLIENT:
            from oncelog.broker.log.recompression import recompressed  # few topics ask for it, and a start does not

            batch, header = recompressed(batch, header, config)
        base_offset = self.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        timestamp = header.max_timestamp
        prefix = PREFIX.pack(base_offset, header.batch_length, self.leader_epoch)
        if is_log_append_time:
            timestamp = wall_ms
            parts = _with_timestamp(prefix, batch, header.attributes | TIMESTAMP_TYPE_MASK, wall_ms)
        elif header.attributes & TIMESTAMP_TYPE_MASK:
            parts = _with_timestamp(prefix, batch, header.attributes & ~TIMESTAMP_TYPE_MASK, timestamp)
        else:
            parts = (prefix, batch[PREFIX.size :])
        self._write(parts, len(batch), last_offset + 1, timestamp)
        if header.producer_id >= 0:
            producer_state.replay_batch(header, base_offset, timestamp, self._clock.monotonic_ms())
        self._on_appended(last_offset + 1)
        return AppendResult(
            base_offset, last_offset, wall_ms if is_log_append_time else -1, self.log_start_offset, False
        )

    def append_end_txn_marker(
        self,
        *,
        producer_id: int,
        producer_epoch: int,
        committed: bool,
        coordinator_epoch: int,
        wall_ms: WallMs,
        transaction_version: int = 0,
    ) -> AppendResult:
        """End the producer's transaction here; raises KafkaError. Written even if none is open: it fences the epoch."""
        self._check_writable()
        self.producer_state.prepare_marker(producer_id, producer_epoch, coordinator_epoch, transaction_version)
        offset = self.log_end_offset
        marker = encode_end_txn_marker(
            producer_id,
            producer_epoch,
            ControlRecordType.COMMIT if committed else ControlRecordType.ABORT,
            coordinator_epoch,
            wall_ms,
            base_offset=offset,
            leader_epoch=self.leader_epoch,
        )
        segment = self._write((marker,), len(marker), offset + 1, wall_ms)
        completed = self.producer_state.replay_marker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            aborted=not committed,
            offset=offset,
            timestamp=wall_ms,
            monotonic_ms=self._clock.monotonic_ms(),
        )
        if completed is not None and completed.aborted:
            segment.transaction_index.append(
                AbortedEntry(producer_id, completed.first_offset, offset, completed.last_stable_offset)
            )
        self._on_appended(offset + 1)
        return AppendResult(offset, offset, -1, self.log_start_offset, False)

    def note_unverified(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        """A transactional batch came before its transaction is known to be open here: see ProducerStateManager."""
        self.producer_state.note_unverified(producer_id, producer_epoch, base_sequence)

    def _write(self, parts: tuple[Buffer, ...], size_bytes: int, next_offset: int, timestamp: int) -> Segment:
        segments = self._segments
        segment = segments.active
        try:
            if segment is None or self._must_roll(segment, size_bytes, next_offset, timestamp):
                snapshot = encode_snapshot(self.producer_state)
                segment = segments.roll(self.log_end_offset, self._clock.monotonic_ms(), snapshot)
            segment.append(parts, size_bytes, next_offset, timestamp, self.config.index_interval_bytes)
        except OSError as error:
            if not is_transient(error):
                self._flusher.fail(error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.name} cannot be written: {error}") from error
        segments.mark_active_dirty()
        return segment

    def _must_roll(self, segment: Segment, size_bytes: int, next_offset: int, timestamp: int) -> bool:
        if segment.size_bytes == 0:
            return False
        config = self.config
        # As in Kafka a segment's age is told by its records, so that a rebuilt log rolls where the first one did.
        first_timestamp = segment.first_timestamp
        if first_timestamp >= 0:
            age_ms = timestamp - first_timestamp
        else:
            age_ms = self._clock.monotonic_ms() - segment.created_ms
        return (
            segment.size_bytes > config.segment_bytes - size_bytes
            or (age_ms > config.earliest_roll_ms and age_ms > self._roll_after_ms(segment))
            or segment.index.size_bytes >= config.segment_index_bytes
            or next_offset - segment.base_offset > _MAX_RELATIVE_OFFSET
        )

    def _roll_after_ms(self, segment: Segment) -> int:
        """Sooner by up to `segment.jitter.ms`, by its name: partitions that began together must not roll together."""
        config = self.config
        jitter_ms = config.latest_roll_ms - config.earliest_roll_ms
        return config.latest_roll_ms - (crc32c(segment.path("").encode()) % jitter_ms if jitter_ms > 0 else 0)

    def _on_appended(self, next_offset: int) -> None:
        # The last stable offset stands: nothing appended lies below the high watermark, which bounds it.
        self.log_end_offset = next_offset
        self.check()
        self._flusher.arm(self)

    # -- reading

    def read(
        self, fetch_offset: int, max_bytes: int, isolation: FetchIsolation, *, at_least_one: bool = True
    ) -> FetchResult:
        """Batches from the one that holds `fetch_offset` on; raises OFFSET_OUT_OF_RANGE.

        The last batch may be cut by `max_bytes`, as in Kafka: every client skips such a rest.
        """
        self.check_readable(fetch_offset)
        upper_bound = self.upper_bound(isolation)
        records, end_offset = self._read(fetch_offset, upper_bound, max_bytes, at_least_one)
        aborted: tuple[AbortedTransaction, ...] | None = None
        if isolation is FetchIsolation.TXN_COMMITTED:
            aborted = collect_aborted(self._segments, fetch_offset, end_offset) if len(records) else ()
        return FetchResult(records, self.high_watermark, self.last_stable_offset, self.log_start_offset, aborted)

    def _read(self, fetch_offset: int, upper_bound: int, max_bytes: int, at_least_one: bool) -> tuple[memoryview, int]:
        try:
            return read_records(self._segments, fetch_offset, upper_bound, max_bytes, at_least_one=at_least_one)
        except (OSError, KafkaError) as error:
            raise self._unreadable(error, fetch_offset) from error

    def readable_bytes(self, fetch_offset: int, isolation: FetchIsolation) -> int:
        """How much `read` could give from `fetch_offset` on, told without reading; a great deal if the reader is not
        in the segment that holds its upper bound: waiting would bring that one nothing. Raises KafkaError."""
        upper_bound = self.upper_bound(isolation)
        if fetch_offset >= upper_bound:
            return 0
        try:
            return readable_bytes(self._segments, fetch_offset, upper_bound)
        except (OSError, KafkaError) as error:
            raise self._unreadable(error, fetch_offset) from error

    def check_readable(self, fetch_offset: int) -> None:
        """Raises KafkaError when nobody may read from `fetch_offset` on."""
        self._check_readable()
        if not self.log_start_offset <= fetch_offset <= self.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {fetch_offset} is outside of {self.log_start_offset} to {self.log_end_offset}",
            )

    def _unreadable(self, error: OSError | KafkaError, offset: int | None = None) -> KafkaError:
        if isinstance(error, KafkaError):
            self.take_offline(error.message)
        elif is_transient(error):
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.name} cannot be read: {error}")
        else:
            self.take_offline(f"it cannot be read{'' if offset is None else f' at offset {offset}'}: {error}")
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self.offline_error or str(error))

    def take_offline(self, problem: str) -> None:
        """Durable data is damaged: from now on everybody who asks hears so, instead of getting fewer records."""
        if self.offline_error is None:
            self.offline_error = f"{self.name} is offline: {problem}"
            if self._on_damage is not None:
                self._on_damage(self, self.offline_error)
            # Whoever waits for data looks again; the turn that found the damage may be one of them.
            self._flusher.call_soon(lambda: self._listener.on_high_watermark(self))

    def upper_bound(self, isolation: FetchIsolation) -> int:
        """The offset up to which a reader of this isolation may see, exclusive; the boundary of a batch."""
        if isolation is FetchIsolation.TXN_COMMITTED:
            return self.last_stable_offset
        return self.high_watermark if isolation is FetchIsolation.HIGH_WATERMARK else self.log_end_offset

    def offset_for_timestamp(self, timestamp_ms: int, isolation: FetchIsolation) -> tuple[int, int] | None:
        """(offset, timestamp) of the first visible record with at least this timestamp."""
        self._check_readable()
        try:
            return find_timestamp(self._segments, timestamp_ms, self.log_start_offset, self.upper_bound(isolation))
        except (OSError, KafkaError) as error:
            raise self._unreadable(error) from error

    def offset_of_max_timestamp(self) -> tuple[int, int] | None:
        """(offset, timestamp) of the record with the greatest timestamp (KIP-734)."""
        self._check_readable()
        try:
            return find_max_timestamp(self._segments, self.log_start_offset, self.high_watermark)
        except (OSError, KafkaError) as error:
            raise self._unreadable(error) from error

    def batches(self, from_offset: int = 0) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Every batch from the one that holds `from_offset` to the end of the log. Raises KafkaError."""
        self._check_readable()
        return self._batches(max(from_offset, self.log_start_offset))

    def _batches(self, from_offset: int) -> Iterator[tuple[BatchHeader, memoryview]]:
        try:
            yield from iterate_batches(self._segments, from_offset, self.log_end_offset)
        except (OSError, KafkaError) as error:
            raise self._unreadable(error) from error

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        return self.producer_state.has_open_transaction(producer_id, producer_epoch)

    def is_over(self, producer_id: int, producer_epoch: int) -> bool:
        return self.producer_state.is_over(producer_id, producer_epoch)

    # -- durability

    def when_durable(self, next_offset: int) -> Completion[None]:
        """Completes once all below `next_offset` is durable; never, if the disk fails first."""
        if next_offset <= self.high_watermark:
            return Completion.of(None)
        completion: Completion[None] = Completion()
        if self._waiters and self._waiters[-1][0] > next_offset:
            insort(self._waiters, (next_offset, completion), key=_wait_offset)
        else:
            self._waiters.append((next_offset, completion))
        return completion

    def begin_flush(self, *, everything: bool = False) -> FlushTarget:
        """What a round must sync now (the flusher calls this); later appends arm it again."""
        self.is_dirty = False
        policy = self._flusher.policy
        next_offset = synced_offset = self.log_end_offset
        files: list[File] = []
        directories: list[str] = []
        active = self._segments.active
        if active is not None:
            # The high watermark to be: readers will ask where it lies, when the log has already grown on.
            active.note_position(next_offset, active.size_bytes)
        if policy == "memory":
            synced_offset = 0
        else:
            with_active = everything or policy == "fsync"
            files, directories = self._segments.take_dirty(with_active=with_active)
            if not with_active and active is not None:
                synced_offset = active.base_offset
        target = FlushTarget(self, self._segments.disk, files, directories, next_offset, synced_offset)
        self._in_flight.append(target)
        return target

    def end_flush(self, target: FlushTarget) -> None:
        """The round uses no file of this log any more."""
        self._in_flight.remove(target)
        for file in target.files:
            if not file.path.endswith(LOG_SUFFIX):
                file.close()  # indexes, snapshots: not needed again before the next start

    def advance_high_watermark(self, next_offset: int) -> None:
        """All below `next_offset` is durable (the flusher, for every log of a round before anybody is told)."""
        if next_offset > self.high_watermark:
            self.high_watermark = next_offset
            self.producer_state.on_high_watermark(next_offset)
            self._update_last_stable_offset()

    def tell_high_watermark(self) -> None:
        """Release who waits for durability, then tell the listener."""
        high_watermark = self.high_watermark
        if high_watermark == self._told_high_watermark:
            return
        self._told_high_watermark = high_watermark
        waiters = self._waiters
        count = 0
        for next_offset, _ in waiters:
            if next_offset > high_watermark:
                break
            count += 1
        if count:
            self._waiters = waiters[count:]
            for _, completion in waiters[:count]:
                completion.complete(None)
        self._listener.on_high_watermark(self)

    def _update_last_stable_offset(self) -> None:
        stable = self.high_watermark
        first_unstable = self.producer_state.first_unstable_offset()
        if first_unstable is not None and first_unstable < stable:
            stable = first_unstable
        self.last_stable_offset = max(self.log_start_offset, stable)
        self.check()

    def check(self) -> None:
        """Raises LogInvariantError unless the four offsets are in order."""
        if not self.log_start_offset <= self.last_stable_offset <= self.high_watermark <= self.log_end_offset:
            raise LogInvariantError(
                f"{self.name}: log start {self.log_start_offset}, last stable {self.last_stable_offset}, "
                f"high watermark {self.high_watermark}, log end {self.log_end_offset}"
            )

    # -- shrinking and ending

    def advance_log_start(self, offset: int) -> None:
        """Nothing below `offset` may be read any more (retention, DeleteRecords). The new start is on disk by now, or a
        restart would show again what was deleted. Files of segments wholly below it stay until `delete_removed`."""
        self.check_log_start(offset)
        if offset <= self.log_start_offset:
            return
        self.log_start_offset = offset
        self._update_last_stable_offset()
        while len(self._segments) > 1 and self._segments[0].next_offset <= offset:
            self._removed.append(self._segments.take_first())
        if self._removed and self._segments.secure_first_snapshot():
            self._flusher.arm(self)
        self._listener.on_log_start_offset(self)

    def check_log_start(self, offset: int) -> None:
        """Raises OFFSET_OUT_OF_RANGE for what is not durable yet."""
        if offset > self.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is above the high watermark {self.high_watermark}"
            )

    def is_flushing(self, segments: list[Segment]) -> bool:
        """A flush round uses files of `segments` at the moment."""
        paths = {segment.path(suffix) for segment in segments for suffix in SEGMENT_SUFFIXES}
        return any(file.path in paths for target in self._in_flight for file in target.files)

    def holds(self, segments: list[Segment]) -> bool:
        """Whether all of `segments` are still part of this log, below the active one."""
        known = list(self._segments)[:-1]
        return not self.is_deleted and all(segment in known for segment in segments)

    def replace_segments(self, old: list[Segment], new: Segment) -> None:
        """Compaction has written what remains of `old` into `new`. Not while they are flushed.

        Raises OSError; if for lack of room, nothing has changed."""
        try:
            written = swap_in(self._segments.disk, self._segments.directory, old, new)
        except OSError as error:
            if not is_transient(error):
                self.on_disk_failure(error)
            raise
        self._segments.replace(old, new)
        self._segments.mark_dirty(written)

    def on_disk_failure(self, error: OSError) -> None:
        """A write or sync of ours has failed for good."""
        self._flusher.fail(error)

    @property
    def has_removed(self) -> bool:
        """Files of removed segments are still there."""
        return bool(self._removed)

    def delete_indexes_below(self, offset: int) -> None:
        """Delete what can be rebuilt of segments wholly below `offset`: room for the journal, on a full disk."""
        if not self._in_flight:
            for segment in (*self._removed, *list(self._segments)[:-1]):
                if segment.next_offset <= offset:
                    self._segments.delete_indexes(segment)

    def delete_removed(self) -> None:
        """Delete the files of removed segments, unless a flush uses them or the snapshot after them is not durable."""
        is_durable = self._flusher.policy == "memory" or not self._segments.has_dirty_files
        if self._removed and not self._in_flight and is_durable:
            removed, self._removed = self._removed, []
            for segment in removed:
                self._segments.delete_files(segment)

    def expire_producers(self) -> int:
        """Forget producers that were silent for `producer.id.expiration.ms`; how many."""
        return self.producer_state.expire(self._clock.monotonic_ms(), self.config.producer_id_expiration_ms)

    def on_deleted(self) -> None:
        """The partition is gone: whoever waits hears so."""
        self.is_deleted = True
        self._segments.close()
        waiters, self._waiters = self._waiters, []
        for _, completion in waiters:
            completion.fail(KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self.name} was deleted"))
        self._listener.on_high_watermark(self)

    def complete_segments(self) -> None:
        """Before a clean stop: write the active segment's indexes and the producer snapshot, to be synced."""
        self._segments.complete(self.log_end_offset, encode_snapshot(self.producer_state))

    def close(self) -> None:
        self._segments.close()

    def _check_readable(self) -> None:
        if self.offline_error is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self.offline_error)
        if self.is_deleted:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self.name} was deleted")

    def _check_writable(self) -> None:
        self._check_readable()
        if self._flusher.failed:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk has failed, the broker is stopping")


def _with_timestamp(prefix: bytes, batch: memoryview, attributes: int, timestamp: int) -> tuple[Buffer, ...]:
    """The batch with the topic's timestamp type and its timestamp (KIP-32), which lie below the checksum."""
    head = b"".join(
        (
            attributes.to_bytes(2, "big"),
            batch[LAST_OFFSET_DELTA_AT:MAX_TIMESTAMP_AT],
            timestamp.to_bytes(8, "big", signed=True),
        )
    )
    rest = batch[PRODUCER_ID_AT:]
    checksum = crc32c(rest, crc32c(head)).to_bytes(4, "big")
    return prefix, batch[PREFIX.size : CRC_AT], checksum, head, rest
