"""Blocking clients, for scripts and for functions that Spark calls.

Owns: one method for each of the asyncio clients', which it runs and waits for. Does not own: any Kafka logic, the
thread of the loop (`loop_thread`), Admin (`sync_admin`).
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack
from uuid import UUID

from oncelog.client.batch import Delivery as AsyncDelivery
from oncelog.client.batch import ProducerIdentity
from oncelog.client.consumer import Consumer as AsyncConsumer
from oncelog.client.loop_thread import Facade
from oncelog.client.prepared import PreparedTxnState
from oncelog.client.producer import Producer as AsyncProducer
from oncelog.client.ranges import NO_TOPIC_ID, RangePiece
from oncelog.client.ranges import RangeReader as AsyncRangeReader
from oncelog.client.raw_batches import RawBatch
from oncelog.client.records import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    Offsets,
    Record,
    RecordMetadata,
    RecordOptions,
    TopicPartition,
)
from oncelog.client.settings import ConsumerOptions, ProducerOptions
from oncelog.client.sync_admin import Admin
from oncelog.client.transaction import HasGroupMetadata
from oncelog.client.transaction import Transaction as AsyncTransaction

T = TypeVar("T")

__all__ = ["Admin", "Consumer", "Delivery", "Producer", "RangeReader", "Transaction"]


class Delivery:
    """The future outcome of one record: `producer.send_soon("topic", b"value").result(timeout_s=10)`."""

    def __init__(self, thread_run: "_Run", delivery: AsyncDelivery) -> None:
        self._run = thread_run
        self._delivery = delivery

    def done(self) -> bool:
        """Whether the record was acknowledged or has failed."""
        return self._delivery.done()

    def result(self, timeout_s: float | None = None) -> RecordMetadata:
        """Wait for the record's metadata. Raises the error that kept it from being written, and RequestTimedOut after
        `timeout_s` (default: no limit)."""
        return self._run(_await(self._delivery), timeout_s)


class _Run:
    """Runs coroutines on the client's loop, for the objects that it returns."""

    def __init__(self, facade: "Facade[Any]") -> None:
        self._facade = facade

    def __call__(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        return self._facade._run(work, timeout_s)


class Transaction:
    """`with producer.transaction() as transaction`: commits on a clean exit, aborts on an exception.

    The methods, arguments and errors of `oncelog.Transaction`, blocking.
    """

    def __init__(self, run: _Run, transaction: AsyncTransaction) -> None:
        self._run = run
        self._transaction = transaction

    def __enter__(self) -> Self:
        self._run(self._transaction.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._run(self._transaction.__aexit__(kind, error, traceback))

    @property
    def state(self) -> str:
        """ "open", "failed", "prepared", "committing", "committed", "aborting", "aborted" or "fenced"."""
        return self._transaction.state

    @property
    def producer_id(self) -> int:
        """The producer id that writes this transaction."""
        return self._transaction.producer_id

    @property
    def producer_epoch(self) -> int:
        """The epoch of the producer that writes this transaction."""
        return self._transaction.producer_epoch

    def send(self, topic: str, value: bytes | None = None, **options: Unpack[RecordOptions]) -> RecordMetadata:
        """Send one record and wait until it is written (not committed). Raises as `oncelog.Producer.send`."""
        return self._run(self._transaction.send(topic, value, **options))

    def send_soon(self, topic: str, value: bytes | None = None, **options: Unpack[RecordOptions]) -> Delivery:
        """Buffer one record; `commit` waits for it. Raises as `oncelog.Producer.send_soon`."""
        work = self._transaction.send_soon(topic, value, **options)
        return Delivery(self._run, self._run(work))

    def send_many(self, topic: str, records: "Iterable[tuple[bytes | None, bytes | None]]") -> None:
        """Buffer (key, value) pairs in one call to the loop: one call per record would cost more than the record."""
        self._run(_send_many(self._transaction, topic, records))

    def send_batch(self, topic: str, partition: int, encoded: bytes | memoryview) -> Delivery:
        """Buffer a whole record batch that was encoded elsewhere. Raises as `oncelog.Producer.send_batch`."""
        return Delivery(self._run, self._run(self._transaction.send_batch(topic, partition, encoded)))

    def send_offsets(self, offsets: Offsets, *, group: "ConsumerGroupMetadata | Consumer") -> None:
        """Commit a group's offsets with this transaction. Raises as `oncelog.Transaction.send_offsets`."""
        metadata: ConsumerGroupMetadata | HasGroupMetadata = group
        self._run(self._transaction.send_offsets(offsets, group=metadata))

    def prepare(self) -> PreparedTxnState:
        """Flush all records and vote to commit (KIP-939). Raises as `oncelog.Transaction.prepare`."""
        return self._run(self._transaction.prepare())

    def commit(self) -> None:
        """Flush all records and commit. Raises as `oncelog.Transaction.commit`."""
        self._run(self._transaction.commit())

    def abort(self) -> None:
        """Drop what is not sent yet and abort. Raises as `oncelog.Transaction.abort`."""
        self._run(self._transaction.abort())


class Producer(Facade[AsyncProducer]):
    """A blocking `oncelog.Producer`.

        with Producer("host:9092") as producer:
            producer.send("topic", b"value")

    The arguments, options and errors are the same.
    """

    def __init__(
        self, bootstrap_servers: str | Sequence[str] = "localhost:9092", **options: Unpack[ProducerOptions]
    ) -> None:
        super().__init__(AsyncProducer(bootstrap_servers, **options))

    def send(self, topic: str, value: bytes | None = None, **options: Unpack[RecordOptions]) -> RecordMetadata:
        """Send one record and wait until it is written. Raises as `oncelog.Producer.send`."""
        return self._run(self._client.send(topic, value, **options))

    def send_soon(self, topic: str, value: bytes | None = None, **options: Unpack[RecordOptions]) -> Delivery:
        """Buffer one record; blocks only for metadata and buffer space. Raises as `oncelog.Producer.send_soon`."""
        work = self._client.send_soon(topic, value, **options)
        return Delivery(_Run(self), self._run(work))

    def send_many(self, topic: str, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        """Buffer (key, value) pairs in one call to the loop; `flush` waits for them and raises the first failure."""
        self._run(_send_many(self._client, topic, records))

    def send_batch(self, topic: str, partition: int, encoded: bytes | memoryview) -> Delivery:
        """Buffer a whole record batch that was encoded elsewhere. Raises as `oncelog.Producer.send_batch`."""
        return Delivery(_Run(self), self._run(self._client.send_batch(topic, partition, encoded)))

    def flush(self, timeout_ms: float | None = None) -> None:
        """Send all buffered records and wait for them. Raises as `oncelog.Producer.flush`."""
        self._run(self._client.flush(timeout_ms))

    def init_transactions(self, *, keep_prepared: bool = False) -> ProducerIdentity:
        """Fence earlier producers with this transactional id now. Raises as `oncelog.Producer.init_transactions`."""
        return self._run(self._client.init_transactions(keep_prepared=keep_prepared))

    def complete(self, prepared: PreparedTxnState | str) -> str:
        """Commit or abort a prepared transaction (KIP-939). Returns and raises as `oncelog.Producer.complete`."""
        return self._run(self._client.complete(prepared))

    def transaction(self) -> Transaction:
        """A new transaction: `with producer.transaction() as transaction`. Raises ConfigError without a
        transactional_id."""
        return Transaction(_Run(self), self._client.transaction())

    def resend_last_batch(self, topic: str, partition: int) -> RecordMetadata:
        """Send the newest batch of a partition again unchanged. Raises as `oncelog.Producer.resend_last_batch`."""
        return self._run(self._client.resend_last_batch(topic, partition))


class Consumer(Facade[AsyncConsumer]):
    """A blocking `oncelog.Consumer`, with the same arguments, options and errors.

        with Consumer("topic", bootstrap_servers="host:9092", group_id="readers") as consumer:
            for record in consumer:
                ...
                consumer.commit_sync()

    `on_assign` and `on_revoke` run on the client's own loop.
    """

    def __init__(self, *topics: str, **options: Unpack[ConsumerOptions]) -> None:
        super().__init__(AsyncConsumer(*topics, **options))

    def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> list[Record]:
        """Return available records; wait up to `timeout_ms` for the first. Raises as `oncelog.Consumer.poll`."""
        return self._run(self._client.poll(timeout_ms, max_records))

    def __iter__(self) -> Iterator[Record]:
        """Endless, fetching a list of records at a time; a commit covers the whole list, also what the loop has not
        reached yet."""
        while True:
            yield from self.poll(60_000)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without a group assignment. Raises as `oncelog.Consumer.assign`."""
        self._run(_call(lambda: self._client.assign(partitions)))

    def assignment(self) -> list[TopicPartition]:
        """The partitions this consumer reads now, sorted."""
        return self._run(_call(self._client.assignment))

    def seek(self, topic_partition: TopicPartition, offset: int) -> None:
        """Move to `offset`. Raises as `oncelog.Consumer.seek`."""
        self._run(_call(lambda: self._client.seek(topic_partition, offset)))

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Move to the first offset of these partitions (default: all assigned)."""
        self._run(self._client.seek_to_beginning(*partitions))

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Move to the end of these partitions (default: all assigned), as the isolation level defines it."""
        self._run(self._client.seek_to_end(*partitions))

    def position(self, topic_partition: TopicPartition) -> int:
        """The offset of the next record to be returned. Raises as `oncelog.Consumer.position`."""
        return self._run(self._client.position(topic_partition))

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records from these partitions until `resume`."""
        self._run(_call(lambda: self._client.pause(*partitions)))

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records from these paused partitions again."""
        self._run(_call(lambda: self._client.resume(*partitions)))

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of each partition."""
        return self._run(self._client.beginning_offsets(partitions))

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """How far this consumer may read: the last stable offset at read_committed, otherwise the high watermark."""
        return self._run(self._client.end_offsets(partitions))

    def offsets_for_times(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTimestamp]:
        """The first record at or after each time (milliseconds since the epoch); offset -1 if there is none."""
        return self._run(self._client.offsets_for_times(times_ms))

    def partitions_for(self, topic: str) -> list[TopicPartition]:
        """All partitions of the topic."""
        return self._run(self._client.partitions_for(topic))

    def raw_batches(self, topic_partition: TopicPartition, offset: int = 0) -> list[RawBatch]:
        """Every batch from `offset` to the high watermark, with its fate; see `oncelog.Consumer.raw_batches`."""
        return self._run(_collect(self._client.raw_batches(topic_partition, offset)))

    def commit_sync(self, offsets: Offsets | None = None) -> None:
        """Commit these offsets, or the positions after all returned records. Raises as
        `oncelog.Consumer.commit_sync`."""
        self._run(self._client.commit_sync(offsets))

    def commit_async(self, offsets: Offsets | None = None) -> None:
        """Commit without waiting; errors are ignored."""
        self._run(_call(lambda: self._client.commit_async(offsets)))

    def committed(self, *partitions: TopicPartition) -> dict[TopicPartition, OffsetAndMetadata]:
        """The group's committed offsets of these partitions (default: all assigned)."""
        return self._run(self._client.committed(*partitions))

    def group_metadata(self) -> ConsumerGroupMetadata:
        """This consumer's group, generation and member id, for Transaction.send_offsets."""
        return self._run(_call(self._client.group_metadata))


class RangeReader(Facade[AsyncRangeReader]):
    """A blocking `oncelog.client.ranges.RangeReader`, with the same arguments, options and errors.

    The next piece is fetched in the client's own thread while this one is used.
    """

    def __init__(self, **options: Unpack[ConsumerOptions]) -> None:
        super().__init__(AsyncRangeReader(**options))

    def read(
        self, topic_partition: TopicPartition, start: int, end: int, *, topic_id: UUID = NO_TOPIC_ID
    ) -> Iterator[RangePiece]:
        """The batches that hold offsets [start, end). Raises as `oncelog.client.ranges.RangeReader.read`."""
        pieces = self._client.read(topic_partition, start, end, topic_id=topic_id)
        try:
            while (piece := self._run(anext(pieces, None))) is not None:
                yield piece
        finally:
            self._run(pieces.aclose())


async def _await(delivery: AsyncDelivery) -> RecordMetadata:
    return await delivery


async def _call(function: Callable[[], T]) -> T:
    """Run a plain method on the loop, where its object lives."""
    return function()


async def _collect(iterator: AsyncIterator[T]) -> list[T]:
    return [each async for each in iterator]


async def _send_many(
    target: AsyncProducer | AsyncTransaction, topic: str, records: Iterable[tuple[bytes | None, bytes | None]]
) -> None:
    for key, value in records:
        await target.send_soon(topic, value, key=key)
