"""The clients that are compared: how a program opens each, and what it calls.

Owns: the calls that a user of each client would write, and the workloads that are made of them, for asyncio clients and
for blocking ones. Does not own: counting rounds, processes (`worker`). All have the same settings where they have
different defaults: acks=all, idempotent, batches of 16 kB that linger 5 ms (Java's defaults), read_committed, partition
0. Invariant: the clock covers neither connections nor the first record.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any

_BATCH_BYTES = 16_384
_LINGER_MS = 5
_EACH = 500
"""Records that one call returns at most: max.poll.records, as Kafka."""
_PATIENCE_S = 10.0


@dataclass(slots=True)
class Clock:
    """What passes inside `with clock`."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    durations_s: list[float] = field(default_factory=list)
    """Of each operation, where that is what counts."""

    def __enter__(self) -> None:
        self.wall_s -= time.perf_counter()
        self.cpu_s -= time.process_time()

    def __exit__(self, *_: object) -> None:
        self.wall_s += time.perf_counter()
        self.cpu_s += time.process_time()


class Missing(Exception):
    """A record that was written was not read, or not where it was."""


@dataclass(slots=True)
class _Seen:
    """What has been read: the offsets follow each other, and each value is looked at."""

    next_offset: int = 0
    bytes: int = 0

    def look(self, records: Sequence[Any]) -> None:
        next_offset, size = self.next_offset, self.bytes
        for record in records:
            if record.offset != next_offset:
                raise Missing(f"offset {next_offset}")
            next_offset += 1
            size += len(record.value or b"")
        self.next_offset, self.bytes = next_offset, size


# --- workloads --------------------------------------------------------------------------------------------------------
# Each method of a driver does `count` operations inside `with clock`, and raises if a record is refused or missing.


@dataclass(frozen=True, slots=True)
class AsyncClient:
    producer: Callable[[str, float], AbstractAsyncContextManager[Any]]
    """For the bootstrap servers, and how long a record lingers, in milliseconds."""
    consumer: Callable[[str, str], AbstractAsyncContextManager[Any]]
    """At the beginning of partition 0 of a topic."""
    send: Callable[[Any], Callable[..., Any]]
    """The method of a producer that waits for the outcome."""
    send_soon: Callable[[Any], Callable[..., Any]]
    """The method that does not."""
    batches: Callable[[Any], AsyncIterator[Sequence[Any]]]
    """Several records of a consumer at a time, as the client has them."""


@dataclass(frozen=True, slots=True)
class AsyncDriver:
    client: AsyncClient
    bootstrap: str

    def produce(self, topic: str, value: bytes, count: int, clock: Clock) -> None:
        """Send all of them, then wait once."""

        async def run() -> None:
            async with self.client.producer(self.bootstrap, _LINGER_MS) as producer:
                send_soon = self.client.send_soon(producer)
                await self.client.send(producer)(topic, value, partition=0)
                with clock:
                    for _ in range(count):
                        last = await send_soon(topic, value, partition=0)
                    await producer.flush()
                    await last

        asyncio.run(run())

    def produce_and_wait(self, topic: str, value: bytes, count: int, clock: Clock) -> None:
        async def run() -> None:
            async with self.client.producer(self.bootstrap, 0) as producer:
                send = self.client.send(producer)
                await send(topic, value, partition=0)
                with clock:
                    for _ in range(count):
                        started_s = time.perf_counter()
                        await send(topic, value, partition=0)
                        clock.durations_s.append(time.perf_counter() - started_s)

        asyncio.run(run())

    def consume(self, topic: str, count: int, clock: Clock) -> None:
        """Read one after the other, from the beginning; look at the value and the offset of each."""

        async def run() -> None:
            async with self.client.consumer(self.bootstrap, topic) as consumer:
                seen, records = _Seen(), aiter(consumer)
                seen.look([await anext(records)])
                with clock:
                    async for record in records:
                        if record.offset != seen.next_offset:
                            raise Missing(f"offset {seen.next_offset}")
                        seen.next_offset += 1
                        seen.bytes += len(record.value or b"")
                        if seen.next_offset >= count:
                            break

        asyncio.run(run())

    def consume_batches(self, topic: str, count: int, clock: Clock) -> None:
        """Read several records at a time; look at them as in `consume`."""

        async def run() -> None:
            async with self.client.consumer(self.bootstrap, topic) as consumer:
                seen = _Seen()
                seen.look([await anext(aiter(consumer))])
                with clock:
                    async for batch in self.client.batches(consumer):
                        seen.look(batch)
                        if seen.next_offset >= count:
                            break

        asyncio.run(run())


