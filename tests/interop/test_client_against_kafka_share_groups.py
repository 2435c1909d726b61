"""Our Admin and command line on share groups and streams groups, against Apache Kafka where its jars are."""

import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from oncelog.cli import main
from oncelog.client import ConfigError, NewTopic, SharePartitionOffset, StreamsTask, TopicPartition
from oncelog.client.blocking.clients import Admin, Producer
from oncelog.protocol.generated.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from oncelog.protocol.generated.streams_group_heartbeat_request import (
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TopicInfo,
    Topology,
)
from tests.clients.wire import WireBroker
from tests.support.console.consoles import console, text_of
from tests.support.foreign.interop import unique
from tests.support.kafka.server import ON_BOTH, serving
from tests.support.patience import PATIENCE_S

DOCS = Path(__file__).parent.parent.parent / "docs"
_SETTINGS = (
    "share.coordinator.state.topic.replication.factor=1",
    "share.coordinator.state.topic.min.isr=1",
    "share.coordinator.state.topic.num.partitions=5",
    "group.streams.initial.rebalance.delay.ms=0",
)


@dataclass
class Scene:
    """A broker, and an administrator of it."""

    bootstrap: str
    admin: Admin
    wire: WireBroker = field(init=False)

    def __post_init__(self) -> None:
        self.wire = WireBroker(self.bootstrap)

    def topic(self, partitions: int = 1, records: int = 0) -> str:
        name = unique("topic")
        self.admin.create_topics(NewTopic(name, partitions, 1))
        with Producer(self.bootstrap) as producer:
            for number in range(records):
                producer.send(name, b"%d" % number, partition=0, timestamp_ms=1_000 * (number + 1))
        return name

    def share_member(self, group: str, *topics: str) -> str:
        """Join, and heartbeat until there is an assignment; returns the member id."""
        member_id = unique("member")
        self.wait_for_coordinator(group)
        self.admin.alter_configs({"share.assignment.interval.ms": "0"}, group=group)

        def beat(epoch: int, subscribed: tuple[str, ...] | None = None) -> Any:
            return self.wire.ask(
                ShareGroupHeartbeatRequest(
                    group_id=group, member_id=member_id, member_epoch=epoch, subscribed_topic_names=subscribed
                ),
                1,
            )

        until_assigned(beat(0, topics), beat, lambda answer: answer.assignment and answer.assignment.topic_partitions)
        return member_id

    def wait_for_coordinator(self, group: str) -> None:
        """The administrator asks until it has loaded the group's partition; a member would be refused until then."""
        self.admin.list_share_group_offsets(group)

    def leave(self, group: str, member_id: str) -> None:
        request = ShareGroupHeartbeatRequest(group_id=group, member_id=member_id, member_epoch=-1)
        assert self.wire.ask(request, 1).error_code == 0

    def streams_beat(self, group: str, epoch: int, **fields: Any) -> Any:
        request = StreamsGroupHeartbeatRequest(
            group_id=group, member_id="thread", member_epoch=epoch, endpoint_information_epoch=0, **fields
        )
        return self.wire.ask(request, 0)

    def streams_member(self, group: str, source: str) -> None:
        """An application that counts by key: it has a repartition topic and a store."""
        self.wait_for_coordinator(group)
        changelog = TopicInfo(f"{group}-store-changelog", 0, 1, [KeyValue("cleanup.policy", "compact")])
        repartition = TopicInfo(f"{group}-by-repartition", 0, 1, [])
        reads = Subtopology(subtopology_id="0", source_topics=[source], repartition_sink_topics=[repartition.name])
        counts = Subtopology(
            subtopology_id="1", repartition_source_topics=[repartition], state_changelog_topics=[changelog]
        )

        def owning(answer: Any) -> dict[str, Any]:
            has = answer.active_tasks is not None
            return {"active_tasks": answer.active_tasks, "standby_tasks": [], "warmup_tasks": []} if has else {}

        answer = self.streams_beat(
            group,
            0,
            rebalance_timeout_ms=10_000,
            topology=Topology(1, [reads, counts]),
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
            process_id="process",
            client_tags=[],
        )
        answer = until_assigned(
            answer, lambda epoch: self.streams_beat(group, epoch), lambda answer: bool(answer.active_tasks)
        )
        self.streams_beat(group, answer.member_epoch, **owning(answer))

    def run(self, *arguments: str, exit_code: int = 0) -> Result:
        result = CliRunner().invoke(main, [*arguments, "--bootstrap", self.bootstrap])
        assert result.exit_code == exit_code, (result.output, result.exception)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    def rows(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json").stdout)

    def refused(self, *arguments: str) -> str:
        (line,) = self.run(*arguments, exit_code=2).stderr.splitlines()
        return str(line)


def until_assigned(answer: Any, beat: Callable[[int], Any], is_enough: Callable[[Any], Any]) -> Any:
    """Send heartbeats until the member has its assignment: assignments and internal topics are made beside
    heartbeats.
    """
    end_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < end_s:
        assert answer.error_code == 0, (answer.error_code, answer.error_message)
        if is_enough(answer):
            return answer
        answer = beat(answer.member_epoch)
    raise AssertionError(f"no assignment: {answer}")


@pytest.fixture(scope="module", params=ON_BOTH)
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    directory = tmp_path_factory.mktemp(request.param)
    with serving(request.param, directory, *_SETTINGS) as bootstrap, Admin(bootstrap) as admin:
        scene = Scene(bootstrap, admin)
        # The first to need it creates the topic of share states: a member would be assigned half a minute later.
        admin.alter_share_group_offsets("first", {TopicPartition(scene.topic(), 0): 0})
        yield scene
        scene.wire.close()


def test_a_share_group_is_described_with_everyone_who_has_a_partition(scene: Scene) -> None:
    topic, group = scene.topic(), unique("group")
    members = {scene.share_member(group, topic) for _ in range(2)}
    (described,) = scene.admin.describe_share_groups(group)
    place = TopicPartition(topic, 0)
    assert {each.member_id for each in described.members} == members
    assert [(each.topics, each.partitions) for each in described.members] == [((topic,), (place,))] * 2
    assert described.state == "Stable"
    (listed,) = [each for each in scene.admin.list_groups(types=["share"]) if each.group_id == group]
    assert (listed.type, listed.protocol_type, listed.state) == ("share", "share", "Stable")
    assert scene.admin.list_share_group_offsets(group) == {place: SharePartitionOffset(None, 0, None)}
    with pytest.raises(ConfigError, match=f"GROUP_ID_NOT_FOUND: group '{group}' does not exist"):
        scene.admin.describe_groups(group)


def test_offsets_of_a_share_group_are_moved_and_deleted(scene: Scene) -> None:
    """A group that does not exist is created by its first offsets."""
    topic, other, group = scene.topic(2, records=5), scene.topic(), unique("group")
    places = [TopicPartition(topic, partition) for partition in range(2)]
    scene.admin.alter_share_group_offsets(group, {places[0]: 3, places[1]: 0})
    found = scene.admin.list_share_group_offsets(group)
    assert [(each.start_offset, each.lag) for each in found.values()] == [(3, 2), (0, 0)]
    assert scene.admin.list_share_group_offsets(group, places[:1]) == {places[0]: found[places[0]]}
    with pytest.raises(ConfigError, match=f"has no offsets of topic '{other}'"):
        scene.admin.delete_share_group_offsets(group, [other])
    scene.admin.delete_share_group_offsets(group, [topic])
    assert scene.admin.list_share_group_offsets(group) == {}
    scene.admin.delete_groups(group)
    with pytest.raises(ConfigError, match=f"share group '{group}' does not exist"):
        scene.admin.describe_share_groups(group)
    assert scene.admin.list_share_group_offsets(group) == {}, "as for a consumer group"


def test_offsets_of_a_share_group_in_use_and_of_another_group_are_refused(scene: Scene) -> None:
    topic, group, plain = scene.topic(), unique("group"), unique("plain")
    place = TopicPartition(topic, 0)
    member = scene.share_member(group, topic)
    changes: list[Callable[[], None]] = [
        lambda: scene.admin.alter_share_group_offsets(group, {place: 0}),
        lambda: scene.admin.delete_share_group_offsets(group, [topic]),
        lambda: scene.admin.delete_groups(group),
    ]
    for change in changes:
        with pytest.raises(ConfigError, match=f"group '{group}' has members"):
            change()
    scene.leave(group, member)
    scene.admin.alter_share_group_offsets(group, {place: 0})
    scene.admin.alter_group_offsets(plain, {place: 0})
    with pytest.raises(ConfigError, match=f"GROUP_ID_NOT_FOUND: group '{plain}' is not a share group"):
        scene.admin.alter_share_group_offsets(plain, {place: 0})


def test_a_streams_group_is_described_and_its_lag_counted(scene: Scene) -> None:
    source, group = scene.topic(2, records=5), unique("group")
    scene.streams_member(group, source)
    (described,) = scene.admin.describe_streams_groups(group)
    assert (described.state, described.topology_epoch, described.source_topics) == ("Stable", 1, (source,))
    assert described.internal_topics == (f"{group}-by-repartition", f"{group}-store-changelog")
    (member,) = described.members
    assert member.tasks.active == tuple(StreamsTask(name, number) for name in "01" for number in range(2))
    lags = scene.admin.list_group_lag(group)
    assert {each.topic_partition.topic: each.lag for each in lags if each.topic_partition.partition == 0} == {
        source: 5,
        f"{group}-by-repartition": 0,
    }
    assert all(each.member is not None and each.member.member_id == "thread" for each in lags)
    scene.streams_beat(group, -1)
    scene.admin.alter_group_offsets(group, {TopicPartition(source, 0): 3})
    assert [each.lag for each in scene.admin.list_group_lag(group)] == [2]
    scene.admin.delete_groups(group)


def test_share_groups_on_the_command_line(scene: Scene) -> None:
    topic, group = scene.topic(2, records=5), unique("group")
    made = ("group", "reset", group, "--topic", topic, "--to", "@3000", "--create", "--share")
    planned = scene.rows(*made, "--dry-run")
    assert [(row["start_offset"], row["new_offset"]) for row in planned] == [(None, 2), (None, 0)]
    assert "GROUP_ID_NOT_FOUND" in scene.refused("group", "describe", group), "that was a dry run"
    scene.run(*made)
    described = scene.rows("group", "describe", group)
    assert (described["type"], described["state"], described["members"]) == ("share", "Empty", [])
    assert [(row["start_offset"], row["lag"]) for row in described["offsets"]] == [(2, 3), (0, 0)]
    assert [row["start_offset"] for row in scene.rows("group", "offsets", group)] == [2, 0]
    for position, lags in (("end", [0, 0]), ("-1", [1, 0]), ("start", [5, 0])):
        scene.run("group", "reset", group, "--to", position)
        assert [row["lag"] for row in scene.rows("group", "lag", group)] == lags, position
    member = scene.share_member(group, topic)
    (lag, _) = scene.rows("group", "lag", group)
    assert (lag["start_offset"], lag["end_offset"], lag["client_ids"]) == (0, 5, ["client"])
    (row,) = scene.rows("group", "describe", group)["members"]
    assert (row["member_id"], row["partitions"]) == (member, [f"{topic}-0", f"{topic}-1"])
    assert "has members: stop its consumers" in scene.refused("group", "reset", group, "--to", "start")
    assert "stop its consumers" in scene.refused("group", "delete", group)
    assert "stop its consumers" in scene.refused("group", "delete", group, "--topic", topic)
    scene.leave(group, member)
    assert f"by whole topics: name '{topic}'" in scene.refused("group", "delete", group, "--topic", f"{topic}:0")
    scene.run("group", "delete", group, "--topic", topic)
    assert scene.rows("group", "offsets", group) == []
    scene.run("group", "delete", group)
    assert "GROUP_ID_NOT_FOUND" in scene.refused("group", "lag", group)


def test_a_group_of_another_type_is_no_share_group_on_the_command_line(scene: Scene) -> None:
    topic, group = scene.topic(), unique("group")
    scene.run("group", "reset", group, "--topic", topic, "--to", "start", "--create")
    said = scene.refused("group", "reset", group, "--to", "start", "--share", "--dry-run")
    assert said == f"oncelog: group '{group}' is a classic group: leave out --share"


def test_streams_groups_on_the_command_line(scene: Scene) -> None:
    """A reset moves the offsets of what the application reads of others, and says what it does not touch."""
    source, group = scene.topic(2, records=5), unique("group")
    internal = [f"{group}-by-repartition", f"{group}-store-changelog"]
    scene.streams_member(group, source)
    described = scene.rows("group", "describe", group)
    assert (described["type"], described["topology_epoch"]) == ("streams", 1)
    assert [row["changelog_topics"] for row in described["subtopologies"]] == [[], internal[1:]]
    assert described["members"][0]["active_tasks"] == ["0_0", "0_1", "1_0", "1_1"]
    assert "has members: stop its consumers" in scene.refused("group", "reset", group, "--to", "start")
    scene.streams_beat(group, -1)
    scene.admin.alter_group_offsets(group, {TopicPartition(source, 0): 3, TopicPartition(internal[0], 0): 0})
    assert [row["topic"] for row in scene.rows("group", "offsets", group)] == [internal[0], source]
    (moved,) = scene.rows("group", "reset", group, "--to", "start")
    assert (moved["topic"], moved["committed_offset"], moved["new_offset"]) == (source, 3, 0)
    said = scene.run("group", "delete", group).stdout
    assert f"`oncelog topic delete {' '.join(internal)}`" in said


async def test_the_console_shows_groups_of_every_type(scene: Scene) -> None:
    topic, share, streams = scene.topic(records=5), unique("share"), unique("streams")
    scene.admin.alter_share_group_offsets(share, {TopicPartition(topic, 0): 2})
    scene.share_member(share, topic)
    scene.streams_member(streams, topic)
    async with console(scene.bootstrap) as client:
        listed = text_of((await client.get("/groups", params={"q": share})).text)
        assert f"{share} Stable share 3" in listed
        described = text_of((await client.get("/group", params={"id": share})).text)
        assert f"{topic} -0 2 5 5 3 client" in described
        application = text_of((await client.get("/group", params={"id": streams})).text)
        assert "process thread 0_0 1_0" in application and "topology epoch 1 lag 5 offsets" in application


def test_a_share_group_may_have_settings_before_it_exists(scene: Scene) -> None:
    group = unique("group")
    scene.run("config", "alter", "--group", group, "--set", "share.record.lock.duration.ms=20s")
    found = scene.rows("config", "describe", "--group", group, "--changed")
    changed = [(row["name"], row["value"]) for row in found if row["source"] == "DYNAMIC_GROUP_CONFIG"]
    assert changed == [("share.record.lock.duration.ms", "20000")]


def test_the_settings_on_the_page_of_share_groups_are_all_there_are_with_their_defaults(scene: Scene) -> None:
    page = (DOCS / "understand" / "share-groups.md").read_text(encoding="utf-8")
    documented = dict(re.findall(r"^\| `(share\.[a-z.]+)` \| `([^`]+)` \|", page, re.MULTILINE))
    entries = scene.admin.describe_config_entries(group=unique("group"))
    assert documented == {each.name: each.value for each in entries if each.name.startswith("share.")}
