"""A poller by id, as many are written: not exactly once, and here for comparison.

It reads rows above the last id that it has read, produces them, and then writes that id down. A row that is committed
below the id is never read; what was produced and not yet written down when it is killed is produced again.

python -m tests.proofs.outbox.naive_poller DSN NAME HOST:PORT
"""

import asyncio
import sys
from contextlib import suppress
from typing import Any

from oncelog.broker.outbox.rows import headers_of
from oncelog.client import Producer
from oncelog.tools.outbox import sql

INTERVAL_S = 0.1
_POSITIONS = "create table if not exists public.poller (name text primary key, last bigint not null)"
_ROWS = "select id, topic, key, value, headers::text from oncelog.outbox where id > %s order by id limit 2000"


async def relay(dsn: str, name: str, bootstrap: str) -> None:
    async with (
        await sql.connect(dsn, name) as connection,
        Producer(bootstrap, enable_idempotence=True) as producer,
    ):
        await connection.execute(_POSITIONS)
        found = await (await connection.execute("select last from public.poller where name = %s", [name])).fetchone()
        last = found[0] if found else 0
        sys.stdout.write("Relaying\n")
        sys.stdout.flush()
        while True:
            rows: list[Any] = await (await connection.execute(_ROWS, [last])).fetchall()
            for _, topic, key, value, headers in rows:
                await producer.send_soon(topic, value, key=key, headers=headers_of(headers) if headers else ())
            await producer.flush()
            if not rows:
                with suppress(TimeoutError):
                    async with asyncio.timeout(INTERVAL_S):
                        await asyncio.Event().wait()
                continue
            last = rows[-1][0]
            await connection.execute(
                "insert into public.poller values (%s, %s) on conflict (name) do update set last = excluded.last",
                [name, last],
            )


if __name__ == "__main__":
    asyncio.run(relay(*sys.argv[1:4]))
