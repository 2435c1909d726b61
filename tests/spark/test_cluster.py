"""On a cluster of processes: the ledger while an executor dies, right to the cent all the same; and a Delta table.

The cluster is Spark's standalone one, from the pyspark package. Its executors have no Python but that of the archive
which `make spark-archive` packs and the job brings along.
"""

import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from oncelog.client.blocking.clients import Producer
from tests.spark.scenes import create, values
from tests.spark.test_ledger import cdnow
from tests.support.patience import SLOW_TIMEOUT_S
from tests.support.processes.daemon import Daemon
from tests.support.spark import ledger
from tests.support.spark.cluster import SparkCluster, spark_cluster

pytestmark = [pytest.mark.spark, pytest.mark.timeout(SLOW_TIMEOUT_S)]
ROOT = Path(__file__).parent.parent.parent
ARCHIVE = ROOT / ".archive" / "executors.tar.gz"
PURCHASES = 3_000
KILLED_IN = 1
"""The batch of the query `balances` in which an executor dies."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkCluster]:
    pytest.importorskip("pyspark")
    from oncelog.pipeline.java import java_home

    subprocess.run(["make", "spark-archive"], cwd=ROOT, check=True)
    with spark_cluster(tmp_path, java_home(tmp_path)[0]) as running:
        yield running


def submit(cluster: SparkCluster, work: Path, *program: str) -> "subprocess.Popen[bytes]":
    """Submit a program as docs/spark/spark-ledger.md does: the archive goes to the executors, and is unpacked beside
    the driver.
    """
    import pyspark

    (work / "environment").mkdir()
    subprocess.run(["tar", "-xzf", str(ARCHIVE), "-C", str(work / "environment")], check=True)
    environment = {**os.environ, "PYSPARK_PYTHON": "./environment/bin/python", "SPARK_LOCAL_IP": "127.0.0.1"}
    environment.pop("PYSPARK_DRIVER_PYTHON", None)  # Spark would start tasks of a source or sink by it, on any machine
    settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.executor.memory": "512m"}
    command = [
        str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
        *("--master", cluster.master),
        *("--archives", f"{ARCHIVE}#environment"),
        *(word for name, value in settings.items() for word in ("--conf", f"{name}={value}")),
        *program,
    ]
    with (work / "driver.log").open("wb") as log:
        return subprocess.Popen(command, cwd=work, env=environment, stdout=log, stderr=log)


def to_end(cluster: SparkCluster, driver: "subprocess.Popen[bytes]", work: Path) -> set[Path]:
    """Wait for the driver; returns by which paths the Pythons of the executors were started."""
    pythons = set()
    while driver.poll() is None:
        pythons |= cluster.python_executables()
        with suppress(subprocess.TimeoutExpired):
            driver.wait(0.5)
    assert driver.returncode == 0, (work / "driver.log").read_text()[-4000:]
    return pythons


def end(driver: "subprocess.Popen[bytes]") -> None:
    if driver.poll() is None:
        driver.kill()
    driver.wait(30)


@pytest.mark.slow
def test_an_executor_that_dies_in_a_batch_changes_nothing(
    cluster: SparkCluster, daemon: Daemon, tmp_path: Path
) -> None:
    from oncelog.pipeline.ledger import job

    arrivals = ledger.arrivals_of(cdnow(PURCHASES))
    ledger.create_topics(daemon.bootstrap, "cluster.")
    ledger.send(daemon.bootstrap, "cluster.", arrivals)
    batches = tmp_path / "checkpoint" / "balances"
    driver = submit(
        cluster,
        tmp_path,
        str(Path(job.__file__)),
        *("--brokers", daemon.bootstrap),
        *("--checkpoint", (tmp_path / "checkpoint").as_uri()),
        *("--table", (tmp_path / "table").as_uri()),
        *("--prefix", "cluster."),
        *("--rows-per-batch", str(PURCHASES // 2)),
        "--once",
    )
    try:
        cluster.wait_for(lambda: (batches / "offsets" / str(KILLED_IN)).exists() or driver.poll() is not None)
        assert driver.poll() is None, (tmp_path / "driver.log").read_text()[-4000:]
        victim = cluster.executors()[0]
        os.kill(victim, signal.SIGKILL)
        assert not (batches / "commits" / str(KILLED_IN)).exists(), "the batch was over: make it larger"
        pythons = to_end(cluster, driver, tmp_path)
    finally:
        end(driver)
    assert pythons == {Path("./environment/bin/python")}
    assert "Lost executor" in (tmp_path / "driver.log").read_text()
    ledger.check(daemon.bootstrap, "cluster.", ledger.expected_of(arrivals))


def test_executors_write_a_delta_table_with_what_the_archive_brings(
    cluster: SparkCluster, daemon: Daemon, tmp_path: Path
) -> None:
    """A topic and a table from each micro-batch; the files come from tasks, whose Python is that of the archive."""
    deltalake = pytest.importorskip("deltalake")
    create(daemon, "to-table", "beside")
    sent = Counter(f"{number}" for number in range(60))
    with Producer(daemon.bootstrap, linger_ms=20) as producer:
        for value in sent:
            producer.send_soon("to-table", value.encode(), partition=int(value) % 3)
    where = [(tmp_path / name).as_uri() for name in ("checkpoint", "table")]
    driver = submit(cluster, tmp_path, str(ROOT / "tests/support/spark/table_job.py"), daemon.bootstrap, *where)
    try:
        pythons = to_end(cluster, driver, tmp_path)
    finally:
        end(driver)
    assert pythons == {Path("./environment/bin/python")}
    table = deltalake.DeltaTable(str(tmp_path / "table"))
    assert table.version() > 2, "one commit made the table, and each of several batches one more"
    assert Counter(table.to_pyarrow_table().column("value").to_pylist()) == sent == values(daemon, "beside")
