"""Sends the broker's metrics as DogStatsD datagrams over UDP.

Owns: the datagrams' text, when they are sent. Does not own: the metrics (`collection`). Invariants
- A counter is sent as its growth since the last report that was sent, so a lost datagram loses only its own growth. A
  histogram is three counters: `.count`, `.sum` in seconds, and `.bucket` with the tag `upper_bound`.
- A gauge that is gone (a deleted topic's) is sent once more as 0: receivers keep the last value.
- No datagram is longer than 1,432 bytes, so that it is not fragmented on an ordinary network.
- Problems of the receiver never affect the broker's work.

Labels are tags (`|#topic:orders,partition:0`); a metric without labels is plain StatsD.
"""

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

import asyncio_dgram

from oncelog.broker.observability.catalogue import COUNTER, PREFIX, Distribution, Sampled
from oncelog.broker.observability.periodic import Periodic

MAX_DATAGRAM_BYTES = 1432
_NOT_IN_A_TAG = re.compile("[^A-Za-z0-9_./-]")
_DATAGRAMS_A_TURN = 64

Series = tuple[str, tuple[str, ...]]
"""The name of a metric and its tags."""


class StatsdReporter:
    """Reports every `interval_ms` from `start` to `close`."""

    def __init__(
        self, collect: Callable[[], Awaitable[list[Sampled]]], address: tuple[str, int], interval_ms: int
    ) -> None:
        self._collect = collect
        self._address = address
        self._sent: Mapping[Series, float] = {}
        self._shown: Mapping[Series, float] = {}
        self._client: Any = None
        self._periodic = Periodic(self.report, interval_ms, "statsd")

    async def start(self) -> None:
        """Raises OSError when the address cannot be resolved."""
        self._client = await asyncio_dgram.connect(self._address)
        self._periodic.start()

    async def report(self) -> None:
        """Send what has changed since the last report; a datagram that cannot be sent is dropped."""
        for number, datagram in enumerate(await asyncio.to_thread(self._datagrams, await self._collect()), 1):
            # "Connection refused" is the reaction to an earlier datagram: nothing listens yet.
            with contextlib.suppress(OSError):
                await self._client.send(datagram)
            if number % _DATAGRAMS_A_TURN == 0:
                await asyncio.sleep(0)

    def _datagrams(self, metrics: Sequence[Sampled]) -> list[bytes]:
        """Make the datagrams in a thread: there may be many."""
        counted, gauged = series_of(metrics)
        lines = statsd_lines(self._sent, counted, {**dict.fromkeys(self._shown, 0), **gauged})
        datagrams = list(pack_datagrams(lines))
        self._sent, self._shown = counted, gauged
        return datagrams

    async def close(self) -> None:
        """Report once more, and stop."""
        if not await self._periodic.stop():
            return
        await self.report()
        self._client.close()


def series_of(metrics: Sequence[Sampled]) -> tuple[dict[Series, float], dict[Series, float]]:
    """Return counters and gauges, by name and tags."""
    counted: dict[Series, float] = {}
    gauged: dict[Series, float] = {}
    for family, samples in metrics:
        for values, value in samples:
            tags = tuple(map(_tag, family.labels, values))
            if isinstance(value, Distribution):
                counted[f"{family.name}.count", tags] = value.total
                counted[f"{family.name}.sum", tags] = value.sum_s
                for bound, count in zip((*value.bounds_s, "inf"), value.counts, strict=True):
                    counted[f"{family.name}.bucket", (*tags, f"upper_bound:{bound}")] = count
            else:
                (counted if family.kind == COUNTER else gauged)[family.name, tags] = value
    return counted, gauged


def _tag(label: str, value: str) -> str:
    """Return a tag without a datagram's special characters: a bar, a comma or a newline would start something else."""
    return f"{label}:{_NOT_IN_A_TAG.sub('_', value)}"


def statsd_lines(
    before: Mapping[Series, float], counted: Mapping[Series, float], gauged: Mapping[Series, float]
) -> Iterator[str]:
    """Yield `name:growth|c` for each counter that grew and `name:value|g` for each gauge, with their tags."""
    for series, value in counted.items():
        growth = value - before.get(series, 0)
        if growth:
            yield _line(series, growth, "c")
    for series, value in gauged.items():
        yield _line(series, value, "g")


def _line(series: Series, value: float, kind: str) -> str:
    name, tags = series
    number = value if isinstance(value, int) else f"{value:.9f}"
    return f"{PREFIX}.{name}:{number}|{kind}{'|#' if tags else ''}{','.join(tags)}"


def pack_datagrams(lines: Iterator[str], max_bytes: int = MAX_DATAGRAM_BYTES) -> Iterator[bytes]:
    """Join lines by newlines into as few datagrams as their order allows."""
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
