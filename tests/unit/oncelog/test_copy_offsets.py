"""What a copy remembers and sends: the mapping of offsets, its stored form, and batches that a producer may send."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.records.batch import (
    DELETE_HORIZON_MASK,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    BatchHeader,
    assemble_batch,
    encode_batch,
    iter_batches,
    read_header,
)
from oncelog.protocol.records.compression import CODECS, compress
from oncelog.protocol.records.record import Record, decode_records, encode_record
from oncelog.tools.copy import bundles as bundling
from oncelog.tools.copy.bundles import bundles
from oncelog.tools.copy.runs import Runs
from oncelog.tools.copy.state import (
    BLOCK_RUNS,
    CopyState,
    PartitionCopy,
    TopicIds,
    entries_of,
    on_stored,
    replay,
    switched_entry,
)
from tests.support.requests.frame_shapes import batch_of, shapes
from tests.support.samples import examples

IDS = TopicIds("orders", UUID(int=1), UUID(int=2))
gaps_and_counts = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 5)))


def pairs(steps: list[tuple[int, int, int]]) -> Iterator[tuple[int, int]]:
    """Source and target offset of each record of a log that is copied in these steps."""
    source = target = 0
    for source_gap, target_gap, count in steps:
        source, target = source + source_gap, target + target_gap
        for _ in range(count):
            yield source, target
            source, target = source + 1, target + 1


@given(gaps_and_counts)
def test_each_source_offset_is_where_its_record_is_or_the_next_one(steps: list[tuple[int, int, int]]) -> None:
    runs = Runs()
    known = list(pairs(steps))
    for source, target in known:
        runs.append(source, target, 1)
    end = known[-1][1] + 1 if known else 0
    for offset in range(len(known) * 4 + 2):
        assert runs.target_of(offset) == next((target for source, target in known if source >= offset), end)


@pytest.mark.parametrize(("source", "target"), [(4, 9), (9, 4)])
def test_a_run_that_overlaps_another_is_refused(source: int, target: int) -> None:
    runs = Runs()
    runs.append(0, 0, 5)
    with pytest.raises(ValueError, match="overlaps"):
        runs.append(source, target, 1)


@settings(max_examples=examples(30))
@given(st.lists(st.tuples(gaps_and_counts, st.integers(0, 2)), max_size=6), st.integers(1, 3))
def test_what_is_stored_after_any_transactions_is_what_is_known(
    transactions: list[tuple[list[tuple[int, int, int]], int]], scale: int
) -> None:
    """There are several transactions, a restart after each one, and compaction that leaves each key's newest record."""
    log: dict[bytes, bytes | None] = {}
    copied = PartitionCopy(7)
    source = target = 0
    for steps, hidden in transactions:
        for source_gap, target_gap, count in steps * (scale * BLOCK_RUNS // 8):
            source, target = source + source_gap, target + target_gap
            copied.runs.append(source, target, count)
            source, target = source + count, target + count
        copied.next_offset = source + hidden
        log.update(entries_of(IDS, 3, copied))
        on_stored(copied)
        found = replay(log).partition(IDS, 3)
        assert found is not None
        assert (found.next_offset, list(found.runs)) == (copied.next_offset, list(copied.runs))
        assert found.stored_count == copied.stored_count


def test_a_transaction_stores_no_block_again_that_is_full() -> None:
    copied = PartitionCopy(0)
    for number in range(3 * BLOCK_RUNS + 1):
        copied.runs.append(number * 2, number * 2, 1)
    assert len(list(entries_of(IDS, 0, copied))) == 4
    on_stored(copied)
    copied.runs.append(10_000, 10_000, 1)
    assert len(list(entries_of(IDS, 0, copied))) == 1


def test_a_topic_that_was_created_again_on_either_side_is_another_one() -> None:
    state = replay(dict(entries_of(IDS, 0, PartitionCopy(5))))
    assert state.of_target("orders", IDS.target) == IDS
    assert state.of_target("orders", UUID(int=3)) is None
    assert state.of_target("others", IDS.target) is None


def test_a_switch_over_and_what_was_deleted_are_replayed() -> None:
    ((key, _),) = entries_of(IDS, 0, PartitionCopy(5))
    state = replay(dict([switched_entry(42)]) | {key: None})
    assert state == CopyState(switched_at_ms=42)


# --- batches ----------------------------------------------------------------------------------------------------------

record = st.tuples(
    st.integers(0, 10_000),
    st.none() | st.binary(max_size=20),
    st.none() | st.binary(max_size=2_000),
    st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2).map(tuple),
)
batch = st.tuples(
    st.lists(st.tuples(record, st.booleans()), min_size=1, max_size=8),
    st.sampled_from(["none", "gzip", "snappy", "lz4", "zstd"]),
    st.booleans(),
    st.booleans(),
    st.integers(0, 3),
)


