"""Batches of records for programs that commit what they process: filled to a number or for a time.

Owns: when a batch is full. Does not own: polling, positions (`reading`, `positions`). Invariants: until a batch is
returned its records are only read ahead, so that no commit covers them; they are of partitions that have been this
consumer's from the first record to the last.
"""

from oncelog.client.consuming.reading import Reading
from oncelog.client.values.errors import InvalidState, KafkaError
from oncelog.client.values.records import ConsumerRecords, Record
from oncelog.client.values.waiting import Deadline

PATIENCE_MS = 60_000
"""How often a poll without a time limit returns empty and is called again."""


async def fill_batch(reading: Reading, max_records: int, max_wait_ms: float) -> ConsumerRecords:
    """Read at least one record and at most `max_records`; after the first, wait for more for up to `max_wait_ms`."""
    reading.positions.mark_processed()
    records: list[Record] = []
    while not records:
        await _fill(reading, max_records, max_wait_ms)
        records = await reading.before_return(reading.take_ahead(max_records))
    return ConsumerRecords(records, reading.positions.consumed())


async def _fill(reading: Reading, max_records: int, max_wait_ms: float) -> None:
    positions = reading.positions
    fill: Deadline | None = None
    while True:
        try:
            if fill is None or fill.expired:
                await reading.read_ahead(PATIENCE_MS, 1, max_records)
            else:
                await reading.read_ahead(fill.remaining_s * 1000, max_records, max_records)
        except KafkaError as error:
            if not positions.has_ahead or isinstance(error, InvalidState):
                raise
            # What was read before it is returned before it.
            reading.raise_next(error)
            return
        if not positions.has_ahead:
            # Perhaps the group has taken away the partitions of all that was read.
            fill = None
            continue
        fill = fill or Deadline.after(max_wait_ms)
        if reading.is_settled and (fill.expired or positions.ahead_count >= max_records):
            return
