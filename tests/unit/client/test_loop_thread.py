"""Ctrl-C in a blocking client: what was interrupted has ended when the exception is raised."""

import asyncio
import threading
from concurrent.futures import Future
from typing import Any, Self

import pytest

from oncelog.client.blocking.loop_thread import Facade
from oncelog.client.values.lifetime import Lifetime
from tests.support.patience import PATIENCE_S

TURN_COUNT = 50
"""The number of turns that a cancelled client still takes."""


class Client:
    """It waits for ever while it opens, or in a call."""

    def __init__(self, *, opens: bool) -> None:
        self._lifetime = Lifetime("Client")
        self.opens = opens
        self.events: list[str] = []
        self.waits = threading.Event()

    async def __aenter__(self) -> Self:
        if not self.opens:
            await self.call()
        return self

    async def __aexit__(self, *_: Any) -> None:
        self.events.append("closed")

    async def call(self) -> None:
        try:
            self.waits.set()
            await asyncio.get_running_loop().create_future()
        finally:
            for _ in range(TURN_COUNT):
                await asyncio.sleep(0)
            self.events.append("ended")


def interrupt(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C comes while the main thread waits for the client. Not by a signal: one that comes just before the wait for
    a lock does not end that wait."""

    def result(_: "Future[Any]", timeout: float | None = None) -> None:
        monkeypatch.undo()
        assert client.waits.wait(PATIENCE_S)
        raise KeyboardInterrupt

    monkeypatch.setattr(Future, "result", result)


class BlockingClient(Facade[Client]):
    def call(self) -> None:
        self._run(self._client.call())


def test_a_client_that_is_interrupted_while_it_opens_has_undone_that_before_its_thread_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = Client(opens=False)
    interrupt(client, monkeypatch)
    facade = BlockingClient(client)
    with pytest.raises(KeyboardInterrupt):
        facade.__enter__()
    assert client.events == ["ended"]
    assert not facade._thread.is_running


def test_a_call_that_is_interrupted_has_ended_when_the_next_one_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(opens=True)
    with BlockingClient(client) as facade:
        interrupt(client, monkeypatch)
        with pytest.raises(KeyboardInterrupt):
            facade.call()
        assert client.events == ["ended"]
    assert client.events == ["ended", "closed"]


def test_what_a_hook_left_running_ends_with_the_thread() -> None:
    class Leaving(Client):
        async def __aenter__(self) -> Self:
            self.left = asyncio.ensure_future(self.wait())
            await asyncio.sleep(0)
            return self

        async def wait(self) -> None:
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                await asyncio.sleep(0)
                self.events.append("ended")

    client = Leaving(opens=True)
    with BlockingClient(client):
        pass
    assert client.events == ["closed", "ended"]
