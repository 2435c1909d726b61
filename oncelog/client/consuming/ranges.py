"""Offset ranges of partitions as record batches, undecoded: for readers that make columns of them.

Owns: fetching a range to its end, one request ahead of its reader; which batches a reader may see; checksums. Does not
own: records, positions, groups. Invariants: a range ends when the *position* has passed its end, not after a number of
records (markers and aborted records take offsets and give none); a topic that does not exist is not created; a topic
that was deleted and created again meanwhile raises.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from types import TracebackType
from typing import Self, Unpack
from uuid import UUID

from oncelog.client.consuming.isolation import AbortedTransactions
from oncelog.client.consuming.single_fetch import fetch_once
from oncelog.client.options.option_types import ConsumerOptions
from oncelog.client.options.settings import ConsumerSettings
from oncelog.client.values.errors import CorruptBatch, RequestTimedOut, check_options, error_for
from oncelog.client.values.lifetime import Lifetime
from oncelog.client.values.records import TopicPartition
from oncelog.client.values.waiting import Deadline
from oncelog.client.wire.cluster import Cluster
from oncelog.client.wire.security import security_of
from oncelog.protocol.errors import ErrorCode, ProtocolError
from oncelog.protocol.generated.fetch_response import PartitionData
from oncelog.protocol.records.batch import BatchHeader, check_crc, iter_batches

NO_TOPIC_ID = UUID(int=0)
"""The topic id in responses of brokers that have none."""


@dataclass(frozen=True, slots=True)
class RangePiece:
    """What one Fetch returned of a range: the batches that the reader may see, whole, in order. The first and the last
    may have records outside the range."""

    batches: Sequence[tuple[BatchHeader, memoryview]]
    next_offset: int
    size_in_bytes: int
    """The size of everything fetched, hidden batches included."""
    aborted_count: int
    """How many records of aborted transactions were left out of the range."""


class RangeReader:
    """Reads offset ranges of partitions as undecoded record batches.

        async with RangeReader(bootstrap_servers="host:9092") as reader:
            async for piece in reader.read(TopicPartition("topic", 0), 100, 200):
                for header, batch in piece.batches:
                    ...

    Options are those of `Consumer`; `isolation_level`, `fetch_max_bytes`, `max_partition_fetch_bytes`,
    `fetch_max_wait_ms`, `check_crcs`, `client_id` and the timeouts have an effect. Entering the block raises
    ConnectionLost or RequestTimedOut if no broker responds.
    """

    def __init__(self, **options: Unpack[ConsumerOptions]) -> None:
        check_options("RangeReader", ConsumerSettings, options)
        settings = self._settings = ConsumerSettings(**options)
        self._cluster = Cluster(
            settings.bootstrap_servers,
            client_id=settings.client_id,
            request_timeout_ms=settings.request_timeout_ms,
            retry_backoff_ms=settings.retry_backoff_ms,
            security=security_of(settings),
        )
        self._lifetime = Lifetime("RangeReader")

    async def __aenter__(self) -> Self:
        self._lifetime.open()
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._close)
            await self._cluster.bootstrap(self._deadline())
            stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._close()

    async def _close(self) -> None:
        self._lifetime.check_loop()
        self._lifetime.close()
        await self._cluster.close()

    async def read(
        self, topic_partition: TopicPartition, start: int, end: int, *, topic_id: UUID = NO_TOPIC_ID
    ) -> AsyncGenerator[RangePiece]:
        """Yield the batches that hold offsets [start, end); the next piece is fetched while this one is used.

        Raises NoOffsetForPartition when `start` is not in the log (any more), UNKNOWN_TOPIC_ID as a KafkaError when the
        topic's id is not `topic_id`, CorruptBatch, and RequestTimedOut when `end` is not reached.
        """
        await self._check_topic(topic_partition.topic, topic_id)
        async with aclosing(self._fetched(topic_partition, start, end)) as pieces:
            async for piece in pieces:
                if piece.next_offset >= end:
                    # An answer may have come from a topic that was created again since the first check.
                    await self._check_topic(topic_partition.topic, topic_id)
                yield piece

    async def _fetched(self, topic_partition: TopicPartition, start: int, end: int) -> AsyncGenerator[RangePiece]:
        position = start
        ahead = asyncio.ensure_future(self._fetch(topic_partition, position))
        try:
            while position < end:
                piece = self._piece(topic_partition, position, end, await ahead)
                position = piece.next_offset
                if position < end:
                    ahead = asyncio.ensure_future(self._fetch(topic_partition, position))
                yield piece
        finally:
            ahead.cancel()
            await asyncio.gather(ahead, return_exceptions=True)

    async def _fetch(self, topic_partition: TopicPartition, offset: int) -> PartitionData:
        """Fetch a response with at least one batch. Raises RequestTimedOut when there is none in time."""
        patience = self._deadline()
        while True:
            data = await fetch_once(
                self._cluster,
                topic_partition,
                offset,
                read_committed=self._settings.reads_committed,
                deadline=self._deadline(),
                max_bytes=min(self._settings.max_partition_fetch_bytes, self._settings.fetch_max_bytes),
                max_wait_ms=self._settings.fetch_max_wait_ms,
            )
            if data.records:
                return data
            if patience.expired:
                topic, partition = topic_partition
                limit = data.last_stable_offset if self._settings.reads_committed else data.high_watermark
                raise RequestTimedOut(f"{topic}-{partition} ends at offset {limit}: nothing came from {offset} on")

    def _piece(self, topic_partition: TopicPartition, position: int, end: int, data: PartitionData) -> RangePiece:
        aborted = AbortedTransactions((each.producer_id, each.first_offset) for each in data.aborted_transactions or ())
        records = memoryview(data.records or b"")
        visible: list[tuple[BatchHeader, memoryview]] = []
        next_offset, aborted_count = position, 0
        try:
            for header, batch in iter_batches(records):
                if header.base_offset >= end:
                    next_offset = end
                    break
                hidden = aborted.hides(header, batch)
                next_offset = header.next_offset
                if next_offset <= position:
                    continue
                if self._settings.check_crcs and not check_crc(batch):
                    raise CorruptBatch(f"the batch at offset {header.base_offset} fails its checksum")
                if not hidden:
                    visible.append((header, batch))
                elif not header.is_control:
                    # A range may begin or end inside a batch; compaction leaves fewer records than offsets.
                    inside = min(next_offset, end) - max(header.base_offset, position)
                    aborted_count += min(header.record_count, inside)
        except ProtocolError as error:
            raise CorruptBatch(f"{topic_partition.topic}-{topic_partition.partition}: {error}") from error
        if next_offset <= position:
            raise CorruptBatch(f"{topic_partition.topic}-{topic_partition.partition}: no whole batch at {position}")
        return RangePiece(visible, next_offset, len(records), aborted_count)

    async def _check_topic(self, name: str, topic_id: UUID) -> None:
        if topic_id == NO_TOPIC_ID:
            return
        self._cluster.metadata.forget_leaders((name,))
        topic = await self._cluster.topic(name, self._deadline())
        if topic.topic_id not in (topic_id, NO_TOPIC_ID):
            raise error_for(
                ErrorCode.UNKNOWN_TOPIC_ID, f"topic {name!r} was deleted and created again: {topic.topic_id}"
            )

    def _deadline(self) -> Deadline:
        self._lifetime.check_loop()
        return Deadline.after(self._settings.default_api_timeout_ms)
