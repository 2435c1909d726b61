"""`oncelog group` on groups of every type: which requests it makes of a cluster that keeps them in memory."""

import json
import socket
from typing import Any
from uuid import UUID

import pytest
from click.testing import CliRunner, Result

from oncelog.cli import main
from oncelog.client import (
    GroupDescription,
    KafkaError,
    ListedGroup,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    ShareGroupDescription,
    ShareMemberDescription,
    SharePartitionOffset,
    StreamsGroupDescription,
    StreamsInternalTopic,
    StreamsSubtopology,
    TopicDescription,
    TopicPartition,
)
from oncelog.client.admin.descriptions import PartitionDescription
from oncelog.protocol.errors import ErrorCode
from oncelog.share_groups import FailedRecord, SharePartition
from oncelog.tools.kafka_scripts.__main__ import main as kafka_script

INPUT, OWN = TopicPartition("lines", 0), TopicPartition("app-words-repartition", 0)
CHANGELOG = StreamsInternalTopic("app-counts-changelog", 1, 1, {})
TOPOLOGY = (
    StreamsSubtopology("0", (INPUT.topic,), (OWN.topic,), (), ()),
    StreamsSubtopology("1", (), (), (StreamsInternalTopic(OWN.topic, 1, 1, {}),), (CHANGELOG,)),
)
STREAMS = StreamsGroupDescription("app", "Empty", 1, 1, 1, 0, TOPOLOGY, ())
SHARE = ShareGroupDescription("workers", "Empty", "simple", 1, 1, 0, ())
PLAIN = GroupDescription("plain", "classic", "Empty", "", "", -1, 0, ())
MEMBER = ShareMemberDescription("member", None, "client", "/127.0.0.1", 2, (INPUT.topic,), (INPUT,))
BUSY = ShareGroupDescription("busy", "Stable", "simple", 2, 2, 0, (MEMBER,))
END = 5


class Cluster:
    """Stands for the client's Admin; every topic has one partition with END records."""

    without: frozenset[str] = frozenset()
    """Types of groups that the cluster does not have."""
    changes: list[Any]

    def __init__(self, *_: Any, **__: Any) -> None: ...

    async def __aenter__(self) -> "Cluster":
        return self

    async def __aexit__(self, *_: Any) -> None: ...

    def _found(self, kind: str, group_id: str, *groups: Any) -> list[Any]:
        if kind in self.without:
            raise KafkaError(kind, code=ErrorCode.UNSUPPORTED_VERSION)
        for each in groups:
            if each.group_id == group_id:
                return [each]
        raise KafkaError(f"{kind} {group_id!r} does not exist", code=ErrorCode.GROUP_ID_NOT_FOUND)

    async def list_groups(self) -> list[Any]:
        types = {"plain": ("", "classic"), "sink": ("connect", "classic"), "workers": ("share", "share")}
        listed = {"old": ("consumer", ""), "new": ("consumer", "consumer"), "app": ("streams", "streams"), **types}
        return [ListedGroup(name, 0, protocol, "Empty", kind) for name, (protocol, kind) in listed.items()]

    async def describe_groups(self, group_id: str) -> list[Any]:
        return self._found("group", group_id, PLAIN)

    async def describe_share_groups(self, group_id: str) -> list[Any]:
        return self._found("share group", group_id, SHARE, BUSY)

    async def describe_streams_groups(self, group_id: str) -> list[Any]:
        return self._found("streams group", group_id, STREAMS)

    async def describe_topics(self, name: str) -> list[Any]:
        return [TopicDescription(name, UUID(int=1), (PartitionDescription(0, 0, (0,), (0,)),), False)]

    async def list_offsets(self, places: Any, at: Any = "latest", **_: Any) -> Any:
        return {place: OffsetAndTimestamp(0 if at == "earliest" else END, -1) for place in places}

    async def list_group_offsets(self, group_id: str, **_: Any) -> Any:
        places = {"app": (INPUT, OWN), "plain": (INPUT,)}[group_id]
        return {place: OffsetAndMetadata(3) for place in places}

    async def list_share_group_offsets(self, _: str) -> Any:
        return {INPUT: SharePartitionOffset(2, 0, 3)}

    async def alter_group_offsets(self, group_id: str, offsets: Any) -> None:
        self.changes.append(("committed", group_id, offsets))

    async def alter_share_group_offsets(self, group_id: str, offsets: Any) -> None:
        self.changes.append(("start", group_id, offsets))

    async def delete_group_offsets(self, group_id: str, places: Any) -> None:
        self.changes.append(("delete", group_id, places))

    async def delete_share_group_offsets(self, group_id: str, topics: Any) -> None:
        self.changes.append(("delete topics", group_id, topics))

    async def delete_groups(self, group_id: str) -> None:
        self.changes.append(("delete group", group_id))


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> type[Cluster]:
    class Fresh(Cluster):
        changes = []

    monkeypatch.setattr("oncelog.client.admin.client.Admin", Fresh)
    monkeypatch.setattr("oncelog.health.check_health", lambda *_: 1)
    return Fresh


