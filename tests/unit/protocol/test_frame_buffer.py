"""Receiving frames into the memory that they are read from."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.frame_buffer import FrameBuffer
from tests.support.requests.feeding import written

KB = 1 << 10
SIZES = st.lists(st.sampled_from([1, 40, 60 * KB, 64 * KB - 4, 64 * KB - 3, 100 * KB, 3_000 * KB]), max_size=5)


def framed(*bodies: bytes) -> bytes:
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


def feed(buffer: FrameBuffer, data: bytes) -> list[memoryview]:
    return [frame for count in written(buffer.room, data) for frame in buffer.add(count)]


@given(SIZES, st.lists(st.integers(0, 4_000 * KB), max_size=8))
def test_any_way_of_cutting_the_stream_gives_the_same_frames(sizes: list[int], cuts: list[int]) -> None:
    bodies = [bytes((index + 1,)) * size for index, size in enumerate(sizes)]
    stream = framed(*bodies)
    buffer = FrameBuffer(1 << 30)
    found = []
    for cut in [*cuts, len(stream)]:
        found += feed(buffer, stream[:cut])
        stream = stream[cut:]
    # All are kept: none may share memory with a later one.
    assert found == bodies
    assert all(frame.readonly for frame in found)


def test_memory_is_used_again_once_no_view_of_it_is_left() -> None:
    buffer = FrameBuffer(1 << 30)
    (first,) = feed(buffer, framed(bytes(1_000 * KB)))
    kept = first[:10]
    memory = first.obj
    del first
    (second,) = feed(buffer, framed(b"2" * (1_000 * KB)))
    assert second.obj is not memory
    assert kept == bytes(10)
    del kept
    (third,) = feed(buffer, framed(b"3" * (900 * KB)))
    assert third.obj is memory
    assert third == b"3" * (900 * KB)
    assert second == b"2" * (1_000 * KB)


def test_a_frame_keeps_no_more_than_twice_its_size() -> None:
    buffer = FrameBuffer(1 << 30)
    feed(buffer, framed(bytes(1_000 * KB)))
    (frame,) = feed(buffer, framed(bytes(200 * KB)))
    assert len(frame.obj) < 400 * KB  # type: ignore[arg-type]
    (small,) = feed(buffer, framed(bytes(10)))
    assert len(small.obj) == 10  # type: ignore[arg-type]


def test_memory_is_kept_of_few_frames_only() -> None:
    tracemalloc.start()
    try:
        buffer = FrameBuffer(1 << 30)
        for _ in range(3):
            frames = [frame for _ in range(10) for frame in feed(buffer, framed(bytes(1_000 * KB)))]
        del frames
        assert tracemalloc.get_traced_memory()[0] < 3_500 * KB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("length", [0, -1, -(2**31), 101, 2**31 - 1])
def test_a_length_that_is_not_allowed_is_refused_as_soon_as_it_is_known(length: int) -> None:
    buffer = FrameBuffer(100)
    head = length.to_bytes(4, "big", signed=True)
    assert feed(buffer, head[:3]) == []
    with pytest.raises(ProtocolError, match="is announced"):
        feed(buffer, head[3:])


def test_a_length_that_is_not_allowed_takes_away_no_frame_before_it() -> None:
    buffer = FrameBuffer(100)
    assert feed(buffer, framed(b"one", b"two") + bytes(8)) == [b"one", b"two"]
    with pytest.raises(ProtocolError, match="a frame of 0 bytes"):
        feed(buffer, framed(b"more"))


def test_an_announced_length_allocates_little_by_itself() -> None:
    tracemalloc.start()
    try:
        feed(FrameBuffer(1 << 30), (1 << 30).to_bytes(4, "big") + b"x")
        assert tracemalloc.get_traced_memory()[1] < 2_500 * KB
    finally:
        tracemalloc.stop()


def test_a_large_frame_is_asked_for_to_its_end_and_no_further() -> None:
    buffer = FrameBuffer(1 << 30)
    feed(buffer, framed(bytes(1_000 * KB))[: 10 * KB])
    assert len(buffer.room()) == 990 * KB + 4
