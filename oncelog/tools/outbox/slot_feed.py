"""Events from a logical slot: messages in the write-ahead log, and rows that were added to the table.

Owns: pgoutput's messages, the position of each end, the reports to the server, the deletion of rows that are in Kafka.
Does not own: the connection of the stream (`stream`), where to start (`position`).

The server sends a SQL transaction after its commit, whole, in the order of commits. It spills a large one to its disk,
and sends it as it is read, so that memory is bounded on both sides. Between transactions it says how far it has read
the log: everything before that has been sent.

Rows: a snapshot is taken, and then the end of the log; once the position is behind that end, all rows that the snapshot
sees have been relayed, and are deleted. So nothing has to be remembered of single rows, whatever is killed.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from struct import Struct
from typing import TYPE_CHECKING, Any

from oncelog.broker.storage.shared.tables import LARGEST_BYTES
from oncelog.tools.outbox.events import Committed, Event, Item, Texts, event_of_message, event_of_row
from oncelog.tools.outbox.feed import DELETION, Backlog, FeedLost, Place, lost
from oncelog.tools.outbox.position import FoundSlot, Origin, OutboxError, Position, lsn_of, lsn_text, start_at_slot
from oncelog.tools.outbox.sql import (
    PREFIX,
    check_server,
    connect,
    database_error,
    find_relay,
    next_generation,
    one,
    secret,
    slot_trouble,
)
from oncelog.tools.outbox.stream import ReplicationStream, StreamEnded

if TYPE_CHECKING:
    from psycopg import AsyncConnection

_REPORT_S = 5.0
"""How often this end reports to the server; wal_sender_timeout, a minute, ends a connection that is silent."""
_CLEAN_S = 1.0
_EPOCH_MS = 946_684_800_000
_BODY = 25
"""The bytes of a message's frame: what it is, two places in the log, a time."""
_BEGIN = Struct(">qqI")
_COMMIT = Struct(">Bqqq")
_MESSAGE = Struct(">Bq")
_KEEPALIVE = Struct(">qqB")
_INT = Struct(">i")
_COLUMNS = Struct(">h")
_PREFIX = PREFIX.encode()
_KEEP = """
with next as (select pg_snapshot_xmax(pg_current_snapshot())::text::bigint as xid),
whole as (select xid - ((xid - %s - 1) & 4294967295) - 1 as xid from next)
update oncelog.outbox set xid = null from whole where outbox.xid = whole.xid::text::xid8"""
"""The statement that keeps the rows of a SQL transaction, the last one whose id has these 32 bits, as in the log."""
_TAKEN_S = 30.0
"""How long to wait for the slot of a relay that was fenced, and may not know it yet."""


