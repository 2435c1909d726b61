"""What a feed makes of the messages of a slot that a test has in hand."""

from struct import Struct
from typing import Any

from oncelog.tools.outbox.events import Committed
from oncelog.tools.outbox.position import Position
from oncelog.tools.outbox.slot_feed import SlotFeed
from tests.outbox.fakes import ORIGIN

_KEEPALIVE = Struct(">cqqB")


class FakeStream:
    """A server that says how far it has read the log, and sends nothing."""

    def __init__(self, *lsns: int) -> None:
        self._lsns = [*lsns]

    async def start(self, slot: str, lsn: int) -> None: ...

    async def read(self, timeout_s: float) -> list[bytes]:
        return [_KEEPALIVE.pack(b"k", self._lsns.pop(0), 0, 0)] if self._lsns else []

    async def close(self) -> None: ...


async def test_a_server_that_begins_before_the_position_never_moves_it_back() -> None:
    """The server begins at the slot's position, which may be older than what a killed relay has produced: a position
    that went back would write again what is in Kafka.
    """
    feed = SlotFeed("", "relay")
    stream: Any = FakeStream(120, 150, 151)
    feed._stream = stream
    await feed.start(Position(ORIGIN, 150, 140))
    found = [item for _ in range(3) for item in await feed.next(0.0)]
    await feed.close()
    assert [each.position.place for each in found if isinstance(each, Committed)] == [151]
