"""Record batches, good and bad: counts and lengths that lie, codecs that are not what they say, bombs."""

import struct
from functools import cache
from random import Random

from oncelog.protocol.records.batch import assemble_batch, encode_batch
from oncelog.protocol.records.compression import CODECS, compress
from oncelog.protocol.records.record import Record, encode_records, zigzag
from tests.support.requests.frame_shapes import COMPRESSING, batch_of, framed, shapes

NOW_MS = 1_700_000_000_000
_INT_EXTREMES = (-(1 << 31), -2, -1, 0, 1, 1 << 16, (1 << 31) - 1)
_LONG_EXTREMES = (-(1 << 63), -2, -1, 0, 1, 1 << 40, (1 << 63) - 1)
_BOMB_BYTES = 4_000_000


def good_batch(
    source: Random, producer: tuple[int, int, int] = (-1, -1, -1), transactional: bool = False, text: bytes = b"value"
) -> bytes:
    count = source.choice((1, 1, 2, 5, 30))
    records = [Record(i, NOW_MS + i, source.choice((None, b"key", b"")), text, ()) for i in range(count)]
    if source.random() < 0.1:
        records[0] = Record(0, NOW_MS, b"k", None, (("header", b"x"), ("", None)))
    producer_id, producer_epoch, base_sequence = producer
    settings: dict[str, int | bool] = {
        "producer_id": producer_id,
        "producer_epoch": producer_epoch,
        "base_sequence": base_sequence,
        "transactional": transactional,
    }
    compression = source.choice(("none", "none", *CODECS))
    if compression != "none" and source.random() < 0.5:
        return framed(compression, records, source, **settings)
    return encode_batch(records, compression=compression, **settings)  # type: ignore[arg-type]


def bad_batch(source: Random) -> bytes:
    return source.choice(
        (
            *(_lying_header, _lying_header, _lying_body, _lying_body, _bomb, _crowd, _flipped, _cut, _twice, _old),
            *(_nothing, _shaped, _many_frames),
        )
    )(source)


def _lying_header(source: Random) -> bytes:
    """Any header field can be anything, under a checksum that holds."""
    body = encode_records([Record(0, NOW_MS, None, b"x")] * 3, NOW_MS)
    codec = source.choice((0, 0, 1, 2, 3, 4))
    values = {
        "attributes": source.choice((codec, codec | 8, codec | 16, codec | 32, codec | 64, 7, -1, 0x7FFF)),
        "record_count": 3,
        "last_offset_delta": 2,
        "base_timestamp": NOW_MS,
        "max_timestamp": NOW_MS,
        "producer_id": source.choice((-1, 0, 1, 2)),
        "producer_epoch": source.choice((-1, 0, 1)),
        "base_sequence": source.choice((-1, 0, 1)),
    }
    lie = source.choice(tuple(values))
    if lie == "producer_epoch":
        values[lie] = source.choice((-32768, -1, 0, 32767))
    elif lie in ("base_timestamp", "max_timestamp", "producer_id"):
        values[lie] = source.choice(_LONG_EXTREMES)
    elif lie != "attributes":
        values[lie] = source.choice(_INT_EXTREMES)
        if lie == "record_count" and source.random() < 0.5:
            values["last_offset_delta"] = max(-(1 << 31), values[lie] - 1)
    return assemble_batch(compress(codec, body) if codec else body, **values)  # type: ignore[arg-type]


def _lying_body(source: Random) -> bytes:
    """Records that are not what their lengths say, or no records at all."""
    body = bytearray(encode_records([Record(i, NOW_MS, b"k", b"v" * 9, (("h", b"1"),)) for i in range(3)], NOW_MS))
    for _ in range(source.choice((1, 1, 3))):
        at = source.randrange(len(body))
        body[at : at + source.choice((0, 1, 4))] = source.choice(
            (b"\xff" * 11, b"\x80" * 11, b"\x00", b"\x01", zigzag(2**31 - 1), zigzag(-(2**63)), zigzag(2**63 - 1))
        )
    codec = source.choice((0, 0, 0, 1, 2, 3, 4))
    packed = compress(codec, bytes(body)) if codec else bytes(body)
    if codec and source.random() < 0.5:
        packed = _damaged(packed, source)
    return _assembled(packed, codec, source.choice((1, 3, 3, 3, 64, 65, 1_000)))


