"""Reading a topic for `oncelog record consume`, in three ways that yield the same `ReadRecord`.

Owns: which records come, with which letter, and what a group commits. Does not own: options, formats, printing.
`plain` is an ordinary consumer, at either isolation level; `grouped` one that shares the partitions with its group.
`with_fates` reads whole batches at both levels, which shows markers and what became of each transaction as of the time
of reading: an open one may still end either way.
Invariants: each partition's records come in order, once. A group commits only what the caller has asked to follow with
another record: what was printed, and not what broke off.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from oncelog.client.values.errors import CommitFailed, RequestTimedOut
from oncelog.tools.record.formats import Letter, ReadRecord

if TYPE_CHECKING:
    from oncelog.client.consuming.consumer import Consumer
    from oncelog.client.consuming.raw_batches import RawBatch
    from oncelog.client.values.records import TopicPartition

_POLL_MS = 500
_PAUSE_MS = 200
"""The pause between looks at partitions that had nothing new: `with_fates` has no long poll, `grouped` wants none to
exit."""
_LETTERS: dict[str, Letter] = {"committed": "C", "aborted": "A", "open": "O", "plain": "-", "marker": "M"}


class _Patience:
    """How long to wait for records up to an end that exists, while the cluster sends none."""

    def __init__(self, timeout_ms: float) -> None:
        self._timeout_ms = timeout_ms
        self._since_s = time.monotonic()
        self._seen: object = None

    def check(self, seen: object) -> None:
        """Raise RequestTimedOut after too long without progress; `seen` is another thing after each progress."""
        if seen != self._seen:
            self._seen, self._since_s = seen, time.monotonic()
        elif (time.monotonic() - self._since_s) * 1000 > self._timeout_ms:
            raise RequestTimedOut(f"there is more to read, and no record came for {self._timeout_ms / 1000:g} s")


async def plain(
    consumer: "Consumer",
    starts: "Mapping[TopicPartition, int]",
    ends: "Mapping[TopicPartition, int] | None",
    patience_ms: float,
) -> AsyncGenerator[ReadRecord, None]:
    """Yield records from `starts` on; up to `ends`, with no longer a pause than `patience_ms`, or endlessly."""
    patience = _Patience(patience_ms)
    consumer.assign(starts)
    for place, offset in starts.items():
        consumer.seek(place, offset)
    left = None if ends is None else {place for place in starts if starts[place] < ends[place]}
    while left is None or left:
        for record in await consumer.poll(_POLL_MS):
            if ends is None or record.offset < ends[record.topic_partition]:
                yield ReadRecord(record)
        if ends is not None and left:
            positions = {place: await consumer.position(place) for place in left}
            left = {place for place in left if positions[place] < ends[place]}
            patience.check(positions)


async def grouped(
    consumer: "Consumer", *, exits: bool, count: int | None, patience_ms: float
) -> AsyncGenerator[ReadRecord, None]:
    """Yield records from the committed offsets on, `count` of them or endlessly; commits after each poll. With `exits`
    it ends at what was the end when the group assigned the partitions: what another member reads is its own."""
    ends: dict[TopicPartition, int] = {}
    assigned_in = 0
    left = count
    patience, read_count = _Patience(patience_ms), 0
    while left is None or left:
        records = await consumer.poll(_PAUSE_MS if exits else _POLL_MS, left)
        if exits and assigned_in != consumer.assignment_count:
            ends, assigned_in = await consumer.end_offsets(consumer.assignment()), consumer.assignment_count
        for record in records:
            yield ReadRecord(record)
        left = None if left is None else left - len(records)
        read_count += len(records)
        if exits:
            patience.check((assigned_in, read_count))
        at_end = exits and assigned_in and await _has_read_all(consumer, ends)
        # Also without a record: markers and aborted records move the position too.
        with suppress(CommitFailed):  # the new owner of the partitions reads these records again
            if records or at_end:
                await consumer.commit_sync()
        if at_end:
            return


async def _has_read_all(consumer: "Consumer", ends: "Mapping[TopicPartition, int]") -> bool:
    """Whether every partition of this member is read up to its end."""
    mine = [place for place in consumer.assignment() if place in ends]
    return all([await consumer.position(place) >= ends[place] for place in mine])


async def with_fates(
    consumer: "Consumer",
    starts: "Mapping[TopicPartition, int]",
    ends: "Mapping[TopicPartition, int] | None",
    *,
    markers: bool,
    read_committed: bool,
) -> AsyncGenerator[ReadRecord, None]:
    """Yield records as `plain` does, each with its letter, and markers if they are wanted; at read_committed without
    what is aborted, and no further than the last stable offset."""
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
            await asyncio.sleep(_PAUSE_MS / 1000)


def _end(ends: "Mapping[TopicPartition, int] | None", place: "TopicPartition") -> float:
    return float("inf") if ends is None else ends[place]


def _shown(batch: "RawBatch", start_offset: int, markers: bool, read_committed: bool) -> list[ReadRecord]:
    from oncelog.client.values.records import Record

    letter = _LETTERS[batch.fate]
    if batch.control_type is not None:
        header, (topic, partition) = batch.header, batch.topic_partition
        outcome = batch.control_type.name
        record = Record(topic, partition, header.base_offset, header.max_timestamp, None, outcome.encode())
        return [ReadRecord(record, letter, outcome)] if markers else []
    if read_committed and batch.fate == "aborted":
        return []
    return [ReadRecord(each, letter) for each in batch.records() if each.offset >= start_offset]
