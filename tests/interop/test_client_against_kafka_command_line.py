"""The command line against our daemon and, where its jars are, against Apache Kafka: the same tests and answers."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from click.testing import CliRunner, Result

from oncelog.cli import main
from oncelog.client import TopicPartition
from oncelog.client.blocking.clients import Admin, Consumer, Producer
from tests.support.foreign.interop import SHARE_STATE_ON_ONE_NODE, unique
from tests.support.kafka.server import ON_BOTH, serving
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import LOOKS_AT_FILES


@dataclass(frozen=True)
class Operator:
    bootstrap: str

    def run(self, *arguments: str, exit_code: int = 0, given: bytes = b"") -> Result:
        result = CliRunner().invoke(main, [*arguments, "--bootstrap", self.bootstrap], input=given)
        assert result.exit_code == exit_code, (result.output, result.exception)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    def rows(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json").stdout)

    def lines(self, *arguments: str) -> list[str]:
        return self.run(*arguments).stdout.splitlines()

    def refused(self, *arguments: str) -> str:
        """Run a command that must fail; return its error, one sentence."""
        (line,) = self.run(*arguments, exit_code=2).stderr.splitlines()
        return str(line)

    def topic(self, partitions: int = 1) -> str:
        name = unique("topic")
        self.run("topic", "create", name, "--partitions", str(partitions))
        return name


@pytest.fixture(scope="module", params=ON_BOTH)
def operator(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    with serving(request.param, tmp_path_factory.mktemp(request.param), *SHARE_STATE_ON_ONE_NODE) as bootstrap:
        yield Operator(bootstrap)


# --- topics, settings, the cluster ------------------------------------------------------------------------------------


def test_topics_are_created_listed_described_extended_and_deleted(operator: Operator) -> None:
    name, other = unique("topic"), unique("topic")
    created = operator.rows("topic", "create", name, other, "-p", "2", "-c", "retention.ms=60000")
    assert created == [{"topic": each, "partitions": 2, "replicas": 1} for each in (name, other)]
    assert "TOPIC_ALREADY_EXISTS" in operator.refused("topic", "create", name)
    operator.run("topic", "create", name, "--if-not-exists")
    assert {"topic": name, "partitions": 2, "internal": False} in operator.rows("topic", "list")
    assert operator.lines("topic", "list")[0].split() == ["topic", "partitions", "internal"]
    described = operator.rows("topic", "describe", name)
    assert [(row["partition"], row["start_offset"], row["end_offset"]) for row in described] == [(0, 0, 0), (1, 0, 0)]
    assert all(row["replicas"] == row["in_sync"] == [row["leader"]] for row in described), "node ids, as numbers"
    assert "Nothing was changed" in operator.run("topic", "alter", name, "-p", "3", "--dry-run").stdout
    assert len(operator.rows("topic", "describe", name)) == 2
    operator.run("topic", "alter", name, "-p", "3")
    assert "INVALID_PARTITIONS" in operator.refused("topic", "alter", name, "-p", "3")
    missing = unique("no")
    assert "nothing was deleted" in operator.refused("topic", "delete", name, missing)
    assert "Nothing was changed" in operator.run("topic", "delete", name, "--dry-run").stdout
    assert len(operator.rows("topic", "describe", name)) == 3
    operator.run("topic", "delete", name, other)
    assert "UNKNOWN_TOPIC_OR_PARTITION" in operator.refused("topic", "describe", missing)


def test_settings_are_described_with_their_source_and_altered(operator: Operator) -> None:
    name = operator.topic()
    changes = ("--set", "retention.ms=60000", "--append", "cleanup.policy=compact")
    assert "Nothing was changed" in operator.run("config", "alter", "--topic", name, *changes, "--dry-run").stdout
    operator.run("config", "alter", "--topic", name, *changes)
    changed = {
        row["name"]: (row["value"], row["source"]) for row in operator.rows("config", "describe", "--topic", name)
    }
    assert changed["retention.ms"] == ("60000", "DYNAMIC_TOPIC_CONFIG")
    assert changed["cleanup.policy"] == ("delete,compact", "DYNAMIC_TOPIC_CONFIG")
    operator.run("config", "alter", "--topic", name, "--reset", "retention.ms", "--subtract", "cleanup.policy=compact")
    kept = {row["name"] for row in operator.rows("config", "describe", "--topic", name, "--changed")}
    assert "retention.ms" not in kept
    assert "INVALID_CONFIG" in operator.refused("config", "alter", "--topic", name, "--set", "retention.ms=soon")
    missing = unique("no")
    assert missing in operator.refused("config", "describe", "--topic", missing)


@LOOKS_AT_FILES
def test_the_cluster_is_described(operator: Operator) -> None:
    described = operator.rows("cluster", "describe")
    ((host, port),) = [(node["host"], node["port"]) for node in described["nodes"]]
    assert f"{host}:{port}" == operator.bootstrap
    assert "transaction.version" in [each["feature"] for each in described["features"]]
    (directory,) = operator.rows("cluster", "log-dirs")
    assert directory["total_bytes"] > directory["bytes"]


# --- records ----------------------------------------------------------------------------------------------------------


def test_records_of_arguments_and_of_standard_input_come_back(operator: Operator) -> None:
    name = operator.topic()
    operator.run("record", "produce", name, "one", "-k", "key", "-H", "a=1", "-H", "b=2")
    operator.run("record", "produce", name, "-K", ":", "-z", "lz4", given=b"k2:two\nk3:\xff:3\n\nlast")
    operator.run("record", "produce", name, "-k", "gone", "--tombstone")
    rows = [json.loads(line) for line in operator.lines("record", "consume", name, "-e", "--json")]
    assert [(row["offset"], row.get("key"), row.get("value")) for row in rows] == [
        (0, "key", "one"),
        (1, "k2", "two"),
        (2, "k3", None),
        (3, None, ""),
        (4, None, "last"),
        (5, "gone", None),
    ]
    assert rows[2]["value_base64"] == "/zoz" and "value" not in rows[2]
    assert rows[0]["headers"] == [{"name": "a", "value": "1"}, {"name": "b", "value": "2"}]
    shown = operator.run(
        "record", "consume", name, "-o", "start", "-n", "3", "-f", r"%t-%p@%o %k(%K)=%s(%S) %h%%\x21\n"
    )
    assert shown.stdout_bytes.splitlines() == [
        f"{name}-0@0 key(3)=one(3) a=1,b=2%!".encode(),
        f"{name}-0@1 k2(2)=two(3) %!".encode(),
        f"{name}-0@2 k3(2)=".encode() + b"\xff:3(3) %!",
    ]
    tombstone = operator.run("record", "consume", name, "-o", "-1", "-e", "-f", r"%s|%S\n").stdout
    assert tombstone == "|-1\n"


def test_reading_begins_at_an_offset_a_count_from_the_end_or_a_time(operator: Operator) -> None:
    name = operator.topic()
    with Producer(operator.bootstrap) as producer:
        for number in range(5):
            producer.send(name, b"%d" % number, timestamp_ms=1_000_000 + 1_000 * number)
    starts = {"start": "01234", "end": "", "2": "234", "-2": "34", "@1002500": "34", "@-1m": "", "@1970-01-02": ""}
    for start, values in starts.items():
        assert "".join(operator.lines("record", "consume", name, "-o", start, "-e")) == values, start
    assert "it starts at 0 and ends at 5" in operator.refused("record", "consume", name, "-o", "9", "-e")


def test_what_became_of_each_transaction_is_shown(operator: Operator) -> None:
    name = operator.topic()
    transaction = ("--transactional-id", unique("id"))
    operator.run("record", "produce", name, "plain")
    (row,) = operator.rows("record", "produce", name, "good", "better", *transaction)
    assert (row["records"], row["transaction"]) == (2, "committed")
    (row,) = operator.rows("record", "produce", name, "bad", *transaction, "--abort")
    assert row["transaction"] == "aborted"
    with Producer(operator.bootstrap, transactional_id=unique("id")) as producer, producer.transaction() as opened:
        opened.send(name, b"undecided")
        letters = operator.lines("record", "consume", name, "-o", "start", "-e", "--show-txn", "--show-control")
        shown = operator.lines("record", "consume", name, "-o", "start", "-e", "--show-txn", "--json")
        committed = ("record", "consume", name, "-o", "start", "-e", "--isolation", "read_committed")
        assert operator.lines(*committed) == ["plain", "good", "better"]
        assert operator.lines(*committed, "--show-txn") == ["-\tplain", "C\tgood", "C\tbetter"]
        everything = operator.lines("record", "consume", name, "-o", "start", "-e", "--isolation", "read_uncommitted")
        assert everything == ["plain", "good", "better", "bad", "undecided"]
    assert letters == ["-\tplain", "C\tgood", "C\tbetter", "M\tCOMMIT", "A\tbad", "M\tABORT", "O\tundecided"]
    assert [json.loads(line)["transaction"] for line in shown] == ["-", "C", "C", "A", "O"]


def started(command: list[str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_transactions_are_listed_by_state_producer_and_pattern(operator: Operator) -> None:
    name, transactional_id = operator.topic(), unique("id")
    operator.run("record", "produce", name, "x", "--transactional-id", transactional_id)
    producer = str(operator.rows("txn", "describe", transactional_id)["producer_id"])
    for filters in (
        ("--state", "CompleteCommit"),
        ("--producer-id", producer),
        ("--transactional-id-pattern", f"{transactional_id[:-1]}."),
    ):
        assert transactional_id in [row["transactional_id"] for row in operator.rows("txn", "list", *filters)]
    # It exists, and is in no such state.
    assert operator.rows("txn", "list", "--producer-id", producer, "--state", "Ongoing") == []
    assert "987654" in operator.refused("txn", "list", "--producer-id", producer, "--producer-id", "987654")


def test_a_transaction_is_left_open_for_others_to_see_and_aborted_by_an_interrupt(operator: Operator) -> None:
    name, transactional_id = operator.topic(), unique("id")
    arguments = ("record", "produce", name, "x", "--transactional-id", transactional_id, "--leave-open", "60s")
    command = [sys.executable, "-m", "oncelog", *arguments, "-b", operator.bootstrap]
    process = started(command)
    try:
        with Consumer(bootstrap_servers=operator.bootstrap, isolation_level="read_uncommitted") as consumer:
            consumer.assign([TopicPartition(name, 0)])
            consumer.seek(TopicPartition(name, 0), 0)
            assert consumer.poll(20_000)
        assert operator.rows("txn", "describe", transactional_id)["state"] == "Ongoing"
        assert operator.lines("record", "consume", name, "-o", "start", "-e", "--show-txn") == ["O\tx"]
        process.send_signal(signal.SIGINT)
        assert "open for 60 s" in process.communicate(timeout=PATIENCE_S)[1]
        assert process.returncode == 130
    finally:
        process.kill()
    assert operator.rows("txn", "describe", transactional_id)["state"] in ("PrepareAbort", "CompleteAbort")


@pytest.mark.parametrize("manner", [(), ("--show-txn",), ("--group", "interrupted")])
def test_a_reader_waits_for_what_comes_until_it_is_interrupted(operator: Operator, manner: tuple[str, ...]) -> None:
    name = operator.topic(2)
    operator.run("record", "produce", name, "0", "-p", "0")
    arguments = ("record", "consume", name, "-o", "start", "-f", r"%s\n", *manner)
    command = [sys.executable, "-m", "oncelog", *arguments, "-b", operator.bootstrap]
    process = started(command)
    try:
        assert process.stdout is not None
        for number in range(3):
            assert process.stdout.readline() == f"{number}\n"
            operator.run("record", "produce", name, str(number + 1), "-p", str(number % 2))
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=PATIENCE_S)[1] == ""
        assert process.returncode == 0
    finally:
        process.kill()
    if "--group" in manner:  # the member has left: its session needs not time out
        assert operator.rows("group", "describe", "interrupted")["state"] == "Empty"


def test_a_reader_whose_output_is_closed_ends_quietly(operator: Operator) -> None:
    name = operator.topic()
    operator.run("record", "produce", name, given=b"line\n" * 50_000)
    command = f"{sys.executable} -m oncelog record consume {name} -o start -e -b {operator.bootstrap} | head -1"
    answer = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=PATIENCE_S)
    assert (answer.stdout, answer.stderr) == ("line\n", "")


def test_records_are_deleted_before_a_position(operator: Operator) -> None:
    name = operator.topic()
    operator.run("record", "produce", name, "a", "b", "c")
    assert "Nothing was changed" in operator.run("record", "delete", name, "--before", "2", "--dry-run").stdout
    assert operator.lines("record", "consume", name, "-o", "start", "-e") == ["a", "b", "c"]
    operator.run("record", "delete", f"{name}:0", "--before", "2")
    assert operator.lines("record", "consume", name, "-o", "start", "-e") == ["c"]


# --- groups -----------------------------------------------------------------------------------------------------------


def test_a_group_is_listed_and_described_with_its_lag(operator: Operator) -> None:
    name, group = operator.topic(), unique("group")
    operator.run("record", "produce", name, "a", "b", "c")
    with Consumer(
        name, bootstrap_servers=operator.bootstrap, group_id=group, auto_offset_reset="earliest", client_id="reader"
    ) as consumer:
        assert len(consumer.poll(20_000)) == 3
        consumer.commit_sync({TopicPartition(name, 0): 1})
        assert group in [row["group"] for row in operator.rows("group", "list", "--state", "Stable")]
        assert group not in [row["group"] for row in operator.rows("group", "list", "--state", "Empty")]
        described = operator.rows("group", "describe", group)
        assert [member["partitions"] for member in described["members"]] == [[f"{name}-0"]]
        (lag,) = operator.rows("group", "lag", group)
        assert (lag["committed_offset"], lag["end_offset"], lag["lag"], lag["client_id"]) == (1, 3, 2, "reader")
        assert "has members: stop its consumers" in operator.refused("group", "reset", group, "--to", "start")
        assert "stop its consumers" in operator.refused("group", "delete", group)
    (committed,) = operator.rows("group", "offsets", group)
    assert committed["committed_offset"] == 1


def test_offsets_of_a_group_are_moved_and_deleted(operator: Operator) -> None:
    name, group = operator.topic(2), unique("group")
    with Producer(operator.bootstrap) as producer:
        for number in range(5):
            producer.send(name, b"x", partition=0, timestamp_ms=1_000_000 + 1_000 * number)
    assert "GROUP_ID_NOT_FOUND" in operator.refused("group", "reset", group, "--topic", name, "--to", "start")
    operator.run("group", "reset", group, "--topic", name, "--to", "end", "--create")
    planned = operator.rows("group", "reset", group, "--topic", f"{name}:0", "--to", "@1002500", "--dry-run")
    assert [(row["committed_offset"], row["new_offset"]) for row in planned] == [(5, 3)]
    assert [row["lag"] for row in operator.rows("group", "lag", group)] == [0, 0]
    for position, lags in (("@1002500", [2, 0]), ("start", [5, 0]), ("-1", [1, 0])):
        operator.run("group", "reset", group, "--to", position)
        assert [row["lag"] for row in operator.rows("group", "lag", group)] == lags, position
    operator.run("group", "delete", group, "--topic", f"{name}:1")
    assert [row["partition"] for row in operator.rows("group", "offsets", group)] == [0]
    operator.run("group", "delete", group)
    assert "GROUP_ID_NOT_FOUND" in operator.refused("group", "lag", group)


def test_a_member_of_a_group_continues_where_the_group_is_and_commits_what_it_printed(operator: Operator) -> None:
    name, group = operator.topic(2), unique("group")
    operator.run("record", "produce", name, *"abcdef", "-p", "0")
    operator.run("record", "produce", name, "never", "-p", "1", "--transactional-id", unique("id"), "--abort")
    reads = ("record", "consume", name, "--group", group, "--exit")
    assert operator.lines(*reads, "-n", "2") == ["a", "b"]
    assert operator.rows("group", "offsets", group)[0]["committed_offset"] == 2
    assert operator.lines(*reads) == ["c", "d", "e", "f"]
    assert [row["lag"] for row in operator.rows("group", "lag", group)] == [0, 0]  # markers and aborted records, too
    assert operator.lines(*reads) == []
    operator.run("record", "produce", name, "late", "-p", "1")
    (shown,) = operator.lines(*reads, "--json")
    assert json.loads(shown)["value"] == "late"
    other = ("record", "consume", name, "--group", unique("group"), "--exit")
    assert operator.lines(*other, "--offset", "end") == []
    assert operator.lines(*other, "--offset", "start") == []  # where the group is, which has committed its end


def test_a_member_of_a_group_whose_output_breaks_off_commits_nothing_of_it(operator: Operator) -> None:
    name, group = operator.topic(), unique("group")
    operator.run("record", "produce", name, given=b"line\n" * 50_000)
    reads = f"{sys.executable} -m oncelog record consume {name} --group {group} -e -b {operator.bootstrap}"
    answer = subprocess.run(["sh", "-c", f"{reads} | head -1"], capture_output=True, text=True, timeout=PATIENCE_S)
    assert (answer.stdout, answer.stderr) == ("line\n", "")
    committed = sum(row["committed_offset"] for row in operator.rows("group", "offsets", group))
    assert committed < 50_000  # a pipe holds 13,000 lines
    left = subprocess.run(reads.split(), capture_output=True, text=True, timeout=PATIENCE_S).stdout
    assert left.count("line") == 50_000 - committed


def test_a_group_may_have_settings_before_it_exists(operator: Operator) -> None:
    group = unique("group")
    operator.run("config", "alter", "--group", group, "--set", "consumer.session.timeout.ms=50000")
    (changed,) = operator.rows("config", "describe", "--group", group, "--changed")
    assert (changed["name"], changed["value"]) == ("consumer.session.timeout.ms", "50000")


# --- what does not exist ----------------------------------------------------------------------------------------------


def test_an_unknown_name_is_an_error_and_never_comes_to_exist(operator: Operator) -> None:
    missing = unique("no")
    for arguments in (
        ("topic", "describe", missing),
        ("topic", "alter", missing, "-p", "2"),
        ("config", "describe", "--topic", missing),
        ("record", "consume", missing, "-e"),
        ("record", "produce", missing, "value"),
        ("record", "delete", missing, "--before", "end"),
        ("txn", "producers", "--topic", missing, "--partition", "0"),
        ("txn", "find-hanging", "--topic", missing),
        ("group", "reset", "g", "--create", "--topic", missing, "--to", "start"),
    ):
        assert missing in operator.refused(*arguments), arguments
    for arguments in (
        ("group", "describe"),
        ("group", "lag"),
        ("group", "offsets"),
        ("group", "delete"),
        ("txn", "describe"),
    ):
        assert f"`oncelog {arguments[0]} list`" in operator.refused(*arguments, missing)
    for arguments in (("group", "list", "--state", "Stabel"), ("txn", "list", "--state", "Open")):
        assert "--state" in operator.run(*arguments, exit_code=2).stderr
    for arguments, wanted in (
        (("txn", "list", "--producer-id", "987654"), "--producer-id: no transactional id has producer id 987654"),
        (("txn", "list", "--transactional-id-pattern", missing), f"--transactional-id-pattern: '{missing}' matches no"),
        (("config", "describe", "--broker", "99"), "there is no broker with id 99; known ids: 1"),
        (("config", "describe", "--group", missing), f"group '{missing}' does not exist, and nothing is set for it"),
        (("config", "alter", "--topic", operator.topic(), "--reset", "retention.mss"), "did you mean 'retention.ms'"),
    ):
        assert wanted in operator.refused(*arguments)
        assert wanted in operator.refused(*arguments, "--json")
    with Admin(operator.bootstrap) as admin:
        assert missing not in admin.list_topics(include_internal=True)
        assert missing not in [each.group_id for each in admin.list_groups()]


def test_the_doctor_finds_nothing_wrong(operator: Operator) -> None:
    operator.topic()
    found = operator.rows("doctor")
    assert {row["result"] for row in found} == {"ok"}, found
