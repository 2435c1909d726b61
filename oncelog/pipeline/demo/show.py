"""`make demo`: real purchases, exactly once, under faults; verified with a third-party client.

Owns: the order of the steps, the output, the exit code: 0 when everything equals the file, 1 when anything differs, 2
when the input cannot be used, 130 when interrupted.
"""

import argparse
import asyncio
import shutil
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from oncelog.client import KafkaError
from oncelog.pipeline.demo import picture
from oncelog.pipeline.demo.data import InputError, Purchase, Totals, read_purchases, totals_of
from oncelog.pipeline.demo.loading import Load, LoadPlan, Troubles
from oncelog.pipeline.demo.processes import DaemonProcess, ProcessFailed
from oncelog.pipeline.demo.survey import Strip, count_offsets, survey
from oncelog.pipeline.demo.totalling import Drivers, Totalling
from oncelog.pipeline.demo.verify import Published, Seen, Unreadable, differences, read_purchases_back, read_totals_back
from oncelog.pipeline.java import JavaMissing, java_home
from oncelog.protocol.printable import printable

TOPIC, OUTPUT = "purchases", "totals"
PARTITIONS = 4
WANTED_BATCHES = 6
MINIMUM_BATCHES = 5
MINIMUM_PURCHASES = 10
EXIT_DIFFERENT, EXIT_BAD_INPUT, EXIT_STOPPED = 1, 2, 130
CAVEATS = {
    "completejourney": 'Its package says: "simulated data based on real grocery shopping patterns".',
}
WORK_MARK = ".oncelog-demo"


def main() -> int:
    arguments = _arguments()
    console = Console(emoji=False)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # its processes end with it, however it is ended
    try:
        path, purchases = read_purchases(arguments.data, arguments.input)
        if len(purchases) < MINIMUM_PURCHASES:
            raise InputError(f"{path} contains {len(purchases)} purchases; the demo needs at least {MINIMUM_PURCHASES}")
        work = _empty_folder(arguments.work.absolute())
    except (InputError, OSError) as error:
        console.print(f"[red]oncelog demo:[/] {_escape(str(error))}", soft_wrap=True)
        return EXIT_BAD_INPUT
    try:
        return _show(console, path, purchases, arguments, work)
    except (ProcessFailed, Unreadable, JavaMissing, KafkaError) as error:
        console.print(f"[red]oncelog demo failed:[/] {_escape(str(error))}", soft_wrap=True)
        code = EXIT_DIFFERENT
    except KeyboardInterrupt:
        console.print("[red]oncelog demo:[/] stopped, and its processes with it")
        code = EXIT_STOPPED
    console.print(f"Everything it wrote is in {_escape(str(work))}", soft_wrap=True)
    return code


def _empty_folder(work: Path) -> Path:
    """Return the work folder, empty. Raises InputError rather than empty a folder of another origin."""
    if work.exists():
        if not (work / WORK_MARK).exists() and (not work.is_dir() or any(work.iterdir())):
            raise InputError(f"{work} is not a work folder of this demo: remove it, or name another with --work")
        for entry in work.iterdir():  # the folder itself stays: it may be a mount point
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    work.mkdir(parents=True, exist_ok=True)
    (work / WORK_MARK).touch()
    return work


def _show(console: Console, path: Path, purchases: list[Purchase], arguments: argparse.Namespace, work: Path) -> int:
    started = time.monotonic()
    expected = totals_of(purchases)
    console.print(
        f"[bold]{expected.count:,}[/] purchases by {len(expected.by_customer):,} customers from "
        f"{_escape(path.name)}: [bold]{picture.money(expected.cents)}[/] dollars, kept as {expected.cents:,} cents",
        soft_wrap=True,
    )
    if arguments.input is None and arguments.data in CAVEATS:
        console.print(f"  [dim]{_escape(CAVEATS[arguments.data])}[/]", soft_wrap=True)
    java_home(work)  # report a missing Java now, not after the load
    daemon = DaemonProcess(work / "data", work / "daemon.log")
    try:
        daemon.start()
        troubles, totalling = _run(console, daemon, purchases, arguments, work)
        committed, uncommitted, published, strips = _read_back(console, daemon.bootstrap)
    except (ProcessFailed, Unreadable, KafkaError):
        daemon.check_alive()  # if it has died, that is the cause, and all else only follows from it
        raise
    finally:
        daemon.stop()
    findings = Findings(expected, committed, uncommitted, published, troubles, totalling)
    picture.write(work / "demo.svg", _picture(findings, strips))
    return _report(console, path, findings, work, started)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m oncelog.pipeline.demo", description="Purchases through the broker and PySpark, exactly once."
    )
    parser.add_argument("--data", default="cdnow", help="cdnow (default) or completejourney")
    parser.add_argument("--input", type=Path, help="a file with CDNOW's columns instead")
    parser.add_argument("--work", type=Path, default=Path(".demo"), help="folder for all its output; emptied first")
    return parser.parse_args()


def _progress(console: Console) -> Progress:
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description:<28}"),
        BarColumn(bar_width=40),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )


