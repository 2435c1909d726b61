"""The clients that are compared: a class each, with the same five methods.

Owns: the calls that a user of each client would write. Does not own: counting rounds, processes (`worker`). All have
the same settings where they have different defaults: acks=all, idempotent, batches of 16 kB that linger 5 ms (Java's
defaults), read_committed, partition 0. Invariant: the clock covers neither connections nor the first record.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

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


class Driver(Protocol):
    """Each method does `count` operations inside `with clock`, and raises if a record is refused or missing."""

    def __init__(self, bootstrap: str) -> None: ...

    def produce(self, topic: str, value: bytes, count: int, clock: Clock) -> None:
        """All of them, then one wait."""

    def produce_and_wait(self, topic: str, value: bytes, count: int, clock: Clock) -> None: ...

    def consume(self, topic: str, count: int, clock: Clock) -> None:
        """One after the other, from the beginning; the value and the offset of each are looked at."""

    def consume_batches(self, topic: str, count: int, clock: Clock) -> None:
        """What the client calls several records at a time; looked at as in `consume`."""


class Missing(Exception):
    """A record that was written was not read, or not where it was."""


class _Seen:
    """Looks at records: their offsets must follow each other."""

    __slots__ = ("bytes", "next_offset")

    def __init__(self) -> None:
        self.next_offset = 0
        self.bytes = 0

    def check(self, count: int) -> None:
        if self.next_offset < count:
            raise Missing(f"{self.next_offset} of {count} records")


class Oncelog:
    """This client, interpreted or compiled as the process has it."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def produce(self, topic: str, value: bytes, count: int, clock: Clock) -> None:
        async def run() -> None:
            async with self._producer(_LINGER_MS) as producer:
                await producer.send(topic, value, partition=0)
                with clock:
                    for _ in range(count):
                        await producer.send_soon(topic, value, partition=0)
                    await producer.flush()

        asyncio.run(run())

    def produce_and_wait(self, topic: str, value: bytes, count: int, clock: Clock) -> None:
        async def run() -> None:
            async with self._producer(0) as producer:
                await producer.send(topic, value, partition=0)
                with clock:
                    for _ in range(count):
                        started_s = time.perf_counter()
                        await producer.send(topic, value, partition=0)
                        clock.durations_s.append(time.perf_counter() - started_s)

        asyncio.run(run())

    def consume(self, topic: str, count: int, clock: Clock) -> None:
        async def run() -> None:
            async with self._consumer(topic) as consumer:
                seen = _Seen()
                records = aiter(consumer)
                first = await anext(records)
                seen.next_offset, seen.bytes = first.offset + 1, len(first.value or b"")
                with clock:
                    async for record in records:
                        if record.offset != seen.next_offset:
                            raise Missing(f"offset {seen.next_offset}")
                        seen.next_offset += 1
                        seen.bytes += len(record.value or b"")
                        if seen.next_offset >= count:
                            break
                seen.check(count)

        asyncio.run(run())

    def consume_batches(self, topic: str, count: int, clock: Clock) -> None:
        async def run() -> None:
            async with self._consumer(topic) as consumer:
                seen = _Seen()
                _look(seen, await consumer.next_batch(max_records=1))
                with clock:
                    async for batch in consumer.batches():
                        _look(seen, batch)
                        if seen.next_offset >= count:
                            break
                seen.check(count)

        asyncio.run(run())

    def _producer(self, linger_ms: float) -> Any:
        from oncelog.client import Producer

        return Producer(self._bootstrap, linger_ms=linger_ms, batch_size=_BATCH_BYTES)

    @asynccontextmanager
    async def _consumer(self, topic: str) -> AsyncIterator[Any]:
        from oncelog.client import Consumer, TopicPartition

        async with Consumer(
            bootstrap_servers=self._bootstrap, isolation_level="read_committed", auto_offset_reset="error"
        ) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            consumer.seek(TopicPartition(topic, 0), 0)
            yield consumer


