"""The program of aiokafka's client: python -m tests.proofs.clients.aiokafka BOOTSTRAP TOPIC SEED REST_MS"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError

from tests.proofs.clients.lines import ABORTED, COMMITTED, COPIES, PARTITIONS, UNKNOWN, Job, Role, Transact

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
    job: Job

    def run(self) -> None:
        self.job.run(self._writer, partial(self.job.copy, self._copier), self._follow)

    async def _producer(self, name: str) -> AIOKafkaProducer:
        """It has ended what the one before it left open."""
        producer = AIOKafkaProducer(
            bootstrap_servers=self.job.bootstrap,
            transactional_id=f"{self.job.topic}-{name}",
            transaction_timeout_ms=_TIMEOUT_MS,
            request_timeout_ms=5_000,
        )
        await producer.start()
        return producer

    def _consumer(self, **settings: Any) -> AIOKafkaConsumer:
        fixed = {"isolation_level": "read_committed", "enable_auto_commit": False, "fetch_max_wait_ms": 100}
        return AIOKafkaConsumer(bootstrap_servers=self.job.bootstrap, request_timeout_ms=5_000, **fixed, **settings)

    # --- transactions -------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _writer(self, number: str) -> AsyncIterator[Transact]:
        producer = await self._producer(number)
        yield partial(self._transact, producer)
        await producer.stop()

    async def _transact(self, producer: AIOKafkaProducer, name: str, commits: bool) -> bool:
        begun_s, asked = time.monotonic(), False
        try:
            await producer.begin_transaction()
            sent = [
                await producer.send(self.job.topic, name.encode(), partition=partition)
                for partition in range(PARTITIONS)
            ]
            await asyncio.gather(*sent)
            if commits:
                asked = True
                await producer.commit_transaction()
            else:
                await producer.abort_transaction()
        except KafkaError as error:
            self.job.report(error)
            self.job.end(name, UNKNOWN if asked else ABORTED, begun_s)
            return False
        self.job.end(name, COMMITTED if commits else ABORTED, begun_s)
        return True

    # --- read, process, write -----------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _copier(self) -> AsyncIterator[Role]:
        transacting = asyncio.Lock()
        producer = await self._producer("copier")
        consumer = self._consumer(group_id=self.job.topic, auto_offset_reset="earliest")
        consumer.subscribe([self.job.topic], listener=_BetweenTransactions(transacting))
        await consumer.start()
        try:
            yield partial(self._copy_some, consumer, producer, transacting)
        finally:
            await consumer.stop()
            await producer.stop()

    async def _copy_some(
        self, consumer: AIOKafkaConsumer, producer: AIOKafkaProducer, transacting: asyncio.Lock
    ) -> None:
        async with transacting:
            found = await consumer.getmany(timeout_ms=_LOOK_MS)
            if not found:
                return
            await producer.begin_transaction()
            for place, records in found.items():
                for record in records:
                    value = b"%b %d" % (record.value, place.partition)
                    await producer.send(self.job.topic + COPIES, value, partition=place.partition)
            ends = {place: records[-1].offset + 1 for place, records in found.items()}
            await producer.send_offsets_to_transaction(ends, self.job.topic)
            await producer.commit_transaction()

    # --- a reader -----------------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        consumer = self._consumer(auto_offset_reset="none")
        places = [TopicPartition(self.job.topic, partition) for partition in range(PARTITIONS)]
        await consumer.start()
        consumer.assign(places)
        await consumer.seek_to_beginning(*places)
        while not self.job.over.is_set():
            for records in (await consumer.getmany(timeout_ms=_LOOK_MS)).values():
                for record in records:
                    self.job.say("read", record.partition, record.offset, record.value.decode())
        await consumer.stop()


if __name__ == "__main__":
    Program(Job(KafkaError, lambda error: type(error).__name__, *sys.argv[1:5])).run()
