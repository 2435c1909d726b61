"""The codecs of record batches, and how much a hostile batch may cost."""

import gzip
import tracemalloc
from contextlib import suppress

import pytest
from cramjam import snappy
from hypothesis import given
from hypothesis import strategies as st

from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.records.compression import CODECS, compress, decompress

COMPRESSING = sorted(set(CODECS) - {"none"})
EVERY_CODEC = pytest.mark.parametrize("codec", [CODECS[name] for name in COMPRESSING], ids=COMPRESSING)


@EVERY_CODEC
def test_bodies_come_back_as_they_went_in(codec: int) -> None:
    @given(st.binary(max_size=300), st.integers(0, 400))
    def check(block: bytes, times: int) -> None:
        body = block * times
        assert decompress(codec, compress(codec, body)) == body

    check()


@EVERY_CODEC
def test_a_bomb_is_refused_at_the_limit(codec: int) -> None:
    bomb = compress(codec, bytes(1_000_000))
    assert len(decompress(codec, bomb, 1_000_000)) == 1_000_000
    with pytest.raises(ProtocolError, match="more than 999999"):
        decompress(codec, bomb, 999_999)


@EVERY_CODEC
def test_a_generous_limit_allocates_nothing_by_itself(codec: int) -> None:
    packed = compress(codec, b"x" * 1_000)
    decompress(codec, packed)  # the library is imported
    tracemalloc.start()
    try:
        decompress(codec, packed, 1 << 30)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


def test_a_snappy_block_that_claims_more_than_snappy_can_is_refused_unread() -> None:
    claim = b"\xff\xff\xff\x3f" + bytes(20)  # 128 MB out of 20 bytes
    with pytest.raises(ProtocolError, match="claims to become 134217727"):
        decompress(CODECS["snappy"], claim)


@EVERY_CODEC
def test_anything_else_is_refused_as_a_protocol_error(codec: int) -> None:
    @given(st.binary(max_size=64), st.booleans(), st.integers(0, 40))
    def check(data: bytes, damaged: bool, at: int) -> None:
        if damaged:
            whole = bytearray(compress(codec, b"some text of a record " * 5))
            whole[at % len(whole)] ^= 0xFF
            data = bytes(whole)
        with suppress(ProtocolError):  # and nothing else
            decompress(codec, data, 10_000)

    check()


def test_the_snappy_that_librdkafka_writes_has_no_framing() -> None:
    assert decompress(CODECS["snappy"], bytes(snappy.compress_raw(b"x" * 1000))) == b"x" * 1000


def test_snappy_is_framed_as_java_frames_it() -> None:
    body = bytes(70_000)
    framed = compress(CODECS["snappy"], body)
    assert framed[:16] == b"\x82SNAPPY\x00" + bytes((0, 0, 0, 1)) * 2
    assert decompress(CODECS["snappy"], framed) == body


def test_lz4_blocks_do_not_lean_on_each_other() -> None:
    # Bit 5 of the frame's flags; Java's reader refuses frames without it.
    assert compress(CODECS["lz4"], bytes(range(256)) * 4_000)[4] & 0x20


def test_gzip_is_a_gzip_member() -> None:
    assert gzip.decompress(compress(CODECS["gzip"], b"text")) == b"text"


@pytest.mark.parametrize("codec", [0, 5, 7, -1])
def test_unknown_codecs_are_refused(codec: int) -> None:
    with pytest.raises(ProtocolError):
        decompress(codec, b"")
    with pytest.raises(ValueError, match="unknown compression codec"):
        compress(codec, b"")
