"""Every command is run with names that would steer a terminal or forge a line: all are shown, none is obeyed."""

import io
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from click.testing import CliRunner, Result

from oncelog.broker.storage.local.survey import LostRange, Survey
from oncelog.cli import main
from oncelog.client.admin.descriptions import (
    Acl,
    ClusterDescription,
    ConfigEntry,
    DelegationToken,
    GroupDescription,
    ListedGroup,
    LogDirDescription,
    MemberDescription,
    PartitionDescription,
    PartitionLag,
    ProducerState,
    TopicDescription,
)
from oncelog.client.admin.security import ClientQuota
from oncelog.client.admin.share_descriptions import (
    ShareGroupDescription,
    ShareMemberDescription,
    SharePartitionOffset,
)
from oncelog.client.admin.streams_descriptions import (
    StreamsGroupDescription,
    StreamsInternalTopic,
    StreamsMemberDescription,
    StreamsSubtopology,
    StreamsTask,
    StreamsTasks,
)
from oncelog.client.values.errors import KafkaError
from oncelog.client.values.records import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from oncelog.client.values.records import Record as ClientRecord
from oncelog.health import NotHealthy
from oncelog.pipeline.sink.marker import Marker
from oncelog.pipeline.sink.plan import sink_id_of
from oncelog.pipeline.source.planning import OffsetRange
from oncelog.pipeline.source.waiting import Waiting
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.record import Record
from oncelog.tools.demo import crash as demo_crash
from oncelog.tools.demo import isolation as demo_isolation
from oncelog.tools.log import check as log_check
from oncelog.tools.spark import report as spark_report
from oncelog.tools.spark import runs as spark_runs
from oncelog.tools.spark import state as spark_state
from oncelog.tools.spark.attempts import Attempt
from oncelog.tools.spark.ranges import Counts
from oncelog.tools.spark.report import Batch, Report
from oncelog.tools.txn import tail as txn_tail
from oncelog.tools.txn.tail import Transition
from tests.support.pages.command_tree import commands
from tests.support.requests.hostile import HOSTILE, SURROGATE, require_harmless
from tests.support.tables import rows

pytestmark = pytest.mark.sampled(5)

ALL = [*HOSTILE.values(), SURROGATE]
PLACE = ("--topic", "orders", "--partition", "0")
VERIFIED_LINES = 14
every_name = pytest.mark.parametrize("name", ALL, ids=[*HOSTILE, "lone surrogate"])


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(each) for each in arguments])


def require_shown(result: Result, lines: int | None = None) -> None:
    """Nothing but printable lines, as many as there should be, and no traceback."""
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    require_harmless(result.stdout)
    require_harmless(result.stderr)
    assert result.stdout or result.stderr
    if lines is not None:
        assert len(result.stdout.splitlines()) == lines


