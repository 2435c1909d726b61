"""Members of our client's in one group, and a ledger of who owned and read what.

The ledger checks as it goes: no partition has two owners at a time, only an owner reads, and each record is read once.
"""

import asyncio
from collections.abc import Sequence

from oncelog.client import Consumer, ConsumerOptions, TopicPartition
from tests.support.patience import PATIENCE_S


class Ledger:
    def __init__(self) -> None:
        self.owners: dict[TopicPartition, str] = {}
        self.reads: list[int] = []
        self.readers: set[str] = set()
        self.revoked: list[tuple[str, int]] = []
        """Each revocation: the member, and how many partitions it gave up at once."""
        self.changed = asyncio.Condition()

    async def assign(self, name: str, partitions: Sequence[TopicPartition]) -> None:
        for each in partitions:
            assert each not in self.owners, f"{name} gets {each}, which {self.owners[each]} has"
            self.owners[each] = name
        await self.notify()

    async def revoke(self, name: str, partitions: Sequence[TopicPartition]) -> None:
        self.revoked.append((name, len(partitions)))
        for each in partitions:
            assert self.owners.pop(each) == name
        await self.notify()

    async def notify(self) -> None:
        async with self.changed:
            self.changed.notify_all()

    async def wait_for_shares(self, *shares: int) -> None:
        """Wait until the members own so many partitions each; `shares` is in ascending order."""
        await self._wait(lambda: sorted(map([*self.owners.values()].count, {*self.owners.values()})) == list(shares))

    async def wait_for_reads(self, count: int) -> None:
        await self._wait(lambda: len(self.reads) >= count)

    async def _wait(self, holds: object) -> None:
        assert callable(holds)
        try:
            async with asyncio.timeout(PATIENCE_S), self.changed:
                await self.changed.wait_for(holds)
        except TimeoutError:
            raise AssertionError(f"{self.owners}, {len(self.reads)} records") from None


class Worker:
    """`async with Worker(...)`: reads, notes and commits in a task of its own until the block ends."""

    def __init__(self, name: str, ledger: Ledger, topics: Sequence[str], options: ConsumerOptions) -> None:
        self.name = name
        self._ledger = ledger
        self._topics = topics
        self._options = options
        self._task: asyncio.Task[None] | None = None
        self._is_over = asyncio.Event()

    async def __aenter__(self) -> "Worker":
        self._task = asyncio.ensure_future(self._run())
        self._task.add_done_callback(lambda _: self._is_over.set())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_over.set()
        if self._task is not None:
            await self._task

    async def _run(self) -> None:
        ledger, name = self._ledger, self.name
        async with Consumer(
            *self._topics,
            on_assign=lambda partitions: ledger.assign(name, partitions),
            on_revoke=lambda partitions: ledger.revoke(name, partitions),
            **self._options,
        ) as consumer:
            while not self._is_over.is_set():
                for record in (records := await consumer.poll(50)):
                    assert ledger.owners[record.topic_partition] == name
                    ledger.reads.append(int(record.value or b"-1"))
                    ledger.readers.add(name)
                if records:
                    await consumer.commit_sync()
                    await ledger.notify()
