"""Batches, good and bad, that any Kafka-compatible broker can be asked to append: each has a name.

Owns: the bytes, and which part of an answer counts: the code, the base offset, the records that are named as bad.
"""

import gzip
from struct import pack_into
from typing import Any

from crc32c import crc32c

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.records.batch import assemble_batch, encode_batch, iter_batches
from oncelog.protocol.records.record import Record
from tests.clients.asking import Asker, Broker, Told, name, parts_of, settings
from tests.clients.asking import counts as counted

NOW_MS = 1_700_000_000_000
YEAR_9999_MS = 253_370_764_800_000
BOMB_BYTES = 100_000_000


def conversation(broker: Broker) -> Told:
    """Every question and its answer; `broker` must be fresh."""
    yield from parts_of(ProduceTalk(broker), framing, counts, records, compression, topics, requests)


class ProduceTalk(Asker):
    def made(self, topic: str, first: bytes | None = None, **config: str) -> str:
        """A topic of one partition that has taken a batch."""
        made = {"name": topic, "num_partitions": 1, "replication_factor": 1, "configs": settings(config)}
        error = self.ask("CreateTopics", 5, "topics.0.error_code", topics=[made], timeout_ms=10_000)
        assert error == "NONE", error
        while ErrorCode(self.answer(topic, first or batch()).error_code).retriable:
            self.broker.let_pass(100)
        return topic

    def answer(self, topic: str, data: bytes | None, *, index: int = 0, acks: int = -1, version: int = 8) -> Any:
        """The whole of a partition's answer."""
        topics = [{"name": topic, "partition_data": [{"index": index, "records": data}]}]
        shape = "responses.0.partition_responses.0"
        return self.ask("Produce", version, shape, acks=acks, timeout_ms=10_000, topic_data=topics)

    def produce(self, topic: str, data: bytes, **more: Any) -> tuple[Any, ...]:
        answer: tuple[Any, ...] = counted(
            self.answer(topic, data, **more), "error_code base_offset record_errors.batch_index"
        )
        return answer

    def read(self, topic: str, offset: int) -> Any:
        """The batches in the log from an offset on."""
        wanted = [{"topic": topic, "partitions": [_everything_from(offset)]}]
        limits = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1_000_000, "isolation_level": 0}
        return iter_batches(
            memoryview(self.ask("Fetch", 10, "responses.0.partitions.0.records", **limits, topics=wanted))
        )


def _everything_from(offset: int) -> dict[str, int]:
    return {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1_000_000}


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


def framing(talk: ProduceTalk) -> Told:
    topic = talk.made("framing")
    yield "good", talk.produce(topic, batch())
    yield "a flipped checksum", talk.produce(topic, batch()[:-1] + b"?")
    for magic in (0, 1, 3, -1):
        yield f"magic {magic}", talk.produce(topic, patched(16, ">b", magic))
    for length in (10, -1, 4000, 2**31 - 1):
        yield f"batch length {length}", talk.produce(topic, patched(8, ">i", length))
    yield "two batches", talk.produce(topic, batch() * 2)
    answer = talk.produce(topic, batch(producer_id=7, producer_epoch=0, base_sequence=0) * 2)
    yield "two batches of a producer", answer
    yield "half a batch", talk.produce(topic, batch()[:40])
    yield "no bytes", talk.produce(topic, b"")
    yield "garbage", talk.produce(topic, b"\xff" * 100)
    yield "a base offset", talk.produce(topic, patched(0, ">q", 5))
    yield "good still", talk.produce(topic, batch())


def counts(talk: ProduceTalk) -> Told:
    topic = talk.made("counts")
    yield "5 announced, 1 there", talk.produce(topic, patched(57, ">i", 5))
    yield "5 announced twice, 1 there", talk.produce(topic, of_body(plain(), 5))
    yield "1 announced, 2 there", talk.produce(topic, of_body(plain() + plain(1), 1))
    yield "last offset delta 9", talk.produce(topic, patched(23, ">i", 9))
    yield "none", talk.produce(topic, of_body(b"", 0))
    yield "offset deltas 0, 0", talk.produce(topic, of_body(plain() + plain(), 2))
    yield "100 announced, 99 there", talk.produce(topic, of_body(b"".join(map(plain, [1] * 99)), 100))


def records(talk: ProduceTalk) -> Told:
    topic = talk.made("records")
    yield "a length of 2^31-1", talk.produce(topic, of_body(b"\xfe\xff\xff\xff\x0f" + plain()))
    yield "a length that never ends", talk.produce(topic, of_body(b"\xff" * 10 + plain()))
    yield "a key length of -2", talk.produce(topic, of_body(record(b"\0\0\0\x03\x02v\0")))
    yield "2^30 headers", talk.produce(topic, of_body(record(b"\0\0\0\x01\x02v\x80\x80\x80\x80\x08")))
    yield "-1 headers", talk.produce(topic, of_body(record(b"\0\0\0\x01\x02v\x01")))
    yield "a header without a key", talk.produce(topic, of_body(record(b"\0\0\0\x01\x02v\x02\x01\x01")))
    yield "a value past its record", talk.produce(topic, of_body(record(b"\0\0\0\x01\x20v\0")))
    yield "a second record that is bad", talk.produce(topic, of_body(plain() + record(b"\0\0\x02\x01\x7fv\0"), 2))
    answer = talk.produce(topic, of_body(plain() * 99 + record(b"\0\0\x02\x01\x7fv\0"), 100))
    yield "a hundredth record that is bad", answer
    yield "a control batch", talk.produce(topic, patched(21, ">h", 0x30))
    yield "a transactional batch without a producer", talk.produce(topic, patched(21, ">h", 0x10))
    yield "a producer without a sequence", talk.produce(topic, patched(43, ">q", 7))
    yield "the broker's timestamp type", talk.produce(topic, patched(21, ">h", 0x08))
    yield "the year 9999", talk.produce(topic, batch(timestamp=YEAR_9999_MS))
    yield "2 MB", talk.produce(topic, batch(value=bytes(2_000_000)))


