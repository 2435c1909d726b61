"""The checks of a PostgreSQL at a start, and the schema.

Owns: the schema and its upgrades; refusals with a message that says what to do. Does not own: the lease
(`storage.shared.lease`).
"""

import re
import ssl
from contextlib import suppress
from typing import NamedTuple

import asyncpg

from oncelog.broker.storage.postgres.asked import NotAsAsked, check_name, check_promise, loss_by, quoted
from oncelog.broker.storage.postgres.dsn import missing_file, missing_service
from oncelog.broker.storage.postgres.owners import OF_BROKER, question, stranger_of
from oncelog.broker.storage.postgres.produce import functions, into_outbox
from oncelog.broker.storage.postgres.schema import LOCK_VERSION, VERSIONS
from oncelog.broker.storage.postgres.session import Server, close_connection

_OLDEST = 130000
_MADE = re.compile(r"create (?:table|view) (\w+)")
_FACTS = """
select current_setting('server_version'), current_setting('server_version_num')::int, current_setting('fsync'),
current_setting('synchronous_commit'), current_setting('synchronous_standby_names'), current_database(),
current_user, pg_is_in_recovery()
"""


class Unusable(Exception):
    """The server or schema cannot be used; the message says what to do."""


class Unreachable(Unusable):
    """The server does not answer for now."""


class Found(NamedTuple):
    """The server, and the settings on which this broker's promises rest."""

    server_version: str
    version_number: int
    fsync: str
    synchronous_commit: str
    standby_names: str
    database: str
    user: str
    is_standby: bool

    @property
    def promise(self) -> str:
        """Return what acknowledged records survive, in words for an operator."""
        if (loss := loss_by(self.fsync, self.synchronous_commit)) is not None:
            return loss
        if not self.standby_names or self.synchronous_commit == "local":
            return (
                "acknowledged is on the disk of one PostgreSQL; the promotion of a standby may lose what was last "
                "(no synchronous standby)"
            )
        if self.synchronous_commit == "remote_write":
            return (
                f"acknowledged is on the disk of PostgreSQL, and in the memory of its synchronous standbys "
                f"({self.standby_names})"
            )
        return f"acknowledged is on the disk of PostgreSQL and of its synchronous standbys ({self.standby_names})"


async def prepare(server: Server, *, may_lose: bool) -> Found:
    """Check the server, and make the schema or bring it up to date. `may_lose` accepts a server that acknowledges
    commits that a crash may lose. Raises Unusable; Unreachable if the connection ends meanwhile."""
    connection = await connect(server)
    try:
        found = Found(*await connection.fetchrow(_FACTS))
        _check(found, may_lose=may_lose)
        await _check_sessions(server, connection)
        await _check_room(connection)
        await _make_schema(connection, server.schema, found)
    except _REFUSED as error:
        has_ended = connection.is_closed() or isinstance(error, asyncpg.OperatorInterventionError)
        raise (Unreachable if has_ended else Unusable)(f"{error}.") from error
    finally:
        await close_connection(connection)
    return found


async def connect(server: Server) -> asyncpg.Connection:
    """Connect to the server. Raises Unusable with a message that says what to do."""
    if (missing := missing_service(server.dsn)) is not None:
        raise Unusable(missing)
    try:
        check_name(server.schema)
        return await server.connect()
    except NotAsAsked as error:
        raise Unusable(str(error)) from error
    except asyncpg.CannotConnectNowError as error:
        raise Unreachable(f"{error}.") from error
    except asyncpg.TooManyConnectionsError as error:
        raise Unreachable(f"{error}; a broker needs {_CONNECTIONS}: {_MORE_CONNECTIONS}") from error
    except _REFUSED as error:
        if isinstance(error, OSError) and (missing := missing_file(server.dsn)) is not None:
            raise Unusable(missing) from error
        if isinstance(error, ConnectionError) and "rejected SSL upgrade" in str(error):
            raise Unusable(_NO_TLS) from error
        is_of_network = isinstance(error, OSError | TimeoutError) and not isinstance(error, ssl.SSLError)
        if is_of_network and getattr(error, "filename", None) is None:  # else it is a certificate's
            raise Unreachable(f"{error}; is PostgreSQL running there?") from error
        raise Unusable(_of_connection(error)) from error


