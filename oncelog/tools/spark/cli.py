"""`oncelog spark state`, `repair`, `forget` and `report`: the options, what is printed, the exit codes.

Exit codes: 0 done, 1 the next start of the query is refused, 2 failed.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click

from oncelog.pipeline.option_values import MARKER_TOPIC
from oncelog.tools.asking import bootstrap_option
from oncelog.tools.terminal import Row, confirm, fail, say, say_json, say_pairs, say_table, yes_option

if TYPE_CHECKING:
    from oncelog.client import SecurityOptions
    from oncelog.tools.spark.runs import Run
    from oncelog.tools.spark.state import State

EXIT_REFUSED = 1
EXIT_FAILED = 2
_DAY_MS = 86_400_000
T = TypeVar("T")

_DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
_BOOTSTRAP = bootstrap_option(default=_DEFAULT_BOOTSTRAP, show_default=True, help="Where the sink writes.")


def _security(_context: click.Context, _parameter: click.Parameter, file: str | None) -> "SecurityOptions":
    """Return the options of a client, as a click callback."""
    from oncelog.tools.asking import choose

    return choose(_DEFAULT_BOOTSTRAP, None, None, file).security


_SECURITY = click.option(
    "--command-config",
    "security",
    metavar="FILE",
    callback=_security,
    help="Settings of Kafka's clients: security.protocol, sasl.*, ssl.* (ONCELOG_COMMAND_CONFIG).",
)
_MARKER_TOPIC = click.option("--marker-topic", metavar="NAME", default=MARKER_TOPIC, show_default=True)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
_SINK = (
    click.argument("checkpoint", metavar="CHECKPOINT"),
    _BOOTSTRAP,
    _SECURITY,
    click.option("--sink-id", metavar="ID", help="The option sinkId of the query, if it has one."),
    _MARKER_TOPIC,
    _JSON,
)
"""The options that name a query and its sink."""


def _of_a_sink(command: Callable[..., None]) -> Callable[..., None]:
    for parameter in reversed(_SINK):
        command = parameter(command)
    return command


@click.group()
def spark() -> None:
    """Compare what a Spark query's sink remembers with its checkpoint, and repair it."""


@spark.command()
@_of_a_sink
def state(
    checkpoint: str,
    bootstrap: str,
    security: "SecurityOptions",
    sink_id: str | None,
    marker_topic: str,
    as_json: bool,
) -> None:
    """Show what the next start of a query does, and what it waits for.

    It shows the marker beside the checkpoint. CHECKPOINT is the checkpointLocation of the query. Exits with 1 if the
    next start is refused.
    """
    found = _read(checkpoint, bootstrap, security, marker_topic, sink_id)
    _show(found, as_json)
    if not found.is_consistent:
        raise SystemExit(EXIT_REFUSED)


@spark.command()
@_of_a_sink
@click.option("--applied", "batch_id", metavar="BATCH", type=click.IntRange(0), help="Say that this batch is applied.")
@click.option("--forget", is_flag=True, help="Forget the query: its next batch must be batch 0.")
@yes_option
def repair(
    checkpoint: str,
    bootstrap: str,
    security: "SecurityOptions",
    sink_id: str | None,
    marker_topic: str,
    as_json: bool,
    batch_id: int | None,
    forget: bool,
    yes: bool,
) -> None:
    """Set the marker of a query to what a person knows.

    Give --applied BATCH, or --forget. Stop the query first; a driver that runs is fenced. With a wrong BATCH records
    are lost or doubled: look into the output before.
    """
    from oncelog.pipeline.sink.checkpoint import Checkpoint
    from oncelog.tools.spark.state import applied, write_marker

    if forget == (batch_id is not None):
        raise click.UsageError("Give --applied BATCH or --forget.")
    before = _read(checkpoint, bootstrap, security, marker_topic, sink_id)
    marker = None if batch_id is None else _try(lambda: applied(Checkpoint(checkpoint), batch_id))
    if not yes:
        _show(before, False)
        change = "forgotten" if marker is None else f"set to batch {batch_id}"
        confirm(f"The marker will be {change}. Continue?", yes=yes, is_always_asked=True)
    _run(write_marker(bootstrap, marker_topic, before.sink_id, marker, security))
    _show(_read(checkpoint, bootstrap, security, marker_topic, sink_id), as_json)


