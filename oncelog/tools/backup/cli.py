"""`oncelog backup` and `oncelog restore`: the options, what is printed, the exit codes.

Does not own: the work (`copying`, `restoring`, imported when a command runs). Exit codes: 0 done, 1 the backup is
damaged, 2 not possible, 130 interrupted; without 0 there is no backup, and nothing that a broker would start from.
"""

import errno
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from oncelog.protocol.amounts import size_text
from oncelog.tools.terminal import fail, fail_on_signals, say, say_json

if TYPE_CHECKING:
    from oncelog.tools.backup.copying import Backup

EXIT_DAMAGED = 1
EXIT_NOT_POSSIBLE = 2
EXIT_INTERRUPTED = 130
_NO_USER = 2**32 - 1
"""The number by which the system means no user."""
_IN_POSTGRES = (
    "the records are in PostgreSQL, and so is their backup: `pg_dump -n oncelog` makes one while the broker runs "
    "(operate/postgres.md)."
)
_data_dir = click.option(
    "--data-dir", metavar="DIR", help="The data directory of the broker. [default: ./oncelog-data, or what FILE says]"
)
_config = click.option(
    "--config",
    "config_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The settings that `oncelog serve` was started with.",
)
_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")


@click.command()
@click.argument("target", metavar="DIR", type=click.Path(path_type=Path))
@_data_dir
@_config
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the broker.",
)
@_as_json
def backup(target: Path, data_dir: str | None, config_file: Path | None, timeout_s: float, as_json: bool) -> None:
    """Copy the data directory of a broker, which goes on running, into the new DIR.

    As of one instant: everything that was acknowledged before, with groups, transactions, settings and users; what is
    acknowledged during the copy is not in it. Run it on the broker's machine, as its user or as root. DIR may be on
    another file system; `oncelog log verify DIR` reads it, `oncelog restore DIR` brings it back.
    """
    from oncelog.tools.backup.copying import CannotBackUp, back_up, source_of
    from oncelog.tools.log.progress import progress_bar
    from oncelog.tools.new_directory import NotNew, check_new

    source_dir = _data_directory(data_dir, config_file)
    try:
        check_new(target)
        with (
            _interruptible(),
            source_of(source_dir, timeout_s) as source,
            progress_bar(f"copying to {target}", source.size_bytes) as on_copied,
        ):
            made = back_up(source, target, on_copied)
    except (CannotBackUp, NotNew) as error:
        fail(f"{error}.", EXIT_NOT_POSSIBLE)
    except FileNotFoundError as error:
        fail(
            f"{error.filename} is gone: the broker may have restarted during the backup; run the command again.",
            EXIT_NOT_POSSIBLE,
        )
    except OSError as error:
        _fail(error, target)
    _say_made(target, made, as_json)


def _say_made(target: Path, made: "Backup", as_json: bool) -> None:
    if as_json:
        say_json({"backup": str(target), **_as_dict(made), "broker_was_running": made.is_of_running_broker})
        return
    say(f"{target} has {made.partition_count:,} partitions with {size_text(made.size_bytes)}. It is brought back by:")
    say(f"oncelog restore {target} --data-dir NEW")


def _as_dict(made: "Backup") -> dict[str, int]:
    return {"partitions": made.partition_count, "files": made.file_count, "bytes": made.size_bytes}