@dataclass(frozen=True, slots=True)
class BlockingClient:
    producer: Callable[[str, int], AbstractContextManager[Any]]
    consumer: Callable[[str, str], AbstractContextManager[Any]]
    send: Callable[[Any], Callable[..., Any]]
    """The method of a producer that does not wait."""
    wait: Callable[[Any, Any], None]
    """Waits for what the method has returned last, the outcome of one record."""
    flush: Callable[[Any], None]
    read: Callable[[Any, _Seen, int], None]
    """Reads one after the other, until so many are seen."""
    read_batches: Callable[[Any, _Seen, int], None]


@dataclass(frozen=True, slots=True)
class BlockingDriver:
    """As `AsyncDriver`."""

    client: BlockingClient
    bootstrap: str

    def produce(self, topic: str, value: bytes, count: int, clock: Clock) -> None:
        with self.client.producer(self.bootstrap, _LINGER_MS) as producer:
            send, wait = self.client.send(producer), self.client.wait
            wait(producer, send(topic, value, partition=0))
            with clock:
                for _ in range(count):
                    last = send(topic, value, partition=0)
                self.client.flush(producer)
                wait(producer, last)

    def produce_and_wait(self, topic: str, value: bytes, count: int, clock: Clock) -> None:
        with self.client.producer(self.bootstrap, 0) as producer:
            send, wait = self.client.send(producer), self.client.wait
            wait(producer, send(topic, value, partition=0))
            with clock:
                for _ in range(count):
                    started_s = time.perf_counter()
                    wait(producer, send(topic, value, partition=0))
                    clock.durations_s.append(time.perf_counter() - started_s)

    def consume(self, topic: str, count: int, clock: Clock) -> None:
        self._read(self.client.read, topic, count, clock)

    def consume_batches(self, topic: str, count: int, clock: Clock) -> None:
        self._read(self.client.read_batches, topic, count, clock)

    def _read(self, read: Callable[[Any, _Seen, int], None], topic: str, count: int, clock: Clock) -> None:
        with self.client.consumer(self.bootstrap, topic) as consumer:
            seen = _Seen()
            read(consumer, seen, 1)
            with clock:
                read(consumer, seen, count)


# --- clients ----------------------------------------------------------------------------------------------------------


def _oncelog_producer(bootstrap: str, linger_ms: float) -> Any:
    from oncelog.client import Producer

    return Producer(bootstrap, linger_ms=linger_ms, batch_size=_BATCH_BYTES)


@asynccontextmanager
async def _oncelog_consumer(bootstrap: str, topic: str) -> AsyncIterator[Any]:
    from oncelog.client import Consumer, TopicPartition

    async with Consumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="error"
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek(TopicPartition(topic, 0), 0)
        yield consumer


def _aiokafka_producer(bootstrap: str, linger_ms: float) -> Any:
    from aiokafka import AIOKafkaProducer

    return AIOKafkaProducer(
        bootstrap_servers=bootstrap, enable_idempotence=True, linger_ms=linger_ms, max_batch_size=_BATCH_BYTES
    )


@asynccontextmanager
async def _aiokafka_consumer(bootstrap: str, topic: str) -> AsyncIterator[Any]:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        isolation_level="read_committed",
        enable_auto_commit=False,
        max_poll_records=_EACH,
    )
    consumer.assign([TopicPartition(topic, 0)])
    async with consumer:
        consumer.seek(TopicPartition(topic, 0), 0)
        yield consumer


async def _aiokafka_batches(consumer: Any) -> AsyncIterator[Sequence[Any]]:
    while True:
        for records in (await consumer.getmany(timeout_ms=1000, max_records=_EACH)).values():
            yield records


