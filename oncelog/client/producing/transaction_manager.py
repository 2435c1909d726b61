"""The transaction protocol of one transactional id (KIP-98, 360, 447, 890, 939), on the producer's side.

Owns: producer id and epoch, which partitions are in the transaction, and the requests to both coordinators. Does not
own: records (it is the `sender`'s gate), the context manager (`transaction`). Invariants: a partition is written to
only after the coordinator confirmed that it is in the transaction, or by a request that adds it (transaction.version
2, which is chosen for a whole transaction); once EndTxn(commit) may have been sent, only its response decides the
outcome; a batch with an unknown outcome never outlives its epoch; a prepared transaction is ended only by the producer
that prepared it or by `complete`.
"""

import asyncio
from collections.abc import Mapping

from oncelog.client.producing.batch import Batch, ProducerIdentity
from oncelog.client.producing.prepared import PreparedTxnState
from oncelog.client.producing.sender import Sender
from oncelog.client.producing.transaction_states import TransactionState, check_move
from oncelog.client.values.errors import (
    AbortableError,
    CommitUnknown,
    ConfigError,
    InvalidState,
    KafkaError,
    ProducerFenced,
    RequestTimedOut,
    TransactionAborted,
    UnknownTopic,
    error_for,
)
from oncelog.client.values.records import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from oncelog.client.values.waiting import Deadline
from oncelog.client.wire.apis import Api
from oncelog.client.wire.cluster import PROPAGATION_MS, Cluster, CoordinatorKind
from oncelog.client.wire.producer_apis import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    END_TXN_V1,
    INIT_PRODUCER_ID,
    INIT_TWO_PHASE_COMMIT,
    PRODUCE,
    PRODUCE_V1,
    TXN_OFFSET_COMMIT,
    TXN_OFFSET_COMMIT_V1,
)
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from oncelog.protocol.generated.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from oncelog.protocol.generated.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from oncelog.protocol.generated.end_txn_request import EndTxnRequest
from oncelog.protocol.generated.init_producer_id_request import InitProducerIdRequest
from oncelog.protocol.generated.produce_request import ProduceRequest
from oncelog.protocol.generated.produce_response import ProduceResponse
from oncelog.protocol.generated.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from oncelog.protocol.generated.txn_offset_commit_response import TxnOffsetCommitResponse

