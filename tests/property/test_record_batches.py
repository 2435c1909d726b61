"""Record batches: round trips, refusals, and agreement with construct and with other people's parsers."""

import io
from collections.abc import Sequence
from contextlib import suppress

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder

from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.records import batch as layout
from oncelog.protocol.records.batch import HEADER_SIZE, BatchHeader, check_crc, encode_batch, iter_batches, read_header
from oncelog.protocol.records.compression import CODECS
from oncelog.protocol.records.control import ControlRecordType, decode_end_txn_marker, encode_end_txn_marker
from oncelog.protocol.records.formats import BATCH_HEADER, CONTROL_RECORD_KEY, END_TXN_MARKER
from oncelog.protocol.records.record import (
    Record,
    decode_body,
    decode_records,
    encode_numbered_records,
    encode_record,
    read_zigzag,
    zigzag,
)
from tests.support.samples import examples

SLOW_TO_DRAW = settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
INT64 = st.integers(-(2**63), 2**63 - 1)
TIMESTAMP = st.integers(0, 2**42)
CONTENT = st.none() | st.binary(max_size=200)
HEADERS = st.lists(st.tuples(st.text(max_size=8), CONTENT), max_size=3).map(tuple)
RECORDS = st.lists(st.tuples(TIMESTAMP, CONTENT, CONTENT, HEADERS), min_size=1, max_size=70)


def numbered(
    drawn: Sequence[tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]],
) -> list[Record]:
    return [Record(index, *fields) for index, fields in enumerate(drawn)]


@SLOW_TO_DRAW
@given(RECORDS, st.sampled_from(sorted(CODECS)), st.integers(0, 2**62))
def test_records_come_back_as_they_went_in(drawn: list, compression: str, base_offset: int) -> None:
    records = numbered(drawn)
    batch = memoryview(encode_batch(records, compression=compression, base_offset=base_offset))
    expected = [record._replace(offset=base_offset + record.offset) for record in records]
    assert decode_records(batch) == expected
    assert check_crc(batch)
    header = read_header(batch)
    assert (header.base_offset, header.next_offset) == (base_offset, base_offset + len(records))
    assert header.max_timestamp == max(record.timestamp for record in records)
    assert header.size_in_bytes == len(batch)
    assert header.compression_type == CODECS[compression]