async def look(server: Server, connection: asyncpg.Connection) -> None:
    """Check that there are tables of this version. Raises Unusable."""
    schema, user = server.schema, quoted(await connection.fetchval("select current_user"))
    await _check_owners(connection, schema, reads=True)
    try:
        known = None
        if await connection.fetchval("select to_regclass($1) is not null", f"{quoted(schema)}.oncelog_schema"):
            known = await connection.fetchval("select max(version) from oncelog_schema")
    except asyncpg.InsufficientPrivilegeError as error:
        raise Unusable(
            f"{error}; to read it {user} needs `grant usage on schema {quoted(schema)} to {user}` and "
            f"`grant select on all tables in schema {quoted(schema)} to {user}`."
        ) from error
    if known is None:
        raise Unusable("there is no broker's data in it: name another one with --schema.")
    if known > len(VERSIONS):
        raise Unusable(_newer(schema, known))
    if known < len(VERSIONS):
        raise Unusable(
            f"it has version {known}, and this release reads {len(VERSIONS)}: start `oncelog serve` "
            "of this release on it once."
        )


def _newer(schema: str, version: int) -> str:
    return (
        f"its schema {schema} has version {version}, and this release knows {len(VERSIONS)}: a newer one has made it. "
        "Upgrade this one, or name another schema."
    )


_REFUSED = (
    OSError,
    TimeoutError,
    ValueError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)


def _of_connection(error: BaseException) -> str:
    match error:
        case ssl.SSLError():  # a ValueError, too
            return f"{error}; sslrootcert, or PGSSLROOTCERT, names who signed its certificate."
        case asyncpg.ClientConfigurationError() if "root certificate file" in str(error):
            return (
                "sslmode=verify-full and verify-ca need the certificate of who signed the server's: name its file with "
                "sslrootcert in the DSN, or PGSSLROOTCERT."
            )
        case asyncpg.ClientConfigurationError() | ValueError():
            # The text may have a piece of the DSN, and that a password.
            return "this is no DSN; one is postgresql://USER@HOST:PORT/DATABASE."
        case asyncpg.InvalidPasswordError():
            return f"{error}; PGPASSWORD, or a password file (PGPASSFILE), has the password."
        case asyncpg.InvalidAuthorizationSpecificationError():
            return (
                f"{error}; an administrator makes a role with `create role … login`, and lets it in with a line of the "
                "server's pg_hba.conf for the database, the role and this address."
            )
        case asyncpg.InvalidCatalogNameError():
            return f"{error}; an administrator makes it with `create database`."
        case asyncpg.TargetServerAttributeNotMatched():
            return "it is a standby, which cannot be written: name the primary, or all hosts with commas between them."
        case asyncpg.ProtocolViolationError() | asyncpg.FeatureNotSupportedError():
            return f"{error}; {_NO_POOLER}"
    return f"{str(error) or type(error).__name__}."


_CONNECTIONS = 10
"""The most connections that a broker has, and one more for a moment at a start."""
_MORE_CONNECTIONS = (
    "raise `alter role … connection limit`, `alter database … connection limit`, or the server's max_connections."
)
_NO_TLS = (
    "the server has no TLS, and sslmode asks for it: turn it on there (ssl = on, with a certificate), or name "
    "sslmode=prefer if the way there is safe without."
)
_ROOM = """
select least(nullif(rolconnlimit, -1), nullif(datconnlimit, -1)) from pg_roles, pg_database
where rolname = session_user and not rolsuper and datname = current_database()
"""
_NO_POOLER = "name PostgreSQL itself, or a pooler in session mode: oncelog has locks that belong to its connections."


def _check(found: Found, *, may_lose: bool) -> None:
    if found.is_standby:
        raise Unusable(_of_connection(asyncpg.TargetServerAttributeNotMatched("")))
    if found.version_number < _OLDEST:
        raise Unusable(f"it is PostgreSQL {found.server_version}, and 13 is the oldest that will do.")
    if not may_lose:
        try:
            check_promise(found.fsync, found.synchronous_commit)
        except NotAsAsked as error:
            raise Unusable(str(error)) from error


async def _check_sessions(server: Server, connection: asyncpg.Connection) -> None:
    """Check that two connections of ours are two of PostgreSQL: behind a pooler in transaction mode they are not."""
    backend = await connection.fetchval("select pg_backend_pid()")
    other = await server.connect()
    try:
        async with other.transaction():
            is_shared = await other.fetchval("select pg_backend_pid()") == backend
            # Not queried if it is: the pooler may have no other connection.
            is_shared = is_shared or await connection.fetchval("select pg_backend_pid()") != backend
    finally:
        await close_connection(other)
    if is_shared:
        raise Unusable(f"there is a pooler in transaction mode before it: {_NO_POOLER}")


