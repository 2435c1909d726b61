"""`oncelog spark report`: what a query did, from its checkpoint and the broker; what is unknown is left out."""

import asyncio
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from oncelog.client import Admin, NewTopic, Producer
from oncelog.pipeline.notes import Notes, note_outcome
from oncelog.pipeline.sink.publish import Step
from oncelog.pipeline.source.offsets import TopicOffsets
from tests.support.processes.daemon import Daemon
from tests.support.spark.driver_death import Death, deaths
from tests.support.spark.query import Query, check_report_of_a_death
from tests.support.spark.sink_batches import OUTPUTS, ROWS


@pytest.fixture(autouse=True)
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory for temporary files that no other test has."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.sampled(5)
@pytest.mark.parametrize("death", deaths(len(OUTPUTS)), ids=repr)
def test_a_batch_has_the_attempts_that_failed_or_the_replay_that_was_skipped(
    daemon: Daemon, tmp_path: Path, death: Death
) -> None:
    check_report_of_a_death(Query(daemon.bootstrap, tmp_path / "checkpoint"), death)


async def fill(bootstrap: str, topic: str) -> str:
    """Offsets 0-3 committed, 4 a marker, 5-7 aborted, 8 a marker, 9 of no transaction. Returns the topic's id."""
    async with Admin(bootstrap) as admin:
        await admin.create_topics(NewTopic(topic, 1))
        (described,) = await admin.describe_topics(topic)
    async with Producer(bootstrap, transactional_id=topic) as producer, Producer(bootstrap) as plain:
        async with producer.transaction() as transaction:
            for _ in range(4):
                await transaction.send_soon(topic, b"committed")
        with pytest.raises(ZeroDivisionError):
            async with producer.transaction() as transaction:
                for _ in range(3):
                    await transaction.send_soon(topic, b"aborted")
                await producer.flush()
                raise ZeroDivisionError
        await plain.send(topic, b"plain")
    return str(described.topic_id)


def test_each_batch_has_what_its_offsets_show_at_each_isolation_level(daemon: Daemon, tmp_path: Path) -> None:
    """The range may end inside a record batch; what the log has lost is not counted."""
    query, topic = Query(daemon.bootstrap, tmp_path / "checkpoint"), "report-source"
    topic_id = asyncio.run(fill(daemon.bootstrap, topic))
    for batch_id, end in enumerate((3, 6, 10)):
        query.plan_ends(batch_id, {topic: TopicOffsets(topic_id, {0: 0}, {0: end})})
        query.publish(batch_id)
        query.finish(batch_id)
    found = query.report()
    counts = [each["counts"] for each in found["batches"]]
    assert [(each["committed"], each["aborted"], each["markers"]) for each in counts] == [
        (3, 0, 0),
        (1, 1, 1),
        (1, 2, 1),
    ]
    assert (found["source"]["committed"], found["source"]["aborted"]) == (5, 3)
    assert [(each["start"], each["end"]) for batch in found["batches"] for each in batch["ranges"]] == [
        (0, 3),
        (3, 6),
        (6, 10),
    ]

    async def delete() -> None:
        async with Admin(daemon.bootstrap) as admin:
            await admin.delete_topics(topic)

    asyncio.run(delete())
    found = query.report()
    assert ([each["counts"] for each in found["batches"]], found["source"]) == ([None] * 3, None)


def test_seconds_and_lag_are_shown_if_this_machine_noted_them(daemon: Daemon, tmp_path: Path) -> None:
    query, topic = Query(daemon.bootstrap, tmp_path / "checkpoint"), "report-notes"
    topic_id = asyncio.run(fill(daemon.bootstrap, topic))
    query_id = query.checkpoint.query_id()
    for batch_id, end in enumerate((3, 6)):
        query.plan_ends(batch_id, {topic: TopicOffsets(topic_id, {0: 0}, {0: end})})
        outcome = asyncio.run(query.publishing(batch_id))
        query.finish(batch_id)
    note_outcome(query_id, outcome, "hourly totals")
    notes = Notes.open()
    assert notes is not None
    notes.add(query_id, "source", {"batch_id": 1, "topic": topic, "partition": 0, "stable": 10})
    before, noted = query.report()["batches"]
    assert (before["seconds"], before["lag"]) == (None, None)
    assert (noted["seconds"].keys(), noted["lag"]) == (outcome.seconds.keys(), 4)
    page = tmp_path / "page.html"
    assert query.call("report", "-o", str(page))[0] == 0
    assert "<title>hourly totals</title>" in page.read_text(encoding="utf-8")


def test_the_page_is_one_file_that_interprets_nothing_and_says_what_is_not_recorded(
    daemon: Daemon, tmp_path: Path
) -> None:
    query = Query(daemon.bootstrap, tmp_path / "<script>alert(1)</script>")
    query.run(0, 1)
    path = tmp_path / "page.html"
    assert query.call("report", "-o", str(path))[0] == 0
    text = path.read_text(encoding="utf-8")
    assert "<script" not in text and "&lt;script&gt;" in text
    assert not [word for word in ("http://", "https://", "src=", "@import", "url(") if word in text]
    assert "<em>not recorded</em>" in text


def test_a_checkpoint_that_is_none_is_a_sentence(daemon: Daemon, tmp_path: Path) -> None:
    query = Query(daemon.bootstrap, tmp_path / "checkpoint")
    (query.location / "metadata").unlink()
    code, text = query.call("report")
    assert (code, "cannot read" in text) == (2, True)


def test_what_a_failed_attempt_wrote_is_not_told_once_an_output_has_lost_records(
    daemon: Daemon, tmp_path: Path
) -> None:
    """The published batch is reported all the same, from the marker."""
    query = Query(daemon.bootstrap, tmp_path / "checkpoint")
    prefix = check_report_of_a_death(query, Death(Step.FLUSH, "after"))
    admin = AdminClient({"bootstrap.servers": daemon.bootstrap})
    (future,) = admin.delete_records([Place(f"{prefix}{OUTPUTS[0]}", 0, 1)]).values()
    future.result()
    found = query.report()
    hit = found["batches"][1]
    assert (hit["records"], hit["written_in_vain"], hit["doubled"]) == (ROWS * len(OUTPUTS), None, None)
    assert [each["doubled"] for each in found["batches"]] == [0, None, 0]
    assert found["written"] is None
    path = tmp_path / "page.html"
    assert query.call("report", "-o", str(path))[0] == 0
    assert "records not known" in path.read_text(encoding="utf-8")