@pytest.mark.parametrize("size", [0, 1, 52, 53, 54, 63, 64, 8_178, 8_180, 8_182, 8_191, 8_192, 1_048_575, 1_048_576])
def test_sizes_and_offsets_at_the_edge_of_a_wider_varint_come_back(size: int) -> None:
    count = 3 if size > 100_000 else 70
    for key, deltas in ((None, range(count)), (bytes(size), range(8_192 - count // 2, 8_192 + count))):
        expected = [Record(delta, delta, key, bytes(size)) for delta in deltas]
        body = b"".join(encode_record(record, record.offset, record.timestamp) for record in expected)
        assert decode_body(body, len(expected), 0, 0, None) == expected


@given(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-1, 2**15 - 1),
    st.integers(-1, 2**31 - 1),
    st.booleans(),
    st.booleans(),
    st.integers(-1, 2**31 - 1),
)
def test_the_header_is_what_construct_reads(
    producer_id: int, producer_epoch: int, base_sequence: int, transactional: bool, control: bool, leader_epoch: int
) -> None:
    batch = encode_batch(
        [Record(0, 5, None, b"x"), Record(1, 9, None, b"y")],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
        control=control,
        partition_leader_epoch=leader_epoch,
    )
    header = read_header(batch)
    parsed = BATCH_HEADER.parse(batch)
    assert {name: getattr(header, name) for name in BatchHeader._fields} == {
        name: value for name, value in parsed.items() if name != "_io"
    }
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (
        producer_id,
        producer_epoch,
        base_sequence,
    )
    assert (header.is_transactional, header.is_control) == (transactional, control)
    # Sequences wrap from 2^31 - 1 to 0.
    assert header.last_sequence == (-1 if base_sequence == -1 else (base_sequence + 1) % 2**31)


@given(RECORDS, st.integers(0, 300))
def test_batches_are_walked_one_by_one_and_a_partial_last_one_is_left_out(drawn: list, missing: int) -> None:
    batches = [encode_batch([record], base_offset=index) for index, record in enumerate(numbered(drawn))]
    data = b"".join(batches)
    data = data[: max(0, len(data) - missing)]
    whole = 0
    while sum(map(len, batches[: whole + 1])) <= len(data) and whole < len(batches):
        whole += 1
    walked = list(iter_batches(memoryview(data)))
    assert [bytes(view) for _, view in walked] == batches[:whole]
    assert [header.base_offset for header, _ in walked] == list(range(whole))


@given(st.integers(-(2**31), HEADER_SIZE - 13))
def test_a_batch_shorter_than_its_header_is_refused(batch_length: int) -> None:
    data = bytearray(encode_batch([Record(0, 0, None, b"x")]))
    data[8:12] = batch_length.to_bytes(4, "big", signed=True)
    with pytest.raises(ProtocolError):
        list(iter_batches(memoryview(data)))


@SLOW_TO_DRAW
@given(RECORDS, st.data())
def test_any_flipped_bit_breaks_the_checksum_outside_what_brokers_stamp(drawn: list, data: st.DataObject) -> None:
    batch = bytearray(encode_batch(numbered(drawn)))
    # Base offset, length, leader epoch and magic lie before the checksum.
    at = data.draw(st.integers(17, len(batch) - 1))
    batch[at] ^= 1 << data.draw(st.integers(0, 7))
    assert not check_crc(memoryview(batch))


@SLOW_TO_DRAW
@given(RECORDS, st.sampled_from(sorted(CODECS)), st.data())
def test_damaged_batches_are_decoded_or_refused(drawn: list, compression: str, data: st.DataObject) -> None:
    batch = bytearray(encode_batch(numbered(drawn), compression=compression))
    for _ in range(data.draw(st.integers(1, 3))):
        batch[data.draw(st.integers(HEADER_SIZE - 4, len(batch) - 1))] = data.draw(st.integers(0, 255))
    with suppress(ProtocolError):  # and nothing else
        decode_records(memoryview(batch), max_bytes=100_000)


@SLOW_TO_DRAW
@given(RECORDS, st.sampled_from(sorted(CODECS)), st.data())
def test_a_body_that_ends_early_is_refused(drawn: list, compression: str, data: st.DataObject) -> None:
    batch = encode_batch(numbered(drawn), compression=compression)
    end = data.draw(st.integers(0, len(batch) - 1))
    with pytest.raises(ProtocolError):
        decode_records(memoryview(batch)[:end])
    if end >= HEADER_SIZE:
        lying = bytearray(batch[:end])
        lying[8:12] = (end - 12).to_bytes(4, "big")
        with pytest.raises(ProtocolError):
            decode_records(memoryview(lying))


@pytest.mark.parametrize("count", [-1, 0, 1, 3, 2**31 - 1])
def test_a_lying_record_count_is_refused(count: int) -> None:
    batch = bytearray(encode_batch([Record(0, 0, None, b"x"), Record(1, 0, None, b"y")]))
    batch[57:61] = count.to_bytes(4, "big", signed=True)
    with pytest.raises(ProtocolError):
        decode_records(memoryview(batch))


def test_records_of_log_append_time_have_the_time_of_their_batch() -> None:
    batch = bytearray(encode_batch([Record(0, 5, None, b"x"), Record(1, 7, None, b"y")]))
    batch[22] |= 0x08
    batch[35:43] = (99).to_bytes(8, "big")
    assert [record.timestamp for record in decode_records(memoryview(batch))] == [99, 99]


@given(INT64)
def test_signed_varints_come_back_in_at_most_ten_bytes(value: int) -> None:
    data = zigzag(value)
    assert read_zigzag(data, 0) == (value, len(data))
    assert len(data) <= 10


def test_a_varint_of_eleven_bytes_is_refused() -> None:
    with pytest.raises(ProtocolError):
        read_zigzag(b"\x80" * 10 + b"\x00", 0)


# --- control batches --------------------------------------------------------------------------------------------------


@given(
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**15 - 1),
    st.sampled_from(ControlRecordType),
    st.integers(0, 2**31 - 1),
    TIMESTAMP,
    st.integers(0, 2**62),
)
def test_a_marker_is_one_control_batch_of_78_bytes_as_kafka_writes_it(
    producer_id: int, epoch: int, kind: ControlRecordType, coordinator_epoch: int, timestamp: int, base_offset: int
) -> None:
    marker = encode_end_txn_marker(producer_id, epoch, kind, coordinator_epoch, timestamp, base_offset=base_offset)
    header = read_header(marker)
    (record,) = decode_records(memoryview(marker))
    assert len(marker) == 78
    assert check_crc(memoryview(marker))
    assert (header.is_control, header.is_transactional, header.base_sequence) == (True, True, -1)
    assert (header.producer_id, header.producer_epoch, header.base_offset) == (producer_id, epoch, base_offset)
    assert record.key == CONTROL_RECORD_KEY.build({"version": 0, "type": kind})
    assert record.value == END_TXN_MARKER.build({"version": 0, "coordinator_epoch": coordinator_epoch})
    assert decode_end_txn_marker(memoryview(marker)) == (kind, coordinator_epoch)


@pytest.mark.parametrize(
    "records",
    [
        [Record(0, 0, None, None)],
        [Record(0, 0, b"\x00\x00\x00", b"\x00\x00\x00\x00\x00\x00")],
        [Record(0, 0, b"\x00\x00\x00\x02", b"\x00\x00\x00\x00\x00\x00")],
        [Record(0, 0, b"\x00\x00\x00\x01", b"\x00\x00")],
    ],
    ids=["no key", "short key", "a KRaft control record", "short value"],
)
def test_a_control_record_that_is_no_marker_is_refused(records: list[Record]) -> None:
    with pytest.raises(ProtocolError):
        decode_end_txn_marker(memoryview(encode_batch(records, control=True)))


def test_a_control_batch_without_records_is_refused() -> None:
    batch = bytearray(encode_batch([Record(0, 0, None, None)], control=True)[:HEADER_SIZE])
    batch[8:12] = (HEADER_SIZE - 12).to_bytes(4, "big")
    batch[57:61] = bytes(4)
    with pytest.raises(ProtocolError):
        decode_end_txn_marker(memoryview(batch))


# --- other people's parsers -------------------------------------------------------------------------------------------


# kafka-python's snappy needs a library of its own.
KAFKA_PYTHON_CODECS = sorted(set(CODECS) - {"snappy"})
PARSERS = [(AiokafkaBatch, name) for name in sorted(CODECS)] + [
    (KafkaPythonBatch, name) for name in KAFKA_PYTHON_CODECS
]


@SLOW_TO_DRAW
@given(RECORDS, st.sampled_from(PARSERS))
def test_python_clients_read_our_batches(drawn: list, choice: tuple[type, str]) -> None:
    parser, compression = choice
    records = numbered(drawn)
    theirs = parser(bytearray(encode_batch(records, compression=compression)))
    assert theirs.validate_crc()
    found = [Record(one.offset, one.timestamp, one.key, one.value, tuple(map(tuple, one.headers))) for one in theirs]
    assert found == records


@SLOW_TO_DRAW
@given(RECORDS, st.sampled_from(KAFKA_PYTHON_CODECS))
def test_we_read_the_batches_of_kafka_python(drawn: list, compression: str) -> None:
    builder = DefaultRecordBatchBuilder(2, CODECS[compression], True, 7, 3, 11, 1 << 30)
    records = numbered(drawn)
    for record in records:
        builder.append(record.offset, record.timestamp, record.key, record.value, list(record.headers))
    batch = memoryview(bytes(builder.build()))
    header = read_header(batch)
    assert check_crc(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 11)
    assert header.is_transactional
    assert decode_records(batch) == records


def test_a_stream_of_batches_reads_as_construct_reads_it() -> None:
    data = b"".join(encode_batch([Record(0, at, b"k", b"v" * at)], base_offset=at) for at in range(5))
    stream = io.BytesIO(data)
    for header, view in iter_batches(memoryview(data)):
        parsed = BATCH_HEADER.parse_stream(stream)
        assert (parsed.base_offset, parsed.crc) == (header.base_offset, header.crc)
        stream.seek(len(view) - HEADER_SIZE, io.SEEK_CUR)


@given(
    value=st.binary(min_size=4, max_size=200),
    data=st.data(),
    first_number=st.integers(-(2**31), 2**31 - 301),
    count=st.integers(0, 300),
    first_index=st.one_of(st.integers(0, 300), st.integers(8_000, 8_400), st.integers(1_048_400, 1_048_700)),
)
def test_numbered_records_are_what_each_of_them_is_encoded_to(
    value: bytes, data: st.DataObject, first_number: int, count: int, first_index: int
) -> None:
    number_at = data.draw(st.integers(0, len(value) - 4))
    numbers = range(first_number, first_number + count)
    wanted = b"".join(
        encode_record(
            Record(0, 0, None, value[:number_at] + number.to_bytes(4, "big", signed=True) + value[number_at + 4 :]),
            first_index + slot,
            0,
        )
        for slot, number in enumerate(numbers)
    )
    assert encode_numbered_records(value, number_at, numbers, first_index) == wanted


@pytest.mark.parametrize(
    ("field", "position"),
    [
        ("batch_length", layout.LENGTH_AT),
        ("partition_leader_epoch", layout.LENGTH_OVERHEAD),
        ("magic", layout.MAGIC_AT),
        ("crc", layout.CRC_AT),
        ("attributes", layout.ATTRIBUTES_AT),
        ("last_offset_delta", layout.LAST_OFFSET_DELTA_AT),
        ("base_timestamp", layout.BASE_TIMESTAMP_AT),
        ("max_timestamp", layout.MAX_TIMESTAMP_AT),
        ("producer_id", layout.PRODUCER_ID_AT),
        ("producer_epoch", layout.PRODUCER_EPOCH_AT),
        ("base_sequence", layout.BASE_SEQUENCE_AT),
    ],
)
def test_each_named_position_is_where_the_declared_field_begins(field: str, position: int) -> None:
    before = []
    for subcon in BATCH_HEADER.subcons:
        if subcon.name == field:
            break
        before.append(subcon)
    assert position == sum(subcon.sizeof() for subcon in before)
    assert layout.FLAGS_AT + 1 == layout.LAST_OFFSET_DELTA_AT
    assert layout.CRC_COVERS_FROM == layout.ATTRIBUTES_AT
    assert BATCH_HEADER.sizeof() == layout.HEADER_SIZE


@given(st.lists(st.integers(-128, 127), min_size=HEADER_SIZE, max_size=HEADER_SIZE))
def test_the_partial_forms_of_the_header_read_what_the_whole_one_reads(values: list[int]) -> None:
    data = bytes(value & 0xFF for value in values)
    header = read_header(data)
    assert layout.PREFIX.unpack_from(data) == (header.base_offset, header.batch_length, header.partition_leader_epoch)
    assert layout.SPAN.unpack_from(data) == (
        header.base_offset,
        header.batch_length,
        header.last_offset_delta,
        header.base_timestamp,
        header.max_timestamp,
    )
