"""What one response has of a partition: the acquired records, batch by batch, and what the program does not get.

Owns: which records of the batches were acquired, gaps, damage. Does not own: requests (`exchange`), objects made of
keys and values (`handing_out`). Invariant: each acquired offset is in exactly one piece, as a record or with a type.

As Kafka's ShareCompletedFetch: an offset without a record is a gap, and a batch that fails its checksum is rejected as
a whole. What is behind damage of a batch's frame is released: nothing is known of it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from oncelog.client.sharing.acknowledgements import GAP, REJECT, RELEASE
from oncelog.client.values.errors import CorruptBatch
from oncelog.client.values.records import Record, TopicPartition
from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.generated.share_fetch_response import AcquiredRecords
from oncelog.protocol.records.batch import BatchHeader, check_crc, decode_batch, iter_batches

_HINT = (
    "bytes in the log or on the network are damaged; these records are rejected or released, and the next ones follow"
)


class Piece(NamedTuple):
    """The acquired part of one batch."""

    records: list[tuple[Record, int]]
    """Records, each with its delivery count."""
    types: dict[int, int]
    """The types, by offset, of what is acknowledged without the program: gaps, and records that it cannot get."""
    error: CorruptBatch | None = None


def iter_pieces(
    place: TopicPartition, records: memoryview, acquired: Sequence[AcquiredRecords], *, check_crcs: bool
) -> Iterator[Piece]:
    """Yield the acquired records in ascending order; a batch is decoded when it is its turn."""
    counts = {
        offset: each.delivery_count for each in acquired for offset in range(each.first_offset, each.last_offset + 1)
    }
    offsets = sorted(counts)
    at = 0
    end_position = 0
    try:
        for header, batch in iter_batches(records):
            first = bisect_left(offsets, header.base_offset, at)
            end = bisect_right(offsets, header.last_offset, first)
            gaps, mine, at = offsets[at:first], offsets[first:end], end
            end_position += len(batch)
            if gaps or mine:
                yield _piece(place, header, batch, counts, gaps, mine, check_crcs)
    except ProtocolError as error:
        problem = CorruptBatch(f"{place.topic}-{place.partition}: {error}", hint=_HINT)
        yield Piece([], dict.fromkeys(offsets[at:], RELEASE), problem)
        return
    if at < len(offsets):
        # A broker acquires whole batches only. Part of one behind them may have records, so that these are no gaps.
        left_out = RELEASE if end_position < len(records) else GAP
        yield Piece([], dict.fromkeys(offsets[at:], left_out))


def _piece(
    place: TopicPartition,
    header: BatchHeader,
    batch: memoryview,
    counts: dict[int, int],
    gaps: list[int],
    mine: list[int],
    check_crcs: bool,
) -> Piece:
    types = dict.fromkeys(gaps, GAP)
    if header.is_control:
        return Piece([], types | dict.fromkeys(mine, GAP))
    found: list[tuple[Record, int]] = []
    if mine:
        try:
            decoded = _decode(place, header, batch, check_crcs)
        except CorruptBatch as error:
            return Piece([], types | dict.fromkeys(mine, REJECT), error)
        found = [(each, counts[each.offset]) for each in decoded if each.offset in counts]
        if len(found) < len(mine):
            present = {each.offset for each, _ in found}
            types |= {offset: GAP for offset in mine if offset not in present}
    return Piece(found, types)


def _decode(place: TopicPartition, header: BatchHeader, batch: memoryview, check_crcs: bool) -> list[Record]:
    problem = "fails its checksum"
    if not check_crcs or check_crc(batch):
        try:
            return decode_batch(header, batch, Record, place)
        except ProtocolError as error:
            problem = f"cannot be decoded: {error}"
    text = f"the batch in {place.topic}-{place.partition} at offset {header.base_offset} {problem}"
    raise CorruptBatch(text, hint=_HINT)