def compression(talk: ProduceTalk) -> Told:
    topic = talk.made("compression")
    yield "undefined", talk.produce(topic, patched(21, ">h", 7))
    for kind in ("gzip", "snappy", "lz4", "zstd"):
        yield kind, talk.produce(topic, batch(3, compression=kind))
        codec = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}[kind]
        yield f"{kind} without {kind}", talk.produce(topic, of_body(plain(), attributes=codec))
        whole = batch(3, compression=kind)[61:]
        yield f"half of {kind}", talk.produce(topic, of_body(whole[: len(whole) // 2], 3, attributes=codec))
        yield f"a wrong count in {kind}", talk.produce(topic, of_body(whole, 4, attributes=codec))
    yield "zstd before version 7", talk.produce(topic, batch(compression="zstd"), version=6)
    yield "100 MB in 100 kB", talk.produce(topic, bomb())


def topics(talk: ProduceTalk) -> Told:
    compacted = talk.made("compacted", batch(key=b"k"), cleanup_policy="compact")
    mixed = [Record(0, NOW_MS, b"k", b"v"), Record(1, NOW_MS, None, b"v"), Record(2, NOW_MS, None, None)]
    yield "compacted, with keys", talk.produce(compacted, batch(2, key=b"k"))
    for codec in ("none", "gzip"):
        told = talk.produce(compacted, encode_batch(mixed, compression=codec))
        yield f"compacted, two without a key, {codec}", told
    for wanted in ("uncompressed", "gzip", "zstd", "producer"):
        topic = talk.made(f"in-{wanted}", compression_type=wanted)
        for codec in ("none", "gzip", "lz4"):
            talk.produce(topic, batch(50, compression=codec, producer_id=9, producer_epoch=1, base_sequence=0))
            talk.produce(topic, batch(2, compression=codec))
        yield f"compression.type={wanted}", stored(talk, topic)
    topic = talk.made("stamped", message_timestamp_type="LogAppendTime")
    answer = talk.answer(topic, batch(timestamp=YEAR_9999_MS))
    yield "LogAppendTime", (name(answer.error_code), answer.log_append_time_ms >= NOW_MS)
    topic = talk.made("fresh", message_timestamp_before_max_ms="9223372036854775807")
    yield "no timestamp at all", talk.produce(topic, batch(timestamp=-1))
    topic = talk.made("small", segment_bytes="1048576", max_message_bytes="3000000")
    yield "larger than a segment", talk.produce(topic, batch(value=bytes(2_000_000)))


def stored(talk: ProduceTalk, topic: str) -> list[Any]:
    """Codec, producer, epoch, sequence, count and last offset of each batch in the log but the first."""
    shape = "compression_type producer_id producer_epoch base_sequence record_count last_offset"
    return [counted(header, shape) for header, _ in talk.read(topic, 1)]


def requests(talk: ProduceTalk) -> Told:
    topic = talk.made("requests")
    for acks in (-1, 1, 2, -2, 0x7FFF):
        yield f"acks {acks}", talk.produce(topic, batch(), acks=acks)
    for index in (77, -1):
        yield f"partition {index}", talk.produce(topic, batch(), index=index)
    for other in ("../../etc", "x" * 300, "", "nowhere", "__transaction_state", "__consumer_offsets"):
        yield f"topic {other[:20]!r}", talk.produce(other, batch())
    for version in (3, 4, 5, 6, 7, 8):
        yield f"version {version}", talk.produce(topic, batch(), version=version)
    answer = talk.produce(topic, batch(producer_id=11, producer_epoch=0, base_sequence=0), acks=1)
    yield "idempotent and acks 1", answer


_EXCEPTION = "Kafka meets an exception of its own (UNKNOWN_SERVER_ERROR), we answer the code that fits"

# Where we answer otherwise on purpose, and why.
DIFFERENCES: dict[str, tuple[str, object]] = {
    "compression: undefined": (_EXCEPTION, ("UNSUPPORTED_COMPRESSION_TYPE", -1, [])),
    **{
        question: (_EXCEPTION, ("INVALID_RECORD", -1, []))
        for question in (
            "framing: batch length 2147483647",
            "records: a length that never ends",
            *(f"compression: {codec} without {codec}" for codec in ("gzip", "snappy", "lz4", "zstd")),
            *(f"compression: half of {codec}" for codec in ("gzip", "snappy", "lz4", "zstd")),
        )
    },
}
