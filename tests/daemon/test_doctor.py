"""`oncelog doctor` names what is wrong and what to do about it."""

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from click.testing import CliRunner

from oncelog.cli import main
from oncelog.client.admin.descriptions import PartitionDescription, TopicDescription
from oncelog.client.blocking.clients import Admin, Producer
from oncelog.protocol.transaction_states import NO_TIMEOUT_MS
from oncelog.tools import doctor as doctor_module
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import Daemon
from tests.support.transactions.hanging import hang


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
    assert examined(daemon, exit_code=0)["transactions"] == ("ok", "none hangs, and none is open for long")
    hang(daemon, "payments")
    result, detail = examined(daemon, exit_code=1)["transactions"]
    assert result == "wrong" and "`oncelog txn find-hanging`" in detail


def test_a_transaction_that_is_open_for_long_is_reported_with_the_command_that_ends_it(
    start_daemon: Callable[..., Daemon], monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = start_daemon()
    begun_ns = time.time_ns()
    with (
        Producer(daemon.bootstrap, transactional_id="a mover", transaction_timeout_ms=100_000) as producer,
        producer.transaction() as transaction,
    ):
        transaction.send("moved", b"x")
        for later_s, result, said in (
            (30, "ok", "none is open for long"),
            (90, "look", "its timeout is 100 s)"),
            (200, "wrong", "its timeout is 100 s, which has passed)"),
        ):
            now_ns = begun_ns + later_s * 1_000_000_000
            monkeypatch.setattr(doctor_module.time, "time_ns", lambda now_ns=now_ns: now_ns)
            found = examined(daemon, exit_code=1 if result == "wrong" else 0)["transactions"]
            assert found[0] == result and said in found[1]
            assert ("moved-0" in found[1] and "`oncelog txn fence 'a mover'` ends it" in found[1]) == (result != "ok")


def test_of_a_two_phase_commit_no_timeout_is_shown() -> None:
    row = {"transactional_id": "till", "duration_ms": 90_000, "timeout_ms": NO_TIMEOUT_MS, "partitions": ["orders-0"]}
    found = doctor_module._long_open(row)
    assert found.result == "look" and "has no timeout: its owner ends it" in found.detail


def test_records_of_the_future_are_worth_a_look(daemon: Daemon) -> None:
    in_an_hour_ms = time.time_ns() // 1_000_000 + 3_600_000
    with Admin(daemon.bootstrap) as admin, Producer(daemon.bootstrap) as producer:
        admin.create_topics("early")
        producer.send("early", b"x", timestamp_ms=in_an_hour_ms)
    result, detail = examined(daemon, exit_code=0)["clocks"]
    assert result == "look" and "early-0" in detail and "clock is ahead" in detail


@pytest.mark.parametrize(
    "setting, result",
    [("transaction.state.log.replication.factor", "wrong"), ("share.coordinator.state.topic.min.isr", "look")],
)
def test_internal_topics_that_no_cluster_of_this_size_can_create_are_named(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch, setting: str, result: str
) -> None:
    """They are wrong where any client would wait for them, and not where share groups alone would."""

    async def configs(*_: Any, **__: Any) -> dict[str, str]:
        return {"offsets.topic.replication.factor": "1", setting: "3"}

    monkeypatch.setattr("oncelog.client.admin.client.Admin.describe_configs", configs)
    found = examined(daemon, exit_code=1 if result == "wrong" else 0)["internal topics"]
    assert found[0] == result and f"{setting}=3" in found[1]


@pytest.mark.parametrize(
    "leader, in_sync, result, said",
    [(-1, (), "wrong", "without a leader: lost-0; start the brokers"), (1, (1,), "look", "a replica is not in sync")],
)
def test_partitions_without_a_leader_or_a_replica_are_named(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch, leader: int, in_sync: tuple[int, ...], result: str, said: str
) -> None:
    async def described(*_: Any, **__: Any) -> list[TopicDescription]:
        partition = PartitionDescription(0, leader, (1, 2), in_sync)
        return [TopicDescription("lost", UUID(int=0), (partition,), False)]

    async def nothing(*_: Any) -> list[doctor_module.Finding]:
        return []

    monkeypatch.setattr("oncelog.client.admin.client.Admin.describe_topics", described)
    for check in ("_transactions", "_clocks"):  # which ask the leaders
        monkeypatch.setattr(doctor_module, check, nothing)
    found = examined(daemon, exit_code=1 if result == "wrong" else 0)
    assert found["leaders"][0] == result and said in found["leaders"][1]


def test_an_address_of_something_else_is_wrong(daemon: Daemon) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        threading.Thread(
            target=lambda: other.accept()[0].sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"), daemon=True
        ).start()
        there = f"127.0.0.1:{other.getsockname()[1]}"
        found = examined(daemon, "-b", f"{there},{daemon.bootstrap}", exit_code=1)
    assert found[there][0] == "wrong" and "does not speak the Kafka protocol" in found[there][1]
    assert found[daemon.bootstrap][0] == "ok"


def test_a_disk_and_the_limits_of_the_machine_are_measured(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = examined(daemon, "--data-dir", str(tmp_path), exit_code=0)
    assert "fsync takes" in found["disk"][1] and "iB free" in found["disk space"][1]
    assert list(tmp_path.iterdir()) == []
    found = examined(daemon, "--data-dir", str(tmp_path / "none"), exit_code=1)
    assert found["disk"] == ("wrong", f"{tmp_path / 'none'}: No such file or directory")


def test_a_slow_disk_that_is_nearly_full_is_worth_a_look(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = [0.0]

    def slow_sync(_: int) -> None:
        now_s[0] += 0.025

    monkeypatch.setattr(doctor_module.time, "perf_counter", lambda: now_s[0])
    monkeypatch.setattr("os.fsync", slow_sync)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(total=100 << 20, used=96 << 20, free=4 << 20))
    found = examined(daemon, "--data-dir", str(tmp_path), exit_code=0)
    assert found["disk"][0] == "look" and "fsync takes 25.00 ms" in found["disk"][1]
    assert "oncelog.flush.policy=os" in found["disk"][1]
    assert found["disk space"] == ("look", "96 % used, 4.0 MiB free")


@pytest.mark.parametrize("limit, result", [(1024, "look"), (1025, "ok")])
def test_few_open_files_are_worth_a_look(daemon: Daemon, tmp_path: Path, limit: int, result: str) -> None:
    examine = f"{sys.executable} -m oncelog doctor --json -b {daemon.bootstrap} --data-dir {tmp_path}"
    done = subprocess.run(
        ["sh", "-c", f"ulimit -Sn {limit}; {examine}"], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    (found,) = (row for row in json.loads(done.stdout) if row["check"] == "open files")
    assert found["result"] == result and str(limit) in found["detail"]
    assert ("`ulimit -n" in found["detail"]) == (result == "look")