def _kafka_python_producer(bootstrap: str, linger_ms: int) -> AbstractContextManager[Any]:
    from kafka import KafkaProducer

    return closing(
        KafkaProducer(
            bootstrap_servers=bootstrap,
            acks="all",
            enable_idempotence=True,
            linger_ms=linger_ms,
            batch_size=_BATCH_BYTES,
        )
    )


@contextmanager
def _kafka_python_consumer(bootstrap: str, topic: str) -> Iterator[Any]:
    from kafka import KafkaConsumer, TopicPartition

    with closing(
        KafkaConsumer(
            bootstrap_servers=bootstrap,
            isolation_level="read_committed",
            enable_auto_commit=False,
            max_poll_records=_EACH,
        )
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek(TopicPartition(topic, 0), 0)
        yield consumer


def _kafka_python_read(consumer: Any, seen: _Seen, count: int) -> None:
    for record in consumer:
        if record.offset != seen.next_offset:
            raise Missing(f"offset {seen.next_offset}")
        seen.next_offset += 1
        seen.bytes += len(record.value or b"")
        if seen.next_offset >= count:
            break


def _kafka_python_read_batches(consumer: Any, seen: _Seen, count: int) -> None:
    while seen.next_offset < count:
        for records in consumer.poll(timeout_ms=1000, max_records=min(_EACH, count - seen.next_offset)).values():
            seen.look(records)


@contextmanager
def _confluent_producer(bootstrap: str, linger_ms: int) -> Iterator[Any]:
    from confluent_kafka import Producer

    yield Producer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": linger_ms,
            "batch.size": _BATCH_BYTES,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 1_000_000,
        }
    )


def _confluent_flush(producer: Any, _: object = None) -> None:
    if producer.flush(_PATIENCE_S):
        raise Missing(f"{len(producer)} records were not acknowledged")


def _confluent_consumer(bootstrap: str, topic: str) -> AbstractContextManager[Any]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "group.id": "bench",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    return closing(consumer)


def _confluent_read(consumer: Any, seen: _Seen, count: int) -> None:
    while seen.next_offset < count:
        message = consumer.poll(_PATIENCE_S)
        if message is None or message.error() is not None or message.offset() != seen.next_offset:
            raise Missing(f"offset {seen.next_offset}: {message and message.error()}")
        seen.next_offset += 1
        seen.bytes += len(message.value() or b"")


def _confluent_read_batches(consumer: Any, seen: _Seen, count: int) -> None:
    while seen.next_offset < count:
        for message in consumer.consume(min(_EACH, count - seen.next_offset), timeout=1.0):
            if message.error() is not None or message.offset() != seen.next_offset:
                raise Missing(f"offset {seen.next_offset}: {message.error()}")
            seen.next_offset += 1
            seen.bytes += len(message.value() or b"")


ONCELOG = AsyncClient(
    _oncelog_producer,
    _oncelog_consumer,
    attrgetter("send"),
    attrgetter("send_soon"),
    lambda consumer: aiter(consumer.batches()),
)
"""This client, interpreted or compiled as the process has it."""
AIOKAFKA = AsyncClient(
    _aiokafka_producer, _aiokafka_consumer, attrgetter("send_and_wait"), attrgetter("send"), _aiokafka_batches
)
KAFKA_PYTHON = BlockingClient(
    _kafka_python_producer,
    _kafka_python_consumer,
    attrgetter("send"),
    lambda _, sent: sent.get(_PATIENCE_S),
    lambda producer: producer.flush(),
    _kafka_python_read,
    _kafka_python_read_batches,
)
CONFLUENT_KAFKA = BlockingClient(
    _confluent_producer,
    _confluent_consumer,
    attrgetter("produce"),
    _confluent_flush,
    _confluent_flush,
    _confluent_read,
    _confluent_read_batches,
)
DRIVERS: dict[str, Callable[[str], AsyncDriver | BlockingDriver]] = {
    "oncelog": partial(AsyncDriver, ONCELOG),
    "aiokafka": partial(AsyncDriver, AIOKAFKA),
    "kafka-python": partial(BlockingDriver, KAFKA_PYTHON),
    "confluent-kafka": partial(BlockingDriver, CONFLUENT_KAFKA),
}
