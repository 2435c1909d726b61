"""Frames: a four-byte length, then that many bytes.

Owns: cutting a byte stream into frames. Invariants: a frame that lies whole in one chunk is a view of it, not a copy;
an announced length alone allocates nothing (a frame grows with what arrives); a length that is not positive or above
the limit raises ProtocolError, after which the stream cannot be read on.
"""

from struct import Struct

from protocol.errors import ProtocolError

_LENGTH = Struct(">i")


class FrameReader:
    """Feed it what the socket gives; it returns whole frames without their length."""

    def __init__(self, max_frame_bytes: int) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._partial = bytearray()
        self._needed = 0
        """Bytes that `_partial` must have before it can be looked at again; 0 when it is empty."""

    @property
    def buffered_bytes(self) -> int:
        return len(self._partial)

    def feed(self, data: bytes) -> list[memoryview]:
        frames: list[memoryview] = []
        if self._needed:
            # Complete the frame at hand first, then go on in `data` without copying what follows it.
            start = 0
            while self._needed:
                take = self._needed - len(self._partial)
                self._partial += memoryview(data)[start : start + take]
                start += take
                if len(self._partial) < self._needed:
                    return frames
                self._advance(frames)
            data = data[start:] if start < len(data) else b""
        self._cut(data, frames)
        return frames

    def _advance(self, frames: list[memoryview]) -> None:
        """`_partial` has what was needed: either the length is now known, or the frame is whole."""
        if self._needed == 4:
            self._needed = 4 + self._check(_LENGTH.unpack(self._partial)[0])
        else:
            frames.append(memoryview(bytes(self._partial))[4:])
            self._partial = bytearray()
            self._needed = 0

    def _cut(self, data: bytes, frames: list[memoryview]) -> None:
        view = memoryview(data)
        position = 0
        left = len(data)
        while left >= 4:
            length = self._check(_LENGTH.unpack_from(view, position)[0])
            if left - 4 < length:
                self._needed = 4 + length
                self._partial += view[position:]
                return
            frames.append(view[position + 4 : position + 4 + length])
            position += 4 + length
            left -= 4 + length
        if left:
            self._needed = 4
            self._partial += view[position:]

    def _check(self, length: int) -> int:
        if not 0 < length <= self._max_frame_bytes:
            raise ProtocolError(f"a frame of {length} bytes is announced, 1 to {self._max_frame_bytes} are allowed")
        return length
