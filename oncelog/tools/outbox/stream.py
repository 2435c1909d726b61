"""A connection of PostgreSQL's replication protocol, on the event loop.

Owns: its commands, the messages of its stream, the reports to the server. Does not own: what the messages mean
(`slot_feed`). psycopg connects; its upper half does not speak this protocol, so the rest uses libpq as psycopg offers
it. Nothing is read ahead: until the next call, the server waits.
"""

import asyncio
import time
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING, Any, Self

from oncelog.tools.outbox.position import Switch, Worded, history_of, lsn_text
from oncelog.tools.outbox.sql import PUBLICATION, connect, database_error

if TYPE_CHECKING:
    from psycopg import AsyncConnection

_REPORT = Struct(">cqqqqB")
_EPOCH_US = 946_684_800_000_000
"""PostgreSQL's time begins in 2000."""
_MOST_MESSAGES, _MOST_BYTES = 4_000, 4 << 20


@dataclass(eq=False)
class StreamEnded(Worded):
    """Raised if the server ends the stream or the connection; the message and its SQLSTATE are the server's."""

    sqlstate: str = ""


class ReplicationStream:
    def __init__(self, connection: "AsyncConnection[Any]") -> None:
        self._connection = connection
        self._pg = connection.pgconn
        self._end: StreamEnded | None = None
        """Raised by the next read: what was there before it is handed over first."""

    @classmethod
    async def connect(cls, dsn: str, name: str) -> Self:
        """Text comes as the bytes that the database has: a conversion that fails would end each stream at the same
        place. Raises psycopg.OperationalError."""
        return cls(await connect(dsn, name, encoding="SQL_ASCII", replication="database"))

    async def close(self) -> None:
        await self._connection.close()

    async def identify(self) -> tuple[str, int]:
        """Return the system identifier and the timeline."""
        row = (await self._rows("IDENTIFY_SYSTEM"))[0]
        return row[0], int(row[1])

    async def history(self, timeline: int) -> list[Switch]:
        """Return the timelines of which this one comes."""
        return [] if timeline == 1 else history_of((await self._rows(f"TIMELINE_HISTORY {timeline}"))[0][1])

    async def start(self, slot: str, lsn: int) -> None:
        """Raises StreamEnded if the server refuses."""
        command = (
            f'START_REPLICATION SLOT "{slot}" LOGICAL {lsn_text(lsn)} '
            f"(proto_version '1', publication_names '{PUBLICATION}', messages 'true', binary 'true')"
        )
        await self._ask(command)

    async def read(self, timeout_s: float) -> list[bytes]:
        """Return the messages that are there, and wait for the first; none after `timeout_s`. Raises StreamEnded."""
        messages = self._there()
        if not messages and await self._readable(timeout_s):
            self._consume()
            messages = self._there()
        return messages

    def report(self, received: int, done: int) -> None:
        """Report to the server how far this end has read and finished, and that it is alive. Raises StreamEnded."""
        now_us = time.time_ns() // 1000 - _EPOCH_US
        try:
            self._pg.put_copy_data(_REPORT.pack(b"r", received, done, done, now_us, 0))
            self._pg.flush()
        except database_error() as error:
            raise StreamEnded(str(error)) from error

    def _there(self) -> list[bytes]:
        found: list[bytes] = []
        size_bytes = 0
        while len(found) < _MOST_MESSAGES and size_bytes < _MOST_BYTES:
            if self._end is not None:
                raise self._end
            try:
                size, data = self._pg.get_copy_data(1)
            except database_error() as error:
                size, data = -1, str(error)
            if size == 0:
                break
            if size < 0:
                self._end = self._problem(str(data))
                if found:
                    break
                continue
            found.append(bytes(data))
            size_bytes += size
        return found

    def _problem(self, text: str) -> StreamEnded:
        result = self._pg.get_result()
        return _ended(result, text or "the server has ended the stream")

    def _consume(self) -> None:
        try:
            self._pg.consume_input()
        except database_error() as error:
            raise StreamEnded(" ".join(str(error).split())) from error

    async def _readable(self, timeout_s: float | None) -> bool:
        loop = asyncio.get_running_loop()
        ready = loop.create_future()
        socket = self._pg.socket
        loop.add_reader(socket, lambda: None if ready.done() else ready.set_result(None))
        try:
            await asyncio.wait((ready,), timeout=timeout_s)
            return ready.done()
        finally:
            loop.remove_reader(socket)

    async def _ask(self, command: str) -> Any:
        from psycopg.pq import ExecStatus

        self._pg.send_query(command.encode())
        self._pg.flush()
        while self._pg.is_busy():
            await self._readable(None)
            self._consume()
        result = self._pg.get_result()
        if result is None or result.status not in (ExecStatus.COPY_BOTH, ExecStatus.TUPLES_OK):
            raise _ended(result, "no answer")
        return result

    async def _rows(self, command: str) -> list[list[str]]:
        result = await self._ask(command)
        rows = [
            [(result.get_value(row, column) or b"").decode(errors="replace") for column in range(result.nfields)]
            for row in range(result.ntuples)
        ]
        while self._pg.get_result() is not None:
            pass
        return rows


def _ended(result: Any, otherwise: str) -> StreamEnded:
    """Return what a result says of the end."""
    from psycopg.pq import DiagnosticField

    if result is None:
        return StreamEnded(otherwise)
    said = " ".join(result.error_message.decode(errors="replace").split())
    return StreamEnded(said or otherwise, (result.error_field(DiagnosticField.SQLSTATE) or b"").decode())
