"""Batches of records for programs that commit what they process: filled to a number or for a time.

Owns: when a batch is full. Does not own: polling, positions (`reading`, `positions`). Invariant: the records
of a batch are of partitions that have been this consumer's from the first record to the last.
"""

import asyncio

from oncelog.client.deadline import Deadline
from oncelog.client.errors import KafkaError
from oncelog.client.fetcher import PartitionState
from oncelog.client.reading import Reading
from oncelog.client.records import ConsumerRecords, Record, TopicPartition

PATIENCE_MS = 60_000
"""A poll that waits as long as it takes returns so often, empty."""


async def fill_batch(reading: Reading, max_records: int, max_wait_ms: float) -> ConsumerRecords:
    """At least one record and at most `max_records`; once there is one, more for up to `max_wait_ms`."""
    records: list[Record] = []
    while not records:
        records = await reading.poll(PATIENCE_MS, max_records)
        fill = Deadline.after(max_wait_ms)
        while records and len(records) < max_records and not (fill.expired and reading.is_settled):
            owners, seen = dict(reading.fetcher.partitions), reading.change_count
            more: list[Record] | None = None
            try:
                more = await reading.poll(fill.remaining_s * 1000 or PATIENCE_MS, max_records - len(records))
            except asyncio.CancelledError:
                reading.positions.put_back(_still_owned(records, owners, reading))
                raise
            except KafkaError:
                # What was read before it is returned before it: the next poll meets the same.
                pass
            if seen != reading.change_count:
                records = _still_owned(records, owners, reading)
            if more is None:
                break
            records += more
    return ConsumerRecords(records, reading.positions.consumed())


def _still_owned(records: list[Record], owners: dict[TopicPartition, PartitionState], reading: Reading) -> list[Record]:
    """Whoever has a partition now, perhaps this member again, reads it from the committed offset on."""
    owned = reading.fetcher.partitions
    kept = {each for each, state in owners.items() if owned.get(each) is state}
    return [each for each in records if each.topic_partition in kept]
