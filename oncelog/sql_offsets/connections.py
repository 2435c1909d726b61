"""Connections of several libraries, by which the same statements are executed.

Owns: which libraries can be used, and how a statement, its values and its result look in each; whether a connection is
in a transaction. Does not own: the statements (`table`). Invariants: a library is recognised by the names of the
connection's class and module, so that none is imported that the program does not use; a connection that commits each
statement by itself is found before anything is executed.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from inspect import isawaitable
from typing import Any, NamedTuple

from oncelog.client.values.errors import ConfigError, InvalidState

Value = int | str
Connect = Callable[[], object]
"""Returns a connection as a context manager: `pool.acquire`, `pool.connection`, `engine.connect`, ..."""


class Result(NamedTuple):
    """The result of a statement: the rows of a select, the number of rows of an update."""

    rows: Sequence[Any]
    row_count: int


class Library(NamedTuple):
    """How one class of connections is used."""

    is_async: bool
    placeholder: str
    """The placeholder of a value in a statement; {} is its number, from 1."""
    execute: Callable[[Any, str, Sequence[Value]], Awaitable[Result]]
    commits_alone: Callable[[Any], Awaitable[bool]]
    """Whether a statement that is executed now would be a transaction of its own."""
    begin: str
    """How a program begins a transaction."""


def library_of(connection: object) -> Library:
    """Return how to use this connection. Raises ConfigError."""
    for kind in type(connection).__mro__:
        found = _LIBRARIES.get((kind.__module__.partition(".")[0], kind.__name__))
        if found is not None:
            return found
    kind = type(connection)
    known = "a connection of asyncpg, psycopg 3 or sqlite3, or a connection or session of SQLAlchemy 2"
    raise ConfigError(f"offsets are not kept by a {kind.__module__}.{kind.__qualname__}", hint=f"pass {known}")


def is_postgres(connection: object) -> bool:
    """Return whether this is a connection to PostgreSQL."""
    find: Any = getattr(connection, "get_bind", None)
    dialect = getattr(connection if find is None else find(), "dialect", None)
    return library_of(connection) is not _SQLITE if dialect is None else dialect.name == "postgresql"


async def check_transaction(library: Library, connection: object) -> None:
    """Raise InvalidState if what is executed now is committed by itself."""
    if await library.commits_alone(connection):
        text = "this connection commits each statement by itself: the position would not be in your transaction"
        raise InvalidState(text, hint=library.begin)


@asynccontextmanager
async def connected(connect: Connect) -> AsyncIterator[object]:
    """Open one of the program's connections for a block. Raises ConfigError."""
    given: Any = connect()
    if isawaitable(given) and not hasattr(given, "__aenter__"):
        given = await given
    if hasattr(given, "__aenter__"):
        async with given as connection:
            yield connection
    elif hasattr(given, "__enter__"):
        with given as connection:
            yield connection
    else:
        text = f"connect must return a context manager of a connection, not a {type(given).__name__}"
        raise ConfigError(text, hint="pool.acquire, pool.connection, engine.connect, lambda: closing(...)")


async def commit(connection: object) -> None:
    """Commit what was executed by a connection of our own. asyncpg has done so after each statement."""
    method = getattr(connection, "commit", None)
    if method is not None:
        await _result_of(method())


async def _result_of(given: Any) -> Any:
    """Wait for what an asynchronous connection returned; a blocking one has returned the result itself."""
    return await given if isawaitable(given) else given


# --- asyncpg ----------------------------------------------------------------------------------------------------------


async def _execute_asyncpg(connection: Any, statement: str, values: Sequence[Value]) -> Result:
    if statement.startswith("select"):
        return Result(await connection.fetch(statement, *values), -1)
    command = await connection.execute(statement, *values)  # "UPDATE 1"
    count = command.rpartition(" ")[2]
    return Result((), int(count) if count.isdigit() else -1)


async def _asyncpg_commits_alone(connection: Any) -> bool:
    return not connection.is_in_transaction()


# --- psycopg ----------------------------------------------------------------------------------------------------------


