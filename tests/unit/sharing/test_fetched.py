"""What was read for a share-partition: its batches, which of them are aborted, and the bytes of what is acquired."""

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.sharing.fetched import Fetched, FetchedBatch, Reach, read_fetched, without_aborted
from oncelog.broker.sharing.values import AcquiredRecords
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.control import ControlRecordType, encode_end_txn_marker
from oncelog.protocol.records.record import Record


def batch(base_offset: int, count: int = 1, producer_id: int = -1, *, transactional: bool = True) -> bytes:
    records = [Record(base_offset + delta, 0, None, b"value") for delta in range(count)]
    if producer_id < 0:
        return encode_batch(records, base_offset=base_offset)
    return encode_batch(
        records,
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=1,
        base_sequence=0,
        transactional=transactional,
    )


def marker(base_offset: int, producer_id: int, kind: ControlRecordType = ControlRecordType.ABORT) -> bytes:
    return encode_end_txn_marker(producer_id, 1, kind, 0, 0, base_offset=base_offset)


def aborted_offsets(*parts: bytes, aborted: list[tuple[int, int]] | None) -> list[int]:
    found = read_fetched(0, memoryview(b"".join(parts)), aborted)
    assert found is not None
    return [one.base_offset for one in found.batches if one.is_aborted]


def test_nothing_read_has_no_batch() -> None:
    assert read_fetched(0, memoryview(b""), ()) is None
    assert read_fetched(0, memoryview(batch(0)[:-1]), ()) is None


def test_the_batches_of_a_read_are_its_headers() -> None:
    first, second = batch(3, 4), batch(10, 2)
    found = read_fetched(5, memoryview(first + second + first[:20]), None)
    assert found == Fetched(5, [FetchedBatch(3, 6, len(first)), FetchedBatch(10, 11, len(second))])
    assert (found.first_offset, found.last_offset) == (3, 11)
    assert [found.end_of_batch_at(offset) for offset in (2, 3, 5, 6, 7, 10, 12)] == [2, 6, 6, 6, 7, 11, 12]


@pytest.mark.parametrize(
    ("reach", "count"), [((-1, 0), 1), ((-1, 1), 1), ((-1, 2), 1), ((-1, 3), 2), ((2, 0), 2), ((2, 2), 3), ((9, 9), 5)]
)
def test_no_batch_is_looked_at_behind_what_may_be_acquired(reach: tuple[int, int], count: int) -> None:
    """Here each batch has two records; that with the last record in reach is looked at, and the first one always."""
    log = memoryview(b"".join(batch(2 * number, 2) for number in range(5)))
    found = read_fetched(0, log, None, Reach(*reach))
    assert found is not None
    assert len(found.batches) == count


def test_a_transaction_is_hidden_from_its_first_record_to_its_marker() -> None:
    """Not what the producer writes afterwards, nor outside of transactions, nor what others write."""
    log = [batch(0, 1, 7), batch(1, 1, 8), batch(2), batch(3, 1, 7), marker(4, 7), batch(5, 1, 7), marker(6, 8)]
    assert aborted_offsets(*log, aborted=[(7, 0)]) == [0, 3]
    assert aborted_offsets(*log, aborted=[(8, 1), (7, 0)]) == [0, 1, 3]
    assert aborted_offsets(*log, aborted=[(7, 3)]) == [3]
    assert aborted_offsets(batch(0, 1, 7, transactional=False), aborted=[(7, 0)]) == []


def test_only_an_abort_marker_ends_an_aborted_transaction() -> None:
    log = [batch(0, 1, 7), marker(1, 7, ControlRecordType.COMMIT), batch(2, 1, 7), marker(3, 7), batch(4, 1, 7)]
    assert aborted_offsets(*log, aborted=[(7, 0)]) == [0, 2]


def test_read_uncommitted_hides_nothing() -> None:
    assert aborted_offsets(batch(0, 1, 7), marker(1, 7), aborted=None) == []


def test_a_transaction_that_began_before_the_read_is_hidden() -> None:
    assert aborted_offsets(batch(5, 2, 7), marker(7, 7), aborted=[(7, 1)]) == [5]


ranges = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 6)), max_size=8).map(
    lambda parts: [
        (end - length, end - 1)
        for (_, length), end in zip(parts, accumulate(skip + length for skip, length in parts), strict=True)
    ]
)


@given(ranges, ranges)
def test_acquired_ranges_lose_what_is_aborted(acquired: list[tuple[int, int]], aborted: list[tuple[int, int]]) -> None:
    """Offset for offset, in order, and no range is made of two."""
    kept = without_aborted(
        [AcquiredRecords(*one, number) for number, one in enumerate(acquired)],
        [FetchedBatch(*one, 1, True) for one in aborted],
    )
    hidden = {offset for first, last in aborted for offset in range(first, last + 1)}
    expected = [
        (offset, number)
        for number, (first, last) in enumerate(acquired)
        for offset in range(first, last + 1)
        if offset not in hidden
    ]
    assert [(offset, number) for first, last, number in kept for offset in range(first, last + 1)] == expected


@given(st.data(), ranges.filter(bool))
def test_the_bytes_of_acquired_records_are_their_whole_batches(
    data: st.DataObject, batches: list[tuple[int, int]]
) -> None:
    """The bytes are from the batch with the first record to that with the last, and those between them."""
    found = Fetched(batches[0][0], [FetchedBatch(*one, 10 + number) for number, one in enumerate(batches)])
    first = data.draw(st.integers(0, len(batches) - 1))
    last = data.draw(st.integers(first, len(batches) - 1))
    low = data.draw(st.integers(*batches[first]))
    high = data.draw(st.integers(max(low, batches[last][0]), batches[last][1]))
    sizes = [10 + number for number in range(len(batches))]
    acquired = [AcquiredRecords(low, low, 1), AcquiredRecords(high, high, 1)]
    assert found.bytes_of(acquired) == (sum(sizes[:first]), sum(sizes[: last + 1]))
