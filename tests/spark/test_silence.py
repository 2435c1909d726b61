"""Queries against a daemon that is stopped for longer than a request may take, and goes on: so do they."""

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from oncelog.client import NewTopic
from oncelog.client.blocking.clients import Admin, Producer
from tests.conftest import Start
from tests.spark.scenes import values
from tests.support.daemon import Daemon
from tests.support.patience import PATIENCE_S

STOPPED_S = 35
"""Longer than request.timeout.ms, and shorter than default.api.timeout.ms."""
ROWS = 20


@contextmanager
def stopped(daemon: Daemon) -> Iterator[None]:
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        daemon.process.send_signal(signal.SIGCONT)


def write(daemon: Daemon) -> None:
    with Producer(daemon.bootstrap) as producer:
        producer.send_many("read", [(None, b"%d" % number) for number in range(ROWS)])
        producer.flush()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(2 * PATIENCE_S)
def test_a_broker_that_is_stopped_ends_no_query(spark: Any, start_daemon: Start, tmp_path: Path) -> None:
    """A stream that runs, and batches that begin meanwhile, at the default options."""
    daemon = start_daemon()
    with Admin(daemon.bootstrap) as admin:
        admin.create_topics(*(NewTopic(name, 1) for name in ("read", "streamed", "written")))
    write(daemon)
    where = {"kafka.bootstrap.servers": daemon.bootstrap}
    rows = spark.readStream.format("oncelog").options(**where, subscribe="read", startingOffsets="earliest").load()
    sink = rows.select("key", "value").writeStream.format("oncelog").options(**where, topic="streamed")
    query = sink.option("checkpointLocation", str(tmp_path / "checkpoint")).start()

    def read_batch() -> int:
        return int(spark.read.format("oncelog").options(**where, subscribe="read").load().count())

    def write_batch() -> None:
        batch = spark.createDataFrame([(b"written",)], "value binary")
        batch.write.format("oncelog").mode("append").options(**where, topic="written").save()

    try:
        query.processAllAvailable()
        with ThreadPoolExecutor(2) as threads:
            with stopped(daemon):
                reading, writing = threads.submit(read_batch), threads.submit(write_batch)
                assert not query.awaitTermination(STOPPED_S), query.exception()
                assert not reading.done()
                assert not writing.done()
            assert reading.result(PATIENCE_S) == ROWS
            writing.result(PATIENCE_S)
        write(daemon)
        query.processAllAvailable()
    finally:
        query.stop()
    assert values(daemon, "streamed") == {str(number): 2 for number in range(ROWS)}
    assert values(daemon, "written") == {"written": 1}