class ForeignCluster:
    """Stands for the client's Admin: a cluster that answers with one name wherever it can."""

    name = ""
    error: Exception | None = None

    def __init__(self, *_: Any, **__: Any) -> None: ...

    async def __aenter__(self) -> "ForeignCluster":
        if self.error is not None:
            raise self.error
        return self

    async def __aexit__(self, *_: Any) -> None: ...

    async def find_transactions(self, **_: Any) -> list[Any]:
        return [SimpleNamespace(transactional_id=self.name, coordinator_id=0, producer_id=1, state=self.name)]

    async def list_transactions(self, **_: Any) -> dict[str, str]:
        return {self.name: self.name}

    async def describe_transaction(self, transactional_id: str) -> Any:
        return SimpleNamespace(
            transactional_id=self.name,
            coordinator_id=0,
            producer_id=7,
            producer_epoch=0,
            state=self.name,
            timeout_ms=1,
            start_time_ms=2**62,
            partitions=[TopicPartition(self.name, 0), TopicPartition(self.name, 1)],
        )

    async def list_topics(self, **_: Any) -> list[str]:
        return [self.name]

    async def describe_topics(self, *_: str) -> list[Any]:
        partition = PartitionDescription(0, 0, (0,), (0,))
        return [TopicDescription(self.name, UUID(int=0), (partition,), False)]

    async def create_topics(self, *_: Any, **__: Any) -> None: ...

    async def create_delegation_token(self, **_: Any) -> DelegationToken:
        name = self.name
        return DelegationToken(name, "aG1hYw==", name, name, (name,), 1, 2, 3)

    async def describe_delegation_tokens(self, *_: str) -> list[DelegationToken]:
        return [await self.create_delegation_token()]

    async def renew_delegation_token(self, *_: Any, **__: Any) -> int:
        return 2

    expire_delegation_token = renew_delegation_token

    async def describe_client_quotas(self, *_: Any, **__: Any) -> list[ClientQuota]:
        return [ClientQuota({"user": self.name, "client-id": None}, {self.name: 1.5})]

    async def describe_user_scram_credentials(self, *_: str) -> dict[str, dict[str, int]]:
        return {self.name: {"SCRAM-SHA-512": 4_096}}

    async def alter_client_quotas(self, *_: Any, **__: Any) -> None: ...

    delete_topics = create_partitions = alter_configs = update_features = create_acls = create_topics
    delete_groups = delete_group_offsets = alter_group_offsets = create_topics

    async def list_offsets(self, places: Any, *_: Any, **__: Any) -> Any:
        return {place: OffsetAndTimestamp(0, 2**62) for place in places}

    async def delete_records(self, offsets: Any) -> Any:
        return offsets

    async def describe_config_entries(self, **_: Any) -> list[Any]:
        return [ConfigEntry(self.name, self.name, self.name, False, False)]

    async def describe_configs(self, **_: Any) -> dict[str, str]:
        return {self.name: self.name}

    async def describe_cluster(self, **_: Any) -> Any:
        return ClusterDescription(self.name, 0, {0: (self.name, 1)}, {self.name: 1}, {self.name: (0, 1)})

    async def describe_log_dirs(self) -> list[Any]:
        return [LogDirDescription(0, self.name, {TopicPartition(self.name, 0): 1}, 1, 1)]

    async def list_groups(self, **_: Any) -> list[Any]:
        return [ListedGroup(self.name, 0, self.name, self.name, self.name)]

    async def describe_groups(self, group_id: str, *_: str) -> list[Any]:
        if group_id in ("share", "streams"):
            raise KafkaError(self.name, code=ErrorCode.GROUP_ID_NOT_FOUND)
        members = () if group_id == "idle" else (self.member(),)
        return [GroupDescription(self.name, self.name, self.name, self.name, self.name, 0, 0, members)]

    async def describe_share_groups(self, group_id: str) -> list[Any]:
        if group_id == "streams":
            raise KafkaError(self.name, code=ErrorCode.GROUP_ID_NOT_FOUND)
        name, place = self.name, TopicPartition(self.name, 0)
        member = ShareMemberDescription(name, name, name, name, 1, (name,), (place,))
        return [ShareGroupDescription(name, name, name, 1, 1, 0, (member,))]

    async def list_share_group_offsets(self, _: str) -> Any:
        return {TopicPartition(self.name, 0): SharePartitionOffset(1, 0, 2)}

    async def describe_streams_groups(self, _: str) -> list[Any]:
        name, topic = self.name, StreamsInternalTopic(self.name, 1, 1, {self.name: self.name})
        subtopology = StreamsSubtopology(name, (name,), (name,), (topic,), (topic,))
        tasks = StreamsTasks((StreamsTask(name, 0),), (StreamsTask(name, 1),), (StreamsTask(name, 2),))
        member = StreamsMemberDescription(
            name, name, name, name, name, name, 1, 1, (name, 1), {name: name}, tasks, tasks, False
        )
        return [StreamsGroupDescription(name, name, 1, 1, 1, 0, (subtopology,), (member,))]

    def member(self) -> MemberDescription:
        return MemberDescription(self.name, self.name, self.name, self.name, (TopicPartition(self.name, 0),))

    async def list_group_offsets(self, *_: Any, **__: Any) -> Any:
        return {TopicPartition(self.name, 0): OffsetAndMetadata(0, self.name)}

    async def list_group_lag(self, _: str) -> list[Any]:
        return [PartitionLag(TopicPartition(self.name, 0), 0, 0, 0, 0, self.member())]

    async def describe_acls(self, *_: Any) -> list[Any]:
        return [Acl(self.name, self.name, self.name, self.name, self.name, self.name, self.name)]

    delete_acls = describe_acls

    async def describe_producers(self, _: TopicPartition) -> list[Any]:
        return [ProducerState(1, 0, 0, 0, 0, 5)]

    async def abort_on_partition(self, *_: Any) -> None: ...

    async def fence_producer(self, _: str) -> tuple[int, int]:
        return 1, 2


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, name: str) -> type[ForeignCluster]:
    class Cluster(ForeignCluster): ...

    Cluster.name = name
    monkeypatch.setattr("oncelog.client.admin.client.Admin", Cluster)
    return Cluster