async def _execute_psycopg(connection: Any, statement: str, values: Sequence[Value]) -> Result:
    import psycopg

    # Not by connection.cursor(), whose rows and placeholders are what the program has chosen.
    is_async = isinstance(connection, psycopg.AsyncConnection)
    kind: Any = psycopg.AsyncCursor if is_async else psycopg.Cursor
    cursor = kind(connection, row_factory=psycopg.rows.tuple_row)
    try:
        await _result_of(cursor.execute(statement, values))
        rows = await _result_of(cursor.fetchall()) if cursor.description else ()
        return Result(rows, cursor.rowcount)
    finally:
        await _result_of(cursor.close())


async def _psycopg_commits_alone(connection: Any) -> bool:
    return bool(connection.autocommit and connection.info.transaction_status.name == "IDLE")


# --- SQLAlchemy -------------------------------------------------------------------------------------------------------


async def _execute_sqlalchemy(connection: Any, statement: str, values: Sequence[Value]) -> Result:
    from sqlalchemy import text

    named = {f"value_{place}": value for place, value in enumerate(values, 1)}
    result = await _result_of(connection.execute(text(statement), named))
    return Result(result.all() if result.returns_rows else (), result.rowcount)


async def _sqlalchemy_commits_alone(connection: Any) -> bool:
    """SQLAlchemy begins a transaction by itself, unless its isolation level is AUTOCOMMIT."""
    connection = getattr(connection, "sync_connection", connection)
    level = connection.get_execution_options().get("isolation_level")
    # Of create_engine(isolation_level=...), which no option shows.
    return (level or getattr(connection.dialect, "_on_connect_isolation_level", None)) == "AUTOCOMMIT"


async def _session_commits_alone(session: Any) -> bool:
    return await _sqlalchemy_commits_alone(await _result_of(session.connection()))


# --- sqlite3 ----------------------------------------------------------------------------------------------------------


async def _execute_sqlite(connection: Any, statement: str, values: Sequence[Value]) -> Result:
    cursor = connection.cursor()
    try:
        cursor.row_factory = None  # the program's own may not return tuples
        cursor.execute(statement, values)
        return Result(cursor.fetchall(), cursor.rowcount)
    finally:
        cursor.close()


async def _sqlite_commits_alone(connection: Any) -> bool:
    """Whether no transaction is open, and an update begins none: `autocommit=True` (Python 3.12), or by the older rules
    `isolation_level=None`."""
    if connection.in_transaction:
        return False
    autocommit = getattr(connection, "autocommit", -1)
    return bool(autocommit is True or (autocommit is not False and connection.isolation_level is None))


# ----------------------------------------------------------------------------------------------------------------------

_ASYNCPG = Library(True, "${}", _execute_asyncpg, _asyncpg_commits_alone, "async with connection.transaction():")
_PSYCOPG = Library(False, "%s", _execute_psycopg, _psycopg_commits_alone, "with connection.transaction():")
_SQLALCHEMY = Library(False, ":value_{}", _execute_sqlalchemy, _sqlalchemy_commits_alone, "with engine.begin():")
_SQLITE = Library(False, "?", _execute_sqlite, _sqlite_commits_alone, 'connection.execute("begin") first')
_SESSION = _SQLALCHEMY._replace(commits_alone=_session_commits_alone, begin="with Session.begin():")

_LIBRARIES: Mapping[tuple[str, str], Library] = {
    ("asyncpg", "Connection"): _ASYNCPG,
    ("asyncpg", "PoolConnectionProxy"): _ASYNCPG,
    ("psycopg", "Connection"): _PSYCOPG,
    ("psycopg", "AsyncConnection"): _PSYCOPG._replace(is_async=True, begin="async with connection.transaction():"),
    ("sqlalchemy", "Connection"): _SQLALCHEMY,
    ("sqlalchemy", "AsyncConnection"): _SQLALCHEMY._replace(is_async=True, begin="async with engine.begin():"),
    ("sqlalchemy", "Session"): _SESSION,
    ("sqlalchemy", "AsyncSession"): _SESSION._replace(is_async=True, begin="async with Session.begin():"),
    ("sqlite3", "Connection"): _SQLITE,
}
"""The libraries by the module and the name of a connection's class, or of one of its base classes."""
