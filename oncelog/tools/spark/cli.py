"""`oncelog spark state`, `repair` and `report`: the options, what is printed, the exit codes.

Exit codes: 0 done, 1 the next start of the query is refused, 2 failed.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

import click

from oncelog.pipeline.option_values import MARKER_TOPIC
from oncelog.tools.terminal import Row, fail, say, say_json, say_pairs

if TYPE_CHECKING:
    from oncelog.tools.spark.state import State

EXIT_REFUSED = 1
EXIT_FAILED = 2
T = TypeVar("T")

_SINK = (
    click.argument("checkpoint", metavar="CHECKPOINT"),
    click.option(
        "-b",
        "--bootstrap",
        metavar="HOST:PORT",
        default="127.0.0.1:9092",
        show_default=True,
        help="Where the sink writes.",
    ),
    click.option("--sink-id", metavar="ID", help="The option sinkId of the query, if it has one."),
    click.option("--marker-topic", metavar="NAME", default=MARKER_TOPIC, show_default=True),
    click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs."),
)
"""What names a query and its sink."""


def _of_a_sink(command: Callable[..., None]) -> Callable[..., None]:
    for parameter in reversed(_SINK):
        command = parameter(command)
    return command


@click.group()
def spark() -> None:
    """Compare what a Spark query's sink remembers with its checkpoint, and repair it."""


@spark.command()
@_of_a_sink
def state(checkpoint: str, bootstrap: str, sink_id: str | None, marker_topic: str, as_json: bool) -> None:
    """The marker beside the checkpoint, and what the next start of the query does.

    CHECKPOINT is the checkpointLocation of the query. Exits with 1 if the next start is refused.
    """
    found = _read(checkpoint, bootstrap, marker_topic, sink_id)
    _show(found, as_json)
    if not found.is_consistent:
        raise SystemExit(EXIT_REFUSED)


@spark.command()
@_of_a_sink
@click.option("--applied", "batch_id", metavar="BATCH", type=click.IntRange(0), help="Say that this batch is applied.")
@click.option("--forget", is_flag=True, help="Forget the query: its next batch must be batch 0.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def repair(
    checkpoint: str,
    bootstrap: str,
    sink_id: str | None,
    marker_topic: str,
    as_json: bool,
    batch_id: int | None,
    forget: bool,
    yes: bool,
) -> None:
    """Set the marker to what a person knows: --applied BATCH, or --forget.

    Stop the query first; a driver that runs is fenced. With a wrong BATCH records are lost or doubled: look into the
    output before.
    """
    from oncelog.pipeline.sink.checkpoint import Checkpoint
    from oncelog.tools.spark.state import applied, write_marker

    if forget == (batch_id is not None):
        raise click.UsageError("One of --applied and --forget says what is to be done.")
    before = _read(checkpoint, bootstrap, marker_topic, sink_id)
    marker = None if batch_id is None else _try(lambda: applied(Checkpoint(checkpoint), batch_id))
    if not yes:
        _show(before, False)
        change = "forgotten" if marker is None else f"set to batch {batch_id}"
        click.confirm(f"The marker will be {change}. Continue?", abort=True, err=True)
    _run(write_marker(bootstrap, marker_topic, before.sink_id, marker))
    _show(_read(checkpoint, bootstrap, marker_topic, sink_id), as_json)


@spark.command()
@_of_a_sink
@click.option("--output", "outputs", metavar="TOPIC", multiple=True, help="A topic to look into, if the log forgot it.")
@click.option("-o", "--page", "path", metavar="FILE", type=click.Path(dir_okay=False), default="spark-report.html")
def report(
    checkpoint: str,
    bootstrap: str,
    sink_id: str | None,
    marker_topic: str,
    as_json: bool,
    outputs: tuple[str, ...],
    path: str,
) -> None:
    """Write one HTML page about a query: each micro-batch with its offsets, times, faults, and skipped replays.

    From the checkpoint, the broker's log, and what was noted on this machine. It reads the source ranges and the
    outputs of the batches that the checkpoint has, which may take a while. With --json it prints what it found instead.
    """
    from pathlib import Path

    from oncelog.pipeline.notes import Notes
    from oncelog.pipeline.sink.checkpoint import Checkpoint
    from oncelog.tools.spark.page import page
    from oncelog.tools.spark.report import report_of

    found = _run(report_of(Checkpoint(checkpoint), bootstrap, marker_topic, sink_id, outputs, Notes.open()))
    if as_json:
        say_json(found.as_json())
        return
    _try(lambda: Path(path).write_text(page(found), encoding="utf-8"))
    say(f"{len(found.batches)} micro-batches: {path}")


def _read(checkpoint: str, bootstrap: str, topic: str, sink_id: str | None) -> "State":
    from oncelog.pipeline.sink.checkpoint import Checkpoint
    from oncelog.tools.spark.state import state_of

    return _run(state_of(Checkpoint(checkpoint), bootstrap, topic, sink_id))


def _run(work: Coroutine[Any, Any, T]) -> T:
    return _try(lambda: asyncio.run(work))


def _try(work: Callable[[], T]) -> T:
    """What `work` returns; an expected failure is a sentence and exit code 2."""
    from oncelog.client import KafkaError
    from oncelog.pipeline.sink.checkpoint import CheckpointError
    from oncelog.pipeline.sink.marker import MarkerMismatch

    try:
        return work()
    except (KafkaError, CheckpointError, MarkerMismatch, OSError) as error:
        fail(str(error), EXIT_FAILED)


def _show(found: "State", as_json: bool) -> None:
    if as_json:
        say_json(asdict(found))
        return
    marker = found.marker
    row: Row = {
        "query": found.query_id,
        "sink": found.sink_id,
        "last batch planned": found.last_planned,
        "last batch done": found.last_done,
        "last batch applied": None if marker is None else marker.batch_id,
        "its outputs": None if marker is None else [f"{name}: {count}" for name, count in marker.outputs.items()],
    }
    say_pairs(row)
    say()
    say(f"Next start: {found.next_start}")
