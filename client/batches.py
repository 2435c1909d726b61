"""Batches of records for programs that commit what they process: filled to a number or for a time.

Owns: when a batch is full. Does not own: polling, positions (`reading`, `positions`). Invariant: a batch holds records
of one assignment only.
"""

from oncelog.client.deadline import Deadline
from oncelog.client.reading import Reading
from oncelog.client.records import ConsumerRecords, Record

PATIENCE_MS = 60_000
"""A poll that waits as long as it takes returns so often, empty."""


async def fill_batch(reading: Reading, max_records: int, max_wait_ms: float) -> ConsumerRecords:
    """At least one record and at most `max_records`; once there is one, more for up to `max_wait_ms`."""
    records: list[Record] = []
    while not records:
        records = await reading.poll(PATIENCE_MS, max_records)
        assigned = reading.assignment_count
        fill = Deadline.after(max_wait_ms)
        while records and len(records) < max_records and not fill.expired:
            more = await reading.poll(fill.remaining_s * 1000, max_records - len(records))
            if assigned != reading.assignment_count:
                # Whoever has these partitions now, perhaps this member, reads them from the committed offsets on.
                records, assigned = [], reading.assignment_count
            records += more
    return ConsumerRecords(records, reading.positions.consumed())
