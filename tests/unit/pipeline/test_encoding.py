"""Rows as record batches: what Kafka's own encoding says, in the partitions that Java's producer chooses."""

import gc
from collections import Counter, defaultdict
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.protocol.partitioning import murmur2, partition_for_key
from oncelog.protocol.records.batch import HEADER_SIZE, check_crc, read_header
from oncelog.protocol.records.compression import CODECS
from oncelog.protocol.records.record import Record, decode_records
from tests.support.requests.garbage import nothing_frozen

pa = pytest.importorskip("pyarrow")

KEYS = st.none() | st.binary(max_size=70)
HEADERS = st.none() | st.lists(st.tuples(st.text(max_size=9), st.none() | st.binary(max_size=9)), max_size=3)
ROWS = st.lists(
    st.tuples(KEYS, st.none() | st.binary(max_size=300), HEADERS, st.none() | st.integers(0, 2)), max_size=60
)
PARTITIONS = 3


class Encoded(NamedTuple):
    partition: int
    record_count: int
    data: bytes


def columns(rows: list[tuple]) -> tuple[Any, Any, Any, Any]:
    from oncelog.pipeline.sink.encoding import encode_headers

    keys, values, headers, partitions = (list(column) for column in zip(*rows, strict=True)) if rows else ([],) * 4
    dicts = [None if row is None else [{"key": name, "value": content} for name, content in row] for row in headers]
    header_type = pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()}))
    return (
        pa.array(keys, pa.binary()),
        pa.array(values, pa.binary()),
        encode_headers(pa.array(dicts, header_type)),
        pa.array(partitions, pa.int32()),
    )


def encode(rows: list[tuple], batch_size: int = 1_000, compression: str = "none", packer: Any = None) -> list[Encoded]:
    from oncelog.pipeline.sink.encoding import Packer, encode_rows

    return [
        Encoded(batch.partition, batch.record_count, b"".join(batch.parts))
        for batch in encode_rows(
            *columns(rows),
            partition_count=PARTITIONS,
            first_sticky=1,
            batch_size=batch_size,
            packer=packer or Packer(compression),
            timestamp_ms=1_234,
        )
    ]


def plain(row: tuple) -> tuple:
    """A row as it is written: no headers are an empty list of them."""
    key, value, headers, partition = row
    return key, value, tuple(headers or ()), partition


@given(ROWS, st.sampled_from(["none", "gzip", "snappy", "lz4", "zstd"]))
def test_every_row_is_one_record_in_its_partition_in_order(rows: list[tuple], compression: str) -> None:
    found: dict[int, list[Record]] = defaultdict(list)
    for batch in encode(rows, compression=compression):
        view = memoryview(batch.data)
        header = read_header(view)
        records = decode_records(view)
        assert check_crc(view)
        assert (header.producer_id, header.base_sequence, header.base_timestamp) == (-1, -1, 1_234)
        assert [record.offset for record in records] == list(range(batch.record_count))
        found[batch.partition] += records
    keyed = {
        partition: iter([each for each in records if each.key is not None]) for partition, records in found.items()
    }
    for key, value, headers, wanted in rows:
        if key is not None:
            record = next(keyed[partition_for_key(key, PARTITIONS) if wanted is None else wanted])
            assert (record.key, record.value, tuple(record.headers)) == (key, value, tuple(headers or ()))
    flat = sorted(
        (str(each.key), str(each.value), str(tuple(each.headers))) for part in found.values() for each in part
    )
    assert flat == sorted((str(key), str(value), str(tuple(headers or ()))) for key, value, headers, _ in rows)


