"""`oncelog serve`, which is also `python -m oncelog.broker serve`: the command line of the daemon.

Owns: options, exit codes, one clear line for whatever prevents the daemon from starting. Does not own: settings
(`broker.config.settings`), the daemon (`app`, imported last so that `--help` and a wrong setting respond at once).
Exit codes: 0 stopped when asked, 1 cannot run, 2 wrong settings, 3 the disk or the database failed.
"""

import os
import socket
import sys
from pathlib import Path

import click

from oncelog.broker.config.settings import ConfigError, load_config
from oncelog.protocol.printable import printable

EXIT_CANNOT_RUN = 1
EXIT_WRONG_SETTINGS = 2
_NOT_ON_WINDOWS = (
    "the broker does not run on Windows: it needs POSIX file locks, fdatasync and uvloop. "
    "Run it under WSL 2 or in a container; clients on Windows can use it there."
)
_LEVELS = ("debug", "info", "warning", "error")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """The oncelog broker."""


def _stored(_context: click.Context, _parameter: click.Parameter, overrides: tuple[str, ...]) -> tuple[str, ...]:
    """With the numbers that Kafka stores for `7d` and `1GiB`, as a click callback."""
    if not overrides:
        return ()
    from oncelog.protocol.amounts import setting_value

    pairs = [override.partition("=") for override in overrides]
    try:
        return tuple(f"{key}{equals}{setting_value(key, value)}" for key, equals, value in pairs)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@main.command()
@click.option("--listen", metavar="HOST:PORT", help="Where to listen; sets listeners. Port 0 picks a free one.")
@click.option("--data-dir", metavar="DIR", help="Where the data is kept; sets log.dirs. [default: ./oncelog-data]")
@click.option(
    "--storage",
    metavar="WHERE",
    help="memory, or postgresql://USER@HOST/DATABASE to keep all data in PostgreSQL and none in files; sets "
    "oncelog.storage and oncelog.postgres.dsn. [default: local, which is --data-dir]",
)
@click.option("--schema", metavar="NAME", help="The schema in PostgreSQL; sets oncelog.postgres.schema.")
@click.option(
    "--node-id",
    metavar="NUMBER",
    help="Of this broker, if there are several on the same schema: one leads, the others stand by; sets node.id. "
    "[default: 1]",
)
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Settings in server.properties syntax, with Kafka's names.",
)
@click.option(
    "--read-only/--writable",
    default=None,
    help="Whether nothing changes, neither on request nor on disk; sets oncelog.read.only. [default: --writable, but "
    "--read-only for a directory of `oncelog adopt` until it was started with --writable]",
)
@click.option(
    "--override",
    "overrides",
    metavar="KEY=VALUE",
    multiple=True,
    callback=_stored,
    help="One setting, such as log.retention.ms=7d; may be repeated.",
)
@click.option(
    "--log-level",
    type=click.Choice(_LEVELS),
    envvar="ONCELOG_LOG_LEVEL",
    default="info",
    show_default=True,
    help="The lowest level that is logged, to standard error.",
)
def serve(
    listen: str | None,
    data_dir: str | None,
    storage: str | None,
    schema: str | None,
    node_id: str | None,
    config_file: Path | None,
    read_only: bool | None,
    overrides: tuple[str, ...],
    log_level: str,
) -> None:
    """Run the broker until SIGTERM or SIGINT. SIGHUP reads keys and certificates again.

    Prints "oncelog ready HOST:PORT" to standard output when it accepts clients, with one address for each listener in
    the order of `listeners`. Settings come from the command line, then from KAFKA_... environment variables (the rules
    of the apache/kafka image), then from the file.
    """
    if sys.platform == "win32":
        _fail(_NOT_ON_WINDOWS, EXIT_CANNOT_RUN)
    is_read_only = None if read_only is None else str(read_only).lower()
    is_dsn = storage is not None and "://" in storage
    if storage is not None and "=" in storage and not is_dsn:
        _fail("--storage: a DSN is a URL here: postgresql://USER@HOST:PORT/DATABASE?NAME=VALUE", EXIT_WRONG_SETTINGS)
    given = (
        ("listeners", listen),
        ("log.dirs", data_dir),
        ("oncelog.read.only", is_read_only),
        ("oncelog.storage", "postgres" if is_dsn else storage),
        ("oncelog.postgres.dsn", storage if is_dsn else None),
        ("oncelog.postgres.schema", schema),
        ("node.id", node_id),
    )
    cli = {key: value for key, value in given if value is not None}
    try:
        config, warnings = load_config(
            file=config_file, overrides=overrides, environ=os.environ, cli=cli, host_name=socket.gethostname
        )
    except ConfigError as error:
        _fail(str(error), EXIT_WRONG_SETTINGS)
    # Imported late: serving needs most of the start-up time, and a wrong setting should not wait for it.
    from oncelog.broker.daemon import app
    from oncelog.broker.observability.logging import start_logging

    try:
        code = app.serve(config, warnings, start_logging(log_level))
    except app.SettingsError as error:
        _fail(str(error), EXIT_WRONG_SETTINGS)
    except app.StartError as error:
        _fail(str(error), EXIT_CANNOT_RUN)
    sys.exit(code)


def _fail(message: str, code: int) -> None:
    click.echo(printable(f"oncelog: {message}"), err=True)
    sys.exit(code)
