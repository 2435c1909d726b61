"""Decides for one partition whether a batch is new, a duplicate, out of order or fenced, and where stable data ends.

Owns: per producer id the epoch and the last five batches; the ongoing transactions by first offset; the completed
transactions whose marker is not yet below the high watermark. Does not own: bytes, files, offsets of the log.
Invariants
- `prepare_*` changes nothing; `replay_*` applies what was appended, live and in recovery, so that the state rebuilt
  from a snapshot and the log equals the live one.
- Both transaction sets give their lowest first offset without a search; nothing at or above it is stable.

Shaped by Kafka's ProducerStateManager and ProducerAppendInfo; KIP-98, KIP-360, KIP-890, KIP-1228.
"""

from collections import OrderedDict
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import NamedTuple

from oncelog.broker.apis.table import TRANSACTION_V2
from oncelog.broker.log.values import AppendOrigin, EndMarker
from oncelog.broker.turns.ports import MonotonicMs
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.records.batch import SEQUENCE_MASK, TRANSACTIONAL_MASK, BatchHeader

KEPT_BATCHES = 5
MAX_PRODUCER_EPOCH = 2**15 - 1
NO_OFFSET = -1
_REFUSED_LIMIT = 1000
# A NamedTuple's own constructor is a Python function that does only this.
_new_batch = tuple.__new__


class RefusedBatch(NamedTuple):
    """The earliest batch that would have opened a transaction and was rejected: its retry comes first."""

    producer_epoch: int
    base_sequence: int
    transaction_version: int  # of the first such batch, as in Kafka
    refused_ms: int


class AppendedBatch(NamedTuple):
    """The fields of a batch by which a retry of it is recognised."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class ProducerState:
    """The state of one producer id in one partition."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_transaction_first_offset",
        "last_seen_ms",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
    )

    def __init__(self, producer_id: int, producer_epoch: int) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.coordinator_epoch = -1
        self.last_timestamp = -1
        self.current_transaction_first_offset = NO_OFFSET
        self.batches: list[AppendedBatch] = []
        # Kafka expires by record timestamps, and so at once forgets a producer of old data. The log does not contain
        # the time of the append, so a restart resets this to the time of the restart.
        self.last_seen_ms = 0

    def copied(self) -> "ProducerState":
        """Return a copy, which changes independently."""
        copy = ProducerState(self.producer_id, self.producer_epoch)
        copy.coordinator_epoch = self.coordinator_epoch
        copy.last_timestamp = self.last_timestamp
        copy.current_transaction_first_offset = self.current_transaction_first_offset
        copy.batches = list(self.batches)
        copy.last_seen_ms = self.last_seen_ms
        return copy

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else -1

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    def is_next(self, producer_epoch: int, first_sequence: int) -> bool:
        """Whether a batch with this sequence continues the last one, which it then cannot repeat."""
        if producer_epoch != self.producer_epoch or not self.batches:
            return False
        return first_sequence == (self.batches[-1].last_sequence + 1) & SEQUENCE_MASK

    def find_duplicate(self, header: BatchHeader) -> AppendedBatch | None:
        if header.producer_epoch == self.producer_epoch:
            for batch in self.batches:
                if batch.first_sequence == header.base_sequence and batch.last_sequence == header.last_sequence:
                    return batch
        return None


class CompletedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int  # the marker
    aborted: bool
    last_stable_offset: int  # once the marker is durable


