"""The transaction protocol of one transactional id (KIP-98, 360, 447, 890, 939), on the producer's side.

Owns: the state of the producer, the order of the steps of a transaction, and what each error does to it. Does not own:
the requests and the identity in them (`transaction_requests`), which partitions are in the transaction
(`transaction_partitions`), records (it is the `sender`'s gate), the context manager (`transaction`). Invariants: a
partition is written to only when it is in the transaction; the transaction protocol is chosen for a whole transaction;
once EndTxn(commit) may have been sent, only its response decides the outcome; a batch with an unknown outcome never
outlives its epoch; a prepared transaction is ended only by the producer that prepared it or by `complete`.
"""

import asyncio
from collections.abc import Mapping

from oncelog.client.producing.batch import Batch, ProducerIdentity
from oncelog.client.producing.prepared import PreparedTxnState
from oncelog.client.producing.sender import Sender
from oncelog.client.producing.transaction_partitions import TransactionPartitions
from oncelog.client.producing.transaction_requests import TransactionRequests, refusal, unanswered
from oncelog.client.producing.transaction_states import TransactionState, check_move
from oncelog.client.values.errors import (
    CommitUnknown,
    ConfigError,
    InvalidState,
    KafkaError,
    ProducerFenced,
    RequestTimedOut,
    TransactionAborted,
    UnknownTopic,
)
from oncelog.client.values.lifetime import Lifetime
from oncelog.client.values.records import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from oncelog.client.values.waiting import Deadline
from oncelog.client.wire.apis import Api
from oncelog.client.wire.cluster import PROPAGATION_MS, Cluster
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.produce_request import ProduceRequest
from oncelog.protocol.generated.produce_response import ProduceResponse

_S = TransactionState
_EXPLAIN_MS = 1_000
"""How long to wait for the coordinator to say what fenced a producer."""