def _shaped(source: Random) -> bytes:
    """Several frames, empty ones, and what follows the last of them."""
    codec = source.choice(COMPRESSING)
    return batch_of(codec, source.choice(tuple(shapes(codec).values())))


@cache
def _empty_frames(codec: str) -> bytes:
    return compress(CODECS[codec], b"") * 500  # less than what is opened in the turn of its append


def _many_frames(source: Random) -> bytes:
    """Frames without a byte in them, before and behind what is there."""
    codec = source.choice(COMPRESSING)
    parts = [_empty_frames(codec) * source.choice((1, 6, 30)), shapes(codec)["one frame"]]
    source.shuffle(parts)
    return batch_of(codec, b"".join(parts))


def _damaged(packed: bytes, source: Random) -> bytes:
    data = bytearray(packed)
    at = source.randrange(len(data))
    data[at : at + source.choice((0, 1, 4, 8))] = source.choice(
        (b"", b"\xff\xff\xff\x7f", b"\x00", source.randbytes(4))
    )
    return bytes(data)


@cache
def _zeros(codec: int, layers: int) -> bytes:
    data = bytes(_BOMB_BYTES)
    for _ in range(layers):
        data = compress(codec, data)
    return data


def _bomb(source: Random) -> bytes:
    """A little that becomes a lot."""
    codec = source.choice((1, 2, 3, 4))
    if source.random() < 0.2:
        # Snappy says how much it becomes: four gigabytes, in a few bytes.
        lie = b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, 6) + b"\xff\xff\xff\xff\x0f\x00"
        return _assembled(lie, 2, 1)
    return _assembled(_zeros(codec, source.choice((1, 1, 2))), codec, source.choice((1, 100, 2**31 - 1)))


@cache
def _small_records(codec: int, count: int, timestamp_delta: int) -> bytes:
    record = b"\x00" + zigzag(timestamp_delta) + zigzag(0) + zigzag(-1) + zigzag(-1) + zigzag(0)
    return compress(codec, (zigzag(len(record)) + record) * count)


def _crowd(source: Random) -> bytes:
    """Very many records in very few bytes, perhaps each of them at fault."""
    codec, count = source.choice((1, 3, 4)), source.choice((1_000, 20_000, 600_000))
    timestamp = source.choice((NOW_MS, NOW_MS * 4, 0))
    return assemble_batch(
        _small_records(codec, count, source.choice((0, -(1 << 50)))),
        attributes=codec,
        record_count=count,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
    )


def _flipped(source: Random) -> bytes:
    data = bytearray(good_batch(source))
    data[source.randrange(len(data))] ^= 1 << source.randrange(8)
    return bytes(data)


def _cut(source: Random) -> bytes:
    data = good_batch(source)
    return data[: source.randrange(len(data))]


def _twice(source: Random) -> bytes:
    return good_batch(source) + good_batch(source)[: source.choice((1, 12, 61, 1000))]


def _old(source: Random) -> bytes:
    """Magic 0 and 1, and what was never a magic."""
    data = bytearray(good_batch(source))
    data[16] = source.choice((0, 1, 3, 255))
    data[8:12] = source.choice(_INT_EXTREMES).to_bytes(4, "big", signed=True)
    return bytes(data)


def _nothing(source: Random) -> bytes:
    return source.randbytes(source.choice((0, 0, 1, 16, 17, 60, 61, 62, 200)))


def _assembled(body: bytes, codec: int, count: int) -> bytes:
    return assemble_batch(body, attributes=codec, record_count=count, base_timestamp=NOW_MS, max_timestamp=NOW_MS)