class AioKafka:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def produce(self, topic: str, value: bytes, count: int, clock: Clock) -> None:
        async def run() -> None:
            async with self._producer(_LINGER_MS) as producer:
                await producer.send_and_wait(topic, value, partition=0)
                with clock:
                    for _ in range(count):
                        last = await producer.send(topic, value, partition=0)
                    await producer.flush()
                    await last

        asyncio.run(run())

    def produce_and_wait(self, topic: str, value: bytes, count: int, clock: Clock) -> None:
        async def run() -> None:
            async with self._producer(0) as producer:
                await producer.send_and_wait(topic, value, partition=0)
                with clock:
                    for _ in range(count):
                        started_s = time.perf_counter()
                        await producer.send_and_wait(topic, value, partition=0)
                        clock.durations_s.append(time.perf_counter() - started_s)

        asyncio.run(run())

    def consume(self, topic: str, count: int, clock: Clock) -> None:
        async def run() -> None:
            async with self._consumer(topic) as consumer:
                seen = _Seen()
                _look(seen, [await consumer.getone()])
                with clock:
                    async for record in consumer:
                        if record.offset != seen.next_offset:
                            raise Missing(f"offset {seen.next_offset}")
                        seen.next_offset += 1
                        seen.bytes += len(record.value or b"")
                        if seen.next_offset >= count:
                            break
                seen.check(count)

        asyncio.run(run())

    def consume_batches(self, topic: str, count: int, clock: Clock) -> None:
        async def run() -> None:
            async with self._consumer(topic) as consumer:
                seen = _Seen()
                _look(seen, [await consumer.getone()])
                with clock:
                    while seen.next_offset < count:
                        for records in (await consumer.getmany(timeout_ms=1000, max_records=_EACH)).values():
                            _look(seen, records)

        asyncio.run(run())

    @asynccontextmanager
    async def _producer(self, linger_ms: int) -> AsyncIterator[Any]:
        from aiokafka import AIOKafkaProducer

        async with AIOKafkaProducer(
            bootstrap_servers=self._bootstrap,
            enable_idempotence=True,
            linger_ms=linger_ms,
            max_batch_size=_BATCH_BYTES,
        ) as producer:
            yield producer

    @asynccontextmanager
    async def _consumer(self, topic: str) -> AsyncIterator[Any]:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap,
            isolation_level="read_committed",
            enable_auto_commit=False,
            max_poll_records=_EACH,
        )
        consumer.assign([TopicPartition(topic, 0)])
        async with consumer:
            consumer.seek(TopicPartition(topic, 0), 0)
            yield consumer


class KafkaPython:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def produce(self, topic: str, value: bytes, count: int, clock: Clock) -> None:
        with self._producer(_LINGER_MS) as producer:
            producer.send(topic, value, partition=0).get(_PATIENCE_S)
            with clock:
                for _ in range(count):
                    last = producer.send(topic, value, partition=0)
                producer.flush()
                last.get(_PATIENCE_S)

    def produce_and_wait(self, topic: str, value: bytes, count: int, clock: Clock) -> None:
        with self._producer(0) as producer:
            producer.send(topic, value, partition=0).get(_PATIENCE_S)
            with clock:
                for _ in range(count):
                    started_s = time.perf_counter()
                    producer.send(topic, value, partition=0).get(_PATIENCE_S)
                    clock.durations_s.append(time.perf_counter() - started_s)

    def consume(self, topic: str, count: int, clock: Clock) -> None:
        with self._consumer(topic) as consumer:
            seen = _Seen()
            _look(seen, [next(consumer)])
            with clock:
                for record in consumer:
                    if record.offset != seen.next_offset:
                        raise Missing(f"offset {seen.next_offset}")
                    seen.next_offset += 1
                    seen.bytes += len(record.value or b"")
                    if seen.next_offset >= count:
                        break
            seen.check(count)

    def consume_batches(self, topic: str, count: int, clock: Clock) -> None:
        with self._consumer(topic) as consumer:
            seen = _Seen()
            for records in consumer.poll(timeout_ms=5000, max_records=1).values():
                _look(seen, records)
            with clock:
                while seen.next_offset < count:
                    for records in consumer.poll(timeout_ms=1000).values():
                        _look(seen, records)

    @contextmanager
    def _producer(self, linger_ms: int) -> Iterator[Any]:
        from kafka import KafkaProducer

        producer = KafkaProducer(
            bootstrap_servers=self._bootstrap,
            acks="all",
            enable_idempotence=True,
            linger_ms=linger_ms,
            batch_size=_BATCH_BYTES,
        )
        try:
            yield producer
        finally:
            producer.close()

    @contextmanager
    def _consumer(self, topic: str) -> Iterator[Any]:
        from kafka import KafkaConsumer, TopicPartition

        consumer = KafkaConsumer(
            bootstrap_servers=self._bootstrap,
            isolation_level="read_committed",
            enable_auto_commit=False,
            max_poll_records=_EACH,
        )
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek(TopicPartition(topic, 0), 0)
        try:
            yield consumer
        finally:
            consumer.close()


