"""The sink's decision, what it reads of the checkpoint, what waits between tasks and driver, which columns it takes."""

import json
import mmap
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from oncelog.pipeline.sink.checkpoint import Checkpoint, CheckpointError
from oncelog.pipeline.sink.marker import Marker, MarkerMismatch, decide
from oncelog.pipeline.sink.rows import SchemaError, check_columns
from oncelog.pipeline.sink.spool import Spool, SpoolLost, SpoolWriter
from tests.support.patience import PATIENCE_S

ROOT = Path(__file__).parent.parent.parent.parent


def marker(batch_id: int, *, query: str = "query", fingerprint: str = "same", run: str = "") -> Marker:
    return Marker(batch_id, query, fingerprint, run, {"totals": 7})


@pytest.mark.parametrize(
    ("wanted", "known", "is_published"),
    [
        (marker(0), None, True),
        (marker(5), marker(4), True),
        (marker(5, fingerprint="other"), marker(4), True),
        (marker(4), marker(4), False),
        (marker(4, run="second start"), marker(4, run="first start"), False),
    ],
)
def test_a_batch_is_published_after_the_one_before_it_and_skipped_when_it_is_applied(
    wanted: Marker, known: Marker | None, is_published: bool
) -> None:
    assert decide(wanted, known) is is_published


@pytest.mark.parametrize(
    ("wanted", "known", "sentence"),
    [
        (marker(7), None, "there is no marker"),
        (marker(4, fingerprint="other"), marker(4), "other source offsets"),
        (marker(2), marker(4), "old copy"),
        (marker(0), marker(4), "old copy"),
        (marker(6), marker(4), "only the batches up to 4"),
        (marker(5, query="other"), marker(4), "belongs to query"),
        (marker(0, query="new checkpoint"), marker(4), "belongs to query"),
        (marker(4, run="this start"), marker(4, run="this start"), "belong into one"),
    ],
)
def test_what_contradicts_the_marker_is_refused_and_never_skipped(
    wanted: Marker, known: Marker | None, sentence: str
) -> None:
    with pytest.raises(MarkerMismatch, match=sentence):
        decide(wanted, known)


def test_a_marker_is_read_as_it_was_written_and_nothing_else_is() -> None:
    assert Marker.decode(marker(3).encode()) == marker(3)
    for bad in (b"", b"7", b"[]", b'{"version":2}', b'{"version":1,"batch":1}'):
        with pytest.raises(MarkerMismatch, match="no marker"):
            Marker.decode(bad)


@pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}"])
def test_identity_and_fingerprint_come_from_the_checkpoint(tmp_path: Path, form: str) -> None:
    checkpoint = Checkpoint(form.format(tmp_path))
    with pytest.raises(CheckpointError, match="metadata"):
        checkpoint.query_id()
    (tmp_path / "metadata").write_text(json.dumps({"id": "query"}))
    assert checkpoint.batches("offsets") == []
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "3").write_text('v1\n{"0":10}')
    (tmp_path / "offsets" / ".3.crc").write_text("")
    assert (checkpoint.query_id(), checkpoint.batches("offsets")) == ("query", [3])
    before = checkpoint.fingerprint(3)
    (tmp_path / "offsets" / "3").write_text('v1\n{"0":11}')
    assert checkpoint.fingerprint(3) != before


def test_a_file_system_that_nothing_here_can_read_is_named_with_what_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    with pytest.raises(CheckpointError, match=r"pyarrow cannot read it \(.*needs java, pyspark and HADOOP_CONF_DIR"):
        Checkpoint("viewfs://cluster/checkpoint").query_id()


@pytest.mark.parametrize("size", [10, 200_000])
@pytest.mark.parametrize("is_visible", [True, False])
def test_what_a_task_encoded_arrives_by_file_or_by_message(tmp_path: Path, size: int, is_visible: bool) -> None:
    spool = Spool.open(str(tmp_path), "sink")
    assert spool is not None
    seen = spool if is_visible else Spool(spool.directory, "token of another machine")
    writer = SpoolWriter(seen)
    for index in range(3):
        writer.add("topic", index, 5, bytes((index,)) * size)
    output = writer.finish("name")
    assert bool(output.path) is (is_visible and size > 1_000)
    assert output.record_count == 15
    assert [(topic, partition, bytes(data)) for topic, partition, data in output.batches()] == [
        ("topic", index, bytes((index,)) * size) for index in range(3)
    ]
    if output.path:
        assert not Path(output.path).exists()
        with pytest.raises(SpoolLost, match="spoolLocation"):
            list(output.batches())
    spool.clear()


