"""The columns that are made of record batches hold what decoding finds: every codec, nulls, gaps, edges of ranges."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.client.consuming.ranges import RangePiece
from oncelog.client.values.errors import CorruptBatch
from oncelog.protocol.records.batch import assemble_batch, encode_batch, read_header
from oncelog.protocol.records.record import Record, encode_record
from tests.support.requests.frame_shapes import COMPRESSING, batch_of, shapes
from tests.support.requests.frame_shapes import RECORDS as SENT

pytestmark = pytest.mark.spark
BYTES = st.none() | st.binary(max_size=40)
HEADERS = st.lists(st.tuples(st.text(max_size=3), BYTES), max_size=2).map(tuple)
RECORDS = st.lists(
    st.builds(Record, st.just(0), st.integers(0, 1 << 41), BYTES, BYTES, HEADERS), min_size=1, max_size=30
)
CODECS = st.sampled_from(["none", "gzip", "snappy", "lz4", "zstd"])
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def piece_of(*batches: bytes) -> RangePiece:
    headers = [read_header(batch) for batch in batches]
    pairs = [(header, memoryview(batch)) for header, batch in zip(headers, batches, strict=True)]
    return RangePiece(pairs, headers[-1].next_offset, 0, 0)


def rows_of(piece: RangePiece, start: int, end: int) -> list[dict[str, Any]]:
    pytest.importorskip("pyarrow")
    from oncelog.pipeline.source.columns import SCHEMA_WITH_HEADERS, columns

    batch = columns(piece, "t", 3, start, end, with_headers=True)
    if batch is None:
        return []
    batch.validate(full=True)
    assert batch.schema == SCHEMA_WITH_HEADERS
    rows: list[dict[str, Any]] = batch.to_pylist()
    return rows


def row(offset: int, record: Record, timestamp: int, timestamp_type: int = 0) -> dict[str, Any]:
    return {
        "key": record.key,
        "value": record.value,
        "topic": "t",
        "partition": 3,
        "offset": offset,
        "timestamp": EPOCH + timedelta(milliseconds=timestamp),
        "timestampType": timestamp_type,
        "headers": [{"key": key, "value": value} for key, value in record.headers] or None,
    }


@given(RECORDS, RECORDS, CODECS, CODECS, st.integers(0, 60), st.integers(1, 60))
def test_a_piece_has_a_row_for_each_record_in_the_range(
    one: list[Record], other: list[Record], first_codec: str, codec: str, start: int, count: int
) -> None:
    end = start + count
    gap = len(one) + 2  # two markers lay between them
    piece = piece_of(
        encode_batch(one, compression=first_codec), encode_batch(other, base_offset=gap, compression=codec)
    )
    expected = [row(index, each, each.timestamp) for index, each in enumerate(one)]
    expected += [row(gap + index, each, each.timestamp) for index, each in enumerate(other)]
    assert rows_of(piece, start, end) == [each for each in expected if start <= each["offset"] < end]


def test_with_log_append_time_every_row_has_the_time_of_its_batch() -> None:
    records = [Record(0, 1000, b"k", b"v"), Record(0, 1000, None, None)]
    piece = piece_of(encode_batch(records, log_append_time=True))
    assert rows_of(piece, 0, 9) == [row(index, each, 1000, 1) for index, each in enumerate(records)]


def test_a_batch_that_compaction_has_thinned_out_keeps_its_offsets() -> None:
    records = {0: Record(0, 5, b"a", b"1"), 4: Record(0, 6, b"b", b"2"), 9: Record(0, 7, b"c", b"3")}
    body = b"".join(encode_record(each, offset, each.timestamp - 5) for offset, each in records.items())
    batch = assemble_batch(
        body,
        attributes=0,
        record_count=3,
        base_timestamp=5,
        max_timestamp=7,
        base_offset=100,
        last_offset_delta=9,
    )
    expected = [row(100 + offset, each, each.timestamp) for offset, each in records.items()]
    assert rows_of(piece_of(batch), 0, 200) == expected
    assert rows_of(piece_of(batch), 101, 109) == expected[1:2]


@pytest.mark.parametrize("codec", COMPRESSING)
def test_several_frames_are_one_batch_and_one_that_lacks_records_is_named(codec: str) -> None:
    before = encode_batch([Record(0, 1, None, b"v")], base_offset=0)
    for shape in ("two frames", "an empty frame behind", "the first of two"):
        batch = b"".join(((1).to_bytes(8, "big"), batch_of(codec, shapes(codec)[shape])[8:]))
        if shape == "the first of two" or (codec, shape) == ("lz4", "two frames"):
            with pytest.raises(CorruptBatch, match="the batch in t-3 at offset 1 cannot be decoded"):
                rows_of(piece_of(before, batch), 0, 100)
        else:
            rows = rows_of(piece_of(before, batch), 1, 100)
            assert [(each["offset"], each["value"]) for each in rows] == [(i + 1, r.value) for i, r in enumerate(SENT)]