def compacted(records: list[Record], first: int, last: int, codec: str, *, stamps: bool, transactional: bool) -> bytes:
    """The batch of the offsets from `first` to `last` of which these records are left, as compaction writes it."""
    body = b"".join(encode_record(each, each.offset - first, each.timestamp) for each in records)
    attributes = CODECS[codec] | TIMESTAMP_TYPE_MASK * stamps | TRANSACTIONAL_MASK * transactional
    return assemble_batch(
        compress(CODECS[codec], body) if CODECS[codec] else body,
        attributes=attributes | DELETE_HORIZON_MASK * (len(records) < last - first + 1),
        record_count=len(records),
        base_timestamp=0,
        max_timestamp=max(each.timestamp for each in records),
        base_offset=first,
        producer_id=9,
        producer_epoch=1,
        base_sequence=first,
        last_offset_delta=last - first,
    )


@settings(max_examples=examples(50))
@given(st.lists(batch, max_size=6), st.integers(0, 12))
def test_records_stay_as_they_are_and_so_does_their_place(batches: list[Any], from_offset: int) -> None:
    """It holds whatever compaction removed, whichever side set the times, and wherever the position is in the first
    batch.
    """
    log: list[tuple[BatchHeader, memoryview]] = []
    expected: list[Record] = []
    offset = 0
    for records, codec, stamps, transactional, gap in batches:
        offset += gap
        kept = [
            Record(offset + number, timestamp, key, value, headers)
            for number, ((timestamp, key, value, headers), is_kept) in enumerate(records)
            if is_kept
        ]
        if kept:
            last = offset + len(records) - 1
            encoded = compacted(kept, offset, last, codec, stamps=stamps, transactional=transactional)
            log.append((read_header(encoded), memoryview(encoded)))
            expected += [each for each in decode_records(memoryview(encoded)) if each.offset >= from_offset]
        offset += len(records)
    found: list[Record] = []
    for bundle in bundles(log, from_offset):
        header = read_header(bundle.encoded)
        assert (header.base_offset, header.producer_id, header.is_transactional) == (0, -1, False)
        assert not (header.is_log_append_time or header.has_delete_horizon)
        assert header.record_count == header.last_offset_delta + 1 == bundle.record_count
        places = [first + number for first, count in bundle.runs for number in range(count)]
        sent = decode_records(memoryview(bundle.encoded))
        found += [each._replace(offset=place) for each, place in zip(sent, places, strict=True)]
    assert found == expected


def test_a_batch_that_cannot_be_decoded_is_named_and_not_encoded_again() -> None:
    good = encode_batch([Record(0, 1, None, b"x")], base_offset=7)
    bad = (8).to_bytes(8, "big") + batch_of("zstd", shapes("zstd")["the first of two"])[8:]
    with pytest.raises(ProtocolError, match="the batch at offset 8 cannot be decoded"):
        list(bundles(iter_batches(memoryview(good + bad)), 9))


def test_small_batches_of_one_codec_become_one_and_large_ones_are_sent_as_they_are() -> None:
    small = [encode_batch([Record(0, 1, None, b"x" * 100)], base_offset=number) for number in range(300)]
    large = encode_batch([Record(0, 1, None, b"x" * 9_000)], base_offset=300)
    zipped = encode_batch([Record(0, 1, None, b"x")], base_offset=301, compression="gzip")
    log = list(iter_batches(memoryview(b"".join([*small, large, zipped]))))
    found = list(bundles(log, 0))
    sizes = [len(bundle.encoded) for bundle in found]
    assert max(sizes) <= bundling.BUNDLE_BYTES
    assert [bundle.record_count for bundle in found[-2:]] == [1, 1]
    assert found[-2].encoded[21:] == large[21:]
    assert read_header(found[-1].encoded).compression_type == CODECS["gzip"]
    assert len(found) == 2 + -(-sum(map(len, small)) // bundling.BUNDLE_BYTES)
