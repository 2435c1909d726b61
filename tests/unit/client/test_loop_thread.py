"""Ctrl-C in a blocking client: what was interrupted has ended when the exception is raised."""

import asyncio
import signal
import threading
from typing import Any, Self

import pytest

from oncelog.client.loop_thread import Facade

TURN_COUNT = 50
"""What a client does when it is cancelled takes a while."""


def press_ctrl_c() -> None:
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, signal.SIGINT)


class Client:
    """It is interrupted while it opens, or in a call."""

    def __init__(self, *, opens: bool) -> None:
        self.opens = opens
        self.events: list[str] = []

    async def __aenter__(self) -> Self:
        if not self.opens:
            await self.call()
        return self

    async def __aexit__(self, *_: Any) -> None:
        self.events.append("closed")

    async def call(self) -> None:
        press_ctrl_c()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            for _ in range(TURN_COUNT):
                await asyncio.sleep(0)
            self.events.append("ended")


class BlockingClient(Facade[Client]):
    def call(self) -> None:
        self._run(self._client.call())


def test_a_client_that_is_interrupted_while_it_opens_has_undone_that_before_its_thread_ends() -> None:
    client = Client(opens=False)
    facade = BlockingClient(client)
    with pytest.raises(KeyboardInterrupt):
        facade.__enter__()
    assert client.events == ["ended"]
    assert not facade._thread.is_running


def test_a_call_that_is_interrupted_has_ended_when_the_next_one_begins() -> None:
    client = Client(opens=True)
    with BlockingClient(client) as facade:
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