def _run(
    console: Console, daemon: DaemonProcess, purchases: list[Purchase], arguments: argparse.Namespace, work: Path
) -> tuple[Troubles, Totalling]:
    batch = max(1, min(5_000, len(purchases) // 140))
    source_arguments = ["--data", arguments.data]
    if arguments.input is not None:
        source_arguments += ["--input", str(arguments.input.absolute())]
    plan = LoadPlan(TOPIC, PARTITIONS, batch, 10, source_arguments)
    with _progress(console) as progress:
        loading = progress.add_task("loading under faults", total=len(purchases))
        totals = progress.add_task("totalling with PySpark", total=WANTED_BATCHES)

        def report(text: str) -> None:
            progress.console.print(f"  [dim]·[/] {_escape(text)}", soft_wrap=True)

        def on_batch(result: Totalling) -> None:
            progress.update(totals, completed=result.batch_count, total=max(WANTED_BATCHES, result.batch_count))

        with Drivers(daemon.bootstrap, TOPIC, OUTPUT, work, on_batch, report) as drivers:
            load = Load(
                daemon, plan, purchases, work, lambda committed: progress.update(loading, completed=committed), report
            )
            troubles = load.run()
            # The source rounds the share of each partition down: what that leaves would be a batch of its own.
            totalling = drivers.run(
                -(-asyncio.run(count_offsets(daemon.bootstrap, TOPIC)) // WANTED_BATCHES) + PARTITIONS
            )
        progress.update(totals, completed=totalling.batch_count, total=totalling.batch_count)
    return troubles, totalling


def _read_back(console: Console, bootstrap: str) -> tuple[Seen, Seen, Published, list[Strip]]:
    with console.status("reading everything back with confluent-kafka"):
        committed = read_purchases_back(bootstrap, TOPIC, "read_committed")
        uncommitted = read_purchases_back(bootstrap, TOPIC, "read_uncommitted")
        published = read_totals_back(bootstrap, OUTPUT)
        return committed, uncommitted, published, asyncio.run(survey(bootstrap, TOPIC))


@dataclass(frozen=True, slots=True)
class Findings:
    """The totals computed from the file, the records read back, and the events in between."""

    expected: Totals
    committed: Seen
    uncommitted: Seen
    published: Published
    troubles: Troubles
    totalling: Totalling

    @property
    def pipeline_cents(self) -> int:
        return sum(self.published.by_customer.values())

    def differences(self) -> list[str]:
        found = differences(self.expected, self.committed, self.published)
        troubles, totalling = self.troubles, self.totalling
        surplus = self.uncommitted.cents - self.expected.cents
        if surplus < troubles.dirty_cents:
            found.append(f"read_uncommitted saw {surplus:,} cents too much, not the {troubles.dirty_cents:,} aborted")
        if troubles.kills != 1:
            found.append(f"the daemon was killed {troubles.kills} times during the load instead of once")
        if totalling.died_after not in totalling.skipped:
            found.append(f"batch {totalling.died_after} was not skipped after the driver died: {totalling.skipped}")
        if totalling.batch_count < MINIMUM_BATCHES:
            found.append(f"only {totalling.batch_count} micro-batches ran, at least {MINIMUM_BATCHES} are needed")
        return found


def _report(console: Console, path: Path, findings: Findings, work: Path, started: float) -> int:
    console.print(_table(findings))
    _show_troubles(console, findings.troubles, findings.totalling)
    console.print(
        f"Picture: {_escape(str(work / 'demo.svg'))}   everything else it wrote: {_escape(str(work))}", soft_wrap=True
    )
    found = findings.differences()
    for difference in found:
        console.print(f"[red]DIFFERENT[/] {_escape(difference)}", soft_wrap=True)
    if found:
        return EXIT_DIFFERENT
    console.print(
        f"[green]Every customer's total and every month's is equal to {_escape(path.name)}, to the cent[/] "
        f"({time.monotonic() - started:.0f} s)",
        soft_wrap=True,
    )
    return 0


def _escape(text: str) -> str:
    """Escape text for a piece of markup."""
    return escape(printable(text))


def _picture(findings: Findings, strips: list[Strip]) -> str:
    return picture.draw(
        f"{findings.expected.count:,} purchases, exactly once",
        findings.expected.cents,
        findings.committed.cents,
        findings.uncommitted.cents,
        findings.pipeline_cents,
        findings.troubles,
        strips,
        findings.totalling,
    )


def _table(findings: Findings) -> Table:
    expected, published = findings.expected, findings.published
    table = Table(title="What each reader adds up", title_justify="left")
    table.add_column("reader")
    for name in ("records", "dollars", "against the file"):
        table.add_column(name, justify="right")
    for name, records, cents in (
        ("from the file", expected.count, expected.cents),
        ("read_committed", findings.committed.records, findings.committed.cents),
        ("read_uncommitted", findings.uncommitted.records, findings.uncommitted.cents),
        ("after the pipeline", published.purchases, findings.pipeline_cents),
    ):
        off = cents - expected.cents
        is_equal = off == 0 and records == expected.count
        verdict = "equal" if is_equal else f"{'+' if off >= 0 else '-'}{picture.money(abs(off))}"
        table.add_row(name, f"{records:,}", picture.money(cents), verdict)
    return table


def _show_troubles(console: Console, troubles: Troubles, totalling: Totalling) -> None:
    console.print(
        f"aborted and sent again: {troubles.aborted_transactions} transactions, {troubles.aborted_records:,} records · "
        f"zombie rejected: {_escape(str(troubles.zombie_error))} · daemon killed: {troubles.kills} · "
        f"loaders restarted: {troubles.retries} times\n"
        f"read_uncommitted counts aborted records too: at least {picture.money(troubles.dirty_cents)} dollars · "
        f"micro-batches: {totalling.batch_count}, skipped by marker: {totalling.skipped} · "
        f"Spark {_escape(totalling.spark)} on {_escape(totalling.java)} Java",
        soft_wrap=True,
    )
