"""A response's acquired offsets each become a record, a gap, or what a member says of damage; none is left out."""

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from oncelog.client.sharing.acknowledgements import GAP, REJECT, RELEASE
from oncelog.client.sharing.pieces import Piece, iter_pieces
from oncelog.client.values.records import TopicPartition
from oncelog.protocol.generated.share_fetch_response import AcquiredRecords
from oncelog.protocol.records.batch import CRC_AT, assemble_batch
from oncelog.protocol.records.control import ControlRecordType, encode_end_txn_marker
from oncelog.protocol.records.record import Record, encode_record

PLACE = TopicPartition("topic", 0)


def batch(*offsets: int) -> bytes:
    """A batch of these records; where offsets are left out the log was compacted."""
    records = [Record(offset, 1_000, None, b"%d" % offset, ()) for offset in offsets]
    return assemble_batch(
        b"".join(encode_record(each, each.offset - offsets[0], 0) for each in records),
        attributes=0,
        record_count=len(records),
        base_timestamp=1_000,
        max_timestamp=1_000,
        base_offset=offsets[0],
        last_offset_delta=offsets[-1] - offsets[0],
    )


def pieces(records: bytes, *acquired: tuple[int, int, int], check_crcs: bool = True) -> list[Piece]:
    ranges = [AcquiredRecords(*each) for each in acquired]
    return list(iter_pieces(PLACE, memoryview(records), ranges, check_crcs=check_crcs))


def delivered(found: Sequence[Piece]) -> list[tuple[int, int]]:
    return [(record.offset, count) for piece in found for record, count in piece.records]


def said(found: Sequence[Piece]) -> dict[int, int]:
    return {offset: number for piece in found for offset, number in piece.types.items()}


def test_of_a_batch_only_what_is_acquired_is_delivered_each_with_its_count() -> None:
    found = pieces(batch(0, 1, 2, 3, 4), (1, 2, 1), (4, 4, 3))
    assert delivered(found) == [(1, 1), (2, 1), (4, 3)]
    assert said(found) == {}


def test_an_offset_without_a_record_is_a_gap_wherever_it_is() -> None:
    """Before, within and after the batches."""
    found = pieces(batch(2, 4) + batch(7), (1, 9, 1))
    assert delivered(found) == [(2, 1), (4, 1), (7, 1)]
    assert said(found) == dict.fromkeys((1, 3, 5, 6, 8, 9), GAP)


def test_a_marker_is_a_gap() -> None:
    marker = encode_end_txn_marker(1, 0, ControlRecordType.COMMIT, 0, 1_000, base_offset=1)
    found = pieces(batch(0) + marker + batch(2), (0, 2, 1))
    assert delivered(found) == [(0, 1), (2, 1)]
    assert said(found) == {1: GAP}


def test_a_batch_that_fails_its_checksum_is_rejected_as_a_whole_and_the_next_one_is_delivered() -> None:
    damaged = bytearray(batch(0, 1, 2))
    damaged[CRC_AT] ^= 1
    found = pieces(bytes(damaged) + batch(3), (1, 3, 1))
    assert delivered(found) == [(3, 1)]
    assert said(found) == {1: REJECT, 2: REJECT}
    assert [str(each.error) for each in found if each.error is not None] == [
        "the batch in topic-0 at offset 0 fails its checksum (bytes in the log or on the network are damaged; these "
        "records are rejected or released, and the next ones follow)"
    ]
    assert delivered(pieces(bytes(damaged), (1, 2, 1), check_crcs=False)) == [(1, 1), (2, 1)]


def test_what_is_behind_a_damaged_frame_is_released() -> None:
    """Nothing is known of it: another member may get it whole."""
    damaged = batch(0) + b"\x00" * 100
    found = pieces(damaged, (0, 5, 1))
    assert delivered(found) == [(0, 1)]
    assert said(found) == dict.fromkeys(range(1, 6), RELEASE)
    assert found[-1].error is not None


def test_what_is_only_partly_here_is_released() -> None:
    found = pieces(batch(0) + batch(1, 2)[:-1], (0, 2, 1))
    assert delivered(found) == [(0, 1)]
    assert said(found) == {1: RELEASE, 2: RELEASE}


chunks = st.lists(st.tuples(st.integers(0, 3), st.sets(st.integers(0, 5), min_size=1), st.booleans()), max_size=5)
acquired_ranges = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 6), st.integers(1, 5)), max_size=6)


@given(chunks, acquired_ranges)
def test_each_acquired_offset_is_in_one_piece_in_order(layout: Any, acquired: list[tuple[int, int, int]]) -> None:
    records, end, present, damaged = b"", 0, set(), set()
    for hole, offsets, is_damaged in layout:
        here = sorted(end + hole + offset for offset in offsets)
        encoded = bytearray(batch(*here))
        if is_damaged:
            encoded[CRC_AT] ^= 1
            damaged |= set(range(here[0], here[-1] + 1))
        else:
            present |= set(here)
        records += bytes(encoded)
        end = here[-1] + 1
    ranges, last = [], -1
    for skip, length, count in acquired:
        first = last + 1 + skip
        last = first + length
        ranges.append((first, last, count))
    found = pieces(records, *ranges)
    counts = {offset: count for first, last, count in ranges for offset in range(first, last + 1)}
    assert delivered(found) == [(offset, counts[offset]) for offset in sorted(present) if offset in counts]
    assert said(found) == {offset: REJECT if offset in damaged else GAP for offset in counts if offset not in present}
