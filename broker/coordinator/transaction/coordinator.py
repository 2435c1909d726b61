"""The transaction coordinator: decides, logs, and sees every transaction to its end.

Owns: what a restart may forget: pending transitions, timers of open transactions, markers on their way. Durable state
is the shards', changed only by replaying `__transaction_state`. Decisions are pure functions (`decisions`).
Invariants
- From the append of a transition until it is durable, and from PREPARE until COMPLETE is durable, the transactional id
  is pending and answers CONCURRENT_TRANSACTIONS, as Kafka's does.
- PREPARE is durable before any marker is written, all markers before COMPLETE is logged. An end, a timeout, a fence
  and a restart take the same road (`_complete`); nothing is ever inferred from a missing marker.

KIPs: 98, 360, 447, 588, 890 (part 1).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from broker.completion import Completion, all_of
from broker.coordinator.runtime import CoordinatorRuntime, WriteResult
from broker.coordinator.transaction.decisions import (
    Decision,
    check_partitions,
    prepare_add_partitions,
    prepare_end_transaction,
    prepare_fence,
    prepare_init_producer_id,
)
from broker.coordinator.transaction.markers import EndMarker, Verdict, verdict
from broker.coordinator.transaction.metadata import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    TopicPartition,
    TransactionMetadata,
    to_record,
    to_tombstone,
)
from broker.coordinator.transaction.producer_ids import ProducerIdManager
from broker.coordinator.transaction.shard import TransactionShard
from broker.coordinator.transaction.states import PREPARED, TransactionState
from broker.ports import Clock, Scheduler, Timer
from protocol.errors import ErrorCode, KafkaError

COORDINATOR_EPOCH = 0
"""One node never hands its coordinator over, so the epoch never moves."""
_RETRY_BACKOFF_MS = 20
_TIMEOUT_RETRY_MS = 20


class MarkerSender(Protocol):
    """Carries a marker to a node; the local form is `markers.LocalMarkerChannel`."""

    def send(self, node_id: int, marker: EndMarker) -> Completion[list[ErrorCode]]: ...


class TransitionListener(Protocol):
    """Hears of every transition once it is durable (one log line each)."""

    def on_transition(self, metadata: TransactionMetadata) -> None: ...

    def on_fenced(self, transactional_id: str, error: ErrorCode) -> None: ...


@dataclass(frozen=True, slots=True)
class TransactionLimits:
    """The settings that the coordinator works with."""

    max_timeout_ms: int
    id_expiration_ms: int


@dataclass(frozen=True, slots=True)
class ProducerIdAndEpoch:
    producer_id: int
    producer_epoch: int


class TransactionCoordinator:
    def __init__(
        self,
        runtime: CoordinatorRuntime[TransactionShard],
        producer_ids: ProducerIdManager,
        markers: MarkerSender,
        leader_of: Callable[[str, int], int | None],
        clock: Clock,
        scheduler: Scheduler,
        limits: TransactionLimits,
        listener: TransitionListener,
    ) -> None:
        """`leader_of` gives the node id that leads a partition, None for one that does not exist any more."""
        self._runtime = runtime
        self._producer_ids = producer_ids
        self._markers = markers
        self._leader_of = leader_of
        self._clock = clock
        self._scheduler = scheduler
        self._limits = limits
        self._listener = listener
        self._pending: set[str] = set()
        self._not_durable: dict[str, frozenset[TopicPartition]] = {}
        self._last_producer_epochs: dict[str, int] = {}
        self._timers: dict[str, Timer] = {}

    @property
    def open_count(self) -> int:
        """Transactions that are open or on their way to their end."""
        return sum(
            metadata.state is TransactionState.ONGOING or metadata.state in PREPARED
            for shard in self._runtime.shards()
            for metadata in shard.all()
        )

    # --- requests -----------------------------------------------------------------------------------------------------

    def init_producer_id(
        self,
        transactional_id: str | None,
        timeout_ms: int,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
    ) -> Completion[ProducerIdAndEpoch]:
        """A producer id and epoch; fails with KafkaError. Null id: a plain idempotent producer, nothing is kept."""
        if transactional_id is None:
            return self._producer_ids.next_id().map(lambda fresh: ProducerIdAndEpoch(fresh, 0))
        if not transactional_id or (producer_id == NO_PRODUCER_ID) != (producer_epoch == NO_PRODUCER_EPOCH):
            return _failed(ErrorCode.INVALID_REQUEST)
        if not 0 < timeout_ms <= self._limits.max_timeout_ms:
            return _failed(ErrorCode.INVALID_TRANSACTION_TIMEOUT)

        def attempt(fresh: int | None) -> Completion[ProducerIdAndEpoch]:
            def decide(metadata: TransactionMetadata | None, is_pending: bool) -> Decision:
                return prepare_init_producer_id(
                    metadata,
                    transactional_id,
                    timeout_ms,
                    producer_id,
                    producer_epoch,
                    is_pending=is_pending,
                    fresh_producer_id=fresh,
                    now_ms=self._clock.now_ms(),
                )

            try:
                is_missing = self._decide(transactional_id, decide).needs_producer_id
            except KafkaError as error:
                return _failed(error.code)
            if is_missing:
                return self._producer_ids.next_id().flat_map(attempt)
            return self._transition(transactional_id, decide)

        return attempt(None)

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
    ) -> Completion[ProducerIdAndEpoch]:
        """Make partitions part of the open transaction, or open one; answered once durable."""
        if not transactional_id:
            return _failed(ErrorCode.INVALID_REQUEST)
        wanted = frozenset(partitions)
        return self._transition(
            transactional_id,
            lambda metadata, is_pending: prepare_add_partitions(
                metadata, producer_id, producer_epoch, wanted, is_pending=is_pending, now_ms=self._clock.now_ms()
            ),
        )

    def end_transaction(
        self, transactional_id: str, producer_id: int, producer_epoch: int, committed: bool
    ) -> Completion[ProducerIdAndEpoch]:
        """Answered once PREPARE is durable: from then on the outcome is fixed, and the markers follow by themselves."""
        if not transactional_id:
            return _failed(ErrorCode.INVALID_REQUEST)
        return self._transition(
            transactional_id,
            lambda metadata, is_pending: prepare_end_transaction(
                metadata, producer_id, producer_epoch, committed, is_pending=is_pending, now_ms=self._clock.now_ms()
            ),
        )

    def verify_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
    ) -> ErrorCode:
        """Asked in the turn of a transactional append (KIP-890, part 1): NONE, or why the batch may not be written."""
        try:
            metadata = self._runtime.shard(transactional_id).get(transactional_id)
        except KafkaError as error:
            return error.code
        return check_partitions(
            metadata, producer_id, producer_epoch, partitions, self._not_durable.get(transactional_id, frozenset())
        )

    # --- start, background --------------------------------------------------------------------------------------------

    def load(self) -> None:
        """After the shards have replayed their logs: finish what is prepared, count on the timeouts of what is open."""
        for shard in self._runtime.shards():
            for metadata in list(shard.all()):
                if metadata.state in PREPARED:
                    self._pending.add(metadata.transactional_id)
                    self._complete(metadata)
                elif metadata.state is TransactionState.ONGOING:
                    self._watch_timeout(metadata)

    def step(self, now_ms: int) -> None:
        """Forget transactional ids that were idle for transactional.id.expiration.ms (never an open transaction)."""
        for shard in self._runtime.shards():
            for metadata in list(shard.all()):
                is_idle = metadata.state not in PREPARED and metadata.state is not TransactionState.ONGOING
                idle_ms = now_ms - metadata.last_update_timestamp_ms
                if is_idle and idle_ms >= self._limits.id_expiration_ms:
                    self._expire(metadata.transactional_id)

    def _expire(self, transactional_id: str) -> None:
        if transactional_id in self._pending:
            return
        self._pending.add(transactional_id)
        self._last_producer_epochs.pop(transactional_id, None)
        self._runtime.write(transactional_id, lambda _: WriteResult((to_tombstone(transactional_id),), None)).then(
            lambda _: self._pending.discard(transactional_id)
        )

    # --- transitions --------------------------------------------------------------------------------------------------

    def _current(self, shard: TransactionShard, transactional_id: str) -> TransactionMetadata | None:
        metadata = shard.get(transactional_id)
        last = self._last_producer_epochs.get(transactional_id)
        # Kafka's record has no room for the epoch before a bump, so it is kept here, and lost with a restart.
        return metadata if metadata is None or last is None else replace(metadata, last_producer_epoch=last)

    def _decide(
        self, transactional_id: str, decide: Callable[[TransactionMetadata | None, bool], Decision]
    ) -> Decision:
        shard = self._runtime.shard(transactional_id)
        return decide(self._current(shard, transactional_id), transactional_id in self._pending)

    def _transition(
        self, transactional_id: str, decide: Callable[[TransactionMetadata | None, bool], Decision]
    ) -> Completion[ProducerIdAndEpoch]:
        """Decide and log in this turn; the answer, or KafkaError, once the log is durable."""
        decision: Decision | None = None

        def operation(shard: TransactionShard) -> WriteResult[Decision]:
            nonlocal decision
            previous = self._current(shard, transactional_id)
            decision = decide(previous, transactional_id in self._pending)
            target = decision.target
            if target is None:
                return WriteResult((), decision)
            self._not_durable[transactional_id] = target.partitions - (previous.partitions if previous else frozenset())
            self._last_producer_epochs[transactional_id] = target.last_producer_epoch
            return WriteResult((to_record(target),), decision)

        written = self._runtime.write(transactional_id, operation)
        if decision is not None and decision.target is not None and written.error is None:
            self._on_logged(decision.target, written)
        return written.map(lambda decided: self._answer(transactional_id, decided))

    def _on_logged(self, target: TransactionMetadata, written: Completion[Decision]) -> None:
        """Appended and replayed: pending until durable, and until COMPLETE when the transaction is ending."""
        transactional_id = target.transactional_id
        self._pending.add(transactional_id)
        self._stop_timer(transactional_id)

        def on_durable(done: Completion[Decision]) -> None:
            if done.error is not None:
                return  # the disk has failed: the broker stops, the id stays pending until then
            self._not_durable.pop(transactional_id, None)
            self._listener.on_transition(target)
            if target.state in PREPARED:
                self._complete(target)
                return
            self._pending.discard(transactional_id)
            if target.state is TransactionState.ONGOING:
                self._watch_timeout(target)

        written.then(on_durable)

    def _answer(self, transactional_id: str, decision: Decision) -> ProducerIdAndEpoch:
        if decision.error:
            if decision.error is ErrorCode.PRODUCER_FENCED:
                self._listener.on_fenced(transactional_id, decision.error)
            raise KafkaError(decision.error)
        metadata = decision.target or self._runtime.shard(transactional_id).get(transactional_id)
        if metadata is None:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return ProducerIdAndEpoch(metadata.producer_id, metadata.producer_epoch)

    # --- the end of a transaction -------------------------------------------------------------------------------------

    def _complete(self, metadata: TransactionMetadata) -> None:
        """PREPARE is durable: send the markers, again and again until each partition has one, then log COMPLETE."""
        self._send_markers(metadata, sorted(metadata.partitions))

    def _send_markers(self, metadata: TransactionMetadata, partitions: list[TopicPartition]) -> None:
        by_node: dict[int, list[TopicPartition]] = {}
        for topic, partition in partitions:
            node_id = self._leader_of(topic, partition)
            if node_id is not None:  # a deleted topic has no reader whom a marker could tell anything
                by_node.setdefault(node_id, []).append((topic, partition))
        sent = [self._markers.send(node_id, self._marker(metadata, batch)) for node_id, batch in by_node.items()]
        asked = [partition for batch in by_node.values() for partition in batch]

        def on_answers(done: Completion[list[list[ErrorCode]]]) -> None:
            if done.error is not None:
                self._retry_markers(metadata, asked)
                return
            errors = [error for answers in done.result() for error in answers]
            left = [
                partition for partition, error in zip(asked, errors, strict=True) if verdict(error) is Verdict.RETRY
            ]
            if left:
                self._retry_markers(metadata, left)
            else:
                self._log_complete(metadata)

        all_of(sent).then(on_answers)

    def _marker(self, metadata: TransactionMetadata, partitions: list[TopicPartition]) -> EndMarker:
        return EndMarker(
            producer_id=metadata.producer_id,
            producer_epoch=metadata.producer_epoch,
            coordinator_epoch=COORDINATOR_EPOCH,
            committed=metadata.state is TransactionState.PREPARE_COMMIT,
            transaction_version=metadata.client_transaction_version,
            partitions=partitions,
        )

    def _retry_markers(self, metadata: TransactionMetadata, partitions: list[TopicPartition]) -> None:
        self._scheduler.call_later(_RETRY_BACKOFF_MS, lambda: self._send_markers(metadata, partitions))

    def _log_complete(self, prepared: TransactionMetadata) -> None:
        completed = prepared.completed(self._clock.now_ms())
        transactional_id = prepared.transactional_id

        def on_durable(done: Completion[None]) -> None:
            if done.error is None:
                self._pending.discard(transactional_id)
                self._listener.on_transition(completed)

        self._runtime.write(transactional_id, lambda _: WriteResult((to_record(completed),), None)).then(on_durable)

    # --- timeouts -----------------------------------------------------------------------------------------------------

    def _watch_timeout(self, metadata: TransactionMetadata) -> None:
        """From its first partition on a transaction has `timeout_ms`; the wall clock counts only across a restart."""
        elapsed_ms = max(0, self._clock.now_ms() - metadata.start_timestamp_ms)
        self._arm_timer(metadata, max(0, metadata.timeout_ms - elapsed_ms))

    def _arm_timer(self, metadata: TransactionMetadata, delay_ms: int) -> None:
        transactional_id = metadata.transactional_id
        self._stop_timer(transactional_id)
        self._timers[transactional_id] = self._scheduler.call_later(delay_ms, lambda: self._on_timeout(metadata))

    def _stop_timer(self, transactional_id: str) -> None:
        timer = self._timers.pop(transactional_id, None)
        if timer is not None:
            timer.cancel()

    def _on_timeout(self, watched: TransactionMetadata) -> None:
        """Abort what its client left; a transition in flight is waited for, an end that was faster has won."""
        transactional_id = watched.transactional_id
        self._timers.pop(transactional_id, None)
        if transactional_id in self._pending:
            self._arm_timer(watched, _TIMEOUT_RETRY_MS)
            return

        def decide(metadata: TransactionMetadata | None, is_pending: bool) -> Decision:
            is_same = (
                metadata is not None
                and metadata.state is TransactionState.ONGOING
                and metadata.start_timestamp_ms == watched.start_timestamp_ms
                and not is_pending
            )
            if metadata is None or not is_same:
                return Decision()
            return Decision(target=prepare_fence(metadata, self._clock.now_ms()))

        self._transition(transactional_id, decide)


def _failed(error: ErrorCode) -> Completion[ProducerIdAndEpoch]:
    failed: Completion[ProducerIdAndEpoch] = Completion()
    failed.fail(KafkaError(error))
    return failed
