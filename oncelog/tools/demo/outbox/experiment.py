"""What happens in `oncelog demo outbox`: the bank works, and all around it is killed.

Owns: the processes, the acts, their order. Does not own: what is right (`tally`). A kill falls at a random moment of a
life that has done something, so that none is spent on a start.
"""

import asyncio
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oncelog.client import Admin, NewTopic
from oncelog.tools.demo.daemon import DemoDaemon
from oncelog.tools.demo.outbox.bank import PARTITION_COUNT, SCHEMA, TOPIC, Bank
from oncelog.tools.demo.outbox.ledgers import Ledger, copies_in_topic
from oncelog.tools.demo.outbox.tally import Tally, tally
from oncelog.tools.demo.postgres_server import PostgresServer
from oncelog.tools.demo.stage import DemoFailed, Stage

_CONSUMERS = ("exactly_once", "auto_commit")
_PATIENCE_S = 120.0
_LOOK_S = 0.05
_LEAST_S, _MOST_S = 0.1, 0.7
"""How long a process works before it is killed."""


@dataclass(frozen=True, slots=True)
class Act:
    """The transfers of the bank during one act."""

    title: str
    committed: int
    rolled_back: int
    seconds: float


class Experiment:
    """One run, in `directory`. A context: its servers and processes."""

    def __init__(self, directory: Path, programs: Path, seed: int, kills: int, on_act: Callable[[Act], None]) -> None:
        self._random = random.Random(seed)
        self._kills = kills
        self._on_act = on_act
        self._stack = AsyncExitStack()
        self._bank_server = PostgresServer(directory / "bank", programs)
        self._ledger_server = PostgresServer(directory / "ledgers", programs)
        self._daemon = DemoDaemon(directory)
        self._directory = directory
        self._bank = Bank(self._bank_server.dsn_of("bank"), seed)
        self._ledgers = {name: Ledger(self._ledger_server.dsn_of(name)) for name in _CONSUMERS}
        self._relay: Stage
        self._consumers: list[Stage]

    async def __aenter__(self) -> "Experiment":
        async with AsyncExitStack() as stack:
            servers = (self._bank_server, self._ledger_server)
            for each in servers:
                stack.callback(each.stop, "immediate")
            stack.callback(self._daemon.kill)
            await asyncio.gather(
                *(asyncio.to_thread(_create, each) for each in servers), asyncio.to_thread(self._daemon.start)
            )
            await _execute(self._bank_server.dsn, "create database bank")
            await _execute(self._bank_server.dsn_of("bank"), SCHEMA)
            for name, ledger in self._ledgers.items():
                await _execute(self._ledger_server.dsn, f"create database {name}")
                await stack.enter_async_context(ledger)
            async with Admin(self._daemon.bootstrap) as admin:
                await admin.create_topics(NewTopic(TOPIC, PARTITION_COUNT))
            self._start_programs(stack)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def _start_programs(self, stack: AsyncExitStack) -> None:
        def started(name: str, *arguments: str) -> Stage:
            return stack.enter_context(Stage(name, *arguments, log=self._directory / f"{name}.log"))

        bootstrap = self._daemon.bootstrap
        self._consumers = [
            started(name, "oncelog.tools.demo.outbox.balances", name, bootstrap, ledger.dsn)
            for name, ledger in self._ledgers.items()
        ]
        bank = self._bank_server.dsn_of("bank")
        install = [sys.executable, "-P", "-m", "oncelog", "outbox", "install", bank]
        done = subprocess.run(install, capture_output=True, text=True, check=False)
        if done.returncode:
            raise DemoFailed(f"oncelog outbox install: {done.stderr}")
        self._relay = started("relay", "oncelog", "outbox", "run", bank, "-b", bootstrap)

    async def run(self) -> list[Tally]:
        """Return what is in the bank, in the topic, and in the two ledgers. Raises DemoFailed."""
        async with self._bank.at_work():
            await self._act("all is well", self._wait_added)
            if self._kills:
                times = "once" if self._kills == 1 else f"{self._kills} times"
                await self._act(f"kill -9 of the relay, {times}", self._kill_relay)
                await self._act(f"kill -9 of both consumers, {times}", self._kill_consumers)
                await self._act("kill -9 of the broker", self._kill_broker)
                await self._act("a crash of the bank's PostgreSQL", self._crash_bank)
            await self._act("all of it at once", self._kill_all)
        await self._act("the last transfers arrive", self._close_day)
        committed, balances = await self._bank.transfers(), await self._bank.balances()
        found = [
            tally("bank", committed, Counter(committed), (balances, balances)),
            tally("topic", committed, await copies_in_topic(self._daemon.bootstrap)),
        ]
        for name, ledger in self._ledgers.items():
            found.append(tally(name, committed, await ledger.copies(), (await ledger.balances(), balances)))
        return found

    # --- acts ---------------------------------------------------------------------------------------------------------

    async def _act(self, title: str, act: Callable[[], Awaitable[None]]) -> None:
        begin_s, committed, rolled_back = time.monotonic(), self._bank.committed_count, self._bank.rolled_back_count
        await act()
        self._on_act(
            Act(
                title,
                self._bank.committed_count - committed,
                self._bank.rolled_back_count - rolled_back,
                time.monotonic() - begin_s,
            )
        )

    async def _kill_relay(self) -> None:
        for _ in range(self._kills):
            await self._until(self._is_relaying)
            await self._work_on()
            self._relay.kill()
            self._relay.start()
        await self._wait_added()

    async def _kill_consumers(self) -> None:
        for _ in range(self._kills):
            await self._wait_added()
            await self._work_on()
            for each in self._consumers:
                each.kill()
                each.start()
        await self._wait_added()

    async def _kill_broker(self) -> None:
        await self._work_on()
        self._daemon.kill()
        await asyncio.to_thread(self._daemon.start)
        await self._wait_added()

    async def _crash_bank(self) -> None:
        await self._work_on()
        await asyncio.to_thread(self._bank_server.stop, "immediate")
        await asyncio.to_thread(self._bank_server.start)
        await self._wait_added()

    async def _kill_all(self) -> None:
        await self._work_on()
        programs = (self._relay, *self._consumers)
        for each in programs:
            each.kill()
        self._daemon.kill()
        await asyncio.to_thread(self._bank_server.stop, "immediate")
        await asyncio.gather(*map(asyncio.to_thread, (self._bank_server.start, self._daemon.start)))
        for each in programs:
            each.start()
        await self._wait_added()

    async def _close_day(self) -> None:
        last = set(await self._bank.close_day())

        async def have_come() -> bool:
            return all([last <= (await each.copies()).keys() for each in self._ledgers.values()])

        await self._until(have_come)

    async def _wait_added(self) -> None:
        """Wait until a transfer of from now on has come through all, and the other consumer has added something."""
        exactly_once, auto_commit = self._ledgers.values()
        last_number, count = self._bank.last_number, await auto_commit.count()

        async def have_added() -> bool:
            return await exactly_once.last_number() > last_number and await auto_commit.count() > count

        await self._until(have_added)

    async def _is_relaying(self) -> bool:
        return "Relaying" in self._relay.output()

    async def _until(self, is_so: Callable[[], Awaitable[bool]]) -> None:
        """Raises DemoFailed if it does not come, and if a process has ended by itself."""
        try:
            async with asyncio.timeout(_PATIENCE_S):
                while not await is_so():
                    for each in (self._relay, *self._consumers):
                        each.output()
                    await asyncio.sleep(_LOOK_S)
        except TimeoutError:
            raise DemoFailed(f"nothing has come through for {_PATIENCE_S:g} s") from None

    async def _work_on(self) -> None:
        await asyncio.sleep(self._random.uniform(_LEAST_S, _MOST_S))


def _create(server: PostgresServer) -> None:
    server.create()
    server.start()


async def _execute(dsn: str, statement: str) -> Any:
    from psycopg import AsyncConnection

    async with await AsyncConnection.connect(dsn, autocommit=True) as connection:
        await connection.execute(statement)
