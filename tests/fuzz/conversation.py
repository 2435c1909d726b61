"""What one connection has asked, and whether what comes back is the answer: whole, in order, in the version asked."""

from collections import deque
from contextlib import suppress
from importlib import import_module
from typing import Any

from oncelog.broker.apis.table import API_TABLE
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.frames import FrameReader
from oncelog.protocol.headers import decode_request_header, decode_response_header


class Wrong(Exception):
    """Something that must hold did not."""


class TooSlow(Wrong):
    """An answer that took too long by the processor's clock, which other load may also stretch: count it if it comes
    again.
    """


class Conversation:
    def __init__(self, max_frame_bytes: int) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._unread = bytearray()
        self._received = FrameReader((1 << 31) - 1)
        self._asked: deque[tuple[int, int, int]] = deque()

    @property
    def has_half_an_answer(self) -> bool:
        return len(self._received.partial) > 0

    def sent(self, data: bytes) -> None:
        """Byte by byte as far as frames go: the broker may have seen what came before a length that is none."""
        self._unread += data
        position, end = 0, len(self._unread)
        while end - position >= 4:
            length = int.from_bytes(self._unread[position : position + 4], "big", signed=True)
            if not 0 < length <= self._max_frame_bytes or position + 4 + length > end:
                break
            self._expect(memoryview(bytes(self._unread[position + 4 : position + 4 + length])))
            position += 4 + length
        del self._unread[:position]

    def _expect(self, frame: memoryview) -> None:
        """Expect an answer to this frame next, unless the connection is closed; with acks=0 there is none."""
        api = API_TABLE.get(int.from_bytes(frame[:2], "big", signed=True))
        if api is None or len(frame) < 8:
            return
        request = import_module(f"oncelog.protocol.generated.{api.name}_request")
        with suppress(ProtocolError):
            header, position = decode_request_header(frame, request.FLEXIBLE_FROM or 32_767)
            if api.key == ApiKey.PRODUCE and request.decode(frame, header.api_version, position)[0].acks == 0:
                return
            self._asked.append((api.key, header.api_version, header.correlation_id))

    def received(self, data: bytes) -> list[Any]:
        """The answers that are complete now, decoded; raises Wrong for one that is not to what was asked next."""
        return [self._answer(frame) for frame in self._received.feed(data)]

    def _answer(self, frame: memoryview) -> Any:
        correlation_id, _ = decode_response_header(frame, False)
        if not self._asked:
            raise Wrong(f"nobody asked {correlation_id}: {frame.hex()[:200]}")
        key, version, asked = self._asked.popleft()
        if asked != correlation_id:
            raise Wrong(f"{asked} was asked, the answer is to {correlation_id}")
        return _decoded(frame, key, version)


def _decoded(frame: memoryview, key: int, version: int) -> Any:
    api = API_TABLE[key]
    response = import_module(f"oncelog.protocol.generated.{api.name}_response")
    if not api.minimum <= version <= api.maximum:
        version = 0  # only ApiVersions answers then
    flexible = response.FLEXIBLE_FROM is not None and version >= response.FLEXIBLE_FROM and key != ApiKey.API_VERSIONS
    _, position = decode_response_header(frame, flexible)
    message, end = response.decode(frame, version, position)
    if end != len(frame):
        raise Wrong(f"{len(frame) - end} bytes follow the answer to {api.name} {version}")
    return message
