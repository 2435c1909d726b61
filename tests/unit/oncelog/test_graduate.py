"""`oncelog graduate` without Kafka: what it refuses, what a kill after each step leaves, what the options do."""

import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from oncelog.broker.storage.local.data_directory import ForeignDirectoryError, check_data_directory
from oncelog.broker.system.disk import RealDisk
from oncelog.cli import main
from oncelog.protocol.records.batch import iter_batches
from oncelog.tools.graduate.graduation import Watcher, graduate
from oncelog.tools.kafka_directory.bootstrap import feature_levels
from tests.fakes.broker import VirtualBroker
from tests.support.logs.damage import TOPIC, fill
from tests.support.logs.data_directories import load, store
from tests.support.logs.graduation import wish_for

LISTENERS = "listeners=PLAINTEXT://127.0.0.1:9092"
STEPS = {
    "in place": ("new files", "mark", "own files", "meta.properties"),
    "elsewhere": ("directory", "files", "new files", "mark", "name"),
}
STOPS = ("clean stop", "kill -9", "power cut")


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A broker's directory after each way to end; to be copied."""
    directories = {}
    for stop in STOPS:
        broker = VirtualBroker()
        fill(broker, broker.time.wall_ms())
        if stop == "clean stop":
            broker.broker.logs.close()
        disk = broker.crashed(1).disk.kill() if stop == "power cut" else broker.disk
        directories[stop] = tmp_path_factory.mktemp("stopped")
        store(disk, directories[stop])
    return directories


@pytest.fixture
def data_dir(stopped: dict[str, Path], tmp_path: Path) -> Path:
    return copied(stopped["clean stop"], tmp_path)


def copied(source: Path, tmp_path: Path) -> Path:
    shutil.copytree(source, tmp_path / "data")
    return tmp_path / "data"


def run(*arguments: str | Path, **more: Any) -> Result:
    return CliRunner().invoke(main, ["graduate", *map(str, arguments)], **more)


def contents(directory: Path) -> dict[str, bytes]:
    files = [path for path in sorted(directory.rglob("*")) if path.is_file()]
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


def same_for_kafka(directory: Path) -> dict[str, bytes]:
    """The files, but for the two that contain the log directory's id, which is drawn at random each time."""
    found = contents(directory)
    assert set(found) >= {"meta.properties", "bootstrap.checkpoint", "server.properties"}
    return {name: data for name, data in found.items() if name not in ("meta.properties", "bootstrap.checkpoint")}


def starts_here(data_dir: Path) -> bool:
    disk = RealDisk(data_dir)
    try:
        check_data_directory(disk, "__cluster_metadata-0")
    except ForeignDirectoryError:
        return False
    finally:
        disk.close()
    return True


def records_of(directory: Path) -> list[tuple[int, bytes]]:
    return [
        (header.base_offset, bytes(batch))
        for file in sorted((directory / f"{TOPIC}-0").glob("*.log"))
        for header, batch in iter_batches(memoryview(file.read_bytes()))
    ]


class _Killed(Exception):
    """Ends the command as a kill would: nothing after it is done."""


