"""Reading a topic for `oncelog record consume`, in two ways that yield the same `ReadRecord`.

Owns: which records come, and with which letter. Does not own: options, formats, printing.
`plain` is an ordinary consumer, at either isolation level. `with_fates` reads whole batches at both levels, which shows
markers and what became of each transaction as of the time of reading: an open one may still end either way.
Invariant: each partition's records come in order, once.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING

from oncelog.tools.record.formats import Letter, ReadRecord

if TYPE_CHECKING:
    from oncelog.client.consumer import Consumer
    from oncelog.client.raw_batches import RawBatch
    from oncelog.client.records import TopicPartition

_POLL_MS = 500
_PAUSE_S = 0.2
"""Between looks at partitions that had nothing new: `with_fates` has no long poll."""
_LETTERS: dict[str, Letter] = {"committed": "C", "aborted": "A", "open": "O", "plain": "-", "marker": "M"}


async def plain(
    consumer: "Consumer", starts: "Mapping[TopicPartition, int]", ends: "Mapping[TopicPartition, int] | None"
) -> AsyncGenerator[ReadRecord, None]:
    """From `starts` on; up to `ends`, or endlessly."""
    consumer.assign(starts)
    for place, offset in starts.items():
        consumer.seek(place, offset)
    left = None if ends is None else {place for place in starts if starts[place] < ends[place]}
    while left is None or left:
        for record in await consumer.poll(_POLL_MS):
            if ends is None or record.offset < ends[record.topic_partition]:
                yield ReadRecord(record)
        if ends is not None and left:
            left = {place for place in left if await consumer.position(place) < ends[place]}


async def with_fates(
    consumer: "Consumer",
    starts: "Mapping[TopicPartition, int]",
    ends: "Mapping[TopicPartition, int] | None",
    *,
    markers: bool,
    read_committed: bool,
) -> AsyncGenerator[ReadRecord, None]:
    """As `plain`, each with its letter, and markers if they are wanted; at read_committed without what is aborted, and
    no further than the last stable offset."""
    positions = dict(starts)
    while True:
        has_moved = False
        for place in positions:
            async for batch in consumer.raw_batches(place, positions[place]):
                stop = batch.last_stable_offset if read_committed else batch.high_watermark
                if batch.header.base_offset >= min(stop, _end(ends, place)):
                    break
                for shown in _shown(batch, positions[place], markers, read_committed):
                    if shown.record.offset < _end(ends, place):
                        yield shown
                positions[place], has_moved = batch.header.next_offset, True
        if ends is not None and not has_moved:
            return
        if not has_moved:
            await asyncio.sleep(_PAUSE_S)


def _end(ends: "Mapping[TopicPartition, int] | None", place: "TopicPartition") -> float:
    return float("inf") if ends is None else ends[place]


def _shown(batch: "RawBatch", start_offset: int, markers: bool, read_committed: bool) -> list[ReadRecord]:
    from oncelog.client.records import Record

    letter = _LETTERS[batch.fate]
    if batch.control_type is not None:
        header, (topic, partition) = batch.header, batch.topic_partition
        outcome = batch.control_type.name
        record = Record(topic, partition, header.base_offset, header.max_timestamp, None, outcome.encode())
        return [ReadRecord(record, letter, outcome)] if markers else []
    if read_committed and batch.fate == "aborted":
        return []
    return [ReadRecord(each, letter) for each in batch.records() if each.offset >= start_offset]
