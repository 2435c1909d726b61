"""The producer: takes records, returns deliveries; transactions are context managers.

Owns: settings, waiting for metadata and for buffer space. Does not own: what a record needs (`intake`), batches
(`accumulator`), sending (`sender`), identity (`idempotence`, `transaction_manager`). Invariant: every call has a
deadline (max.block.ms, delivery.timeout.ms), and close() always returns; a record that is not written is reported by
its delivery, its transaction, a flush, the end of the block or the log of a close.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Generic, Self, Unpack, cast

from oncelog.client.options.hooks import before_send, on_outcome
from oncelog.client.options.option_types import ProducerOptions
from oncelog.client.options.serializers import serializing
from oncelog.client.options.settings import ProducerSettings
from oncelog.client.producing.accumulator import Accumulator
from oncelog.client.producing.batch import Batch, Delivery, ProducerIdentity
from oncelog.client.producing.idempotence import IdempotentGate, PlainGate
from oncelog.client.producing.intake import Intake
from oncelog.client.producing.prepared import PreparedTxnState
from oncelog.client.producing.sender import Sender, SendGate
from oncelog.client.producing.transaction import Transaction, to_the_end
from oncelog.client.producing.transaction_manager import TransactionManager
from oncelog.client.producing.transaction_states import TransactionState
from oncelog.client.values.arguments import check_milliseconds, check_record_options, check_topic
from oncelog.client.values.errors import (
    ConfigError,
    InvalidState,
    KafkaError,
    QueueFull,
    RequestTimedOut,
    check_options,
    raise_for,
)
from oncelog.client.values.lifetime import Lifetime
from oncelog.client.values.option_values import lists_options
from oncelog.client.values.records import Headers, K, ProducerRecord, RecordMetadata, RecordOptions, TopicPartition, V
from oncelog.client.values.waiting import Deadline, resolve
from oncelog.client.wire.cluster import Cluster
from oncelog.client.wire.security import security_of
from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.records.batch import MAGIC, NO_PRODUCER_ID, check_crc, read_header

_MOST_UNSEEN = 1_000
"""The most failed batches whose errors are kept for `flush`, which raises the first."""
_log = logging.getLogger("oncelog.client")


@lists_options(ProducerSettings)
class Producer(Generic[K, V]):
    """Sends records, idempotently by default, and in transactions if it has a `transactional_id`.

        async with Producer("host:9092", linger_ms=20) as producer:
            metadata = await producer.send("topic", b"value", key=b"key")   # waits for the acknowledgement
            delivery = await producer.send_soon("topic", b"value")          # buffers; await the delivery later
            metadata = await delivery

    `ProducerSettings` lists the options; they have Kafka's names and, where that is safe, its defaults. Bad options
    raise ConfigError at once. Entering the block connects: it raises ConnectionLost if nothing accepts a connection for
    `bootstrap_timeout_ms`, and RequestTimedOut if what does responds to nothing for `max_block_ms`. With a
    `transactional_id` it also fences the producer before this one and aborts what that left open, and raises as
    `init_transactions`. Leaving the block delivers what is buffered, and raises as `flush` does; after an exception it
    closes at once. Every method raises InvalidState outside the block, and outside the event loop that opened it.

    Keys and values are bytes, or what `key_serializer` and `value_serializer` take:

        async with Producer("host:9092", key_serializer=STRING, value_serializer=JSON) as producer:
            await producer.send("topic", {"total": 42}, key="customer-7")
    """

    def __init__(
        self, bootstrap_servers: str | Sequence[str] = "localhost:9092", **options: Unpack[ProducerOptions[K, V]]
    ) -> None:
        check_options("Producer", ProducerSettings, options)
        settings = self._settings = ProducerSettings(**options)
        self._cluster = Cluster(
            bootstrap_servers,
            client_id=settings.client_id,
            request_timeout_ms=min(settings.request_timeout_ms, settings.delivery_timeout_ms),
            retry_backoff_ms=settings.retry_backoff_ms,
            security=security_of(settings),
            creates_topics=_creates_topics,
        )
        self._serialized: Callable[[ProducerRecord[K, V]], ProducerRecord] | None = serializing(
            settings.key_serializer, settings.value_serializer
        )
        self._on_acknowledgement = settings.on_acknowledgement
        hooks = settings.on_send, settings.on_acknowledgement, self._serialized
        self._is_plain = hooks == (None, None, None)
        self._room_waiters: deque[asyncio.Future[None]] = deque()
        self._unseen_failures: list[Batch] = []
        self._accumulator: Accumulator | None = None
        self._intake: Intake | None = None
        self._sender: Sender | None = None
        self._manager: TransactionManager | None = None
        self._gate: IdempotentGate | None = None
        self._closed = False
        self._lifetime = Lifetime("Producer")

    # --- life ---------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self._sender is not None or self._closed:
            raise InvalidState("a producer can be opened only once")
        self._lifetime.open()
        settings = self._settings
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self.close, 0)
            deadline = Deadline.after(settings.max_block_ms)
            await self._cluster.bootstrap(deadline, settings.bootstrap_timeout_ms)
            self._build()
            # In a two-phase commit something may be prepared, which only the program can decide about: KIP-939.
            if self._manager is not None and not settings.transaction_two_phase_commit_enable:
                await self._manager.initialize(deadline=deadline)
            stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._close(self._settings.delivery_timeout_ms if error is None else 0)
        if error is None:
            self._raise_unseen()

    def _build(self) -> None:
        settings = self._settings
        accumulator = Accumulator(
            batch_size=settings.batch_size,
            linger_s=settings.linger_ms / 1000,
            buffer_memory_bytes=settings.buffer_memory,
            on_room=self._on_room,
        )
        self._accumulator = accumulator
        self._sender = Sender(self._cluster, accumulator, settings, self._make_gate)
        self._intake = Intake(
            self._cluster.metadata.topics,
            accumulator,
            max_record_bytes=settings.max_request_size,
            clock_s=asyncio.get_running_loop().time,
            wake=self._sender.wake,
            check_loop=self._lifetime.check_loop,
            on_failed=self._on_failed,
        )

    def _make_gate(self, sender: Sender) -> SendGate:
        settings = self._settings
        if settings.transactional_id is not None:
            self._manager = TransactionManager(
                self._cluster,
                sender,
                settings.transactional_id,
                self._lifetime,
                transaction_timeout_ms=settings.transaction_timeout_ms,
                max_block_ms=settings.max_block_ms,
                delivery_timeout_ms=settings.delivery_timeout_ms,
                two_phase_commit=settings.transaction_two_phase_commit_enable,
            )
            return self._manager
        if settings.is_idempotent:
            self._gate = IdempotentGate(self._cluster, sender)
            return self._gate
        return PlainGate()

    async def close(self, timeout_ms: float | None = None) -> None:
        """Deliver what is buffered within `timeout_ms` (default: delivery.timeout.ms), abort an open transaction, and
        disconnect. It never raises for undelivered records: their deliveries do, and what none has raised is logged.
        Leaving the `async with` block does the same, and raises it."""
        await self._close(self._settings.delivery_timeout_ms if timeout_ms is None else timeout_ms)
        lost = [batch for batch in self._unseen_failures if not batch.error_seen]
        self._unseen_failures.clear()
        if lost:
            _log.warning("%d records were not written: %s", sum(batch.record_count for batch in lost), lost[0].error)

    async def _close(self, timeout_ms: float) -> None:
        if self._closed:
            return
        self._lifetime.check_loop()
        self._closed = True
        self._lifetime.close()
        try:
            if self._sender is not None:
                await self._finish(self._sender, timeout_ms)
        finally:
            await self._cluster.close()

    async def _finish(self, sender: Sender, timeout_ms: float) -> None:
        manager = self._manager
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                if manager is None:
                    await sender.drain()
                elif manager.state in (TransactionState.OPEN, TransactionState.FAILED):
                    await manager.abort()
        except (TimeoutError, KafkaError):
            # The coordinator aborts an open transaction when it times out, so closing must not fail for it.
            pass
        finally:
            if manager is not None:
                await manager.close()
            if self._gate is not None:
                await self._gate.close()
            await sender.close(InvalidState("the producer was closed before the record was delivered"))

    # --- records ------------------------------------------------------------------------------------------------------

    async def send(self, topic: str, value: V | None = None, **options: Unpack[RecordOptions[K]]) -> RecordMetadata:
        """Send one record and wait until it is written as `acks` requires.

            metadata = await producer.send("topic", b"value", key=b"key", headers=[("source", b"web")])

        `RecordOptions` lists the keyword arguments. A None value is a tombstone: a compacted topic forgets the key.

        Raises QueueFull or RequestTimedOut after max.block.ms without buffer space or metadata, DeliveryTimeout after
        delivery.timeout.ms, SerializationError if a serializer raises, ConfigError for a partition that does not exist,
        ProducerFenced or another FatalError if the producer cannot continue, and an AbortableError for what the broker
        rejects (a record that is too large, say).
        """
        try:
            taken = self.send_soon(topic, value, **options)
        except TypeError:  # it names `send_soon`, of which nothing has run yet
            check_record_options("send", options)
            raise
        return await (await taken)

    async def send_soon(
        self,
        topic: str,
        value: V | None = None,
        *,
        key: K | None = None,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """Buffer one record; blocks only for metadata and buffer space (max.block.ms).

            deliveries = [await producer.send_soon("topic", value) for value in values]
            for delivery in deliveries:
                metadata = await delivery

        Arguments as for `send`. Raises QueueFull, RequestTimedOut, SerializationError, ConfigError and, in a
        transaction that failed, the first error; awaiting the Delivery raises the rest.
        """
        intake = self._ready_intake()
        if not self._is_plain:
            return await self._send_hooked(intake, ProducerRecord(topic, value, key, partition, headers, timestamp_ms))
        while (delivery := intake.add(topic, key, value, headers, partition, timestamp_ms)) is None:
            await self._wait_until_ready(topic)
        if intake.has_filled_a_batch:
            # A loop of send_soon would otherwise starve every other task, the sender included.
            await asyncio.sleep(0)
        return delivery

    async def _send_hooked(self, intake: Intake, record: ProducerRecord[K, V]) -> Delivery:
        """Send as `send_soon` does, with serializers and hooks; kept apart, so that records without any cost nothing
        more."""
        topic, partition = record.topic, record.partition
        try:
            topic, value, key, partition, headers, timestamp_ms = self._as_bytes(record)
            while (delivery := intake.add(topic, key, value, headers, partition, timestamp_ms)) is None:
                await self._wait_until_ready(topic)
        except KafkaError as error:
            self._on_refused(topic, partition, error)
            raise
        if self._on_acknowledgement is not None:
            delivery.add_done_callback(self._on_outcome)
        if intake.has_filled_a_batch:
            await asyncio.sleep(0)
        return delivery

    def _as_bytes(self, record: ProducerRecord[K, V]) -> ProducerRecord:
        if self._settings.on_send is not None:
            record = before_send(self._settings.on_send, record)
        return cast(ProducerRecord, record) if self._serialized is None else self._serialized(record)

    def _on_refused(self, topic: str, partition: int | None, error: KafkaError) -> None:
        if self._on_acknowledgement is not None:
            nowhere = RecordMetadata(topic, -1 if partition is None else partition, -1, -1)
            on_outcome(self._on_acknowledgement, nowhere, error)

    def _on_outcome(self, delivery: Delivery) -> None:
        if self._on_acknowledgement is not None:
            on_outcome(self._on_acknowledgement, *delivery._outcome())

    async def send_batch(self, topic: str, partition: int, encoded: bytes | memoryview) -> Delivery:
        """Buffer one whole record batch (magic 2) that was encoded elsewhere, by another process say; blocks as
        `send_soon` does.

        The batch is sent as it is, compressed or not, under this producer's id, epoch and sequence; serializers and
        hooks do not see it. Returns the delivery of its first record. `encoded` must not change until then. Raises
        ConfigError unless it is exactly one batch with a correct checksum and no producer of its own, and what
        `send_soon` raises.
        """
        _check_encoded(encoded)
        intake = self._ready_intake()
        known = self._cluster.metadata.topics.get(topic)
        if known is not None and partition >= known.partition_count:
            # It may have been added since.
            await self._cluster.refresh((topic,), Deadline.after(self._settings.max_block_ms))
        while (delivery := intake.add_batch(topic, partition, encoded)) is None:
            await self._wait_until_ready(topic)
        await asyncio.sleep(0)
        return delivery

    def _ready_intake(self) -> Intake:
        """Raises InvalidState, and what a transaction has failed with."""
        intake = self._intake
        if intake is None or self._closed:
            raise self._not_open()
        if self._manager is not None:
            self._manager.check_open()
        return intake

    async def flush(self, timeout_ms: int | None = None) -> None:
        """Send all buffered records now and wait for their acknowledgements, at most `timeout_ms` (default: no limit).

        Raises the first failure that no awaited Delivery has reported yet, in a transaction what has failed it, and
        RequestTimedOut.
        """
        if timeout_ms is not None:
            check_milliseconds("timeout_ms", timeout_ms)
        sender, _ = self._require_open()
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                await sender.drain()
        except TimeoutError:
            raise RequestTimedOut(f"flush did not finish within {timeout_ms} ms") from None
        if self._manager is not None:
            self._manager.check_not_failed()
        self._raise_unseen()

    def _raise_unseen(self) -> None:
        failures = [*self._unseen_failures]
        self._unseen_failures.clear()
        for batch in failures:
            if not batch.error_seen and batch.error is not None:
                raise batch.error

    def _on_failed(self, batch: Batch) -> None:
        """Keep the batch's error for `flush`, unless in a transaction, which raises its failures at its end."""
        unseen = self._unseen_failures
        if self._manager is not None:
            return
        if len(unseen) == _MOST_UNSEEN:
            unseen[:] = [each for each in unseen if not each.error_seen]
        if len(unseen) < _MOST_UNSEEN:
            unseen.append(batch)

    async def partitions_for(self, topic: str) -> int:
        """Return the number of partitions of the topic. Raises RequestTimedOut and UnknownTopic."""
        self._require_open()
        return (await self._cluster.topic(topic, Deadline.after(self._settings.max_block_ms))).partition_count

    # --- transactions -------------------------------------------------------------------------------------------------

    async def init_transactions(self, *, keep_prepared: bool = False) -> ProducerIdentity:
        """Fence earlier producers with this transactional id, and abort their open transaction. Returns the producer id
        and epoch. Opening the producer did it already, unless it takes part in two-phase commit: there the first call
        of this, of `complete` or the first transaction does.

        With `keep_prepared`, a prepared transaction of theirs stays open for `complete` to finish (KIP-939). Raises
        ConfigError without a transactional_id, RequestTimedOut, and FatalError.
        """
        return await self._transactions().initialize(keeps_prepared=keep_prepared)

    async def regain_epoch(self) -> ProducerIdentity:
        """Become usable again after ProducerFenced, if no other producer has taken the transactional id and only the
        coordinator had ended the transaction, for its age. Returns the new epoch; raises ProducerFenced otherwise.

        If the fence was the response to a commit, look whether the commit was made before you repeat what it wrote: a
        leader that follows a lost one may not know. A new producer id means that earlier commits may be lost as well,
        as after a restore: read where the output topics end, or what the group has committed, before you continue."""
        return await self._transactions().regain_epoch()

    async def _make_ready(self) -> ProducerIdentity:
        """Do what the next transaction would do first. Returns the producer id and epoch that it will have."""
        return await self._transactions().make_ready()

    async def complete(self, prepared: PreparedTxnState | str) -> str:
        """Commit the transaction prepared under this transactional id if it is `prepared`, which `Transaction.prepare`
        returned here or in an earlier process; otherwise abort it. Returns "committed", "aborted" or "none" (KIP-939).

            outcome = await producer.complete(stored_state)     # a PreparedTxnState, or its str()

        Raises ConfigError if `prepared` is malformed, CommitUnknown if no response came (call it again), InvalidState
        if a transaction is open and not prepared, and FatalError.
        """
        state = PreparedTxnState.parse(prepared) if isinstance(prepared, str) else prepared
        manager = self._transactions()
        return await to_the_end(manager.complete(state), on_silence=manager.reconnect)

    def transaction(self) -> Transaction[K, V]:
        """A new transaction, as a context manager.

            async with producer.transaction() as transaction:
                await transaction.send("topic", b"value")

        Raises ConfigError without a `transactional_id`.
        """
        return Transaction(self, self._transactional())

    def _transactions(self) -> TransactionManager:
        self._lifetime.check_loop()
        return self._transactional()

    def _transactional(self) -> TransactionManager:
        """Return the manager, for calls that send nothing: the blocking client makes them in the program's thread."""
        if self._sender is None or self._closed:
            raise self._not_open()
        if self._manager is None:
            raise ConfigError("transactions need a transactional_id", hint="Producer(..., transactional_id='…')")
        return self._manager

    # --- for tests and demonstrations ---------------------------------------------------------------------------------

    async def resend_last_batch(self, topic: str, partition: int) -> RecordMetadata:
        """Send the newest batch of a partition again unchanged, same sequence, bypassing all bookkeeping: for
        demonstrations.

        An idempotent broker recognises the duplicate, writes nothing and returns the original offset. Raises KafkaError
        if nothing was sent to the partition, and the error of the response.
        """
        sender, _ = self._require_open()
        answer = await sender.resend_last(TopicPartition(topic, partition), Deadline.after(self._settings.max_block_ms))
        raise_for(answer.error_code, answer.error_message or "")
        return RecordMetadata(topic, partition, answer.base_offset, answer.log_append_time_ms)

    # ------------------------------------------------------------------------------------------------------------------

    def _require_open(self) -> tuple[Sender, Accumulator]:
        if self._sender is None or self._accumulator is None or self._closed:
            raise self._not_open()
        self._lifetime.check_loop()
        return self._sender, self._accumulator

    def _not_open(self) -> InvalidState:
        state = "closed" if self._closed else "not open"
        return InvalidState(f"the producer is {state}", hint="use `async with Producer(...) as producer`")

    async def _wait_until_ready(self, topic: str) -> None:
        """Wait for metadata of the topic and for buffer space. Raises as `_ready_intake`, and if the transaction has
        ended meanwhile: the next one must not get the record."""
        check_topic(topic)
        _, accumulator = self._require_open()
        manager = self._manager
        begun_count = 0 if manager is None else manager.begun_count
        deadline = Deadline.after(self._settings.max_block_ms)
        await self._cluster.topic(topic, deadline)
        await self._wait_for_room(topic, accumulator, deadline)
        if manager is not None and manager.begun_count != begun_count:
            raise InvalidState("the transaction of this record has ended", hint="await it in the transaction's block")
        self._ready_intake()

    async def _wait_for_room(self, topic: str, accumulator: Accumulator, deadline: Deadline) -> None:
        """Wait for buffer space in the order of arrival. A batch that ends wakes one waiter, and may leave room for
        hundreds: each passes the wake on while there is room, whether it uses it or fails."""
        enqueue = self._room_waiters.append
        try:
            while not accumulator.has_room:
                waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                enqueue(waiter)
                # If another record takes the room before this task runs, it is still the first.
                enqueue = self._room_waiters.appendleft
                async with asyncio.timeout_at(deadline.at_s):
                    await waiter
        except TimeoutError:
            raise QueueFull(f"no room for a record of {topic!r} within max.block.ms") from None
        finally:
            if accumulator.has_room:
                self._on_room()

    def _on_room(self) -> None:
        while self._room_waiters:
            if resolve(self._room_waiters.popleft(), None):
                return


async def _creates_topics(cluster: Cluster, deadline: Deadline) -> bool:
    """Ask whether brokers create topics; the code is imported only for a topic that seems not to exist."""
    from oncelog.client.admin.configs import creates_topics

    return await creates_topics(cluster, deadline)


def _check_encoded(encoded: bytes | memoryview) -> None:
    """Raises ConfigError unless these bytes are one batch that a producer may still be stamped on."""
    view = memoryview(encoded)
    try:
        header = read_header(view)
    except ProtocolError as error:
        raise ConfigError(f"send_batch: {error}") from error
    if header.magic != MAGIC or header.size_in_bytes != len(view) or header.record_count < 1:
        raise ConfigError("send_batch: these bytes are not exactly one record batch of magic 2")
    if header.producer_id != NO_PRODUCER_ID or header.is_control:
        raise ConfigError("send_batch: the batch has a producer id already, or is a control batch")
    if not check_crc(view):
        raise ConfigError("send_batch: the checksum of the batch is wrong: its bytes are damaged")
