"""Batch writes with a `runId`, driven as Spark drives them: each is published once, and none is left out in silence."""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from click.testing import CliRunner

from oncelog.cli import main
from oncelog.client import Admin, NewTopic
from oncelog.pipeline.options import OptionError, parse
from oncelog.pipeline.progress import written
from oncelog.pipeline.sink.marker import MARKER_TOPIC, Marker, MarkerMismatch, read_markers
from oncelog.pipeline.sink.plan import former_run_sink_id
from oncelog.pipeline.sink.publish import SinkSettings, publish
from oncelog.tools.spark.state import write_marker
from tests.support.processes.daemon import Daemon
from tests.support.spark.sink_batches import OUTPUTS, outputs_of, read

pa = pytest.importorskip("pyarrow")
pytestmark = pytest.mark.spark  # needs its classes, not its JVM

COLUMNS = ("key", "value", "topic", "partition")
Rows = Sequence[dict[str, Any]]


@pytest.fixture(autouse=True)
def _topics(daemon: Daemon) -> None:
    async def create() -> None:
        async with Admin(daemon.bootstrap) as admin:
            await admin.create_topics(*(NewTopic(name, partition_count=3) for name in OUTPUTS), exist_ok=True)

    asyncio.run(create())


@pytest.fixture
def run_id(request: pytest.FixtureRequest) -> str:
    return request.node.name


def write(daemon: Daemon, run_id: str, rows: Rows, topic: str | None = "totals", tasks: int = 2, **more: str) -> None:
    """Write rows in so many tasks, as a job with this `runId`."""
    from pyspark.sql.types import IntegerType, StringType, StructField, StructType

    from oncelog.pipeline.sink.writers import batch_writer

    names = [name for name in COLUMNS if any(name in row for row in rows)] or ["value"]
    kinds = [IntegerType() if name == "partition" else StringType() for name in names]
    schema = StructType([StructField(*each) for each in zip(names, kinds, strict=True)])
    arrow = pa.schema([(name, pa.int32() if name == "partition" else pa.string()) for name in names])
    options = {"kafka.bootstrap.servers": daemon.bootstrap, "runId": run_id, **more}
    if topic is not None:
        options["topic"] = topic
    writer = batch_writer(parse(options, "write"), schema, overwrite=False)
    parts = [rows[task::tasks] for task in range(tasks)]
    messages = [writer.write(iter([pa.RecordBatch.from_pylist(list(part), arrow)])) for part in parts]
    writer.commit(messages)


def values(daemon: Daemon, topic: str) -> Counter[bytes]:
    return asyncio.run(read(daemon.bootstrap, topic))


def count_of(daemon: Daemon, topic: str, rows: Rows) -> int:
    """Count how often the rows are in the topic; fails unless all are there equally often."""
    found = values(daemon, topic)
    (count,) = {found[row["value"].encode()] for row in rows}
    return count


def named(run_id: str, count: int = 10) -> Rows:
    """Rows that no other test has."""
    return [{"key": f"k{number % 3}", "value": f"{run_id} {number}"} for number in range(count)]


def test_one_run_id_is_published_once_to_each_of_its_topics(daemon: Daemon, run_id: str) -> None:
    totals, alerts = named(run_id), named(run_id, 7)
    for _ in range(2):
        write(daemon, run_id, totals, "totals")
        write(daemon, run_id, alerts, "alerts")
    assert count_of(daemon, "totals", totals) == 1
    assert count_of(daemon, "alerts", alerts) == 1


