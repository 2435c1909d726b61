"""What becomes of events that the target does not take.

Owns: `--refuse-to`, which events are known to be refused. Does not own: why (`target`). Without a place for them the
first one ends the relay: nothing is left out in silence. In a topic they are part of the same Kafka transaction. In a
table they have the event's identity as their key, and are there before that transaction commits: one that is read again
is added once.
"""

import json
from functools import partial
from typing import TYPE_CHECKING, Any, LiteralString

from oncelog.broker.outbox.rows import HeaderList
from oncelog.tools.outbox.events import Event
from oncelog.tools.outbox.feed import Place, is_unreadable, lost, text_of
from oncelog.tools.outbox.position import OutboxError
from oncelog.tools.outbox.sql import connect, database_error, make_refused

if TYPE_CHECKING:
    from psycopg import AsyncConnection

_MOST_ROWS, _MOST_BYTES = 1_000, 8 << 20
_COLUMNS = "relay, installation, transaction, ordinal, reason, topic, key, value, headers, partition"
_INSERT = f"insert into {{}} ({_COLUMNS}) values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s) on conflict do nothing"
_COPY = f"""
insert into {{}} ({_COLUMNS})
select %s, %s, %s, %s, %s, coalesce(source.topic, %s), {{}}, source.partition
from (select %s::bigint as id) as wanted left join oncelog.outbox as source using (id)
on conflict do nothing"""
_WHOLE: LiteralString = "source.key, source.value, source.headers"
_BARE: LiteralString = "null, null, null"
_dumps = partial(json.dumps, ensure_ascii=False)
"""Writes JSON without escapes: PostgreSQL takes one such as `\\u00fc` only if its database is UTF8."""
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
            if event.is_in_row:
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
        """Commit the rows of refused events, before the transaction that passes them by does. Raises FeedLost, and
        OutboxError."""
        if not self._rows or self._place is None:
            return
        event, reason = self._rows[0]
        try:
            if self._connection is None:
                self._connection = await connect(self._dsn, self._name)
            try:
                async with self._connection.transaction():
                    for event, reason in self._rows:
                        await self._add(self._connection, event, reason)
            except database_error():  # one by one, which shows at which event
                for event, reason in self._rows:
                    await self._add_readable(self._connection, event, reason)
        except database_error() as error:
            await self.close()
            table = ".".join(self._place)
            name = f"event {event.ordinal + 1} of the SQL transaction at {event.transaction}, refused ({reason})"
            way = f"{table} does not take it: mend that table, or name another with --refuse-to, and start again"
            raise lost(error, Place(name, way)) from error
        self.drop()

    async def _add_readable(self, connection: "AsyncConnection[Any]", event: Event, reason: str) -> None:
        """Add an event, without what PostgreSQL has lost of its row."""
        try:
            await self._add(connection, event, reason)
        except database_error() as error:
            if event.row is None or not is_unreadable(error):
                raise
            why = f"{reason}; its key, value and headers are not kept, as PostgreSQL cannot read them: {text_of(error)}"
            await self._add(connection, event, why, _BARE)

    async def _add(
        self, connection: "AsyncConnection[Any]", event: Event, reason: str, columns: LiteralString = _WHOLE
    ) -> None:
        from psycopg import sql
        from psycopg.types.json import Jsonb

        place = sql.Identifier(*self._place or ())
        identity = self._name, self._installation, event.transaction, event.ordinal, reason, event.topic
        if event.row is not None:  # it has what could not be read
            statement = sql.SQL(_COPY).format(place, sql.SQL(columns))
            await connection.execute(statement, (*identity, event.row))
            return
        headers = Jsonb(_texts_of(event.headers), _dumps) if event.headers else None
        record = event.key, event.value, headers, event.partition
        await connection.execute(sql.SQL(_INSERT).format(place), (*identity, *record))

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
