"""`make proof WHAT=ledger`: the ledger over a whole data set under faults, each output compared to the cent.

    python -m tests.spark.ledger_run [--data completejourney|cdnow] [--write docs/spark/spark-ledger.md]

The ledger runs as users run it: `python -m oncelog.pipeline.ledger.job`, a process that is started again when it ends
badly. Purchases come in two waves, with late and broken ones among them. In each wave and each of the four queries the
driver (Python and the JVM below it) is killed (-9) inside a batch, and the broker is killed (-9) and started again
inside another one. What every topic and the table must hold is computed by `tests.support.spark.ledger`, without Spark,
from the bytes that were sent; the sum is once more taken from the data file itself.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from oncelog.pipeline.demo.data import Purchase, read_purchases
from tests.support.processes.daemon import Daemon
from tests.support.spark import ledger
from tools.markers import with_block

PREFIX = "run."
QUERIES = ("intake", "balances", "sessions", "table")
_FAILURES = 8
"""How often a driver may end by itself, which it does if the broker dies at a moment when it does not wait for it."""
_POLL_S = 0.02
_DELAY_S = 2.0
"""A fault comes at most so long after its batch was planned: a batch takes longer."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One of these happens inside the next batch of a query; which one, and when in it, is the seed's."""

    query: str
    victim: str
    """`driver` or `broker`"""


ALL = tuple(Fault(query, victim) for query in QUERIES for victim in ("broker", "driver"))