@spark.command()
@_BOOTSTRAP
@_SECURITY
@_MARKER_TOPIC
@_JSON
@click.option("--run-id", "run_ids", metavar="ID", multiple=True, help="The option runId of a batch write.")
@click.option("--older-than", "days", metavar="DAYS", type=click.IntRange(0), help="Every one that is so old.")
@yes_option
def forget(
    bootstrap: str,
    security: "SecurityOptions",
    marker_topic: str,
    as_json: bool,
    run_ids: tuple[str, ...],
    days: int | None,
    yes: bool,
) -> None:
    """Forget batch writes that have a runId, or list them.

    Without --run-id and --older-than they are listed. A write with an id that is forgotten writes again. Forget what no
    job repeats; streams are left alone.
    """
    from oncelog.tools.spark.runs import forget as forget_runs
    from oncelog.tools.spark.runs import runs_of

    runs = _run(runs_of(bootstrap, marker_topic, security))
    unknown = set(run_ids) - {run.run_id for run in runs}
    if unknown:
        fail(f"no batch write is remembered with the id {', '.join(sorted(unknown))}", EXIT_FAILED)
    is_list = not run_ids and days is None
    before_ms = -1 if days is None else int(time.time() * 1000) - days * _DAY_MS
    chosen = [run for run in runs if is_list or run.run_id in run_ids or run.written_ms <= before_ms]
    if as_json:
        say_json([asdict(run) for run in chosen])
    elif chosen:
        say_table([_row(run) for run in chosen])
    else:
        say("no batch write is remembered" if is_list else f"no batch write is {days} days old")
    if is_list or not chosen:
        return
    question = f"Forget {len(chosen)}: a write with such an id writes again. Continue?"
    confirm(question, yes=yes, is_always_asked=True)
    _run(forget_runs(bootstrap, marker_topic, chosen, security))


@spark.command()
@_of_a_sink
@click.option("--output", "outputs", metavar="TOPIC", multiple=True, help="A topic to look into, if the log forgot it.")
@click.option("-o", "--page", "path", metavar="FILE", type=click.Path(dir_okay=False), default="spark-report.html")
def report(
    checkpoint: str,
    bootstrap: str,
    security: "SecurityOptions",
    sink_id: str | None,
    marker_topic: str,
    as_json: bool,
    outputs: tuple[str, ...],
    path: str,
) -> None:
    """Write one HTML page about a query and its micro-batches.

    Each has its offsets, times, faults, and skipped replays. From the checkpoint, the broker's log, and what was noted
    on this machine. It reads the source ranges and the outputs of the batches that the checkpoint has, which may take a
    while. With --json it prints what it found instead.
    """
    from pathlib import Path

    from oncelog.pipeline.notes import Notes
    from oncelog.pipeline.sink.checkpoint import Checkpoint
    from oncelog.tools.spark.page import page
    from oncelog.tools.spark.report import report_of

    query = Checkpoint(checkpoint)
    found = _run(report_of(query, bootstrap, marker_topic, sink_id, outputs, Notes.open(), security))
    if as_json:
        say_json(found.as_json())
        return
    _try(lambda: Path(path).write_text(page(found), encoding="utf-8"))
    say(f"{len(found.batches)} micro-batches: {path}")


def _read(checkpoint: str, bootstrap: str, security: "SecurityOptions", topic: str, sink_id: str | None) -> "State":
    from oncelog.pipeline.sink.checkpoint import Checkpoint
    from oncelog.tools.spark.state import state_of

    return _run(state_of(Checkpoint(checkpoint), bootstrap, topic, sink_id, security))


def _run(work: Coroutine[Any, Any, T]) -> T:
    return _try(lambda: asyncio.run(work))


def _try(work: Callable[[], T]) -> T:
    """Return what `work` returns; an expected failure is a sentence and exit code 2."""
    from oncelog.client import KafkaError
    from oncelog.pipeline.sink.checkpoint import CheckpointError
    from oncelog.pipeline.sink.marker import MarkerMismatch

    try:
        return work()
    except (KafkaError, CheckpointError, MarkerMismatch, OSError) as error:
        fail(str(error), EXIT_FAILED)


def _row(run: "Run") -> Row:
    return {
        "run id": run.run_id,
        "output": run.output or "any (of an earlier version)",
        "written": datetime.fromtimestamp(run.written_ms / 1000, UTC).isoformat(timespec="seconds"),
        "records": sum(run.outputs.values()),
    }


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
    for each in found.waiting or ():
        say(f"Waiting: {each}")
