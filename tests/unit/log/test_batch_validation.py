"""Each bad batch gets the error code that Kafka 4.3 gives it."""

from struct import pack, pack_into

import pytest
from crc32c import crc32c

from oncelog.broker.log.batch_validation import validate_batch
from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.values import AppendOrigin
from oncelog.protocol.errors import ErrorCode, KafkaError
from tests.fakes.logs import batch

NOW_MS = 1_000_000
YEAR_9999_MS = 253_370_764_800_000


def sealed(data: bytearray) -> memoryview:
    pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    return memoryview(bytes(data))


def patched(at: int, fmt: str, value: int, *, count: int = 1, seal: bool = True) -> memoryview:
    data = bytearray(batch(count, timestamp=NOW_MS))
    pack_into(fmt, data, at, value)
    return sealed(data) if seal else memoryview(bytes(data))


def with_records(records: bytes, count: int = 1) -> memoryview:
    data = bytearray(batch(1, timestamp=NOW_MS)[:61]) + records
    pack_into(">i", data, 8, len(data) - 12)
    pack_into(">i", data, 23, count - 1)
    pack_into(">i", data, 57, count)
    return sealed(data)


def record(body: bytes) -> bytes:
    """A record with its length before it; only for lengths below 64."""
    return bytes([len(body) * 2]) + body


PLAIN = record(b"\0\0\0\x01\x02v\0")

REFUSED = {
    "a wrong checksum": (patched(60, ">B", 7, seal=False), ErrorCode.CORRUPT_MESSAGE),
    "magic 1": (patched(16, ">b", 1), ErrorCode.INVALID_RECORD),
    "magic 3": (patched(16, ">b", 3), ErrorCode.CORRUPT_MESSAGE),
    "a negative magic": (patched(16, ">b", -1), ErrorCode.CORRUPT_MESSAGE),
    "count 5 with 1 record": (patched(57, ">i", 5), ErrorCode.INVALID_RECORD),
    "count and delta 5 with 1 record": (with_records(PLAIN, 5), ErrorCode.INVALID_RECORD),
    "count 1 with 2 records": (with_records(PLAIN + PLAIN), ErrorCode.INVALID_RECORD),
    "a last offset delta of 9 with 1 record": (patched(23, ">i", 9), ErrorCode.INVALID_RECORD),
    "no record at all": (with_records(b"", 0), ErrorCode.INVALID_RECORD),
    "a record length of 2^31-1": (with_records(b"\xfe\xff\xff\xff\x0f" + PLAIN), ErrorCode.INVALID_RECORD),
    "a record length that never ends": (with_records(b"\xff" * 10 + PLAIN), ErrorCode.INVALID_RECORD),
    "2^30 headers": (with_records(record(b"\0\0\0\x01\x02v\x80\x80\x80\x80\x08")), ErrorCode.INVALID_RECORD),
    "a field that leaves its record": (with_records(record(b"\0\0\0\x01\x40v\0")), ErrorCode.INVALID_RECORD),
    "a length past the end": (patched(8, ">i", 4000), ErrorCode.INVALID_RECORD),
    "a length below the header's": (patched(8, ">i", 10), ErrorCode.CORRUPT_MESSAGE),
    "a negative length": (patched(8, ">i", -1), ErrorCode.CORRUPT_MESSAGE),
    "two batches": (memoryview(bytes(batch()) * 2), ErrorCode.INVALID_RECORD),
    "nothing": (memoryview(b""), ErrorCode.INVALID_RECORD),
    "half a header": (batch()[:30], ErrorCode.INVALID_RECORD),
    "a control batch": (patched(21, ">h", 0x30), ErrorCode.INVALID_RECORD),
    "an undefined compression": (patched(21, ">h", 7), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "gzip without gzip": (patched(21, ">h", 1), ErrorCode.INVALID_RECORD),
    "zstd without zstd": (patched(21, ">h", 4), ErrorCode.INVALID_RECORD),
    "a base offset": (patched(0, ">q", 5), ErrorCode.INVALID_RECORD),
    "a producer id without a sequence": (batch(producer_id=4, base_sequence=-1), ErrorCode.INVALID_RECORD),
    "a transaction without a producer id": (patched(21, ">h", 0x10), ErrorCode.INVALID_RECORD),
    "the year 9999": (batch(timestamp=YEAR_9999_MS), ErrorCode.INVALID_TIMESTAMP),
    "2 MB": (batch(value=bytes(2_000_000)), ErrorCode.MESSAGE_TOO_LARGE),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_batch_is_refused_as_kafka_refuses_it(name: str) -> None:
    data, code = REFUSED[name]
    with pytest.raises(KafkaError) as refused:
        validate_batch(data, LogConfig(), NOW_MS, AppendOrigin.CLIENT)
    assert refused.value.code is code


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 200])
def test_good_batch_of_any_count_passes(count: int) -> None:
    header = validate_batch(batch(count, timestamp=NOW_MS), LogConfig(), NOW_MS, AppendOrigin.CLIENT)
    assert header.record_count == count


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_batch_passes_unopened_and_opened(compression: str) -> None:
    data = batch(20, timestamp=NOW_MS, compression=compression)
    for config in (LogConfig(), LogConfig(record_validation="full")):
        assert validate_batch(data, config, NOW_MS, AppendOrigin.CLIENT).record_count == 20