def test_the_same_rows_in_another_order_and_in_other_tasks_are_the_same_write(
    daemon: Daemon, run_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The write is skipped, and says so: in one line, and to a later query."""
    rows = [*named(run_id), {"key": None, "value": f"{run_id} 3"}, {"key": "k", "value": None}]
    write(daemon, run_id, rows)
    first = written(run_id, "totals")
    assert first is not None
    assert (first.published, first.outputs) == (True, {"totals": 12})
    with caplog.at_level(logging.WARNING, "oncelog.spark.sink"):
        write(daemon, run_id, rows[::-1], tasks=5)
    (line,) = caplog.messages
    assert line == f"runId {run_id} (output totals) was published already and is skipped: 12 records of totals"
    again = written(run_id, "totals")
    assert again is not None
    assert (again.published, again.outputs) == (False, {"totals": 12})
    assert written(run_id, "alerts") is None
    assert values(daemon, "totals")[f"{run_id} 3".encode()] == 2


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda rows: rows[:-1], "10 records then, 9 now"),
        (lambda rows: [*rows, rows[0]], "10 records then, 11 now"),
        (lambda rows: [*rows[:-1], {**rows[-1], "value": "another"}], "10 records then and now, not the same"),
        (lambda rows: [*rows[:-1], {**rows[-1], "key": "another"}], "10 records then and now, not the same"),
        (lambda rows: [*rows[:-1], {**rows[-1], "key": None}], "10 records then and now, not the same"),
        (lambda rows: [*rows[:-1], {**rows[-1], "value": None}], "10 records then and now, not the same"),
        (lambda rows: [*rows[:-1], rows[0]], "10 records then and now, not the same"),
        (lambda rows: [{**row, "partition": 0} for row in rows], "10 records then and now, not the same"),
        (lambda rows: [], "10 records then, 0 now"),
    ],
    ids=["less", "more", "value", "key", "no key", "no value", "twice", "partition", "none"],
)
def test_other_rows_under_a_run_id_are_refused(daemon: Daemon, run_id: str, change: Any, sentence: str) -> None:
    rows = named(run_id)
    write(daemon, run_id, rows)
    with pytest.raises(MarkerMismatch, match=f"{sentence}.*another runId.*oncelog spark forget"):
        write(daemon, run_id, change(rows))
    assert count_of(daemon, "totals", rows) == 1


def test_rows_where_none_were_are_refused_and_none_again_are_skipped(daemon: Daemon, run_id: str) -> None:
    for _ in range(2):
        write(daemon, run_id, [])
    with pytest.raises(MarkerMismatch, match="0 records then, 10 now"):
        write(daemon, run_id, named(run_id))


def test_rows_that_name_their_topics_are_distinguished_by_the_name_of_their_output(daemon: Daemon, run_id: str) -> None:
    first = [{"topic": "totals", "value": f"{run_id} {number}"} for number in range(4)]
    second = [{"topic": "alerts", "value": f"{run_id} {number}"} for number in range(4)]
    write(daemon, run_id, first, topic=None)
    with pytest.raises(MarkerMismatch, match=r"4 records then and now, not the same.*outputName"):
        write(daemon, run_id, second, topic=None)
    for _ in range(2):
        write(daemon, run_id, second, topic=None, outputName="second")
    assert count_of(daemon, "totals", first) == 1
    assert count_of(daemon, "alerts", second) == 1
    write(daemon, run_id, first, topic="totals", outputName="third")
    with pytest.raises(MarkerMismatch, match="third to totals then, third to alerts now"):
        write(daemon, run_id, first, topic="alerts", outputName="third")


def test_an_output_name_is_for_a_run_id(daemon: Daemon) -> None:
    options = {"kafka.bootstrap.servers": daemon.bootstrap, "topic": "totals", "outputName": "other"}
    with pytest.raises(OptionError, match=r"outputName=.*runId"):
        parse(options, "write")
    with pytest.raises(OptionError, match="/"):
        parse({**options, "runId": "1", "outputName": "a/b"}, "write")


@pytest.mark.parametrize("more", ["", "/totals"], ids=["its own", "the key of an output"])
def test_what_an_earlier_version_published_is_neither_published_again_nor_left_out_in_silence(
    daemon: Daemon, run_id: str, more: str
) -> None:
    """Its marker has the run id alone as key, and nothing of the topic."""
    former = Marker(0, outputs={"rows": 10})
    asyncio.run(write_marker(daemon.bootstrap, MARKER_TOPIC, former_run_sink_id(run_id) + more, former))
    rows = named(run_id)
    for _ in range(2):
        with pytest.raises(MarkerMismatch, match=r"earlier version of oncelog, 10 records.*another runId"):
            write(daemon, run_id, rows)
    assert count_of(daemon, "totals", rows) == 0
    arguments = ["spark", "forget", "-b", daemon.bootstrap, "--run-id", run_id + more, "--yes"]
    assert CliRunner().invoke(main, arguments).exit_code == 0
    for _ in range(2):
        write(daemon, run_id, rows)
    assert count_of(daemon, "totals", rows) == 1


def test_forgetting_a_run_id_forgets_each_of_its_outputs(daemon: Daemon, run_id: str) -> None:
    for topic in ("totals", "alerts"):
        write(daemon, run_id, named(run_id), topic)
    write(daemon, f"{run_id}/totals", named("other"))
    arguments = ["spark", "forget", "-b", daemon.bootstrap]
    listed = json.loads(CliRunner().invoke(main, [*arguments, "--json"]).stdout)
    mine = [(each["run_id"], each["output"]) for each in listed if each["run_id"].startswith(run_id)]
    assert mine == [(run_id, "totals"), (run_id, "alerts"), (f"{run_id}/totals", "totals")]
    assert CliRunner().invoke(main, [*arguments, "--run-id", run_id, "--yes"]).exit_code == 0
    left = asyncio.run(read_markers(daemon.bootstrap, MARKER_TOPIC))
    assert [key for key in left if run_id in key] == [f"spark-run-{run_id}/totals/totals"]


# --- streams ----------------------------------------------------------------------------------------------------------


def of_stream(**topics: str) -> Marker:
    return Marker(0, "query", "same", topics=topics)


@pytest.mark.parametrize(
    ("again", "sentence"),
    [
        (of_stream(totals="totals"), "alerts to alerts, totals to totals then, totals to totals now"),
        (of_stream(totals="totals", alerts="totals"), "alerts to totals, totals to totals now"),
        (of_stream(totals="totals", alerts=""), "alerts to the topics that rows name, totals to totals now"),
        (of_stream(totals="totals", alerts="alerts", more="alerts"), "more to alerts, totals to totals now"),
    ],
    ids=["one less", "another topic", "topics of rows", "one more"],
)
def test_a_batch_that_runs_again_with_other_outputs_is_refused(
    daemon: Daemon, run_id: str, again: Marker, sentence: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A query that was restarted from its checkpoint with another topic, or with one output more."""
    sink = SinkSettings(daemon.bootstrap, f"sink-{run_id}")
    first = of_stream(totals="totals", alerts="alerts")
    assert asyncio.run(publish(sink, first, outputs_of(0, ""))).published
    with pytest.raises(MarkerMismatch, match=f"{sentence}.*oncelog spark repair CHECKPOINT --forget"):
        asyncio.run(publish(sink, again, outputs_of(0, "")))
    with caplog.at_level(logging.WARNING, "oncelog.spark.sink"):
        assert not asyncio.run(publish(sink, first, outputs_of(0, ""))).published
    assert [each.endswith("skipped: 12 records of alerts, 12 records of totals") for each in caplog.messages] == [True]
    assert asyncio.run(publish(sink, replace(again, batch_id=1), outputs_of(1, ""))).published


@pytest.mark.parametrize("known", [Marker(0, "query", "same", outputs={"rows": 24}), of_stream(rows="totals")])
def test_a_batch_that_is_skipped_says_so_and_whether_it_had_as_many_records(
    daemon: Daemon, run_id: str, known: Marker, caplog: pytest.LogCaptureFixture
) -> None:
    """It says so also of one that an earlier version has published, whose marker has no topics."""
    sink = SinkSettings(daemon.bootstrap, f"sink-{run_id}")
    asyncio.run(write_marker(daemon.bootstrap, MARKER_TOPIC, sink.sink_id, replace(known, outputs={"rows": 24})))
    with caplog.at_level(logging.WARNING, "oncelog.spark.sink"):
        assert not asyncio.run(publish(sink, of_stream(rows="totals"), outputs_of(0, ""))).published
    (line,) = caplog.messages
    assert f"batch 0 of {sink.sink_id}" in line
    assert line.endswith(
        "24 records of rows then, and 12 records of alerts, 12 records of totals as it is computed now"
    )
