"""What becomes of events that the target does not take.

Owns: `--refuse-to`, which events are known to be refused. Does not own: why (`target`). Without a place for them the
first one ends the relay: nothing is left out in silence. In a topic they are part of the same Kafka transaction. In a
table they have the event's identity as their key, and are there before that transaction commits: one that is read again
is added once.
"""

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from oncelog.broker.outbox.rows import HeaderList
from oncelog.tools.outbox.events import Event
from oncelog.tools.outbox.feed import lost
from oncelog.tools.outbox.position import OutboxError
from oncelog.tools.outbox.sql import connect, database_error, make_refused

if TYPE_CHECKING:
    from psycopg import AsyncConnection

_MOST_ROWS, _MOST_BYTES = 1_000, 8 << 20
_COLUMNS = "relay, installation, transaction, ordinal, reason, topic, key, value, headers, partition"
_INSERT = f"insert into {{}} ({_COLUMNS}) values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s) on conflict do nothing"
_COPY = f"""
insert into {{}} ({_COLUMNS})
select %s, %s, %s, %s, %s, coalesce(source.topic, %s), source.key, source.value, source.headers, source.partition
from (select %s::bigint as id) as wanted left join oncelog.outbox as source using (id)
on conflict do nothing"""
_dumps = partial(json.dumps, ensure_ascii=False)
"""As text, since PostgreSQL takes an escape such as `\\u00fc` only if its database is UTF8."""
REASON, WANTED = "oncelog.outbox.reason", "oncelog.outbox.topic"
"""The headers of a refused event: why, and for which topic it was."""


class Refusals:
    """`topic` or `table` is where refused events go; with neither they end the relay."""

    def __init__(
        self, name: str, topic: str | None = None, table: str | None = None, dsn: str = "", installation: int = 0
    ) -> None:
        self._name, self.topic, self._table, self._dsn = name, topic, table, dsn
        self._place: tuple[str, str] | None = None
        """The table's schema and name, once it is known to be ours."""
        self._installation = installation
        self._known: dict[tuple[int, int], str] = {}
        """Why the broker refused an event that seemed to be one that it takes."""
        self._connection: AsyncConnection[Any] | None = None
        self._rows: list[tuple[Event, str]] = []
        self._size_bytes = 0

    def learn(self, event: Event, reason: str) -> None:
        """Refuse this event when it is read again."""
        self._known[event.transaction, event.ordinal] = reason

    def known(self, event: Event) -> str:
        """Return why the event is refused; "" if nothing is known against it."""
        return self._known.get((event.transaction, event.ordinal), "") if self._known else ""

    def diverted(self, event: Event, reason: str) -> Event | None:
        """Return the event to write instead; None if it goes into a table, with `keep`. Raises OutboxError if there is
        no place for it."""
        if self.topic is not None:
            if event.is_too_large:
                raise OutboxError(f"{reason}. No topic takes it; --refuse-to table:NAME moves the row aside")
            why = ((REASON, reason.encode()), (WANTED, event.topic.encode()))
            headers: HeaderList = (*event.headers, *why)
            return event._replace(topic=self.topic, headers=headers, partition=None, timestamp_ms=None, problem="")
        if self._table is None:
            raise OutboxError(
                f"event {event.ordinal + 1} of the SQL transaction at {event.transaction} cannot be written: "
                f"{reason}. Mend it and start again; or have such events put aside with --refuse-to topic:NAME or "
                "table:NAME"
            )
        self._rows.append((event, reason))
        self._size_bytes += len(event.value or b"") + len(event.key or b"")
        return None

    @property
    def is_full(self) -> bool:
        """Whether rows wait that should be kept now: what is kept before its transaction is kept once, too."""
        return len(self._rows) >= _MOST_ROWS or self._size_bytes >= _MOST_BYTES

    async def prepare(self) -> None:
        """Make the table, if there is to be one. Raises OutboxError, FeedLost."""
        if self._table is None:
            return
        try:
            async with await connect(self._dsn, self._name) as connection:
                self._place = await make_refused(connection, self._table)
        except database_error() as error:
            raise lost(error) from error

    async def keep(self) -> None:
        """Commit the rows of refused events, before the transaction that passes them by does. Raises FeedLost."""
        if not self._rows or self._place is None:
            return
        from psycopg import sql
        from psycopg.types.json import Jsonb

        try:
            if self._connection is None:
                self._connection = await connect(self._dsn, self._name)
            place = sql.Identifier(*self._place)
            async with self._connection.transaction(), self._connection.cursor() as cursor:
                for event, reason in self._rows:
                    identity = self._name, self._installation, event.transaction, event.ordinal, reason, event.topic
                    if event.row is not None:  # it has what could not be read
                        await cursor.execute(sql.SQL(_COPY).format(place), (*identity, event.row))
                        continue
                    headers = Jsonb(_texts_of(event.headers), _dumps) if event.headers else None
                    record = event.key, event.value, headers, event.partition
                    await cursor.execute(sql.SQL(_INSERT).format(place), (*identity, *record))
        except database_error() as error:
            await self.close()
            raise lost(error) from error
        self.drop()

    def drop(self) -> None:
        """Forget the rows that wait: they are kept, or read again."""
        self._rows.clear()
        self._size_bytes = 0

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()
            self._connection = None


def _texts_of(headers: HeaderList) -> list[tuple[str, str | None]]:
    """Bytes that are no text stay readable: PostgreSQL's JSON has no others."""
    return [(name, None if value is None else value.decode("utf-8", "backslashreplace")) for name, value in headers]
