"""Connections to PostgreSQL, each with one statement in flight.

Owns: what is a lost answer, and what a refusal. Does not own: the loop on which coroutines run (`Coroutines`).
"""

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

import asyncpg

from oncelog.broker.storage.shared.tables import Unanswered
from oncelog.broker.turns.completion import Completion

T = TypeVar("T")
Ask = Callable[[asyncpg.Connection], Awaitable[T]]
"""A statement, given a connection."""
_SETTINGS = {
    "application_name": "oncelog",
    "statement_timeout": "30s",
    "default_transaction_isolation": "read committed",
}
_CONNECT_S = 5


class Coroutines(Protocol):
    """Where coroutines run."""

    def run(self, coroutine: Coroutine[Any, Any, T]) -> Completion[T]: ...

    def run_now(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """On a loop of its own, while nothing else runs on this thread."""


class Session:
    """One connection, made when it is needed."""

    def __init__(self, dsn: str, schema: str, coroutines: Coroutines) -> None:
        self._dsn = dsn
        self._schema = schema
        self._coroutines = coroutines
        self._connection: asyncpg.Connection | None = None
        self._waiting: deque[tuple[Ask[Any], Completion[Any]]] = deque()

    def run(self, ask: Ask[T]) -> Completion[T]:
        """After the statements that came before. Fails with Unanswered or OSError."""
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

        self._coroutines.run(self._asked(ask)).then(on_answer)

    async def _asked(self, ask: Ask[T]) -> T:
        try:
            if self._connection is None or self._connection.is_closed():
                self._connection = await self._connected()
            return await ask(self._connection)
        except _LOST as error:
            if self._connection is not None:
                self._connection.terminate()
            self._connection = None
            raise Unanswered(f"PostgreSQL: {error}") from error
        except asyncpg.PostgresError as error:
            raise OSError(f"PostgreSQL: {error}") from error

    async def _connected(self) -> asyncpg.Connection:
        settings = {**_SETTINGS, "search_path": f'"{self._schema}"'}
        return await asyncpg.connect(self._dsn, timeout=_CONNECT_S, server_settings=settings)

    def run_now(self, ask: Ask[T]) -> T:
        """Over a connection of its own. Raises as `run` fails."""
        return self._coroutines.run_now(self._asked_alone(ask))

    async def _asked_alone(self, ask: Ask[T]) -> T:
        alone = Session(self._dsn, self._schema, self._coroutines)
        try:
            return await alone._asked(ask)
        finally:
            if alone._connection is not None:
                await alone._connection.close(timeout=_CONNECT_S)

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close(timeout=_CONNECT_S)


_LOST = (
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # a statement that was sent in the very turn in which its connection was lost
    OSError,
    TimeoutError,
)
"""Nobody knows what has become of the statement; a server that ends says so beforehand."""
