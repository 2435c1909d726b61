"""What a micro-batch read and what its sink did: from Spark's progress and the notes, as values and as metrics."""

import json
import pickle
import socket
import threading
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from oncelog.client import TopicPartition
from oncelog.pipeline import notes as notes_module
from oncelog.pipeline.notes import Notes, Receiver, note_outcome
from oncelog.pipeline.progress import Progress, progress
from oncelog.pipeline.prometheus import METRICS, Metrics
from oncelog.pipeline.sink.publish import Outcome
from oncelog.pipeline.source.offsets import TopicOffsets, to_json
from oncelog.pipeline.source.waiting import Waiting
from tests.support.patience import PATIENCE_S

QUERY = "6a1f"
WAITING = (
    Waiting("t", 0, 100, 70, 34_500, "mover", 7, 1, "Ongoing", 5, "oncelog txn fence mover"),
    Waiting("t", 1, 20, 5, unknown="not asked"),
)
SECONDS = {"connect": 0.25, "end the transaction": 0.5}


@pytest.fixture(autouse=True)
def own_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def opened() -> Notes:
    found = Notes.open()
    assert found is not None
    return found


def offset(end: int, lost: int = 0) -> str:
    return json.dumps(to_json({"t": TopicOffsets("id", {0: 0}, {0: end}, {0: lost} if lost else {})}))


def told(batch_id: int = 1, start: int = 10, end: int = 30, latest: int = 100) -> dict[str, Any]:
    """A progress report like `query.lastProgress`."""
    waiting = [asdict(each) for each in WAITING]
    latest_offset = json.dumps(json.loads(offset(latest)) | {"waiting": waiting})
    source = {"startOffset": offset(start, lost=3), "endOffset": offset(end, lost=3), "latestOffset": latest_offset}
    return {
        "id": QUERY,
        "name": "totals",
        "batchId": batch_id,
        "timestamp": f"2026-11-22T00:00:{batch_id:02d}.000Z",
        "durationMs": {"triggerExecution": 1500},
        "sources": [
            {**source, "numInputRows": 12},
            {"startOffset": None, "endOffset": '{"logOffset":0}', "latestOffset": None, "numInputRows": 7},
        ],
    }


def note_reading(start: int, end: int, batch_id: int = 1, aborted: int = 2) -> None:
    values = {"topic": "t", "partition": 0, "start": start, "end": end, "records": 1, "bytes": 50, "aborted": aborted}
    opened().add(QUERY, "source", {"batch_id": batch_id, **values, "stable": 100})


def given(**values: Any) -> Progress:
    found = progress(told(**values))
    assert found is not None
    return found


def test_a_batch_has_its_lag_and_what_its_tasks_and_its_sink_have_noted() -> None:
    note_reading(10, 20)
    note_reading(20, 30)
    note_reading(20, 30)  # a task that ran twice
    note_reading(30, 40, batch_id=2)
    note_outcome(QUERY, Outcome(1, True, {"rows": 12}, 4, SECONDS, "sink"))
    found = given()
    (source,) = found.sources
    partition = TopicPartition("t", 0)
    assert (source.lag, source.lost, source.records) == ({partition: 70}, {partition: 3}, 12)
    assert (source.bytes, source.aborted, source.waiting) == (100, 4, WAITING)
    assert found.sink is not None
    assert (found.sink.published, found.sink.producer_epoch, found.sink.seconds) == (True, 4, SECONDS)


def test_what_only_some_tasks_have_noted_is_not_known() -> None:
    """The other tasks ran on another machine: a part is not reported as the whole."""
    note_reading(10, 20)
    (source,) = given().sources
    assert (source.bytes, source.aborted, given().sink) == (None, None, None)


def test_a_task_that_does_not_see_the_driver_s_directory_notes_nothing(tmp_path: Path) -> None:
    stranger = Notes(opened().directory, "another driver's token")
    stranger.add(QUERY, "source", {"batch_id": 1})
    Notes(str(tmp_path / "nowhere"), "token").add(QUERY, "source", {"batch_id": 1})
    assert opened().read(QUERY, "source") == []


def test_a_task_on_another_machine_sends_its_line_and_the_driver_takes_only_lines_with_its_token(
    tmp_path: Path,
) -> None:
    receiver = Receiver(opened(), "127.0.0.1")
    there = replace(pickle.loads(pickle.dumps(receiver.notes)), directory=str(tmp_path / "nowhere"))
    stranger = replace(there, token="another driver's token")
    for sender, kind, number in ((stranger, "source", 1), (there, "sink", 2), (there, "source", 3)):
        sender.add(QUERY, kind, {"batch_id": number})
        receiver.receive()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as hostile:
        for data in (b"", b"\xff", b"7", b"[1, 2]", b'[1, "", "source", {}]', json.dumps([there.token] * 4).encode()):
            hostile.sendto(data, there.receiver or ("", 0))
            receiver.receive()
    assert [each["batch_id"] for each in opened().read(QUERY, "source")] == [3]
    assert opened().read(QUERY, "sink") == []
    receiver.close()
    there.add(QUERY, "source", {"batch_id": 4})  # the driver has gone: nothing stops the task
    with pytest.raises(OSError):
        receiver.receive()


