"""A partition's batches as they are in the log, with the fate of each: for tools, diagrams and tests.

Owns: reading a partition twice, at read_uncommitted for the batches and at read_committed for the aborted list and the
last stable offset. Does not own: records.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Literal

from oncelog.client.apis import FETCH
from oncelog.client.cluster import LEADER_MOVED, Cluster
from oncelog.client.deadline import Deadline
from oncelog.client.errors import ConnectionLost, KafkaError, RequestTimedOut, error_for
from oncelog.client.isolation import AbortedTransactions
from oncelog.client.records import Record, TopicPartition
from oncelog.protocol.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic
from oncelog.protocol.generated.fetch_response import PartitionData
from oncelog.protocol.records.batch import BatchHeader, iter_batches
from oncelog.protocol.records.control import ControlRecordType, decode_end_txn_marker
from oncelog.protocol.records.record import decode_records

Fate = Literal["plain", "committed", "aborted", "open", "marker"]
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class RawBatch:
    """One batch. `fate`: plain (not transactional), committed, aborted, open (its transaction has not ended below the
    last stable offset), or marker (a control batch, of `control_type`)."""

    topic_partition: TopicPartition
    header: BatchHeader
    data: bytes
    fate: Fate
    control_type: ControlRecordType | None
    coordinator_epoch: int | None
    high_watermark: int
    last_stable_offset: int

    def records(self) -> list[Record]:
        """The records inside, whatever the fate; none for a marker."""
        if self.control_type is not None:
            return []
        topic, partition = self.topic_partition
        return [
            Record(topic, partition, each.offset, each.timestamp, each.key, each.value, each.headers)
            for each in decode_records(memoryview(self.data))
        ]


async def fetch_once(
    cluster: Cluster, topic_partition: TopicPartition, offset: int, *, read_committed: bool, deadline: Deadline
) -> PartitionData:
    """One Fetch without waiting, retried while the leader moves. Raises the partition's error."""
    part = FetchPartition(partition=topic_partition.partition, fetch_offset=offset, partition_max_bytes=_PIECE_BYTES)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=_PIECE_BYTES,
        isolation_level=1 if read_committed else 0,
        topics=[FetchTopic(topic=topic_partition.topic, partitions=[part])],
    )
    while True:
        await cluster.topic(topic_partition.topic, deadline)
        cause: KafkaError
        try:
            response = await cluster.call_node(cluster.leader(topic_partition), FETCH, request, deadline)
            code = response.error_code or response.responses[0].partitions[0].error_code
            if not code:
                return response.responses[0].partitions[0]
            cause = error_for(code)
            if code not in LEADER_MOVED:
                raise cause
        except (ConnectionLost, RequestTimedOut) as error:
            cause = error
        cluster.forget_leaders((topic_partition.topic,))
        await deadline.pause(cluster.retry_backoff_ms, "FETCH", cause)


async def iter_raw_batches(
    cluster: Cluster, topic_partition: TopicPartition, offset: int, timeout_ms: float
) -> AsyncIterator[RawBatch]:
    """Batches from the one that contains `offset` up to the high watermark of the first response."""
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
