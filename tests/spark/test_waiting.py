"""A query that waits behind an open transaction: its lag is 0, and what waits is seen all the same."""

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from oncelog.client import NewTopic, TopicPartition
from oncelog.client.blocking.clients import Admin, Producer
from oncelog.pipeline.options import parse
from oncelog.pipeline.progress import Progress, progress
from oncelog.pipeline.prometheus import Metrics
from oncelog.pipeline.source.offsets import TopicOffsets
from tests.support.processes.daemon import Daemon
from tests.support.spark.query import Query
from tests.support.transactions.hanging import hang

pytestmark = pytest.mark.spark  # needs its classes, not its JVM
START_MS = 2_000_000_000_000
"""Later than any record of these tests, by the clock that the source is given."""


class Driver:
    """Drives a source as Spark's driver does, with a clock of its own."""

    def __init__(self, bootstrap: str, topic: str, clock_ms: list[int], **more: str) -> None:
        options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest", **more}
        from oncelog.pipeline.source.stream_reader import OncelogStreamReader

        self.reader = OncelogStreamReader(parse(options, "readStream"), lambda: clock_ms[0])
        self.at = self.reader.initialOffset()

    def trigger(self) -> Progress:
        """Return the progress of one trigger, as `query.lastProgress` has it."""
        from pyspark.sql.streaming.datasource import ReadAllAvailable

        start, self.at = self.at, self.reader.latestOffset(self.at, ReadAllAvailable())
        source = {"startOffset": start, "endOffset": self.at, "latestOffset": self.reader.reportLatestOffset()}
        told = {"id": "q", "name": None, "batchId": 0, "timestamp": "", "durationMs": {}}
        texts = {name: json.dumps(value) for name, value in source.items()}
        found = progress({**told, "sources": [{**texts, "numInputRows": 0}]})
        assert found is not None
        return found

    def triggers(self, clock_ms: list[int], *seconds: int) -> list[Any]:
        """Trigger as the clock advances; return what waits each time."""
        found = []
        for step in seconds:
            clock_ms[0] += step * 1000
            found.append(self.trigger().sources[0].waiting)
        return found


@pytest.fixture(autouse=True)
def own_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


@pytest.fixture
def topic(daemon: Daemon, tmp_path: Path) -> str:
    with Admin(daemon.bootstrap) as admin:
        admin.create_topics(NewTopic(tmp_path.name, 1))
    return tmp_path.name


@contextmanager
def open_transaction(daemon: Daemon, topic: str, committed: int) -> Iterator[None]:
    """One record of a transaction that stays open, and committed ones behind it."""
    with Producer(daemon.bootstrap, transactional_id=f"mover {topic}") as hanging, Producer(daemon.bootstrap) as plain:
        with hanging.transaction() as transaction:
            transaction.send(topic, b"open")
            plain.send_many(topic, [(None, b"x")] * committed)
            plain.flush()
            yield


@contextmanager
def driver(daemon: Daemon, topic: str, clock_ms: list[int], **more: str) -> Iterator[Driver]:
    found = Driver(daemon.bootstrap, topic, clock_ms, **more)
    yield found
    found.reader.stop()


