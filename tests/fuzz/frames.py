"""Frames that no client should send: a request's bytes with lies in the right places, and streams cut anywhere."""

from itertools import pairwise
from random import Random
from typing import Any

from oncelog.broker.apis.descriptor import Api
from oncelog.protocol.headers import encode_request_header
from oncelog.protocol.message import varint
from tests.fuzz.layout import Segment, segments
from tests.fuzz.requests import request_schema
from tests.support.requests.hostile import HOSTILE

_NUMBERS = (b"\x00", b"\x01", b"\x7f", b"\x80", b"\xff", b"\xff\xff", b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00")
_VARINTS = (0, 1, 2, 127, 128, 300, 16_384, 1 << 21, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, (1 << 35) - 1)
_BAD_UTF8 = (b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf5", b"\x80")
_CLIENT_IDS = ("fuzz", "fuzz", "fuzz", None, "", "ü" * 100, "x" * 30_000, *HOSTILE.values())


def request_frame(api: Api, version: int, message: Any, correlation_id: int, source: Random, spoilt: float) -> bytes:
    """A frame without its length: good, or (with the probability `spoilt`) spoilt in one of many ways."""
    schema = request_schema(api)
    pieces = segments(schema, version, message)
    flexible = schema.is_flexible(version)
    client_id = source.choice(_CLIENT_IDS) if source.random() < 0.1 else "fuzz"
    header = encode_request_header(api.key, version, correlation_id, client_id, flexible)
    if source.random() >= spoilt:
        return header + _join(pieces)
    if flexible and source.random() < 0.1:
        header = header[:-1] + _tags(source)
    for _ in range(source.choice((1, 1, 1, 2, 3))):
        spoil_pieces(pieces, source)
    frame = header + _join(pieces)
    return _spoil_bytes(frame, source) if source.random() < 0.3 else frame


def _join(pieces: list[Segment]) -> bytes:
    return b"".join([piece.data for piece in pieces])


def spoil_pieces(pieces: list[Segment], source: Random) -> None:
    if not pieces:
        return
    lengths = [index for index, piece in enumerate(pieces) if piece.kind in ("length", "compact", "tags", "marker")]
    at = source.choice(lengths) if lengths and source.random() < 0.6 else source.randrange(len(pieces))
    what = source.random()
    if what < 0.75:
        pieces[at] = Segment(pieces[at].kind, _lie(pieces[at], source))
    elif what < 0.85:
        pieces[at:at] = pieces[at : at + source.choice((1, 2, 5))] * source.choice((1, 1, 3, 200))
    elif what < 0.95:
        del pieces[at : at + source.choice((1, 1, 2, 9))]
    else:
        other = source.randrange(len(pieces))
        pieces[at], pieces[other] = pieces[other], pieces[at]


def _lie(piece: Segment, source: Random) -> bytes:
    data = piece.data
    match piece.kind:
        case "length":
            top = 1 << (len(data) * 8 - 1)
            true = int.from_bytes(data, "big", signed=True)
            lies = (-1, 0, true + 1, true - 1, -2, top - 1, -top, 255, true * 2)
            return max(-top, min(source.choice(lies), top - 1)).to_bytes(len(data), "big", signed=True)
        case "compact":
            return varint(source.choice(_VARINTS)) if source.random() < 0.8 else b"\xff" * source.choice((1, 4, 5, 10))
        case "tags":
            return _tags(source)
        case "text":
            bad = source.choice(_BAD_UTF8)
            return (bad + data)[: len(data)] if source.random() < 0.7 else bytes(len(data))
        case "data":
            return source.randbytes(len(data))
        case "marker" | "bool":
            return bytes((source.choice((0, 1, 2, 127, 128, 255)),))
    top = 1 << (len(data) * 8 - 1)
    number = source.choice((0, 1, -1, -2, top - 1, -top, -top + 1))
    return number.to_bytes(len(data), "big", signed=True)


def _tags(source: Random) -> bytes:
    """A section of tagged fields: known and unknown, in any order, twice, with any content, or fewer than announced."""
    count = source.choice((1, 1, 2, 5, 200))
    section = b""
    for _ in range(count):
        data = source.randbytes(source.choice((0, 1, 2, 16, 17)))
        size = len(data) if source.random() < 0.9 else source.choice(_VARINTS)
        section += varint(source.choice((0, 0, 1, 2, 3, 9, 10_000, (1 << 32) - 1))) + varint(size) + data
    return varint(count if source.random() < 0.9 else source.choice(_VARINTS)) + section


def _spoil_bytes(frame: bytes, source: Random) -> bytes:
    data = bytearray(frame)
    at = source.randrange(len(data))
    match source.randrange(8):
        case 0:
            del data[at:]
        case 1:
            data += source.randbytes(source.choice((1, 4, 100)))
        case 2:
            del data[at : at + source.choice((1, 2, 4, 8))]
        case 3:
            data[at:at] = source.choice(_NUMBERS) * source.choice((1, 1, 5))
        case 4:
            number = source.choice(_NUMBERS)
            data[at : at + len(number)] = number
        case 5:
            data[0:2] = source.randrange(-1, 100).to_bytes(2, "big", signed=True)
        case 6:
            data[2:4] = source.choice((-1, 0, 1, 3, 9, 17, 32_767)).to_bytes(2, "big", signed=True)
        case _:
            data[at] ^= 1 << source.randrange(8)
    return bytes(data)


def stream(frames: list[bytes], source: Random, spoilt: float) -> list[bytes]:
    """Frames as chunks off a socket: whole, glued, cut anywhere; and at times a length that lies."""
    data = b""
    for frame in frames:
        length = len(frame)
        if source.random() < spoilt / 20:
            length = source.choice((0, -1, -(1 << 31), (1 << 31) - 1, 104_857_600, length + 5, max(1, length - 5)))
        data += length.to_bytes(4, "big", signed=True) + frame
    how = source.random()
    if how < 0.7:
        return [data]
    if how < 0.8 and len(data) < 300:
        return [data[at : at + 1] for at in range(len(data))]
    cuts = sorted({0, len(data), *(source.randrange(len(data)) for _ in range(source.choice((1, 2, 7))))})
    return [data[start:end] for start, end in pairwise(cuts)]
