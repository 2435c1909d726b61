"""Spark's source and sink against a broker that is stopped and resumes, without Spark: options limit the wait."""

import asyncio
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest

from oncelog.client import NewTopic, TopicPartition
from oncelog.client.blocking.clients import Admin, Producer
from oncelog.client.wire import connections
from oncelog.pipeline.options import Options, parse, reach_of
from oncelog.pipeline.sink.plan import sink_settings
from oncelog.pipeline.sink.publish import publish
from oncelog.pipeline.sink.task import partition_counts
from oncelog.pipeline.source.lookup import Lookup
from oncelog.pipeline.source.planning import OffsetRange
from oncelog.pipeline.source.reading import read_range
from tests.conftest import Start
from tests.support.patience import PATIENCE_MS, PATIENCE_S
from tests.support.processes.daemon import Daemon
from tests.support.spark.sink_batches import wanted

TOPIC = "topic"
ATTEMPTS = 3
"""The number of unanswered connections after which the broker resumes."""


def reading(daemon: Daemon) -> Options:
    patience = {"kafka.request.timeout.ms": "200", "kafka.default.api.timeout.ms": str(PATIENCE_MS)}
    return parse({"kafka.bootstrap.servers": daemon.bootstrap, "subscribe": TOPIC, **patience}, "read")


def writing(daemon: Daemon) -> Options:
    patience = {"kafka.request.timeout.ms": "200", "kafka.max.block.ms": str(PATIENCE_MS)}
    return parse({"kafka.bootstrap.servers": daemon.bootstrap, "topic": TOPIC, **patience}, "write")


def look_up(daemon: Daemon) -> Any:
    lookup = Lookup(reading(daemon))
    try:
        return lookup.offsets([TopicPartition(TOPIC, 0)], "latest")[TopicPartition(TOPIC, 0)]
    finally:
        lookup.close()


DOORS: dict[str, tuple[Callable[[Daemon], Any], Any]] = {
    "the source looks up": (look_up, 1),
    "a task reads": (
        lambda daemon: sum(each.num_rows for each in read_range(reading(daemon), OffsetRange(TOPIC, "", 0, 0, 1))),
        1,
    ),
    "a task looks up": (
        lambda daemon: partition_counts(daemon.bootstrap, reach_of(writing(daemon).client), TOPIC),
        {TOPIC: 1},
    ),
    "the sink publishes": (
        lambda daemon: asyncio.run(publish(sink_settings(writing(daemon), "sink"), wanted(0), [])).published,
        True,
    ),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_broker_that_is_stopped_for_many_requests_is_waited_for(
    start_daemon: Start, door: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = start_daemon()
    with Admin(daemon.bootstrap) as admin, Producer(daemon.bootstrap) as producer:
        admin.create_topics(NewTopic(TOPIC, 1))
        producer.send(TOPIC, b"value")
    connect, attempts, has_tried = connections.connect, 0, Event()

    async def counted(*arguments: Any, **options: Any) -> Any:
        nonlocal attempts
        attempts += 1
        if attempts > ATTEMPTS:
            has_tried.set()
        return await connect(*arguments, **options)

    monkeypatch.setattr(connections, "connect", counted)
    work, expected = DOORS[door]
    daemon.process.send_signal(signal.SIGSTOP)
    with ThreadPoolExecutor(1) as thread:
        working = thread.submit(work, daemon)
        try:
            assert has_tried.wait(PATIENCE_S)
            assert not working.done()
        finally:
            daemon.process.send_signal(signal.SIGCONT)
        assert working.result(PATIENCE_S) == expected
