"""`oncelog log verify` and `repair`: what they report of each damage, and what a broker serves afterwards."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from oncelog.broker.assembly.broker import StartError
from oncelog.broker.system.disk import RealDisk
from oncelog.cli import main
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.record import Record
from tests.fakes.broker import VirtualBroker
from tests.support.logs.damage import (
    ABORTED_OFFSET,
    ACKNOWLEDGED,
    DESTRUCTIVE,
    END_OFFSET,
    HARMLESS,
    MARKER_OFFSET,
    TOPIC,
    Filled,
    RealFiles,
    fill,
    list_offset,
    log_file,
    produce,
    read_committed,
)
from tests.support.logs.data_directories import load, store

STOPS = ("kill -9", "clean stop")


@pytest.fixture(params=STOPS)
def filled(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Filled]:
    broker = VirtualBroker()
    sent = fill(broker, broker.time.wall_ms())
    broker.broker.logs.step()  # a checkpoint: nothing can be put back from the journal
    broker.time.advance(1_000)
    if request.param == "clean stop":
        broker.broker.logs.close()
    store(broker.disk, tmp_path)
    return tmp_path, sent


def run(*arguments: str | Path, **more: Any) -> Result:
    return CliRunner().invoke(main, ["log", *map(str, arguments)], **more)


def contents(data_dir: Path) -> dict[str, bytes]:
    files = RealFiles(data_dir)
    return {name: files.read(name) for name in files.names()}


def test_whole_directory_is_found_whole_and_left_as_it_is(filled: tuple[Path, Filled]) -> None:
    data_dir, _ = filled
    before = contents(data_dir)
    result = run("verify", data_dir)
    assert result.exit_code == 0, result.output
    assert "all partitions are intact" in result.output
    assert f"{TOPIC}-0" in result.output
    assert contents(data_dir) == before


@pytest.mark.sampled(5)
@pytest.mark.parametrize("damage", HARMLESS)
def test_what_a_start_can_rebuild_is_no_damage(filled: tuple[Path, Filled], damage: str) -> None:
    data_dir, _ = filled
    HARMLESS[damage](RealFiles(data_dir))
    before = contents(data_dir)
    result = run("verify", data_dir, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["damaged"] is False
    assert contents(data_dir) == before


@pytest.mark.sampled(5)
@pytest.mark.parametrize("damage", DESTRUCTIVE)
def test_damage_is_reported_with_its_file_before_anything_is_changed(filled: tuple[Path, Filled], damage: str) -> None:
    data_dir, _ = filled
    change, file = DESTRUCTIVE[damage]
    change(RealFiles(data_dir))
    before = contents(data_dir)
    result = run("verify", data_dir, "--json")
    assert result.exit_code == 1, result.output
    (damaged,) = [entry for entry in json.loads(result.stdout)["partitions"] if entry["damaged"]]
    assert damaged["topic"] == TOPIC
    assert any(lost["file"].startswith(file) for lost in damaged["lost"])
    for arguments, text in ((["verify"], "Nothing was changed"), (["repair", "--dry-run"], "lost: offsets")):
        told = run(*arguments, data_dir)
        assert told.exit_code == 1
        assert text in told.output
    refused = run("repair", data_dir, input="n\n")
    assert refused.exit_code == 2
    assert contents(data_dir) == before


@pytest.mark.sampled(5)
@pytest.mark.parametrize("damage", DESTRUCTIVE)
def test_repaired_partition_serves_all_that_is_whole_and_says_what_is_lost(
    filled: tuple[Path, Filled], damage: str
) -> None:
    data_dir, sent = filled
    change, _ = DESTRUCTIVE[damage]
    change(RealFiles(data_dir))
    damaged_files = contents(data_dir)
    result = run("repair", data_dir, "--yes", "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    (damaged,) = [entry for entry in told["repaired"]["partitions"] if entry["damaged"]]
    lost = {offset for entry in damaged["lost"] for offset in range(entry["first_offset"], entry["last_offset"] + 1)}
    broker = VirtualBroker(disk=load(data_dir))
    broker.time.advance(5_000)
    assert list_offset(broker) == (ErrorCode.NONE, END_OFFSET)
    seen = read_committed(broker)
    assert (seen.error, seen.is_right) == (ErrorCode.NONE, True)
    assert set(seen.missing) == lost & set(ACKNOWLEDGED)
    assert ABORTED_OFFSET not in seen.offsets
    for name in told["kept_files"]:
        assert (data_dir / name).read_bytes() == damaged_files[name.removesuffix(".damaged")]
    error, offset = produce(broker, sent.last_batch)
    assert (error, offset) == (ErrorCode.NONE, END_OFFSET - 1) or END_OFFSET - 1 in lost
    assert run("verify", data_dir).exit_code == 0


def lost_by(data_dir: Path) -> set[int]:
    (damaged,) = [
        entry for entry in json.loads(run("verify", data_dir, "--json").stdout)["partitions"] if entry["damaged"]
    ]
    return {offset for lost in damaged["lost"] for offset in range(lost["first_offset"], lost["last_offset"] + 1)}


def flip(data_dir: Path, name: str, position: int) -> None:
    data = bytearray((data_dir / name).read_bytes())
    data[position] ^= 0x40
    (data_dir / name).write_bytes(data)


def test_only_the_batch_that_is_bad_is_lost(filled: tuple[Path, Filled]) -> None:
    data_dir, _ = filled
    flip(data_dir, log_file(17), -3)
    assert lost_by(data_dir) == {29}
    flip(data_dir, log_file(0), 65)
    assert lost_by(data_dir) == {0, 29}


@pytest.mark.parametrize("position", range(8, 12))
def test_bad_length_does_not_hide_the_batches_behind_it(filled: tuple[Path, Filled], position: int) -> None:
    data_dir, _ = filled
    flip(data_dir, log_file(12), position)
    assert lost_by(data_dir) == {12}


def test_where_a_marker_may_be_lost_nothing_after_it_is_believed(filled: tuple[Path, Filled]) -> None:
    """The ABORT marker is destroyed: whether the transaction was committed is not known any more."""
    data_dir, _ = filled
    size = len((data_dir / log_file(7)).read_bytes())
    marker_at = next(at for at in range(size) if _is_marker_at(data_dir, at))
    flip(data_dir, log_file(7), marker_at + 70)
    assert lost_by(data_dir) == set(range(MARKER_OFFSET, END_OFFSET))
    result = run("repair", data_dir, "--yes")
    assert result.exit_code == 0, result.output
    assert f"from offset {ABORTED_OFFSET} on stays open" in result.output
    broker = VirtualBroker(disk=load(data_dir))
    assert list_offset(broker) == (ErrorCode.NONE, ABORTED_OFFSET)
    assert list_offset(broker, isolation_level=0) == (ErrorCode.NONE, END_OFFSET)
    assert read_committed(broker).offsets == list(range(ABORTED_OFFSET))
    # A snapshot from before the damage would know that the transaction has ended, though not how.
    assert produce(broker, _plain_batch())[0] is ErrorCode.NONE
    broker = broker.killed()
    assert list_offset(broker) == (ErrorCode.NONE, ABORTED_OFFSET)


def _plain_batch() -> bytes:
    return encode_batch([Record(0, 1_700_000_000_000, None, b"later")])


def _is_marker_at(data_dir: Path, at: int) -> bool:
    data = (data_dir / log_file(7)).read_bytes()
    return int.from_bytes(data[at : at + 8], "big") == MARKER_OFFSET and data[at + 16] == 2


@pytest.mark.parametrize("topic", ["__transaction_state", "__cluster_metadata"])
def test_broker_refuses_to_start_on_damaged_coordinator_state_and_starts_once_it_is_repaired(
    filled: tuple[Path, Filled], topic: str
) -> None:
    data_dir, _ = filled
    files = RealFiles(data_dir)
    (name,) = [name for name in files.names() if name.startswith(topic) and name.endswith(".log")]
    flip(data_dir, name, len(files.read(name)) // 2)
    with pytest.raises(StartError, match="oncelog log repair") as refused:
        VirtualBroker(disk=load(data_dir))
    assert name in str(refused.value)
    assert "offset" in str(refused.value)
    result = run("repair", data_dir, "--yes")
    assert result.exit_code == 0, result.output
    assert f"{name} at position" in result.output
    VirtualBroker(disk=load(data_dir))


def test_directory_that_a_broker_serves_is_left_alone(filled: tuple[Path, Filled]) -> None:
    data_dir, _ = filled
    running = RealDisk(data_dir)
    running.lock()
    for command in ("verify", "repair"):
        result = run(command, data_dir)
        assert result.exit_code == 2
        assert "another broker is running" in result.output
    running.close()


def test_directory_of_something_else_is_refused_and_not_made(tmp_path: Path) -> None:
    for data_dir in (tmp_path, tmp_path / "nowhere"):
        result = run("verify", data_dir)
        assert result.exit_code == 2
        assert "not a data directory" in result.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["verify", "repair"])
def test_directory_of_a_kafka_broker_is_refused_and_left_as_it_is(filled: tuple[Path, Filled], command: str) -> None:
    """Its metadata log would be taken for a damaged one of ours."""
    data_dir, _ = filled
    (data_dir / "meta.properties").write_text("version=1\n")
    before = contents(data_dir)
    result = run(command, data_dir)
    assert (result.exit_code, "Apache Kafka" in result.output) == (2, True)
    assert contents(data_dir) == before