@given(ROWS, st.data())
def test_rows_have_one_digest_in_any_order_and_split_and_no_other_rows_do(
    rows: list[tuple], data: st.DataObject
) -> None:
    from oncelog.pipeline.sink.encoding import digest_of

    def digest(*parts: list[tuple], topic: str = "topic") -> int:
        return sum(digest_of(topic, *columns(part)) for part in parts)

    shuffled = data.draw(st.permutations(rows))
    middle = data.draw(st.integers(0, len(rows)))
    assert digest(rows) == digest(shuffled[:middle], shuffled[middle:])
    others = data.draw(ROWS)
    assert (digest(rows) == digest(others)) is (Counter(map(plain, rows)) == Counter(map(plain, others)))
    assert not rows or digest(rows) != digest(rows, topic="other")


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_what_does_not_become_smaller_is_not_compressed_and_what_does_is(compression: str) -> None:
    """Noise, then batches of zeros: each batch is tried for itself."""
    noise, zeros = [(None, Random(1).randbytes(990), None, 0)], [(None, bytes(990), None, 0)]
    batches = encode(noise * 2 + zeros * 3 + noise + zeros, 1_000, compression)
    codecs = [read_header(memoryview(batch.data)).attributes for batch in batches]
    assert codecs == [0, 0, *[CODECS[compression]] * 3, 0, CODECS[compression]]


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_batches_are_larger_while_rows_become_small_and_never_larger_than_allowed_when_sent(compression: str) -> None:
    """Zeros, then zeros with noise behind them: a batch that was made too large for it is divided."""
    from oncelog.pipeline.sink.encoding import Packer

    packer = Packer(compression)
    zeros = [(None, bytes(990), None, 0)] * 40
    first, second = ([batch.record_count for batch in encode(zeros, 10_000, packer=packer)] for _ in range(2))
    assert max(first) <= 10
    assert max(second) > 30
    mixed = zeros + [(None, Random(seed).randbytes(990), None, 0) for seed in range(30)]
    batches = encode(mixed, 10_000, packer=packer)
    assert all(len(batch.data) <= 10_000 + HEADER_SIZE for batch in batches)
    records = [record for batch in batches for record in decode_records(memoryview(batch.data))]
    assert [record.value for record in records] == [value for _, value, _, _ in mixed]


def test_a_process_that_has_encoded_keeps_its_modules_out_of_collections() -> None:
    from oncelog.pipeline.imported import set_imported_aside
    from oncelog.pipeline.sink.task import TaskPlan, encode_task

    plan = TaskPlan("rows", "", "topic", {"topic": 1}, 1_000, "none", None, {})
    set_imported_aside.cache_clear()
    with nothing_frozen():
        assert encode_task(plan, [pa.RecordBatch.from_pydict({"value": [b"value"]})]).record_count == 1
        assert gc.get_freeze_count() > 10_000


@given(st.lists(KEYS, max_size=200))
def test_a_column_of_keys_hashes_as_each_key_does(keys: list[bytes | None]) -> None:
    from oncelog.pipeline.sink.encoding import murmur2_of

    array = pa.array([b"cut off", *keys], pa.binary()).slice(1)
    assert murmur2_of(array).to_pylist() == [None if key is None else murmur2(key) for key in keys]


@given(st.lists(st.integers(0, 900), min_size=1, max_size=60))
def test_a_batch_is_bounded_unless_one_row_is_larger(sizes: list[int]) -> None:
    rows = [(b"key", bytes(size), None, None) for size in sizes]
    for batch in encode(rows, batch_size=500):
        assert batch.record_count == 1 or len(batch.data) - HEADER_SIZE <= 500


def test_rows_are_the_same_when_they_are_long_and_more_than_is_joined_at_once() -> None:
    """The batches have some rows or one, 4 MB in all, with lengths on either side of the table of varints."""
    rows = [(b"%d" % index, bytes((index % 251,)) * (index * 500), None, index % 3) for index in range(120)]
    batches = encode(rows, batch_size=100_000)
    found = {record.key: record.value for batch in batches for record in decode_records(memoryview(batch.data))}
    assert found == {key: value for key, value, _, _ in rows}
    assert {batch.record_count for batch in batches} > {1, 2}


def test_rows_without_a_key_fill_one_partition_and_then_the_next() -> None:
    batches = encode([(None, bytes(73), None, None)] * 50, batch_size=1_000)
    assert [batch.partition for batch in batches] == sorted(batch.partition for batch in batches)
    assert {batch.partition for batch in batches} == set(range(PARTITIONS))
    assert max(batch.record_count for batch in batches) == 11


def test_bytes_that_are_not_utf_8_stay_as_they_are() -> None:
    every = [bytes((number,)) for number in range(256)]
    batches = encode([(each, each, None, None) for each in every])
    found = {record.key: record.value for batch in batches for record in decode_records(memoryview(batch.data))}
    assert found == {each: each for each in every}


def test_a_partition_that_does_not_exist_is_named() -> None:
    with pytest.raises(ValueError, match="partition 7; the topic has 3"):
        encode([(b"key", b"value", None, 7)])
