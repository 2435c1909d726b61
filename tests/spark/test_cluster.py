"""The ledger on a cluster of processes: an executor dies in a batch, and each output is right to the cent all the same.

The cluster is Spark's standalone one, from the pyspark package. Its executors have no Python but that of the archive
which `make spark-archive` packs and the job brings along.
"""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.spark.test_ledger import cdnow
from tests.support import ledger
from tests.support.daemon import Daemon
from tests.support.spark_cluster import SparkCluster, spark_cluster

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
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


def submit(cluster: SparkCluster, daemon: Daemon, work: Path) -> "subprocess.Popen[bytes]":
    """As docs/spark-ledger.md has it: the archive goes to the executors, and is unpacked beside the driver."""
    import pyspark

    from oncelog.pipeline.ledger import job

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
        str(Path(job.__file__)),
        *("--brokers", daemon.bootstrap),
        *("--checkpoint", (work / "checkpoint").as_uri()),
        *("--table", (work / "table").as_uri()),
        *("--prefix", "cluster."),
        *("--rows-per-batch", str(PURCHASES // 2)),
        "--once",
    ]
    with (work / "driver.log").open("wb") as log:
        return subprocess.Popen(command, cwd=work, env=environment, stdout=log, stderr=log)


def test_an_executor_that_dies_in_a_batch_changes_nothing(
    cluster: SparkCluster, daemon: Daemon, tmp_path: Path
) -> None:
    arrivals = ledger.arrivals_of(cdnow(PURCHASES))
    ledger.create_topics(daemon.bootstrap, "cluster.")
    ledger.send(daemon.bootstrap, "cluster.", arrivals)
    batches = tmp_path / "checkpoint" / "balances"
    driver = submit(cluster, daemon, tmp_path)
    try:
        cluster.wait_for(lambda: (batches / "offsets" / str(KILLED_IN)).exists() or driver.poll() is not None)
        assert driver.poll() is None, (tmp_path / "driver.log").read_text()[-4000:]
        victim = cluster.executors()[0]
        os.kill(victim, signal.SIGKILL)
        assert not (batches / "commits" / str(KILLED_IN)).exists(), "the batch was over: make it larger"
        pythons = set()
        while driver.poll() is None:
            pythons |= cluster.python_executables()
            with suppress(subprocess.TimeoutExpired):
                driver.wait(0.5)
        assert driver.returncode == 0, (tmp_path / "driver.log").read_text()[-4000:]
    finally:
        if driver.poll() is None:
            driver.kill()
        driver.wait(30)
    assert pythons == {Path("./environment/bin/python")}
    assert "Lost executor" in (tmp_path / "driver.log").read_text()
    ledger.check(daemon.bootstrap, "cluster.", ledger.expected_of(arrivals))