class ConfluentKafka:
    def __init__(self, bootstrap: str) -> None:
        self._client = {"bootstrap.servers": bootstrap, "log_level": 0}

    def produce(self, topic: str, value: bytes, count: int, clock: Clock) -> None:
        producer = self._producer(_LINGER_MS)
        producer.produce(topic, value, partition=0)
        self._flush(producer)
        with clock:
            for _ in range(count):
                producer.produce(topic, value, partition=0)
            self._flush(producer)

    def produce_and_wait(self, topic: str, value: bytes, count: int, clock: Clock) -> None:
        producer = self._producer(0)
        producer.produce(topic, value, partition=0)
        self._flush(producer)
        with clock:
            for _ in range(count):
                started_s = time.perf_counter()
                producer.produce(topic, value, partition=0)
                self._flush(producer)
                clock.durations_s.append(time.perf_counter() - started_s)

    def consume(self, topic: str, count: int, clock: Clock) -> None:
        consumer = self._consumer(topic)
        seen = _Seen()
        with clock:
            while seen.next_offset < count:
                message = consumer.poll(_PATIENCE_S)
                if message is None or message.error() is not None or message.offset() != seen.next_offset:
                    raise Missing(f"offset {seen.next_offset}: {message and message.error()}")
                seen.next_offset += 1
                seen.bytes += len(message.value() or b"")
        consumer.close()

    def consume_batches(self, topic: str, count: int, clock: Clock) -> None:
        consumer = self._consumer(topic)
        seen = _Seen()
        with clock:
            while seen.next_offset < count:
                messages = consumer.consume(min(_EACH, count - seen.next_offset), timeout=1.0)
                for message in messages:
                    if message.error() is not None or message.offset() != seen.next_offset:
                        raise Missing(f"offset {seen.next_offset}: {message.error()}")
                    seen.next_offset += 1
                    seen.bytes += len(message.value() or b"")
        consumer.close()

    def _producer(self, linger_ms: int) -> Any:
        from confluent_kafka import Producer

        return Producer(
            {
                **self._client,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": linger_ms,
                "batch.size": _BATCH_BYTES,
                "queue.buffering.max.messages": 1_000_000,
                "queue.buffering.max.kbytes": 1_000_000,
            }
        )

    @staticmethod
    def _flush(producer: Any) -> None:
        if producer.flush(_PATIENCE_S):
            raise Missing(f"{len(producer)} records were not acknowledged")

    def _consumer(self, topic: str) -> Any:
        """Its position is set; connecting and the first Fetch are in the clock, some ms."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer(
            {
                **self._client,
                "group.id": "bench",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",
            }
        )
        consumer.assign([TopicPartition(topic, 0, 0)])
        return consumer


def _look(seen: _Seen, records: Sequence[Any]) -> None:
    next_offset, size = seen.next_offset, seen.bytes
    for record in records:
        if record.offset != next_offset:
            raise Missing(f"offset {next_offset}")
        next_offset += 1
        size += len(record.value or b"")
    seen.next_offset, seen.bytes = next_offset, size


DRIVERS: dict[str, Callable[[str], Driver]] = {
    "oncelog": Oncelog,
    "aiokafka": AioKafka,
    "kafka-python": KafkaPython,
    "confluent-kafka": ConfluentKafka,
}