@pytest.fixture(autouse=True)
def a_broker_that_responds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oncelog.health.check_health", lambda *_: 1)


# --- what asks a cluster ----------------------------------------------------------------------------------------------

ASKING: dict[str, tuple[tuple[str, ...], int]] = {
    "acl list": ((), 2),
    "acl remove": (("--topic", "t"), 2),
    "cluster describe": ((), 10),
    "cluster log-dirs": (("--partitions",), 2),
    "config describe": (("--topic", "t"), 2),
    "doctor": ((), 8),
    "group describe": (("g",), 11),
    "group lag": (("g",), 2),
    "group list": ((), 2),
    "group offsets": (("g",), 2),
    "group reset": (("idle", "--to", "start", "--dry-run"), 4),
    "quota list": ((), 2),
    "quota remove": (("--user", "u"), 2),
    "token create": ((), 10),
    "token list": (("--show-hmac",), 2),
    "topic create": (("t",), 2),
    "topic describe": (("t",), 2),
    "topic list": ((), 2),
    "txn list": ((), 2),
    "txn describe": (("id",), 10),
    "txn producers": (PLACE, 2),
    "txn find-hanging": ((), 4),
    "user list": ((), 2),
}
"""Arguments, and how many lines there are."""


@every_name
@rows("command", ASKING)
def test_what_a_cluster_answers_stays_in_its_row(command: str, name: str, cluster: type[ForeignCluster]) -> None:
    arguments, lines = ASKING[command]
    require_shown(run(*command.split(), *arguments), lines)
    shown = run(*command.split(), *arguments, "--json")
    require_shown(shown)
    assert command in ("txn producers", "doctor") or name in strings(json.loads(shown.stdout))


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from strings(each)


@every_name
@pytest.mark.parametrize(
    ("command", "lines"),
    [("describe share", 15), ("lag share", 2), ("offsets share", 2), ("describe streams", 15)],
)
def test_what_a_cluster_answers_about_share_and_streams_groups_stays_in_its_row(
    command: str, lines: int, name: str, cluster: type[ForeignCluster]
) -> None:
    require_shown(run("group", *command.split()), lines)
    shown = run("group", *command.split(), "--json")
    require_shown(shown)
    assert name in strings(json.loads(shown.stdout))


@every_name
def test_what_an_operator_pastes_is_shown_as_well(name: str, cluster: type[ForeignCluster]) -> None:
    require_shown(run("txn", "fence", "--", name), 2)
    require_shown(run("txn", "abort", "--topic", name, "--partition", "0", "--start-offset", "5"), 4)
    require_shown(run("txn", "abort", "--topic", name, "--partition", "0", "--start-offset", "6"))
    require_shown(run("acl", "add", "--topic", name, "-p", name, "-o", "read", "--host", name), 2)
    require_shown(run("topic", "delete", "--", name), 2)
    require_shown(run("topic", "delete", "--", f"{name}s"), 0)
    require_shown(run("topic", "alter", "--partitions", "2", "--", name), 2)
    require_shown(run("group", "delete", "--", name), 2)
    require_shown(run("quota", "set", "--user", name, f"a{name.replace('=', '')}=1"), 2)
    require_shown(run("token", "renew", "--", name), 2)
    require_shown(run("token", "expire", "--", name), 2)
    require_shown(run("config", "alter", "--topic", name, "--set", f"a{name}={name}"), 2)
    require_shown(run("cluster", "alter", "--feature", f"a{name.replace('=', '')}=1"), 2)
    require_shown(run("record", "delete", "--before", "start", "--", name.replace(":", "")), 2)