class SlotFeed:
    """`keep_s`: how long rows of the table stay after they are in Kafka; None: for good."""

    def __init__(self, dsn: str, name: str, keep_s: float | None = 0.0) -> None:
        self._dsn, self._name, self._keep_s = dsn, name, keep_s
        self._sql: AsyncConnection[Any] | None = None
        self._stream: ReplicationStream | None = None
        self._origin = Origin("", "", 0, 0)
        self._secret = b""
        self._encoding = "UTF8"
        """The encoding of the database, and of text that comes over the stream."""
        self._has_table = False
        self._transaction = self._xid = self._ordinal = 0
        self._time_ms = 0
        self._is_open = False
        """True between the beginning and the end of a SQL transaction."""
        self._last_event = self._received = self._stored = 0
        self._columns: dict[int, list[str]] = {}
        """The columns of the table, by the number that the server gives it."""
        self._has_stored = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self, stored: Position | None, *, goes_on: bool, counts: bool) -> Position:
        try:
            self._sql = await connect(self._dsn, self._name)
            self._stream = await ReplicationStream.connect(self._dsn, self._name)
            found = await self._look(stored, goes_on=goes_on)
        except (database_error(), StreamEnded) as error:
            raise lost(error) from error
        try:
            position = start_at_slot(stored, found)
        except OutboxError as error:
            if not goes_on or error.resume is None:
                raise
            position = error.resume
        if counts:
            position = await self._count(position)
        return position

    async def _count(self, position: Position) -> Position:
        try:
            generation = await next_generation(self._open_sql(), self._name)
        except database_error() as error:
            raise lost(error) from error
        return replace(position, origin=replace(position.origin, generation=generation))

    async def _look(self, stored: Position | None, *, goes_on: bool) -> FoundSlot:
        connection, stream = self._open_sql(), self._open_stream()
        await check_server(connection, is_logical=True)
        relay = await find_relay(connection, self._name)
        if relay is None or not relay.slot_lsn:
            raise OutboxError(f"no relay {self._name} is installed in this database: `oncelog outbox install DSN`")
        self._has_table = relay.carrier == "table"
        trouble = await slot_trouble(connection, self._name)
        if trouble is not None:
            until = f" after {trouble[1]}" if trouble[1] else ""
            why = "is gone" if trouble[0] == "gone" else f"was invalidated ({trouble[0]})"
            raise OutboxError(
                f"the slot {self._name} {why}: what was committed{until} and is not in Kafka is in no slot any more. "
                f"`oncelog outbox install --replace-slot` makes one that begins now, and `oncelog outbox run --go-on` "
                f"continues there"
            )
        row = await one(
            connection,
            "select current_database(), confirmed_flush_lsn::text, pg_current_wal_flush_lsn()::text from "
            "pg_replication_slots where slot_name = %s",
            [self._name],
        )
        self._secret = await secret(connection)
        self._encoding = connection.info.parameter_status("server_encoding") or "UTF8"
        system, timeline = await stream.identify()
        history = await stream.history(timeline)
        begins = history[-1].lsn if history else 0
        origin = Origin(system, row[0], relay.slot_lsn, timeline, begins, relay.generation)
        return FoundSlot(self._name, origin, lsn_of(row[1]), history, lsn_of(row[2]))

    async def keep_passed(self, place: Place) -> None:
        """Take the xid of its rows away, so that they are not taken for rows that are in Kafka (`_clean_often`)."""
        if place.xid is None:
            return
        try:
            await self._open_sql().execute(_KEEP, [place.xid])
        except database_error() as error:
            raise lost(error) from error

    async def start(self, position: Position) -> None:
        self._origin = position.origin
        self._last_event, self._stored = position.last_event, position.place
        self._transaction = position.place  # the server may begin before it, where the slot is, and says so
        end_s = time.monotonic() + _TAKEN_S
        while True:
            try:
                await self._open_stream().start(self._name, position.place)
                break
            except (StreamEnded, database_error()) as error:
                if "is active for PID" not in str(error) or time.monotonic() > end_s:
                    raise lost(error) from error
            await self._take_slot()
        self._tasks = [asyncio.create_task(self._report_often())]
        if self._has_table and self._keep_s is not None:
            self._tasks.append(asyncio.create_task(self._clean_often()))

    async def _take_slot(self) -> None:
        """Ends the connection of a relay that was fenced: it may wait for events, and learn it only then."""
        with suppress(database_error()):
            await self._open_sql().execute(
                "select pg_terminate_backend(active_pid) from pg_replication_slots where slot_name = %s", [self._name]
            )
        await asyncio.sleep(0.1)

    async def next(self, timeout_s: float) -> Sequence[Item]:
        for task in self._tasks:
            if task.done():
                task.result()
        try:
            messages = await self._open_stream().read(timeout_s)
        except StreamEnded as error:
            raise lost(error, self._place()) from error
        items: list[Item] = []
        for message in messages:
            if message[:1] == b"w":
                self._on_change(message, items)
            elif message[:1] == b"k":
                self._on_keepalive(message, items)
        return items

    def _place(self) -> Place:
        """Return the place of the next event, which the server may fail to send."""
        way = "look at the server's log, and at the publication oncelog_outbox"
        if not self._is_open:
            return Place(f"what was committed after {lsn_text(self._received or self._stored)}", way)
        kept = ". Its rows stay in oncelog.outbox (xid is null)" if self._has_table else ""
        position = Position(self._origin, self._transaction + 1, self._last_event, self._time_ms)
        return Place(
            f"event {self._ordinal + 1} of the SQL transaction at {lsn_text(self._transaction)}",
            "`oncelog outbox run --go-on` continues behind this SQL transaction: what it published is not written, "
            f"none of it{kept}",
            position,
            self._xid if self._has_table else None,
        )

    def _on_keepalive(self, message: bytes, items: list[Item]) -> None:
        lsn, now_us, wants_report = _KEEPALIVE.unpack_from(message, 1)
        if not self._is_open and lsn > self._transaction:
            self._transaction = self._received = lsn
            self._move(lsn, _time_ms(now_us), items)
        if wants_report:
            self._report()

    def _move(self, place: int, time_ms: int, items: list[Item]) -> None:
        """Move the position without an event: one such end is enough."""
        moved = Committed(Position(self._origin, place, self._last_event, time_ms), time_ms)
        if items and isinstance(items[-1], Committed):
            items[-1] = Committed(moved.position, items[-1].time_ms)
        else:
            items.append(moved)

    def _on_change(self, message: bytes, items: list[Item]) -> None:
        kind = message[_BODY : _BODY + 1]
        at = _BODY + 1
        if kind == b"M":
            event = self._event_of_message(message, at)
        elif kind == b"I":
            event = self._event_of_row(message, at)
        elif kind == b"B":
            self._transaction, committed_us, self._xid = _BEGIN.unpack_from(message, at)
            self._time_ms, self._ordinal, self._is_open = _time_ms(committed_us), 0, True
            return
        elif kind == b"C":
            _, _, end, _ = _COMMIT.unpack_from(message, at)
            self._is_open, self._transaction, self._received = False, end, end
            if self._ordinal:
                self._last_event = end
                items.append(Committed(Position(self._origin, end, end, self._time_ms), self._time_ms))
            else:
                self._move(end, self._time_ms, items)
            return
        elif kind == b"R":
            self._on_relation(message, at)
            return
        else:
            return
        if event is not None:
            self._ordinal += 1
            items.append(event)

    def _event_of_message(self, message: bytes, at: int) -> Event | None:
        prefix_at = at + _MESSAGE.size
        prefix_end = message.index(b"\0", prefix_at)
        if message[prefix_at:prefix_end] != _PREFIX:
            return None
        content_at = prefix_end + 1 + _INT.size
        if not message.startswith(self._secret, content_at):
            return None  # from a role without the secret, which may have no right to produce
        content = message[content_at + len(self._secret) :]
        return event_of_message(self._transaction, self._ordinal, content, self._time_ms)

    # --- the table ----------------------------------------------------------------------------------------------------

    def _on_relation(self, message: bytes, at: int) -> None:
        (number,) = _INT.unpack_from(message, at)
        schema, _, rest = message[at + _INT.size :].partition(b"\0")
        name, _, rest = rest.partition(b"\0")
        if (schema, name) != (b"oncelog", b"outbox"):
            self._columns.pop(number, None)
            return
        (count,) = _COLUMNS.unpack_from(rest, 1)
        rest = rest[1 + _COLUMNS.size :]
        columns = []
        for _ in range(count):
            column, _, rest = rest[1:].partition(b"\0")
            columns.append(column.decode())
            rest = rest[2 * _INT.size :]
        self._columns[number] = columns

    def _event_of_row(self, message: bytes, at: int) -> Event | None:
        columns = self._columns.get(_INT.unpack_from(message, at)[0])
        if columns is None:
            return None
        row = _row_of(message, at + _INT.size + 1 + _COLUMNS.size, columns)
        key, value, headers = row["key"], row["value"], row["headers"]
        size = sum(len(each) for each in (key, value, headers) if each is not None)
        number = int.from_bytes(row["id"] or b"", signed=True)
        partition = None if row["partition"] is None else int.from_bytes(row["partition"], signed=True)
        identity = self._transaction, self._ordinal
        if size > LARGEST_BYTES:
            return event_of_row(Texts(row["topic"], None, self._encoding), identity, number, size, self._time_ms)
        texts = Texts(row["topic"], headers[1:] if headers else None, self._encoding)  # behind the version of jsonb
        return event_of_row(texts, identity, number, size, self._time_ms, key, value, partition)

    async def _clean_often(self) -> None:
        """Delete rows that are in Kafka, for as long as this feed is read."""
        try:
            connection = await connect(self._dsn, self._name)
            try:
                while True:
                    row = await one(connection, "select pg_current_snapshot()::text, pg_current_wal_insert_lsn()::text")
                    snapshot, end = row[0], lsn_of(row[1])
                    await self._until_stored(end)
                    # Rows without an xid are in no topic, and stay: they were there before the slot (`sql.install`),
                    # or were passed by.
                    await connection.execute(
                        "delete from oncelog.outbox where pg_visible_in_snapshot(xid, %s::pg_snapshot)"
                        " and at <= now() - %s",
                        [snapshot, timedelta(seconds=self._keep_s or 0.0)],
                    )
                    await asyncio.sleep(max(_CLEAN_S, min(60.0, self._keep_s or 0.0)))
            finally:
                await connection.close()
        except database_error() as error:
            raise lost(error, DELETION) from error

    async def _until_stored(self, place: int) -> None:
        while self._stored < place:
            self._has_stored.clear()
            await self._has_stored.wait()

    # --- reports to the server ----------------------------------------------------------------------------------------

    async def on_stored(self, position: Position) -> None:
        self._stored = position.place
        self._has_stored.set()
        self._report()

    async def _report_often(self) -> None:
        while True:
            await asyncio.sleep(_REPORT_S)
            self._report()

    def _report(self) -> None:
        try:
            self._open_stream().report(max(self._stored, self._received), self._stored)
        except StreamEnded as error:
            raise FeedLost(str(error)) from error

    async def backlog(self) -> Backlog:
        try:
            row = await one(
                self._open_sql(),
                "select (pg_current_wal_flush_lsn() - %s::pg_lsn)::bigint, (pg_current_wal_flush_lsn() - "
                "restart_lsn)::bigint from pg_replication_slots where slot_name = %s",
                [lsn_text(self._stored), self._name],
            )
        except database_error() as error:
            raise lost(error) from error
        return Backlog() if row is None else Backlog(size_bytes=max(0, row[0]), held_bytes=row[1])

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for each in (self._stream, self._sql):
            if each is not None:
                with suppress(database_error()):
                    await each.close()

    def _open_sql(self) -> "AsyncConnection[Any]":
        if self._sql is None:
            raise FeedLost("it is not open")
        return self._sql

    def _open_stream(self) -> ReplicationStream:
        if self._stream is None:
            raise FeedLost("it is not open")
        return self._stream


def _row_of(message: bytes, place: int, columns: Sequence[str]) -> dict[str, bytes | None]:
    """Return the columns as the server's types send them."""
    row: dict[str, bytes | None] = {}
    for name in columns:
        is_there = message[place : place + 1] == b"b"
        place += 1
        row[name] = None
        if is_there:
            (length,) = _INT.unpack_from(message, place)
            place += _INT.size
            row[name] = message[place : place + length]
            place += length
    return row


def _time_ms(microseconds: int) -> int:
    return _EPOCH_MS + microseconds // 1000