def test_full_validation_finds_what_the_short_walk_leaves() -> None:
    """A wrong second record passes the walk by lengths; `oncelog.record.validation=full` decodes it."""
    data = with_records(PLAIN + record(b"\0\0\x02\x01\x7fv\0"), 2)
    validate_batch(data, LogConfig(), NOW_MS, AppendOrigin.CLIENT)
    with pytest.raises(KafkaError) as refused:
        validate_batch(data, LogConfig(record_validation="full"), NOW_MS, AppendOrigin.CLIENT)
    assert refused.value.code is ErrorCode.INVALID_RECORD


def test_compacted_topic_takes_no_record_without_a_key() -> None:
    config = LogConfig(cleanup_policy="compact")
    validate_batch(batch(3, key=b"k"), config, NOW_MS, AppendOrigin.CLIENT)
    with pytest.raises(KafkaError) as refused:
        validate_batch(batch(3), config, NOW_MS, AppendOrigin.CLIENT)
    assert refused.value.code is ErrorCode.INVALID_RECORD


def test_negative_key_length_is_a_null_key_as_in_kafka() -> None:
    validate_batch(with_records(record(b"\0\0\0\x03\x02v\0")), LogConfig(), NOW_MS, AppendOrigin.CLIENT)


def test_timestamp_before_the_limit_is_refused() -> None:
    config = LogConfig(message_timestamp_before_max_ms=1000)
    validate_batch(batch(timestamp=NOW_MS - 1000), config, NOW_MS, AppendOrigin.CLIENT)
    with pytest.raises(KafkaError) as refused:
        validate_batch(batch(timestamp=NOW_MS - 1001), config, NOW_MS, AppendOrigin.CLIENT)
    assert refused.value.code is ErrorCode.INVALID_TIMESTAMP


def test_size_limit_counts_the_whole_batch() -> None:
    data = batch(value=bytes(1000))
    validate_batch(data, LogConfig(max_message_bytes=len(data)), NOW_MS, AppendOrigin.CLIENT)
    with pytest.raises(KafkaError):
        validate_batch(data, LogConfig(max_message_bytes=len(data) - 1), NOW_MS, AppendOrigin.CLIENT)


def test_every_flipped_bit_below_the_checksum_is_found() -> None:
    data = bytearray(batch(2, timestamp=NOW_MS))
    for at in range(21, len(data)):
        data[at] ^= 0x04
        with pytest.raises(KafkaError):
            validate_batch(memoryview(bytes(data)), LogConfig(), NOW_MS, AppendOrigin.CLIENT)
        data[at] ^= 0x04
    assert pack(">q", 0) == data[:8]
