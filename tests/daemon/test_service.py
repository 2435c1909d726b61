"""`oncelog service install`, and the daemon's notifications to a service manager."""

import os
import re
import shutil
import socket
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from oncelog.cli import main
from oncelog.tools import service
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import Daemon

_ANALYZE = shutil.which("systemd-analyze")
_MOST_EXPOSED = 20
"""The highest exposure allowed, of 100; a service without any protection has 96; measured: 17."""


def printed(*arguments: str) -> str:
    result = CliRunner().invoke(main, ["service", "install", "--print", *arguments])
    assert result.exit_code == 0, result.stderr
    return result.stdout


def analyzed(unit: str, tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    if _ANALYZE is None:
        pytest.skip("there is no systemd-analyze here")
    path = tmp_path / "oncelog.service"
    path.write_text(unit)
    command = [_ANALYZE, *arguments, str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)


def test_systemd_finds_nothing_wrong_in_the_unit(tmp_path: Path) -> None:
    """Names that systemd would read otherwise are fine too; a planted mistake is found."""
    unit = printed("--data-dir", "/var/lib/with space", "--config", "/etc/100%/$HOME.properties", "--user", "root")
    checked = analyzed(unit, tmp_path, "verify", "--man=no")
    assert (checked.returncode, "oncelog.service" in checked.stderr) == (0, False), checked.stderr
    wrong = analyzed(unit.replace("PrivateTmp", "PrivateTemp"), tmp_path, "verify", "--man=no")
    assert "PrivateTemp" in wrong.stderr


def test_the_service_may_do_little(tmp_path: Path) -> None:
    """The unit's exposure by systemd's own measure is low."""
    judged = analyzed(printed(), tmp_path, "security", "--offline=true", f"--threshold={_MOST_EXPOSED}")
    assert judged.returncode == 0, judged.stdout


def test_the_unit_starts_this_program_on_these_files() -> None:
    """The unit has the options of the command line, with absolute paths."""
    unit = printed("--data-dir", "data", "--config", "/etc/x.properties", "--user", "kafka")
    data_dir = Path("data").absolute()
    assert re.search(rf"^ExecStart=.* serve --config /etc/x.properties --data-dir {data_dir}$", unit, re.MULTILINE)
    assert f"\nReadWritePaths={data_dir}\n" in unit
    assert "\nUser=kafka\n" in unit
    assert CliRunner().invoke(main, ["service", "install", "--print", "--user", "a b"]).exit_code == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_the_data_directory_is_given_to_the_user_without_what_is_shared(tmp_path: Path) -> None:
    """A hard-linked segment stays Apache Kafka's; what a link leads to stays as it is."""
    data, kafkas = tmp_path / "the data", tmp_path / "kafkas"
    (data / "orders-0").mkdir(parents=True)
    own, link = data / "orders-0" / "own", data / "link"
    for each in (own, kafkas):
        each.touch()
    os.link(kafkas, data / "orders-0" / "shared")
    link.symlink_to(kafkas)
    (command,) = (each for each in service.next_steps(tmp_path / "x", data, "nobody") if "chown" in each)
    subprocess.run(["sh", "-ec", command.replace("nobody:nobody", "64999:64999")], check=True, timeout=PATIENCE_S)
    assert {each.lstat().st_uid for each in (data, data / "orders-0", own, link)} == {64_999}
    assert kafkas.stat().st_uid == 0


def test_the_unit_is_written_by_root_alone_and_replaced_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other users get instructions; one that was changed by hand stays unless --yes says otherwise."""
    path = tmp_path / "oncelog.service"
    monkeypatch.setattr(service, "_UNIT", path)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    refused = CliRunner().invoke(main, ["service", "install"])
    assert (refused.exit_code, "sudo" in refused.stderr, path.exists()) == (2, True, False)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    written = CliRunner().invoke(main, ["service", "install"])
    assert written.stdout.splitlines()[-1] == "systemctl enable --now oncelog"
    assert path.read_text() == printed()
    path.write_text("mine")
    monkeypatch.setattr("oncelog.tools.terminal._has_person", lambda: True)
    assert CliRunner().invoke(main, ["service", "install"], input="n\n").exit_code == 2
    assert path.read_text() == "mine"
    assert CliRunner().invoke(main, ["service", "install", "--yes"]).exit_code == 0
    assert path.read_text() == printed()


def test_a_service_manager_hears_when_the_broker_is_ready_and_when_it_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Type=notify: ready once clients are accepted; an address without a reader is no reason to fail."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE_S)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        daemon = Daemon(tmp_path / "data")
        assert manager.recv(100) == b"READY=1"
        assert daemon.stop() == 0
        assert manager.recv(100) == b"STOPPING=1"
    daemon.start()
    assert daemon.stop() == 0
