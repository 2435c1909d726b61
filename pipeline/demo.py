"""`make demo`: real purchases, exactly once, under trouble; verified with somebody else's client.

Owns: the order of the show, what people see, the exit code: 0 when everything is equal to the file, 1 when anything
differs, 2 when the input cannot be used.
"""

import argparse
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from pipeline import picture
from pipeline.data import InputError, Purchase, Totals, read_purchases, totals_of
from pipeline.java import JavaMissing, java_home
from pipeline.loading import Load, LoadPlan, Troubles
from pipeline.processes import DaemonProcess, ProcessFailed
from pipeline.totalling import Totalling, run_job
from pipeline.verify import Published, Seen, Unreadable, differences, read_purchases_back, read_totals_back

TOPIC, OUTPUT = "purchases", "totals"
PARTITIONS = 4
WANTED_BATCHES = 6
MINIMUM_BATCHES = 5
EXIT_DIFFERENT, EXIT_BAD_INPUT = 1, 2


def main() -> int:
    arguments = _arguments()
    console = Console()
    started = time.monotonic()
    try:
        path, purchases = read_purchases(arguments.data, arguments.input)
    except InputError as error:
        console.print(f"[red]oncelog demo:[/] {error}", soft_wrap=True)
        return EXIT_BAD_INPUT
    work = arguments.work.absolute()
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    expected = totals_of(purchases)
    console.print(
        f"[bold]{expected.count:,}[/] purchases by {len(expected.by_customer):,} customers from {path.name}: "
        f"[bold]{picture.money(expected.cents)}[/] dollars, kept as {expected.cents:,} cents",
        soft_wrap=True,
    )
    daemon = DaemonProcess(work / "data", work / "daemon.log")
    try:
        java_home(work)  # a missing Java should be told now, not after the load
        daemon.start()
        troubles, totalling = _run(console, daemon, purchases, arguments, work)
        committed, uncommitted, published = _read_back(console, daemon.bootstrap)
    except (ProcessFailed, Unreadable, JavaMissing) as error:
        console.print(f"[red]oncelog demo failed:[/] {error}\nEverything it wrote is in {work}", soft_wrap=True)
        return EXIT_DIFFERENT
    finally:
        daemon.stop()
    findings = Findings(expected, committed, uncommitted, published, troubles, totalling)
    return _report(console, path, findings, work, started)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Purchases through the broker and PySpark, exactly once.")
    parser.add_argument("--data", default="cdnow", help="cdnow (default) or completejourney")
    parser.add_argument("--input", type=Path, help="a file of CDNOW's columns instead")
    parser.add_argument(
        "--work", type=Path, default=Path(".demo"), help="folder for everything it writes; emptied first"
    )
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
    # Control and aborted records take offsets too: a little more room than the records alone would need.
    max_per_partition = max(1, len(purchases) * 11 // 10 // PARTITIONS // WANTED_BATCHES)
    with _progress(console) as progress:
        loading = progress.add_task("loading under trouble", total=len(purchases))
        load = Load(
            daemon,
            plan,
            purchases,
            work,
            lambda committed: progress.update(loading, completed=committed),
            lambda text: progress.console.print(f"  [dim]·[/] {text}", soft_wrap=True),
        )
        troubles = load.run()
        totals = progress.add_task("totalling with PySpark", total=WANTED_BATCHES + 1)

        def on_batch(result: Totalling) -> None:
            progress.update(totals, completed=result.batch_count, total=max(WANTED_BATCHES + 1, result.batch_count))

        totalling = run_job(
            daemon.bootstrap,
            TOPIC,
            OUTPUT,
            max_per_partition,
            work,
            on_batch,
            lambda text: progress.console.print(f"  [dim]·[/] {text}", soft_wrap=True),
        )
        progress.update(totals, completed=totalling.batch_count, total=totalling.batch_count)
    return troubles, totalling


def _read_back(console: Console, bootstrap: str) -> tuple[Seen, Seen, Published]:
    with console.status("reading everything back with confluent-kafka"):
        committed = read_purchases_back(bootstrap, TOPIC, "read_committed")
        uncommitted = read_purchases_back(bootstrap, TOPIC, "read_uncommitted")
        return committed, uncommitted, read_totals_back(bootstrap, OUTPUT)


@dataclass(frozen=True, slots=True)
class Findings:
    """What was computed from the file, what was read back, and what was done in between."""

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
        totalling = self.totalling
        if totalling.died_after not in totalling.skipped:
            found.append(f"batch {totalling.died_after} was not skipped after the driver died: {totalling.skipped}")
        if totalling.batch_count < MINIMUM_BATCHES:
            found.append(f"only {totalling.batch_count} micro-batches ran, at least {MINIMUM_BATCHES} are wanted")
        return found


def _report(console: Console, path: Path, findings: Findings, work: Path, started: float) -> int:
    console.print(_table(findings))
    _tell_troubles(console, findings.troubles, findings.totalling)
    expected = findings.expected
    svg = picture.draw(
        f"{expected.count:,} purchases, exactly once",
        expected.cents,
        findings.committed.cents,
        findings.uncommitted.cents,
        findings.pipeline_cents,
        findings.troubles,
        findings.totalling,
    )
    picture.write(work / "demo.svg", svg)
    console.print(f"Picture: {work / 'demo.svg'}   everything else it wrote: {work}", soft_wrap=True)
    found = findings.differences()
    for difference in found:
        console.print(f"[red]DIFFERENT[/] {difference}", soft_wrap=True)
    if found:
        return EXIT_DIFFERENT
    console.print(
        f"[green]Every customer's total and every month's is equal to {path.name}, to the cent[/] "
        f"({time.monotonic() - started:.0f} s)",
        soft_wrap=True,
    )
    return 0


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


def _tell_troubles(console: Console, troubles: Troubles, totalling: Totalling) -> None:
    dirty = troubles.aborted_cents + troubles.zombie_cents
    console.print(
        f"aborted and sent again: {troubles.aborted_transactions} transactions, {troubles.aborted_records:,} records · "
        f"zombie refused: {troubles.zombie_error} · daemon killed: {troubles.kills} · "
        f"loaders began again: {troubles.retries} times\n"
        f"records that read_uncommitted should not have counted: at least {picture.money(dirty)} dollars · "
        f"micro-batches: {totalling.batch_count}, skipped by marker: {totalling.skipped} · "
        f"Spark {totalling.spark} on {totalling.java} Java",
        soft_wrap=True,
    )


if __name__ == "__main__":
    sys.exit(main())
