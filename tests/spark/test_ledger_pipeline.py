"""The ledger as a Spark Declarative Pipeline: `spark-pipelines run`, as users run it, right to the cent each time."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.test_ledger import cdnow
from tests.support.processes.daemon import Daemon
from tests.support.spark import ledger

pytestmark = [pytest.mark.spark, pytest.mark.slow]
PURCHASES = 2_000
PREFIX = "declared."
SETTINGS = """
spark.ui.enabled  false
spark.driver.host  127.0.0.1
spark.sql.shuffle.partitions  2
"""


def project_in(work: Path, bootstrap: str) -> Path:
    """A copy of the ledger's project with the addresses of this test; returns its specification."""
    from oncelog.pipeline import ledger as source

    shutil.copytree(Path(source.__file__).parent / "declarative", work / "project")
    specification = work / "project" / "spark-pipeline.yml"
    text = specification.read_text()
    for before, after in (
        ("file:///var/ledger/storage", (work / "storage").as_uri()),
        ("localhost:9092", bootstrap),
        ('prefix: ""', f"prefix: {PREFIX}"),
    ):
        assert text.count(before) == 1
        text = text.replace(before, after)
    specification.write_text(text)
    with (work / "project" / "conf" / "spark-defaults.conf").open("a") as defaults:
        defaults.write(SETTINGS)
    return specification


def run_pipeline(specification: Path, work: Path) -> None:
    import pyspark

    from oncelog.pipeline.java import java_home

    environment = {
        **os.environ,
        "JAVA_HOME": str(java_home(work)[0]),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_CONF_DIR": str(specification.parent / "conf"),
    }
    command = [
        str(Path(pyspark.__file__).parent / "bin" / "spark-pipelines"),
        *("--remote", "local[2]"),
        *("run", "--spec", str(specification)),
    ]
    ended = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, (ended.stdout + ended.stderr)[-4000:]


def months_of(table: Path) -> dict[str, tuple[int, int]]:
    from pyarrow import parquet

    return {row["month"]: (row["cents"], row["purchases"]) for row in parquet.read_table(table).to_pylist()}


def test_each_run_of_the_pipeline_adds_what_is_new(daemon: Daemon, tmp_path: Path) -> None:
    """Topics, a streaming table and a view: after a first run, and after a second with more purchases."""
    for package in ("pyspark", "grpc", "yaml", "pandas"):
        pytest.importorskip(package)
    arrivals = ledger.arrivals_of(cdnow(PURCHASES))
    ledger.create_topics(daemon.bootstrap, PREFIX)
    specification = project_in(tmp_path, daemon.bootstrap)
    for since, until in ((0, len(arrivals) // 2), (len(arrivals) // 2, len(arrivals))):
        ledger.send(daemon.bootstrap, PREFIX, arrivals[since:until])
        run_pipeline(specification, tmp_path)
        expected = ledger.expected_of(arrivals[:until])
        ledger.check(daemon.bootstrap, PREFIX, expected)
        assert months_of(tmp_path / "spark-warehouse" / "months") == expected.months
