"""The transaction coordinator: checks each request, then decides and logs it in the turn in which it arrives.

Owns: the checks of requests, how a decision is logged, transaction timeouts, expiry of transactional ids. Does not own:
decisions, which are pure functions (`begin_decisions`, `end_decisions`); the volatile state of each partition of
`__transaction_state` (`shard_life`); which of them this node coordinates (`broker.coordinator.runtime`).
Invariant: a decision reads only the state of an active partition, and is logged in the same turn.

A request's transaction version follows from the version of its API, as in Kafka; `transaction_version`, the finalized
feature level, applies to aborts that the coordinator starts itself.
KIPs: 98, 360, 447, 588, 664, 890, 939.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Never, Protocol, TypeVar

from oncelog.broker.apis.table import TRANSACTION_V2
from oncelog.broker.coordinator.runtime import CoordinatorRuntime, WriteResult
from oncelog.broker.coordinator.transaction.begin_decisions import (
    prepare_add_partitions,
    prepare_init_producer_id,
    verify_partition,
)
from oncelog.broker.coordinator.transaction.dependencies import TransactionDependencies
from oncelog.broker.coordinator.transaction.end_decisions import (
    prepare_abort_by_coordinator,
    prepare_end_transaction_v1,
    prepare_end_transaction_v2,
)
from oncelog.broker.coordinator.transaction.metadata import (
    EXHAUSTED_PRODUCER_EPOCH,
    NO_PRODUCER,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMEOUT_MS,
    NOTHING_TO_DO,
    Decision,
    ProducerIdAndEpoch,
    TopicPartition,
    TransactionMetadata,
    check_step,
    refuse,
)
from oncelog.broker.coordinator.transaction.states import AT_REST, PREPARED, TransactionState
from oncelog.broker.turns.completion import Completion, all_of
from oncelog.broker.turns.schedule import Schedule
from oncelog.protocol.errors import ErrorCode, KafkaError

ADD_RETRY_BACKOFF_MS = 20
ADD_RETRY_MAX_MS = 100
"""Kafka's add.partitions.to.txn.retry.backoff.ms and .max.ms."""

if TYPE_CHECKING:
    from oncelog.broker.coordinator.transaction.shard_life import TransactionShardLife, TransactionStatus

_NONE_YET: frozenset[TopicPartition] = frozenset()

T = TypeVar("T")
Decide = Callable[[TransactionMetadata | None, bool, int | None], Decision]
"""(metadata, is pending, a fresh producer id if one was requested) → decision."""


class ProducerIds(Protocol):
    """`producer_ids.ProducerIdManager`."""

    def next_id(self) -> Completion[int]: ...

    def skip_to(self, producer_id: int) -> None: ...

    def is_from_before(self, producer_id: int) -> bool: ...


@dataclass(frozen=True, slots=True)
class InitializedProducer:
    """The answer of InitProducerId: the next producer id and epoch, and those of an open transaction it took over."""

    producer: ProducerIdAndEpoch
    ongoing: ProducerIdAndEpoch


