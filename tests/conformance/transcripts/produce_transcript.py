"""Batches, good and bad, that any Kafka-compatible broker can be asked to append: each has a name.

Owns: the bytes, and which part of an answer counts: the code, the base offset, the records that are named as bad.
"""

import gzip
from collections.abc import Iterator
from struct import pack_into
from typing import Any, Protocol

from crc32c import crc32c

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from oncelog.protocol.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic
from oncelog.protocol.generated.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.protocol.message import Message
from oncelog.protocol.records.batch import assemble_batch, encode_batch, iter_batches
from oncelog.protocol.records.record import Record

Told = Iterator[tuple[str, Any]]

NOW_MS = 1_700_000_000_000
YEAR_9999_MS = 253_370_764_800_000
BOMB_BYTES = 100_000_000


class Broker(Protocol):
    def ask(self, request: Message, version: int) -> Any: ...

    def let_pass(self, delay_ms: int) -> None: ...


def conversation(broker: Broker) -> Told:
    """Every question and its answer; `broker` must be fresh."""
    for part in (framing, counts, records, compression, topics, requests):
        for name, answer in part(broker):
            yield f"{part.__name__}: {name}", answer


def create(broker: Broker, name: str, **config: str) -> str:
    settings = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in config.items()]
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=settings)
    answer = broker.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5)
    if answer.topics[0].error_code:
        raise AssertionError(answer.topics[0])
    while ErrorCode(_partition(broker, name, batch()).error_code).retriable:
        broker.let_pass(100)
    return name


def _partition(
    broker: Broker, topic: str, data: bytes | None, *, index: int = 0, acks: int = -1, version: int = 8
) -> Any:
    partition = PartitionProduceData(index=index, records=None if data is None else memoryview(data))
    request = ProduceRequest(
        acks=acks, timeout_ms=10_000, topic_data=[TopicProduceData(name=topic, partition_data=[partition])]
    )
    return broker.ask(request, version).responses[0].partition_responses[0]


def produce(broker: Broker, topic: str, data: bytes, **more: Any) -> tuple[Any, ...]:
    answer = _partition(broker, topic, data, **more)
    bad = [error.batch_index for error in answer.record_errors]
    return ErrorCode(answer.error_code).name, answer.base_offset, bad


# --- batches ----------------------------------------------------------------------------------------------------------


def batch(count: int = 1, *, key: bytes | None = None, value: bytes = b"value", **settings: Any) -> bytes:
    timestamp = settings.pop("timestamp", NOW_MS)
    return encode_batch([Record(slot, timestamp, key, value) for slot in range(count)], **settings)


def sealed(data: bytes | bytearray) -> bytes:
    data = bytearray(data)
    pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    return bytes(data)


def patched(at: int, layout: str, value: int, count: int = 1) -> bytes:
    data = bytearray(batch(count))
    pack_into(layout, data, at, value)
    return sealed(data)


def of_body(body: bytes, count: int = 1, attributes: int = 0) -> bytes:
    return assemble_batch(body, attributes=attributes, record_count=count, base_timestamp=NOW_MS, max_timestamp=NOW_MS)


def record(body: bytes) -> bytes:
    """A record with its length before it; only for lengths below 64."""
    return bytes([len(body) * 2]) + body


def plain(offset_delta: int = 0) -> bytes:
    return record(b"\0\0" + bytes([offset_delta * 2]) + b"\x01\x02v\0")


def bomb() -> bytes:
    value = bytes(BOMB_BYTES)
    fields = b"\0\0\0\x01" + _varint(len(value)) + value + b"\0"
    return of_body(gzip.compress(_varint(len(fields)) + fields, 9), attributes=1)


def _varint(value: int) -> bytes:
    value <<= 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


# --- the questions ----------------------------------------------------------------------------------------------------


