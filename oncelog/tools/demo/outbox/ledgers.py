"""The second database of `oncelog demo outbox`, and the topic: which transfers are there, and how often.

Owns: the tables of a consumer, reading the topic. Does not own: what should be there (`tally`).
"""

import json
from collections import Counter
from typing import Any

from oncelog.client import Consumer, TopicPartition
from oncelog.tools.demo.outbox.bank import ACCOUNT_COUNT, OPENING_CENTS, PARTITION_COUNT, TOPIC

_SCHEMA = f"""
create table balances (account integer primary key, cents bigint not null);
create table applied (number integer not null);
insert into balances select account, {OPENING_CENTS} from generate_series(1, {ACCOUNT_COUNT}) account
"""
_POLL_MS = 500


class Ledger:
    """The database of one consumer. A context: its connection."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self._connection: Any = None

    async def __aenter__(self) -> "Ledger":
        from psycopg import AsyncConnection

        self._connection = await AsyncConnection.connect(self.dsn, autocommit=True)
        await self._connection.execute(_SCHEMA)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._connection.close()

    async def count(self) -> int:
        """Return how many transfers were added, with those that were added again."""
        return (await self._rows("select count(*) from applied"))[0][0]  # type: ignore[no-any-return]

    async def last_number(self) -> int:
        """Return the highest number of a transfer that was added."""
        return (await self._rows("select coalesce(max(number), 0) from applied"))[0][0]  # type: ignore[no-any-return]

    async def copies(self) -> Counter[int]:
        """Return how often each transfer was added."""
        return Counter(number for (number,) in await self._rows("select number from applied"))

    async def balances(self) -> dict[int, int]:
        """Return the cents of each account."""
        return dict(await self._rows("select account, cents from balances"))

    async def _rows(self, statement: str) -> list[Any]:
        return await (await self._connection.execute(statement)).fetchall()  # type: ignore[no-any-return]


async def copies_in_topic(bootstrap: str) -> Counter[int]:
    """Return how often each transfer is in the topic, as committed readers see it."""
    places = [TopicPartition(TOPIC, number) for number in range(PARTITION_COUNT)]
    found: Counter[int] = Counter()
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(places)
        ends = await consumer.end_offsets(places)
        while any([await consumer.position(place) < ends[place] for place in places]):
            found.update(json.loads(each.value or b"")["number"] for each in await consumer.poll(_POLL_MS))
    return found