@click.command()
@click.argument("source", metavar="DIR", type=click.Path(path_type=Path))
@_data_dir
@_config
@click.option(
    "--owner",
    metavar="USER",
    help="Owner of the restored data directory (root only). [default: the previous owner]",
)
@_as_json
def restore(source: Path, data_dir: str | None, config_file: Path | None, owner: str | None, as_json: bool) -> None:
    """Bring a backup back into an empty data directory.

    Every byte is compared with the checksums of DIR and read as a start would read it; a broker refuses the directory
    until that is done. What was acknowledged after the backup is gone: the next start raises leader epochs and producer
    ids far above those of before, so that clients notice. What root restores belongs to the user whose backup it is.
    """
    from oncelog.tools.backup.restoring import (
        CannotRestore,
        Damaged,
        existing,
        finish,
        owner_of,
        parent_of,
        sizes_of,
        sums_of,
    )
    from oncelog.tools.backup.restoring import restore as fill
    from oncelog.tools.held_directory import ROOT, HeldDirectory
    from oncelog.tools.log.progress import progress_bar

    target = _data_directory(data_dir, config_file)
    given = None if owner is None else _ids_of(owner)
    try:
        with _interruptible(), ExitStack() as held:
            backup = held.enter_context(HeldDirectory(source))
            # Opened before anything is read, so that a link put there meanwhile leads nowhere.
            directory = existing(target)
            opened = held.enter_context(parent_of(target) if directory is None else directory)
            sums = sums_of(backup)
            total_bytes = sum(sizes_of(backup, sums).values())
            ids = (given or owner_of(backup, directory)) if os.geteuid() == ROOT else None
            if directory is None:
                directory = held.enter_context(opened.make(target.name))
            directory.check()
            with progress_bar(f"copying to {target}", total_bytes) as on_copied:
                made = fill(backup, sums, directory, on_copied)
            problems = _problems(target)
            if problems:
                raise Damaged(f"{problems[0]}; `oncelog log verify {source}` shows all that is damaged")
            finish(directory, ids)
    except Damaged as error:
        fail(f"{error}.", EXIT_DAMAGED)
    except CannotRestore as error:
        fail(f"{error}.", EXIT_NOT_POSSIBLE)
    except OSError as error:
        _fail(error, target)
    if as_json:
        say_json({"data_dir": str(target), **_as_dict(made)})
        return
    say(f"{target} has {made.partition_count:,} partitions with {size_text(made.size_bytes)}, all intact. Next:")
    say(f"oncelog serve --data-dir {target}")


def _ids_of(owner: str) -> tuple[int, int]:
    """The ids of a user, given by name or number, and of that user's group."""
    import pwd

    from oncelog.tools.held_directory import ROOT

    if os.geteuid() != ROOT:
        fail("only root may give files to another user: leave out --owner, and they belong to you.", EXIT_NOT_POSSIBLE)
    try:
        found = pwd.getpwuid(int(owner)) if owner.isdecimal() else pwd.getpwnam(owner)
    except (KeyError, OverflowError):
        if owner.isdecimal() and int(owner) < _NO_USER:
            return int(owner), int(owner)
        fail(f"there is no user {owner!r}: --owner takes what `User=` of the broker's unit has.", EXIT_NOT_POSSIBLE)
    return found.pw_uid, found.pw_gid


def _fail(error: OSError, target: Path) -> NoReturn:
    what = f"{error.filename or target}: {error.strerror or error}"
    if error.errno == errno.ENXIO:
        what += "; move it away, or put the file or directory there that it stands for, and repeat"
    fail(f"{what}.", EXIT_NOT_POSSIBLE)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C and SIGTERM end the command as an error does: what it has begun is removed. So do the signals that end
    any command, with a line."""

    def end(*_: object) -> NoReturn:
        sys.exit(EXIT_INTERRUPTED)

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)} | fail_on_signals()
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _problems(data_dir: Path) -> list[str]:
    """Return the damage that a start would find, a line each."""
    from oncelog.broker.system.disk import RealDisk
    from oncelog.protocol.errors import KafkaError
    from oncelog.tools.log.check import NoDataDirectory, examine

    disk = RealDisk(data_dir)
    try:
        examination = examine(disk)
    except (KafkaError, NoDataDirectory) as error:
        return [f"the metadata log cannot be replayed: {error}"]
    finally:
        disk.close()
    return [*examination.problems, *(finding.problem for finding in examination.findings if finding.problem)]


def _data_directory(data_dir: str | None, config_file: Path | None) -> Path:
    from oncelog.broker.config.settings import ConfigError, load_config

    if data_dir is not None and "://" in data_dir:
        fail(_IN_POSTGRES, EXIT_NOT_POSSIBLE)
    cli = {} if data_dir is None else {"log.dirs": data_dir}
    try:
        config, _ = load_config(file=config_file, overrides=(), environ=os.environ, cli=cli)
    except ConfigError as error:
        fail(str(error), EXIT_NOT_POSSIBLE)
    if config.get_str("oncelog.storage") == "postgres":
        fail(_IN_POSTGRES, EXIT_NOT_POSSIBLE)
    return config.data_dir
