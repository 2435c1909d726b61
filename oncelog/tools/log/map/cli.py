"""The command line of `oncelog log map`.

Owns: the options, the progress bar, the exit codes. Does not own: what is found (`oncelog.tools.log.map.reader`) and
drawn (`oncelog.tools.log.map.picture`), which are imported when the command runs.
Exit codes: 0 everything is intact, 1 something is damaged, 2 there is no partition.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from oncelog.tools.log.progress import progress_bar
from oncelog.tools.log.where import Dsn, schema_option, snapshot, where_argument
from oncelog.tools.terminal import fail, say_json, writing

if TYPE_CHECKING:
    from oncelog.tools.log.map.partition import PartitionMap

EXIT_DAMAGED = 1
EXIT_NOT_READ = 2
_MIN_WIDTH = 20


@click.command(name="map")
@where_argument("DATA_DIR/TOPIC-PARTITION|DSN")
@click.argument("name", metavar="[TOPIC-PARTITION]", required=False)
@schema_option
@click.option("--from", "from_offset", metavar="OFFSET", type=click.IntRange(0), help="Draw from this offset on.")
@click.option("--to", "to_offset", metavar="OFFSET", type=click.IntRange(0), help="Draw up to this offset.")
@click.option("--width", metavar="COLUMNS", type=click.IntRange(_MIN_WIDTH), help="Use this width, not the terminal's.")
@click.option("--svg", "svg_path", metavar="FILE", type=click.Path(path_type=Path), help="Write the picture to FILE.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line: the partition, segments, batches.")
def map_(
    where: Path | Dsn,
    name: str | None,
    schema: str,
    from_offset: int | None,
    to_offset: int | None,
    width: int | None,
    svg_path: Path | None,
    as_json: bool,
) -> None:
    """Draw a partition: its batches, and how far readers may read.

    One cell per batch. Shows what is committed, aborted, still open, a marker, or emptied by compaction. Changes
    nothing; a broker may be running on the files, or, with a DSN, on the tables in PostgreSQL. Exits with 1 if
    something is damaged.
    """
    if from_offset is not None and to_offset is not None and from_offset > to_offset:
        raise click.UsageError(f"--from {from_offset} is behind --to {to_offset}: there is nothing to draw.")
    if isinstance(where, Dsn) != (name is not None):
        raise click.UsageError("name DATA_DIR/TOPIC-PARTITION, or a DSN and TOPIC-PARTITION.")
    found = _read_tables(where, schema, name or "") if isinstance(where, Dsn) else _read(where)
    if as_json:
        _print_json(found)
    else:
        _draw(found, width, svg_path, *_cells(found, from_offset, to_offset))
    if found.is_damaged:
        sys.exit(EXIT_DAMAGED)


def _read(directory: Path) -> "PartitionMap":
    from oncelog.tools.log.map.reader import NoPartition, log_files, read_map
    from oncelog.tools.log.points import known_points

    try:
        total_bytes = sum(path.stat().st_size for path in log_files(directory))
        resolved = directory.resolve()
        topic, _, partition = resolved.name.rpartition("-")
        # Before the batches are read: what is durable now is in the files by then.
        points = known_points(resolved.parent, topic, int(partition) if partition.isdecimal() else -1)
        with progress_bar(resolved.name, total_bytes) as on_read:
            return read_map(directory, points, on_read)
    except NoPartition as error:
        _fail(str(error))
    except FileNotFoundError as error:
        _fail(f"{error.filename} has been deleted: a broker is cleaning up; try again")
    except OSError as error:
        _fail(f"{error.filename or directory}: {error.strerror or error}")


def _read_tables(dsn: Dsn, schema: str, name: str) -> "PartitionMap":
    from oncelog.tools.log.map.reader import read_map_of
    from oncelog.tools.log.points import KnownPoints
    from oncelog.tools.log.tables.files import NoSuchPartition, partition_files

    with snapshot(dsn, schema) as tables:
        try:
            files = partition_files(tables, name)
        except NoSuchPartition as error:
            _fail(str(error))
        points = KnownPoints(files.log.log_start_offset, files.log.log_end_offset)
        with progress_bar(name, files.size_bytes) as on_read:
            return read_map_of(
                files.log.topic, files.log.partition, points, files.segments(), files.first_snapshot(), on_read
            )


def _fail(message: str) -> NoReturn:
    fail(message, EXIT_NOT_READ)


def _cells(found: "PartitionMap", from_offset: int | None, to_offset: int | None) -> tuple[int, int]:
    first_cell = 0 if from_offset is None else found.cell_of(from_offset)
    end_cell = len(found.states) if to_offset is None else min(found.cell_of(to_offset) + 1, len(found.states))
    return first_cell, end_cell


def _print_json(found: "PartitionMap") -> None:
    from oncelog.tools.log.map.partition import objects

    for fields in objects(found):
        say_json(fields, indent=None)


def _draw(found: "PartitionMap", width: int | None, svg_path: Path | None, first_cell: int, end_cell: int) -> None:
    from rich.console import Console

    from oncelog.tools.log.map.picture import draw, svg

    if svg_path is None:
        console = Console(width=width, emoji=False)
        with writing():
            draw(found, console, console.width, first_cell, end_cell)
        return
    try:
        svg_path.write_text(svg(found, width, first_cell, end_cell), encoding="utf-8")
    except OSError as error:
        _fail(f"{svg_path}: {error.strerror or error}")
