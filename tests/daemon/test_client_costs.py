"""What a record costs in this client, whatever the load of the machine: lines of Python, with its share of its batch,
of the requests, and of the turns of the event loop (asyncio's own are not counted).

The figures were counted with CPython 3.11. A change that needs more than 5 % above one says in its commit what that
buys, and changes the figure; a change that saves some lowers it. Hooks, serializers and the like that are not set must
not be seen here.
"""

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from oncelog import client, protocol
from oncelog.client import Consumer, Producer, TopicPartition
from tests.support.processes.daemon import Daemon

pytestmark = [
    pytest.mark.interpreted,
    pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="other versions count lines in other ways"),
]
ALLOWED = 1.05
COUNT = 1_500
VALUE = bytes(100)
FIGURES = {
    "send_soon": 60.1,
    "send_soon with a key": 69.8,
    "send and wait": 566,
    "async for": 36.6,
    "batches": 30.6,
}
_COUNTED = tuple(str(Path(package.__file__ or "").parent) for package in (client, protocol))


class Lines:
    """How many were executed in the client and its codecs."""

    def __init__(self) -> None:
        self.count = 0

    @contextmanager
    def counted(self) -> Iterator[None]:
        before = sys.gettrace()
        sys.settrace(self._on_event)
        try:
            yield
        finally:
            sys.settrace(before)

    def _on_event(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "call" and not frame.f_code.co_filename.startswith(_COUNTED):
            return None
        self.count += event == "line"
        return self._on_event


async def per_record(work: Callable[[], Awaitable[None]]) -> float:
    lines = Lines()
    with lines.counted():
        await work()
    return lines.count / COUNT


@asynccontextmanager
async def consumer_of(daemon: Daemon, topic: str) -> AsyncIterator[Consumer]:
    """It has what it needs to know, and is at the beginning."""
    async with Consumer(bootstrap_servers=daemon.bootstrap, auto_offset_reset="error") as consumer:
        place = TopicPartition(topic, 0)
        consumer.assign([place])
        consumer.seek(place, 0)
        await consumer.next_batch(max_records=1)
        consumer.seek(place, 0)
        yield consumer


async def filled(daemon: Daemon, topic: str) -> None:
    async with Producer(daemon.bootstrap) as producer:
        for _ in range(COUNT):
            await producer.send_soon(topic, VALUE, partition=0)


async def producing(daemon: Daemon) -> dict[str, float]:
    async with Producer(daemon.bootstrap, linger_ms=1000) as producer:
        await producer.send("produced", VALUE, partition=0)

        async def soon(key: bytes | None = None) -> None:
            for _ in range(COUNT):
                await producer.send_soon("produced", VALUE, key=key, partition=0)
            await producer.flush()

        async def wait() -> None:
            for _ in range(COUNT):
                await producer.send("produced", VALUE, partition=0)

        return {
            "send_soon": await per_record(soon),
            "send_soon with a key": await per_record(lambda: soon(b"key")),
            "send and wait": await per_record(wait),
        }


async def consuming(daemon: Daemon) -> dict[str, float]:
    await filled(daemon, "consumed")
    found = {}
    async with consumer_of(daemon, "consumed") as consumer:

        async def iterate() -> None:
            left = COUNT
            async for _ in consumer:
                left -= 1
                if not left:
                    break

        found["async for"] = await per_record(iterate)
    async with consumer_of(daemon, "consumed") as consumer:

        async def take_batches() -> None:
            left = COUNT
            async for batch in consumer.batches():
                left -= len(batch)
                if not left:
                    break

        found["batches"] = await per_record(take_batches)
    return found


async def test_a_record_costs_no_more_lines_than_its_figure(daemon: Daemon) -> None:
    found = await producing(daemon) | await consuming(daemon)
    assert {name: (FIGURES[name], lines) for name, lines in found.items() if lines > FIGURES[name] * ALLOWED} == {}
    assert found.keys() == FIGURES.keys()
