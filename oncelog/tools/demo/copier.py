"""The process that `oncelog demo delivery` kills: copies a topic in one of the three delivery modes.

Owns: the two loops, as a user would write them, and where this process ends itself with SIGKILL. It ends by itself when
nothing is left to read. Records are numbers, counted from 0.
"""

import asyncio
import os
import signal
import sys
from typing import Literal

from oncelog.client import (
    Consumer,
    DeliveryMode,
    Producer,
    SessionConsumerOptions,
    SessionProducerOptions,
    TransactionalSession,
)

KillAt = Literal["never", "within", "after"]
"""When to kill: within a batch, some of whose results are sent; or after it, when its results are acknowledged and its
offsets are not committed yet."""
_BATCH = 10
_IDLE_MS = 700


class Copier:
    def __init__(self, bootstrap: str, mode: DeliveryMode, kill_at: KillAt, number: int) -> None:
        self._bootstrap = bootstrap
        self._mode = mode
        self._kill_at = kill_at
        self._number = number
        # A static member: the group does not rebalance when it is killed and comes back.
        self._read: SessionConsumerOptions = {
            "delivery": mode,
            "auto_offset_reset": "earliest",
            "max_poll_records": _BATCH,
            "group_instance_id": mode,
        }
        self._write: SessionProducerOptions = {"delivery": mode, "retry_backoff_ms": 50}

    async def run(self) -> None:
        if self._mode == "exactly_once":
            await self._in_transactions()
        else:
            await self._plainly()

    async def _plainly(self) -> None:
        read = self._read
        if self._mode == "at_least_once":
            read = {**read, "auto_commit_interval_ms": 0}
        consumer = Consumer(source(self._mode), bootstrap_servers=self._bootstrap, group_id=self._mode, **read)
        async with Producer(self._bootstrap, **self._write) as producer, consumer:
            while batch := await consumer.poll(_IDLE_MS):
                for record in batch:
                    await producer.send_soon(target(self._mode), record.value)
                    await self._maybe_die("within", record.value)
                await producer.flush()
                await self._maybe_die("after", batch[-1].value)

    async def _in_transactions(self) -> None:
        async with TransactionalSession(
            source(self._mode),
            bootstrap_servers=self._bootstrap,
            group_id=self._mode,
            transactional_id=self._mode,
            max_records=_BATCH,
            consumer=self._read,
            producer=self._write,
        ) as session:
            batches = aiter(session)
            while True:
                try:
                    async with asyncio.timeout(_IDLE_MS / 1000):
                        batch = await anext(batches)
                except TimeoutError:
                    return
                async with batch:
                    for record in batch:
                        await batch.send_soon(target(self._mode), record.value)
                        await self._maybe_die("within", record.value)
                    await batch.flush()
                    await self._maybe_die("after", batch[-1].value)

    async def _maybe_die(self, where: KillAt, value: bytes | None) -> None:
        if where != self._kill_at or int(value or b"0") < self._number:
            return
        # What is sent reaches the broker: half of a batch is what a kill leaves behind.
        await asyncio.sleep(0.05)
        os.kill(os.getpid(), signal.SIGKILL)


def source(mode: str) -> str:
    return f"in-{mode}"


def target(mode: str) -> str:
    return f"out-{mode}"


if __name__ == "__main__":
    address, its_mode, where, at = sys.argv[1:]
    asyncio.run(Copier(address, its_mode, where, int(at)).run())  # type: ignore[arg-type]  # of the module beside
