"""`oncelog serve` as a process: how it starts, what it prints, how it stops, and what it refuses."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from oncelog.broker.daemon.cli import main
from oncelog.health import check_health
from tests.conftest import Start
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import Daemon

MAX_RESIDENT_KIB = 60 * 1024


def _address(daemon: Daemon) -> tuple[str, int]:
    host, _, port = daemon.bootstrap.rpartition(":")
    return host, int(port)


def test_the_ready_line_has_an_address_that_answers(start_daemon: Start) -> None:
    daemon = start_daemon()
    assert re.fullmatch(r"127\.0\.0\.1:[1-9]\d*", daemon.bootstrap)
    assert check_health(*_address(daemon), timeout_s=PATIENCE_S) > 15


def test_the_ready_line_names_every_listener_in_order(start_daemon: Start) -> None:
    daemon = start_daemon(
        "listeners=INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.2:0",
        "listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
    )
    inside, outside = daemon.addresses
    assert inside.startswith("127.0.0.1:") and outside.startswith("127.0.0.2:")
    for address in (inside, outside):
        host, _, port = address.rpartition(":")
        assert check_health(host, int(port), timeout_s=PATIENCE_S) > 15


def test_with_storage_in_memory_it_makes_no_file(start_daemon: Start, tmp_path: Path) -> None:
    daemon = start_daemon("oncelog.storage=memory")
    assert check_health(*_address(daemon), timeout_s=PATIENCE_S) > 15
    daemon.process.send_signal(signal.SIGTERM)
    daemon.process.communicate(timeout=PATIENCE_S)
    assert daemon.process.returncode == 0
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_with_code_0_and_nothing_more_on_standard_output(
    start_daemon: Start, how: signal.Signals
) -> None:
    daemon = start_daemon()
    process = daemon.process
    process.send_signal(how)
    rest, _ = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, rest) == (0, "")


def test_a_second_daemon_on_the_same_directory_is_refused_in_one_line(start_daemon: Start) -> None:
    daemon = start_daemon()
    second = subprocess.run(
        [
            sys.executable,
            "-m",
            "oncelog.broker",
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--data-dir",
            str(daemon.data_dir),
        ],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert second.returncode == 1
    assert second.stdout == ""
    assert second.stderr.startswith("oncelog: ")
    assert second.stderr.count("\n") == 1
    assert str(daemon.data_dir) in second.stderr
    check_health(*_address(daemon), timeout_s=PATIENCE_S)


def test_directory_of_another_program_is_refused_in_one_line_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "photos-2024").mkdir()
    (tmp_path / "photos-2024" / "beach.jpg").write_bytes(b"photo")
    refused = subprocess.run(
        [sys.executable, "-m", "oncelog.broker", "serve", "--listen", "127.0.0.1:0", "--data-dir", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (1, "", 1)
    assert str(tmp_path) in refused.stderr and "'photos-2024'" in refused.stderr and "--data-dir" in refused.stderr
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["beach.jpg", "photos-2024"]


def test_a_port_that_is_taken_is_one_line_and_code_1(start_daemon: Start, tmp_path: Path) -> None:
    daemon = start_daemon()
    second = subprocess.run(
        [
            sys.executable,
            "-m",
            "oncelog.broker",
            "serve",
            "--listen",
            daemon.bootstrap,
            "--data-dir",
            str(tmp_path / "other"),
        ],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert second.returncode == 1
    assert second.stdout == ""
    assert daemon.bootstrap in second.stderr
    assert "Traceback" not in second.stderr


def test_settings_that_one_node_does_not_need_are_one_warning_in_the_log(start_daemon: Start) -> None:
    daemon = start_daemon("process.roles=broker,controller", "controller.quorum.voters=1@x:9093", "num.partitions=3")
    daemon.stop()
    lines = [line for line in daemon.log.splitlines() if "process.roles" in line]
    assert len(lines) == 1
    assert "controller.quorum.voters" in lines[0]
    assert '"level": "warning"' in lines[0]


def test_on_windows_it_says_that_it_does_not_run_there_and_where_it_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    refused = CliRunner().invoke(main, ["serve", "--listen", "127.0.0.1:0", "--data-dir", str(tmp_path / "data")])
    assert (refused.exit_code, refused.stderr.count("\n"), (tmp_path / "data").exists()) == (1, 1, False)
    assert "Windows" in refused.stderr and "WSL" in refused.stderr


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_an_idle_broker_stays_below_60_mib(start_daemon: Start) -> None:
    daemon = start_daemon()
    check_health(*_address(daemon), timeout_s=PATIENCE_S)
    status = Path(f"/proc/{daemon.process.pid}/status").read_text()
    resident = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert resident
    assert int(resident[1]) < MAX_RESIDENT_KIB


def test_serving_imports_nothing_that_it_does_not_need() -> None:
    unwanted = (
        "construct",
        "rich",
        "pyspark",
        "hypothesis",
        "asyncio_dgram",
        "difflib",
        "oncelog.client",
        "backports.zstd",
        "cramjam",
    )
    modules = "oncelog.broker.daemon.app, oncelog.broker.daemon.cli"
    code = f"import sys, {modules}; print([name for name in {unwanted!r} if name in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    assert result.stdout == "[]\n"
