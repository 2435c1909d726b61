"""The transaction coordinator: decides, logs, and sees every transaction to its end.

Owns: what a restart may forget: pending transitions, additions not yet durable, the epoch before the last bump. Durable
state is the shards', changed only by replaying `__transaction_state`. Decisions are pure functions (`decisions`,
`endings`); markers on their way are `marker_delivery`'s, timers are `timeouts`'.
Invariants
- From the append of a transition until it is durable, and from PREPARE until COMPLETE is durable, the transactional id
  is pending and answers CONCURRENT_TRANSACTIONS, as Kafka's does.
- PREPARE is durable before any marker is written, all markers before COMPLETE is logged. An end, a timeout, a fence
  and a restart take the same road; nothing is ever inferred from a missing marker.

A request's transaction version comes with the version of its API, as in Kafka; `transaction_version`, the finalized
feature level, decides for the aborts that the coordinator begins itself.
KIPs: 98, 360, 447, 588, 664, 890, 939.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from oncelog.broker.api_table import TRANSACTION_V2
from oncelog.broker.compatibility import OURS, Compatibility
from oncelog.broker.completion import Completion, all_of
from oncelog.broker.coordinator.runtime import CoordinatorRecord, CoordinatorRuntime, WriteResult
from oncelog.broker.coordinator.transaction.decision import NOTHING_TO_DO, Decision, refuse
from oncelog.broker.coordinator.transaction.decisions import (
    prepare_add_partitions,
    prepare_init_producer_id,
    verify_partition,
)
from oncelog.broker.coordinator.transaction.endings import (
    prepare_abort_by_coordinator,
    prepare_end_transaction_v1,
    prepare_end_transaction_v2,
)
from oncelog.broker.coordinator.transaction.marker_delivery import MarkerDelivery
from oncelog.broker.coordinator.transaction.markers import MarkerSender
from oncelog.broker.coordinator.transaction.metadata import (
    EXHAUSTED_PRODUCER_EPOCH,
    NO_PRODUCER,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMEOUT_MS,
    ProducerIdAndEpoch,
    TopicPartition,
    TransactionMetadata,
    check_step,
)
from oncelog.broker.coordinator.transaction.producer_ids import ProducerIdManager
from oncelog.broker.coordinator.transaction.records import to_record, to_tombstone
from oncelog.broker.coordinator.transaction.shard import TransactionShard
from oncelog.broker.coordinator.transaction.states import AT_REST, COMPLETED, PREPARED, TransactionState
from oncelog.broker.coordinator.transaction.timeouts import TransactionTimeouts
from oncelog.broker.ports import Clock, Scheduler
from oncelog.broker.schedule import Schedule
from oncelog.protocol.errors import ErrorCode, KafkaError

CLASSIC = 1
"""The level of `transaction.version` without KIP-890's part 2."""
ADD_RETRY_BACKOFF_MS = 20
ADD_RETRY_MAX_MS = 100
"""Kafka's add.partitions.to.txn.retry.backoff.ms and .max.ms."""
_COMPLETE_RETRY_MS = 20
_TOMBSTONES_IN_A_BATCH = 500
_NONE_YET: frozenset[TopicPartition] = frozenset()

T = TypeVar("T")

Decide = Callable[[TransactionMetadata | None, bool, int | None], Decision]
"""(metadata, is pending, a fresh producer id if one was asked for) → decision."""


class TransitionListener(Protocol):
    """Hears of every transition once it is durable (one log line each)."""

    def on_transition(self, metadata: TransactionMetadata, *, opens: bool) -> None:
        """`opens`: a transaction began by it."""

    def on_fenced(self, transactional_id: str, error: ErrorCode) -> None: ...


@dataclass(frozen=True, slots=True)
class TransactionLimits:
    """The settings that the coordinator works with."""

    max_timeout_ms: int
    id_expiration_ms: int
    expiry_interval_ms: int
    timeout_check_interval_ms: int = 0
    """How often transactions over their time are looked for, as Kafka does; 0: each is aborted just when it is over."""
    two_phase_commit: bool = False
    """Whether clients may ask for transactions that last until they are ended."""
    compatibility: Compatibility = OURS