_S = TransactionState
_SECOND_PROTOCOL = 2
"""The level of the feature transaction.version that brings the second protocol (KIP-890)."""
_EXPLAIN_MS = 1_000
"""How long to wait for the coordinator to say what fenced a producer."""
_FENCED = frozenset((ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH))
_NONE = (0, TopicPartition("", -1))
_MAY_COME_LATER = frozenset(
    (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
)


class TransactionManager:
    """A `SendGate` whose identity has a transactional id."""

    def __init__(
        self,
        cluster: Cluster,
        sender: Sender,
        transactional_id: str,
        *,
        transaction_timeout_ms: int,
        max_block_ms: float,
        delivery_timeout_ms: float,
        two_phase_commit: bool = False,
    ) -> None:
        self.transactional_id: str | None = transactional_id
        self.state = _S.UNINITIALIZED
        self.error: KafkaError | None = None
        """The first error that failed the transaction."""
        self._id = transactional_id
        self._cluster = cluster
        self._sender = sender
        self._transaction_timeout_ms = transaction_timeout_ms
        self._max_block_ms = max_block_ms
        self._delivery_timeout_ms = delivery_timeout_ms
        self._two_phase_commit = two_phase_commit
        self._prepared = PreparedTxnState()
        self._identity = ProducerIdentity()
        self._added: set[TopicPartition] = set()
        self._wanted: dict[TopicPartition, None] = {}
        self._adding: asyncio.Task[None] | None = None
        self._has_offsets = False
        self._is_open_there = False
        """True once the coordinator has confirmed that something is in the transaction."""
        self._commit_sent = False
        self._needs_new_epoch = False
        self._explained: KafkaError | None = None
        self._began_at_s = 0.0
        self.begun_count = 0
        """How many transactions have begun: tells a waiting record whether its own is still open."""
        self._is_second_protocol = False

    # --- SendGate -----------------------------------------------------------------------------------------------------

    @property
    def produce_api(self) -> Api[ProduceRequest, ProduceResponse]:
        return PRODUCE if self._is_second_protocol else PRODUCE_V1

    def identity(self) -> ProducerIdentity | None:
        return self._identity if self._identity.is_idempotent else None

    def may_send(self, topic_partition: TopicPartition) -> bool:
        if topic_partition in self._added:
            return self.state in (_S.OPEN, _S.COMMITTING)
        if self._is_second_protocol:
            # The Produce request adds the partition; whether it arrived is not known when it is lost.
            if self.state not in (_S.OPEN, _S.COMMITTING):
                return False
            self._added.add(topic_partition)
            return True
        if self.state in (_S.OPEN, _S.COMMITTING):
            self._wanted[topic_partition] = None
            if self._adding is None:
                self._adding = asyncio.ensure_future(self._add_partitions())
        return False

    def may_retry(self) -> bool:
        return self.state in (_S.OPEN, _S.COMMITTING)

    def on_failed(self, batch: Batch, error: KafkaError) -> None:
        if batch.sequence >= 0:
            self._needs_new_epoch = True
        self.fail(error)

    def on_refused(self, error: KafkaError) -> None:
        """Note that a record or offsets were not taken. The transaction fails, since the caller need not look
        (KAFKA-9279); as in Kafka's producer not for what a serializer refused, which the caller may write elsewhere."""
        is_callers_mistake = isinstance(error, ConfigError) and not isinstance(error, UnknownTopic)
        if self.state is _S.OPEN and not error.fatal and not is_callers_mistake:
            self.fail(_unanswered(error) if error.retriable else error)

    # --- the life of a transaction ------------------------------------------------------------------------------------

    @property
    def producer(self) -> ProducerIdentity:
        return self._identity

    def check_open(self) -> None:
        """Raises unless records and offsets may be added now."""
        self.check_not_failed()
        if self.state is not _S.OPEN:
            raise InvalidState(
                f"the producer is {self.state.value}", hint="send inside `async with producer.transaction()`"
            )

    def check_not_failed(self) -> None:
        """Raises what the transaction, or the producer, has failed with."""
        if self.state in (_S.FAILED, _S.FATAL) and self.error is not None:
            raise self.error

    async def initialize(self, *, keeps_prepared: bool = False) -> ProducerIdentity:
        """Fence every earlier producer of this id and end its transaction; then the epoch is ours. With
        `keeps_prepared` a prepared transaction stays open, for `complete`."""
        self._raise_if_fenced()
        if keeps_prepared and not self._two_phase_commit:
            raise _not_two_phase()
        if self.state is _S.READY and not self._needs_new_epoch:
            return self._identity
        self._move(_S.INITIALIZING)
        # Sending its own epoch distinguishes a producer that continues from one that starts (KIP-360).
        current = self._identity
        request = InitProducerIdRequest(
            transactional_id=self._id,
            transaction_timeout_ms=self._transaction_timeout_ms,
            producer_id=current.producer_id,
            producer_epoch=current.producer_epoch,
            enable2_pc=self._two_phase_commit,
            keep_prepared_txn=keeps_prepared,
        )
        response = None
        try:
            response = await self._cluster.call_coordinator(
                CoordinatorKind.TRANSACTION,
                self._id,
                INIT_TWO_PHASE_COMMIT if self._two_phase_commit else INIT_PRODUCER_ID,
                request,
                Deadline.after(self._max_block_ms),
                lambda each: each.error_code,
            )
        finally:
            if response is None:
                self._needs_new_epoch = True
                self._move(_S.UNINITIALIZED)
        if response.error_code:
            self._move(_S.UNINITIALIZED)
            error = self._on_error_code(response.error_code)
            await self.explain(error)
            raise error
        self._identity = ProducerIdentity(response.producer_id, response.producer_epoch)
        self._needs_new_epoch = False
        self._prepared = PreparedTxnState(response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch)
        self._choose_protocol()
        self._move(_S.PREPARED if self._prepared.has_transaction else _S.READY)
        return self._identity

    async def regain_epoch(self) -> ProducerIdentity:
        """Ask the coordinator for an epoch after our own: it has one unless another producer took the id (KIP-360)."""
        if self.state is _S.FATAL:
            await self._stop_adding()
            self._sender.accumulator.abandon(TransactionAborted())
            await self._sender.settle()
            self._sender.accumulator.abandon(TransactionAborted())
            self._move(_S.UNINITIALIZED)
            self._began_at_s = asyncio.get_running_loop().time()
        return await self.initialize()

    async def begin(self) -> None:
        if self.state is _S.ABORTING:
            # The last abort got no response. Our own epoch must not be bumped over an open transaction: the coordinator
            # would take that for another producer's transaction and fence us.
            await self.abort()
        if self.state is not _S.READY or self._needs_new_epoch:
            if self.state not in (_S.UNINITIALIZED, _S.READY, _S.FATAL):
                hint = "call commit() on it again: it returns its outcome" if self.state is _S.COMMITTING else ""
                raise InvalidState(f"a transaction is already {self.state.value}", hint=hint)
            await self.initialize()
        self._choose_protocol()
        self._move(_S.OPEN)
        self.begun_count += 1
        self._began_at_s = asyncio.get_running_loop().time()
        self._added.clear()
        self._wanted.clear()
        self._has_offsets = False
        self._is_open_there = False
        self._commit_sent = False
        self.error = None

    async def prepare(self) -> PreparedTxnState:
        """Flush all records and accept no more. From here on only `commit`, `abort` or `complete`, in this or another
        process, ends the transaction. Raises the first error of an undelivered record."""
        if not self._two_phase_commit:
            raise _not_two_phase()
        self.check_open()
        await self._sender.drain()
        self.check_open()
        self._move(_S.PREPARED)
        self._prepared = PreparedTxnState(self._identity.producer_id, self._identity.producer_epoch)
        return self._prepared

    async def complete(self, prepared: PreparedTxnState) -> str:
        """Commit the prepared transaction if its state is the one the external coordinator stored, else abort it;
        returns "committed", "aborted", or "none" if nothing is prepared."""
        if self.state is _S.UNINITIALIZED:
            await self.initialize(keeps_prepared=True)
        if self.state is _S.READY:
            return "none"
        if self.state is _S.COMMITTING or (self.state is _S.PREPARED and self._prepared == prepared):
            await self.commit()
            return "committed"
        if self.state not in (_S.PREPARED, _S.ABORTING):
            self.check_open()
            raise InvalidState("the transaction is open: prepare it first")
        await self.abort()
        return "aborted"

    async def commit(self) -> None:
        """Flush all records, then EndTxn. Raises the first error of an undelivered record, before sending EndTxn.

        CommitUnknown: call it again. A transaction that touched nothing sends nothing.
        """
        self._raise_if_fenced()
        if self.state is _S.FAILED and self.error is not None:
            raise self.error
        if self.state is _S.OPEN:
            await self._sender.drain()
            self.check_open()
        if self.state is _S.PREPARED:
            self._commit_sent = True  # the decision was made externally: even without a response there is no way back
        self._move(_S.COMMITTING)
        if self._touched:
            await self._end(committed=True)
        self._on_ended()

    async def abort(self) -> None:
        """Drop unsent batches, wait for those in flight, then EndTxn. Raises fatal errors, and RequestTimedOut; in that
        case the next transaction first aborts this one, or the coordinator's timeout does."""
        self._raise_if_fenced()
        if self.state is _S.COMMITTING:
            raise InvalidState("a commit was sent and may have succeeded: call commit() again for its outcome")
        self._move(_S.ABORTING)
        sender = self._sender
        sender.accumulator.abandon(TransactionAborted())
        await self._stop_adding()
        await sender.settle()
        sender.accumulator.abandon(TransactionAborted())
        self._needs_new_epoch |= sender.accumulator.needs_new_identity
        if self._touched:
            await self._end(committed=False)
        self._on_ended()

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> None:
        """Add the group's offsets to the transaction: they become visible when it commits (KIP-447)."""
        self.check_open()
        if not offsets:
            return
        self._has_offsets = True
        deadline = Deadline.after(self._max_block_ms)
        try:
            if not self._is_second_protocol:
                await self._add_offsets(group, deadline)
            await self._commit_offsets(offsets, group, deadline)
        except asyncio.CancelledError:
            self._on_lost()
            raise

    def reconnect(self) -> None:
        """Close connections, so that waiting requests are sent again over new ones."""
        self._cluster.disconnect()

    async def close(self) -> None:
        if self._adding is not None:
            self._adding.cancel()
            await asyncio.gather(self._adding, return_exceptions=True)

    # --- requests -----------------------------------------------------------------------------------------------------

    def _choose_protocol(self) -> None:
        self._is_second_protocol = self._cluster.features.get("transaction.version", 0) >= _SECOND_PROTOCOL

    async def _add_offsets(self, group: ConsumerGroupMetadata, deadline: Deadline) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self._id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.producer_epoch,
            group_id=group.group_id,
        )
        try:
            added = await self._cluster.call_coordinator(
                CoordinatorKind.TRANSACTION,
                self._id,
                ADD_OFFSETS_TO_TXN,
                request,
                deadline,
                lambda each: each.error_code,
                on_lost=self._on_lost,
            )
        except RequestTimedOut as error:
            raise self.fail(_unanswered(error)) from error
        if added.error_code:
            raise self._on_error_code(added.error_code)
        self._is_open_there = True

    async def _commit_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata, deadline: Deadline
    ) -> None:
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, partition), offset in offsets.items():
            part = TxnOffsetCommitRequestPartition(partition, offset.offset, offset.leader_epoch, offset.metadata)
            topics.setdefault(topic, []).append(part)
        request = TxnOffsetCommitRequest(
            transactional_id=self._id,
            group_id=group.group_id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.producer_epoch,
            generation_id=group.generation_id,
            member_id=group.member_id,
            group_instance_id=group.group_instance_id,
            topics=[TxnOffsetCommitRequestTopic(name, parts) for name, parts in topics.items()],
        )
        give_up = deadline.capped(PROPAGATION_MS)
        while True:
            try:
                response = await self._cluster.call_coordinator(
                    CoordinatorKind.GROUP,
                    group.group_id,
                    TXN_OFFSET_COMMIT if self._is_second_protocol else TXN_OFFSET_COMMIT_V1,
                    request,
                    deadline,
                    lambda each: _refused_offset(each)[0],
                    on_lost=self._on_lost,
                )
                code, place = _refused_offset(response)
                if not code:
                    return
                if code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise self._on_error_code(code)
                unknown = await self._cluster.still_unknown(place, give_up)
                if unknown is not None:
                    raise self.fail(unknown)
            except RequestTimedOut as error:
                raise self.fail(_unanswered(error)) from error

    async def _add_partitions(self) -> None:
        deadline = Deadline.after(self._delivery_timeout_ms)
        try:
            while self._wanted:
                wanted = list(self._wanted)
                topics: dict[str, list[int]] = {}
                for topic, partition in wanted:
                    topics.setdefault(topic, []).append(partition)
                request = AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id=self._id,
                    v3_and_below_producer_id=self._identity.producer_id,
                    v3_and_below_producer_epoch=self._identity.producer_epoch,
                    v3_and_below_topics=[AddPartitionsToTxnTopic(name, parts) for name, parts in topics.items()],
                )
                response = await self._cluster.call_coordinator(
                    CoordinatorKind.TRANSACTION,
                    self._id,
                    ADD_PARTITIONS_TO_TXN,
                    request,
                    deadline,
                    _add_partitions_error,
                    on_lost=self._on_lost,
                )
                code = _add_partitions_error(response)
                if code in _MAY_COME_LATER:
                    await deadline.pause(self._cluster.retry_backoff_ms, "ADD_PARTITIONS_TO_TXN", error_for(code))
                elif code:
                    self._on_error_code(code)
                    return
                else:
                    for each in wanted:
                        del self._wanted[each]
                    self._added.update(wanted)
                    self._is_open_there = True
                    self._sender.wake()
        except KafkaError as error:
            self.fail(_unanswered(error) if error.retriable else error)
        finally:
            self._adding = None

    async def _stop_adding(self) -> None:
        """Wait for a pending AddPartitions response for a limited time, since it may open the transaction."""
        adding = self._adding
        if adding is None:
            return
        asked = list(self._wanted)
        await asyncio.wait((adding,), timeout=self._max_block_ms / 1000)
        if not adding.done():
            adding.cancel()
            await asyncio.gather(adding, return_exceptions=True)
            self._added.update(asked)
            self._on_lost()

    def _on_lost(self) -> None:
        """Note that a request got no response: should it still arrive, it must not reach the next transaction."""
        self._needs_new_epoch = True

    async def _end(self, *, committed: bool) -> None:
        request = EndTxnRequest(self._id, self._identity.producer_id, self._identity.producer_epoch, committed)

        def on_lost() -> None:
            self._commit_sent |= committed
            self._on_lost()

        try:
            response = await self._cluster.call_coordinator(
                CoordinatorKind.TRANSACTION,
                self._id,
                END_TXN if self._is_second_protocol else END_TXN_V1,
                request,
                Deadline.after(self._max_block_ms),
                lambda each: each.error_code,
                on_lost=on_lost,
            )
        except RequestTimedOut as error:
            if not committed:
                raise
            if self._commit_sent:
                raise CommitUnknown(error.message) from error
            # No coordinator was reached: nothing was decided, and the transaction may still be aborted.
            raise self.fail(_unanswered(error)) from error
        if response.error_code == ErrorCode.INVALID_TXN_STATE and not committed and not self._is_open_there:
            # The request that would have opened it never arrived.
            return
        if response.error_code == ErrorCode.INVALID_TXN_STATE and committed and self._is_second_protocol:
            # Our epoch is accepted as the one before the present, whose transaction was aborted without us.
            raise self.fail(self._aborted_by_coordinator())
        if response.error_code:
            raise self._on_error_code(response.error_code, commit_unknown=self._commit_sent)
        if response.producer_id >= 0:
            # Each transaction of the second protocol has an epoch of its own: nothing late can reach the next one.
            self._identity = ProducerIdentity(response.producer_id, response.producer_epoch)
            self._needs_new_epoch = False

    # --- failures -----------------------------------------------------------------------------------------------------

    @property
    def _touched(self) -> bool:
        return bool(self._added) or self._has_offsets or self._prepared.has_transaction

    def _on_ended(self) -> None:
        self._prepared = PreparedTxnState()
        self._commit_sent = False
        self._move(_S.READY)

    def _move(self, target: TransactionState) -> None:
        check_move(self.state, target)
        self.state = target

    def _raise_if_fenced(self) -> None:
        if self.state is _S.FATAL and self.error is not None:
            raise self.error

    def _on_error_code(self, code: int, *, commit_unknown: bool = False) -> KafkaError:
        """The error for a coordinator's error code, after updating the state."""
        error = error_for(code)
        if code in _FENCED:
            error = ProducerFenced(code=error.code, commit_unknown=commit_unknown)
        elif error.retriable:
            error = AbortableError(code=error.code)
        return self.fail(error)

    async def explain(self, error: BaseException) -> None:
        """Ask the coordinator what fenced this producer, if the error is a fence of unknown cause."""
        if not isinstance(error, ProducerFenced) or error is self._explained:
            return
        from oncelog.client.producing.fencing import who_fenced

        self._explained = error
        by = await who_fenced(
            self._cluster,
            self._id,
            self._identity,
            is_overdue=self._is_overdue,
            deadline=Deadline.after(min(self._max_block_ms, _EXPLAIN_MS)),
        )
        if by != "unknown":
            error._attribute_to(by)

    @property
    def _is_overdue(self) -> bool:
        return (asyncio.get_running_loop().time() - self._began_at_s) * 1000 >= self._transaction_timeout_ms

    def _aborted_by_coordinator(self) -> ProducerFenced:
        return ProducerFenced(
            f"the coordinator has aborted the transaction: it timed out (transaction_timeout_ms is "
            f"{self._transaction_timeout_ms}), or another producer of this id is starting",
            code=ErrorCode.INVALID_TXN_STATE,
            by="timeout" if self._is_overdue else "unknown",
            hint="nothing of it was committed: make shorter transactions, or raise transaction_timeout_ms",
        )

    def fail(self, error: KafkaError) -> KafkaError:
        """Fatal errors end the producer, others the transaction; returns the first error."""
        if error.fatal:
            if self.state is not _S.FATAL:
                self.error = error
                self._move(_S.FATAL)
        elif self.state in (_S.OPEN, _S.COMMITTING) and not self._commit_sent:
            self.error = error
            self._move(_S.FAILED)
        if self.state in (_S.FAILED, _S.FATAL):
            self._sender.accumulator.abandon(self.error or error)
        return self.error or error


def _unanswered(error: KafkaError) -> AbortableError:
    """No answer came in time: the transaction has failed, and the next one may well succeed."""
    return AbortableError(error.message, code=error.code or ErrorCode.REQUEST_TIMED_OUT)


def _not_two_phase() -> ConfigError:
    hint = "Producer(..., transaction_two_phase_commit_enable=True)"
    return ConfigError("this producer does not take part in two-phase commit", hint=hint)


def _add_partitions_error(response: AddPartitionsToTxnResponse) -> int:
    """The error that caused the rejection: the other partitions have OPERATION_NOT_ATTEMPTED."""
    codes = [
        partition.partition_error_code
        for topic in response.results_by_topic_v3_and_below
        for partition in topic.results_by_partition
    ]
    return next((code for code in codes if code not in (ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED)), 0)


def _refused_offset(response: TxnOffsetCommitResponse) -> tuple[int, TopicPartition]:
    """The first error code, and the partition that it is about."""
    parts = [(topic.name, each) for topic in response.topics for each in topic.partitions if each.error_code]
    return (parts[0][1].error_code, TopicPartition(parts[0][0], parts[0][1].partition_index)) if parts else _NONE
