"""Events from the table alone, for databases whose log may not be read.

Owns: how rows become batches, and the reading and deleting of them. Does not own: where to start (`position`). A row
that makes PostgreSQL fail a batch with it is found by reading the rows one by one, and becomes an event with a problem.

Numbers of rows are not in the order of commits, so no position among them is safe: a row may be committed below one
that was read. Instead the rows that are committed and in no batch get the number of the next one, in a transaction that
has the relay's row of `oncelog.relays` to itself. So batches are made one after the other, each sees all that was
committed when it began, and no row is in two or in none. A batch has whole SQL transactions, by their last rows where
there are too many; within it the order is that of ids. Two SQL transactions that change the same row, and publish it
after they have it locked, are in the order of their commits: the second has the higher id, and is never seen without
the first. The number of a batch is the position: it is made before Kafka has it, and read again until Kafka does.
"""

import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from oncelog.broker.storage.postgres.outbox_rows import MEASURED, READ
from oncelog.broker.storage.postgres.produce import CHANNEL
from oncelog.broker.storage.shared.tables import LARGEST_BYTES
from oncelog.tools.outbox.events import Committed, Item, Texts, event_of_row, event_of_unreadable
from oncelog.tools.outbox.feed import DELETION, Backlog, FeedLost, Place, is_of_data, lost, text_of
from oncelog.tools.outbox.position import FoundTable, Origin, OutboxError, Position, start_at_table
from oncelog.tools.outbox.sql import check_server, connect, database_error, find_relay, one

if TYPE_CHECKING:
    from psycopg import AsyncConnection, AsyncServerCursor

_MOST_ROWS = 50_000
"""The rows of a batch, which is one transaction of Kafka's, if there are as many small SQL transactions."""
_BATCH = """
with waiting as (
    select coalesce(xid, '0') as xid, max(id) as last, count(*) as rows
    from oncelog.outbox where batch is null group by 1
), counted as (
    select xid, sum(rows) over (order by last) - rows as before from waiting
), made as (
    update oncelog.outbox set batch = %(batch)s from counted
    where outbox.batch is null and coalesce(outbox.xid, '0') = counted.xid and counted.before < %(most)s
    returning coalesce(octet_length(value), 0)::bigint + coalesce(octet_length(key), 0)
        + case when %(measures)s then coalesce(pg_column_size(headers || '[]'::jsonb), 0) else 0 end as size
)
select count(*), coalesce(sum(size), 0) from made"""
_CHUNK_ROWS, _CHUNK_BYTES = 2_000, 4 << 20
_LEAST_CLEAN_S, _CLEAN_S = 0.5, 60.0
"""How often rows are deleted: at most, and at least those that stay for a while."""
_READ = f"""
with batch as (select {MEASURED.format(largest=LARGEST_BYTES)} from oncelog.outbox where {{}} = %s)
select {READ.format(largest=LARGEST_BYTES)} from batch order by id"""
_ROWS, _ROW = _READ.format("batch"), _READ.format("id")
_IDS = "select id from oncelog.outbox where batch = %s order by id offset %s"
_FIRST_ROWS = 20


