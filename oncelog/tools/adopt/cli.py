"""`oncelog adopt`: a data directory from a copy of Apache Kafka's.

Owns: the options, the table, the exit codes. Does not own: the work (`adoption`, imported when the command runs).
Exit codes: 0 done (or, with --dry-run, possible), 1 something would be missing, 2 not possible.
"""

import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from oncelog.tools.terminal import fail, say, say_json, say_progress, say_table

if TYPE_CHECKING:
    from oncelog.tools.adopt.adoption import Report

EXIT_MISSING = 1
EXIT_FAILED = 2


@click.command()
@click.argument("kafka_dirs", metavar="KAFKA_DIR...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--out", "data_dir", metavar="DIR", required=True, type=click.Path(path_type=Path), help="A new directory."
)
@click.option("--partial", is_flag=True, help="Adopt what is here, although records of the cluster are missing.")
@click.option("--copy", "copies", is_flag=True, help="Copy every file, also those that could be hard-linked.")
@click.option("--dry-run", is_flag=True, help="Report what would be done, and write nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
def adopt(
    kafka_dirs: tuple[Path, ...], data_dir: Path, partial: bool, copies: bool, dry_run: bool, as_json: bool
) -> None:
    """Make a data directory of the log directories of a broker of Apache Kafka 3.9 to 4.3 (KRaft).

    Kafka must be stopped, or each KAFKA_DIR a copy; nothing in it is changed. Topics with their ids and settings,
    records, transactions, committed offsets, groups and transactional ids go along. Give all log.dirs of the broker,
    and its metadata.log.dir. Closed segments are hard links where that is possible. Every byte is read once.
    """
    from oncelog.broker.config.settings import load_config
    from oncelog.tools.adopt.adoption import Watcher, Wish, preview
    from oncelog.tools.adopt.adoption import adopt as run
    from oncelog.tools.kafka_directory import NotPossible
    from oncelog.tools.kafka_directory.taking import say_copied

    config, _ = load_config(host_name=socket.gethostname)

    def on_plan(report: "Report") -> None:
        if not as_json:
            _show(report)
        if not (report.plan.is_complete or partial):
            _end_incomplete(data_dir, report, as_json=as_json)

    wish = Wish(kafka_dirs, data_dir, config, copies)
    try:
        if dry_run:
            report = preview(wish)
            on_plan(report)
        else:
            report = run(wish, Watcher(on_plan, say_copied, _on_partition))
    except NotPossible as error:
        fail(f"{error}.", EXIT_FAILED)
    if as_json:
        say_json(_as_dict(data_dir, report, is_done=not dry_run))
    else:
        _show_end(data_dir, report, is_done=not dry_run)


def _end_incomplete(data_dir: Path, report: "Report", *, as_json: bool) -> None:
    if as_json:
        say_json(_as_dict(data_dir, report, is_done=False))
    fail("records of the cluster would be missing, so nothing was written: --partial adopts the others.", EXIT_MISSING)


def _on_partition(done: int, total: int) -> None:
    if sys.stderr.isatty():
        say_progress(f"read {done:,} of {total:,} partitions" if done < total else "")


# --- what is printed --------------------------------------------------------------------------------------------------


def _show(report: "Report") -> None:
    linked = "are hard links" if report.links else "are copied"
    rows = [{"WHAT": row.what, "COUNT": row.count, "IN ONCELOG": row.outcome} for row in report.plan.rows]
    for what, size_bytes, outcome in (
        ("bytes of closed segments", report.closed_bytes, linked),
        ("bytes that grow", report.growing_bytes, "are copied"),
    ):
        if size_bytes:
            rows.append({"WHAT": what, "COUNT": size_bytes, "IN ONCELOG": outcome})
    say_table(rows, ends_in_prose=True)


def _show_end(data_dir: Path, report: "Report", *, is_done: bool) -> None:
    say()
    if not is_done:
        say("Nothing was written.")
        return
    node_id = report.plan.node_id
    as_node = "" if node_id == 1 else f" --override node.id={node_id}"
    say(f"{data_dir} is a data directory of oncelog. To look at it (read-only), or to continue from it:")
    say(f"oncelog serve --data-dir {data_dir}{as_node}")
    say(f"oncelog serve --data-dir {data_dir}{as_node} --writable")


def _as_dict(data_dir: Path, report: "Report", *, is_done: bool) -> dict[str, Any]:
    plan = report.plan
    return {
        "data_dir": str(data_dir),
        "done": is_done,
        "complete": plan.is_complete,
        "cluster_id": plan.state.cluster_id,
        "node_id": plan.node_id,
        "rows": [
            {"what": row.what, "count": row.count, "fate": row.fate.value, "outcome": row.outcome} for row in plan.rows
        ],
        "partitions": [found.directory for found in plan.partitions],
        "closed_bytes": report.closed_bytes,
        "growing_bytes": report.growing_bytes,
        "links": report.links,
    }
