"""Both tables of damaged files over real files and sockets: a daemon stops, its files are changed, it starts again."""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer

from oncelog.cli import main
from oncelog.protocol.errors import ErrorCode
from tests.clients.wire import WireBroker
from tests.support.foreign.confluent import read_all
from tests.support.logs.damage import (
    ACKNOWLEDGED,
    DESTRUCTIVE,
    END_OFFSET,
    HARMLESS,
    OLDEST,
    TOPIC,
    Filled,
    RealFiles,
    fill,
    list_offset,
    produce,
    read_committed,
)
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import Daemon

STOPS = ("kill -9", "clean stop")


@pytest.fixture(scope="module", params=STOPS)
def stopped(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Filled]:
    """The directory of a daemon that was filled and then stopped in one of the two ways; to be copied."""
    daemon = Daemon(tmp_path_factory.mktemp("filled") / "data")
    broker = WireBroker(daemon.bootstrap)
    filled = fill(broker, int(time.time() * 1000))
    broker.close()
    if request.param == "kill -9":
        daemon.kill()
        daemon.start()  # from now on nothing can be put back from the journal
        daemon.kill()
    else:
        assert daemon.stop() == 0
    return daemon.data_dir, filled


@contextmanager
def started(data_dir: Path) -> Iterator[tuple[WireBroker, Daemon]]:
    daemon = Daemon(data_dir)
    broker = WireBroker(daemon.bootstrap)
    try:
        yield broker, daemon
    finally:
        broker.close()
        daemon.kill()


# Each takes a start of the daemon. Over a disk in memory all are in test_no_damage_is_silent.
@pytest.mark.sampled(16)
@pytest.mark.parametrize("damage", HARMLESS)
def test_what_can_be_rebuilt_makes_no_difference(stopped: tuple[Path, Filled], tmp_path: Path, damage: str) -> None:
    original, filled = stopped
    data_dir = Path(shutil.copytree(original, tmp_path / "data"))
    HARMLESS[damage](RealFiles(data_dir))
    with started(data_dir) as (broker, _):
        assert list_offset(broker, isolation_level=0) == list_offset(broker) == (ErrorCode.NONE, END_OFFSET)
        seen = read_committed(broker)
        assert (seen.missing, len(seen.offsets), seen.is_right) == ([], 28, True)
        assert seen.error is ErrorCode.NONE
        assert produce(broker, filled.last_batch) == (ErrorCode.NONE, END_OFFSET - 1)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("damage", DESTRUCTIVE)
def test_what_destroys_records_takes_the_partition_offline_and_is_told(
    stopped: tuple[Path, Filled], tmp_path: Path, damage: str
) -> None:
    original, filled = stopped
    data_dir = Path(shutil.copytree(original, tmp_path / "data"))
    change, file = DESTRUCTIVE[damage]
    change(RealFiles(data_dir))
    with started(data_dir) as (broker, daemon):
        deadline = time.monotonic() + PATIENCE_S
        while list_offset(broker)[0] is not ErrorCode.KAFKA_STORAGE_ERROR:  # by the check in the background
            assert time.monotonic() < deadline
            broker.let_pass(20)
        seen = read_committed(broker)
        assert (seen.error, seen.is_right) == (ErrorCode.KAFKA_STORAGE_ERROR, True)
        assert produce(broker, filled.last_batch)[0] is ErrorCode.KAFKA_STORAGE_ERROR
        log = daemon.log
        assert file in log
        assert "oncelog log verify" in log


def _without_directory(data_dir: Path) -> str:
    shutil.rmtree(data_dir / f"{TOPIC}-0")
    return f"{TOPIC}-0 is offline"


def _directory_for_a_log(data_dir: Path) -> str:
    (data_dir / OLDEST).unlink()
    (data_dir / OLDEST).mkdir()
    return OLDEST


def _file_for_the_directory(data_dir: Path) -> str:
    shutil.rmtree(data_dir / f"{TOPIC}-0")
    (data_dir / f"{TOPIC}-0").write_bytes(b"")
    return f"{TOPIC}-0 is offline"


@pytest.mark.sampled(4)
@pytest.mark.parametrize("change", [_without_directory, _directory_for_a_log, _file_for_the_directory])
def test_what_stands_in_the_place_of_files_costs_one_partition(
    stopped: tuple[Path, Filled], tmp_path: Path, change: Callable[[Path], str]
) -> None:
    original, _ = stopped
    data_dir = Path(shutil.copytree(original, tmp_path / "data"))
    told = change(data_dir)
    with started(data_dir) as (broker, daemon):
        assert read_committed(broker).error is ErrorCode.KAFKA_STORAGE_ERROR
        log = daemon.log
        assert told in log and "Traceback" not in log
    verified = CliRunner().invoke(main, ["log", "verify", str(data_dir)])
    assert (verified.exit_code, f"{TOPIC}-0" in verified.output) == (1, True)


def test_journal_that_is_a_directory_is_named_and_the_start_refused(
    stopped: tuple[Path, Filled], tmp_path: Path
) -> None:
    original, _ = stopped
    data_dir = Path(shutil.copytree(original, tmp_path / "data"))
    (data_dir / "flushed-offsets").unlink()
    (data_dir / "flushed-offsets").mkdir()
    with pytest.raises(RuntimeError, match="did not start") as refused:
        Daemon(data_dir)
    assert "flushed-offsets" in str(refused.value) and "Traceback" not in str(refused.value)
    verified = CliRunner().invoke(main, ["log", "verify", str(data_dir)])
    assert (verified.exit_code, "flushed-offsets" in verified.output) == (2, True)


def test_clients_read_past_what_a_repair_has_left_empty(stopped: tuple[Path, Filled], tmp_path: Path) -> None:
    """A log may lack records in the middle or at its end: librdkafka gets every other record, and writes after them."""
    original, _ = stopped
    data_dir = Path(shutil.copytree(original, tmp_path / "data"))
    for damage in ("byte flipped in the oldest segment", "active .log deleted"):
        DESTRUCTIVE[damage][0](RealFiles(data_dir))
    repaired = CliRunner().invoke(main, ["log", "repair", str(data_dir), "--yes"])
    assert repaired.exit_code == 0, repaired.output
    with started(data_dir) as (_, daemon):
        producer = Producer({"bootstrap.servers": daemon.bootstrap})
        producer.produce(TOPIC, b"later")
        assert producer.flush(PATIENCE_S) == 0
        whole = [b"%d" % offset for offset in ACKNOWLEDGED if offset < 17 and offset != 6]
        assert read_all(daemon, TOPIC) == [*whole, b"later"]


def test_a_bit_in_the_last_frame_of_the_journal_costs_nothing_after_a_kill_and_is_reported(tmp_path: Path) -> None:
    """A real daemon, whose note is in shared memory: the frame counted as torn, and took its record along."""
    data_dir = tmp_path / "data"
    with started(data_dir) as (broker, _):
        fill(broker, int(time.time() * 1_000))
        end = list_offset(broker)[1]
    for name in ("journal.0", "journal.1"):
        data = bytearray((data_dir / name).read_bytes())
        at = data.rfind(b"oncejrnl")
        if at >= 0:
            data[at + 75] ^= 1
            (data_dir / name).write_bytes(data)
    verified = CliRunner().invoke(main, ["log", "verify", str(data_dir)])
    assert (verified.exit_code, "lacks frames" in verified.output) == (0, True), "nothing is lost, and it is told"
    with started(data_dir) as (broker, daemon):
        assert list_offset(broker)[1] == end
        assert "lacks frames" in daemon.log