@pytest.mark.parametrize(("mode", "last_step"), [(mode, step) for mode, steps in STEPS.items() for step in steps])
def test_after_a_kill_at_any_step_one_broker_starts_and_a_repetition_completes(
    stopped: dict[str, Path], tmp_path: Path, mode: str, last_step: str
) -> None:
    kafka_dir = tmp_path / "kafka" if mode == "elsewhere" else None
    data_dir = copied(stopped["kill -9"], tmp_path)
    wish = wish_for(data_dir, kafka_dir, "127.0.0.1:9092", 9093)
    done: list[str] = []

    def kill_after(step: str) -> None:
        done.append(step)
        if step == last_step:
            raise _Killed

    with pytest.raises(_Killed):
        graduate(wish, Watcher(on_step=kill_after))
    assert done == list(STEPS[mode][: len(done)])
    starts_in_kafka = (wish.target / "meta.properties").exists()
    assert not (starts_here(data_dir) and starts_in_kafka)
    assert starts_here(data_dir) == ("mark" not in done)
    assert starts_in_kafka == (last_step == STEPS[mode][-1])
    if starts_in_kafka:
        return
    if starts_here(data_dir):
        broker = VirtualBroker(disk=load(data_dir))
        assert broker.broker.topics.partition(TOPIC, 0).log_end_offset == 30
    done.clear()
    graduate(wish, Watcher(on_step=done.append))
    assert done[-1] == STEPS[mode][-1]
    repeated = same_for_kafka(wish.target)
    shutil.rmtree(data_dir)
    shutil.rmtree(tmp_path / "kafka", ignore_errors=True)
    graduate(wish_for(copied(stopped["kill -9"], tmp_path), kafka_dir, "127.0.0.1:9092", 9093), Watcher())
    assert repeated == same_for_kafka(wish.target)
    assert not (tmp_path / "kafka.graduating").exists()


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("mode", STEPS)
def test_every_acknowledged_record_is_in_kafkas_segments_however_the_broker_ended(
    stopped: dict[str, Path], tmp_path: Path, stop: str, mode: str
) -> None:
    data_dir, kafka_dir = copied(stopped[stop], tmp_path), tmp_path / "kafka"
    target = ["--out", kafka_dir] if mode == "elsewhere" else ["--in-place", "--yes"]
    result = run(data_dir, *target, "--override", LISTENERS)
    assert result.exit_code == 0, result.output
    found = kafka_dir if mode == "elsewhere" else data_dir
    assert [offset for offset, _ in records_of(found)] == list(range(30))
    assert (found / ".kafka_cleanshutdown").exists()
    names = set(contents(found))
    assert not [name for name in names if "journal" in name or "flushed" in name or "manifest" in name]
    assert not [name for name in names if name.endswith(".batches") or name.startswith("__cluster_metadata")]
    assert not starts_here(data_dir)


def test_only_closed_segments_are_shared_and_with_copy_nothing(data_dir: Path, tmp_path: Path) -> None:
    assert run(data_dir, "--out", tmp_path / "linked", "--override", LISTENERS).exit_code == 0
    (data_dir / "graduated").unlink()
    shutil.copytree(data_dir, tmp_path / "again")
    assert run(tmp_path / "again", "--out", tmp_path / "copied", "--copy", "--override", LISTENERS).exit_code == 0
    files = [path for path in (tmp_path / "linked").rglob("*") if path.is_file()]
    shared = sorted(path.name for path in files if path.stat().st_nlink > 1 and path.suffix == ".log")
    assert shared == [f"{base:020d}.log" for base in (0, 7, 12)]
    assert {path.name[:20] for path in files if path.stat().st_nlink > 1} == {name[:20] for name in shared}
    assert not [path for path in (tmp_path / "copied").rglob("*") if path.is_file() and path.stat().st_nlink > 1]
    assert same_for_kafka(tmp_path / "copied").keys() == same_for_kafka(tmp_path / "linked").keys()


def test_a_dry_run_says_what_a_run_does_and_changes_nothing(stopped: dict[str, Path], tmp_path: Path) -> None:
    data_dir = copied(stopped["kill -9"], tmp_path)
    before = contents(data_dir)
    options = ["--in-place", "--override", LISTENERS, "--override", "oncelog.compat=kafka", "--json"]
    dry = run(data_dir, *options, "--dry-run")
    assert dry.exit_code == 0, dry.output
    assert contents(data_dir) == before
    real = run(data_dir, *options, "--yes")
    expected, said = json.loads(dry.stdout), json.loads(real.stdout)
    assert (expected.pop("done"), said.pop("done")) == (False, True)
    for role in ("closed_files", "growing_files", "own_files", "unknown_files"):
        del expected[role], said[role]  # a run recovers first, which builds indexes and snapshots
    assert expected == said
    assert said["settings_left"] == ["oncelog.compat"]


def test_without_confirmation_nothing_is_done_in_place(data_dir: Path) -> None:
    result = run(data_dir, "--in-place", "--override", LISTENERS, input="n\n")
    assert result.exit_code == 2
    assert "hard links" not in result.output and "stay where they are" in result.output
    assert starts_here(data_dir)


def test_a_directory_that_has_graduated_says_where_its_data_is(data_dir: Path, tmp_path: Path) -> None:
    kafka_dir = tmp_path / "kafka"
    assert run(data_dir, "--out", kafka_dir, "--override", LISTENERS).exit_code == 0
    disk = RealDisk(data_dir)
    with pytest.raises(ForeignDirectoryError, match=f"to {kafka_dir};.* delete the file graduated"):
        check_data_directory(disk, "__cluster_metadata-0")
    disk.close()
    again = run(data_dir, "--out", tmp_path / "other", "--override", LISTENERS)
    assert again.exit_code == 2
    assert f"it was done before: Apache Kafka starts with {kafka_dir}/server.properties" in again.stderr
    (data_dir / "graduated").unlink()
    assert starts_here(data_dir)


