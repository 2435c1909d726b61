"""Sending records for `oncelog record produce`, in a transaction if it has an id.

Owns: where records come from, the end of the transaction, the count by partition. Does not own: options, printing.
Invariant: nothing is committed unless every record was written.
"""

import asyncio
import io
import sys
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Union, cast

if TYPE_CHECKING:
    from oncelog.client.batch import Delivery
    from oncelog.client.producer import Producer
    from oncelog.client.transaction import Transaction

_CHUNK_BYTES = 1 << 16
_MOST_UNSEEN = 10_000
"""Deliveries to wait for before more records are read."""


@dataclass(frozen=True, slots=True)
class Input:
    """What is sent: `values`, or, without any, the lines of standard input. With a `delimiter` each line's key is what
    stands before the first."""

    topic: str
    values: tuple[bytes | None, ...]
    key: bytes | None
    delimiter: bytes | None
    partition: int | None
    headers: tuple[tuple[str, bytes], ...]

    async def records(self) -> AsyncIterator[tuple[bytes | None, bytes | None]]:
        """Keys and values."""
        if self.values:
            for value in self.values:
                yield self._split(value)
            return
        async for line in lines():
            yield self._split(line)

    def _split(self, value: bytes | None) -> tuple[bytes | None, bytes | None]:
        if self.delimiter is None or value is None or self.delimiter not in value:
            return self.key, value
        key, _, rest = value.partition(self.delimiter)
        return key, rest


@dataclass(slots=True)
class Tally:
    """Count, first and last offset by partition."""

    outcome: str | None = None
    partitions: dict[int, tuple[int, int, int]] = field(default_factory=dict)

    def add(self, partition: int, offset: int) -> None:
        count, first, _ = self.partitions.get(partition, (0, offset, offset))
        self.partitions[partition] = (count + 1, first, offset)

    def rows(self, topic: str) -> list[dict[str, Any]]:
        outcome = {} if self.outcome is None else {"transaction": self.outcome}
        return [
            {
                "topic": topic,
                "partition": number,
                "records": count,
                "first_offset": first,
                "last_offset": last,
                **outcome,
            }
            for number, (count, first, last) in sorted(self.partitions.items())
        ]


async def send(producer: "Producer", given: Input) -> Tally:
    tally = Tally()
    await _send(producer, given, tally)
    return tally


async def send_in_transaction(
    producer: "Producer", given: Input, *, abort: bool, leave_open_ms: int, on_open: Callable[[], None]
) -> Tally:
    """The transaction stays open for `leave_open_ms` after its last record, from `on_open()` on. If this is interrupted
    it is aborted."""
    tally = Tally()
    async with producer.transaction() as transaction:
        await _send(transaction, given, tally)
        if leave_open_ms:
            on_open()
            await asyncio.sleep(leave_open_ms / 1000)
        await (transaction.abort() if abort else transaction.commit())
    tally.outcome = transaction.state
    return tally


async def _send(target: Union["Producer", "Transaction"], given: Input, tally: Tally) -> None:
    unseen: list[Delivery] = []
    async for key, value in given.records():
        unseen.append(
            await target.send_soon(given.topic, value, key=key, partition=given.partition, headers=given.headers)
        )
        if len(unseen) == _MOST_UNSEEN:
            await _see(unseen, tally)
    await _see(unseen, tally)


async def _see(unseen: "list[Delivery]", tally: Tally) -> None:
    for delivery in unseen:
        written = await delivery
        tally.add(written.partition, written.offset)
    unseen.clear()


async def lines() -> AsyncIterator[bytes]:
    """Of standard input, each as soon as it is there. A thread reads, which nobody has to wait for after Ctrl-C."""
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[bytes] = asyncio.Queue(1)

    stdin = cast(io.BufferedReader, sys.stdin.buffer)

    def read() -> None:
        while True:
            chunk = stdin.read1(_CHUNK_BYTES)
            put = chunks.put(chunk)
            try:
                asyncio.run_coroutine_threadsafe(put, loop).result()
            except (RuntimeError, asyncio.CancelledError):  # the loop has ended
                put.close()
                return
            if not chunk:
                return

    threading.Thread(target=read, name="standard input", daemon=True).start()
    rest = b""
    while chunk := await chunks.get():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r")
    if rest:
        yield rest
