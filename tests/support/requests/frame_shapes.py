"""Compressed data of one batch in every shape that a producer may give it: several frames, empty ones, rests.

Owns: the bytes, by codec and name. What Kafka does with each is in `tests/conformance/answers/frames_answers.json`.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import pairwise
from random import Random
from struct import pack
from typing import Any

from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.records.batch import HEADER_SIZE, BatchHeader, assemble_batch, encode_batch, read_header
from oncelog.protocol.records.compression import CODECS, compress
from oncelog.protocol.records.record import Record, decode_records, encode_record, encode_records

COUNT = 40
START_MS = 1_700_000_000_000
RECORDS = tuple(Record(i, START_MS + i, b"key-%d" % i, b"value-%d" % i * 20) for i in range(COUNT))
BODY = encode_records(RECORDS, START_MS)
_AT_A_RECORD = len(encode_records(RECORDS[:20], START_MS))
_INSIDE = len(BODY) // 2
GARBAGE = b"\xaa\xbb\xcc\xdd" * 5
"""Twenty bytes that begin nothing in any of the codecs."""
SKIPPABLE = pack("<II", 0x184D2A50, 5) + b"hello"
COMPRESSING = tuple(sorted(set(CODECS) - {"none"}))
COMPRESSION_NAMES = {number: name for name, number in CODECS.items()}


@cache
def shapes(codec: str) -> dict[str, bytes]:
    """Compressed bodies that are announced as `COUNT` records, by name."""
    return dict(_shapes(codec))


def batch_of(codec: str, data: bytes, start_ms: int = START_MS) -> bytes:
    """A producer's batch of this data; its times begin at `start_ms`."""
    return assemble_batch(
        data,
        attributes=CODECS[codec],
        record_count=COUNT,
        base_timestamp=start_ms,
        max_timestamp=start_ms + COUNT - 1,
    )


def in_frames(codec: str, body: bytes, source: Random) -> bytes:
    """The body in up to four frames, some of them perhaps empty; in one for lz4, of which Kafka reads no more."""
    cuts = [] if codec == "lz4" else sorted(source.choices(range(len(body) + 1), k=source.choice((0, 1, 1, 2, 3))))
    ends = (0, *cuts, len(body))
    return b"".join(compress(CODECS[codec], body[start:end]) for start, end in pairwise(ends))


def framed(codec: str, records: Sequence[Record], source: Random, **settings: int | bool) -> bytes:
    """`encode_batch` with the data in several frames."""
    whole = encode_batch(records, **settings)  # type: ignore[arg-type]
    return _with_body(read_header(whole), in_frames(codec, whole[HEADER_SIZE:], source), codec=CODECS[codec])


def lacking_a_record(batch: bytes | memoryview) -> bytes:
    """The batch, announcing a record more than it has."""
    return _with_body(read_header(batch), bytes(batch[HEADER_SIZE:]), more=1)


def _with_body(header: BatchHeader, body: bytes, *, codec: int = 0, more: int = 0) -> bytes:
    return assemble_batch(
        body,
        attributes=header.attributes | codec,
        record_count=header.record_count + more,
        base_timestamp=header.base_timestamp,
        max_timestamp=header.max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
    )


def contents(batch: bytes | memoryview) -> list[tuple[Any, ...]] | None:
    """The records of a batch without their offsets; None if it cannot be read."""
    try:
        return [each[1:] for each in decode_records(memoryview(batch))]
    except ProtocolError:
        return None


def _shapes(codec: str) -> Iterator[tuple[str, bytes]]:
    frame: Callable[[bytes], bytes] = partial(compress, CODECS[codec])
    whole, nothing = frame(BODY), frame(b"")
    first, second = frame(BODY[:_INSIDE]), frame(BODY[_INSIDE:])
    yield "one frame", whole
    yield "two frames", first + second
    yield "two frames, cut at a record", frame(BODY[:_AT_A_RECORD]) + frame(BODY[_AT_A_RECORD:])
    yield "a frame for each record", b"".join(frame(encode_record(each, i, i)) for i, each in enumerate(RECORDS))
    yield "an empty frame before", nothing + whole
    yield "an empty frame between", first + nothing + second
    yield "an empty frame behind", whole + nothing
    yield "only an empty frame", nothing
    yield "the first of two", first
    yield "the first of two, cut at a record", frame(BODY[:_AT_A_RECORD])
    yield "half of the second", first + second[: len(second) // 2]
    yield "half of another behind", whole + whole[: len(whole) // 2]
    yield "another behind", whole + whole
    yield "a frame of a byte behind", whole + frame(b"\0")
    for name, rest in (("3 bytes of garbage", GARBAGE[:3]), ("garbage", GARBAGE), ("3 zeros", bytes(3))):
        yield f"{name} behind", whole + rest
    yield "20 zeros behind", whole + bytes(20)
    yield "a magic number behind", whole + whole[:4]
    yield "garbage between", first + GARBAGE + second
    yield "zeros between", first + bytes(20) + second
    if codec in ("lz4", "zstd"):
        yield "a skippable frame before", SKIPPABLE + whole
        yield "a skippable frame between", first + SKIPPABLE + second
        yield "a skippable frame behind", whole + SKIPPABLE
        yield "half of a skippable frame behind", whole + SKIPPABLE[:6]
    if codec == "gzip":
        yield "a wrong sum in the second", first + second[:-8] + bytes((second[-8] ^ 1,)) + second[-7:]
    if codec == "snappy":
        yield from _snappy_shapes()


def _snappy_shapes() -> Iterator[tuple[str, bytes]]:
    from cramjam import snappy

    def raw(data: bytes) -> bytes:
        return bytes(snappy.compress_raw(data))

    def block(data: bytes) -> bytes:
        return pack(">i", len(raw(data))) + raw(data)

    header = compress(CODECS["snappy"], b"")
    first, second = block(BODY[:_INSIDE]), block(BODY[_INSIDE:])
    yield "two blocks", header + first + second
    yield "an empty block between", header + first + block(b"") + second
    yield "a block of no bytes between", header + first + pack(">i", 0) + second
    yield "the header twice before", header + header + block(BODY)
    yield "half a header behind", header + block(BODY) + header[:9]
    yield "without framing", raw(BODY)
    yield "without framing, two", raw(BODY[:_INSIDE]) + raw(BODY[_INSIDE:])
    yield "without framing, a zero behind", raw(BODY) + b"\0"