async def _check_room(connection: asyncpg.Connection) -> None:
    """Check the limit on connections: one that is too low would show in the middle of a start, or later."""
    limit = await connection.fetchval(_ROOM)
    if limit is not None and limit < _CONNECTIONS:
        raise Unusable(
            f"this role may have {limit} connections to this database, and a broker needs {_CONNECTIONS}: "
            f"{_MORE_CONNECTIONS}"
        )


async def _check_owners(connection: asyncpg.Connection, schema: str, *, reads: bool) -> None:
    """Raise Unusable before anything is read from, or written to, an object of an untrusted owner."""
    found = stranger_of(await connection.fetch(question("$1", "$2", reads=reads), schema, OF_BROKER))
    if found is not None:
        raise Unusable(f"{found.sentence}; or name another schema with --schema.")


async def _make_schema(connection: asyncpg.Connection, schema: str, found: Found) -> None:
    if await connection.fetchval("select to_regnamespace($1) is null", quoted(schema)):
        try:
            with suppress(asyncpg.DuplicateSchemaError, asyncpg.UniqueViolationError):  # another start has made it now
                await connection.execute(f"create schema {quoted(schema)}")
        except asyncpg.InsufficientPrivilegeError as error:
            raise Unusable(
                f"the user {found.user} may not make the schema {schema}: let an administrator run "
                f"`create schema {quoted(schema)} authorization {quoted(found.user)}` in the database {found.database}."
            ) from error
    try:
        async with connection.transaction():
            await _upgrade(connection, schema)
            await _make_produce(connection, quoted(schema))
    except (asyncpg.InsufficientPrivilegeError, asyncpg.InvalidSchemaNameError) as error:
        owner = await connection.fetchval(
            "select pg_get_userbyid(nspowner) from pg_namespace where nspname = $1", schema
        )
        raise Unusable(
            f"{error}: the schema {schema} belongs to {owner}, and {found.user} needs it for itself: connect as "
            f"{owner}, or let an administrator run `alter schema {quoted(schema)} owner to {quoted(found.user)}`."
        ) from error


async def _upgrade(connection: asyncpg.Connection, schema: str) -> None:
    # Two that start at once; no other lock uses this number.
    await connection.execute("select pg_advisory_xact_lock(7954872183301440869)")
    await _check_owners(connection, schema, reads=False)
    if not await connection.fetchval("select to_regclass($1) is not null", f"{quoted(schema)}.oncelog_schema"):
        await connection.execute("create table oncelog_schema(version int not null)")
    known = await connection.fetchval("select coalesce(max(version), 0) from oncelog_schema")
    if known > len(VERSIONS):
        raise Unusable(_newer(schema, known))
    if 0 < known < len(VERSIONS):
        await connection.execute(LOCK_VERSION.format(""))
    for number in range(known, len(VERSIONS)):
        await connection.execute(VERSIONS[number])
        await connection.execute("insert into oncelog_schema values($1)", number + 1)
    await _check_tables(connection, schema)


async def _check_tables(connection: asyncpg.Connection, schema: str) -> None:
    """Raise Unusable if a table was dropped: its data is nowhere else."""
    names = dict.fromkeys(_MADE.findall("".join(VERSIONS)))
    at = f"{quoted(schema)}."
    gone = [name for name in names if await connection.fetchval("select to_regclass($1) is null", at + name)]
    if gone:
        raise Unusable(
            f"{', '.join(gone)} is missing in the schema {schema}, and was there: restore the schema from a backup, or "
            "name another one with --schema."
        )


async def _make_produce(connection: asyncpg.Connection, schema: str) -> None:
    """Make or replace the functions of `oncelog.produce`; rights that were granted stay. Where a relay is installed it
    owns them, and they stay as they are."""
    relays = f"{schema}.relays"
    has_relays = await connection.fetchval("select to_regclass($1) is not null", relays)
    if has_relays and await connection.fetchval(f"select exists (select from {relays})"):
        return
    names = functions(schema)
    is_new = await connection.fetchval("select to_regprocedure($1) is null", names[0])
    for definition in into_outbox(schema):
        await connection.execute(definition)
    if is_new:
        await connection.execute(f"revoke all on function {', '.join(names)} from public")
