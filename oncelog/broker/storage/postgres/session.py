"""Connections to PostgreSQL, each with one statement in flight.

Owns: the choice of the host, which errors are a lost answer and which a refusal, and how long an answer may take. Does
not own: the loop on which coroutines run (`Coroutines`).
"""

import os
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from oncelog.broker.storage.postgres.asked import LOOK, SETTINGS, WISHES, NotAsAsked, check_session, search_path
from oncelog.broker.storage.shared.statements import RoundsLost
from oncelog.broker.storage.shared.tables import Failing, NewerTables, Refused, Unanswered
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Coroutines, Scheduler

T = TypeVar("T")
Ask = Callable[[asyncpg.Connection], Awaitable[T]]
"""A statement, given a connection."""
_CLOSE_S = 5
_ANSWER_MS = 15_000
_REFUSED = (
    asyncpg.ConfigurationLimitExceededError,
    asyncpg.DeadlockDetectedError,
    asyncpg.DiskFullError,
    asyncpg.LockNotAvailableError,
    asyncpg.OutOfMemoryError,
    asyncpg.QueryCanceledError,
    asyncpg.SerializationError,
)
"""Errors after which the statement is not committed, and may be when it is sent again."""
_LOST = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # a statement that was sent in the very turn in which its connection was lost
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,  # a server that ends says so beforehand
    asyncpg.TooManyConnectionsError,
    asyncpg.ReadOnlySQLTransactionError,  # it has become the standby of another
)
"""Errors after which the statement's outcome is unknown, or another server has to be tried."""


@dataclass(slots=True)
class Server:
    """Where the tables are."""

    dsn: str | None
    """The DSN; None for PostgreSQL's environment variables."""
    schema: str
    coroutines: Coroutines
    scheduler: Scheduler
    role: str = "primary"
    """The role that a host must have, as libpq's `target_session_attrs`."""
    connect_s: float = 10.0
    """The time that each host has. The system's resolver waits for five seconds until it asks its second name server:
    with less than that, no connection could be made as long as the first one is silent."""
    _served: str = field(default="", init=False)
    """The DSN of the host that was connected to last. It is tried first: to wait once for one that is gone is enough.
    """

    async def connect(self) -> asyncpg.Connection:
        """Connect to the first host that has the role. Raises NotAsAsked, asyncpg's errors, OSError."""
        failures: list[Exception] = []
        dsns = of_each_host(self.dsn or "postgresql://")
        for dsn in sorted(dsns, key=lambda each: each != self._served):
            try:
                connection = await self._connect(dsn)
            except TimeoutError as error:
                failures.append(TimeoutError(str(error) or f"no answer within {self.connect_s:g} s"))
            except (OSError, asyncpg.CannotConnectNowError, asyncpg.TargetServerAttributeNotMatched) as error:
                failures.append(error)
            else:
                self._served = dsn
                return connection
        # That one is a standby says nothing if another, which may be the primary, cannot be reached.
        raise min(failures, key=lambda error: isinstance(error, asyncpg.TargetServerAttributeNotMatched))

    async def _connect(self, dsn: str) -> asyncpg.Connection:
        connection = await asyncpg.connect(
            dsn,
            service=os.environ.get("PGSERVICE"),  # which the driver reads too late to use it
            timeout=self.connect_s,
            server_settings={**SETTINGS, **WISHES, "search_path": search_path(self.schema)},
            target_session_attrs=self.role,
        )
        is_as_asked = False
        try:
            check_session(self.schema, await connection.fetch(LOOK, timeout=self.connect_s))
            is_as_asked = True
        finally:
            if not is_as_asked:
                connection.terminate()
        return connection


def of_each_host(dsn: str) -> list[str]:
    """Return a DSN for each host that this one names before its path: the driver has one time limit for all of them,
    and would spend it on a first one that is silent, as a machine without power is. Raises ValueError."""
    parts = urlsplit(dsn)
    user, at, hosts = parts.netloc.rpartition("@")
    if "," not in hosts:
        return [dsn]
    return [urlunsplit(parts._replace(netloc=user + at + host)) for host in hosts.split(",")]


async def close_connection(connection: asyncpg.Connection) -> None:
    """Close the connection. The driver waits for the server; an error is ignored, as it closes its side either way."""
    with suppress(*_LOST):
        await connection.close(timeout=_CLOSE_S)


class Session:
    """One connection, made when it is needed."""

    def __init__(self, server: Server, *, answer_ms: int = _ANSWER_MS, on_connected: Ask[None] | None = None) -> None:
        """A statement that takes longer than `answer_ms` loses its connection: a machine that is gone does not answer.
        `on_connected` is run first on each connection."""
        self._server = server
        self._answer_ms = answer_ms
        self._on_connected = on_connected
        self._connection: asyncpg.Connection | None = None
        self._waiting: deque[tuple[Ask[Any], Completion[Any]]] = deque()

    def run(self, ask: Ask[T]) -> Completion[T]:
        """Run the statement after those that came before. Fails with Unanswered or OSError."""
        answered: Completion[T] = Completion()
        self._waiting.append((ask, answered))
        if len(self._waiting) == 1:
            self._send()
        return answered

    def _send(self) -> None:
        ask, answered = self._waiting[0]

        def on_answer(answer: Completion[Any]) -> None:
            self._waiting.popleft()
            if self._waiting:
                self._send()
            if answer.error is None:
                answered.complete(answer.result())
            else:
                answered.fail(answer.error)

        self._server.coroutines.run(self._asked(partial(self._answer, ask))).then(on_answer)

    async def _answer(self, ask: Ask[T], connection: asyncpg.Connection) -> T:
        # Not by a timeout of the driver: that would cancel the statement, and PostgreSQL answers a commit that was
        # cancelled while it waited for its standby as if the standby had it.
        deadline = self._server.scheduler.call_later(self._answer_ms, connection.terminate)
        try:
            return await ask(connection)
        finally:
            deadline.cancel()

    async def _asked(self, ask: Ask[T]) -> T:
        try:
            if self._connection is None or self._connection.is_closed():
                self._connection = await self._server.connect()
                if self._on_connected is not None:
                    await self._on_connected(self._connection)
            return await ask(self._connection)
        except (RoundsLost, NewerTables):
            raise
        except NotAsAsked as error:
            raise OSError(f"PostgreSQL: {error}") from error
        except _REFUSED as error:
            raise Refused(f"PostgreSQL: {error}") from error
        except _LOST as error:
            if self._connection is not None:
                self._connection.terminate()
            self._connection = None
            raise Unanswered(f"PostgreSQL: {str(error) or type(error).__name__}") from error
        except asyncpg.PostgresError as error:
            raise Failing(f"PostgreSQL: {error}") from error

    def run_now(self, ask: Ask[T]) -> T:
        """Run the statement over a connection of its own, blocking. Raises as `run` fails."""
        return self._server.coroutines.run_now(self._asked_alone(ask))

    async def _asked_alone(self, ask: Ask[T]) -> T:
        alone = Session(self._server)
        try:
            return await alone._asked(ask)
        finally:
            await alone.close()

    async def close(self) -> None:
        if self._connection is not None:
            await close_connection(self._connection)