@every_name
@rows("command", [*ASKING, "record consume", "record produce", "txn abort", "txn fence"])
def test_what_a_cluster_says_is_wrong_stays_in_its_line(command: str, name: str, cluster: type[ForeignCluster]) -> None:
    cluster.error = KafkaError(name, code=ErrorCode.UNKNOWN_SERVER_ERROR, hint=name)
    arguments = {
        "txn abort": (*PLACE, "--start-offset", "5"),
        "txn fence": ("id",),
        "record consume": ("t",),
        "record produce": ("t", "value"),
    }.get(command)
    result = run(*command.split(), *(ASKING[command][0] if arguments is None else arguments))
    require_shown(result)
    assert result.exit_code == 2 and len(result.stderr.splitlines()) == 1


@every_name
def test_each_transition_is_one_line_of_the_tail(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    async def told(*_: Any, **settings: Callable[[], None]) -> AsyncIterator[Transition]:
        settings["on_ready"]()
        for time_ms in (0, 1_700_000_000_000, 2**62, -(2**62)):
            yield Transition(time_ms, name, 1, 0, name, name, (f"{name}-0",) * 5, 2**62)

    monkeypatch.setattr(txn_tail, "transitions", told)
    require_shown(run("txn", "tail", "--count", "4"), 4)
    shown = run("txn", "tail", "--count", "4", "--json")
    require_shown(shown, 4)
    assert json.loads(shown.stdout.splitlines()[0])["transactional_id"] == name


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


class Consumer:
    """Stands for the client's: one record with the name wherever it can be, then the end."""

    name = ""
    offset = 0

    def __init__(self, **_: Any) -> None: ...

    async def __aenter__(self) -> "Consumer":
        return self

    async def __aexit__(self, *_: Any) -> None: ...

    def assign(self, _: Any) -> None: ...

    def seek(self, *_: Any) -> None: ...

    async def poll(self, _: float) -> list[ClientRecord]:
        text = self.name.encode(errors="surrogatepass")
        self.offset += 1
        return [
            ClientRecord(
                self.name, 0, self.offset - 1, 0, text, text, [(self.name.encode(errors="replace").decode(), text)]
            )
        ]


@every_name
def test_a_record_is_harmless_on_a_terminal_and_itself_in_a_pipe(
    monkeypatch: pytest.MonkeyPatch, cluster: type[ForeignCluster], name: str
) -> None:
    class OneRecord(Consumer): ...

    OneRecord.name = name
    monkeypatch.setattr("oncelog.client.consuming.consumer.Consumer", OneRecord)
    asked = ["record", "consume", "t", "--count", "2", "--format", r"%k|%s|%h|%t\n"]
    text = name.encode(errors="surrogatepass")
    assert run(*asked).stdout_bytes.startswith(text + b"|" + text)
    shown = run("record", "consume", "t", "--count", "2", "--json")
    require_shown(shown, 2)
    assert json.loads(shown.stdout.splitlines()[0])["topic"] == name
    terminal = Terminal(io.BytesIO())
    monkeypatch.setattr(sys, "stdout", terminal)
    main.main(asked, standalone_mode=False)
    printed = terminal.buffer.getvalue().decode()  # type: ignore[attr-defined]
    require_harmless(printed)
    assert len(printed.splitlines()) == 2


@every_name
@pytest.mark.parametrize("words", ["topic describe ", "group lag ", "txn describe "])
def test_a_shell_is_offered_no_name_that_it_might_obey(words: str, name: str, cluster: type[ForeignCluster]) -> None:
    environment = {"_ONCELOG_COMPLETE": "bash_complete", "COMP_WORDS": f"oncelog {words}", "COMP_CWORD": "3"}

    def offered(each: str) -> str:
        cluster.name = each
        return CliRunner().invoke(main, prog_name="oncelog", env=environment).stdout.strip()

    assert offered("plain-name") == "plain,plain-name"
    assert offered(name) == ("plain,:skull:" if name == ":skull:" else "")
    for each in (
        f"$({name})",
        "$(reboot)",
        "a b",
        "`a`",
        "a;b",
        "a'b",
        "a|b",
        "~",
        "a&",
        "<a",
        "*",
        "!1",
        "a\\",
        "#a",
        "{a,b}",
    ):
        assert offered(each) == "", each


# --- oncelog log ------------------------------------------------------------------------------------------------------


@every_name
def test_what_lies_in_a_data_directory_stays_in_its_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    (tmp_path / ".lock").touch()
    survey = Survey(name, lost=[LostRange(0, 1, name, 0, name)], open_transactions={1: 0})
    finding = log_check.Finding(name, 0, 1, 0, 1, 100, (name,), f"{name}-0 is offline: {name}", survey)

    def examined(disk: Any, on_partition: Any, *, opens_batches: bool) -> log_check.Examination:
        return log_check.Examination([finding], [name])

    monkeypatch.setattr(log_check, "examine", examined)
    monkeypatch.setattr(log_check, "repair", lambda disk, damaged: [name])
    require_shown(run("log", "verify", tmp_path), VERIFIED_LINES)
    require_shown(run("log", "repair", "--yes", tmp_path))
    for arguments in (("verify",), ("repair", "--yes")):
        require_shown(run("log", *arguments, tmp_path, "--json"))


def write_partition(directory: Path, name: str) -> Path:
    directory.mkdir()
    text = name.encode(errors="surrogatepass")
    records = [Record(0, 1, text, text, ((name.encode(errors="replace").decode(), text),))]
    (directory / f"{0:020}.log").write_bytes(encode_batch(records))
    return directory


@every_name
def test_the_map_of_a_directory_with_such_a_name_is_drawn(tmp_path: Path, name: str) -> None:
    directory_name = name.replace("/", "").replace("\0", "").encode(errors="replace").decode()
    directory = write_partition(tmp_path / f"{directory_name}-0", name)
    require_shown(run("log", "map", directory))
    require_shown(run("log", "map", directory, "--json"))
    require_shown(run("log", "map", tmp_path / f"no-{directory_name}"))


@every_name
def test_a_dump_is_harmless_on_a_terminal_and_in_a_pipe(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    directory = write_partition(tmp_path / "orders-0", name)
    require_shown(run("log", "dump", "--print-data-log", directory))
    require_shown(run("log", "dump", "--print-data-log", "--json", directory))
    require_harmless(run("log", "dump", tmp_path / name.replace("\0", "")).stderr)
    terminal = Terminal(io.BytesIO())
    monkeypatch.setattr(sys, "stdout", terminal)
    main.main(["log", "dump", "--print-data-log", str(directory)], standalone_mode=False)
    shown = terminal.buffer.getvalue().decode()  # type: ignore[attr-defined]
    require_harmless(shown, allows_colours=True)
    assert shown.count("1970-01-01T") == 1


# --- the others -------------------------------------------------------------------------------------------------------


@every_name
def test_what_is_no_broker_may_say_what_it_likes(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def refused(*_: Any) -> int:
        raise NotHealthy(name)

    monkeypatch.setattr("oncelog.health.check_health", refused)
    require_shown(run("health"))


@every_name
def test_a_daemon_shows_what_is_wrong_with_its_settings(name: str) -> None:
    require_shown(run("serve", "--override", name))
    require_shown(run("serve", "--override", f"num.partitions={name}"))


@every_name
def test_the_isolation_demo_draws_what_a_foreign_broker_gave_it(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    batch = demo_isolation.BatchView(0, 0, 1, 0, True, False, "committed", [name])
    reading = demo_isolation.Reading("read_committed", {0: name}, 0, 1)

    async def experiment(_: str) -> list[demo_isolation.Scene]:
        return [demo_isolation.Scene("title", 0, 1, 1, [batch], [reading])]

    monkeypatch.setattr(demo_isolation, "run_experiment", experiment)
    shown = run("demo", "isolation", "--bootstrap", "127.0.0.1:1")
    require_shown(shown)
    if name.isprintable():
        assert name in shown.stdout
    require_shown(run("demo", "isolation", "--bootstrap", "127.0.0.1:1", "--json"))

    async def failed(_: str) -> list[demo_isolation.Scene]:
        raise KafkaError(name)

    monkeypatch.setattr(demo_isolation, "run_experiment", failed)
    require_shown(run("demo", "isolation", "--bootstrap", "127.0.0.1:1"))


@every_name
def test_the_crash_demo_draws_whatever_is_in_its_files(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    step = demo_crash.Step("title", name, [name], [name], {name: [name]}, [name])

    def experiment(_: Any, on_step: Callable[[demo_crash.Step], None]) -> Iterator[demo_crash.Scene]:
        on_step(step)
        yield demo_crash.Scene("title", "expected", [step], True)

    monkeypatch.setattr(demo_crash, "run_experiment", experiment)
    require_shown(run("demo", "crash"))
    require_shown(run("demo", "crash", "--json"))

    def failed(*_: Any) -> Iterator[demo_crash.Scene]:
        raise KafkaError(name)

    monkeypatch.setattr(demo_crash, "run_experiment", failed)
    require_shown(run("demo", "crash"))


def waiting_of(name: str) -> Waiting:
    return Waiting(name, 0, 1, 2, 3, name, 4, 5, name, 6, name, name)


@every_name
def test_spark_state_and_repair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (tmp_path / "metadata").write_text(json.dumps({"id": name}))
    marker = Marker(3, f"another {name}", name, name, {name: 1})

    async def nothing(*_: Any) -> None: ...

    async def markers(*_: Any) -> dict[str, Marker]:
        return {sink_id_of(name): marker}

    async def waiting_behind(*_: Any) -> tuple[Waiting, ...]:
        return (waiting_of(name),)

    monkeypatch.setattr(spark_state, "ensure_topic", nothing)
    monkeypatch.setattr(spark_state, "write_marker", nothing)
    monkeypatch.setattr(spark_state, "read_markers", markers)
    monkeypatch.setattr(spark_state, "waiting_behind", waiting_behind)
    for command, *more in (("state",), ("state", "--json"), ("repair", "--forget", "--yes")):
        require_shown(run("spark", command, tmp_path, *more))


@every_name
def test_spark_forget(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    async def nothing(*_: Any) -> None: ...

    async def runs_of(*_: Any) -> list[spark_runs.Run]:
        return [spark_runs.Run(name, name, name, 0, {name: 1})]

    monkeypatch.setattr(spark_runs, "runs_of", runs_of)
    monkeypatch.setattr(spark_runs, "forget", nothing)
    for more in ((), ("--json",), ("--older-than", "1", "--yes")):
        require_shown(run("spark", "forget", *more))
    require_shown(run("spark", "forget", "--run-id", f"another {name}"))


@every_name
def test_spark_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Names are harmless also on the page, where they could be markup."""
    attempt = Attempt(1, 2, "committed", 3, 4, {name: 5}, Marker(0, name, outputs={name: 5}))
    batch = Batch(0, 1, attempt, 2, [OffsetRange(name, name, 0, 0, 5)], Counts(), [attempt], [attempt])
    batch.seconds = {name: 1.0}
    state = spark_state.State(name, name, 0, 0, None, name, False, (waiting_of(name),))

    async def report_of(*_: object) -> Report:
        return Report(name, name, 1, state, [batch], name)

    monkeypatch.setattr(spark_report, "report_of", report_of)
    page = tmp_path / "page.html"
    require_shown(run("spark", "report", tmp_path, "-o", page), lines=1)
    require_shown(run("spark", "report", tmp_path, "--json"))
    text = page.read_text(encoding="utf-8")
    require_harmless(text)
    assert "<b>" not in text


def test_no_command_is_left_out() -> None:
    driven = {
        *ASKING,
        *(f"txn {name}" for name in ("abort", "fence", "tail")),
        *("acl add", "cluster alter", "config alter", "group delete", "topic alter", "topic delete"),
        *(f"record {name}" for name in ("consume", "delete", "produce")),
        "completion",
        *(f"log {name}" for name in ("verify", "repair", "map", "dump")),
        *("log export", "log import"),  # in test_log_tables.py
        *("cluster status", "cluster step-down"),  # in test_nodes.py
        *("backup", "restore", "service install"),  # they name what was typed: in test_backup.py and test_service.py
        *(f"spark {name}" for name in ("state", "repair", "forget", "report")),
        *("quota set", "token renew", "token expire"),
        *("user add", "user remove"),  # test_user.py
        "health",
        "serve",
        "demo isolation",
        "demo crash",
        *("demo delivery", "demo outbox"),  # print numbers and sentences of their own
        "witness",  # in test_witness_cli.py
        "console",  # in a browser: tests/console
        "adopt",  # in test_adopt.py
        "graduate",  # in test_graduate.py
        "copy",  # in test_copy_cli.py
        *(f"outbox {name}" for name in ("install", "remove", "run", "status")),  # in tests/outbox/test_command.py
    }
    assert set(commands()) == driven