def test_a_driver_listens_where_its_brokers_are_and_not_for_itself_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Receiver.start(opened(), "127.0.0.1:9092,elsewhere:9092") is None
    assert Receiver.start(opened(), "no port") is None
    monkeypatch.setattr(notes_module, "_address_towards", lambda _: "0.0.0.0")
    receiver = Receiver.start(opened(), "elsewhere:9092")
    assert receiver is not None
    (thread,) = [each for each in threading.enumerate() if each.name == "oncelog-notes"]
    receiver.close()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def test_notes_are_bounded_and_keep_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes_module, "_MOST_BYTES", 1_000)
    for number in range(1_000):
        opened().add("a/b", "sink", {"batch_id": number})
    kept = [each["batch_id"] for each in opened().read("a/b", "sink")]
    assert kept == [*range(kept[0], 1_000)]
    files = list(Path(opened().directory).rglob("*.jsonl"))
    assert sum(each.stat().st_size for each in files) < 3_000
    assert all(each.parent.parent == Path(opened().directory) for each in files)


def test_a_line_that_was_cut_short_costs_only_itself() -> None:
    note_reading(10, 30)
    (path,) = Path(opened().directory).rglob("source.jsonl")
    with path.open("a") as file:
        file.write('{"batch_id": 1, "top\n')
    note_reading(30, 40)
    assert [each["start"] for each in opened().read(QUERY, "source")] == [10, 30]


def test_notes_that_cannot_be_written_stop_nothing() -> None:
    Path(opened().directory, QUERY).write_text("in the way")
    note_reading(10, 30)
    assert opened().read(QUERY, "source") == []


def test_metrics_have_names_types_and_values_of_each_batch_once() -> None:
    metrics = Metrics()
    for batch_id, published in ((1, True), (2, False)):
        note_reading(10 * batch_id, 10 * batch_id + 20, batch_id=batch_id)
        note_outcome(QUERY, Outcome(batch_id, published, {"rows": 12}, 4 + batch_id, SECONDS, "sink"))
        for _ in range(2):  # as one who asks too often
            metrics.add(given(batch_id=batch_id, start=10 * batch_id, end=10 * batch_id + 20))
    query = f'query="{QUERY}",name="totals"'
    lines = metrics.text().splitlines()
    expected = {
        f"oncelog_spark_batch{{{query}}} 2",
        f'oncelog_spark_batch_seconds{{{query},step="triggerExecution"}} 1.5',
        f'oncelog_spark_source_lag_records{{{query},topic="t",partition="0"}} 60',
        f'oncelog_spark_source_waiting_records{{{query},topic="t",partition="0"}} 70',
        f'oncelog_spark_source_waiting_records{{{query},topic="t",partition="1"}} 5',
        f'oncelog_spark_source_waiting_seconds{{{query},topic="t",partition="0",transactional_id="mover",'
        'producer_id="7",command="oncelog txn fence mover"} 34.5',
        f'oncelog_spark_source_lost_records{{{query},topic="t",partition="0"}} 3',
        f"oncelog_spark_source_records_total{{{query}}} 24",
        f"oncelog_spark_source_bytes_total{{{query}}} 100",
        f"oncelog_spark_source_aborted_records_total{{{query}}} 4",
        f"oncelog_spark_sink_epoch{{{query}}} 6",
        f"oncelog_spark_sink_published_total{{{query}}} 1",
        f"oncelog_spark_sink_skipped_total{{{query}}} 1",
        f'oncelog_spark_sink_records_total{{{query},output="rows"}} 12',
        f'oncelog_spark_sink_seconds{{{query},step="connect"}} 0.25',
        f'oncelog_spark_sink_seconds{{{query},step="end the transaction"}} 0.5',
    }
    assert {each for each in lines if not each.startswith("#")} == expected
    assert {each.split()[2] for each in lines if each.startswith("# TYPE")} == {
        f"oncelog_spark_{each}" for each in METRICS
    }


def test_what_is_not_known_has_no_sample_and_gauges_of_a_query_that_ended_are_gone() -> None:
    metrics = Metrics()
    metrics.add(given())
    assert "bytes" not in metrics.text() and "sink" not in metrics.text()
    metrics.remove(given(), ("gauge",))
    assert [each for each in metrics.text().splitlines() if not each.startswith("#")] == [
        f'oncelog_spark_source_records_total{{query="{QUERY}",name="totals"}} 12'
    ]


def test_a_query_without_a_new_batch_changes_only_what_its_sources_say() -> None:
    metrics = Metrics()
    note_outcome(QUERY, Outcome(1, True, {"rows": 12}, 4, SECONDS, "sink"))
    metrics.add(given())
    before = metrics.text().splitlines()
    (source,) = given(batch_id=2, start=30, end=30).sources
    metrics.add_idle(replace(given(batch_id=2), sources=(replace(source, waiting=()),)))
    after = metrics.text().splitlines()
    changed = {each for each in {*before} ^ {*after} if not each.startswith("#")}
    assert {each.split("{")[0] for each in changed} == {
        f"oncelog_spark_source_waiting_{each}" for each in ("records", "seconds")
    }
    assert changed <= {*before}


def test_a_name_cannot_end_its_label() -> None:
    metrics = Metrics()
    metrics.add(Progress(QUERY, 'a"b\\c\nd', 1, "", {}, (), None))
    assert metrics.text().splitlines()[-1] == 'oncelog_spark_batch{query="6a1f",name="a\\"b\\\\c\\nd"} 1'