def framing(broker: Broker) -> Told:
    topic = create(broker, "framing")
    yield "good", produce(broker, topic, batch())
    yield "a flipped checksum", produce(broker, topic, batch()[:-1] + b"?")
    for magic in (0, 1, 3, -1):
        yield f"magic {magic}", produce(broker, topic, patched(16, ">b", magic))
    for length in (10, -1, 4000, 2**31 - 1):
        yield f"batch length {length}", produce(broker, topic, patched(8, ">i", length))
    yield "two batches", produce(broker, topic, batch() * 2)
    yield (
        "two batches of a producer",
        produce(broker, topic, batch(producer_id=7, producer_epoch=0, base_sequence=0) * 2),
    )
    yield "half a batch", produce(broker, topic, batch()[:40])
    yield "no bytes", produce(broker, topic, b"")
    yield "garbage", produce(broker, topic, b"\xff" * 100)
    yield "a base offset", produce(broker, topic, patched(0, ">q", 5))
    yield "good still", produce(broker, topic, batch())


def counts(broker: Broker) -> Told:
    topic = create(broker, "counts")
    yield "5 announced, 1 there", produce(broker, topic, patched(57, ">i", 5))
    yield "5 announced twice, 1 there", produce(broker, topic, of_body(plain(), 5))
    yield "1 announced, 2 there", produce(broker, topic, of_body(plain() + plain(1), 1))
    yield "last offset delta 9", produce(broker, topic, patched(23, ">i", 9))
    yield "none", produce(broker, topic, of_body(b"", 0))
    yield "offset deltas 0, 0", produce(broker, topic, of_body(plain() + plain(), 2))
    yield "100 announced, 99 there", produce(broker, topic, of_body(b"".join(map(plain, [1] * 99)), 100))


def records(broker: Broker) -> Told:
    topic = create(broker, "records")
    yield "a length of 2^31-1", produce(broker, topic, of_body(b"\xfe\xff\xff\xff\x0f" + plain()))
    yield "a length that never ends", produce(broker, topic, of_body(b"\xff" * 10 + plain()))
    yield "a key length of -2", produce(broker, topic, of_body(record(b"\0\0\0\x03\x02v\0")))
    yield "2^30 headers", produce(broker, topic, of_body(record(b"\0\0\0\x01\x02v\x80\x80\x80\x80\x08")))
    yield "-1 headers", produce(broker, topic, of_body(record(b"\0\0\0\x01\x02v\x01")))
    yield "a header without a key", produce(broker, topic, of_body(record(b"\0\0\0\x01\x02v\x02\x01\x01")))
    yield "a value past its record", produce(broker, topic, of_body(record(b"\0\0\0\x01\x20v\0")))
    yield "a second record that is bad", produce(broker, topic, of_body(plain() + record(b"\0\0\x02\x01\x7fv\0"), 2))
    yield (
        "a hundredth record that is bad",
        produce(broker, topic, of_body(plain() * 99 + record(b"\0\0\x02\x01\x7fv\0"), 100)),
    )
    yield "a control batch", produce(broker, topic, patched(21, ">h", 0x30))
    yield "a transactional batch without a producer", produce(broker, topic, patched(21, ">h", 0x10))
    yield "a producer without a sequence", produce(broker, topic, patched(43, ">q", 7))
    yield "the broker's timestamp type", produce(broker, topic, patched(21, ">h", 0x08))
    yield "the year 9999", produce(broker, topic, batch(timestamp=YEAR_9999_MS))
    yield "2 MB", produce(broker, topic, batch(value=bytes(2_000_000)))


