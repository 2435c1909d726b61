"""`oncelog doctor` names what is wrong and what to do about it."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from oncelog.cli import main
from oncelog.client.sync import Admin, Producer
from oncelog.tools import doctor as doctor_module
from tests.support.daemon import Daemon
from tests.support.hanging import hang


def examined(daemon: Daemon, *arguments: str, exit_code: int) -> dict[str, tuple[str, str]]:
    result = CliRunner().invoke(main, ["doctor", "-b", daemon.bootstrap, "--json", *arguments])
    assert result.exit_code == exit_code, (result.output, result.exception)
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return {row["check"]: (row["result"], row["detail"]) for row in found}


def test_an_advertised_address_that_cannot_be_reached_is_wrong(start_daemon: Callable[..., Daemon]) -> None:
    daemon = start_daemon("advertised.listeners=PLAINTEXT://127.0.0.1:1")
    found = examined(daemon, exit_code=1)
    assert found[daemon.bootstrap][0] == "ok"
    result, detail = found["node 1"]
    assert result == "wrong"
    assert "it tells clients to connect to 127.0.0.1:1" in detail and "set advertised.listeners of node 1" in detail
    command = CliRunner().invoke(main, ["txn", "list", "-b", daemon.bootstrap])
    assert command.exit_code == 2
    assert "127.0.0.1:1" in command.stderr and "`oncelog doctor` looks for the reason" in command.stderr


def test_a_hanging_transaction_is_wrong(start_daemon: Callable[..., Daemon]) -> None:
    daemon = start_daemon()
    assert examined(daemon, exit_code=0)["transactions"] == ("ok", "none hangs")
    hang(daemon, "payments")
    result, detail = examined(daemon, exit_code=1)["transactions"]
    assert result == "wrong" and "`oncelog txn find-hanging`" in detail


def test_records_of_the_future_are_worth_a_look(daemon: Daemon) -> None:
    in_an_hour_ms = time.time_ns() // 1_000_000 + 3_600_000
    with Admin(daemon.bootstrap) as admin, Producer(daemon.bootstrap) as producer:
        admin.create_topics("early")
        producer.send("early", b"x", timestamp_ms=in_an_hour_ms)
    result, detail = examined(daemon, exit_code=0)["clocks"]
    assert result == "look" and "early-0" in detail and "clock is ahead" in detail


def test_internal_topics_that_no_cluster_of_this_size_can_create_are_wrong(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def configs(*_: Any, **__: Any) -> dict[str, str]:
        return {"transaction.state.log.replication.factor": "3", "offsets.topic.replication.factor": "1"}

    monkeypatch.setattr("oncelog.client.admin.Admin.describe_configs", configs)
    result, detail = examined(daemon, exit_code=1)["internal topics"]
    assert result == "wrong" and "transaction.state.log.replication.factor=3" in detail


def test_a_disk_and_the_limits_of_the_machine_are_measured(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = examined(daemon, "--data-dir", str(tmp_path), exit_code=0)
    assert "fsync takes" in found["disk"][1] and "MiB free" in found["disk space"][1]
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(doctor_module, "_SLOW_SYNC_MS", 0.0)
    monkeypatch.setattr(doctor_module, "_FEW_OPEN_FILES", 10**9)
    monkeypatch.setattr(doctor_module, "_FULL_PERCENT", 0)
    found = examined(daemon, "--data-dir", str(tmp_path), exit_code=0)
    assert [found[check][0] for check in ("disk", "disk space", "open files")] == ["look"] * 3
    assert "oncelog.flush.policy=os" in found["disk"][1]
    found = examined(daemon, "--data-dir", str(tmp_path / "none"), exit_code=1)
    assert found["disk"] == ("wrong", f"{tmp_path / 'none'}: No such file or directory")
