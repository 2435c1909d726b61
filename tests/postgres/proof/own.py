"""The program of this project's client: python -m tests.postgres.proof.own BOOTSTRAP TOPIC SEED REST_MS"""

import asyncio
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random

from oncelog.client import (
    CommitUnknown,
    Consumer,
    KafkaError,
    NoOffsetForPartition,
    Producer,
    TopicPartition,
    TransactionalSession,
)
from tests.postgres.proof.lines import (
    ABORTED,
    COMMITTED,
    COPIES,
    PARTITIONS,
    UNKNOWN,
    Lines,
    end_with_any_thread,
    run_threads,
)

_TIMEOUT_MS = 60_000
_LOOK_MS = 100


@dataclass
class Program:
    bootstrap: str
    topic: str
    seed: str
    rest_ms: str
    lines: Lines = field(default_factory=Lines)
    stops: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Each client has a loop of its own, as each would be a program of its own."""
        run_threads(self.stops, self.over, self.lines, self._write, (self._copy, self._follow))

    # --- transactions -------------------------------------------------------------------------------------------------

    def _write(self, number: int) -> None:
        asyncio.run(self._writing(number))

    async def _writing(self, number: int) -> None:
        random, life = Random(f"{self.seed} {number}"), 0
        while not self.stops.is_set():
            life += 1
            try:
                async with Producer(
                    self.bootstrap,
                    transactional_id=f"{self.topic}-{number}",
                    transaction_timeout_ms=_TIMEOUT_MS,
                    request_timeout_ms=5_000,
                    linger_ms=1,
                ) as producer:
                    transaction = 0
                    while not self.stops.is_set():
                        transaction += 1
                        name = f"{number}.{life}.{transaction}"
                        await self._transact(producer, name, commits=random.random() < 0.85)
                        await asyncio.to_thread(self.stops.wait, random.uniform(0, int(self.rest_ms) / 1000))
            except KafkaError as error:
                if not error.fatal:
                    self.lines.say("error", error.name)  # of the opening

    async def _transact(self, producer: Producer[bytes, bytes], name: str, *, commits: bool) -> None:
        """Raises KafkaError if this producer can do no more."""
        begun_s, asked = time.monotonic(), False
        transaction = producer.transaction()
        try:
            async with transaction:
                sends = [
                    transaction.send(self.topic, name.encode(), partition=partition) for partition in range(PARTITIONS)
                ]
                await asyncio.gather(*sends)
                if commits:
                    asked = True
                    await self._until_known(transaction.commit)
                else:
                    await transaction.abort()
        except KafkaError as error:
            self.lines.say("error", error.name)
            self.lines.end(name, UNKNOWN if asked and transaction.state != ABORTED else ABORTED, begun_s)
            if error.fatal:
                raise
        else:
            self.lines.end(name, COMMITTED if commits else ABORTED, begun_s)

    async def _until_known(self, commit: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                return await commit()
            except CommitUnknown as error:
                self.lines.say("error", error.name)

    # --- read, process, write -----------------------------------------------------------------------------------------

    def _copy(self) -> None:
        asyncio.run(self._copying_until_over())

    async def _copying_until_over(self) -> None:
        """A session waits for records without end."""
        copying = asyncio.create_task(self._copying())
        over = asyncio.create_task(asyncio.to_thread(self.over.wait))
        await asyncio.wait((copying, over), return_when=asyncio.FIRST_COMPLETED)
        if copying.done():
            copying.result()
        copying.cancel()
        await asyncio.wait((copying,))

    async def _copying(self) -> None:
        while True:
            try:
                async with TransactionalSession(
                    self.topic,
                    bootstrap_servers=self.bootstrap,
                    group_id=self.topic,
                    transactional_id=f"{self.topic}-copier",
                    consumer={"session_timeout_ms": 10_000, "request_timeout_ms": 5_000},
                    producer={"transaction_timeout_ms": _TIMEOUT_MS, "request_timeout_ms": 5_000},
                    max_wait_ms=_LOOK_MS,
                ) as session:
                    await self._copy_batches(session)
            except KafkaError as error:
                self.lines.say("error", error.name)

    async def _copy_batches(self, session: "TransactionalSession[bytes, bytes, bytes, bytes]") -> None:
        async for batch in session:
            async with batch:
                for record in batch:
                    value = b"%b %d" % (record.value or b"", record.partition)
                    await batch.send_soon(self.topic + COPIES, value, partition=record.partition)
            if batch.error is not None:
                self.lines.say("error", batch.error.name)

    # --- a reader -----------------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        asyncio.run(self._following())

    async def _following(self) -> None:
        places = [TopicPartition(self.topic, partition) for partition in range(PARTITIONS)]
        async with Consumer(
            bootstrap_servers=self.bootstrap, auto_offset_reset="error", request_timeout_ms=5_000
        ) as consumer:
            consumer.assign(places)
            await consumer.seek_to_beginning(*places)
            while not self.over.is_set():
                try:
                    for record in await consumer.poll(_LOOK_MS):
                        self.lines.say("read", record.partition, record.offset, (record.value or b"").decode())
                except NoOffsetForPartition as error:
                    for place in places:
                        self.lines.say(*("again", place.partition) if place.partition else ("told", 0, error.name))
                        consumer.seek(place, 0)
                except KafkaError as error:
                    self.lines.say("error", error.name)


if __name__ == "__main__":
    end_with_any_thread()
    Program(*sys.argv[1:5]).run()
