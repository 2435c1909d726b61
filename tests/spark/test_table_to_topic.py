"""From a table to a topic, each row once: a Delta table, Parquet files, and what Spark's file sink wrote."""

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from oncelog.faults import Action, ApiKey, FaultClient, Point, Rule, Selector
from tests.conftest import Start
from tests.spark.scenes import create, run_to_end, values
from tests.spark.test_killed_commit import connected_to
from tests.support.processes.daemon import Daemon
from tests.support.processes.faults import faults_of

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="looks for the process in /proc"),
]
ROWS = 5_000


@pytest.fixture
def daemon(start_daemon: Start) -> Daemon:
    return start_daemon("oncelog.admin.listen=127.0.0.1:0")


def numbers(*ranges: range) -> Counter[str]:
    return Counter(str(number) for each in ranges for number in each)


def kill_the_sender(daemon: Daemon, faults: FaultClient, held: int, run: Callable[[], None]) -> None:
    """Run a job whose committing process is killed (-9) while its EndTxn is on the way."""

    def kill() -> None:
        assert faults.wait_fired(held, 25_000).fired_count == 1
        (committing,) = connected_to(int(daemon.bootstrap.rpartition(":")[2]))
        os.kill(committing, signal.SIGKILL)

    # The job stays in this thread: in another, Spark finds no active session, and so no source or sink from Python.
    with ThreadPoolExecutor(1) as pool:
        killing = pool.submit(kill)
        with pytest.raises(Exception, match=r"exited unexpectedly|crashed|STREAM_FAILED|EOF"):
            run()
        killing.result()


@pytest.mark.parametrize("arrives", [True, False], ids=["it arrives late", "it never arrives"])
def test_a_version_of_a_delta_table_is_published_once(
    spark: Any, daemon: Daemon, tmp_path: Path, arrives: bool
) -> None:
    """A batch write with the version as runId: its commit is killed, and it is run again, twice."""
    deltalake = pytest.importorskip("deltalake")
    faults = faults_of(daemon)
    create(daemon, "versions")
    first, second = range(ROWS), range(ROWS, 2 * ROWS)

    def publish() -> None:
        table = deltalake.DeltaTable(str(tmp_path))
        rows = spark.createDataFrame(table.to_pyarrow_table()).where(f"n >= {second.start if table.version() else 0}")
        writer = rows.selectExpr("cast(n as string) as value").write.format("oncelog").option("topic", "versions")
        writer = writer.option("kafka.bootstrap.servers", daemon.bootstrap).option("runId", f"v{table.version()}")
        writer.mode("append").save()

    deltalake.write_deltalake(str(tmp_path), spark.range(first.start, first.stop).toDF("n").toArrow())
    publish()
    deltalake.write_deltalake(str(tmp_path), spark.range(second.start, second.stop).toDF("n").toArrow(), mode="append")
    held = faults.plant(Rule(Point.REQUEST, Action.HOLD, Selector(api=ApiKey.END_TXN)))
    kill_the_sender(daemon, faults, held, publish)
    if arrives:
        faults.release(held)
    publish()
    if not arrives:
        faults.remove(held)  # with it the request is handled: by now it is of an epoch that is fenced
    publish()
    assert values(daemon, "versions") == numbers(first, second)


def test_a_directory_of_parquet_files_is_published_once(spark: Any, daemon: Daemon, tmp_path: Path) -> None:
    """A stream over files that other programs write: a commit is killed, and files arrive before the next start."""
    faults = faults_of(daemon)
    create(daemon, "files")
    table = tmp_path / "table"

    def add(rows: range) -> None:
        spark.range(rows.start, rows.stop, numPartitions=2).write.mode("append").parquet(str(table))

    def publish() -> None:
        rows = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).parquet(str(table))
        writer = rows.selectExpr("cast(id as string) as value").writeStream.format("oncelog").option("topic", "files")
        writer = writer.option("kafka.bootstrap.servers", daemon.bootstrap)
        run_to_end(writer.option("checkpointLocation", str(tmp_path / "checkpoint")))

    add(range(ROWS))
    held = faults.plant(Rule(Point.REQUEST, Action.HOLD, Selector(api=ApiKey.END_TXN), nth=2))
    kill_the_sender(daemon, faults, held, publish)
    add(range(ROWS, 2 * ROWS))
    publish()
    faults.remove(held)
    publish()
    assert values(daemon, "files") == numbers(range(2 * ROWS))


def test_topic_to_parquet_to_topic_has_each_record_once(spark: Any, daemon: Daemon, tmp_path: Path) -> None:
    """Spark's file sink behind our source, and its directory as the source of our sink; each query forgets its last
    commit after each run, and does the batch again."""
    create(daemon, "in", "out")
    table = str(tmp_path / "table")
    brokers = {"kafka.bootstrap.servers": daemon.bootstrap}

    def send(rows: range) -> None:
        values_ = spark.range(rows.start, rows.stop).selectExpr("cast(id as string) as value")
        values_.write.format("oncelog").options(**brokers, topic="in").mode("append").save()

    def to_table() -> None:
        rows = spark.readStream.format("oncelog").options(**brokers, subscribe="in", startingOffsets="earliest")
        rows = rows.option("maxOffsetsPerTrigger", str(ROWS // 3)).load().selectExpr("cast(value as string) as value")
        writer = rows.writeStream.format("parquet").option("path", table)
        run_to_end(writer.option("checkpointLocation", str(tmp_path / "first")))

    def to_topic() -> None:
        rows = spark.readStream.schema("value string").parquet(table)
        writer = rows.writeStream.format("oncelog").options(**brokers, topic="out")
        run_to_end(writer.option("checkpointLocation", str(tmp_path / "second")))

    for last in (ROWS, 2 * ROWS):
        send(range(last - ROWS, last))
        for query, checkpoint in ((to_table, "first"), (to_topic, "second")):
            query()
            forget_last_commit(tmp_path / checkpoint)
            query()
        rows = spark.read.parquet(table).collect()
        assert Counter(row.value for row in rows) == numbers(range(last))
        assert values(daemon, "out") == numbers(range(last))


def forget_last_commit(checkpoint: Path) -> None:
    """Delete the last commit, as if the driver had died behind the sink's commit, before Spark noted it."""
    batches = _numbers_of((checkpoint / "commits").iterdir())
    for name in (str(max(batches)), f".{max(batches)}.crc"):
        (checkpoint / "commits" / name).unlink()


def _numbers_of(paths: Iterable[Path]) -> list[int]:
    return [int(path.name) for path in paths if path.name.isdecimal()]
