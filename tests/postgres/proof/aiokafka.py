"""The program of aiokafka's client: python -m tests.postgres.proof.aiokafka BOOTSTRAP TOPIC SEED"""

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from random import Random
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError

from tests.postgres.proof.lines import (
    ABORTED,
    COMMITTED,
    COPIES,
    PARTITIONS,
    UNKNOWN,
    WRITERS,
    Lines,
    await_stop,
    end_with_any_thread,
)

_TIMEOUT_MS = 60_000
_LOOK_MS = 100


class _BetweenTransactions(ConsumerRebalanceListener):  # type: ignore[misc]
    """Positions are fetched again after a rebalance, and aiokafka does not wait for open transactions (KIP-447)."""

    def __init__(self, transacting: asyncio.Lock) -> None:
        self._transacting = transacting

    async def on_partitions_revoked(self, revoked: object) -> None:
        async with self._transacting:
            return

    async def on_partitions_assigned(self, assigned: object) -> None:
        """Nothing is to be done."""


@dataclass
class Program:
    bootstrap: str
    topic: str
    seed: str
    lines: Lines = field(default_factory=Lines)
    stops: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Each client has a loop of its own, as each would be a program of its own."""
        writers = [self._thread(lambda number=number: self._write(number)) for number in range(WRITERS)]
        others = [self._thread(each) for each in (self._copy, self._follow)]
        for each in writers + others:
            each.start()
        await_stop(self.stops, self.over, self.lines, writers)
        for each in others:
            each.join()

    def _thread(self, function: Callable[[], Coroutine[Any, Any, None]]) -> threading.Thread:
        return threading.Thread(target=lambda: asyncio.run(function()))

    async def _producer(self, name: str) -> AIOKafkaProducer:
        """It has ended what the one before it left open."""
        producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap,
            transactional_id=f"{self.topic}-{name}",
            transaction_timeout_ms=_TIMEOUT_MS,
            request_timeout_ms=5_000,
        )
        await producer.start()
        return producer

    def _consumer(self, **settings: Any) -> AIOKafkaConsumer:
        fixed = {"isolation_level": "read_committed", "enable_auto_commit": False, "fetch_max_wait_ms": 100}
        return AIOKafkaConsumer(bootstrap_servers=self.bootstrap, request_timeout_ms=5_000, **fixed, **settings)

    def _report(self, error: Exception) -> None:
        self.lines.say("error", type(error).__name__)

    # --- transactions -------------------------------------------------------------------------------------------------

    async def _write(self, number: int) -> None:
        random, life = Random(f"{self.seed} {number}"), 0
        while not self.stops.is_set():
            life += 1
            producer = await self._producer(str(number))
            transaction, goes_on = 0, True
            while goes_on and not self.stops.is_set():
                transaction += 1
                name = f"{number}.{life}.{transaction}"
                goes_on = await self._transact(producer, name, commits=random.random() < 0.85)
                await asyncio.to_thread(self.stops.wait, random.uniform(0, 0.02))
            await producer.stop()

    async def _transact(self, producer: AIOKafkaProducer, name: str, *, commits: bool) -> bool:
        """Whether this producer can go on; otherwise the next one fences it."""
        begun_s, asked = time.monotonic(), False
        try:
            await producer.begin_transaction()
            sent = [
                await producer.send(self.topic, name.encode(), partition=partition) for partition in range(PARTITIONS)
            ]
            await asyncio.gather(*sent)
            if commits:
                asked = True
                await producer.commit_transaction()
            else:
                await producer.abort_transaction()
        except KafkaError as error:
            self._report(error)
            self.lines.end(name, UNKNOWN if asked else ABORTED, begun_s)
            return False
        self.lines.end(name, COMMITTED if commits else ABORTED, begun_s)
        return True

    # --- read, process, write -----------------------------------------------------------------------------------------

    async def _copy(self) -> None:
        """After an error both begin anew, where the group has committed."""
        while not self.over.is_set():
            transacting = asyncio.Lock()
            producer = await self._producer("copier")
            consumer = self._consumer(group_id=self.topic, auto_offset_reset="earliest")
            consumer.subscribe([self.topic], listener=_BetweenTransactions(transacting))
            await consumer.start()
            try:
                while not self.over.is_set():
                    async with transacting:
                        await self._copy_some(consumer, producer)
            except KafkaError as error:
                self._report(error)
            finally:
                await consumer.stop()
                await producer.stop()

    async def _copy_some(self, consumer: AIOKafkaConsumer, producer: AIOKafkaProducer) -> None:
        found = await consumer.getmany(timeout_ms=_LOOK_MS)
        if not found:
            return
        await producer.begin_transaction()
        for place, records in found.items():
            for record in records:
                value = b"%b %d" % (record.value, place.partition)
                await producer.send(self.topic + COPIES, value, partition=place.partition)
        ends = {place: records[-1].offset + 1 for place, records in found.items()}
        await producer.send_offsets_to_transaction(ends, self.topic)
        await producer.commit_transaction()

    # --- a reader -----------------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        consumer = self._consumer(auto_offset_reset="none")
        places = [TopicPartition(self.topic, partition) for partition in range(PARTITIONS)]
        await consumer.start()
        consumer.assign(places)
        await consumer.seek_to_beginning(*places)
        while not self.over.is_set():
            for records in (await consumer.getmany(timeout_ms=_LOOK_MS)).values():
                for record in records:
                    self.lines.say("read", record.partition, record.offset, record.value.decode())
        await consumer.stop()


if __name__ == "__main__":
    end_with_any_thread()
    Program(*sys.argv[1:4]).run()