class ProducerStateManager:
    __slots__ = ("_ongoing", "_producers", "_refused", "_unflushed")

    def __init__(self) -> None:
        self._producers: dict[int, ProducerState] = {}
        # First offsets increase with every append, so insertion order is offset order.
        self._ongoing: OrderedDict[int, int] = OrderedDict()
        self._unflushed: list[tuple[int, int]] = []
        self._refused: dict[int, RefusedBatch] = {}

    # -- queries

    def producers(self) -> Iterable[ProducerState]:
        return self._producers.values()

    def producer(self, producer_id: int) -> ProducerState | None:
        return self._producers.get(producer_id)

    def open_producers(self) -> frozenset[int]:
        """The ids of producers with an open transaction."""
        return frozenset(self._ongoing.values())

    def first_unstable_offset(self) -> int | None:
        """The lowest first offset of a transaction that is open, or ended by a marker that is not yet durable."""
        first = next(iter(self._ongoing)) if self._ongoing else None
        if self._unflushed and (first is None or self._unflushed[0][0] < first):
            return self._unflushed[0][0]
        return first

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        state = self._producers.get(producer_id)
        return (
            state is not None
            and state.current_transaction_first_offset != NO_OFFSET
            and state.producer_epoch == producer_epoch
        )

    def is_over(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether a later epoch of the producer has written here. Then its coordinator need not be asked: it may no
        longer know the producer id and would respond with a fatal error."""
        state = self._producers.get(producer_id)
        return state is not None and producer_epoch < state.producer_epoch

    def ongoing_transactions(self) -> list[tuple[int, int]]:
        """(first offset, producer id) of each open transaction, by first offset."""
        return list(self._ongoing.items())

    # -- checking

    def note_refused(
        self,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        transaction_version: int,
        monotonic_ms: MonotonicMs,
    ) -> None:
        """A batch that would have opened a transaction here was rejected.

        A later batch of the same producer must not be appended before its retry: they would be out of order.
        """
        known = self._refused.get(producer_id)
        if known is None:
            if len(self._refused) >= _REFUSED_LIMIT:
                del self._refused[next(iter(self._refused))]
        else:
            at = known.producer_epoch, -known.base_sequence
            if at >= (producer_epoch, -base_sequence):
                return
            transaction_version = known.transaction_version
        self._refused[producer_id] = RefusedBatch(producer_epoch, base_sequence, transaction_version, monotonic_ms)

    def prepare_append(
        self, header: BatchHeader, origin: AppendOrigin, transaction_version: int
    ) -> AppendedBatch | None:
        """Return None if the batch may be appended, the earlier batch if this is its retry. Raises KafkaError."""
        state = self._producers.get(header.producer_id)
        # Most batches continue their producer's last one, which they then cannot repeat: five batches never come round
        # to the same sequence.
        if state is None or self._refused or not state.is_next(header.producer_epoch, header.base_sequence):
            earlier = self._check_order(state, header, origin, transaction_version)
            if earlier is not None:
                return earlier
        is_open = state is not None and state.current_transaction_first_offset != NO_OFFSET
        if is_open and not header.attributes & TRANSACTIONAL_MASK:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {header.producer_id} has an open transaction here and sent a non-transactional batch",
            )
        return None

    def _check_order(
        self, state: ProducerState | None, header: BatchHeader, origin: AppendOrigin, transaction_version: int
    ) -> AppendedBatch | None:
        """Epoch and sequence: the earlier batch if this is its retry. Raises KafkaError."""
        is_client = origin is AppendOrigin.CLIENT
        if state is not None:
            if is_client:
                duplicate = state.find_duplicate(header)
                if duplicate is not None:
                    return duplicate
            if header.producer_epoch < state.producer_epoch:
                raise KafkaError(
                    ErrorCode.INVALID_PRODUCER_EPOCH,
                    f"producer {state.producer_id} has epoch {state.producer_epoch}, "
                    f"the batch has {header.producer_epoch}",
                )
        if is_client:
            self._check_sequence(state, header, transaction_version)
        return None

    def _check_sequence(self, state: ProducerState | None, header: BatchHeader, transaction_version: int) -> None:
        producer_id, producer_epoch, first_sequence = header.producer_id, header.producer_epoch, header.base_sequence
        refused = self._refused.get(producer_id)
        if refused is not None and refused.producer_epoch != producer_epoch:
            refused = None
        if refused is not None:
            transaction_version = refused.transaction_version
        elif not header.attributes & TRANSACTIONAL_MASK:
            transaction_version = 0  # whatever the version of its request: it belongs to no transaction
        if refused is not None and first_sequence > refused.base_sequence:
            expected = refused.base_sequence
        elif state is None:
            # Retention may have removed all batches of this producer: any sequence can be right. With transaction
            # version 2 each transaction has its own epoch and so begins with 0.
            if transaction_version < TRANSACTION_V2:
                return
            expected = 0
        elif producer_epoch != state.producer_epoch or not state.batches:
            expected = 0
        else:
            expected = (state.batches[-1].last_sequence + 1) & SEQUENCE_MASK
        if first_sequence != expected:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id} epoch {producer_epoch}: sequence {first_sequence}, expected {expected}",
            )

    def prepare_marker(self, marker: EndMarker) -> None:
        """Raises KafkaError if this end-of-transaction marker may not be written."""
        producer_id, producer_epoch, _, coordinator_epoch, transaction_version = marker
        state = self._producers.get(producer_id)
        if state is None:
            return
        stored = state.producer_epoch
        stale = producer_epoch < stored
        if transaction_version >= TRANSACTION_V2 and producer_epoch == stored:
            # A marker of version 2 has its transaction's epoch plus one. An equal epoch is a late marker of an earlier
            # transaction (KIP-1228), unless it is a retry, or the epoch is at its maximum.
            is_open = state.current_transaction_first_offset != NO_OFFSET
            stale = is_open and producer_epoch != MAX_PRODUCER_EPOCH
        if stale:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {producer_id} has epoch {stored}, the marker has {producer_epoch}",
            )
        if coordinator_epoch < state.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"coordinator epoch {state.coordinator_epoch} has written here, the marker has {coordinator_epoch}",
            )

    # -- replaying the log

    def replay_batch(self, header: BatchHeader, base_offset: int, timestamp: int, monotonic_ms: MonotonicMs) -> None:
        """A data batch of a producer is in the log at `base_offset`."""
        producer_id = header.producer_id
        state = self._producers.get(producer_id)
        if state is None or state.producer_epoch != header.producer_epoch:
            state = self._state_at_epoch(producer_id, header.producer_epoch)
        first_sequence, delta = header.base_sequence, header.last_offset_delta
        last_sequence = (first_sequence + delta) & SEQUENCE_MASK if first_sequence >= 0 else -1
        batches = state.batches
        if len(batches) == KEPT_BATCHES:
            del batches[0]
        appended = first_sequence, last_sequence, base_offset, base_offset + delta, timestamp
        batches.append(_new_batch(AppendedBatch, appended))
        state.last_timestamp = timestamp
        state.last_seen_ms = monotonic_ms
        if header.attributes & TRANSACTIONAL_MASK and state.current_transaction_first_offset == NO_OFFSET:
            state.current_transaction_first_offset = base_offset
            self._ongoing[base_offset] = producer_id
            if self._refused:
                self._refused.pop(producer_id, None)

    def replay_marker(
        self, marker: EndMarker, offset: int, timestamp: int, monotonic_ms: MonotonicMs
    ) -> CompletedTransaction | None:
        """A marker is in the log at `offset`; returns the transaction that it ended, if one was open here."""
        state = self._state_at_epoch(marker.producer_id, marker.producer_epoch)
        state.coordinator_epoch = marker.coordinator_epoch
        state.last_timestamp = timestamp
        state.last_seen_ms = monotonic_ms
        first_offset = state.current_transaction_first_offset
        if first_offset == NO_OFFSET:
            return None
        state.current_transaction_first_offset = NO_OFFSET
        del self._ongoing[first_offset]
        heappush(self._unflushed, (first_offset, offset))
        last_stable_offset = next(iter(self._ongoing)) if self._ongoing else offset + 1
        return CompletedTransaction(marker.producer_id, first_offset, offset, not marker.committed, last_stable_offset)

    def replay_epoch(self, producer_id: int, producer_epoch: int, timestamp: int, monotonic_ms: MonotonicMs) -> None:
        """A marker that compaction has emptied: only the producer's epoch is left of it."""
        state = self._state_at_epoch(producer_id, producer_epoch)
        state.last_timestamp = timestamp
        state.last_seen_ms = monotonic_ms

    def _state_at_epoch(self, producer_id: int, producer_epoch: int) -> ProducerState:
        state = self._producers.get(producer_id)
        if state is None:
            state = self._producers[producer_id] = ProducerState(producer_id, producer_epoch)
        elif producer_epoch != state.producer_epoch:
            state.producer_epoch = producer_epoch
            state.batches.clear()
        return state

    def on_high_watermark(self, high_watermark: int) -> None:
        """Markers below it are durable: their transactions no longer bound the last stable offset."""
        unflushed = self._unflushed
        # A durable one may remain behind one with a lower first offset: it does not affect the minimum until then.
        while unflushed and unflushed[0][1] < high_watermark:
            heappop(unflushed)

    @property
    def is_stable(self) -> bool:
        """No transaction is open, or ended and not durable yet."""
        return not (self._ongoing or self._unflushed)

    def expire(self, monotonic_ms: MonotonicMs, expiration_ms: int) -> int:
        """Remove producers idle for `expiration_ms`, never one with an open transaction; returns how many."""
        expired = [
            producer_id
            for producer_id, state in self._producers.items()
            if state.current_transaction_first_offset == NO_OFFSET
            and monotonic_ms - state.last_seen_ms >= expiration_ms
        ]
        for producer_id in expired:
            del self._producers[producer_id]
        for producer_id, refused in list(self._refused.items()):
            if monotonic_ms - refused.refused_ms >= expiration_ms:
                del self._refused[producer_id]
        return len(expired)

    def restore(self, state: ProducerState) -> None:
        """Add one producer of a snapshot; the caller adds all, in any order, then calls `restored`."""
        self._producers[state.producer_id] = state

    def adopt_missing(self, other: "ProducerStateManager") -> None:
        """Add copies of the producers of `other` that are unknown here."""
        for producer_id, state in other._producers.items():
            if producer_id not in self._producers:
                self._producers[producer_id] = state.copied()
        self.restored()

    def restored(self) -> None:
        """All producers of a snapshot have been added."""
        open_transactions = sorted(
            (state.current_transaction_first_offset, state.producer_id)
            for state in self._producers.values()
            if state.current_transaction_first_offset != NO_OFFSET
        )
        self._ongoing = OrderedDict(open_transactions)