def test_a_driver_maps_no_more_of_a_file_than_it_sends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A window ends before the batch that it has no room for; a batch that is larger has one of its own."""
    monkeypatch.setattr("oncelog.pipeline.sink.spool._WINDOW_BYTES", 100_000)
    mapped: list[int] = []

    class Counting(mmap.mmap):
        def __init__(self, *_: Any, **__: Any) -> None:
            mapped.append(len(self))

    monkeypatch.setattr("oncelog.pipeline.sink.spool.mmap.mmap", Counting)
    spool = Spool.open(str(tmp_path), "sink")
    writer = SpoolWriter(spool)
    sizes = [40_000, 60_000, 1, 300_000, 0, 99_999]
    batches = [bytes((index,)) * size for index, size in enumerate(sizes)]
    for index, batch in enumerate(batches):
        writer.add("topic", index, 1, batch)
    output = writer.finish("name")
    assert [bytes(data) for _, _, data in output.batches()] == batches
    assert len(mapped) == 4
    assert sum(mapped) < sum(sizes) + 4 * mmap.ALLOCATIONGRANULARITY
    assert max(mapped) < 300_000 + mmap.ALLOCATIONGRANULARITY


DRIVER = """
import sys
from oncelog.pipeline.sink.spool import Spool, SpoolWriter
spool = Spool.open(*sys.argv[1:])
SpoolWriter(spool).add("t", 0, 1, bytes(100_000))
print(spool.directory, flush=True)
input()
"""


def test_what_a_killed_driver_has_left_is_removed_by_the_next_one_of_any_query(tmp_path: Path) -> None:
    pipe = subprocess.PIPE
    with ExitStack() as stack:
        spools, drivers = [], []
        for name in ("killed", "running"):
            command = [sys.executable, "-c", DRIVER, str(tmp_path), name]
            driver = stack.enter_context(subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT))
            stack.callback(driver.kill)
            assert driver.stdout is not None
            spools.append(Path(driver.stdout.readline().strip()))
            drivers.append(driver)
        drivers[0].kill()
        drivers[0].wait(PATIENCE_S)
        Spool.open(str(tmp_path), "another query")
        assert [len(list(each.glob("*.batches"))) for each in spools] == [0, 1]
        assert not spools[0].exists()


def test_a_spool_of_another_machine_or_without_an_owner_is_left_alone(tmp_path: Path) -> None:
    for name, owner in (
        ("elsewhere", '{"machine": "other", "process": 1, "started": "0"}'),
        ("torn", "{"),
        ("none", ""),
    ):
        spool = Spool.open(str(tmp_path), name)
        assert spool is not None
        Path(spool.directory, "owner").write_text(owner)
    Spool.open(str(tmp_path), "another query")
    assert len(list(next(tmp_path.iterdir()).iterdir())) == 4


def test_a_spool_is_the_same_for_each_writer_of_a_sink(tmp_path: Path) -> None:
    assert Spool.open(str(tmp_path), "sink") == Spool.open(str(tmp_path), "sink")
    assert Spool.open(str(tmp_path), "sink") != Spool.open(str(tmp_path), "another")
    (tmp_path / "file").touch()
    assert Spool.open(str(tmp_path / "file"), "sink") is None


@pytest.mark.parametrize(
    ("columns", "topic", "sentence"),
    [
        ([("key", "string")], "topic", "no column `value`"),
        ([("value", "string")], None, "no topic"),
        ([("value", "bigint")], "topic", "`value` is of type bigint"),
        ([("value", "binary"), ("key", "int")], "topic", "`key` is of type int"),
        ([("value", "binary"), ("partition", "bigint")], "topic", "`partition` is of type bigint"),
        ([("value", "binary"), ("headers", "map<string,string>")], "topic", "`headers`"),
    ],
)
def test_a_wrong_schema_is_named(columns: list[tuple[str, str]], topic: str | None, sentence: str) -> None:
    with pytest.raises(SchemaError, match=sentence):
        check_columns(columns, topic)


def test_the_columns_of_sparks_sink_and_of_its_source_are_taken() -> None:
    check_columns([("Value", "string"), ("topic", "string")], None)
    check_columns(
        [
            ("key", "binary"),
            ("value", "binary"),
            ("topic", "string"),
            ("partition", "int"),
            ("offset", "bigint"),
            ("timestamp", "timestamp"),
            ("headers", "array<struct<key:string,value:binary>>"),
        ],
        None,
    )
