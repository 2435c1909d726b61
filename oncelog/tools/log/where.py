"""Which files or tables a command is about, of `oncelog log` and of `oncelog cluster`.

Owns: what is a DSN, the option of its schema, opening what it leads to and what is said if that fails. A DSN is never
printed: it may have a password.
"""

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from oncelog.tools.terminal import fail

if TYPE_CHECKING:
    from oncelog.broker.storage.postgres.snapshot import PostgresImport, PostgresSnapshot

Command = TypeVar("Command", bound=Callable[..., Any])
EXIT_NOT_READ = 2
_SCHEMES = ("postgresql://", "postgres://")


class Dsn(str):
    """Where a PostgreSQL is: a URI, of which it takes what is missing from its environment variables."""

    __slots__ = ()


def is_dsn(text: str) -> bool:
    return text.startswith(_SCHEMES)


def where_argument(metavar: str) -> Callable[[Command], Command]:
    """A path, or a Dsn."""

    def read(_context: click.Context, _parameter: click.Parameter, text: str) -> Dsn | Path:
        return Dsn(text) if is_dsn(text) else Path(text)

    return click.argument("where", metavar=metavar, callback=read)


def schema_option(command: Command) -> Command:
    return click.option(
        "--schema", metavar="NAME", default="oncelog", show_default=True, help="With a DSN: the schema in PostgreSQL."
    )(command)


def dsn_argument(command: Command) -> Command:
    def checked(_context: click.Context, _parameter: click.Parameter, text: str) -> Dsn:
        if not is_dsn(text):
            raise click.BadParameter("a DSN is postgresql://USER@HOST:PORT/DATABASE.")
        return Dsn(text)

    return click.argument("dsn", metavar="DSN", callback=checked)(command)


def cluster_in_postgres(command: Command) -> Command:
    """Add DSN, --schema and --config. What they do not say, the settings of a broker do, as for `oncelog serve`; the
    command gets `dsn`, None for what PostgreSQL's environment variables say, and `schema`."""

    def checked(_context: click.Context, _parameter: click.Parameter, text: str | None) -> Dsn | None:
        if text is None:
            return None
        if not is_dsn(text):
            raise click.BadParameter("a DSN is postgresql://USER@HOST:PORT/DATABASE.")
        return Dsn(text)

    @functools.wraps(command)
    def settled(dsn: Dsn | None, schema: str | None, config_file: Path | None, **options: Any) -> Any:
        from oncelog.broker.config.settings import ConfigError, given_settings

        try:
            given = given_settings(file=config_file, environ=os.environ)
        except ConfigError as error:
            fail(f"{error}.", EXIT_NOT_READ)
        dsn = dsn or (Dsn(given["oncelog.postgres.dsn"]) if given.get("oncelog.postgres.dsn") else None)
        return command(dsn=dsn, schema=schema or given.get("oncelog.postgres.schema") or "oncelog", **options)

    config = click.option(
        "--config",
        "config_file",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="The settings of a broker, which say where it is if DSN does not; else KAFKA_... variables, and PG...",
    )
    named = click.option("--schema", metavar="NAME", help="The schema in PostgreSQL.  [default: oncelog]")
    made: Any = click.argument("dsn", metavar="[DSN]", required=False, callback=checked)(named(config(settled)))
    return made  # type: ignore[no-any-return]


@contextmanager
def snapshot(dsn: Dsn, schema: str) -> "Iterator[PostgresSnapshot]":
    """Yield everything that is there at this moment; the command ends if that is nothing that can be read."""
    with explained(schema):
        from oncelog.broker.storage.postgres.snapshot import PostgresSnapshot
        from oncelog.tools.log.stopped_directory import NoLoop

        tables = PostgresSnapshot(dsn, schema, NoLoop())
        try:
            yield tables
        finally:
            tables.close()


@contextmanager
def empty_tables(dsn: Dsn, schema: str, owner: str) -> "Iterator[PostgresImport]":
    """Yield tables in which nothing has happened until `commit`; the command ends if there are none that are empty."""
    with explained(schema):
        from oncelog.broker.storage.postgres.snapshot import PostgresImport
        from oncelog.tools.log.stopped_directory import NoLoop

        tables = PostgresImport(dsn, schema, NoLoop(), owner)
        try:
            yield tables
        finally:
            tables.close()


@contextmanager
def explained(schema: str) -> Iterator[None]:
    """The command ends with a sentence if there is nothing there that can be used."""
    from oncelog.broker.storage.disk_errors import trouble
    from oncelog.broker.storage.shared.lease import LeaseHeld

    try:
        from oncelog.broker.storage.postgres.preparing import Unusable
    except ImportError as error:
        from oncelog.installing import how_to_install

        fail(f"what is in PostgreSQL needs asyncpg: {how_to_install('postgres')} ({error}).", EXIT_NOT_READ)
    place = f"the schema {schema} in PostgreSQL"
    try:
        yield
    except Unusable as error:
        fail(f"cannot use {place}: {error}", EXIT_NOT_READ)
    except LeaseHeld as error:
        fail(f"cannot use {place}: {error}; stop it, or name another one with --schema.", EXIT_NOT_READ)
    except OSError as error:
        found = trouble(error) if error.errno is not None else f"{place}: {str(error).removeprefix('PostgreSQL: ')}"
        fail(f"{found}.", EXIT_NOT_READ)
