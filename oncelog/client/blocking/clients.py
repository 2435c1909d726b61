"""Blocking clients, for scripts and for functions that Spark calls.

Owns: the methods whose results are objects of the loop themselves, made blocking; the others are made of the asyncio
clients' methods. Does not own: any Kafka logic, the thread of the loop (`loop_thread`), Admin (`admin`).
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Self, TypeVar, Unpack, overload
from uuid import UUID

from oncelog.client.blocking.admin import Admin
from oncelog.client.blocking.loop_thread import Facade, OnLoop, blocking, blocking_call, closing
from oncelog.client.consuming.consumer import Consumer as AsyncConsumer
from oncelog.client.consuming.ranges import NO_TOPIC_ID, RangePiece
from oncelog.client.consuming.ranges import RangeReader as AsyncRangeReader
from oncelog.client.consuming.raw_batches import RawBatch
from oncelog.client.options.option_types import ConsumerOptions, ProducerOptions, SessionOptions, ShareConsumerOptions
from oncelog.client.options.settings import ConsumerSettings, ProducerSettings, SessionSettings
from oncelog.client.options.share_settings import ShareConsumerSettings
from oncelog.client.producing.batch import Delivery as AsyncDelivery
from oncelog.client.producing.producer import Producer as AsyncProducer
from oncelog.client.producing.transaction import HasGroupMetadata
from oncelog.client.producing.transaction import Transaction as AsyncTransaction
from oncelog.client.session import SessionBatch as AsyncSessionBatch
from oncelog.client.session import TransactionalSession as AsyncTransactionalSession
from oncelog.client.sharing.consumer import ShareConsumer as AsyncShareConsumer
from oncelog.client.values.errors import ConfigError, KafkaError
from oncelog.client.values.option_values import lists_options
from oncelog.client.values.records import (
    ConsumerGroupMetadata,
    ConsumerRecords,
    K,
    OffsetAndMetadata,
    Offsets,
    OutK,
    OutV,
    Record,
    RecordMetadata,
    RecordOptions,
    ShareRecord,
    TopicPartition,
    V,
)

T = TypeVar("T")

__all__ = [
    "Admin",
    "Consumer",
    "Delivery",
    "Producer",
    "RangeReader",
    "SessionBatch",
    "ShareConsumer",
    "Transaction",
    "TransactionalSession",
]


class Delivery(OnLoop[AsyncDelivery]):
    """The future outcome of one record: `producer.send_soon("topic", b"value").result(timeout_s=10)`."""

    done = blocking_call(AsyncDelivery.done)

    def result(self, timeout_s: float | None = None) -> RecordMetadata:
        """Wait for the record's metadata. Raises the error that kept it from being written, and RequestTimedOut after
        `timeout_s` (default: the producer's delivery_timeout_ms ends it)."""
        return self._run(_wait_for(self._client), timeout_s)

    def add_done_callback(self, callback: Callable[["Delivery"], None]) -> None:
        """Call `callback(delivery)` in the client's thread once the outcome is known. It must not wait for it."""
        self._run(_call(lambda: self._client.add_done_callback(lambda _: callback(self))))


class Transaction(OnLoop[AsyncTransaction[K, V]]):
    """`with producer.transaction() as transaction`: commits on a clean exit, aborts on an exception.

    The methods, arguments and errors of `oncelog.Transaction`, blocking.
    """

    def __enter__(self) -> Self:
        self._run(self._client.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._run(self._client.__aexit__(kind, error, traceback))

    @property
    def state(self) -> str:
        """The transaction's state, as `oncelog.Transaction.state`."""
        return self._client.state

    @property
    def producer_id(self) -> int:
        """The producer id that writes this transaction."""
        return self._client.producer_id

    @property
    def producer_epoch(self) -> int:
        """The epoch of the producer that writes this transaction."""
        return self._client.producer_epoch

    send = blocking(AsyncTransaction[K, V].send)

    def send_soon(self, topic: str, value: V | None = None, **options: Unpack[RecordOptions[K]]) -> Delivery:
        """Buffer one record; `commit` waits for it. Raises as `oncelog.Producer.send_soon`."""
        return Delivery(self._run(self._client.send_soon(topic, value, **options)), self._thread)

    def send_many(self, topic: str, records: Iterable[tuple[K | None, V | None]]) -> None:
        """Buffer (key, value) pairs in one call to the loop: one call per record would cost more than the record."""
        self._run(_send_many(self._client, topic, records))

    def send_batch(self, topic: str, partition: int, encoded: bytes | memoryview) -> Delivery:
        """Buffer a whole record batch that was encoded elsewhere. Raises as `oncelog.Producer.send_batch`."""
        return Delivery(self._run(self._client.send_batch(topic, partition, encoded)), self._thread)

    def send_offsets(self, offsets: Offsets, *, group: "ConsumerGroupMetadata | HasGroupMetadata") -> None:
        """Commit a group's offsets with this transaction; `group` is a blocking or asyncio consumer. Raises as
        `oncelog.Transaction.send_offsets`."""
        if isinstance(group, Consumer):
            group = group.group_metadata()  # here: its own loop may be this one
        self._run(self._client.send_offsets(offsets, group=group))

    prepare = blocking(AsyncTransaction[K, V].prepare)
    commit = blocking(AsyncTransaction[K, V].commit)
    abort = blocking(AsyncTransaction[K, V].abort)


@lists_options(ProducerSettings)
class Producer(Facade[AsyncProducer[K, V]]):
    """A blocking `oncelog.Producer`.

        with Producer("host:9092") as producer:
            producer.send("topic", b"value")

    The arguments, options and errors are the same.
    """

    def __init__(
        self, bootstrap_servers: str | Sequence[str] = "localhost:9092", **options: Unpack[ProducerOptions[K, V]]
    ) -> None:
        super().__init__(AsyncProducer(bootstrap_servers, **options))

    send = blocking(AsyncProducer[K, V].send)

    def send_soon(self, topic: str, value: V | None = None, **options: Unpack[RecordOptions[K]]) -> Delivery:
        """Buffer one record; blocks only for metadata and buffer space. Raises as `oncelog.Producer.send_soon`."""
        return Delivery(self._run(self._client.send_soon(topic, value, **options)), self._thread)

    def send_many(self, topic: str, records: Iterable[tuple[K | None, V | None]]) -> None:
        """Buffer (key, value) pairs in one call to the loop; `flush` waits for them and raises the first failure."""
        self._run(_send_many(self._client, topic, records))

    def send_batch(self, topic: str, partition: int, encoded: bytes | memoryview) -> Delivery:
        """Buffer a whole record batch that was encoded elsewhere. Raises as `oncelog.Producer.send_batch`."""
        return Delivery(self._run(self._client.send_batch(topic, partition, encoded)), self._thread)

    flush = blocking(AsyncProducer[K, V].flush)
    partitions_for = blocking(AsyncProducer[K, V].partitions_for)
    init_transactions = blocking(AsyncProducer[K, V].init_transactions)
    regain_epoch = blocking(AsyncProducer[K, V].regain_epoch)
    complete = blocking(AsyncProducer[K, V].complete)
    close = closing(AsyncProducer[K, V].close)

    def transaction(self) -> Transaction[K, V]:
        """Return a new transaction: `with producer.transaction() as transaction`. Raises ConfigError without a
        transactional_id."""
        return Transaction(self._client.transaction(), self._thread)

    resend_last_batch = blocking(AsyncProducer[K, V].resend_last_batch)


@lists_options(ConsumerSettings)
class Consumer(Facade[AsyncConsumer[K, V]]):
    """A blocking `oncelog.Consumer`, with the same arguments, options and errors.

        with Consumer("topic", bootstrap_servers="host:9092", group_id="readers") as consumer:
            for record in consumer:
                ...
                consumer.commit_sync()

    `on_assign`, `on_revoke` and the hooks run in the client's own thread; the iterator calls deserializers and
    `on_consume` itself.
    """

    def __init__(self, *topics: str, **options: Unpack[ConsumerOptions[K, V]]) -> None:
        super().__init__(AsyncConsumer(*topics, **options))

    poll = blocking(AsyncConsumer[K, V].poll)

    def __iter__(self) -> Iterator[Record[K, V]]:
        """Yield records endlessly; one counts as consumed when it is returned. Raises as `poll`."""
        while True:
            # Here, and not on the loop: a call for each record would cost more than the record.
            yield from self._client._ahead()
            self._run(self._client._read_ahead())

    next_batch = blocking(AsyncConsumer[K, V].next_batch)

    def batches(self, *, max_records: int | None = None, max_wait_ms: int = 0) -> Iterator[ConsumerRecords[K, V]]:
        """Yield batches endlessly: what is available, at least one record and at most `max_records`. Raises as
        `oncelog.Consumer.batches`."""
        while True:
            yield self.next_batch(max_records=max_records, max_wait_ms=max_wait_ms)

    @property
    def assignment_count(self) -> int:
        """How often the group has assigned partitions to this member."""
        return self._client.assignment_count

    assign = blocking_call(AsyncConsumer[K, V].assign)
    assignment = blocking_call(AsyncConsumer[K, V].assignment)
    seek = blocking_call(AsyncConsumer[K, V].seek)
    seek_to_beginning = blocking(AsyncConsumer[K, V].seek_to_beginning)
    seek_to_end = blocking(AsyncConsumer[K, V].seek_to_end)
    seek_to_committed = blocking(AsyncConsumer[K, V].seek_to_committed)
    seek_to_timestamp = blocking(AsyncConsumer[K, V].seek_to_timestamp)
    lag = blocking(AsyncConsumer[K, V].lag)
    position = blocking(AsyncConsumer[K, V].position)
    pause = blocking_call(AsyncConsumer[K, V].pause)
    resume = blocking_call(AsyncConsumer[K, V].resume)
    beginning_offsets = blocking(AsyncConsumer[K, V].beginning_offsets)
    end_offsets = blocking(AsyncConsumer[K, V].end_offsets)
    offsets_for_times = blocking(AsyncConsumer[K, V].offsets_for_times)
    partitions_for = blocking(AsyncConsumer[K, V].partitions_for)

    def raw_batches(self, topic_partition: TopicPartition, offset: int = 0) -> list[RawBatch]:
        """Return every batch from `offset` to the high watermark, with its fate; see `oncelog.Consumer.raw_batches`."""
        return self._run(_collect(lambda: self._client.raw_batches(topic_partition, offset)))

    commit_sync = blocking(AsyncConsumer[K, V].commit_sync)
    commit_async = blocking_call(AsyncConsumer[K, V].commit_async)
    committed = blocking(AsyncConsumer[K, V].committed)
    group_metadata = blocking_call(AsyncConsumer[K, V].group_metadata)
    heartbeat = blocking(AsyncConsumer[K, V].heartbeat)
    close = closing(AsyncConsumer[K, V].close)


@lists_options(ShareConsumerSettings)
class ShareConsumer(Facade[AsyncShareConsumer[K, V]]):
    """A blocking `oncelog.ShareConsumer`, with the same arguments, options and errors.

        with ShareConsumer("jobs", bootstrap_servers="host:9092", group_id="workers") as consumer:
            while True:
                for record in consumer.poll(timeout_ms=1000):
                    ...

    `on_acknowledged` and the callbacks of commits run in the client's own thread; the iterator calls deserializers
    itself.
    """

    def __init__(self, *topics: str, **options: Unpack[ShareConsumerOptions[K, V]]) -> None:
        super().__init__(AsyncShareConsumer(*topics, **options))

    subscribe = blocking_call(AsyncShareConsumer[K, V].subscribe)
    subscription = blocking_call(AsyncShareConsumer[K, V].subscription)
    assignment = blocking_call(AsyncShareConsumer[K, V].assignment)
    poll = blocking(AsyncShareConsumer[K, V].poll)

    def __iter__(self) -> Iterator[ShareRecord[K, V]]:
        """Yield records endlessly, as the iterator of `oncelog.ShareConsumer`. Raises as `poll`."""
        while True:
            # Here, and not on the loop: a call for each record would cost more than the record.
            yield from self._client._ahead()
            self._run(self._client._read_ahead())

    @property
    def acquisition_lock_timeout_ms(self) -> int | None:
        """How long the lock of a record lasts, as a broker last said; None before the first records."""
        return self._client.acquisition_lock_timeout_ms

    acknowledge = blocking_call(AsyncShareConsumer[K, V].acknowledge)
    commit_sync = blocking(AsyncShareConsumer[K, V].commit_sync)
    commit_async = blocking_call(AsyncShareConsumer[K, V].commit_async)
    close = closing(AsyncShareConsumer[K, V].close)


@lists_options(SessionSettings)
class TransactionalSession(Facade[AsyncTransactionalSession[K, V, OutK, OutV]]):
    """A blocking `oncelog.TransactionalSession`, with the same arguments, options and errors.

    with TransactionalSession("orders", bootstrap_servers="host:9092", group_id="billing") as session:
        for batch in session:
            with batch:
                for record in batch:
                    batch.send_soon("invoices", invoice(record.value), key=record.key)
    """

    def __init__(self, *topics: str, **options: Unpack[SessionOptions[K, V, OutK, OutV]]) -> None:
        super().__init__(AsyncTransactionalSession(*topics, **options))

    @property
    def transactional_id(self) -> str:
        """The transactional id of this instance."""
        return self._client.transactional_id

    @property
    def consumer(self) -> Consumer[K, V]:
        """The consumer, for its assignment, positions and lag. Its offsets are the session's to commit."""
        consumer = Consumer[K, V].__new__(Consumer)
        OnLoop.__init__(consumer, self._client.consumer, self._thread)
        consumer._lifetime = self._lifetime
        return consumer

    def __iter__(self) -> "Iterator[SessionBatch[K, V, OutK, OutV]]":
        """Yield batches endlessly; raises as the iterator of `oncelog.TransactionalSession`."""
        batches = aiter(self._client)
        while True:
            yield SessionBatch(self._run(_wait_for(anext(batches))), self._thread)

    close = closing(AsyncTransactionalSession[K, V, OutK, OutV].close)


class SessionBatch(OnLoop[AsyncSessionBatch[K, V, OutK, OutV]], Sequence[Record[K, V]]):
    """Some records, and the transaction of their results: `with batch`. As `oncelog.SessionBatch`, blocking."""

    def __enter__(self) -> Self:
        self._run(self._client.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        return self._run(self._client.__aexit__(kind, error, traceback))

    @property
    def records(self) -> ConsumerRecords[K, V]:
        """The records, with the offsets behind them."""
        return self._client.records

    @property
    def committed(self) -> bool:
        """True once the results and the offsets of this batch are committed."""
        return self._client.committed

    @property
    def error(self) -> KafkaError | None:
        """The error that aborted the batch, if it was not raised."""
        return self._client.error

    @property
    def has_ended(self) -> bool:
        """True once the batch is committed or aborted."""
        return self._client.has_ended

    @property
    def transaction(self) -> Transaction[OutK, OutV]:
        """The transaction itself, for its producer id and epoch."""
        return Transaction(self._client.transaction, self._thread)

    send = blocking(AsyncSessionBatch[K, V, OutK, OutV].send)

    def send_soon(self, topic: str, value: OutV | None = None, **options: Unpack[RecordOptions[OutK]]) -> Delivery:
        """Buffer one result; the commit waits for it. Raises as `oncelog.Producer.send_soon`."""
        return Delivery(self._run(self._client.send_soon(topic, value, **options)), self._thread)

    flush = blocking(AsyncSessionBatch[K, V, OutK, OutV].flush)

    @property
    def next_offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The offsets that are committed with the batch: the positions after it, past markers and aborted records."""
        return self._client.next_offsets

    def __len__(self) -> int:
        return len(self._client)

    @overload
    def __getitem__(self, index: int) -> Record[K, V]: ...

    @overload
    def __getitem__(self, index: slice) -> list[Record[K, V]]: ...

    def __getitem__(self, index: int | slice) -> Record[K, V] | list[Record[K, V]]:
        return self._client.records[index]


class RangeReader(Facade[AsyncRangeReader]):
    """A blocking `oncelog.client.consuming.ranges.RangeReader`, with the same arguments, options and errors.

    The next piece is fetched in the client's own thread while this one is used.
    """

    def __init__(self, **options: Unpack[ConsumerOptions]) -> None:
        super().__init__(AsyncRangeReader(**options))

    def read(
        self, topic_partition: TopicPartition, start: int, end: int, *, topic_id: UUID = NO_TOPIC_ID
    ) -> Iterator[RangePiece]:
        """Yield the batches that hold offsets [start, end). Raises as
        `oncelog.client.consuming.ranges.RangeReader.read`."""
        pieces = self._client.read(topic_partition, start, end, topic_id=topic_id)
        try:
            while (piece := self._run(anext(pieces, None))) is not None:
                yield piece
        finally:
            self._run(pieces.aclose())


async def _wait_for(work: Awaitable[T]) -> T:
    return await work


async def _call(function: Callable[[], T]) -> T:
    """Run a plain method on the loop, where its object lives."""
    return function()


async def _collect(begin: Callable[[], AsyncIterator[T]]) -> list[T]:
    return [each async for each in begin()]


async def _send_many(
    target: AsyncProducer[K, V] | AsyncTransaction[K, V], topic: str, records: Iterable[tuple[K | None, V | None]]
) -> None:
    for record in records:
        try:
            key, value = record
        except (TypeError, ValueError):
            text = f"send_many() takes pairs of key and value, not a {type(record).__name__}"
            raise ConfigError(text, hint='[(None, b"value")]') from None
        await target.send_soon(topic, value, key=key)