@dataclass
class Run:
    """The processes of one run, and what happened to them."""

    work: Path
    daemon: Daemon
    rows_per_batch: int
    random: Random
    happened: list[tuple[str, str]] = field(default_factory=list)
    """The victim of each fault, and when it was killed."""
    lives: int = 0
    failures: int = 0
    """Lives that ended with an error of their own."""

    @property
    def checkpoint(self) -> Path:
        return self.work / "checkpoint"

    @property
    def table(self) -> Path:
        return self.work / "table"

    def start(self) -> "subprocess.Popen[bytes]":
        from oncelog.pipeline.java import java_home

        environment = {
            **os.environ,
            "JAVA_HOME": str(java_home(self.work)[0]),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYSPARK_SUBMIT_ARGS": "--driver-memory 2g --conf spark.ui.enabled=false "
            "--conf spark.sql.shuffle.partitions=2 --conf spark.driver.host=127.0.0.1 pyspark-shell",
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        command = [sys.executable, "-m", "oncelog.pipeline.ledger.job", "--master", "local[2]", "--once"]
        command += ["--brokers", self.daemon.bootstrap, "--prefix", PREFIX]
        command += ["--checkpoint", self.checkpoint.as_uri(), "--table", self.table.as_uri()]
        command += ["--rows-per-batch", str(self.rows_per_batch)]
        self.lives += 1
        with (self.work / "driver.log").open("ab") as log:
            return subprocess.Popen(command, cwd=self.work, env=environment, stdout=log, stderr=log)

    def batches(self, query: str, kind: str) -> set[int]:
        """The batches of a query that are planned (`offsets`) or done (`commits`)."""
        with suppress(FileNotFoundError):
            return {int(each.name) for each in (self.checkpoint / query / kind).iterdir() if each.name.isdecimal()}
        return set()

    def live_through(self, faults: Sequence[Fault]) -> None:
        """Start the driver again and again until it has ended well and every fault has come."""
        left = list(faults)
        while True:
            driver = self.start()
            try:
                while left and self._meet(left, driver):
                    pass
                code = driver.wait()
            finally:
                kill_tree(driver.pid)
                driver.wait()
            if code == 0 and not left:
                return
            if code == 0:
                raise RuntimeError(f"the data were processed before {left} could come: make the batches smaller")
            if code > 0:
                self.failures += 1
            if self.failures > _FAILURES:
                raise RuntimeError((self.work / "driver.log").read_text()[-4000:])

    def _meet(self, left: list[Fault], driver: "subprocess.Popen[bytes]") -> bool:
        """Wait for a batch that one of the faults is for, and let it happen. False: the driver has ended."""
        planned = {query: self.batches(query, "offsets") for query in QUERIES}
        while driver.poll() is None:
            for fault in left:
                new = self.batches(fault.query, "offsets") - planned[fault.query]
                if new and self._happen(fault, max(new), driver):
                    left.remove(fault)
                    return fault.victim == "broker"
                planned[fault.query] |= new
            with suppress(subprocess.TimeoutExpired):
                driver.wait(_POLL_S)
        return False

    def _happen(self, fault: Fault, batch: int, driver: "subprocess.Popen[bytes]") -> bool:
        """False: the batch was over."""
        after_s = self.random.uniform(0, _DELAY_S)
        with suppress(subprocess.TimeoutExpired):
            driver.wait(after_s)
        if batch in self.batches(fault.query, "commits") or driver.poll() is not None:
            return False
        if fault.victim == "driver":
            kill_tree(driver.pid)
        else:
            self.daemon.kill()
        is_inside = batch not in self.batches(fault.query, "commits")
        if fault.victim == "broker":
            self.daemon.start()
        if is_inside:
            self.happened.append((fault.victim, f"{after_s:.1f} s into batch {batch} of `{fault.query}`"))
        return is_inside


def kill_tree(pid: int) -> None:
    """Kill -9 a process and what it has started, from the top, so that none is notified before it dies."""
    for each in [pid, *descendants(pid)]:
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    """List the descendants of a process by /proc, parents first."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            parents.setdefault(int(path.read_text().rpartition(")")[2].split()[1]), []).append(int(path.parent.name))
    found = list(parents.get(pid, []))
    for each in found:
        found += parents.get(each, [])
    return found


def months_of(table: Path) -> dict[str, tuple[int, int]]:
    """Cents and purchases by month, from the files that the log of Spark's file sink names. Without Spark."""
    import pyarrow.compute as pc
    from pyarrow import dataset

    log = {each.name: each for each in (table / "_spark_metadata").iterdir() if not each.name.startswith(".")}
    compacted = max((int(name.removesuffix(".compact")) for name in log if name.endswith(".compact")), default=-1)
    names = [f"{compacted}.compact"] * (compacted >= 0)
    names += [name for name in log if name.isdecimal() and int(name) > compacted]
    paths = {json.loads(line)["path"] for name in names for line in log[name].read_text().splitlines()[1:]}
    files = sorted(path.removeprefix("file://") for path in paths)
    rows = dataset.dataset(files).to_table(columns=["at", "cents"])
    months = rows.append_column("month", pc.strftime(rows.column("at"), format="%Y-%m"))
    sums = months.group_by("month").aggregate([("cents", "sum"), ("cents", "count")])
    return {row["month"]: (row["cents_sum"], row["cents_count"]) for row in sums.to_pylist()}


def cents_of_file(data: str, path: Path) -> int:
    """The sum of a data set, from its file, by decimals and without our reader."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import parquet

    if data != "completejourney":
        return sum(int(line.split()[3].replace(".", "")) for line in path.read_text().splitlines()[1:])
    amounts = pc.round(parquet.read_table(path, columns=["sales_value"]).column(0), 2)
    return int(pc.sum(amounts.cast(pa.decimal128(12, 2))).as_py() * 100)


def waves(arrivals: Sequence[ledger.Arrival]) -> Iterator[Sequence[ledger.Arrival]]:
    half = len(arrivals) // 2
    yield arrivals[:half]
    yield arrivals[half:]


def send(run: Run, arrivals: Sequence[ledger.Arrival], size: int = 100_000) -> None:
    for first in range(0, len(arrivals), size):
        ledger.send(run.daemon.bootstrap, PREFIX, arrivals[first : first + size])


def execute(
    purchases: Sequence[Purchase], work: Path, rows_per_batch: int, random: Random, faults: Sequence[Fault] = ALL
) -> tuple[Run, ledger.Expected]:
    """Both waves under these faults, everything compared after each. Raises AssertionError for a wrong cent."""
    run = Run(work, Daemon(work / "broker"), rows_per_batch, random)
    arrivals = ledger.arrivals_of(purchases)
    try:
        ledger.create_topics(run.daemon.bootstrap, PREFIX)
        sent: list[ledger.Arrival] = []
        for wave in waves(arrivals):
            send(run, wave)
            sent += wave
            run.live_through(faults)
            expected = ledger.expected_of(sent)
            ledger.check(run.daemon.bootstrap, PREFIX, expected)
            assert months_of(run.table) == expected.months
    finally:
        run.daemon.stop()
    return run, ledger.expected_of(arrivals)


def report(data: str, run: Run, expected: ledger.Expected, seconds: float, seed: int) -> str:
    cents = sum(each[0] for each in expected.balances.values())
    late = sum(each[3] for each in expected.balances.values())
    batches = ", ".join(f"{len(run.batches(query, 'commits'))} of `{query}`" for query in QUERIES)
    return "\n".join(
        [
            f"`make proof WHAT=ledger DATA={data} SEED={seed}`, two cores, `local[2]`:",
            "",
            "| | |",
            "|---|---|",
            f"| purchases | {len(expected.accepted):,}, {late:,} of them late; {expected.rejected.total()} broken |",
            f"| batches | {batches} |",
            f"| seconds | {seconds:,.0f}, in which Spark was started {run.lives} times "
            f"({run.failures} of them ended with an error of its own), and everything compared twice |",
            *(
                f"| {victim} killed | {', '.join(when for each, when in run.happened if each == victim)} |"
                for victim in ("driver", "broker")
            ),
            f"| equal to the cent | {cents / 100:,.2f} in {len(expected.balances):,} balances, and in the table's "
            f"{len(expected.months)} months; {len(expected.alerts):,} alerts; {expected.sessions.total():,} sessions |",
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="completejourney", choices=("completejourney", "cdnow"))
    parser.add_argument("--rows", type=int, help="only so many")
    parser.add_argument("--rows-per-batch", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", type=Path, help="a Markdown file that has a place for the result")
    arguments = parser.parse_args()
    path, purchases = read_purchases(arguments.data, None)
    purchases = purchases[: arguments.rows]
    with tempfile.TemporaryDirectory(prefix="oncelog-ledger-") as directory:
        began_s = time.monotonic()
        run, expected = execute(purchases, Path(directory), arguments.rows_per_batch, Random(arguments.seed))
        seconds = time.monotonic() - began_s
        text = report(arguments.data, run, expected, seconds, arguments.seed)
    if arguments.rows is None:
        assert sum(each[0] for each in expected.balances.values()) == cents_of_file(arguments.data, path)
    sys.stdout.write(text + "\n")
    if arguments.write is not None:
        page = with_block(arguments.write.read_text(encoding="utf-8"), "make proof WHAT=ledger", f"{text}\n")
        arguments.write.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
