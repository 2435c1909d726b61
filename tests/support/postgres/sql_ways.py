"""The ways into a database by which programs keep offsets: each library with the transactions that its users write.

Owns: connections, transactions, and a table of results. Each way skips the test where its library is not installed.
"""

import sqlite3
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    closing,
    contextmanager,
)
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest

from oncelog.sql_offsets.connections import library_of

T = TypeVar("T")


@dataclass(frozen=True)
class Way:
    """How one kind of program reaches its database: `connect` for `SqlOffsets`, and its own transactions."""

    connect: Callable[[], object]
    transaction: Callable[[], AbstractAsyncContextManager[Any]]
    alone: Callable[[], AbstractAsyncContextManager[Any]]
    """A connection that commits each statement by itself."""


@dataclass(frozen=True)
class BlockingWay:
    connect: Callable[[], object]
    transaction: Callable[[], AbstractContextManager[Any]]
    alone: Callable[[], AbstractContextManager[Any]]


def now(work: Coroutine[Any, Any, T]) -> T:
    """The result of what waits for nothing, as no blocking connection does."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    raise AssertionError("it waited")


async def execute(connection: Any, statement: str, *values: int | str) -> Sequence[Any]:
    """Execute a statement, whose values are `{}`, by whatever connection it is."""
    library = library_of(connection)
    places = [library.placeholder.format(place) for place in range(1, len(values) + 1)]
    return (await library.execute(connection, statement.format(*places), values)).rows


def sqlite(path: str) -> Iterator[BlockingWay]:
    def connect(**options: Any) -> AbstractContextManager[sqlite3.Connection]:
        return closing(sqlite3.connect(path, **options))

    @contextmanager
    def transaction() -> Iterator[sqlite3.Connection]:
        with connect() as connection, connection:
            yield connection

    yield BlockingWay(connect, transaction, lambda: connect(isolation_level=None))


def blocking_psycopg(dsn: str) -> Iterator[BlockingWay]:
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")

    def connect(**options: Any) -> Any:
        return psycopg.connect(dsn, **options)

    yield BlockingWay(connect, connect, lambda: connect(autocommit=True))


def blocking_sqlalchemy(dsn: str) -> Iterator[BlockingWay]:
    sqlalchemy = pytest.importorskip("sqlalchemy", reason="SQLAlchemy is not installed")
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    engine = sqlalchemy.create_engine(_url(dsn, "psycopg"))
    alone = sqlalchemy.create_engine(_url(dsn, "psycopg"), isolation_level="AUTOCOMMIT")
    yield BlockingWay(engine.connect, engine.begin, alone.connect)
    engine.dispose()
    alone.dispose()


def blocking_session(dsn: str) -> Iterator[BlockingWay]:
    sqlalchemy = pytest.importorskip("sqlalchemy", reason="SQLAlchemy is not installed")
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    from sqlalchemy.orm import sessionmaker

    engine = sqlalchemy.create_engine(_url(dsn, "psycopg"))
    session = sessionmaker(engine)
    alone = sessionmaker(engine.execution_options(isolation_level="AUTOCOMMIT"))
    yield BlockingWay(session, session.begin, alone)
    engine.dispose()


async def asyncpg_pool(dsn: str) -> AsyncIterator[Way]:
    asyncpg = pytest.importorskip("asyncpg", reason="asyncpg is not installed")
    async with asyncpg.create_pool(dsn, min_size=0) as pool:

        @asynccontextmanager
        async def transaction() -> AsyncIterator[Any]:
            async with pool.acquire() as connection, connection.transaction():
                yield connection

        yield Way(pool.acquire, transaction, pool.acquire)


async def psycopg_async(dsn: str) -> AsyncIterator[Way]:
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")

    async def connect() -> Any:
        return await psycopg.AsyncConnection.connect(dsn)

    @asynccontextmanager
    async def transaction() -> AsyncIterator[Any]:
        async with await connect() as connection:
            yield connection

    yield Way(connect, transaction, _psycopg_alone(dsn))


async def psycopg_async_with_blocks(dsn: str) -> AsyncIterator[Way]:
    """psycopg's asynchronous connections with autocommit, as pools use them; rows are dicts."""
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    from psycopg.rows import dict_row

    @asynccontextmanager
    async def connect() -> AsyncIterator[Any]:
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True, row_factory=dict_row) as connection:
            yield connection

    @asynccontextmanager
    async def transaction() -> AsyncIterator[Any]:
        async with connect() as connection, connection.transaction():
            yield connection

    yield Way(connect, transaction, _psycopg_alone(dsn))


def _psycopg_alone(dsn: str) -> Callable[[], AbstractAsyncContextManager[Any]]:
    import psycopg

    @asynccontextmanager
    async def alone() -> AsyncIterator[Any]:
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
            yield connection

    return alone


async def sqlalchemy_asyncpg(dsn: str) -> AsyncIterator[Way]:
    pytest.importorskip("asyncpg", reason="asyncpg is not installed")
    async for engine, alone in _engines(_url(dsn, "asyncpg")):
        yield Way(engine.connect, engine.begin, alone.connect)


async def sqlalchemy_psycopg(dsn: str) -> AsyncIterator[Way]:
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    async for engine, alone in _engines(_url(dsn, "psycopg")):
        yield Way(engine.begin, engine.begin, alone.connect)


async def sqlalchemy_session(dsn: str) -> AsyncIterator[Way]:
    pytest.importorskip("asyncpg", reason="asyncpg is not installed")
    async for engine, alone in _engines(_url(dsn, "asyncpg")):
        from sqlalchemy.ext.asyncio import async_sessionmaker

        session = async_sessionmaker(engine)
        yield Way(session, session.begin, async_sessionmaker(alone))


async def _engines(url: str) -> AsyncIterator[tuple[Any, Any]]:
    pytest.importorskip("sqlalchemy", reason="SQLAlchemy is not installed")
    from sqlalchemy.ext.asyncio import create_async_engine

    engine, alone = create_async_engine(url), create_async_engine(url, isolation_level="AUTOCOMMIT")
    yield engine, alone
    await engine.dispose()
    await alone.dispose()


def _url(dsn: str, driver: str) -> str:
    return dsn.replace("postgresql://", f"postgresql+{driver}://")


ASYNC_WAYS: Mapping[str, Callable[[str], AsyncIterator[Way]]] = {
    "asyncpg": asyncpg_pool,
    "psycopg": psycopg_async,
    "psycopg with blocks": psycopg_async_with_blocks,
    "SQLAlchemy over asyncpg": sqlalchemy_asyncpg,
    "SQLAlchemy over psycopg": sqlalchemy_psycopg,
    "SQLAlchemy's session": sqlalchemy_session,
}
BLOCKING_WAYS: Mapping[str, Callable[[str], Iterator[BlockingWay]]] = {
    "sqlite3": sqlite,
    "psycopg": blocking_psycopg,
    "SQLAlchemy": blocking_sqlalchemy,
    "SQLAlchemy's session": blocking_session,
}
