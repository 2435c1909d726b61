"""Spark Connect: the same doors, from a client whose functions run in processes of the server."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from oncelog.client.blocking.clients import Admin, Producer
from tests.spark.scenes import create, values
from tests.support.processes.daemon import Daemon
from tests.support.spark.connect_job import GROUP

pytestmark = pytest.mark.spark
RECORDS = 11


def test_exactly_once_over_connect_has_each_batch_once_and_knows_its_checkpoint(daemon: Daemon, tmp_path: Path) -> None:
    """Topic, table and group, through a failure between the topic and the table; by `format("oncelog")`, too."""
    for package in ("pyspark", "grpc", "pandas"):
        pytest.importorskip(package)
    deltalake = pytest.importorskip("deltalake")
    create(daemon, "in", "out", "by-format")
    with Producer(daemon.bootstrap) as producer:
        for number in range(RECORDS):
            producer.send_soon("in", b"%d" % number, partition=0)
        producer.flush()
    command = [sys.executable, "-m", "tests.support.spark.connect_job", str(tmp_path), daemon.bootstrap]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert ended.returncode == 0, (ended.stdout + ended.stderr)[-4000:]
    found = json.loads(ended.stdout.splitlines()[-1])
    failed, again, of_another, by_format = found["ends"]
    assert "ZeroDivisionError" in failed and (again, by_format) == ("ended", "ended")
    assert "is of another query" in of_another
    once = {str(number): 1 for number in range(RECORDS)}
    assert (values(daemon, "out"), values(daemon, "by-format"), found["count"]) == (once, once, RECORDS)
    table = deltalake.DeltaTable(str(tmp_path / "table")).to_pyarrow_table()
    assert sorted(table.column("value").to_pylist(), key=int) == [*once]
    with Admin(daemon.bootstrap) as admin:
        assert [each.offset for each in admin.list_group_offsets(GROUP).values() if each.offset] == [RECORDS]
