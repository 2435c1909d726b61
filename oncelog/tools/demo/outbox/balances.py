"""The two consumers of `oncelog demo outbox`, as a user would write them: they add transfers to balances in a database.

They are killed at any time, and have no code for it. The table `applied` is for the comparison: what was added, in
which no key would hide that it was added twice.
"""

import asyncio
import json
import sys
from collections.abc import Iterable
from typing import Any

import psycopg

from oncelog import Consumer, Record
from oncelog.sql_offsets import SqlOffsets


async def exactly_once(bootstrap: str, dsn: str) -> None:
    """The offsets are in the database, too: each transaction moves them on with what it adds."""
    offsets = SqlOffsets("exactly_once", lambda: psycopg.AsyncConnection.connect(dsn))
    await offsets.create()
    async with (
        await psycopg.AsyncConnection.connect(dsn) as connection,
        Consumer("transfers", bootstrap_servers=bootstrap, group_instance_id="1", **offsets.options) as consumer,
    ):
        async for batch in offsets.batches(consumer):
            async with batch, connection.transaction():
                await batch.advance(connection)
                await add(connection, batch)


async def auto_commit(bootstrap: str, dsn: str) -> None:
    """The offsets are in Kafka: they are committed every five seconds, by themselves."""
    async with (
        await psycopg.AsyncConnection.connect(dsn) as connection,
        Consumer(
            "transfers",
            bootstrap_servers=bootstrap,
            group_id="auto_commit",
            group_instance_id="1",
            auto_offset_reset="earliest",
            enable_auto_commit=True,
        ) as consumer,
    ):
        while True:
            records = await consumer.poll(1_000)
            async with connection.transaction():
                await add(connection, records)


async def add(connection: Any, records: Iterable[Record[Any, Any]]) -> None:
    transfers = [json.loads(record.value or "") for record in records]
    async with connection.cursor() as cursor:
        for statement in (
            "insert into applied values (%(number)s)",
            "update balances set cents = cents - %(cents)s where account = %(source)s",
            "update balances set cents = cents + %(cents)s where account = %(target)s",
        ):
            await cursor.executemany(statement, transfers)


if __name__ == "__main__":
    mode, *addresses = sys.argv[1:]
    asyncio.run({"exactly_once": exactly_once, "auto_commit": auto_commit}[mode](*addresses))
