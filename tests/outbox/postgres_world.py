"""A database with an outbox, and relays of it in this process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from oncelog.testing import Broker
from oncelog.tools.outbox import sql
from oncelog.tools.outbox.feed import Feed
from oncelog.tools.outbox.position import OutboxError
from oncelog.tools.outbox.refusals import Refusals
from oncelog.tools.outbox.relaying import Relaying
from oncelog.tools.outbox.slot_feed import SlotFeed
from oncelog.tools.outbox.table_feed import TableFeed
from oncelog.tools.outbox.target import Target
from tests.outbox.fakes import Notes, committed
from tests.support.patience import PATIENCE_S
from tests.support.postgres.server import Postgres

CARRIERS: tuple[sql.Carrier, ...] = ("wal", "table", "poll")
_NUMBERS = count(1)


@dataclass
class Shop:
    """A database of a server, with a relay's name of its own: slots are of the whole server."""

    server: Postgres
    broker: Broker
    carrier: sql.Carrier
    name: str = field(default_factory=lambda: f"relay_{next(_NUMBERS)}")
    database: str = ""

    @property
    def dsn(self) -> str:
        return self.server.dsn_of(self.database)

    async def create(self) -> None:
        self.database = self.name
        async with await sql.connect(self.server.dsn) as connection:
            await connection.execute(f"create database {self.database}")
        await self.install()

    async def install(self, *, replace_slot: bool = False) -> list[str]:
        async with await sql.connect(self.dsn) as connection:
            return await sql.install(connection, self.name, self.carrier, (), replace_slot=replace_slot)

    async def drop(self) -> None:
        async with await sql.connect(self.server.dsn) as connection:
            for act in ("pg_terminate_backend(active_pid, 60000)", "pg_drop_replication_slot(slot_name)"):
                await connection.execute(f"select {act} from pg_replication_slots where database = %s", [self.database])  # type: ignore[arg-type]
            await connection.execute(f"drop database {self.database} with (force)")

    async def execute(self, *statements: str) -> Any:
        """Runs statements, each in a transaction of its own; returns the first column of the last."""
        async with await sql.connect(self.dsn) as connection:
            await connection.execute("reset search_path")
            for statement in statements:
                cursor = await connection.execute(statement)
            return [row[0] for row in await cursor.fetchall()] if cursor.description else None

    async def produce(self, *values: str, topic: str = "events") -> None:
        """Commits a SQL transaction that publishes these."""
        async with await sql.connect(self.dsn) as connection, connection.transaction():
            for value in values:
                await connection.execute("select oncelog.produce(%s, 'k', %s::text)", [topic, value])

    @asynccontextmanager
    async def relaying(
        self,
        *,
        keep_s: float | None = 0.0,
        refusals: Refusals | None = None,
        goes_on: bool = False,
        bootstrap: str = "",
        user: str = "postgres",
    ) -> AsyncIterator["Running"]:
        feed = TableFeed if self.carrier == "poll" else SlotFeed

        def make_feed() -> Feed:
            return feed(self.server.dsn_of(self.database, user), self.name, keep_s)

        notes = Notes()
        target = Target(bootstrap or self.broker.bootstrap_servers, self.name, {})
        work = Relaying(make_feed, target, refusals or Refusals(self.name), notes, goes_on=goes_on)
        task = asyncio.create_task(work.run())
        try:
            yield Running(task, notes, target.bootstrap)
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError, OutboxError):
                await task

    async def refused(self, **options: Any) -> str:
        """Returns with what sentence a relay ends."""
        async with self.relaying(**options) as found:
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await found.task
            except OutboxError as error:
                return str(error)
        raise AssertionError("it has no end")


async def made(server: Postgres, broker: Broker, carrier: sql.Carrier) -> Shop:
    """Returns a database with an outbox."""
    found = Shop(server, broker, carrier)
    await found.create()
    return found


@dataclass
class Running:
    task: "asyncio.Task[None]"
    notes: Notes
    bootstrap: str

    async def until(self, *values: str, topic: str = "events") -> None:
        """Returns when the topic has exactly these."""
        found: list[str] = []
        async with asyncio.timeout(PATIENCE_S):
            while len(found) < len(values):
                if self.task.done():
                    self.task.result()
                found = await committed(self.bootstrap, topic)
        assert found == [*values], f"{len(found)} events: {found[:20]}"