def test_progress_and_metrics_show_what_waits_how_long_and_for_whose_transaction(
    daemon: Daemon, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock_ms = [START_MS]
    with driver(daemon, topic, clock_ms) as query:
        with open_transaction(daemon, topic, committed=10):
            assert query.triggers(clock_ms, 0, 1) == [(), ()]
            ((waiting,),) = query.triggers(clock_ms, 6)
            assert (waiting.topic, waiting.partition, waiting.last_stable_offset, waiting.records) == (topic, 0, 0, 11)
            assert (waiting.transactional_id, waiting.state) == (f"mover {topic}", "Ongoing")
            assert waiting.producer_id is not None and waiting.begun_ms is not None
            assert waiting.for_ms == clock_ms[0] - waiting.begun_ms
            assert waiting.command == f"oncelog txn fence 'mover {topic}'"
            found = query.trigger()
            assert found.sources[0].lag == {TopicPartition(topic, 0): 0}
            metrics = Metrics()
            metrics.add(found)
            place = f'topic="{topic}",partition="0"'
            whose = f'transactional_id="mover {topic}",producer_id="{waiting.producer_id}",command="{waiting.command}"'
            text = metrics.text()
            assert f'oncelog_spark_source_waiting_records{{query="q",name="",{place}}} 11\n' in text
            assert f'oncelog_spark_source_waiting_seconds{{query="q",name="",{place},{whose}}} ' in text
            query.triggers(clock_ms, 6, 40, 40)
        assert query.triggers(clock_ms, 6) == [()]
    (warning,) = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert f"{topic}-0: 11 records from offset 0 on wait" in warning and f"'mover {topic}'" in warning
    assert waiting.command in warning


def test_a_run_of_available_now_sees_at_once_what_it_leaves_behind(
    daemon: Daemon, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It ends before it could have waited for long: the transaction's age says how long readers have."""
    clock_ms = [START_MS]
    with open_transaction(daemon, topic, committed=10), driver(daemon, topic, clock_ms) as query:
        query.reader.prepareForTriggerAvailableNow()
        ((waiting,),) = query.triggers(clock_ms, 0)
    assert (waiting.records, waiting.transactional_id) == (11, f"mover {topic}")
    assert [each for each in caplog.records if "wait" in each.getMessage()]


def test_a_batch_read_up_to_the_latest_offsets_warns_of_what_it_leaves_behind(
    daemon: Daemon, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    from oncelog.pipeline.source.readers import OncelogBatchReader

    options = {"kafka.bootstrap.servers": daemon.bootstrap, "subscribe": topic}
    with open_transaction(daemon, topic, committed=10):
        assert OncelogBatchReader(parse(options, "read"), lambda: START_MS).partitions() == []
    assert [each for each in caplog.records if f"{topic}-0: 11 records" in each.getMessage()]


def test_who_reads_what_is_not_committed_waits_for_nothing(daemon: Daemon, topic: str) -> None:
    clock_ms = [START_MS]
    more = {"kafka.isolation.level": "read_uncommitted"}
    with open_transaction(daemon, topic, committed=1), driver(daemon, topic, clock_ms, **more) as query:
        assert query.triggers(clock_ms, 0, 60) == [(), ()]


def test_a_transaction_that_no_coordinator_knows_is_named_by_its_producer(
    start_daemon: Callable[..., Daemon], tmp_path: Path
) -> None:
    daemon = start_daemon()
    start_offset = hang(daemon, "stuck")
    clock_ms = [START_MS]
    with driver(daemon, "stuck", clock_ms) as query:
        *_, (waiting,) = query.triggers(clock_ms, 0, 6)
    assert (waiting.last_stable_offset, waiting.records, waiting.partition) == (start_offset, 1, 0)
    assert (waiting.transactional_id, waiting.state, waiting.begun_ms) == (None, None, None)
    assert waiting.producer_id is not None and waiting.for_ms is not None and waiting.for_ms > 3_600_000
    assert waiting.command == "oncelog txn find-hanging --topic stuck --partition 0 --max-transaction-timeout 0"
    assert "no coordinator shows" in waiting.unknown


def test_state_and_report_show_what_waits_behind_the_query(daemon: Daemon, tmp_path: Path, topic: str) -> None:
    query = Query(daemon.bootstrap, tmp_path / "checkpoint")
    assert query.state()["waiting"] is None  # the checkpoint names no topic yet
    with Admin(daemon.bootstrap) as admin:
        (described,) = admin.describe_topics(topic)
    query.plan_ends(0, {topic: TopicOffsets(str(described.topic_id), {0: 0}, {0: 0})})
    assert query.state()["waiting"] == []
    with open_transaction(daemon, topic, committed=10):
        (waiting,) = query.state()["waiting"]
        assert (waiting["topic"], waiting["partition"], waiting["records"]) == (topic, 0, 11)
        assert (waiting["transactional_id"], waiting["state"]) == (f"mover {topic}", "Ongoing")
        assert waiting["for_ms"] is not None
        assert waiting["command"] in query.call("state")[1]
        assert query.report()["state"]["waiting"][0]["records"] == 11
        page = tmp_path / "page.html"
        assert query.call("report", "-o", str(page))[0] == 0
        assert f"{topic}-0: 11 records from offset 0 on wait" in page.read_text(encoding="utf-8")
    query.plan_ends(1, {topic: TopicOffsets("another topic's id", {0: 0}, {0: 0})})
    assert query.state()["waiting"] is None  # another cluster's topic of that name
