"""Record batches of the source as batches that a producer may send.

Owns: what is sent as it is, and what is encoded again; where the source offsets of each record are. Does not own:
sending. Invariant: keys, values, headers, timestamps and the order of records stay, and so does the codec.

A batch is sent as it is, but for its producer, unless it may not be: one that compaction has thinned out or marked, one
with times of the source's broker (LogAppendTime: its records keep them, as their own), one that begins below the
position. Small batches that follow each other become one: a Produce request has one batch for each partition, and a
request for each record would take longer than to encode it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.records.batch import HEADER_SIZE, TRANSACTIONAL_MASK, BatchHeader, assemble_batch, encode_batch
from oncelog.protocol.records.compression import CODECS
from oncelog.protocol.records.record import Record, decode_records

SMALL_BYTES = 4 << 10
"""The size below which a batch is joined to others."""
BUNDLE_BYTES = 16 << 10
"""The size of joined batches: the default batch.size of producers."""
_CODEC_NAMES = {number: name for name, number in CODECS.items()}
_MAX_BYTES = 1 << 30
"""The most bytes of a batch when it is decompressed: the broker took it from a producer, which had it in memory."""

Batch = tuple[BatchHeader, memoryview]


@dataclass(frozen=True, slots=True)
class Bundle:
    """One batch to send, and its records' source offsets as runs: the first offset and the count of each."""

    encoded: bytes
    runs: Sequence[tuple[int, int]]
    record_count: int


def bundles(batches: Iterable[Batch], from_offset: int) -> Iterator[Bundle]:
    """Yield the committed batches of one partition as bundles, in order; records below `from_offset` are left out.
    Raises ProtocolError for a batch that cannot be decoded."""
    small: list[Batch] = []
    size_bytes = 0
    for header, batch in batches:
        is_small = header.size_in_bytes < SMALL_BYTES
        fits = size_bytes + header.size_in_bytes <= BUNDLE_BYTES
        if small and not (is_small and fits and header.compression_type == small[0][0].compression_type):
            yield from _joined(small, from_offset)
            small, size_bytes = [], 0
        if is_small:
            small.append((header, batch))
            size_bytes += header.size_in_bytes
        else:
            yield from _joined([(header, batch)], from_offset)
    if small:
        yield from _joined(small, from_offset)


def _joined(batches: Sequence[Batch], from_offset: int) -> Iterator[Bundle]:
    if len(batches) == 1 and _may_be_sent(batches[0][0], from_offset):
        header, batch = batches[0]
        encoded = assemble_batch(
            batch[HEADER_SIZE : header.size_in_bytes],
            attributes=header.attributes & ~TRANSACTIONAL_MASK,
            record_count=header.record_count,
            base_timestamp=header.base_timestamp,
            max_timestamp=header.max_timestamp,
        )
        yield Bundle(encoded, ((header.base_offset, header.record_count),), header.record_count)
        return
    records: list[Record] = []
    for header, batch in batches:
        try:
            decoded = decode_records(batch, _MAX_BYTES)
        except ProtocolError as error:
            raise ProtocolError(f"the batch at offset {header.base_offset} cannot be decoded: {error}") from error
        records += [each for each in decoded if each.offset >= from_offset]
    if records:
        codec = _CODEC_NAMES[batches[0][0].compression_type]
        yield Bundle(encode_batch(records, compression=codec), tuple(_runs(records)), len(records))


def _may_be_sent(header: BatchHeader, from_offset: int) -> bool:
    return (
        header.base_offset >= from_offset
        and header.record_count == header.next_offset - header.base_offset
        and not header.is_log_append_time
        and not header.has_delete_horizon
    )


def _runs(records: Sequence[Record]) -> Iterator[tuple[int, int]]:
    start = records[0].offset
    for before, after in pairwise(records):
        if after.offset != before.offset + 1:
            yield start, before.offset + 1 - start
            start = after.offset
    yield start, records[-1].offset + 1 - start
