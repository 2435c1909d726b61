"""A broker's clients among which everything happens that the dashboard shows: for its test, and for its picture.

Owns: what clients do until they are stopped. Six producers of transactions, of which some abort; three groups, of
which one is slow; two instances with one transactional id, now and then; a record that is too large; a transaction that
stays open for a while.
"""

import asyncio
from contextlib import suppress

from oncelog import Admin, Consumer, KafkaError, NewTopic, Producer

TOPICS = ("orders", "payments", "invoices")
_PARTITIONS = 2
_LARGEST_BYTES = 20_000
_ABORT_EVERY = 9
_STAYS_OPEN_S, _REST_S = 12.0, 20.0
_FENCE_EVERY_S = 7.0


class Scene:
    """Everything runs until `stop`; what raises meanwhile is raised by `stop`."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._stopping = asyncio.Event()
        self._running: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        async with Admin(self._bootstrap) as admin:
            configs = {"max.message.bytes": str(_LARGEST_BYTES)}
            await admin.create_topics(*(NewTopic(name, _PARTITIONS, configs=configs) for name in TOPICS))
        parts = [
            *(self._write(f"till-{number}", TOPICS[number % 3], pause_s=0.03 * (number + 1)) for number in range(6)),
            *(self._read(group, topic, pause_s) for group, topic, pause_s in zip(
                ("billing", "shipping", "nightly"), TOPICS, (0.05, 0.05, 4.0), strict=True
            )),
            self._fence(),
            self._stay_open(),
        ]  # fmt: skip
        self._running = [asyncio.create_task(part) for part in parts]

    async def stop(self) -> None:
        self._stopping.set()
        await asyncio.gather(*self._running)

    async def ends_within(self, seconds: float) -> bool:
        """Whether the scene ends; waits so long for it."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)
        return self._stopping.is_set()

    async def _write(self, name: str, topic: str, pause_s: float) -> None:
        async with Producer(self._bootstrap, transactional_id=name) as producer:
            number = 0
            while not await self.ends_within(pause_s):
                number += 1
                async with producer.transaction() as transaction:
                    for each in range(1 + number % 20):
                        await transaction.send_soon(topic, b"%d cents" % each, key=b"customer-%d" % each)
                    if number % _ABORT_EVERY == 0:
                        await transaction.abort()

    async def _read(self, group: str, topic: str, pause_s: float) -> None:
        async with Consumer(
            topic, bootstrap_servers=self._bootstrap, group_id=group, auto_offset_reset="earliest", max_poll_records=500
        ) as consumer:
            while not await self.ends_within(pause_s):
                if await consumer.poll(100):
                    await consumer.commit_sync()

    async def _fence(self) -> None:
        """The second instance fences the first, which learns it when it writes."""
        while not await self.ends_within(_FENCE_EVERY_S):
            async with Producer(self._bootstrap, transactional_id="shared") as first:
                with suppress(KafkaError):
                    async with first.transaction() as transaction:
                        await transaction.send("orders", b"from the first")
                        async with Producer(self._bootstrap, transactional_id="shared") as second:
                            async with second.transaction() as other:
                                await other.send("orders", b"from the second")
                        await transaction.send("orders", b"from the first, too late")
            async with Producer(self._bootstrap) as producer:
                with suppress(KafkaError):
                    await producer.send("payments", b"too large" * _LARGEST_BYTES)

    async def _stay_open(self) -> None:
        async with Producer(self._bootstrap, transactional_id="month-end") as producer:
            is_over = False
            while not is_over:
                async with producer.transaction() as transaction:
                    await transaction.send("invoices", b"the first of the month", partition=0)
                    is_over = await self.ends_within(_STAYS_OPEN_S)
                is_over = is_over or await self.ends_within(_REST_S)