REFUSALS = {
    "nothing there": (shutil.rmtree, [], "is not a data directory of a broker"),
    "Kafka's": (lambda path: (path / "meta.properties").touch(), [], "belongs to Apache Kafka already"),
    "no metadata log": (
        lambda path: shutil.rmtree(path / "__cluster_metadata-0"),
        [],
        "restore it from a copy",
    ),
    "damaged": (
        lambda path: (path / f"{TOPIC}-0" / f"{7:020d}.log").unlink(),
        [],
        "`oncelog log repair` makes the rest usable",
    ),
    "a directory of others": (
        lambda path: (path / "lost+found").mkdir(),
        ["--in-place", "--yes"],
        "it contains 'lost+found': move that away, or use --out",
    ),
    "a file of the user's": (
        lambda path: (path / "server.properties").write_text("process.roles=broker"),
        ["--in-place", "--yes"],
        "exists, and would be overwritten: move it away",
    ),
    "target in use": (
        lambda path: (path.parent / "kafka").mkdir() or (path.parent / "kafka/file").touch(),
        [],
        "exists and is not empty: choose a new directory",
    ),
    "any port": (None, ["--override", "listeners=PLAINTEXT://127.0.0.1:0"], "--override listeners=PLAINTEXT://"),
    "another node": (None, ["--override", "node.id=9"], "was last served as node 1, and node.id is 9"),
    "no file": (None, ["--config", "/nowhere/server.properties"], "cannot read the config file"),
    "no address": (None, ["--controller", "kafka"], "--controller: 'kafka' is not of the form HOST:PORT"),
    "copies in place": (None, ["--in-place", "--copy"], "--copy is for --out"),
    "no answer": (None, ["--in-place", "--json"], "--json cannot ask for confirmation"),
    "both": (None, ["--in-place", "--out", "kafka"], "choose one: --out KAFKA_DIR or --in-place"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_says_what_to_do_and_leaves_the_directory_to_us(data_dir: Path, tmp_path: Path, case: str) -> None:
    change, options, text = REFUSALS[case]
    if change is not None:
        change(data_dir)
    before = contents(data_dir)
    target = [] if "--in-place" in options else ["--out", tmp_path / "kafka"]
    listeners = [] if "port" in case else ["--override", LISTENERS]
    result = run(data_dir, *target, *listeners, *options)
    assert result.exit_code == 2, result.output
    assert text in " ".join(result.stderr.split())
    kept = contents(data_dir) if data_dir.exists() else {}
    assert {name: kept.get(name) for name in before if name.endswith(".log")} == {
        name: data for name, data in before.items() if name.endswith(".log")
    }
    assert not (tmp_path / "kafka.graduating").exists()
    assert not (data_dir / "graduated").exists()


def test_a_running_broker_is_left_alone(data_dir: Path, tmp_path: Path) -> None:
    disk = RealDisk(data_dir)
    disk.lock()
    before = contents(data_dir)
    result = run(data_dir, "--out", tmp_path / "kafka")
    disk.close()
    assert result.exit_code == 2
    assert "another broker is running on the data directory" in result.stderr and "stop it first" in result.stderr
    assert contents(data_dir) == before


def test_another_file_system_is_named_with_what_to_choose(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(*_: object, **__: object) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(os, "link", link)
    result = run(data_dir, "--out", tmp_path / "kafka", "--override", LISTENERS)
    assert result.exit_code == 2
    assert "choose a directory on the same one, or --in-place, or --copy" in result.stderr
    assert starts_here(data_dir)
    assert not list(tmp_path.glob("kafka*"))
    assert run(data_dir, "--out", tmp_path / "kafka", "--copy", "--override", LISTENERS).exit_code == 0


def test_copies_that_do_not_fit_are_refused_before_the_first(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(100, 90, 10))
    result = run(data_dir, "--out", tmp_path / "kafka", "--override", LISTENERS)
    assert result.exit_code == 2
    assert "which has room for 10 bytes: make room" in result.stderr
    assert not list(tmp_path.glob("kafka*"))


def test_a_feature_that_a_directory_from_before_it_lacks_stays_off() -> None:
    levels = feature_levels({"metadata.version": 30, "group.version": 1, "transaction.version": 2})
    assert levels["eligible.leader.replicas.version"] == levels["share.version"] == 0
    assert (levels["metadata.version"], levels["group.version"], levels["transaction.version"]) == (30, 1, 2)
