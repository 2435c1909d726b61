"""Hands over what was received as an event loop does it: written into the memory of its reader."""

from collections.abc import Callable, Iterator

from oncelog.client.wire.connection import Connection


def written(room: Callable[[], memoryview], data: bytes) -> Iterator[int]:
    """Writes a piece of the data at each step, as much as there is room for, and yields its length."""
    while data:
        target = room()
        count = min(len(target), len(data))
        target[:count] = data[:count]
        data = data[count:]
        yield count


def feed(connection: Connection, data: bytes) -> list[bytes]:
    """Returns the bytes to send."""
    return [each for count in written(connection.room, data) for each in connection.receive(count)]