@dataclass(frozen=True, slots=True)
class InitializedProducer:
    """What InitProducerId tells: the pair to go on with, and the pair of the open transaction that was taken over."""

    producer: ProducerIdAndEpoch
    ongoing: ProducerIdAndEpoch


@dataclass(frozen=True, slots=True)
class TransactionStatus:
    """A transactional id as it is at one moment, durable or not."""

    metadata: TransactionMetadata
    is_pending: bool
    without_marker: tuple[TopicPartition, ...]


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
        transaction_version: Callable[[], int] = lambda: CLASSIC,
    ) -> None:
        """`leader_of` gives the node id that leads a partition, None for one that does not exist any more;
        `transaction_version` the finalized level of that feature, as it is now."""
        self._runtime = runtime
        self._producer_ids = producer_ids
        self._clock = clock
        self._scheduler = scheduler
        self._limits = limits
        self._listener = listener
        self._transaction_version = transaction_version
        self._delivery = MarkerDelivery(markers, leader_of, scheduler, self._log_complete)
        self._timeouts = TransactionTimeouts(clock, scheduler, self._on_timeout, limits.timeout_check_interval_ms)
        self._pending: set[str] = set()
        self._not_durable: dict[str, frozenset[TopicPartition]] = {}
        self._last_producer_epochs: dict[str, int] = {}
        self._expiry = Schedule(clock)

    # --- requests -----------------------------------------------------------------------------------------------------

    def init_producer_id(
        self,
        transactional_id: str | None,
        timeout_ms: int,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
    ) -> Completion[ProducerIdAndEpoch]:
        """A producer id and epoch; fails with KafkaError. Null id: a plain idempotent producer, nothing is kept."""
        initialized = self.init_two_phase(
            transactional_id, timeout_ms, producer_id, producer_epoch, enables=False, keeps_prepared=False
        )
        return initialized.map(lambda answer: answer.producer)

    def init_two_phase(
        self,
        transactional_id: str | None,
        timeout_ms: int,
        producer_id: int,
        producer_epoch: int,
        *,
        enables: bool,
        keeps_prepared: bool,
    ) -> Completion[InitializedProducer]:
        """The same for who may be part of a two-phase commit (KIP-939): `enables` asks for transactions without a
        timeout, `keeps_prepared` that the open one be left for this instance to end."""
        if transactional_id == "" or (producer_id == NO_PRODUCER_ID) != (producer_epoch == NO_PRODUCER_EPOCH):
            return _failed(ErrorCode.INVALID_REQUEST)
        if transactional_id is None:
            return self._producer_ids.next_id().map(
                lambda fresh: InitializedProducer(ProducerIdAndEpoch(fresh, 0), NO_PRODUCER)
            )
        if enables and not self._limits.two_phase_commit:
            return _failed(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if keeps_prepared and not (self._limits.two_phase_commit and self._limits.compatibility.keeps_prepared):
            return _failed(ErrorCode.UNSUPPORTED_VERSION)
        if not enables and not 0 < timeout_ms <= self._limits.max_timeout_ms:
            return _failed(ErrorCode.INVALID_TRANSACTION_TIMEOUT)

        def decide(metadata: TransactionMetadata | None, is_pending: bool, fresh: int | None) -> Decision:
            return prepare_init_producer_id(
                metadata,
                transactional_id,
                NO_TIMEOUT_MS if enables else timeout_ms,
                producer_id,
                producer_epoch,
                is_pending=is_pending,
                fresh_producer_id=fresh,
                transaction_version=self._transaction_version(),
                wall_ms=self._clock.wall_ms(),
                keeps_prepared=keeps_prepared,
            )

        return self._transition(transactional_id, decide).map(_initialized)

    def add_partitions(
        self,
        transactional_id: str | None,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
        *,
        transaction_version: int = 0,
    ) -> Completion[ProducerIdAndEpoch]:
        """Make partitions part of the open transaction, or open one; answered once durable."""
        if not transactional_id:
            return _failed(ErrorCode.INVALID_REQUEST)
        wanted = frozenset(partitions)

        def decide(metadata: TransactionMetadata | None, is_pending: bool, _: int | None) -> Decision:
            return prepare_add_partitions(
                metadata,
                producer_id,
                producer_epoch,
                wanted,
                is_pending=is_pending,
                transaction_version=transaction_version,
                wall_ms=self._clock.wall_ms(),
            )

        return self._transition(transactional_id, decide).map(_producer)

    def add_partitions_implicitly(
        self, transactional_id: str | None, producer_id: int, producer_epoch: int, partitions: Iterable[TopicPartition]
    ) -> Completion[ProducerIdAndEpoch]:
        """The add that comes with Produce v12 and TxnOffsetCommit v5.

        The end of the transaction before may still be on its way: that is waited for a moment, since a client of
        version 2 does not expect to be sent away. It has to ask `verify_partitions` again in the turn of its append.
        """
        wanted = frozenset(partitions)
        answer: Completion[ProducerIdAndEpoch] = Completion()

        def attempt(add: "Callable[..., None]", waited_ms: int) -> None:  # by its own name it would hold itself
            def on_done(done: Completion[ProducerIdAndEpoch]) -> None:
                error = done.error
                if error is None:
                    answer.complete(done.result())
                elif _is_concurrent(error) and waited_ms < ADD_RETRY_MAX_MS:
                    self._scheduler.call_later(ADD_RETRY_BACKOFF_MS, lambda: add(add, waited_ms + ADD_RETRY_BACKOFF_MS))
                else:
                    answer.fail(error)

            self.add_partitions(
                transactional_id, producer_id, producer_epoch, wanted, transaction_version=TRANSACTION_V2
            ).then(on_done)

        attempt(attempt, 0)
        return answer

    def end_transaction(
        self,
        transactional_id: str | None,
        producer_id: int,
        producer_epoch: int,
        committed: bool,
        *,
        transaction_version: int = 0,
    ) -> Completion[ProducerIdAndEpoch]:
        """Answered once PREPARE is durable: from then on the outcome is fixed, and the markers follow by themselves.

        The answer is the pair to go on with: under version 2 it is always another one.
        """
        if not transactional_id:
            return _failed(ErrorCode.INVALID_REQUEST)

        def decide(metadata: TransactionMetadata | None, is_pending: bool, fresh: int | None) -> Decision:
            wall_ms = self._clock.wall_ms()
            if transaction_version < TRANSACTION_V2:
                return prepare_end_transaction_v1(
                    metadata, producer_id, producer_epoch, committed, is_pending=is_pending, wall_ms=wall_ms
                )
            return prepare_end_transaction_v2(
                metadata,
                producer_id,
                producer_epoch,
                committed,
                is_pending=is_pending,
                fresh_producer_id=fresh,
                wall_ms=wall_ms,
                compatibility=self._limits.compatibility,
            )

        return self._transition(transactional_id, decide).map(_producer)

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
        not_durable = self._not_durable.get(transactional_id, _NONE_YET)
        for partition in partitions:
            error_code = verify_partition(metadata, producer_id, producer_epoch, partition, not_durable)
            if error_code:
                return error_code
        return ErrorCode.NONE

    # --- looking ------------------------------------------------------------------------------------------------------

    @property
    def open_count(self) -> int:
        """Transactions that are open or on their way to their end."""
        return sum(
            metadata.state is TransactionState.ONGOING or metadata.state in PREPARED
            for shard in self._runtime.shards()
            for metadata in shard.all()
        )

    def describe(self, transactional_id: str) -> Completion[TransactionMetadata]:
        """What is known of an id, once durable; a prepared transaction shows the partitions that lack their marker."""
        if not transactional_id:
            return Completion.failed(KafkaError(ErrorCode.INVALID_REQUEST))

        def look(shard: TransactionShard) -> TransactionMetadata:
            metadata = shard.get(transactional_id)
            if metadata is None:
                raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
            left = self._delivery.left(transactional_id) if metadata.state in PREPARED else None
            return metadata if left is None else replace(metadata, partitions=frozenset(left))

        return self._runtime.read(transactional_id, look)

    def list_all(self) -> Completion[list[TransactionMetadata]]:
        """Every transactional id of this node, once all that is told is durable. Fails while a log is replayed."""
        shown: list[Completion[list[TransactionMetadata]]] = []
        try:
            self._runtime.check_loaded()
        except KafkaError as error:
            return Completion.failed(error)
        for shard in self._runtime.shards():
            first = next(iter(shard.all()), None)
            if first is not None:
                shown.append(self._runtime.read(first.transactional_id, lambda shard: list(shard.all())))
        return all_of(shown).map(lambda lists: [metadata for some in lists for metadata in some])

    def current(self) -> Iterator[TransactionStatus]:
        """Every transactional id as it is in this turn: for those who look on, never for an answer to a client."""
        for shard in self._runtime.shards():
            for metadata in shard.all():
                left = self._delivery.left(metadata.transactional_id) or ()
                yield TransactionStatus(metadata, metadata.transactional_id in self._pending, tuple(left))

    def move_epoch_on(self, transactional_id: str, producer_epoch: int) -> Completion[None]:
        """Give an id that has nothing open a later epoch, as that many instances would have: the last ones come soon.
        Fails with KafkaError."""

        def operation(shard: TransactionShard) -> WriteResult[None]:
            metadata = shard.get(transactional_id)
            if metadata is None:
                raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
            if transactional_id in self._pending or metadata.state is TransactionState.ONGOING:
                raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
            if not metadata.producer_epoch < producer_epoch <= EXHAUSTED_PRODUCER_EPOCH:
                text = f"the epoch is {metadata.producer_epoch}, the last that is given is {EXHAUSTED_PRODUCER_EPOCH}"
                raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, text)
            self._last_producer_epochs.pop(transactional_id, None)
            moved = replace(metadata, producer_epoch=producer_epoch)
            return WriteResult((self._record(moved),), None)

        return self._runtime.write(transactional_id, operation)

    def skip_producer_ids_to(self, producer_id: int) -> None:
        """Hand out no producer id below this one."""
        self._producer_ids.skip_to(producer_id)

    # --- start, background --------------------------------------------------------------------------------------------

    def load(self) -> None:
        """After the shards have replayed their logs: finish what is prepared, count on the timeouts of what is open."""
        wall_ms = self._clock.wall_ms()
        for shard in self._runtime.shards():
            for metadata in list(shard.all()):
                if not self._limits.compatibility.keeps_last_epoch:
                    self._last_producer_epochs[metadata.transactional_id] = NO_PRODUCER_EPOCH
                if metadata.state in PREPARED:
                    self._pending.add(metadata.transactional_id)
                    self._delivery.deliver(metadata)
                elif metadata.state is TransactionState.ONGOING:
                    self._timeouts.watch(metadata, wall_ms - metadata.start_timestamp_ms)

    def check_nothing_open(self) -> None:
        """Raises KafkaError while a transaction is open or on its way to its end: whoever deletes `__transaction_state`
        then leaves it open in its partitions for ever, and readers of committed records with it."""
        self._runtime.check_loaded()
        for shard in self._runtime.shards():
            for metadata in shard.all():
                if metadata.state not in AT_REST:
                    message = f"{metadata.transactional_id!r} has a transaction open; it must end first"
                    raise KafkaError(ErrorCode.INVALID_REQUEST, message)

    def on_topic_changed(self, name: str) -> None:
        """Somebody may have deleted `__transaction_state`: then no transactional id was ever there, as in Kafka. What
        was open stays open in its partitions until an operator ends it there."""
        if name != self._runtime.topic or self._runtime.is_available:
            return
        self._runtime.unload()
        self._timeouts.stop_all()
        self._delivery.forget_all()
        self._pending.clear()
        self._not_durable.clear()
        self._last_producer_epochs.clear()

    def step(self) -> None:
        """Forget transactional ids that were idle for transactional.id.expiration.ms (never an open transaction).

        One whose last update lies in the future stays until that and the expiration have passed, as in Kafka."""
        if not self._expiry.take(self._limits.expiry_interval_ms):
            return
        wall_ms = self._clock.wall_ms()
        for shard in self._runtime.shards():
            expired = [
                metadata.transactional_id
                for metadata in shard.all()
                if (metadata.state in COMPLETED or metadata.state is TransactionState.EMPTY)
                and wall_ms - metadata.last_update_timestamp_ms >= self._limits.id_expiration_ms
                and metadata.transactional_id not in self._pending
            ]
            for start in range(0, len(expired), _TOMBSTONES_IN_A_BATCH):
                self._expire(expired[start : start + _TOMBSTONES_IN_A_BATCH])

    def _expire(self, transactional_ids: list[str]) -> None:
        """Ids of one shard."""
        self._pending.update(transactional_ids)
        for transactional_id in transactional_ids:
            self._last_producer_epochs.pop(transactional_id, None)
        tombstones = [to_tombstone(transactional_id) for transactional_id in transactional_ids]
        self._runtime.write(transactional_ids[0], lambda _: WriteResult(tombstones, None)).then(
            lambda _: self._pending.difference_update(transactional_ids)
        )

    def _on_timeout(self, opened: TransactionMetadata) -> None:
        """Abort what its client left; a transition in flight is waited for, an end that was faster has won."""
        transactional_id = opened.transactional_id

        def decide(metadata: TransactionMetadata | None, is_pending: bool, fresh: int | None) -> Decision:
            if metadata is None or not _is_still_open(opened, metadata):
                return NOTHING_TO_DO
            if is_pending:
                return refuse(ErrorCode.CONCURRENT_TRANSACTIONS)
            return prepare_abort_by_coordinator(
                metadata,
                transaction_version=self._transaction_version(),
                fresh_producer_id=fresh,
                wall_ms=self._clock.wall_ms(),
            )

        def on_done(done: Completion[TransactionMetadata | None]) -> None:
            # By the time that a refusal is durable its transaction may have ended, and the next one have begun.
            if done.error is None:
                return
            try:
                current = self._runtime.shard(transactional_id).get(transactional_id)
            except KafkaError:  # __transaction_state itself was deleted: there is nothing left to abort
                return
            if _is_still_open(opened, current):
                self._timeouts.retry(opened)

        self._transition(transactional_id, decide).then(on_done)

    # --- transitions --------------------------------------------------------------------------------------------------

    def _transition(
        self, transactional_id: str, decide: Decide, fresh_producer_id: int | None = None
    ) -> Completion[TransactionMetadata | None]:
        """Decide and log in this turn; the decided, or KafkaError, once all that it was decided from is durable."""
        decision = NOTHING_TO_DO
        current: TransactionMetadata | None = None

        def operation(shard: TransactionShard) -> WriteResult[None]:
            nonlocal decision, current
            current = self._current(shard, transactional_id)
            decision = decide(current, transactional_id in self._pending, fresh_producer_id)
            if decision.target is None:
                return WriteResult((), None)
            check_step(current, decision.target)
            return WriteResult((self._record(decision.target),), None)

        written = self._runtime.write(transactional_id, operation)
        if decision.needs_producer_id:
            return self._producer_ids.next_id().flat_map(
                lambda fresh: self._transition(transactional_id, decide, fresh)
            )
        if decision.target is not None and written.error is None:
            self._on_logged(current, decision.target, written)
        return written.map(lambda _: self._answer(transactional_id, decision, current))

    def _current(self, shard: TransactionShard, transactional_id: str) -> TransactionMetadata | None:
        metadata = shard.get(transactional_id)
        last = self._last_producer_epochs.get(transactional_id)
        # Not every record has room for the epoch before a bump (`to_record`).
        return metadata if metadata is None or last is None else replace(metadata, last_producer_epoch=last)

    def _record(self, metadata: TransactionMetadata) -> CoordinatorRecord:
        return to_record(metadata, self._transaction_version(), compatibility=self._limits.compatibility)

    def _on_logged(
        self, previous: TransactionMetadata | None, target: TransactionMetadata, written: Completion[None]
    ) -> None:
        """Appended and replayed: pending until durable, and until COMPLETE when the transaction is ending."""
        transactional_id = target.transactional_id
        self._pending.add(transactional_id)
        self._last_producer_epochs[transactional_id] = target.last_producer_epoch
        if target.state is TransactionState.ONGOING:
            self._not_durable[transactional_id] = target.partitions - (previous.partitions if previous else _NONE_YET)
            self._timeouts.watch(target)
        else:
            self._timeouts.stop(transactional_id)

        def on_durable(done: Completion[None]) -> None:
            if done.error is not None or transactional_id not in self._pending:
                return  # the disk has failed, and the id stays pending until the broker stops; or it is forgotten
            self._not_durable.pop(transactional_id, None)
            was_open = previous is not None and previous.state is TransactionState.ONGOING
            self._listener.on_transition(target, opens=target.state is TransactionState.ONGOING and not was_open)
            if target.state in PREPARED:
                self._delivery.deliver(target)
            else:
                self._pending.discard(transactional_id)

        written.then(on_durable)

    def _answer(
        self, transactional_id: str, decision: Decision, current: TransactionMetadata | None
    ) -> TransactionMetadata | None:
        if decision.error:
            if decision.error is ErrorCode.PRODUCER_FENCED:
                self._listener.on_fenced(transactional_id, decision.error)
            raise KafkaError(decision.error)
        return decision.target or current

    def _log_complete(self, prepared: TransactionMetadata) -> None:
        """Every marker is durable."""
        if not self._is_prepared(prepared):
            return
        completed = prepared.completed(self._clock.wall_ms())
        transactional_id = prepared.transactional_id
        record = self._record(completed)

        def on_durable(done: Completion[None]) -> None:
            if done.error is None:
                self._pending.discard(transactional_id)
                self._listener.on_transition(completed, opens=False)
            elif isinstance(done.error, KafkaError):
                # Nothing was appended; without COMPLETE the id would answer "try again" until the next restart.
                self._scheduler.call_later(_COMPLETE_RETRY_MS, lambda: self._log_complete(prepared))

        self._runtime.write(transactional_id, lambda _: WriteResult((record,), None)).then(on_durable)

    def _is_prepared(self, prepared: TransactionMetadata) -> bool:
        """It is not, once `__transaction_state` was deleted."""
        try:
            shard = self._runtime.shard(prepared.transactional_id)
        except KafkaError:
            return False
        return _is_same_end(prepared, shard.get(prepared.transactional_id))


def _is_same_end(prepared: TransactionMetadata, current: TransactionMetadata | None) -> bool:
    return current is not None and (current.own, current.state) == (prepared.own, prepared.state)


def _is_still_open(opened: TransactionMetadata, current: TransactionMetadata | None) -> bool:
    """The same transaction, and nobody has decided its end."""
    return (
        current is not None
        and current.state is TransactionState.ONGOING
        and current.start_timestamp_ms == opened.start_timestamp_ms
    )


def _producer(decided: TransactionMetadata | None) -> ProducerIdAndEpoch:
    return NO_PRODUCER if decided is None else decided.producer


def _initialized(decided: TransactionMetadata | None) -> InitializedProducer:
    is_kept = decided is not None and decided.is_taken_over and decided.state is TransactionState.ONGOING
    return InitializedProducer(_producer(decided), decided.own if decided is not None and is_kept else NO_PRODUCER)


def _is_concurrent(error: Exception) -> bool:
    return isinstance(error, KafkaError) and error.code is ErrorCode.CONCURRENT_TRANSACTIONS


def _failed(error: ErrorCode) -> Completion[T]:
    return Completion.failed(KafkaError(error))
