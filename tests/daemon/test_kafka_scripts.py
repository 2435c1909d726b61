"""Kafka's scripts by their own names: what they do and print is what Kafka's own tools do and print."""

import asyncio
import io
import sys
from pathlib import Path

import pytest

from oncelog.client.admin.descriptions import ClusterDescription
from oncelog.tools.kafka_scripts import cluster
from oncelog.tools.kafka_scripts.__main__ import link, main
from oncelog.tools.kafka_scripts.table import SCRIPTS
from tests.support.kafka.scripts import CALLS, GOLDEN, Call, words_of, written
from tests.support.processes.daemon import Daemon


def _typed(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def _exit_code(words: list[str]) -> int:
    try:
        return main(words)
    except SystemExit as ended:
        return int(ended.code or 0)


def test_scripts_do_and_print_what_kafkas_own_tools_did_when_they_were_recorded(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def run(call: Call) -> tuple[int, str]:
        _typed(monkeypatch, call.feed)
        code = _exit_code(words_of(call, daemon.bootstrap))
        return code, capfd.readouterr().out

    assert written(run, daemon.bootstrap) == GOLDEN.read_text()


def test_every_script_that_asks_a_cluster_is_held_to_kafkas() -> None:
    called = {call.line.split()[0] for call in CALLS}
    assert called == {name for name, script in SCRIPTS.items() if not script.accepts_anything}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("kafka-topics --list", "--bootstrap-server must be specified"),
        ("kafka-topics --zookeeper x --list", "zookeeper is not a recognized option"),
        ("kafka-topics --bootstrap-server", "Option bootstrap-server requires an argument"),
        ("kafka-topics --bootstrap-server x:1 --list --under-replicated-partitions", "--under-replicated-partitions"),
        ("kafka-topics --bootstrap-server x:1 --list --create", "exactly one action"),
        ("kafka-configs --bootstrap-server x:1 --describe --entity-type users", "entities of type users"),
        ("kafka-console-consumer --bootstrap-server x:1 --topic t --property nonsense=1", "nonsense"),
        ("kafka-cluster --bootstrap-server x:1", "cluster-id, unregister, list-endpoints"),
        ("kafka-cluster info --bootstrap-server x:1", "cluster-id, unregister, list-endpoints"),
        ("kafka-cluster cluster-id", "--bootstrap-server must be specified"),
        ("kafka-storage info", "random-uuid and format"),
        ("cub zk-ready zookeeper:2181 10", "only kafka-ready"),
        ("cub kafka-ready -b localhost:9092 3 10", "3 brokers"),
        ("kafka-reassign-partitions", "not one of the scripts here"),
    ],
)
def test_what_is_not_offered_is_an_error_that_names_it(
    line: str, message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert _exit_code(line.split()) == 1
    assert message in capfd.readouterr().err


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("list-endpoints", 0, ["1 unfenced"]),
        ("list-endpoints --include-fenced-brokers", 0, ["1 unfenced", "2 fenced"]),
        ("unregister --id 2", 1, ["broker 2 is fenced"]),
        ("unregister --id 3", 1, ["Broker ID 3 is not currently registered"]),
    ],
)
def test_a_broker_that_has_ended_is_listed_as_fenced(
    line: str, code: int, said: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Such a broker is listed only with the flag; it is registered, so that no answer denies it."""

    class OfTwo:
        async def describe_cluster(self, *, include_fenced_brokers: bool) -> ClusterDescription:
            fenced = {2: ("the-other", 9093)} if include_fenced_brokers else {}
            return ClusterDescription("id", 1, {1: ("one", 9092)}, {}, {}, fenced)

    monkeypatch.setattr(cluster, "ask", lambda _, work: asyncio.run(work(OfTwo())))
    assert _exit_code(["kafka-cluster", *line.split(), "--bootstrap-server", "x:1"]) == code
    printed = capfd.readouterr()
    rows = [row.split() for row in printed.out.splitlines()[1:]]
    if code:
        assert said[0] in printed.err
    else:
        assert [f"{row[0]} {row[4]}" for row in rows] == said


def test_a_file_of_client_settings_is_heeded_where_it_speaks_of_security(
    daemon: Daemon, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "client.properties"
    line = ["kafka-topics", "--bootstrap-server", daemon.bootstrap, "--list", "--command-config", str(file)]
    file.write_text("request.timeout.ms=5000\nsecurity.protocol=PLAINTEXT\n")
    assert _exit_code(line) == 0
    file.write_text("security.protocol=SSL\n")
    assert _exit_code(line) == 1
    assert "speaks PLAINTEXT, and security_protocol is 'SSL'" in capfd.readouterr().err


def test_waiting_for_a_broker_ends_with_success_when_there_is_one_and_fails_when_not(daemon: Daemon) -> None:
    host, port = daemon.bootstrap.split(":")
    assert _exit_code(["cub", "kafka-ready", "-b", daemon.bootstrap, "1", "5"]) == 0
    assert _exit_code(["nc", "-z", "-v", "-w", "2", host, port]) == 0
    assert _exit_code(["cub", "kafka-ready", "-b", f"{host}:1", "1", "0"]) == 1
    assert _exit_code(["nc", "-z", host, "1"]) == 1


def test_links_have_the_names_of_each_image_and_leave_what_is_there(tmp_path: Path) -> None:
    theirs = tmp_path / "usr/bin/nc"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("")
    link(tmp_path, Path("/opt/oncelog/bin/oncelog-kafka-script"))
    for path in ("opt/kafka/bin/kafka-topics.sh", "opt/bitnami/kafka/bin/kafka-topics.sh", "usr/bin/kafka-topics"):
        assert (tmp_path / path).readlink() == Path("/opt/oncelog/bin/oncelog-kafka-script")
    assert not theirs.is_symlink()
