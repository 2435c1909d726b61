"""`oncelog log export` and `oncelog log import`: from tables in PostgreSQL into a data directory, and back.

Owns: the options, what is printed, the exit codes. Does not own: the work (`export`, `filling`, imported when a command
runs). Exit codes: 0 done, 1 something is damaged, 2 not possible; without 0 nothing was done.
"""

import os
import socket
from pathlib import Path

import click

from oncelog.protocol.amounts import size_text
from oncelog.tools.log.progress import progress_bar
from oncelog.tools.log.where import EXIT_NOT_READ, Dsn, dsn_argument, empty_tables, schema_option, snapshot
from oncelog.tools.terminal import fail, say, say_json

EXIT_DAMAGED = 1
_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")


@click.command()
@dsn_argument
@click.argument("data_dir", metavar="DIR", type=click.Path(path_type=Path))
@schema_option
@_as_json
def export(dsn: Dsn, data_dir: Path, schema: str, as_json: bool) -> None:
    """Write what a broker has in PostgreSQL into a new directory.

    As it is at this moment; the broker may be running, and goes on. DIR is as after a clean stop: `oncelog serve
    --data-dir DIR` starts from it, Kafka's tools read its files, and `oncelog graduate` makes it Kafka's. Producers,
    transactions, committed offsets, settings and users go along.
    """
    from oncelog.protocol.errors import KafkaError
    from oncelog.tools.log.tables.content import TablesContent
    from oncelog.tools.log.tables.export import NotWhole
    from oncelog.tools.log.tables.export import export as run
    from oncelog.tools.new_directory import NotNew, check_new

    try:
        check_new(data_dir)
        with snapshot(dsn, schema) as tables:
            content = TablesContent(tables)
            with progress_bar(f"writing {data_dir}", content.size_bytes) as on_written:
                exported = run(content, data_dir, on_written)
    except NotNew as error:
        fail(f"{error}.", EXIT_NOT_READ)
    except KafkaError as error:
        fail(f"the metadata log cannot be replayed: {error.message}; nothing was written.", EXIT_DAMAGED)
    except NotWhole as error:
        fail(f"{error}; nothing was written. `oncelog log verify` shows all that is damaged.", EXIT_DAMAGED)
    if as_json:
        say_json({"data_dir": str(data_dir), **exported.as_dict()})
        return
    say(f"{data_dir} has {exported.partition_count:,} partitions with {size_text(exported.size_bytes)}. Next:")
    say(f"oncelog serve --data-dir {data_dir}")


@click.command(name="import")
@click.argument("data_dir", metavar="DIR", type=click.Path(path_type=Path))
@dsn_argument
@schema_option
@_as_json
def import_(data_dir: Path, dsn: Dsn, schema: str, as_json: bool) -> None:
    """Bring a data directory into PostgreSQL, whole or not at all.

    The schema is empty or a new one. The broker on DIR must be stopped; DIR stays as it is. `oncelog serve --storage
    DSN` goes on from the tables, and sees nothing of them before all is there.
    """
    from oncelog.broker.storage.local.data_directory import ForeignDirectoryError, check_data_directory
    from oncelog.broker.system.disk import DataDirectoryLocked, RealDisk
    from oncelog.tools.held_directory import check_directories
    from oncelog.tools.log.tables.content import METADATA
    from oncelog.tools.log.tables.filling import CannotImport, Source, fill

    if not (data_dir / METADATA.name).is_dir():
        fail(f"{data_dir} is not a data directory of a broker.", EXIT_NOT_READ)
    disk = RealDisk(data_dir, read_only=True)
    try:
        check_directories(data_dir)
        check_data_directory(disk, METADATA.name)
        disk.lock()
        source = Source(disk)
        with (
            empty_tables(dsn, schema, f"oncelog log import on {socket.gethostname()} ({os.getpid()})") as tables,
            progress_bar(f"reading {data_dir}", source.size_bytes) as on_written,
        ):
            fill(source, tables, tables.epoch, on_written)
            tables.commit()
    except DataDirectoryLocked as error:
        fail(f"{error}: stop it first.", EXIT_NOT_READ)
    except ForeignDirectoryError as error:
        fail(f"cannot use {data_dir}: {error}.", EXIT_NOT_READ)
    except CannotImport as error:
        fail(f"{error}; nothing was imported.", EXIT_DAMAGED if error.is_damaged else EXIT_NOT_READ)
    except OSError as error:
        fail(f"cannot read {error.filename or data_dir}: {error.strerror or error}.", EXIT_NOT_READ)
    finally:
        disk.close()
    count = len(source.logs) - 1
    if as_json:
        say_json({"schema": schema, "partitions": count, "bytes": source.size_bytes})
        return
    say(f"The schema {schema} has {count:,} partitions with {size_text(source.size_bytes)}. Next:")
    say(f"oncelog serve --storage DSN{'' if schema == 'oncelog' else f' --schema {schema}'}")
