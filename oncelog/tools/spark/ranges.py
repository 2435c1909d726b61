"""What lies in the source ranges of micro-batches: records by what became of their transaction.

Owns: the counts. Does not own: which ranges there are (`report`). A range that retention or compaction has touched, or
whose topic was deleted, is not counted: what was there is not known.
"""

from collections.abc import Iterable, Set
from dataclasses import dataclass

from oncelog.client import Admin, Consumer, KafkaError, SecurityOptions, TopicPartition
from oncelog.client.consuming.raw_batches import RawBatch
from oncelog.pipeline.options import NO_SECURITY
from oncelog.pipeline.source.planning import OffsetRange
from oncelog.protocol.errors import ErrorCode


@dataclass(slots=True)
class Counts:
    """The counts of one range."""

    committed: int = 0
    """Records that a read_committed reader sees: those of committed transactions, and of none."""
    aborted: int = 0
    """Records of aborted transactions: a read_uncommitted reader sees them, too."""
    open: int = 0
    """Records of transactions that have not ended."""
    markers: int = 0
    bytes: int = 0

    def add(self, other: "Counts") -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


async def count_ranges(
    bootstrap: str, wanted: Iterable[OffsetRange], security: SecurityOptions = NO_SECURITY
) -> dict[OffsetRange, Counts]:
    """Return the counts of the ranges that are whole in the log. Raises KafkaError."""
    wanted = list(wanted)
    ids = await _topic_ids(bootstrap, {each.topic for each in wanted}, security)
    by_partition: dict[TopicPartition, list[OffsetRange]] = {}
    for each in wanted:
        if each.topic in ids and each.topic_id in ("", ids[each.topic]):
            by_partition.setdefault(TopicPartition(each.topic, each.partition), []).append(each)
    found: dict[OffsetRange, Counts] = {}
    async with Consumer(bootstrap_servers=bootstrap, **security) as consumer:
        for partition, parts in sorted(by_partition.items()):
            found |= await _count(consumer, partition, parts)
    return found


async def _topic_ids(bootstrap: str, names: Set[str], security: SecurityOptions) -> dict[str, str]:
    """Return the ids of the topics that exist."""
    async with Admin(bootstrap, **security) as admin:
        present = sorted(names & set(await admin.list_topics()))
        return {each.name: str(each.topic_id) for each in await admin.describe_topics(*present)} if present else {}


async def _count(consumer: Consumer, partition: TopicPartition, parts: list[OffsetRange]) -> dict[OffsetRange, Counts]:
    try:
        first = (await consumer.beginning_offsets([partition]))[partition]
        last = (await consumer.end_offsets([partition]))[partition]
    except KafkaError as error:
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return {}  # fewer partitions than there were
    found = {each: Counts() for each in parts if first <= each.start and each.end <= last}
    if not found:
        return {}
    start, end = min(each.start for each in found), max(each.end for each in found)
    position = start
    async for batch in consumer.raw_batches(partition, start):
        if batch.header.base_offset > position or not has_all_records(batch):
            _drop(found, position, batch.header.next_offset)
        if batch.header.base_offset >= end:
            break
        position = batch.header.next_offset
        for part, counts in found.items():
            if part.start < batch.header.next_offset and batch.header.base_offset < part.end:
                _add(counts, part, batch)
    return found


def has_all_records(batch: RawBatch) -> bool:
    """Whether the batch has all its records, none removed by compaction."""
    return batch.control_type is not None or batch.header.record_count == batch.header.last_offset_delta + 1


def _drop(found: dict[OffsetRange, Counts], start: int, end: int) -> None:
    """Drop the ranges in which something is missing."""
    for each in [part for part in found if part.start < end and start < part.end]:
        del found[each]


def _add(counts: Counts, part: OffsetRange, batch: RawBatch) -> None:
    header = batch.header
    if part.start <= header.base_offset:
        counts.bytes += len(batch.data)
    if batch.fate == "marker":
        counts.markers += 1
        return
    records = header.record_count
    if header.base_offset < part.start or header.next_offset > part.end:
        records = sum(part.start <= each.offset < part.end for each in batch.records())
    name = batch.fate if batch.fate in ("aborted", "open") else "committed"
    setattr(counts, name, getattr(counts, name) + records)