class TransactionManager:
    """A `SendGate` whose identity has a transactional id."""

    def __init__(
        self,
        cluster: Cluster,
        sender: Sender,
        transactional_id: str,
        lifetime: Lifetime,
        *,
        transaction_timeout_ms: int,
        max_block_ms: float,
        delivery_timeout_ms: float,
        two_phase_commit: bool = False,
    ) -> None:
        self.transactional_id: str | None = transactional_id
        self.lifetime = lifetime
        self.state = _S.UNINITIALIZED
        self.error: KafkaError | None = None
        """The first error that failed the transaction."""
        self._id = transactional_id
        self._cluster = cluster
        self._sender = sender
        self._transaction_timeout_ms = transaction_timeout_ms
        self._max_block_ms = max_block_ms
        self._two_phase_commit = two_phase_commit
        self._requests = TransactionRequests(
            cluster,
            transactional_id,
            transaction_timeout_ms=transaction_timeout_ms,
            two_phase_commit=two_phase_commit,
        )
        self._partitions = TransactionPartitions(
            self._requests,
            delivery_timeout_ms=delivery_timeout_ms,
            retry_backoff_ms=cluster.retry_backoff_ms,
            on_added=sender.wake,
            on_failed=self.fail,
        )
        self._prepared = PreparedTxnState()
        self._has_offsets = False
        self._commit_sent = False
        self._explained: KafkaError | None = None
        self._began_at_s = 0.0
        self.begun_count = 0
        """How many transactions have begun: shows a waiting record whether its own is still open."""

    # --- SendGate -----------------------------------------------------------------------------------------------------

    @property
    def produce_api(self) -> Api[ProduceRequest, ProduceResponse]:
        return self._requests.produce_api

    def identity(self) -> ProducerIdentity | None:
        return self.producer if self.producer.is_idempotent else None

    def may_send(self, topic_partition: TopicPartition) -> bool:
        return self.may_retry() and self._partitions.may_write(topic_partition)

    def may_retry(self) -> bool:
        return self.state in (_S.OPEN, _S.COMMITTING)

    def on_failed(self, batch: Batch, error: KafkaError) -> None:
        if batch.sequence >= 0:
            self._requests.needs_new_epoch = True
        self.fail(error)

    def on_refused(self, error: KafkaError) -> None:
        """Note that a record or offsets were not taken. The transaction fails, since the caller need not look
        (KAFKA-9279); as in Kafka's producer not for what a serializer refused, which the caller may write elsewhere."""
        is_callers_mistake = isinstance(error, ConfigError) and not isinstance(error, UnknownTopic)
        if self.state is _S.OPEN and not error.fatal and not is_callers_mistake:
            self.fail(unanswered(error) if error.retriable else error)

    # --- the life of a transaction ------------------------------------------------------------------------------------

    @property
    def producer(self) -> ProducerIdentity:
        return self._requests.identity

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

    async def initialize(self, *, keeps_prepared: bool = False, deadline: Deadline | None = None) -> ProducerIdentity:
        """Fence every earlier producer of this id and end its transaction; then the epoch is ours. With
        `keeps_prepared` a prepared transaction stays open, for `complete`."""
        self._raise_if_fenced()
        if keeps_prepared and not self._two_phase_commit:
            raise _not_two_phase()
        if self.state is _S.READY and not self._requests.needs_new_epoch:
            return self.producer
        self._move(_S.INITIALIZING)
        response = None
        try:
            deadline = deadline or Deadline.after(self._max_block_ms)
            response = await self._requests.init_producer_id(deadline, keeps_prepared=keeps_prepared)
        finally:
            if response is None:
                self._requests.on_lost()
                self._move(_S.UNINITIALIZED)
        if response.error_code:
            self._move(_S.UNINITIALIZED)
            error = self.fail(refusal(response.error_code))
            await self.explain(error)
            raise error
        self._requests.adopt(ProducerIdentity(response.producer_id, response.producer_epoch))
        self._prepared = PreparedTxnState(response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch)
        self._requests.choose_protocol()
        self._move(_S.PREPARED if self._prepared.has_transaction else _S.READY)
        return self.producer

    async def regain_epoch(self) -> ProducerIdentity:
        """Ask the coordinator for an epoch after our own: it has one unless another producer took the id (KIP-360)."""
        if self.state is _S.FATAL:
            await self._partitions.settle(self._max_block_ms / 1000)
            self._sender.accumulator.abandon(TransactionAborted())
            await self._sender.settle()
            self._sender.accumulator.abandon(TransactionAborted())
            self._move(_S.UNINITIALIZED)
            self._began_at_s = asyncio.get_running_loop().time()
        return await self.initialize()

    async def make_ready(self) -> ProducerIdentity:
        """Bring the producer to where a transaction can begin. Returns the identity that the transaction will have."""
        if self.state is _S.ABORTING:
            # The last abort got no response. Our own epoch must not be bumped over an open transaction: the coordinator
            # would take that for another producer's transaction and fence us.
            await self.abort()
        if self.state is not _S.READY or self._requests.needs_new_epoch:
            if self.state not in (_S.UNINITIALIZED, _S.READY, _S.FATAL):
                hint = "call commit() on it again: it returns its outcome" if self.state is _S.COMMITTING else ""
                raise InvalidState(f"a transaction is already {self.state.value}", hint=hint)
            await self.initialize()
        return self.producer

    async def begin(self) -> None:
        await self.make_ready()
        self._requests.begin()
        self._move(_S.OPEN)
        self.begun_count += 1
        self._began_at_s = asyncio.get_running_loop().time()
        self._partitions.clear()
        self._has_offsets = False
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
        self._prepared = PreparedTxnState(self.producer.producer_id, self.producer.producer_epoch)
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
        await self._partitions.settle(self._max_block_ms / 1000)
        await sender.settle()
        sender.accumulator.abandon(TransactionAborted())
        self._requests.needs_new_epoch |= sender.accumulator.needs_new_identity
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
            if not self._requests.is_second_protocol:
                await self._add_offsets(group, deadline)
            await self._commit_offsets(offsets, group, deadline)
        except asyncio.CancelledError:
            self._requests.on_lost()
            raise

    def reconnect(self) -> None:
        """Close connections, so that waiting requests are sent again over new ones."""
        self._cluster.connections.disconnect()

    async def close(self) -> None:
        await self._partitions.close()

    # --- its steps ----------------------------------------------------------------------------------------------------

    async def _add_offsets(self, group: ConsumerGroupMetadata, deadline: Deadline) -> None:
        try:
            code = await self._requests.add_offsets(group.group_id, deadline)
        except RequestTimedOut as error:
            raise self.fail(unanswered(error)) from error
        if code:
            raise self.fail(refusal(code))

    async def _commit_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata, deadline: Deadline
    ) -> None:
        give_up = deadline.capped(PROPAGATION_MS)
        while True:
            try:
                code, place = await self._requests.commit_offsets(offsets, group, deadline)
                if not code:
                    return
                if code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise self.fail(refusal(code))
                unknown = await self._cluster.still_unknown(place, give_up)
                if unknown is not None:
                    raise self.fail(unknown)
            except RequestTimedOut as error:
                raise self.fail(unanswered(error)) from error

    async def _end(self, *, committed: bool) -> None:
        def on_lost() -> None:
            self._commit_sent |= committed

        try:
            deadline = Deadline.after(self._max_block_ms)
            response = await self._requests.end(deadline, committed=committed, on_lost=on_lost)
        except RequestTimedOut as error:
            if not committed:
                raise
            if self._commit_sent:
                raise CommitUnknown(error.message) from error
            # No coordinator was reached: nothing was decided, and the transaction may still be aborted.
            raise self.fail(unanswered(error)) from error
        if response.error_code == ErrorCode.INVALID_TXN_STATE and not committed and not self._requests.is_open_there:
            # The request that would have opened it never arrived.
            return
        if response.error_code == ErrorCode.INVALID_TXN_STATE and committed and self._requests.is_second_protocol:
            # Our epoch is accepted as the one before the present, whose transaction was aborted without us.
            raise self.fail(self._aborted_by_coordinator())
        if response.error_code:
            raise self.fail(refusal(response.error_code, commit_unknown=self._commit_sent))
        if response.producer_id >= 0:
            # Each transaction of the second protocol has an epoch of its own: nothing late can reach the next one.
            self._requests.adopt(ProducerIdentity(response.producer_id, response.producer_epoch))

    # --- failures -----------------------------------------------------------------------------------------------------

    @property
    def _touched(self) -> bool:
        return not self._partitions.is_empty or self._has_offsets or self._prepared.has_transaction

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

    async def explain(self, error: BaseException) -> None:
        """Ask the coordinator what fenced this producer, if the error is a fence of unknown cause."""
        if not isinstance(error, ProducerFenced) or error is self._explained:
            return
        from oncelog.client.producing.fencing import who_fenced

        self._explained = error
        by = await who_fenced(
            self._cluster,
            self._id,
            self.producer,
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


def _not_two_phase() -> ConfigError:
    hint = "Producer(..., transaction_two_phase_commit_enable=True)"
    return ConfigError("this producer does not take part in two-phase commit", hint=hint)
