"""One partition of `__transaction_state` while this node coordinates it: brings each of its transactions to its end.

Owns: what a restart or the loss of the partition may forget: pending transitions, additions not yet durable, the epoch
before the last bump, timers, markers in flight. Does not own: durable state (`shard`), decisions, the requests that
call for them (`coordinator`).
Invariants
- From the append of a transition until it is durable, and from PREPARE until COMPLETE is durable, the transactional id
  is pending and requests get CONCURRENT_TRANSACTIONS, as in Kafka; but not behind an addition where rounds are whole:
  what is decided then is durable after it, or with it.
- PREPARE, the markers and COMPLETE are appended in this order. Where all partitions are here that is one turn, so they
  become durable in one round; a marker that cannot be appended then is sent once PREPARE is durable, and COMPLETE waits
  for it. An EndTxn, a timeout, a fence and a replay take the same path; an outcome is never inferred from a missing
  marker.
- Once it has resigned it writes nothing, neither COMPLETE nor a marker.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from oncelog.broker.coordinator.runtime import CoordinatorRecord
from oncelog.broker.coordinator.transaction.dependencies import TransactionDependencies
from oncelog.broker.coordinator.transaction.end_decisions import aborted_after_power_cut
from oncelog.broker.coordinator.transaction.marker_delivery import MarkerDelivery
from oncelog.broker.coordinator.transaction.metadata import (
    NO_PRODUCER_EPOCH,
    NO_TIMEOUT_MS,
    TopicPartition,
    TransactionMetadata,
)
from oncelog.broker.coordinator.transaction.records import to_record, to_tombstone
from oncelog.broker.coordinator.transaction.shard import TransactionShard
from oncelog.broker.coordinator.transaction.states import COMPLETED, PREPARED, TransactionState
from oncelog.broker.coordinator.transaction.timeouts import TransactionTimeouts
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import MonotonicMs, Timer, WallMs
from oncelog.protocol.errors import KafkaError

SETTLE_MS = 50
"""How long a transaction is open before it is settled: most have ended by then."""
_RETRY_MS = 20
_RECORDS_IN_A_BATCH = 500
_NONE_YET: frozenset[TopicPartition] = frozenset()

Append = Callable[[int, list[CoordinatorRecord]], Completion[None]]
"""Logs records in a partition (`CoordinatorRuntime.append`)."""


@dataclass(frozen=True, slots=True)
class TransactionStatus:
    """A transactional id as of one turn, durable or not."""

    metadata: TransactionMetadata
    is_pending: bool
    without_marker: tuple[TopicPartition, ...]


class TransactionShardLife:
    def __init__(
        self,
        partition: int,
        coordinator_epoch: int,
        dependencies: TransactionDependencies,
        append: Append,
        on_timeout: "Callable[[TransactionShardLife, TransactionMetadata], None]",
    ) -> None:
        """`coordinator_epoch` fences the markers of the partition's earlier coordinators."""
        shard = TransactionShard(partition)
        self.partition = partition
        self.get = shard.get
        self.all = shard.all
        self.replay = shard.replay
        self.replay_end_transaction_marker = shard.replay_end_transaction_marker
        self._dependencies = dependencies
        self._append = append
        self.has_resigned = False
        self.pending: set[str] = set()
        self.not_durable: dict[str, frozenset[TopicPartition]] = {}
        self.last_producer_epochs: dict[str, int] = {}
        self._unsettled_since_ms: dict[str, MonotonicMs] = {}
        """When each transaction that is not settled was opened."""
        self._settling: Timer | None = None
        self._unaborted: set[str] = set()
        """The transactions found after a power cut whose abort could not be logged yet."""
        self.aborting: list[Completion[int]] = []
        """Each completes with a number of transactions that are aborted, durably, after a power cut."""
        clock, scheduler = dependencies.clock, dependencies.scheduler
        self.delivery = MarkerDelivery(
            dependencies.markers,
            dependencies.leader_of,
            scheduler,
            coordinator_epoch,
            self._log_complete,
            dependencies.rounds_are_whole,
        )
        self.timeouts = TransactionTimeouts(
            clock, scheduler, lambda opened: on_timeout(self, opened), dependencies.limits.timeout_check_interval_ms
        )

    # --- its begin and end --------------------------------------------------------------------------------------------

    def on_active(self) -> None:
        """Finish what is prepared, arm the timeouts of what is open; after a power cut abort what may lack a part."""
        wall_ms = self._dependencies.clock.wall_ms()
        keeps_last_epoch = self._dependencies.limits.compatibility.keeps_last_epoch
        for metadata in list(self.all()):
            if not keeps_last_epoch:
                self.last_producer_epochs[metadata.transactional_id] = NO_PRODUCER_EPOCH
            if metadata.state in PREPARED:
                self.pending.add(metadata.transactional_id)
                self.delivery.deliver(metadata, Completion.of(None))
            elif metadata.state is TransactionState.ONGOING:
                self.timeouts.watch(metadata, wall_ms - metadata.start_timestamp_ms)
                self._note_unsettled(metadata)
        if self._dependencies.has_lost_ahead():
            torn = [
                (metadata, target)
                for metadata in self.all()
                if (target := aborted_after_power_cut(metadata, wall_ms)) is not None
            ]
            for start in range(0, len(torn), _RECORDS_IN_A_BATCH):
                self.aborting.append(Completion())
                self._abort(torn[start : start + _RECORDS_IN_A_BATCH], self.aborting[-1])

    def _abort(self, torn: "list[tuple[TransactionMetadata, TransactionMetadata]]", aborted: "Completion[int]") -> None:
        """Log PREPARE_ABORT of these open transactions. Until that is done, requests get CONCURRENT_TRANSACTIONS."""
        if self.has_resigned:
            return
        transactional_ids = [metadata.transactional_id for metadata, _ in torn]
        written = self._append(self.partition, [self.record(target) for _, target in torn])
        if written.error is not None:
            self._unaborted.update(transactional_ids)
            self._dependencies.scheduler.call_later(_RETRY_MS, lambda: self._abort(torn, aborted))
            return
        self._unaborted.difference_update(transactional_ids)
        for metadata, target in torn:
            self.on_logged(metadata, target, written)
        written.then(lambda done: aborted.complete(len(torn)) if done.error is None else None)

    def on_resigned(self) -> None:
        """Stop everything: the next coordinator finishes what is prepared, and arms the timeouts of what is open."""
        self.has_resigned = True
        self.timeouts.stop_all()
        if self._settling is not None:
            self._settling.cancel()
        self.delivery.forget_all()

    # --- answers ahead of durability ----------------------------------------------------------------------------------

    def may_answer_ahead(self, transactional_id: str) -> bool:
        """Whether the transaction's appends may be answered before they are durable. Not before its additions are
        durable: without them a power cut would leave no trace of the transaction, and its EndTxn would look like the
        retry of the one before. Not in a two-phase commit (KIP-939): its client may have prepared what was answered."""
        metadata = self.get(transactional_id)
        return (
            metadata is not None
            and metadata.state is TransactionState.ONGOING
            and not metadata.is_settled
            and metadata.timeout_ms != NO_TIMEOUT_MS
            and not self.not_durable.get(transactional_id)
        )

    def _note_unsettled(self, opened: TransactionMetadata) -> None:
        if not (opened.is_settled or opened.transactional_id in self._unsettled_since_ms):
            self._unsettled_since_ms[opened.transactional_id] = self._dependencies.clock.monotonic_ms()
            if self._settling is None:
                self._settle_later()

    def _settle_later(self) -> None:
        self._settling = self._dependencies.scheduler.call_later(SETTLE_MS, self._settle)

    def _settle(self) -> None:
        """Log of each transaction that has been open for a while that a power cut leaves it whole: as of this record,
        which is durable after all that was answered, its answers wait. A producer that has flushed and then lets others
        decide (Flink's committers) can so be sure of what it has written."""
        self._settling = None
        monotonic_ms = self._dependencies.clock.monotonic_ms()
        for transactional_id, since_ms in list(self._unsettled_since_ms.items()):
            metadata = self.get(transactional_id)
            if monotonic_ms - since_ms < SETTLE_MS or metadata is None or transactional_id in self._unaborted:
                continue
            settled = metadata._replace(is_settled=True)
            record = self.record(settled)
            if record.decoded != settled:  # this format cannot say so
                del self._unsettled_since_ms[transactional_id]
                continue
            written = self._append(self.partition, [record])
            if written.error is None:
                del self._unsettled_since_ms[transactional_id]
                self.on_logged(metadata, settled, written)
        if self._unsettled_since_ms:
            self._settle_later()

    # --- looking ------------------------------------------------------------------------------------------------------

    def current(self, transactional_id: str) -> TransactionMetadata | None:
        metadata = self.get(transactional_id)
        last = self.last_producer_epochs.get(transactional_id)
        # Not every record format stores the epoch before a bump (`to_record`).
        if metadata is None or last is None or metadata.last_producer_epoch == last:
            return metadata
        return metadata._replace(last_producer_epoch=last)

    def is_blocked(self, transactional_id: str) -> bool:
        """Whether requests that would change the transaction get CONCURRENT_TRANSACTIONS."""
        if transactional_id not in self.pending:
            return transactional_id in self._unaborted
        metadata = self.get(transactional_id)
        is_adding = metadata is not None and metadata.state is TransactionState.ONGOING
        return not (is_adding and self._dependencies.rounds_are_whole())

    def statuses(self) -> Iterator[TransactionStatus]:
        for metadata in self.all():
            left = self.delivery.left(metadata.transactional_id) or ()
            yield TransactionStatus(metadata, metadata.transactional_id in self.pending, tuple(left))

    # --- transitions --------------------------------------------------------------------------------------------------

    def record(self, metadata: TransactionMetadata) -> CoordinatorRecord:
        dependencies = self._dependencies
        return to_record(metadata, dependencies.transaction_version(), compatibility=dependencies.limits.compatibility)

    def on_logged(
        self, previous: TransactionMetadata | None, target: TransactionMetadata, written: Completion[Any]
    ) -> None:
        """Note what was appended and replayed: it is pending until durable, and until COMPLETE when the transaction is
        ending."""
        transactional_id = target.transactional_id
        self.pending.add(transactional_id)
        self.last_producer_epochs[transactional_id] = target.last_producer_epoch
        if target.state is TransactionState.ONGOING:
            added = target.partitions - (previous.partitions if previous else _NONE_YET)
            self.not_durable[transactional_id] = self.not_durable.get(transactional_id, _NONE_YET) | added
            self.timeouts.watch(target)
            self._note_unsettled(target)
        else:
            self.timeouts.stop(transactional_id)
            self._unsettled_since_ms.pop(transactional_id, None)

        def on_durable(done: "Completion[Any]") -> None:
            if done.error is not None:
                return  # the disk has failed: the id stays pending until the broker stops; or this life is over
            left = self.not_durable.pop(transactional_id, _NONE_YET) - target.partitions
            if left:  # more were added meanwhile
                self.not_durable[transactional_id] = left
            was_open = previous is not None and previous.state is TransactionState.ONGOING
            opens = target.state is TransactionState.ONGOING and not was_open
            if not target.is_settled or previous is None or previous.is_settled:  # else nothing has changed
                self._dependencies.listener.on_transition(target, opens=opens)
            if target.state in PREPARED or left:
                return
            current = self.get(transactional_id)
            if current is None or current.state is target.state:  # else its end is not durable yet
                self.pending.discard(transactional_id)

        written.then(on_durable)
        if target.state in PREPARED:
            self.delivery.deliver(target, written)

    def _log_complete(self, prepared: TransactionMetadata) -> None:
        """Log COMPLETE, once every marker is appended."""
        if self.has_resigned:
            return
        completed = prepared.to_completed(self._dependencies.clock.wall_ms())
        transactional_id = prepared.transactional_id

        def on_durable(done: "Completion[Any]") -> None:
            if done.error is None:
                self.pending.discard(transactional_id)
                self._dependencies.listener.on_transition(completed, opens=False)
            elif isinstance(done.error, KafkaError) and not self.has_resigned:
                # Nothing was appended; without COMPLETE requests would get CONCURRENT_TRANSACTIONS until a restart.
                self._dependencies.scheduler.call_later(_RETRY_MS, lambda: self._log_complete(prepared))

        self._append(self.partition, [self.record(completed)]).then(on_durable)

    # --- expiry -------------------------------------------------------------------------------------------------------

    def expire(self, wall_ms: WallMs, expiration_ms: int) -> None:
        """Expire ids that were idle for so long; never one with an open transaction."""
        expired = [
            metadata.transactional_id
            for metadata in self.all()
            if (metadata.state in COMPLETED or metadata.state is TransactionState.EMPTY)
            and wall_ms - metadata.last_update_timestamp_ms >= expiration_ms
            and metadata.transactional_id not in self.pending
        ]
        for start in range(0, len(expired), _RECORDS_IN_A_BATCH):
            self._forget(expired[start : start + _RECORDS_IN_A_BATCH])

    def _forget(self, transactional_ids: list[str]) -> None:
        self.pending.update(transactional_ids)
        for transactional_id in transactional_ids:
            self.last_producer_epochs.pop(transactional_id, None)
        tombstones = [to_tombstone(transactional_id) for transactional_id in transactional_ids]
        self._append(self.partition, tombstones).then(lambda _: self.pending.difference_update(transactional_ids))
