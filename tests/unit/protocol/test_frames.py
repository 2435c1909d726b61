"""Cutting a byte stream into frames."""

import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.frames import FrameReader

BODIES = st.lists(st.binary(min_size=1, max_size=40), max_size=8)


def framed(*bodies: bytes) -> bytes:
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


@given(BODIES, st.lists(st.integers(0, 400), max_size=12))
def test_any_way_of_cutting_the_stream_gives_the_same_frames(bodies: list[bytes], cuts: list[int]) -> None:
    stream = framed(*bodies)
    reader = FrameReader(100)
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    found = [bytes(frame) for start, end in pairwise(edges) for frame in reader.feed(stream[start:end])]
    assert found == bodies
    assert len(reader.partial) == 0


@given(BODIES, st.integers(1, 43))
def test_only_the_unfinished_frame_is_kept(bodies: list[bytes], missing: int) -> None:
    last = bytes(40)
    reader = FrameReader(100)
    assert [bytes(frame) for frame in reader.feed(framed(*bodies, last)[:-missing])] == bodies
    assert len(reader.partial) == 44 - missing
    assert [bytes(frame) for frame in reader.feed(framed(last)[44 - missing :])] == [last]


def test_a_frame_that_lies_whole_in_the_data_is_not_copied() -> None:
    data = framed(b"one", b"two")
    frames = FrameReader(100).feed(data)
    assert [frame.obj is data for frame in frames] == [True, True]


def test_frames_stay_as_they_were_when_more_data_comes() -> None:
    reader = FrameReader(100)
    reader.feed(framed(b"first")[:6])
    (first,) = reader.feed(framed(b"first")[6:] + framed(b"second")[:5])
    reader.feed(framed(b"second")[5:])
    assert bytes(first) == b"first"
    assert first.readonly


@pytest.mark.parametrize("length", [0, -1, -(2**31), 101, 2**31 - 1])
@pytest.mark.parametrize("step", [1, 2, 4])
def test_a_length_that_is_not_allowed_is_refused_as_soon_as_it_is_known(length: int, step: int) -> None:
    reader = FrameReader(100)
    head = length.to_bytes(4, "big", signed=True)
    for start in range(0, 4 - step, step):
        assert reader.feed(head[start : start + step]) == []
    with pytest.raises(ProtocolError):
        reader.feed(head[4 - step :])


def test_an_announced_length_allocates_nothing_by_itself() -> None:
    limit = 100 * 1024 * 1024
    tracemalloc.start()
    try:
        reader = FrameReader(limit)
        reader.feed(limit.to_bytes(4, "big") + b"x")
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@given(BODIES, st.sampled_from([0, -1, 101]), st.integers(0, 400))
def test_a_length_that_is_not_allowed_takes_away_no_frame_before_it(bodies: list[bytes], length: int, cut: int) -> None:
    stream = framed(*bodies) + length.to_bytes(4, "big", signed=True) + b"never read"
    reader = FrameReader(100)
    found = []
    for data in (stream[:cut], stream[cut:]):
        try:
            found += [bytes(frame) for frame in reader.feed(data)]
        except ProtocolError:
            break
    assert found == bodies
    assert reader.error is not None
    with pytest.raises(ProtocolError):
        reader.feed(framed(b"more"))


def test_a_client_that_begins_with_tls_is_recognised() -> None:
    with pytest.raises(ProtocolError, match="this is how TLS begins"):
        FrameReader(100).feed(b"\x16\x03\x01\x02\x00\x01")
