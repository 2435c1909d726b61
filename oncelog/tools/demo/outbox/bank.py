"""The first database of `oncelog demo outbox`: accounts, transfers, and the SQL transactions that publish them.

Owns: the tables, what a transfer is, the writers. Invariants: the truth is in the tables, since a writer whose commit
broke off does not know its outcome; no number is used twice.
"""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any

TOPIC = "transfers"
PARTITION_COUNT = 3
ACCOUNT_COUNT = 20
OPENING_CENTS = 100_000
_WRITERS = 3
_PAUSE_S = 0.012
"""Between two transfers of a writer: some two hundred transfers a second, which a small machine relays meanwhile."""
_RETRY_S = 0.1
_ROLLED_BACK = 1 / 8

SCHEMA = f"""
create table accounts (account integer primary key, cents bigint not null);
create table transfers (number integer primary key);
insert into accounts select account, {OPENING_CENTS} from generate_series(1, {ACCOUNT_COUNT}) account
"""
STATEMENTS = """begin;
  update accounts set cents = cents - 1250 where account = 3;
  update accounts set cents = cents + 1250 where account = 7;
  select oncelog.produce('transfers', '3', '{"number": 41, "source": 3, "target": 7, "cents": 1250}');
commit;  -- or rollback, one in eight"""
"""The statements of a transfer, for people."""


class Bank:
    """Its writers are in this process, on connections of their own."""

    def __init__(self, dsn: str, seed: int) -> None:
        self._dsn = dsn
        self._random = random.Random(seed)
        self._numbers = count(1)
        self.committed_count = 0
        """The number of committed transfers that the writers know."""
        self.last_number = 0
        """The number of the transfer that was committed last, as far as the writers know."""
        self.rolled_back_count = 0

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """Make transfers meanwhile."""
        writers = [asyncio.create_task(self._write()) for _ in range(_WRITERS)]
        try:
            yield
        finally:
            for each in writers:
                each.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(*writers)

    async def close_day(self) -> list[int]:
        """Make the last transfers, one in each partition, and return their numbers: who has them has all."""
        async with await self._connect() as connection:
            return [await self._transfer(connection, "commit", partition) for partition in range(PARTITION_COUNT)]

    async def transfers(self) -> set[int]:
        """Return the numbers of all that are committed."""
        async with await self._connect() as connection:
            return {row[0] async for row in await connection.execute("select number from transfers")}

    async def balances(self) -> dict[int, int]:
        """Return the cents of each account."""
        async with await self._connect() as connection:
            return dict([row async for row in await connection.execute("select account, cents from accounts")])

    async def _write(self) -> None:
        """Make transfers until it is cancelled, and wait for a database that is away."""
        from psycopg import OperationalError

        while True:
            try:
                async with await self._connect() as connection:
                    while True:
                        if self._random.random() < _ROLLED_BACK:
                            await self._transfer(connection, "rollback")
                            self.rolled_back_count += 1
                        else:
                            self.last_number = await self._transfer(connection, "commit")
                            self.committed_count += 1
                        await asyncio.sleep(self._random.expovariate(1 / _PAUSE_S))
            except OperationalError:
                await asyncio.sleep(_RETRY_S)

    async def _transfer(self, connection: Any, end: str, partition: int | None = None) -> int:
        number = next(self._numbers)
        source, target = self._random.sample(range(1, ACCOUNT_COUNT + 1), 2)
        cents = self._random.randint(1, 20_000)
        await connection.execute("begin")
        for account, change in sorted([(source, -cents), (target, cents)]):  # in one order: no deadlock
            await connection.execute("update accounts set cents = cents + %s where account = %s", [change, account])
        await connection.execute("insert into transfers values (%s)", [number])
        event = {"number": number, "source": source, "target": target, "cents": cents}
        await connection.execute(
            "select oncelog.produce(%s::text, %s::text, %s::jsonb, partition => %s::int)",
            [TOPIC, str(source), json.dumps(event), partition],
        )
        await connection.execute(end)
        return number

    async def _connect(self) -> Any:
        from psycopg import AsyncConnection

        return await AsyncConnection.connect(self._dsn, autocommit=True)