def compression(broker: Broker) -> Told:
    topic = create(broker, "compression")
    yield "undefined", produce(broker, topic, patched(21, ">h", 7))
    for name in ("gzip", "snappy", "lz4", "zstd"):
        yield name, produce(broker, topic, batch(3, compression=name))
        codec = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}[name]
        yield f"{name} without {name}", produce(broker, topic, of_body(plain(), attributes=codec))
        whole = batch(3, compression=name)[61:]
        yield f"half of {name}", produce(broker, topic, of_body(whole[: len(whole) // 2], 3, attributes=codec))
        yield f"a wrong count in {name}", produce(broker, topic, of_body(whole, 4, attributes=codec))
    yield "zstd before version 7", produce(broker, topic, batch(compression="zstd"), version=6)
    yield "100 MB in 100 kB", produce(broker, topic, bomb())


def topics(broker: Broker) -> Told:
    compacted = "compacted"
    settings = [CreatableTopicConfig(name="cleanup.policy", value="compact")]
    topic = CreatableTopic(name=compacted, num_partitions=1, replication_factor=1, configs=settings)
    broker.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5)
    while ErrorCode(_partition(broker, compacted, batch(key=b"k")).error_code).retriable:
        broker.let_pass(100)
    mixed = [Record(0, NOW_MS, b"k", b"v"), Record(1, NOW_MS, None, b"v"), Record(2, NOW_MS, None, None)]
    yield "compacted, with keys", produce(broker, compacted, batch(2, key=b"k"))
    for codec in ("none", "gzip"):
        yield (
            f"compacted, two without a key, {codec}",
            produce(broker, compacted, encode_batch(mixed, compression=codec)),
        )
    for wanted in ("uncompressed", "gzip", "zstd", "producer"):
        name = create(broker, f"in-{wanted}", compression_type=wanted)
        for codec in ("none", "gzip", "lz4"):
            produce(broker, name, batch(50, compression=codec, producer_id=9, producer_epoch=1, base_sequence=0))
            produce(broker, name, batch(2, compression=codec))
        yield f"compression.type={wanted}", stored(broker, name)
    name = create(broker, "stamped", message_timestamp_type="LogAppendTime")
    answer = _partition(broker, name, batch(timestamp=YEAR_9999_MS))
    yield "LogAppendTime", (ErrorCode(answer.error_code).name, answer.log_append_time_ms >= NOW_MS)
    name = create(broker, "fresh", message_timestamp_before_max_ms="9223372036854775807")
    yield "no timestamp at all", produce(broker, name, batch(timestamp=-1))
    name = create(broker, "small", segment_bytes="1048576", max_message_bytes="3000000")
    yield "larger than a segment", produce(broker, name, batch(value=bytes(2_000_000)))


def stored(broker: Broker, topic: str) -> list[tuple[int, ...]]:
    """Codec, producer, epoch, sequence, count and last offset of each batch in the log but the first."""
    partition = FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=1_000_000)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1_000_000,
        isolation_level=0,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
    )
    data = broker.ask(request, 10).responses[0].partitions[0].records
    return [
        (
            header.compression_type,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.record_count,
            header.last_offset,
        )
        for header, _ in iter_batches(memoryview(data))
    ]


def requests(broker: Broker) -> Told:
    topic = create(broker, "requests")
    for acks in (-1, 1, 2, -2, 0x7FFF):
        yield f"acks {acks}", produce(broker, topic, batch(), acks=acks)
    for index in (77, -1):
        yield f"partition {index}", produce(broker, topic, batch(), index=index)
    for name in ("../../etc", "x" * 300, "", "nowhere", "__transaction_state", "__consumer_offsets"):
        yield f"topic {name[:20]!r}", produce(broker, name, batch())
    for version in (3, 4, 5, 6, 7, 8):
        yield f"version {version}", produce(broker, topic, batch(), version=version)
    yield (
        "idempotent and acks 1",
        produce(broker, topic, batch(producer_id=11, producer_epoch=0, base_sequence=0), acks=1),
    )


_EXCEPTION = "Kafka meets an exception of its own (UNKNOWN_SERVER_ERROR), we answer the code that fits"

# Where we answer otherwise on purpose, and why.
DIFFERENCES: dict[str, tuple[str, object]] = {
    "compression: undefined": (_EXCEPTION, ("UNSUPPORTED_COMPRESSION_TYPE", -1, [])),
    **{
        name: (_EXCEPTION, ("INVALID_RECORD", -1, []))
        for name in (
            "framing: batch length 2147483647",
            "records: a length that never ends",
            *(f"compression: {codec} without {codec}" for codec in ("gzip", "snappy", "lz4", "zstd")),
            *(f"compression: half of {codec}" for codec in ("gzip", "snappy", "lz4", "zstd")),
        )
    },
}
