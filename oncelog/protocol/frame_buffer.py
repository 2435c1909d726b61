"""Frames that are received to where they are read: the memory that a socket writes into.

Owns: that memory, cutting it into frames, its reuse. Does not own: the socket. Where chunks are handed over instead,
`frames` cuts them. Invariants: a large frame has memory of its own, used again only once no view of it is left;
a small one is copied, so that a caller that keeps it keeps nothing else; an announced length allocates at most
`_FIRST_BYTES`, beyond them a frame grows with what arrives; a length that is not allowed ends the stream, but discards
no frame before it.
"""

from struct import Struct

from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.frames import check_length

_LENGTH = Struct(">i")
_SMALL_BYTES = 64 << 10
_FIRST_BYTES = 2 << 20
"""The initial size: a response with one partition's records has 1 MB, as Kafka (max.partition.fetch.bytes)."""
_KEPT_COUNT = 3
"""How many buffers are kept: one whose records are taken, one behind it, one that is received."""


class FrameBuffer:
    """A buffer that frames are received into: write what was received into `room`, and pass its length to `add`, which
    returns complete frames."""

    __slots__ = ("_error", "_kept", "_large", "_needed", "_small", "_stop", "max_frame_bytes")

    def __init__(self, max_frame_bytes: int) -> None:
        self.max_frame_bytes = max_frame_bytes
        """The largest frame, which may be changed: what a frame may announce depends on who sends it."""
        self._small = bytearray(_SMALL_BYTES)
        self._large: bytearray | None = None
        """The memory of the current frame, if it does not fit into `_small`."""
        self._needed = 0
        """The size of that frame, with its length."""
        self._stop = 0
        """How much has arrived of that frame, or in `_small`."""
        self._kept: list[bytearray] = []
        """The memory of former frames; views of it may be left."""
        self._error: str | None = None

    def room(self) -> memoryview:
        """Return where the next bytes belong; never empty."""
        large = self._large
        if large is None:
            return memoryview(self._small)[self._stop :]
        if self._stop == len(large):
            # The event loop may still hold a view of it, so it cannot grow in its place.
            grown = bytearray(min(2 * len(large), self._needed))
            grown[: self._stop] = large
            self._large = large = grown
        return memoryview(large)[self._stop : self._needed]

    def add(self, count: int) -> list[memoryview]:
        """Return the frames that are complete now. Raises ProtocolError if there are none because the stream cannot be
        read further."""
        if self._error is not None:
            raise ProtocolError(self._error)
        self._stop += count
        large = self._large
        if large is None:
            return self._cut()
        if self._stop < self._needed:
            return []
        frame = memoryview(large).toreadonly()[_LENGTH.size : self._needed]
        if len(large) <= _FIRST_BYTES:
            self._kept = [*self._kept[1 - _KEPT_COUNT :], large]
        self._large, self._stop = None, 0
        return [frame]

    def _cut(self) -> list[memoryview]:
        view, stop = memoryview(self._small), self._stop
        size = stop - _LENGTH.size
        if 0 < size <= self.max_frame_bytes and _LENGTH.unpack_from(view)[0] == size:  # most often it is one frame
            self._stop = 0
            return [memoryview(bytes(view[_LENGTH.size : stop]))]
        frames: list[memoryview] = []
        position = 0
        while stop - position >= _LENGTH.size:
            start = position + _LENGTH.size
            try:
                end = start + check_length(_LENGTH.unpack_from(view, position)[0], self.max_frame_bytes)
            except ProtocolError as error:
                if not frames:
                    raise
                self._error, position = str(error), stop
                break
            if end > stop:
                if end - position > _SMALL_BYTES:
                    self._needed = end - position
                    self._large = self._memory(min(self._needed, _FIRST_BYTES))
                break
            frames.append(memoryview(bytes(view[start:end])))
            position = end
        self._stop = stop - position
        if position or self._large is not None:
            target = self._small if self._large is None else self._large
            target[: self._stop] = view[position:stop]
        return frames

    def _memory(self, size: int) -> bytearray:
        """Return memory that is not in use; at most twice as large, so that a view keeps no more than that."""
        for index, kept in enumerate(self._kept):
            if size <= len(kept) <= 2 * size and _has_no_view(kept):
                return self._kept.pop(index)
        return bytearray(-(-size // _SMALL_BYTES) * _SMALL_BYTES)


def _has_no_view(memory: bytearray) -> bool:
    """Whether there are no views of the memory: Python does not let it change its size while there are."""
    try:
        memory.append(memory.pop())
    except BufferError:
        return False
    return True
