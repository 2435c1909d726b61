"""`oncelog log`: commands for the files of a broker. `verify` and `repair` need it stopped, the others do not.

Owns: the options of `verify` and `repair`, what they print, the exit codes. Does not own: what is found and done
(`oncelog.tools.log.check`, imported when a command runs), the other commands.
Exit codes: 0 everything is intact (or was repaired), 1 something is damaged, 2 nothing could be checked.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from oncelog.protocol.topics import METADATA_TOPIC
from oncelog.tools.log.dump.cli import dump
from oncelog.tools.log.map.cli import map_
from oncelog.tools.log.progress import progress_bar
from oncelog.tools.log.report import as_dict, show
from oncelog.tools.log.tables.cli import export, import_
from oncelog.tools.log.where import Dsn, schema_option, snapshot, where_argument
from oncelog.tools.terminal import confirm, fail, say, say_json, say_progress, yes_option

if TYPE_CHECKING:
    from oncelog.broker.system.disk import RealDisk
    from oncelog.tools.log.check import Examination

EXIT_DAMAGED = 1
EXIT_NOT_CHECKED = 2
_LOCK = ".lock"
_METADATA_DIRECTORY = f"{METADATA_TOPIC}-0"

_data_dir = click.argument("data_dir", metavar="DATA_DIR", type=click.Path(path_type=Path))
_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")


@click.group()
def log() -> None:
    """Inspect, check and repair the files of a broker, or look at its tables in PostgreSQL."""


log.add_command(dump)
log.add_command(map_)
log.add_command(export)
log.add_command(import_)


@log.command()
@where_argument("DATA_DIR|DSN")
@schema_option
@_as_json
@click.option(
    "--records",
    "opens_batches",
    is_flag=True,
    help="Open each batch, and count its records: a batch may be as it was written, and lack some. Takes much longer.",
)
def verify(where: Path | Dsn, schema: str, as_json: bool, opens_batches: bool) -> None:
    """Read every byte of DATA_DIR and report what a start would find. Changes nothing.

    With a DSN, of the tables in PostgreSQL; a broker may be running on them. Exits with 1 if acknowledged records are
    damaged or missing.
    """
    if isinstance(where, Dsn):
        _verify_tables(where, schema, as_json, opens_batches)
    else:
        _verify_files(where, as_json, opens_batches)


def _verify_files(data_dir: Path, as_json: bool, opens_batches: bool) -> None:
    disk = _lock(data_dir)
    try:
        examination = _examine(disk, opens_batches=opens_batches)
    finally:
        disk.close()
    show(examination, as_json)
    if examination.damaged:
        if not as_json:
            say()
            say(f"Nothing was changed. `oncelog log repair {data_dir}` makes the rest usable again.")
        sys.exit(EXIT_DAMAGED)
    if examination.incomplete_count:
        sys.exit(EXIT_DAMAGED)


def _verify_tables(dsn: Dsn, schema: str, as_json: bool, opens_batches: bool) -> None:
    from oncelog.protocol.errors import KafkaError
    from oncelog.tools.log.tables.check import examine
    from oncelog.tools.log.tables.content import TablesContent

    with snapshot(dsn, schema) as tables:
        content = TablesContent(tables)
        try:
            with progress_bar(f"schema {schema}", content.size_bytes) as on_read:
                torn_rounds = tables.torn_rounds(content.trimmed)
                examination = examine(content, torn_rounds, on_read, opens_batches=opens_batches)
        except KafkaError as error:
            _fail(f"the metadata log cannot be replayed: {error}; restore the schema from a backup.")
    show(examination, as_json)
    if examination.is_damaged:
        if not as_json:
            say()
            say(
                "Nothing was changed. A broker serves all else. To have everything again, restore the schema from a "
                "backup of the database, into another schema or server."
            )
        sys.exit(EXIT_DAMAGED)
    if examination.incomplete_count:
        sys.exit(EXIT_DAMAGED)


@log.command()
@_data_dir
@_as_json
@click.option("--dry-run", is_flag=True, help="Report what would be done, and stop there.")
@yes_option
def repair(data_dir: Path, as_json: bool, dry_run: bool, yes: bool) -> None:
    """Make damaged partitions usable again, without what is lost.

    Reports what is lost, then asks. The original of every file that changes is kept beside it, with .damaged at the end
    of its name. Offsets of lost records stay empty and are never reused.
    """
    from oncelog.tools.held_directory import check_directories, kept_by_its_owner
    from oncelog.tools.log.check import repair as repair_partitions

    if as_json and not (yes or dry_run):
        raise click.UsageError("--json cannot ask for confirmation: add --yes or --dry-run.")
    disk = _lock(data_dir)
    try:
        check_directories(data_dir)
        before = _examine(disk)
        if dry_run or not before.is_damaged:
            show(before, as_json)
            sys.exit(EXIT_DAMAGED if before.damaged else 0)
        if not as_json:
            show(before, as_json=False)
            say()
        confirm("Continue without what is lost?", yes=yes, is_always_asked=True)
        with kept_by_its_owner(data_dir):
            kept = repair_partitions(disk, before.damaged)
        after = _examine(disk)
    except OSError as error:
        _fail(f"{data_dir} could not be repaired: {error}; what was done so far is safe, repair again.")
    finally:
        disk.close()
    if as_json:
        say_json({"repaired": as_dict(before), "kept_files": kept, "now": as_dict(after)})
    else:
        for file in kept:
            say(f"original kept: {data_dir / file}")
        say(f"{len(before.damaged) - len(after.damaged)} repaired, {len(after.damaged)} still damaged")
    sys.exit(EXIT_DAMAGED if after.damaged else 0)


def _lock(data_dir: Path) -> "RealDisk":
    from oncelog.broker.storage.local.data_directory import ForeignDirectoryError, check_data_directory
    from oncelog.broker.system.disk import DataDirectoryLocked, RealDisk

    if not (data_dir / _LOCK).is_file():
        _fail(f"{data_dir} is not a data directory of a broker.")
    disk = RealDisk(data_dir)
    try:
        check_data_directory(disk, _METADATA_DIRECTORY)
        disk.lock()
    except DataDirectoryLocked as error:
        _fail(f"{error}: stop it first; a running broker checks its files itself.")
    except ForeignDirectoryError as error:
        _fail(f"cannot use {data_dir}: {error}.")
    except OSError as error:
        _fail(f"cannot use {data_dir}: {error.strerror or error}")
    return disk


def _examine(disk: "RealDisk", *, opens_batches: bool = False) -> "Examination":
    from oncelog.broker.storage.disk_errors import trouble
    from oncelog.protocol.errors import KafkaError
    from oncelog.tools.log.check import NoDataDirectory, examine

    def progress(name: str) -> None:
        say_progress(f"reading {name}")

    on_terminal = sys.stderr.isatty()
    try:
        examination = examine(disk, progress if on_terminal else None, opens_batches=opens_batches)
    except NoDataDirectory as error:
        _fail(str(error))
    except KafkaError as error:
        _fail(f"the metadata log cannot be replayed: {error}; restore it from a copy.")
    except OSError as error:
        _fail(trouble(error))
    if on_terminal:
        say_progress("")
    return examination


def _fail(message: str) -> NoReturn:
    fail(message, EXIT_NOT_CHECKED)
