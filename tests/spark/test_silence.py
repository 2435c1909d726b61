"""Queries against a daemon that is stopped for longer than a request may take, and then resumes: so do they."""

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
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import Daemon

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
    """A stream that runs, and a stream and batches that begin meanwhile, at the default options."""
    daemon = start_daemon()
    with Admin(daemon.bootstrap) as admin:
        admin.create_topics(*(NewTopic(name, 1) for name in ("read", "before", "meanwhile", "batch")))
    write(daemon)
    where = {"kafka.bootstrap.servers": daemon.bootstrap}

    def stream_to(topic: str) -> Any:
        rows = spark.readStream.format("oncelog").options(**where, subscribe="read", startingOffsets="earliest").load()
        sink = rows.select("key", "value").writeStream.format("oncelog").options(**where, topic=topic)
        return sink.option("checkpointLocation", str(tmp_path / topic)).start()

    def read_batch() -> int:
        return int(spark.read.format("oncelog").options(**where, subscribe="read").load().count())

    def write_batch() -> None:
        batch = spark.createDataFrame([(b"written",)], "value binary")
        batch.write.format("oncelog").mode("append").options(**where, topic="batch").save()

    queries = [stream_to("before")]
    try:
        queries[0].processAllAvailable()
        with ThreadPoolExecutor(2) as threads:
            with stopped(daemon):
                queries.append(stream_to("meanwhile"))
                reading, writing = threads.submit(read_batch), threads.submit(write_batch)
                for seconds, query in zip((STOPPED_S, 1), queries, strict=True):
                    assert not query.awaitTermination(seconds), query.exception()
                assert not reading.done()
                assert not writing.done()
            assert reading.result(PATIENCE_S) == ROWS
            writing.result(PATIENCE_S)
        write(daemon)
        for query in queries:
            query.processAllAvailable()
    finally:
        for query in queries:
            query.stop()
    for topic in ("before", "meanwhile"):
        assert values(daemon, topic) == {str(number): 2 for number in range(ROWS)}
    assert values(daemon, "batch") == {"written": 1}