def group(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["group", *arguments])


def refused(*arguments: str) -> str:
    result = group(*arguments)
    assert result.exit_code == 2 and isinstance(result.exception, SystemExit), result
    return result.stderr


@pytest.mark.parametrize(("group_id", "kind"), [("plain", "classic"), ("workers", "share"), ("app", "streams")])
def test_a_group_is_found_whatever_its_type(cluster: type[Cluster], group_id: str, kind: str) -> None:
    result = group("describe", group_id, "--json")
    assert (json.loads(result.stdout)["group"], json.loads(result.stdout)["type"]) == (group_id, kind)


def test_a_group_of_no_type_is_not_found_on_clusters_that_lack_some_types(cluster: type[Cluster]) -> None:
    said = "oncelog: GROUP_ID_NOT_FOUND: group 'none' does not exist; `oncelog group list` shows those there are\n"
    assert refused("describe", "none") == said
    cluster.without = frozenset(("share group", "streams group"))
    assert refused("describe", "none") == said


def test_an_error_about_one_type_is_not_taken_for_its_absence(
    cluster: type[Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def describe_share_groups(*_: Any) -> None:
        raise KafkaError("not yours", code=ErrorCode.GROUP_AUTHORIZATION_FAILED)

    monkeypatch.setattr(cluster, "describe_share_groups", describe_share_groups)
    assert "GROUP_AUTHORIZATION_FAILED" in refused("describe", "workers")


IN_USE = SharePartition("lines", 0, True, 2, 40, 39, 30, 4, 5, {1: 30, 3: 4}, (FailedRecord(7, 2, 0, 0, False),))
WORSE = SharePartition("lines", 1, False, failed=(FailedRecord(5, 0, 5, 0, True),))


def test_a_share_group_is_described_with_what_is_in_flight_where_a_broker_is_asked(
    cluster: type[Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record that fails most comes first; without the address nothing is asked, and nothing else is shown."""
    asked = []

    def ask(address: str, group_id: str, timeout_s: float, **access: Any) -> list[SharePartition]:
        asked.append((address, group_id, access["token"]))
        return [IN_USE, WORSE]

    monkeypatch.setattr("oncelog.share_groups.ask_share_group", ask)
    monkeypatch.setenv("ONCELOG_METRICS_TOKEN", "secret")
    plain = json.loads(group("describe", "workers", "--json").stdout)
    assert not asked and "failed" not in plain and "in_flight" not in plain["offsets"][0]
    text = group("describe", "workers", "--metrics", "somewhere:9404").stdout
    assert asked == [("somewhere:9404", "workers", "secret")]
    offsets, _, failed = text.partition("\noffsets\n")[2].partition("\n\nfailed\n")
    assert offsets.splitlines()[1].split() == ["lines", "0", "2", "3", "39", "30", "1:", "30,", "3:", "4"]
    assert [line.split()[1:3] for line in failed.splitlines()[1:]] == [["1", "5"], ["0", "7"]]
    values = json.loads(group("describe", "workers", "--metrics", "somewhere:9404", "--json").stdout)
    assert values["offsets"][0]["delivery_counts"] == {"1": 30, "3": 4}
    assert values["failed"][0]["archived"] is True


def test_a_port_that_does_not_say_what_is_in_flight_fails_after_the_rest_is_shown(cluster: type[Cluster]) -> None:
    """The columns that Kafka's protocol has are shown all the same."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        result = group("describe", "workers", "--metrics", f"127.0.0.1:{bound.getsockname()[1]}")
    assert result.exit_code == 2
    assert "workers" in result.stdout
    assert "does not respond" in result.stderr and "--override oncelog.metrics.listen=" in result.stderr


def test_a_share_group_starts_elsewhere_and_a_consumer_group_commits(cluster: type[Cluster]) -> None:
    for group_id in ("workers", "plain"):
        assert group("reset", group_id, "--to", "-1").exit_code == 0
    assert cluster.changes == [("start", "workers", {INPUT: 4}), ("committed", "plain", {INPUT: 4})]


def test_a_new_group_is_a_share_group_if_it_is_called_one(cluster: type[Cluster]) -> None:
    for options in ((), ("--share",), ("--share", "--dry-run")):
        assert group("reset", "new", "--topic", "lines", "--to", "end", "--create", *options).exit_code == 0
    assert cluster.changes == [("committed", "new", {INPUT: END}), ("start", "new", {INPUT: END})]
    assert "GROUP_ID_NOT_FOUND" in refused("reset", "new", "--topic", "lines", "--to", "end", "--share")


def test_what_exists_is_not_called_a_share_group(cluster: type[Cluster]) -> None:
    said = refused("reset", "app", "--to", "start", "--share", "--create")
    assert said == "oncelog: group 'app' is a streams group: leave out --share\n"
    assert not cluster.changes


def test_a_share_group_with_members_is_not_reset_nor_tried(cluster: type[Cluster]) -> None:
    for options in ((), ("--dry-run",)):
        assert "group 'busy' has members: stop its consumers first" in refused("reset", "busy", "--to", "end", *options)
    assert not cluster.changes


def test_a_reset_of_a_streams_group_leaves_its_own_topics_alone_and_says_what_stays(cluster: type[Cluster]) -> None:
    """The group's own topics are moved when they are named: the operator decides."""
    result = group("reset", "app", "--to", "start")
    assert f"`oncelog topic delete {CHANGELOG.name} {OWN.topic}`" in result.stdout
    assert group("reset", "app", "--to", "start", "--topic", OWN.topic).exit_code == 0
    assert cluster.changes == [("committed", "app", {INPUT: 0}), ("committed", "app", {OWN: 0})]


def test_a_share_group_forgets_whole_topics(cluster: type[Cluster]) -> None:
    assert "is a share group, whose offsets are deleted by whole topics: name 'lines'" in refused(
        "delete", "plain", "workers", "--topic", "lines:0"
    )
    assert "group 'workers' has no offsets of 'other': nothing was deleted" in refused(
        "delete", "workers", "--topic", "lines", "--topic", "other"
    )
    assert not cluster.changes
    assert group("delete", "plain", "workers", "--topic", "lines").exit_code == 0
    assert cluster.changes == [("delete", "plain", [INPUT]), ("delete topics", "workers", ["lines"])]


def test_groups_of_every_type_are_deleted_at_once_or_none_is(cluster: type[Cluster]) -> None:
    assert "GROUP_ID_NOT_FOUND" in refused("delete", "plain", "workers", "none")
    assert not cluster.changes
    result = group("delete", "plain", "workers", "app")
    assert cluster.changes == [("delete group", each) for each in ("plain", "workers", "app")]
    assert "The state of the application stays." in result.stdout


def test_a_share_groups_lag_is_the_brokers_with_everyone_who_shares_the_partition(cluster: type[Cluster]) -> None:
    (row,) = json.loads(group("lag", "busy", "--json").stdout)
    assert row == {
        "topic": "lines",
        "partition": 0,
        "start_offset": 2,
        "last_stable_offset": END,
        "end_offset": END,
        "lag": 3,
        "client_ids": ["client"],
    }


def test_kafkas_script_for_consumer_groups_lists_no_others(
    cluster: type[Cluster], capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Share and streams groups have scripts of their own in Kafka, and connectors are no consumers."""
    assert kafka_script(["kafka-consumer-groups", "--bootstrap-server", "127.0.0.1:9092", "--list"]) == 0
    assert capsysbinary.readouterr().out.split() == [b"old", b"new", b"plain"]
