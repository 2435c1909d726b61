"""Reads one range in a task: fetched, made into columns and handed on piece by piece, so that memory does not grow with
the range.

Owns: what happens when the range is not in the log any more.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from oncelog.client import KafkaError, TopicPartition
from oncelog.client.blocking.clients import RangeReader
from oncelog.client.consuming.ranges import NO_TOPIC_ID
from oncelog.pipeline.options import Options
from oncelog.pipeline.source.lookup import Lookup
from oncelog.pipeline.source.losses import DataLost
from oncelog.pipeline.source.planning import OffsetRange
from oncelog.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from pyarrow import RecordBatch

logger = logging.getLogger("oncelog.spark.source")
_GONE = (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNKNOWN_TOPIC_ID)


@dataclass(frozen=True, slots=True)
class Reading:
    """The cost of reading the offsets [start, end) of a partition."""

    topic: str
    partition: int
    start: int
    end: int
    records: int
    bytes: int
    """The bytes fetched, of skipped records too."""
    aborted: int
    """The number of records of aborted transactions that were skipped."""


OnRead = Callable[[Reading], None]


def read_range(options: Options, wanted: OffsetRange, on_read: OnRead = lambda _: None) -> "Iterator[RecordBatch]":
    """Yield every record of the range that the isolation level shows; `on_read` is called at its end. Raises DataLost,
    and the client's errors."""
    target = TopicPartition(wanted.topic, wanted.partition)
    position = wanted.start
    while position < wanted.end:
        try:
            for batch, after in _pieces(options, wanted, target, position, on_read):
                position = after
                if batch is not None:
                    yield batch
        except KafkaError as error:
            if error.code not in _GONE:
                raise
            gone = f"{wanted.topic}-{wanted.partition} has offset {position} of this batch no more: {error.message}"
            if options["failOnDataLoss"]:
                raise DataLost(f"{gone}. To continue with what there is, set failOnDataLoss=false") from error
            before, position = position, _next_offset(options, target, wanted, position, error)
            logger.warning("data lost (%s offsets): %s", position - before, gone)


def _pieces(
    options: Options, wanted: OffsetRange, target: TopicPartition, start: int, on_read: OnRead
) -> "Iterator[tuple[RecordBatch | None, int]]":
    """Yield columns, and the offset after them."""
    from oncelog.pipeline.source.columns import columns

    size_in_bytes = aborted_count = record_count = 0
    topic_id = UUID(wanted.topic_id) if wanted.topic_id else NO_TOPIC_ID
    with RangeReader(bootstrap_servers=options.bootstrap_servers, **options.client) as reader:
        for piece in reader.read(target, start, wanted.end, topic_id=topic_id):
            batch = columns(piece, *target, start, wanted.end, with_headers=options["includeHeaders"])
            size_in_bytes += piece.size_in_bytes
            aborted_count += piece.aborted_count
            record_count += batch.num_rows if batch is not None else 0
            yield batch, piece.next_offset
    logger.info(
        "read %s-%s from offset %s to %s: %s records, %s bytes, %s aborted records skipped",
        *(*target, start, wanted.end, record_count, size_in_bytes, aborted_count),
    )
    on_read(Reading(*target, start, wanted.end, record_count, size_in_bytes, aborted_count))


def _next_offset(
    options: Options, target: TopicPartition, wanted: OffsetRange, position: int, error: KafkaError
) -> int:
    """Return where to continue: at the log's beginning if that lies in the range, otherwise at the range's end."""
    if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
        return wanted.end
    lookup = Lookup(options)
    try:
        first = lookup.offsets([target], "earliest")[target]
    finally:
        lookup.close()
    return first if position < first < wanted.end else wanted.end
