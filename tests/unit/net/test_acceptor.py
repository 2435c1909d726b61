"""Accepting: as fast as the quotas allow, and without spinning when there are no descriptors."""

import asyncio
import errno
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from oncelog.broker.net.acceptor import Acceptor
from oncelog.broker.net.quotas import ConnectionQuotas
from tests.fakes.broker import VirtualBroker
from tests.support.patience import PATIENCE_S

LISTENER = "PLAINTEXT"


class Listening(socket.socket):
    """A socket that lacks descriptors for the first so many calls."""

    failures = 0
    calls = 0

    def accept(self) -> tuple[socket.socket, Any]:
        self.calls += 1
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return super().accept()


class Log:
    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def info(self, event: str, **values: Any) -> None:
        self.lines.append((event, values))

    error = info


class Door:
    """An acceptor on loopback, on the broker's virtual time."""

    def __init__(self, *overrides: str, descriptor_count: int | None = None) -> None:
        self.virtual = VirtualBroker(*overrides)
        self.log = self.virtual.broker.logger = Log()
        self.listening = Listening()
        self.listening.bind(("127.0.0.1", 0))
        self.listening.setblocking(False)
        self.listening.listen(100)
        self.accepted: list[socket.socket] = []
        self.quotas = ConnectionQuotas(lambda: self.virtual.broker.config, descriptor_count)
        self.acceptor = Acceptor(self.virtual.broker, LISTENER, [self.listening], self.quotas, self._take)
        self.clients: list[socket.socket] = []

    def _take(self, accepted: socket.socket, host: str) -> None:
        assert host == "127.0.0.1"
        self.accepted.append(accepted)

    def knock(self, count: int) -> None:
        self.clients += [socket.create_connection(self.listening.getsockname()) for _ in range(count)]

    async def turns(self) -> None:
        """Long enough for whatever is ready."""
        for _ in range(20):
            await asyncio.sleep(0)

    def close(self) -> None:
        self.acceptor.close()
        for each in (*self.accepted, *self.clients):
            each.close()


@asynccontextmanager
async def door(*overrides: str, descriptor_count: int | None = None) -> AsyncIterator[Door]:
    opened = Door(*overrides, descriptor_count=descriptor_count)
    try:
        yield opened
    finally:
        opened.close()


def run(scene: Callable[[], Any]) -> None:
    asyncio.run(scene())


def test_without_descriptors_it_waits_a_second_and_says_so_once() -> None:
    async def scene() -> None:
        async with door() as opened:
            opened.listening.failures = 3
            opened.knock(2)
            for attempt in range(1, 4):
                await opened.turns()
                assert opened.listening.calls == attempt
                assert opened.accepted == []
                opened.virtual.time.advance(1_000)
            await opened.turns()
            assert len(opened.accepted) == 2
            ((event, values),) = opened.log.lines
            assert event == "listener.no_descriptors"
            assert "ulimit" in values["message"]

    run(scene)


def test_what_may_not_come_in_stays_in_the_backlog_until_another_goes() -> None:
    async def scene() -> None:
        async with door("max.connections=2") as opened:
            opened.knock(4)
            await opened.turns()
            assert len(opened.accepted) == 2
            assert opened.listening.calls == 2
            opened.quotas.give_back(LISTENER, "127.0.0.1")
            opened.acceptor.resume()
            await opened.turns()
            assert len(opened.accepted) == 3

    run(scene)


def test_without_a_descriptor_of_its_own_a_connection_waits_for_another_to_end_and_that_is_said_once() -> None:
    async def scene() -> None:
        async with door(descriptor_count=2) as opened:
            opened.knock(4)
            for ended in range(3):
                await opened.turns()
                assert opened.listening.calls == len(opened.accepted) == 2 + ended
                opened.virtual.time.advance(60_000)
                opened.quotas.give_back(LISTENER, "127.0.0.1")
                opened.acceptor.resume()
            assert [event for event, _ in opened.log.lines] == ["listener.no_descriptors"]

    run(scene)


def test_above_the_rate_the_rest_come_in_the_next_second() -> None:
    async def scene() -> None:
        async with door("max.connection.creation.rate=3") as opened:
            opened.knock(5)
            await opened.turns()
            assert len(opened.accepted) == 3
            opened.virtual.time.advance(1_000)
            await opened.turns()
            assert len(opened.accepted) == 5

    run(scene)


def test_one_too_many_from_an_address_is_closed_and_counted() -> None:
    async def scene() -> None:
        async with door("max.connections.per.ip=1") as opened:
            opened.knock(3)
            await opened.turns()
            assert len(opened.accepted) == 1
            assert opened.virtual.broker.metrics.connections_refused == 2
            for client in opened.clients[1:]:
                client.settimeout(PATIENCE_S)
                assert client.recv(1) == b""

    run(scene)


def test_after_its_end_no_connection_is_accepted() -> None:
    async def scene() -> None:
        async with door() as opened:
            address = opened.listening.getsockname()
            opened.acceptor.close()
            opened.acceptor.resume()
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(address)

    run(scene)
