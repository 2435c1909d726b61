"""`oncelog log`: commands for the files of a broker. `verify` and `repair` need it stopped, the others do not.

Owns: the options of `verify` and `repair`, what they print, the exit codes. Does not own: what is found and done
(`oncelog.tools.log.check`, imported when a command runs), the other commands.
Exit codes: 0 everything is intact (or was repaired), 1 something is damaged, 2 nothing could be checked.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from oncelog.protocol.topics import CONSUMER_OFFSETS, METADATA_TOPIC, TRANSACTION_STATE
from oncelog.tools.log.dump.cli import dump
from oncelog.tools.log.map.cli import map_
from oncelog.tools.terminal import fail, say, say_json, say_progress

if TYPE_CHECKING:
    from oncelog.broker.system.disk import RealDisk
    from oncelog.tools.log.check import Examination, Finding

EXIT_DAMAGED = 1
EXIT_NOT_CHECKED = 2
_LOCK = ".lock"
_METADATA_DIRECTORY = f"{METADATA_TOPIC}-0"

_data_dir = click.argument("data_dir", metavar="DATA_DIR", type=click.Path(path_type=Path))
_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")


@click.group()
def log() -> None:
    """Inspect, check and repair the files of a broker."""


log.add_command(dump)
log.add_command(map_)


@log.command()
@_data_dir
@_as_json
def verify(data_dir: Path, as_json: bool) -> None:
    """Read every byte of DATA_DIR and report what a start would find. Changes nothing.

    Exits with 1 if acknowledged records are damaged or missing.
    """
    disk = _lock(data_dir)
    try:
        examination = _examine(disk)
    finally:
        disk.close()
    _show(examination, as_json)
    if examination.damaged:
        if not as_json:
            say()
            say(f"Nothing was changed. `oncelog log repair {data_dir}` makes the rest usable again.")
        sys.exit(EXIT_DAMAGED)


@log.command()
@_data_dir
@_as_json
@click.option("--dry-run", is_flag=True, help="Report what would be done, and stop there.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def repair(data_dir: Path, as_json: bool, dry_run: bool, yes: bool) -> None:
    """Make damaged partitions of DATA_DIR usable again, without what is lost.

    Reports what is lost, then asks. The original of every file that changes is kept beside it, with .damaged at the end
    of its name. Offsets of lost records stay empty and are never reused.
    """
    from oncelog.tools.log.check import repair as repair_partitions

    if as_json and not (yes or dry_run):
        raise click.UsageError("--json cannot ask for confirmation: add --yes or --dry-run.")
    disk = _lock(data_dir)
    try:
        before = _examine(disk)
        if dry_run or not before.is_damaged:
            _show(before, as_json)
            sys.exit(EXIT_DAMAGED if before.damaged else 0)
        if not as_json:
            _show(before, as_json=False)
            say()
        if not yes:
            click.confirm("Continue without what is lost?", abort=True)
        kept = repair_partitions(disk, before.damaged)
        after = _examine(disk)
    except OSError as error:
        _fail(f"{data_dir} could not be repaired: {error}; what was done so far is safe, repair again.")
    finally:
        disk.close()
    if as_json:
        say_json({"repaired": _as_dict(before), "kept_files": kept, "now": _as_dict(after)})
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


def _examine(disk: "RealDisk") -> "Examination":
    from oncelog.broker.storage.disk_errors import trouble
    from oncelog.protocol.errors import KafkaError
    from oncelog.tools.log.check import NoDataDirectory, examine

    def progress(name: str) -> None:
        say_progress(f"reading {name}")

    on_terminal = sys.stderr.isatty()
    try:
        examination = examine(disk, progress if on_terminal else None)
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


# --- what is printed --------------------------------------------------------------------------------------------------


def _show(examination: "Examination", as_json: bool) -> None:
    if as_json:
        say_json(_as_dict(examination))
        return
    rows: list[tuple[str, ...]] = [("PARTITION", "SEGMENTS", "OFFSETS", "BYTES", "FIRST BAD", "LOST")]
    rows += [_row(finding) for finding in examination.findings]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [
            cell.ljust(width) if not slot else cell.rjust(width)
            for slot, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        say("  ".join(cells).rstrip())
    for finding in examination.findings:
        for line in _lines(finding):
            say(line)
    for problem in examination.problems:
        say()
        say(problem)
    for name in examination.unknown_directories:
        say()
        say(f"{name}: this partition is unknown to the metadata log; a start leaves it alone")
    damaged = len(examination.damaged)
    whole = "all partitions are intact" if not examination.problems else "all known partitions are intact"
    say()
    say(f"{damaged} of {len(examination.findings)} partitions damaged" if damaged else whole)


def _row(finding: "Finding") -> tuple[str, ...]:
    survey = finding.survey
    first_bad = str(survey.lost[0].first_offset) if survey is not None and survey.lost else "-"
    lost = "-" if survey is None else f"{survey.lost_count} offsets"
    start, end = finding.log_start_offset, finding.log_end_offset
    offsets = f"{start} to {end - 1}" if start < end else "-"
    return finding.name, str(finding.segment_count), offsets, str(finding.size_bytes), first_bad, lost


def _lines(finding: "Finding") -> list[str]:
    lines = [line for note in finding.notes for line in ("", f"{finding.name}: {note}")]
    if finding.problem is None:
        return lines
    lines += ["", f"{finding.name}: {finding.problem.removeprefix(f'{finding.name} is offline: ')}"]
    if finding.survey is None:
        return [*lines, "  a repair cannot help here, and leaves these files unchanged"]
    for lost in finding.survey.lost:
        where = f"{lost.file} at position {lost.position}"
        lines.append(f"  lost: offsets {lost.first_offset} to {lost.next_offset - 1}: {where}: {lost.problem}")
    if not finding.survey.lost:
        lines.append("  nothing is lost: each batch is intact")
    for producer_id, first_offset in sorted(finding.survey.open_transactions.items()):
        lines.append(
            f"  the transaction of producer {producer_id} from offset {first_offset} on stays open here, because its "
            "end may be among what is lost: read_committed readers stop there until it is ended"
        )
    if finding.topic in _CONSEQUENCES and finding.survey.lost:
        lines.append(f"  {_CONSEQUENCES[finding.topic]}")
    return lines


_CONSEQUENCES = {
    TRANSACTION_STATE: "transactional ids of this partition may revert to an earlier state: restart their producers, "
    "and look for hanging transactions",
    CONSUMER_OFFSETS: "groups of this partition may revert to earlier offsets and read records again",
    METADATA_TOPIC: "topics and settings created or changed after that are unknown: files of such topics are "
    "left alone and not served",
}


def _as_dict(examination: "Examination") -> dict[str, Any]:
    return {
        "partitions": [
            {
                "topic": finding.topic,
                "partition": finding.partition,
                "segments": finding.segment_count,
                "log_start_offset": finding.log_start_offset,
                "log_end_offset": finding.log_end_offset,
                "bytes": finding.size_bytes,
                "damaged": finding.problem is not None,
                "problem": finding.problem,
                "notes": list(finding.notes),
                "lost": [
                    {
                        "first_offset": lost.first_offset,
                        "last_offset": lost.next_offset - 1,
                        "file": lost.file,
                        "position": lost.position,
                        "problem": lost.problem,
                    }
                    for lost in (finding.survey.lost if finding.survey is not None else ())
                ],
                "open_transactions": [
                    {"producer_id": producer_id, "first_offset": first_offset}
                    for producer_id, first_offset in sorted(
                        finding.survey.open_transactions.items() if finding.survey is not None else ()
                    )
                ],
            }
            for finding in examination.findings
        ],
        "unknown_directories": examination.unknown_directories,
        "problems": examination.problems,
        "damaged": bool(examination.damaged),
    }
