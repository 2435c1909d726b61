"""The program of this project's client: python -m tests.proofs.clients.own BOOTSTRAP TOPIC SEED REST_MS"""

import asyncio
import logging
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from oncelog.client import (
    CommitUnknown,
    Consumer,
    KafkaError,
    NoOffsetForPartition,
    Producer,
    TopicPartition,
    TransactionalSession,
)
from tests.proofs.clients.lines import ABORTED, COMMITTED, COPIES, PARTITIONS, UNKNOWN, Job, Transact

_TIMEOUT_MS = 60_000
_LOOK_MS = 100


@dataclass
class Program:
    job: Job

    def run(self) -> None:
        self.job.run(self._writer, self._copy, self._follow)

    # --- transactions -------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _writer(self, number: str) -> AsyncIterator[Transact]:
        async with Producer(
            self.job.bootstrap,
            transactional_id=f"{self.job.topic}-{number}",
            transaction_timeout_ms=_TIMEOUT_MS,
            request_timeout_ms=5_000,
            linger_ms=1,
        ) as producer:
            yield partial(self._transact, producer)

    async def _transact(self, producer: Producer[bytes, bytes], name: str, commits: bool) -> bool:
        begun_s, asked = time.monotonic(), False
        transaction = producer.transaction()
        try:
            async with transaction:
                sends = [
                    transaction.send(self.job.topic, name.encode(), partition=partition)
                    for partition in range(PARTITIONS)
                ]
                await asyncio.gather(*sends)
                if commits:
                    asked = True
                    await self._until_known(transaction.commit)
                else:
                    await transaction.abort()
        except KafkaError as error:
            self.job.report(error)
            self.job.end(name, UNKNOWN if asked and transaction.state != ABORTED else ABORTED, begun_s)
            return not error.fatal
        self.job.end(name, COMMITTED if commits else ABORTED, begun_s)
        return True

    async def _until_known(self, commit: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                return await commit()
            except CommitUnknown as error:
                self.job.report(error)

    # --- read, process, write -----------------------------------------------------------------------------------------

    async def _copy(self) -> None:
        """A session waits for records without end."""
        copying = asyncio.create_task(self._copying())
        over = asyncio.create_task(asyncio.to_thread(self.job.over.wait))
        await asyncio.wait((copying, over), return_when=asyncio.FIRST_COMPLETED)
        if copying.done():
            copying.result()
        copying.cancel()
        await asyncio.wait((copying,))

    async def _copying(self) -> None:
        while True:
            try:
                async with TransactionalSession(
                    self.job.topic,
                    bootstrap_servers=self.job.bootstrap,
                    group_id=self.job.topic,
                    transactional_id=f"{self.job.topic}-copier",
                    consumer={"session_timeout_ms": 10_000, "request_timeout_ms": 5_000},
                    producer={"transaction_timeout_ms": _TIMEOUT_MS, "request_timeout_ms": 5_000},
                    max_wait_ms=_LOOK_MS,
                ) as session:
                    await self._copy_batches(session)
            except KafkaError as error:
                self.job.report(error)

    async def _copy_batches(self, session: "TransactionalSession[bytes, bytes, bytes, bytes]") -> None:
        async for batch in session:
            async with batch:
                for record in batch:
                    value = b"%b %d" % (record.value or b"", record.partition)
                    await batch.send_soon(self.job.topic + COPIES, value, partition=record.partition)
            if batch.error is not None:
                self.job.say("error", batch.error.name)

    # --- a reader -----------------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        asyncio.run(self._following())

    async def _follow(self) -> None:
        places = [TopicPartition(self.job.topic, partition) for partition in range(PARTITIONS)]
        async with Consumer(
            bootstrap_servers=self.job.bootstrap, auto_offset_reset="error", request_timeout_ms=5_000
        ) as consumer:
            consumer.assign(places)
            await consumer.seek_to_beginning(*places)
            while not self.job.over.is_set():
                try:
                    for record in await consumer.poll(_LOOK_MS):
                        self.job.say("read", record.partition, record.offset, (record.value or b"").decode())
                except NoOffsetForPartition as error:
                    for place in places:
                        self.job.say(*("again", place.partition) if place.partition else ("told", 0, error.name))
                        consumer.seek(place, 0)
                except KafkaError as error:
                    self.job.report(error)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    Program(Job(KafkaError, lambda error: error.name, *sys.argv[1:5])).run()
