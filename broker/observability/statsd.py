"""Sends the broker's counters as StatsD datagrams over UDP.

Owns: the datagrams' text, when they are sent. Does not own: the numbers (`metrics`). Invariants
- A counter is sent as its growth since the last report that was sent, so a lost datagram loses only its own growth.
- No datagram is longer than 1,432 bytes, so that it is not fragmented on an ordinary network.
- Problems of the receiver never affect the broker's work.
"""

import asyncio
import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import asyncio_dgram

from oncelog.broker.observability.metrics import Metrics

MAX_DATAGRAM_BYTES = 1432
_PREFIX = "oncelog"
_NOT_IN_A_NAME = re.compile("[^A-Za-z0-9_.-]")


class StatsdReporter:
    """Reports every `interval_ms` from `start` to `close`; `refresh` updates the gauges before each report."""

    def __init__(
        self, metrics: Metrics, address: tuple[str, int], interval_ms: int, refresh: Callable[[], None] = lambda: None
    ) -> None:
        self._metrics = metrics
        self._address = address
        self._interval_s = interval_ms / 1000
        self._refresh = refresh
        self._sent = metrics.counters()
        self._client: Any = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Raises OSError when the address cannot be resolved."""
        self._client = await asyncio_dgram.connect(self._address)
        self._task = asyncio.get_running_loop().create_task(self._run(), name="statsd")

    async def report(self) -> None:
        """Send what has changed since the last report; a datagram that cannot be sent is dropped."""
        self._refresh()
        counters = self._metrics.counters()
        lines = [*statsd_lines(self._sent, counters, self._metrics.gauges())]
        self._sent = counters
        for datagram in pack_datagrams(lines):
            # "Connection refused" is the reaction to an earlier datagram: nothing listens yet.
            with contextlib.suppress(OSError):
                await self._client.send(datagram)

    async def close(self) -> None:
        """A last report, then no more."""
        if self._task is None:
            return
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        self._task = None
        await self.report()
        self._client.close()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            await self.report()


def statsd_lines(before: Mapping[str, int], now: Mapping[str, int], gauges: Mapping[str, int]) -> Iterator[str]:
    """`name:growth|c` for each counter that grew, `name:value|g` for each gauge."""
    for name, value in now.items():
        growth = value - before.get(name, 0)
        if growth:
            yield f"{_PREFIX}.{_metric(name)}:{growth}|c"
    for name, value in gauges.items():
        yield f"{_PREFIX}.{_metric(name)}:{value}|g"


def _metric(name: str) -> str:
    """Replaces a datagram's special characters: a colon, a bar or a newline would start another metric."""
    return _NOT_IN_A_NAME.sub("_", name)


def pack_datagrams(lines: list[str], max_bytes: int = MAX_DATAGRAM_BYTES) -> Iterator[bytes]:
    """Lines joined by newlines into as few datagrams as their order allows."""
    pending: list[bytes] = []
    size = 0
    for line in lines:
        encoded = line.encode("ascii")
        if pending and size + 1 + len(encoded) > max_bytes:
            yield b"\n".join(pending)
            pending, size = [], 0
        size += len(encoded) + (1 if pending else 0)
        pending.append(encoded)
    if pending:
        yield b"\n".join(pending)
