"""Partitions as record batches, undecoded and followed without an end: for programs that write them elsewhere.

Owns: the positions, which batches a reader may see, their checksums. Does not own: fetching (`fetcher`), where to
begin, records. Invariants: a position moves past whole responses, markers and aborted records included; nothing resets
it: an offset that the log does not have raises.
"""

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Self, Unpack

from oncelog.client.consuming.fetcher import Fetcher
from oncelog.client.options.option_types import ConsumerOptions
from oncelog.client.options.settings import ConsumerSettings
from oncelog.client.values.errors import CorruptBatch, InvalidState, NoOffsetForPartition, check_options
from oncelog.client.values.records import TopicPartition
from oncelog.client.values.waiting import Deadline
from oncelog.client.wire.cluster import Cluster
from oncelog.client.wire.security import security_of
from oncelog.protocol.records.batch import BatchHeader, check_crc


@dataclass(frozen=True, slots=True)
class FollowedBatches:
    """What one Fetch returned of a partition: the batches that the reader may see, whole, in order, their checksums
    correct. The first may have records below `offset`, the position before."""

    topic_partition: TopicPartition
    batches: Sequence[tuple[BatchHeader, memoryview]]
    offset: int
    next_offset: int
    size_in_bytes: int
    """The size of everything fetched, hidden batches included."""
    high_watermark: int
    """The high watermark in the last response of the partition."""


class BatchFollower:
    """Follows partitions from given offsets, as undecoded record batches.

        async with BatchFollower(bootstrap_servers="host:9092") as follower:
            follower.follow({TopicPartition("topic", 0): 42})
            for batches in await follower.next(max_bytes=1 << 20, timeout_ms=500):
                ...

    Options are those of `Consumer`, as `RangeReader` takes them, and `queued_max_bytes`. Entering the block raises
    ConnectionLost or RequestTimedOut if no broker responds.
    """

    def __init__(self, **options: Unpack[ConsumerOptions]) -> None:
        check_options("BatchFollower", ConsumerSettings, options)
        settings = self._settings = ConsumerSettings(**options)
        self._cluster = Cluster(
            settings.bootstrap_servers,
            client_id=settings.client_id,
            request_timeout_ms=settings.request_timeout_ms,
            retry_backoff_ms=settings.retry_backoff_ms,
            security=security_of(settings),
        )
        self._fetcher: Fetcher | None = None

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._cluster.close)
            await self._cluster.bootstrap(Deadline.after(self._settings.default_api_timeout_ms))
            stack.pop_all()
        self._fetcher = Fetcher(self._cluster, self._settings)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._fetcher is not None:
            await self._fetcher.close()
        await self._cluster.close()

    def follow(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Follow exactly these partitions, from these offsets on."""
        fetcher = self._opened()
        fetcher.assign(offsets, keep=False)
        for place, offset in offsets.items():
            fetcher.partitions[place].seek(offset)

    async def next(self, max_bytes: int, timeout_ms: float) -> list[FollowedBatches]:
        """Return what has been fetched, up to some `max_bytes`; waits `timeout_ms` for the first. A broker that is away
        is waited for. Raises NoOffsetForPartition for a position that the log does not have, and CorruptBatch."""
        fetcher, deadline = self._opened(), Deadline.after(timeout_ms)
        while True:
            taken = fetcher.take_chunks(max_bytes)
            for place, state in fetcher.partitions.items():
                if state.out_of_range and not taken:
                    raise NoOffsetForPartition(f"{place.topic}-{place.partition} has no offset {state.position}")
            if taken or deadline.expired:
                break
            await fetcher.wait(deadline.remaining_s)
        found = []
        for place, offset, chunk in taken:
            for header, batch in chunk.batches:
                if self._settings.check_crcs and not check_crc(batch):
                    where = f"{place.topic}-{place.partition} at offset {header.base_offset}"
                    raise CorruptBatch(f"the batch in {where} fails its checksum")
            high_watermark = fetcher.partitions[place].high_watermark
            size_bytes = chunk.size_in_bytes
            found.append(FollowedBatches(place, chunk.batches, offset, chunk.next_offset, size_bytes, high_watermark))
        return found

    def _opened(self) -> Fetcher:
        if self._fetcher is None:
            raise InvalidState("the follower is not open", hint="async with BatchFollower(...)")
        return self._fetcher
