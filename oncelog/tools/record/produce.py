"""Sending records for `oncelog record produce`, in a transaction if it has an id.

Owns: where records come from, the end of the transaction, the count by partition. Does not own: options, printing.
Invariant: nothing is committed unless every record was written.
"""

import asyncio
import io
import select
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Union, cast

from oncelog.client.values.errors import KafkaError
from oncelog.client.values.waiting import reject, resolve
from oncelog.tools.asking import NotFound

if TYPE_CHECKING:
    from oncelog.client.producing.batch import Delivery
    from oncelog.client.producing.producer import Producer
    from oncelog.client.producing.transaction import Transaction

_CHUNK_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Input:
    """The records to send: `values`, or, without any, the lines of standard input. With a `delimiter` each line's key
    is what stands before the first."""

    topic: str
    values: tuple[bytes | None, ...]
    key: bytes | None
    delimiter: bytes | None
    partition: int | None
    headers: tuple[tuple[str, bytes], ...]

    async def records(self) -> AsyncIterator[tuple[bytes | None, bytes | None]]:
        """Yield keys and values."""
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
    """The outcome of the records so far: count, first and last offset by partition."""

    outcome: str | None = None
    """The outcome of the transaction, once it has ended."""
    partitions: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    read_count: int = 0
    failures: dict[int, KafkaError] = field(default_factory=dict)
    """The errors by the number of the record, from 1 on; after the first no more are read."""

    def add(self, partition: int, offset: int) -> None:
        count, first, _ = self.partitions.get(partition, (0, offset, offset))
        self.partitions[partition] = (count + 1, first, offset)

    @property
    def written_count(self) -> int:
        return sum(count for count, _, _ in self.partitions.values())

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


async def send(target: Union["Producer", "Transaction"], given: Input, tally: Tally) -> None:
    """Send each record, until one fails; return when the outcome is known of each that was read."""
    unseen: asyncio.Queue[tuple[int, Delivery] | None] = asyncio.Queue()  # buffer_memory bounds it
    reading = asyncio.create_task(_hand_over(target, given, tally, unseen))
    try:
        while (each := await unseen.get()) is not None:
            number, delivery = each
            try:
                written = await delivery
            except KafkaError as error:
                tally.failures.setdefault(number, error)
                reading.cancel()  # which may wait for a line that never comes
            else:
                tally.add(written.partition, written.offset)
    finally:
        reading.cancel()
        (outcome,) = await asyncio.gather(reading, return_exceptions=True)
    if isinstance(outcome, NotFound):
        raise outcome


async def _hand_over(
    target: Union["Producer", "Transaction"],
    given: Input,
    tally: Tally,
    unseen: "asyncio.Queue[tuple[int, Delivery] | None]",
) -> None:
    try:
        async for key, value in given.records():
            tally.read_count += 1
            delivery = await target.send_soon(
                given.topic, value, key=key, partition=given.partition, headers=given.headers
            )
            unseen.put_nowait((tally.read_count, delivery))
    except KafkaError as error:
        tally.failures[tally.read_count] = error
    finally:
        unseen.put_nowait(None)


async def send_in_transaction(
    producer: "Producer", given: Input, tally: Tally, *, abort: bool, leave_open_ms: int, on_open: Callable[[], None]
) -> None:
    """Send in a transaction that stays open for `leave_open_ms` after its last record, from `on_open()` on. If this is
    interrupted or a record fails it is aborted."""
    transaction = producer.transaction()
    try:
        async with transaction:
            await send(transaction, given, tally)
            if leave_open_ms and not tally.failures:
                on_open()
                await asyncio.sleep(leave_open_ms / 1000)
            await (transaction.abort() if abort or tally.failures else transaction.commit())
    finally:
        tally.outcome = transaction.state


async def lines() -> AsyncIterator[bytes]:
    """Yield lines of standard input, each as soon as it is there. Raises NotFound if it is closed or cannot be read."""
    if sys.stdin is None:
        raise NotFound("standard input is closed: there is nothing to read")
    # Without the buffer, whose lock a thread that reads would hold to the end: Python aborts if it cannot take it.
    file = cast(io.RawIOBase, getattr(sys.stdin.buffer, "raw", sys.stdin.buffer))
    rest = b""
    while chunk := await _read(file):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r")
    if rest:
        yield rest


async def first_line() -> None:
    """Returns once there is one, or the end. Raises as `lines`."""
    async for _ in lines():
        return


async def _read(file: io.RawIOBase) -> bytes:
    """Return the next bytes of a file, none at its end. A thread of their own reads them, which need not be waited for
    after Ctrl-C or an error. Raises NotFound."""
    loop = asyncio.get_running_loop()
    chunk: asyncio.Future[bytes] = loop.create_future()

    def finish(found: bytes | OSError) -> None:
        if isinstance(found, OSError):
            reject(chunk, found)
        else:
            resolve(chunk, found)

    def read() -> None:
        found: bytes | OSError | None
        try:
            while (found := file.read(_CHUNK_BYTES)) is None:  # it is non-blocking, and nothing is written yet
                select.select([file], [], [])
        except OSError as error:
            found = error
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(finish, found)

    threading.Thread(target=read, name="standard input", daemon=True).start()
    try:
        return await chunk
    except OSError as error:
        raise NotFound(f"standard input cannot be read: {error.strerror}") from error
