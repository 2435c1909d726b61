"""The log of one partition: the only owner of its offsets.

Owns: `log_start_offset`, `last_stable_offset`, `high_watermark`, `log_end_offset`, waiters for durability. Does not
own: sequences, epochs (`producer_state`), how the records are stored (`store`), when they become durable (`rounds`).
Invariants
- log_start_offset ≤ last_stable_offset ≤ high_watermark ≤ log_end_offset, checked after each change.
- The high watermark is the durable end: it advances only when a round has completed.
- An append checks first: if it or the store rejects the batch, nothing has changed.
- Below the high watermark only the log start changes, so a planned read stays valid while it waits.

KIP-98 (transactions, last stable offset), KIP-101 (leader epoch), KIP-74 (a first batch is returned whole).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from oncelog.broker.log.batch_validation import check_size, validate_batch
from oncelog.broker.log.durability_waiters import DurabilityWaiters
from oncelog.broker.log.leader_epochs import FIRST_EPOCH
from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.rounds import Rounds
from oncelog.broker.log.store import (
    AbortedEntry,
    Batches,
    FoundRecord,
    OpenedLog,
    ReadResult,
    StoreDamagedError,
    StoreError,
)
from oncelog.broker.log.values import (
    NO_TRANSACTION,
    AbortedTransaction,
    AppendOrigin,
    AppendResult,
    EndMarker,
    FetchIsolation,
    ReadBounds,
    Writer,
)
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Buffer, Clock, WallMs
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.records.batch import (
    PREFIX,
    TIMESTAMP_TYPE_MASK,
    BatchHeader,
    encode_batch,
    read_header,
)
from oncelog.protocol.records.control import ControlRecordType, encode_end_txn_marker
from oncelog.protocol.records.record import Record

__all__ = ["AbortedTransaction", "AppendOrigin", "AppendResult", "FetchIsolation", "LogInvariantError", "PartitionLog"]

if TYPE_CHECKING:
    from oncelog.broker.log.listeners import LogKeeper, PartitionListener
    from oncelog.broker.log.opening import OpenedBatch

T = TypeVar("T")

# A NamedTuple's own constructor is a Python function that does only this.
_new_result = tuple.__new__


class LogInvariantError(Exception):
    """The offsets of a partition are out of order: the broker must stop and recover."""


Records = tuple[memoryview, tuple[AbortedTransaction, ...] | None]
"""Batches, and the aborted transactions among them for a read_committed reader."""


class PartitionLog:
    __slots__ = (
        "_clock",
        "_closing_error",
        "_keeper",
        "_kept_epochs",
        "_listener",
        "_notified_high_watermark",
        "_rounds",
        "_waiters",
        "answered_offset",
        "config",
        "epochs",
        "high_watermark",
        "is_closed",
        "is_led",
        "last_stable_offset",
        "leader_epoch",
        "log_end_offset",
        "log_start_offset",
        "offline_error",
        "partition",
        "producer_state",
        "stored",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        topic_id: UUID,
        config: LogConfig,
        opened: OpenedLog,
        rounds: Rounds,
        listener: "PartitionListener",
        clock: Clock,
        *,
        keeper: "LogKeeper | None" = None,
    ) -> None:
        """`keeper`, if given, is notified when the log goes offline or is lost."""
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.epochs = opened.epochs
        self._kept_epochs = opened.epochs.entries  # as the store has them, or will with the next commit
        self.is_led = True
        """Whether this node leads the partition, in a leader epoch that is durable: nothing is appended before that."""
        self.config = config
        self.producer_state = opened.producer_state
        self.offline_error = opened.offline_error
        self._keeper = keeper
        self.is_closed = False
        """Whether the partition was deleted, or another node leads it: then it is neither read nor written here."""
        self._closing_error = ErrorCode.NONE
        self.stored = opened.stored
        self._rounds = rounds
        self._listener = listener
        self._clock = clock
        self._waiters = DurabilityWaiters()
        self.log_start_offset = opened.log_start_offset
        self.log_end_offset = opened.log_end_offset
        self.high_watermark = opened.log_start_offset
        self.last_stable_offset = opened.log_start_offset
        opened.stored.attach(self.take_offline)
        self.advance_high_watermark(opened.log_end_offset)
        self._notified_high_watermark = opened.log_end_offset
        self.answered_offset = 0  # what was answered before it was durable is below it
        self.lead(max(self.epochs.latest, FIRST_EPOCH))

    def lead(self, leader_epoch: int) -> None:
        """Appends from now on have this leader epoch."""
        self.leader_epoch = leader_epoch
        self.epochs.assign(leader_epoch, self.log_end_offset)

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def size_bytes(self) -> int:
        return self.stored.size_bytes

    # -- appending

    def append(
        self,
        batch: memoryview,
        *,
        wall_ms: WallMs,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        transaction_version: int = 0,
        opened: "OpenedBatch | None" = None,
    ) -> AppendResult:
        """Append one batch, or recognise the retry of an earlier one. Raises KafkaError, and LongBatch for one that
        must be `opened` first, with the config of this moment."""
        self._check_writable()
        config = self.config
        if opened is not None and opened.config is not config:
            opened = None
        if opened is not None:
            batch, header = opened.batch, opened.header
        else:
            header = validate_batch(batch, config, wall_ms, origin)
            if config.compression_type != "producer" and origin is AppendOrigin.CLIENT:
                from oncelog.broker.log.recompression import recompressed  # few topics need it, a start never does

                batch, header = recompressed(batch, header, config, wall_ms)
        is_log_append_time = config.is_log_append_time
        producer_state = self.producer_state
        if header.producer_id >= 0:
            earlier = producer_state.prepare_append(header, origin, transaction_version)
            if earlier is not None:
                log_append_time_ms = earlier.timestamp if is_log_append_time else -1
                return AppendResult(
                    earlier.first_offset, earlier.last_offset, log_append_time_ms, self.log_start_offset, True
                )
        base_offset = self.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        attributes = header.attributes
        timestamp, log_append_time_ms = header.max_timestamp, -1
        prefix = PREFIX.pack(base_offset, header.batch_length, self.leader_epoch)
        if is_log_append_time or attributes & TIMESTAMP_TYPE_MASK:
            from oncelog.broker.log.batch_timestamps import with_timestamp  # few topics need it, a start never does

            attributes &= ~TIMESTAMP_TYPE_MASK
            if is_log_append_time:
                timestamp = log_append_time_ms = wall_ms
                attributes |= TIMESTAMP_TYPE_MASK
            parts = with_timestamp(prefix, batch, attributes, timestamp)
        else:
            parts = (prefix, batch[PREFIX.size :])
        self._write(parts, len(batch), last_offset + 1, timestamp)
        if header.producer_id >= 0:
            producer_state.replay_batch(header, base_offset, timestamp, self._clock.monotonic_ms())
        self._on_appended(last_offset + 1)
        return _new_result(AppendResult, (base_offset, last_offset, log_append_time_ms, self.log_start_offset, False))

    def append_own(self, records: Sequence[Record], wall_ms: WallMs, writer: Writer = NO_TRANSACTION) -> AppendResult:
        """Append a coordinator's records, all of timestamp `wall_ms`, as one batch. The batch is made here, so only its
        size and its writer need a check. Raises KafkaError."""
        self._check_writable()
        base_offset = self.log_end_offset
        next_offset = base_offset + len(records)
        log_append_time_ms = wall_ms if self.config.is_log_append_time else -1
        batch = encode_batch(
            records,
            base_offset=base_offset,
            producer_id=writer.producer_id,
            producer_epoch=writer.producer_epoch,
            transactional=writer.producer_id >= 0,
            log_append_time=log_append_time_ms >= 0,
            partition_leader_epoch=self.leader_epoch,
        )
        check_size(len(batch), self.config)
        if writer.producer_id < 0:
            self._write((batch,), len(batch), next_offset, wall_ms)
        else:
            header = read_header(batch)
            self.producer_state.prepare_append(header, AppendOrigin.COORDINATOR, writer.transaction_version)
            self._write((batch,), len(batch), next_offset, wall_ms)
            self.producer_state.replay_batch(header, base_offset, wall_ms, self._clock.monotonic_ms())
        self._on_appended(next_offset)
        result = base_offset, next_offset - 1, log_append_time_ms, self.log_start_offset, False
        return _new_result(AppendResult, result)

    def append_end_txn_marker(self, marker: EndMarker, wall_ms: WallMs) -> AppendResult:
        """End the producer's transaction in this partition. Written even if none is open: it fences the epoch. Raises
        KafkaError."""
        self._check_writable()
        self.producer_state.prepare_marker(marker)
        offset = self.log_end_offset
        batch = encode_end_txn_marker(
            marker.producer_id,
            marker.producer_epoch,
            ControlRecordType.COMMIT if marker.committed else ControlRecordType.ABORT,
            marker.coordinator_epoch,
            wall_ms,
            base_offset=offset,
            leader_epoch=self.leader_epoch,
        )
        self._write((batch,), len(batch), offset + 1, wall_ms)
        completed = self.producer_state.replay_marker(marker, offset, wall_ms, self._clock.monotonic_ms())
        if completed is not None and completed.aborted:
            self.stored.note_aborted(
                AbortedEntry(completed.producer_id, completed.first_offset, offset, completed.last_stable_offset)
            )
        self._on_appended(offset + 1)
        return _new_result(AppendResult, (offset, offset, -1, self.log_start_offset, False))

    def _write(self, parts: tuple[Buffer, ...], size_bytes: int, next_offset: int, timestamp: int) -> None:
        if self._kept_epochs is not self.epochs.entries:  # the first record of an epoch
            self._kept_epochs = self.epochs.entries
            self.stored.keep_epochs(self._kept_epochs)
        try:
            self.stored.append(parts, size_bytes, next_offset, timestamp, self.config, self.producer_state)
        except StoreError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.name} cannot be written: {error}") from error

    def _on_appended(self, next_offset: int) -> None:
        # The last stable offset is unchanged: the high watermark bounds it, and an append lies above that.
        self.log_end_offset = next_offset
        self.check()
        self._rounds.arm(self)

    # -- reading

    def bounds(self, isolation: FetchIsolation) -> ReadBounds:
        """Return the bounds up to which a reader with this isolation level may read now."""
        return ReadBounds(
            self.upper_bound(isolation), self.high_watermark, self.last_stable_offset, self.log_start_offset, isolation
        )

    def read(
        self, fetch_offset: int, max_bytes: int, bounds: ReadBounds, *, at_least_one: bool = True
    ) -> Records | Completion[Records]:
        """Batches within `bounds`, starting with the one that holds `fetch_offset`, and, for read_committed, the
        aborted transactions among them. What is not cached comes later. Call `check_readable` first, in the same turn.
        Raises, or fails with, KafkaError.

        Of at most `max_bytes`, from 0 on, but for a first batch. Kafka fills them up with a part of the next batch,
        which every client drops and asks for again.
        """
        try:
            found = self.stored.read(fetch_offset, bounds.upper_bound, max_bytes, at_least_one=at_least_one)
        except (StoreError, StoreDamagedError) as error:
            raise self._unreadable(error) from error
        if isinstance(found, Completion):
            return self._records_later(fetch_offset, found, bounds)
        return self._records(fetch_offset, found, bounds)

    def _records_later(
        self, fetch_offset: int, found: Completion[ReadResult], bounds: ReadBounds
    ) -> Completion[Records]:
        def records(read: ReadResult) -> Records:
            self.check_readable(fetch_offset)  # the start may have moved
            return self._records(fetch_offset, read, bounds)

        return self._later(found).map(records)

    def _records(self, fetch_offset: int, found: ReadResult, bounds: ReadBounds) -> Records:
        records, end_offset = found
        if bounds.isolation is not FetchIsolation.TXN_COMMITTED:
            return records, None
        return records, self.stored.aborted_between(fetch_offset, end_offset) if len(records) else ()

    def readable_bytes(self, fetch_offset: int, isolation: FetchIsolation) -> int:
        """How many bytes `read` could return from `fetch_offset`, without reading; PLENTY_BYTES if its upper bound is
        in another segment: that reader gains nothing by waiting. Raises KafkaError."""
        upper_bound = self.upper_bound(isolation)
        if fetch_offset >= upper_bound:
            return 0
        try:
            return self.stored.readable_bytes(fetch_offset, upper_bound)
        except (StoreError, StoreDamagedError) as error:
            raise self._unreadable(error) from error

    def check_readable(self, fetch_offset: int) -> None:
        """Raises KafkaError if `fetch_offset` cannot be read: offline, deleted, or out of range."""
        self._check_readable()
        if not self.log_start_offset <= fetch_offset <= self.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {fetch_offset} is not in {self.log_start_offset} to {self.log_end_offset}",
            )

    def _later(self, stored: Completion[T]) -> Completion[T]:
        """Return the result of the store for callers of this log: it fails with KafkaError."""
        later: Completion[T] = Completion()

        def on_done(_: Completion[T]) -> None:
            error: Exception | None = self.refusal()  # meanwhile it may have been deleted
            if error is None:
                error = stored.error
                if isinstance(error, StoreError | StoreDamagedError):
                    error = self._unreadable(error)
            if error is None:
                later.complete(stored.result())
            else:
                later.fail(error)

        stored.then(on_done)
        return later

    def _unreadable(self, error: StoreError | StoreDamagedError) -> KafkaError:
        if isinstance(error, StoreError):
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.name} cannot be read: {error}")
        self.take_offline(str(error))
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self.offline_error or str(error))

    def take_offline(self, problem: str) -> None:
        """Durable data is damaged: from now on every request fails instead of returning fewer records."""
        if self.offline_error is None:
            self.offline_error = f"{self.name} is offline: {problem}"
            self.stored.on_offline()
            if self._keeper is not None:
                self._keeper.on_offline(self, self.offline_error)
            # Fetches that wait for data check again; this turn may belong to one of them.
            self._rounds.call_soon(lambda: self._listener.on_high_watermark(self))

    def upper_bound(self, isolation: FetchIsolation) -> int:
        """The exclusive upper bound for a reader with this isolation level; a batch boundary."""
        if isolation is FetchIsolation.TXN_COMMITTED:
            return self.last_stable_offset
        return self.high_watermark if isolation is FetchIsolation.HIGH_WATERMARK else self.log_end_offset

    def offset_for_timestamp(
        self, timestamp_ms: int, isolation: FetchIsolation
    ) -> FoundRecord | Completion[FoundRecord | None] | None:
        """The first visible record with at least this timestamp, now or later. Raises, or fails with, KafkaError."""
        upper_bound = self.upper_bound(isolation)
        return self._search(lambda: self.stored.find_timestamp(timestamp_ms, self.log_start_offset, upper_bound))

    def offset_of_max_timestamp(self) -> FoundRecord | Completion[FoundRecord | None] | None:
        """The record with the greatest timestamp (KIP-734); else as `offset_for_timestamp`."""
        return self._search(lambda: self.stored.find_max_timestamp(self.log_start_offset, self.high_watermark))

    def _search(self, find: Callable[[], T | Completion[T]]) -> T | Completion[T]:
        self._check_readable()
        try:
            found = find()
        except (StoreError, StoreDamagedError) as error:
            raise self._unreadable(error) from error
        return self._later(found) if isinstance(found, Completion) else found

    def replay(self, from_offset: int = 0) -> Iterator[Batches | Completion[Batches]]:
        """Every batch from the one that holds `from_offset` to the end of the log, in pieces; if one comes later,
        request the next once it has come. Raises, or fails with, KafkaError."""
        self._check_readable()
        return self._replay(max(from_offset, self.log_start_offset))

    def _replay(self, from_offset: int) -> Iterator[Batches | Completion[Batches]]:
        try:
            for piece in self.stored.replay(from_offset, self.log_end_offset):
                yield self._later(piece) if isinstance(piece, Completion) else piece
        except (StoreError, StoreDamagedError) as error:
            raise self._unreadable(error) from error

    def batches(self, from_offset: int = 0) -> Iterator[tuple[BatchHeader, memoryview]]:
        """`replay`, one batch at a time, before the node serves (`LogStore.begin_serving`): may block on the disk."""
        return self._flattened(self.replay(from_offset))

    def _flattened(self, pieces: Iterator[Batches | Completion[Batches]]) -> Iterator[tuple[BatchHeader, memoryview]]:
        for piece in pieces:
            if isinstance(piece, Completion):
                raise RuntimeError(f"{self.name} is replayed on the event loop")
            yield from piece

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        return self.producer_state.has_open_transaction(producer_id, producer_epoch)

    def is_over(self, producer_id: int, producer_epoch: int) -> bool:
        return self.producer_state.is_over(producer_id, producer_epoch)

    # -- durability

    def is_durable(self, next_offset: int) -> bool:
        """Everything below `next_offset` is, though its round may still have to end."""
        return next_offset <= self.high_watermark or self._rounds.commits_at_once

    def when_durable(self, next_offset: int) -> Completion[None]:
        """Completes once everything below `next_offset` is durable; never, if the disk fails first."""
        completion: Completion[None] = Completion()
        self.complete_when_durable(completion, None, next_offset)
        if not completion.done:
            self._rounds.start_round()
        return completion

    def complete_when_durable(self, completion: Completion[T], value: T, next_offset: int) -> None:
        """Complete the caller's `completion` then. The caller may end it earlier; no round is started for it."""
        if self.is_durable(next_offset):
            completion.complete(value)
        elif self.is_closed:
            completion.fail(self._closed())
        else:
            self._waiters.add(completion, value, next_offset)

    def start_round(self) -> None:
        """Start a round for what is appended and not durable yet: see `Rounds.start_round`."""
        if self.high_watermark < self.log_end_offset:
            self._rounds.start_round()

    def start_round_for(self, isolation: FetchIsolation) -> None:
        """Start a round for a reader, unless it reads committed transactions only: it sees nothing that was answered
        ahead."""
        if isolation is not FetchIsolation.TXN_COMMITTED or self._rounds.commits_at_once:
            self._rounds.start_round()

    def note_answered(self, next_offset: int) -> None:
        """Everything below `next_offset` was answered, durable or not."""
        self.answered_offset = max(self.answered_offset, next_offset)

    def when_answers_are_durable(self) -> Completion[None] | None:
        """Completes when the high watermark has passed everything that was answered; None if it has already."""
        if self._rounds.commits_at_once:
            self.start_round()
        return self.when_durable(self.answered_offset) if self.answered_offset > self.high_watermark else None

    def advance_high_watermark(self, next_offset: int) -> None:
        """Everything below `next_offset` is durable; every log of a round advances before any waiter is notified."""
        if next_offset > self.high_watermark:
            self.high_watermark = next_offset
            if self.producer_state.is_stable:
                self.last_stable_offset = next_offset
                self.check()
            else:
                self.producer_state.on_high_watermark(next_offset)
                self._update_last_stable_offset()

    def notify_high_watermark(self) -> None:
        """Complete the waiters for durability, then notify the listener."""
        high_watermark = self.high_watermark
        if high_watermark == self._notified_high_watermark:
            return
        self._notified_high_watermark = high_watermark
        self._waiters.complete(high_watermark)
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
        """Records below `offset` are no longer readable (retention, DeleteRecords). The new start must already be
        durable, or a restart would serve deleted records again."""
        self.check_log_start(offset)
        if offset <= self.log_start_offset:
            return
        self.log_start_offset = offset
        self.epochs.truncate_start(offset)
        self._update_last_stable_offset()
        self.reclaim()
        self._listener.on_log_start_offset(self)

    def reclaim(self) -> None:
        """Delete what is stored below the log start, the active segment too: Kafka keeps that until it is due."""
        if self.log_start_offset == self.log_end_offset:
            self.stored.maybe_roll(self.producer_state, is_kept=False)
        if self.stored.drop_below(self.log_start_offset):
            self._rounds.arm(self)

    def check_log_start(self, offset: int) -> None:
        """Raises OFFSET_OUT_OF_RANGE if `offset` is not durable yet."""
        if offset > self.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is above the high watermark {self.high_watermark}"
            )

    def expire_producers(self) -> int:
        """Remove producers idle for `producer.id.expiration.ms`; returns how many."""
        return self.producer_state.expire(self._clock.monotonic_ms(), self.config.producer_id_expiration_ms)

    def on_deleted(self) -> None:
        """The partition is deleted: fail its waiters with UNKNOWN_TOPIC_OR_PARTITION."""
        self.stored.abandon()
        self._close(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def on_lost(self) -> None:
        """The store has found that another node leads the partition: the keeper lets this log resign."""
        if self._keeper is not None:
            self._keeper.on_lost(self)

    def resign(self) -> None:
        """Another node leads the partition now: fail its waiters with NOT_LEADER_OR_FOLLOWER."""
        self._close(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _close(self, error: ErrorCode) -> None:
        self.is_closed, self.is_led, self._closing_error = True, False, error
        self._waiters.fail(self._closed())
        self._listener.on_high_watermark(self)

    def _closed(self) -> KafkaError:
        if self._closing_error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            return not_led(self.name)
        return KafkaError(self._closing_error, f"{self.name} was deleted")

    def _check_readable(self) -> None:
        refusal = self.refusal()
        if refusal is not None:
            raise refusal

    def refusal(self) -> KafkaError | None:
        """Why the log can be neither read nor written; None if it can be read."""
        if self.offline_error is not None:
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self.offline_error)
        return self._closed() if self.is_closed else None

    def _check_writable(self) -> None:
        if self.is_led and self.offline_error is None and not self._rounds.is_over:
            return
        self._check_readable()
        if self._rounds.is_over:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk has failed, the broker is stopping")
        raise KafkaError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.name} has no leader epoch yet: there is no space to write it"
        )


def not_led(name: str) -> KafkaError:
    """The answer for a partition that exists and that this node does not lead."""
    return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this node does not lead {name}: ask for the metadata again")
