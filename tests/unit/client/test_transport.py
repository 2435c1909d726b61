"""A connection is gone once its client is closed, whatever the other side does."""

import asyncio
from typing import Any

import pytest

from oncelog.client.wire.transport import Transport
from tests.support.patience import PATIENCE_S


class Stream:
    """A socket whose other side reads nothing, or everything at once."""

    def __init__(self, transport: Transport, *, is_read: bool) -> None:
        self.calls: list[str] = []
        self._transport = transport
        self._is_read = is_read

    def get_extra_info(self, name: str) -> Any:
        return name if name != "socket" else None

    def write(self, data: bytes) -> None:
        self.calls.append("write")

    def close(self) -> None:
        self.calls.append("close")
        if self._is_read:
            self._transport.connection_lost(None)

    def abort(self) -> None:
        self.calls.append("abort")


@pytest.mark.parametrize(("is_read", "calls"), [(True, ["write", "close"]), (False, ["write", "close", "abort"])])
async def test_what_the_other_side_does_not_read_in_time_is_dropped_with_the_connection(
    is_read: bool, calls: list[str]
) -> None:
    transport = Transport("host:9092", "client", 1_000)
    stream: Any = Stream(transport, is_read=is_read)
    transport.connection_made(stream)
    transport.close()
    await asyncio.wait_for(transport.wait_closed(0), PATIENCE_S)
    assert stream.calls == calls
