"""Frames: a four-byte length, then that many bytes.

Owns: cutting a byte stream into frames. Invariants: a frame that is complete in one chunk is a view of it, not a copy;
an announced length alone allocates nothing (a frame grows with what arrives); a length that is not positive or above
the limit ends the stream, but discards no frame before it, however the stream was cut into chunks.
"""

from struct import Struct

from oncelog.protocol.errors import ProtocolError

_LENGTH = Struct(">i")
_TLS_HANDSHAKE = 0x1603
"""The first bytes of a client that begins with TLS: the type of the record, the major version."""


class FrameReader:
    """Reads frames: pass it what the socket received, and it returns complete frames without their length."""

    __slots__ = ("_needed", "error", "max_frame_bytes", "partial")

    def __init__(self, max_frame_bytes: int) -> None:
        self.max_frame_bytes = max_frame_bytes
        """The largest frame, which may be changed: what a frame may announce depends on who sends it."""
        self.partial = bytearray()
        """The part of the current frame that has arrived; only to be looked at."""
        self._needed = 0
        """The size that `partial` must reach before the next check; 0 when it is empty."""
        self.error: str | None = None
        """The reason why the stream cannot be read further. It is a string: an exception would keep its stack frames
        alive, and they the reader."""

    @property
    def missing_bytes(self) -> int:
        """How many bytes of the current frame are known to be missing."""
        return max(0, self._needed - len(self.partial))

    def drop(self) -> None:
        """Discard the current frame; nothing may be fed afterwards."""
        self.partial = bytearray()

    def feed(self, data: bytes) -> list[memoryview]:
        """Return the frames that are complete now. Raises ProtocolError if there are none because of `error`."""
        view = memoryview(data)
        size = len(data) - _LENGTH.size
        is_allowed = 0 < size <= self.max_frame_bytes and not self._needed and self.error is None
        if is_allowed and _LENGTH.unpack_from(data)[0] == size:  # most chunks are one frame
            return [view[_LENGTH.size :]]
        frames: list[memoryview] = []
        try:
            if self.error is not None:
                raise ProtocolError(self.error)
            self._cut(view, self._complete(view, frames) if self._needed else 0, frames)
        except ProtocolError as error:
            self.error = str(error)
            if not frames:
                raise
        return frames

    def _complete(self, view: memoryview, frames: list[memoryview]) -> int:
        """Continue the current frame; returns how much of `view` it took."""
        position = 0
        while self._needed:
            stop = position + self._needed - len(self.partial)
            self.partial += view[position:stop]
            if len(self.partial) < self._needed:
                return len(view)
            position = stop
            if self._needed == _LENGTH.size:
                self._needed += check_length(_LENGTH.unpack(self.partial)[0], self.max_frame_bytes)
            else:
                # The reader drops its buffer, so the frame may keep it instead of a copy.
                frames.append(memoryview(self.partial).toreadonly()[_LENGTH.size :])
                self.partial = bytearray()
                self._needed = 0
        return position

    def _cut(self, view: memoryview, position: int, frames: list[memoryview]) -> None:
        end = len(view)
        while end - position >= 4:
            start = position + 4
            stop = start + check_length(_LENGTH.unpack_from(view, position)[0], self.max_frame_bytes)
            if stop > end:
                self._needed = stop - position
                self.partial += view[position:]
                return
            frames.append(view[start:stop])
            position = stop
        if position < end:
            self._needed = _LENGTH.size
            self.partial += view[position:]


def check_length(length: int, max_frame_bytes: int) -> int:
    """Return the length, if it is allowed; raises ProtocolError."""
    if not 0 < length <= max_frame_bytes:
        hint = ": this is how TLS begins, and none is spoken here" if length >> 16 == _TLS_HANDSHAKE else ""
        raise ProtocolError(f"a frame of {length} bytes is announced, 1 to {max_frame_bytes} are allowed{hint}")
    return length