class TableFeed:
    """`keep_s`: how long rows stay after they are in Kafka; None: for good."""

    def __init__(self, dsn: str, name: str, keep_s: float | None = 0.0) -> None:
        self._dsn, self._name, self._keep_s = dsn, name, keep_s
        self._sql: AsyncConnection[Any] | None = None
        self._origin = Origin("", "", 0, 0)
        self._done = 0
        """The last batch that was handed over whole."""
        self._last_batch = 0
        self._rows: AsyncServerCursor[Any] | None = None
        self._ids: deque[int] | None = None
        """The rows of a batch that are read one by one."""
        self._ordinal = 0
        self._time_ms = 0
        self._encoding = "UTF8"
        """The encoding of the database, and of its text."""
        self._chunk_rows = _FIRST_ROWS
        self._is_small = False
        """Whether the next batch is known to fit into memory."""
        self._measures = True
        """Whether headers are read for that."""
        self._next_clean_s = 0.0

    async def open(self, stored: Position | None, *, goes_on: bool, counts: bool) -> Position:
        try:
            connection = self._sql = await connect(self._dsn, self._name)
            await check_server(connection, is_logical=False)
            relay = await find_relay(connection, self._name)
            if relay is None:
                raise OutboxError(f"no relay {self._name} is installed in this database: `oncelog outbox install DSN`")
            row = await one(connection, "select system_identifier::text, current_database() from pg_control_system()")
            self._encoding = connection.info.parameter_status("server_encoding") or "UTF8"
            await connection.execute(f"listen {CHANNEL}")
        except database_error() as error:
            raise lost(error) from error
        self._origin = Origin(row[0], row[1], 0, 0)
        try:
            position = start_at_table(stored, FoundTable(self._origin, relay.last_batch))
        except OutboxError as error:
            if not goes_on or error.resume is None:
                raise
            position = error.resume
        return position

    async def keep_passed(self, place: Place) -> None:
        """Do nothing: none of its places can be passed."""

    async def start(self, position: Position) -> None:
        self._done = position.place
        try:
            row = await one(
                self._connection(),
                "update oncelog.relays set last_batch = greatest(last_batch, %s) where name = %s returning last_batch",
                [position.place, self._name],
            )
        except database_error() as error:
            raise lost(error) from error
        self._last_batch = position.place if row is None else row[0]

    async def next(self, timeout_s: float) -> Sequence[Item]:
        try:
            if self._ids is not None:
                return await self._next_row(self._ids)
            if self._rows is None:
                if self._done == self._last_batch and not (timeout_s and await self._make_batch()):
                    if not timeout_s:  # what is committed meanwhile is the next transaction's
                        return ()
                    async for _ in self._connection().notifies(timeout=timeout_s, stop_after=1):
                        pass
                    return ()
                if self._is_small:
                    return await self._whole()
                self._rows = await self._open_batch()
            return await self._chunk(self._rows)
        except database_error() as error:
            if self._ids is None and is_of_data(error):
                return await self._without(error)
            raise lost(error, self._place()) from error

    async def _without(self, cause: Exception) -> Sequence[Item]:
        """Return nothing, and read no more of what PostgreSQL cannot read. Raises FeedLost if it needs that."""
        try:
            if self._done < self._last_batch:
                await self._connection().rollback()
                self._rows = None
                found = await self._connection().execute(_IDS, [self._done + 1, self._ordinal])
                self._ids = deque(number for (number,) in await found.fetchall())
            elif self._measures:
                self._measures = False
            else:
                raise lost(cause, self._place()) from cause
        except database_error() as error:
            raise lost(error, self._place()) from error
        return ()

    async def _next_row(self, ids: deque[int]) -> Sequence[Item]:
        if not ids:
            self._ids = None
            return [self._end()]
        number = ids.popleft()
        try:
            found = await self._connection().execute(_ROW, [number])
            return self._events(await found.fetchall())[0]
        except database_error() as error:
            if not is_of_data(error):
                raise
            identity = self._done + 1, self._ordinal
            self._ordinal += 1
            self._time_ms = self._time_ms or time.time_ns() // 1_000_000
            return [event_of_unreadable(identity, number, text_of(error))]

    def _place(self) -> Place:
        """Return the place of the rows that are read next."""
        is_made = self._done < self._last_batch
        which = f"batch {self._done + 1}" if is_made else "no batch"
        where = f"batch = {self._done + 1}" if is_made else "batch is null"
        return Place(
            f"the rows of oncelog.outbox in {which}",
            f"one of those `where {where}` cannot be read: mend or delete it, and start again",
        )

    async def _make_batch(self) -> bool:
        """Return whether there was something to make one of."""
        connection = self._connection()
        async with connection.transaction():
            row = await one(
                connection, "select last_batch from oncelog.relays where name = %s for update", [self._name]
            )
            if row is None:
                raise OutboxError(f"the relay {self._name} was removed from the database while it ran")
            if row[0] > self._last_batch:  # made by a relay that was fenced since, or before
                self._last_batch = row[0]
                self._is_small = False
                return True
            # A statement of its own: it sees what was committed until the row was locked.
            limits = {"batch": row[0] + 1, "most": _MOST_ROWS, "measures": self._measures}
            made = await (await connection.execute(_BATCH, limits)).fetchone()
            count, size_bytes = made or (0, 0)
            if count:
                await connection.execute(
                    "update oncelog.relays set last_batch = %s where name = %s", [row[0] + 1, self._name]
                )
                self._last_batch = row[0] + 1
                self._is_small = self._measures and count <= _CHUNK_ROWS and size_bytes <= _CHUNK_BYTES
            return bool(count)

    async def _open_batch(self) -> "AsyncServerCursor[Any]":
        connection = self._connection()
        await connection.execute("begin")
        rows = connection.cursor("oncelog_batch")
        await rows.execute(_ROWS, [self._done + 1])
        self._ordinal = 0
        return rows

    async def _chunk(self, rows: "AsyncServerCursor[Any]") -> list[Item]:
        fetched = await rows.fetchmany(self._chunk_rows)
        items, size_bytes = self._events(fetched)
        is_last = len(fetched) < self._chunk_rows
        if fetched:  # the next ones are as large as these, as far as one knows
            fitting = _CHUNK_BYTES * len(fetched) // max(1, size_bytes)
            self._chunk_rows = max(1, min(fitting, 4 * self._chunk_rows, _CHUNK_ROWS))
        if is_last:
            await rows.close()
            await self._connection().execute("commit")
            self._rows = None
            items.append(self._end())
        return items

    async def _whole(self) -> list[Item]:
        """Return a batch that is known to be small: one question."""
        self._ordinal, self._is_small = 0, False
        found = await self._connection().execute(_ROWS, [self._done + 1])
        items, _ = self._events(await found.fetchall())
        return [*items, self._end()]

    def _end(self) -> Committed:
        self._done += 1
        return Committed(Position(self._origin, self._done, self._done, self._time_ms), self._time_ms)

    def _events(self, rows: Sequence[Any]) -> tuple[list[Item], int]:
        """Return the events of rows, and their bytes."""
        items: list[Item] = []
        size_bytes = 0
        for number, topic, key, value, headers, partition, at_ms, row_bytes in rows:
            self._time_ms = at_ms
            identity = self._done + 1, self._ordinal
            self._ordinal += 1
            texts = Texts(topic, headers, self._encoding)
            items.append(event_of_row(texts, identity, number, row_bytes, at_ms, key, value, partition))
            size_bytes += len(key or b"") + len(value or b"") + len(headers or b"")
        return items, size_bytes

    async def on_stored(self, position: Position) -> None:
        now_s = time.monotonic()
        if self._keep_s is None or self._rows is not None or now_s < self._next_clean_s:
            return  # also while a transaction is open that reads: the next time
        self._next_clean_s = now_s + max(_LEAST_CLEAN_S, min(_CLEAN_S, self._keep_s / 10))
        try:
            await self._connection().execute(
                "delete from oncelog.outbox where batch <= %s and at <= now() - %s",
                [position.place, timedelta(seconds=self._keep_s)],
            )
        except database_error() as error:
            raise lost(error, DELETION) from error

    async def backlog(self) -> Backlog:
        if self._rows is not None:
            return Backlog()
        try:
            row = await one(
                self._connection(),
                "select count(*) from oncelog.outbox where batch is null or batch > %s",
                [self._done],
            )
        except database_error() as error:
            raise lost(error) from error
        return Backlog(rows=None if row is None else row[0])

    async def close(self) -> None:
        if self._sql is not None:
            with suppress(database_error()):
                await self._sql.close()

    def _connection(self) -> "AsyncConnection[Any]":
        if self._sql is None:
            raise FeedLost("it is not open")
        return self._sql
