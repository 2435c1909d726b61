"""A partition's batches as they are in the log, with the fate of each: for tools, diagrams and tests.

Owns: reading a partition twice, at read_uncommitted for the batches and at read_committed for the aborted list and the
last stable offset. Does not own: records.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Literal

from oncelog.client.consuming.isolation import AbortedTransactions
from oncelog.client.consuming.single_fetch import fetch_once
from oncelog.client.values.records import Record, TopicPartition
from oncelog.client.values.waiting import Deadline
from oncelog.client.wire.cluster import Cluster
from oncelog.protocol.records.batch import BatchHeader, iter_batches
from oncelog.protocol.records.control import ControlRecordType, decode_end_txn_marker
from oncelog.protocol.records.record import decode_records

Fate = Literal["plain", "committed", "aborted", "open", "marker"]
"""The fate of a batch: see `RawBatch`."""


@dataclass(frozen=True, slots=True)
class RawBatch:
    """One batch as `Consumer.raw_batches` returns it. `fate`: plain (not transactional), committed, aborted, open (its
    transaction has not ended below the last stable offset), or marker (a control batch, of `control_type`).

    `header` has the fields of the batch: `base_offset`, `last_offset`, `record_count`, `producer_id`, `producer_epoch`,
    `base_sequence`, `compression_type` and so on; `data` is the batch as it is in the log; the offsets are those of the
    response that it came with.
    """

    topic_partition: TopicPartition
    header: BatchHeader
    data: bytes
    fate: Fate
    control_type: ControlRecordType | None
    coordinator_epoch: int | None
    high_watermark: int
    last_stable_offset: int

    def records(self, max_bytes: int | None = None) -> list[Record]:
        """Return the records inside, whatever the fate; none for a marker. Raises ProtocolError if they cannot be
        decoded, or are more than `max_bytes` when they are decompressed."""
        if self.control_type is not None:
            return []
        topic, partition = self.topic_partition
        return [
            Record(topic, partition, each.offset, each.timestamp, each.key, each.value, each.headers)
            for each in decode_records(memoryview(self.data), max_bytes)
        ]


async def iter_raw_batches(
    cluster: Cluster, topic_partition: TopicPartition, offset: int, timeout_ms: float
) -> AsyncIterator[RawBatch]:
    """Yield batches from the one that contains `offset` up to the high watermark of the first response."""
    stop_offset = -1
    while True:
        deadline = Deadline.after(timeout_ms)
        # The committed view first: what is stable in it cannot become open again.
        committed = await fetch_once(cluster, topic_partition, offset, read_committed=True, deadline=deadline)
        whole = await fetch_once(cluster, topic_partition, offset, read_committed=False, deadline=deadline)
        if stop_offset < 0:
            stop_offset = whole.high_watermark
        aborted = AbortedTransactions(
            (each.producer_id, each.first_offset) for each in committed.aborted_transactions or ()
        )
        next_offset = offset
        for header, batch in iter_batches(memoryview(whole.records or b"")):
            if header.base_offset >= stop_offset:
                return
            hidden = aborted.hides(header, batch)
            next_offset = header.next_offset
            yield _raw_batch(topic_partition, header, batch, hidden, whole.high_watermark, committed.last_stable_offset)
        if next_offset == offset or next_offset >= stop_offset:
            return
        offset = next_offset


def _raw_batch(
    topic_partition: TopicPartition,
    header: BatchHeader,
    batch: memoryview,
    hidden: bool,
    high_watermark: int,
    last_stable_offset: int,
) -> RawBatch:
    control_type: ControlRecordType | None = None
    coordinator_epoch: int | None = None
    fate: Fate
    if header.is_control:
        control_type, coordinator_epoch = decode_end_txn_marker(batch)
        fate = "marker"
    elif not header.is_transactional:
        fate = "plain"
    elif header.base_offset >= last_stable_offset:
        fate = "open"
    else:
        fate = "aborted" if hidden else "committed"
    return RawBatch(
        topic_partition,
        header,
        bytes(batch),
        fate,
        control_type,
        coordinator_epoch,
        high_watermark,
        last_stable_offset,
    )