class TransactionCoordinator:
    def __init__(
        self,
        runtime: "CoordinatorRuntime[TransactionShardLife]",
        producer_ids: ProducerIds,
        dependencies: TransactionDependencies,
    ) -> None:
        self._runtime = runtime
        self._producer_ids = producer_ids
        self._dependencies = dependencies
        self._clock = dependencies.clock
        self._scheduler = dependencies.scheduler
        self._limits = dependencies.limits
        self._listener = dependencies.listener
        self._transaction_version = dependencies.transaction_version
        self._expiry = Schedule(dependencies.clock)

    def make_shard(self, partition: int, epoch: int) -> "TransactionShardLife":
        """Make the shard of one life of a partition (`CoordinatorRuntime`). Its module is imported on first use, as for
        groups: by an API that needs it (`broker.requests.dispatch`), or by records found in the log."""
        from oncelog.broker.coordinator.transaction.shard_life import TransactionShardLife

        return TransactionShardLife(partition, epoch, self._dependencies, self._runtime.append, self._on_timeout)

    # --- requests -----------------------------------------------------------------------------------------------------

    def init_producer_id(
        self,
        transactional_id: str | None,
        timeout_ms: int,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
    ) -> Completion[ProducerIdAndEpoch]:
        """Return a producer id and epoch; fails with KafkaError. A null id is a plain idempotent producer, without
        state."""
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
        """Do as `init_producer_id` with the options of two-phase commit (KIP-939): `enables` requests transactions
        without a timeout, `keeps_prepared` leaves the open transaction for this instance to end."""
        if transactional_id == "" or (producer_id == NO_PRODUCER_ID) != (producer_epoch == NO_PRODUCER_EPOCH):
            return _failure(ErrorCode.INVALID_REQUEST)
        if transactional_id is None:
            return self._producer_ids.next_id().map(
                lambda fresh: InitializedProducer(ProducerIdAndEpoch(fresh, 0), NO_PRODUCER)
            )
        if enables and not self._limits.two_phase_commit:
            return _failure(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if keeps_prepared and not (self._limits.two_phase_commit and self._limits.compatibility.keeps_prepared):
            return _failure(ErrorCode.UNSUPPORTED_VERSION)
        if not enables and not 0 < timeout_ms <= self._limits.max_timeout_ms:
            return _failure(ErrorCode.INVALID_TRANSACTION_TIMEOUT)

        def decide(metadata: "TransactionMetadata | None", is_pending: bool, fresh: "int | None") -> Decision:
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
                is_from_before=metadata is not None and self._producer_ids.is_from_before(metadata.producer_id),
            )

        return self._transition(transactional_id, decide, _to_initialized_producer)

    def add_partitions(
        self,
        transactional_id: str | None,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
        *,
        transaction_version: int = 0,
    ) -> Completion[ProducerIdAndEpoch]:
        """Add partitions to the open transaction, or open one. Completes once a kill cannot undo it: the sync runs
        while the client prepares its batch. A power cut before that can only lose an addition of which no batch was
        answered."""
        if not transactional_id:
            return _failure(ErrorCode.INVALID_REQUEST)
        if self._producer_ids.is_from_before(producer_id):
            return _failure(ErrorCode.PRODUCER_FENCED)
        decide = partial(self._prepare_add, producer_id, producer_epoch, frozenset(partitions), transaction_version)
        return self._transition(
            transactional_id, decide, _producer, may_answer_ahead=partial(self._dependencies.answer_ahead, 0)
        )

    def add_partitions_implicitly(
        self, transactional_id: str | None, producer_id: int, producer_epoch: int, partitions: Iterable[TopicPartition]
    ) -> Completion[ProducerIdAndEpoch]:
        """The implicit add of Produce v12 and TxnOffsetCommit v5. Where rounds are whole it completes once appended,
        usually at once: what the caller appends then is durable with it. The caller must call `verify_partitions` in
        the turn of its append.

        The previous transaction may still be completing. This waits for it briefly, as a version 2 client does not
        expect CONCURRENT_TRANSACTIONS here.
        """
        if not transactional_id:
            return _failure(ErrorCode.INVALID_REQUEST)
        if self._producer_ids.is_from_before(producer_id):
            return _failure(ErrorCode.PRODUCER_FENCED)
        answer: Completion[ProducerIdAndEpoch] = Completion()

        decide = partial(self._prepare_add, producer_id, producer_epoch, frozenset(partitions), TRANSACTION_V2)
        may_answer_ahead = self._dependencies.rounds_are_whole

        def attempt(add: "Callable[..., None]", waited_ms: int) -> None:  # a reference to itself would be a cycle
            def on_done(done: "Completion[ProducerIdAndEpoch]") -> None:
                error = done.error
                if error is None:
                    answer.complete(done.result())
                elif _is_concurrent(error) and waited_ms < ADD_RETRY_MAX_MS:
                    self._scheduler.call_later(ADD_RETRY_BACKOFF_MS, lambda: add(add, waited_ms + ADD_RETRY_BACKOFF_MS))
                else:
                    answer.fail(error)

            self._transition(transactional_id, decide, _producer, may_answer_ahead=may_answer_ahead).then(on_done)

        attempt(attempt, 0)
        return answer

    def _prepare_add(
        self,
        producer_id: int,
        producer_epoch: int,
        wanted: frozenset[TopicPartition],
        transaction_version: int,
        metadata: "TransactionMetadata | None",
        is_pending: bool,
        _: "int | None",
    ) -> Decision:
        return prepare_add_partitions(
            metadata,
            producer_id,
            producer_epoch,
            wanted,
            is_pending=is_pending,
            transaction_version=transaction_version,
            wall_ms=self._clock.wall_ms(),
        )

    def end_transaction(
        self,
        transactional_id: str | None,
        producer_id: int,
        producer_epoch: int,
        committed: bool,
        *,
        transaction_version: int = 0,
    ) -> Completion[ProducerIdAndEpoch]:
        """Completes once PREPARE is durable: from then on the outcome is fixed. The markers and COMPLETE are durable
        too, if all partitions could be written at once; otherwise they follow without a request.

        Returns the producer id and epoch to use next; version 2 always changes them.
        """
        if not transactional_id:
            return _failure(ErrorCode.INVALID_REQUEST)
        if self._producer_ids.is_from_before(producer_id):
            # The outcome that it was given may be lost, and the end of an earlier transaction is not that of this one.
            return _failure(ErrorCode.PRODUCER_FENCED)

        def decide(metadata: "TransactionMetadata | None", is_pending: bool, fresh: "int | None") -> Decision:
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

        return self._transition(transactional_id, decide, _producer)

    def answer_ahead(self, transactional_id: str, append_count: int) -> bool:
        """Whether what this transaction has appended last, that many batches, may be answered now, since a kill cannot
        undo it: nothing of it counts before the end, which is durable after all of it. A power cut may undo what was
        answered; then the transaction is aborted and its producer fenced (`shard_life`)."""
        try:
            life = self._runtime.shard(transactional_id)
        except KafkaError:
            return False
        return life.may_answer_ahead(transactional_id) and self._dependencies.answer_ahead(append_count)

    def verify_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
        *,
        is_other_node: bool = False,
    ) -> ErrorCode:
        """Return NONE or why the batch is rejected, in the turn of a transactional append (KIP-890, part 1). Where the
        batch does not share its rounds with the addition, as on `is_other_node`, that must be durable."""
        if self._producer_ids.is_from_before(producer_id):
            return ErrorCode.PRODUCER_FENCED
        try:
            life = self._runtime.shard(transactional_id)
        except KafkaError as error:
            return error.code
        metadata = life.get(transactional_id)
        is_together = not is_other_node and self._dependencies.rounds_are_whole()
        not_durable = _NONE_YET if is_together else life.not_durable.get(transactional_id, _NONE_YET)
        is_pending = transactional_id in life.pending
        for partition in partitions:
            error_code = verify_partition(
                metadata, producer_id, producer_epoch, partition, not_durable, is_pending=is_pending
            )
            if error_code:
                return error_code
        return ErrorCode.NONE

    def owns_producer(self, transactional_id: str, producer_id: int) -> bool:
        """Whether the producer id is, was just now, or will be that of the transactional id. Raises KafkaError."""
        metadata = self._runtime.shard(transactional_id).get(transactional_id)
        return metadata is not None and producer_id in (
            metadata.producer_id,
            metadata.previous_producer_id,
            metadata.next_producer_id,
        )

    # --- looking ------------------------------------------------------------------------------------------------------

    @property
    def open_count(self) -> int:
        """The number of transactions that are open or ending."""
        return sum(
            metadata.state is TransactionState.ONGOING or metadata.state in PREPARED
            for life in self._runtime.shards()
            for metadata in life.all()
        )

    def describe(self, transactional_id: str) -> Completion[TransactionMetadata]:
        """Return the metadata of an id, once durable; a prepared transaction lists the partitions that lack their
        marker."""
        if not transactional_id:
            return Completion.failed(KafkaError(ErrorCode.INVALID_REQUEST))

        def look(life: "TransactionShardLife") -> TransactionMetadata:
            metadata = life.get(transactional_id)
            if metadata is None:
                raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
            left = life.delivery.left(transactional_id) if metadata.state in PREPARED else None
            return metadata if left is None else metadata._replace(partitions=frozenset(left))

        return self._runtime.read(transactional_id, look)

    def list_all(self) -> Completion[list[TransactionMetadata]]:
        """Return every transactional id of this node, once durable. Fails while a log is being replayed."""
        shown: list[Completion[list[TransactionMetadata]]] = []
        try:
            self._runtime.check_loaded()
        except KafkaError as error:
            return Completion.failed(error)
        for life in self._runtime.shards():
            first = next(iter(life.all()), None)
            if first is not None:
                shown.append(self._runtime.read(first.transactional_id, lambda life: list(life.all())))
        return all_of(shown).map(lambda lists: [metadata for some in lists for metadata in some])

    def all(self) -> Iterator[TransactionMetadata]:
        """Yield the metadata of each id as of the turn of its partition, durable or not, however long the walk takes:
        for observers, never for a response to a client."""
        for life in self._runtime.shards():
            yield from list(life.all())

    def current(self) -> "Iterator[TransactionStatus]":
        """Yield every transactional id as of this turn, durable or not: for observers, never for a response to a
        client."""
        for life in self._runtime.shards():
            yield from life.statuses()

    def move_epoch_on(self, transactional_id: str, producer_epoch: int) -> Completion[None]:
        """Advance the epoch of an id with no open transaction, as that many new instances would, to test how epochs
        run out. Fails with KafkaError."""

        def operation(life: "TransactionShardLife") -> WriteResult[None]:
            metadata = life.get(transactional_id)
            if metadata is None:
                raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
            if transactional_id in life.pending or metadata.state is TransactionState.ONGOING:
                raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
            if not metadata.producer_epoch < producer_epoch <= EXHAUSTED_PRODUCER_EPOCH:
                text = f"the epoch is {metadata.producer_epoch}, the last one assigned is {EXHAUSTED_PRODUCER_EPOCH}"
                raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, text)
            life.last_producer_epochs.pop(transactional_id, None)
            moved = metadata._replace(producer_epoch=producer_epoch)
            return WriteResult((life.record(moved),), None)

        return self._runtime.write(transactional_id, operation)

    def skip_producer_ids_to(self, producer_id: int) -> None:
        """Assign no producer id below this one."""
        self._producer_ids.skip_to(producer_id)

    # --- background ---------------------------------------------------------------------------------------------------

    def check_nothing_open(self) -> None:
        """Raises KafkaError while a transaction is open or ending: deleting `__transaction_state` would leave it open
        in its partitions for ever, and block their read_committed readers."""
        self._runtime.check_complete()
        for life in self._runtime.shards():
            for metadata in life.all():
                if metadata.state not in AT_REST or metadata.transactional_id in life.pending:
                    message = f"{metadata.transactional_id!r} has a transaction open; it must end first"
                    raise KafkaError(ErrorCode.INVALID_REQUEST, message)

    def step(self) -> None:
        """Expire transactional ids that were idle for transactional.id.expiration.ms (never an open transaction).

        If the last update lies in the future, the expiration counts from that time, as in Kafka."""
        if self._expiry.take(self._limits.expiry_interval_ms):
            wall_ms = self._clock.wall_ms()
            for life in self._runtime.shards():
                life.expire(wall_ms, self._limits.id_expiration_ms)

    def when_aborted(self) -> Completion[int]:
        """Complete with the number of transactions that a power cut may have torn, once all are aborted durably."""
        aborting = [aborted for life in self._runtime.shards() for aborted in life.aborting]
        return all_of(aborting).map(sum)

    def _on_timeout(self, life: "TransactionShardLife", opened: TransactionMetadata) -> None:
        """Abort an abandoned transaction; wait for a transition in flight, and yield to an end that came first."""
        transactional_id = opened.transactional_id

        def decide(metadata: "TransactionMetadata | None", is_pending: bool, fresh: "int | None") -> Decision:
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

        def on_done(done: "Completion[ProducerIdAndEpoch]") -> None:
            # By the time the refusal is durable, its transaction may have ended and the next one begun.
            if done.error is None:
                return
            # Once this node has lost the partition, or its topic is deleted, the abort is the next coordinator's.
            if not life.has_resigned and _is_still_open(opened, life.get(transactional_id)):
                life.timeouts.retry(opened)

        self._transition(transactional_id, decide, _producer).then(on_done)

    # --- transitions --------------------------------------------------------------------------------------------------

    def _transition(
        self,
        transactional_id: str,
        decide: Decide,
        to_answer: Callable[[TransactionMetadata | None], T],
        fresh_producer_id: int | None = None,
        *,
        may_answer_ahead: Callable[[], bool] | None = None,
    ) -> Completion[T]:
        """Decide and log in this turn; return what `to_answer` makes of the metadata, or KafkaError, once all it
        depends on is durable, or at once if `may_answer_ahead()` after the append."""
        decision = NOTHING_TO_DO
        current: TransactionMetadata | None = None
        life: "TransactionShardLife | None" = None

        def operation(found: "TransactionShardLife") -> "WriteResult[T]":
            nonlocal decision, current, life
            life, current = found, found.current(transactional_id)
            decision = decide(current, found.is_blocked(transactional_id), fresh_producer_id)
            target = decision.target
            if target is None:
                return WriteResult((), to_answer(current))
            check_step(current, target)
            return WriteResult((found.record(target),), to_answer(target))

        written = self._runtime.write(transactional_id, operation)
        if decision.needs_producer_id:
            return self._producer_ids.next_id().flat_map(
                lambda fresh: self._transition(
                    transactional_id, decide, to_answer, fresh, may_answer_ahead=may_answer_ahead
                )
            )
        if decision.target is not None and life is not None and written.error is None:
            life.on_logged(current, decision.target, written)
        if decision.error:
            return written.map(lambda _: self._refuse(transactional_id, decision.error))
        if may_answer_ahead is not None and written.error is None and may_answer_ahead():
            return Completion.of(to_answer(decision.target or current))
        return written

    def _refuse(self, transactional_id: str, error: ErrorCode) -> Never:
        if error is ErrorCode.PRODUCER_FENCED:
            self._listener.on_fenced(transactional_id, error)
        raise KafkaError(error)


def _is_still_open(opened: TransactionMetadata, current: TransactionMetadata | None) -> bool:
    """Whether it is the same transaction, and no end is decided yet."""
    return (
        current is not None
        and current.state is TransactionState.ONGOING
        and current.start_timestamp_ms == opened.start_timestamp_ms
    )


def _producer(decided: TransactionMetadata | None) -> ProducerIdAndEpoch:
    return NO_PRODUCER if decided is None else decided.producer


def _to_initialized_producer(decided: TransactionMetadata | None) -> InitializedProducer:
    is_kept = decided is not None and decided.is_taken_over and decided.state is TransactionState.ONGOING
    return InitializedProducer(_producer(decided), decided.own if decided is not None and is_kept else NO_PRODUCER)


def _is_concurrent(error: Exception) -> bool:
    return isinstance(error, KafkaError) and error.code is ErrorCode.CONCURRENT_TRANSACTIONS


def _failure(error: ErrorCode) -> Completion[T]:
    return Completion.failed(KafkaError(error))
