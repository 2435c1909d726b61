"""What the console's pages say of share groups and streams groups, whatever broker has them."""

from collections.abc import Iterator
from typing import Any

import pytest

from oncelog.client import (
    ListedGroup,
    MemberDescription,
    PartitionLag,
    ShareGroupDescription,
    ShareMemberDescription,
    SharePartitionOffset,
    StreamsGroupDescription,
    StreamsInternalTopic,
    StreamsMemberDescription,
    StreamsSubtopology,
    StreamsTask,
    StreamsTasks,
    TopicPartition,
)
from oncelog.console.reading import Reader
from oncelog.http_port import HttpPort
from oncelog.share_groups import FailedRecord, SharePartition
from oncelog.testing import Broker
from oncelog.tools.group_types import Group
from tests.support.console.consoles import TIMEOUT_MS, console, text_of

READ, UNREAD = TopicPartition("jobs", 0), TopicPartition("jobs", 1)
OFFSETS = {UNREAD: SharePartitionOffset(None, None, None), READ: SharePartitionOffset(1, 0, 2)}
FAILED = FailedRecord(7, 2, 1, 0, is_archived=False)
TASKS = StreamsTasks((StreamsTask("0", 0), StreamsTask("1", 0)), (StreamsTask("1", 1),), (StreamsTask("1", 2),))


class _Groups(Reader):
    """A cluster with a share group and a streams group."""

    members: tuple[ShareMemberDescription, ...] = ()
    offsets = OFFSETS
    partitions: list[SharePartition] | None = None
    topology_epoch = 1

    async def groups(self) -> list[ListedGroup]:
        return [ListedGroup(each, 1, each, "Stable", each) for each in ("share", "streams")]

    async def group(self, group_id: str) -> Group:
        if group_id == "share":
            return ShareGroupDescription("share", "Stable", "simple", 3, 2, 1, self.members)
        changelog = StreamsInternalTopic("streams-store-changelog", 2, 1, {})
        subtopologies = (StreamsSubtopology("0", ("jobs",), (), (), (changelog,)),)
        member = StreamsMemberDescription(
            "thread", None, None, "app", "/127.0.0.1", "process-7", 1, 1, None, {}, TASKS, TASKS, False
        )
        return StreamsGroupDescription("streams", "Stable", 1, 1, self.topology_epoch, 1, subtopologies, (member,))

    async def share_offsets(self, group_id: str) -> Any:
        return self.offsets

    async def share_partitions(self, group_id: str) -> list[SharePartition] | None:
        return self.partitions

    async def lag(self, group_id: str) -> list[PartitionLag]:
        assert group_id == "streams", "a share group has committed nothing"
        return [PartitionLag(READ, 3, 5, 5, 2, MemberDescription("thread", None, "app", "/127.0.0.1", (READ,)))]


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Broker() as broker:
        broker.create_topic("jobs", partitions=2)
        for number in range(3):
            broker.produce("jobs", b"%d" % number, partition=0)
        yield broker.bootstrap_servers


async def shown(reader: Reader, path: str) -> str:
    async with console(reader) as client:
        response = await client.get(path)
        assert response.status_code == 200
        return text_of(response.text)


async def test_groups_of_all_types_are_listed_with_their_lag(bootstrap: str) -> None:
    text = await shown(_Groups(bootstrap, TIMEOUT_MS), "/groups")
    assert "share Stable share 2 none 1" in text
    assert "streams Stable streams 2 none 1" in text


async def test_a_share_group_that_has_read_nothing_has_no_lag(bootstrap: str) -> None:
    class _Unread(_Groups):
        offsets = {UNREAD: OFFSETS[UNREAD]}

    assert "share Stable share – none 1" in await shown(_Unread(bootstrap, TIMEOUT_MS), "/groups")


async def test_a_share_group_shows_where_it_is_and_who_shares_each_partition(bootstrap: str) -> None:
    class _Shared(_Groups):
        members = tuple(
            ShareMemberDescription(f"member-{name}", None, name, "/127.0.0.1", 3, ("jobs",), (READ,))
            for name in ("anna", "ben")
        )

    text = await shown(_Shared(bootstrap, TIMEOUT_MS), "/group?id=share")
    assert "members 2 group epoch 3 assignment epoch 2 lag 2 offsets" in text
    assert "jobs -0 1 3 3 2 anna ben jobs -1 – 0 0 – nobody" in text
    assert "anna /127.0.0.1 member-anna jobs jobs -0" in text
    assert "Acknowledgements are not part of a transaction" in text


class _Seen(_Groups):
    partitions = [
        SharePartition("jobs", 0, True, 1, 2_001, 2_000, 1_500, 20, 480, {1: 1_500, 4: 20}, (FAILED,)),
        SharePartition("jobs", 1, False, failed=(FailedRecord(3, 1, 4, 0, is_archived=True),)),
    ]


async def test_a_share_group_shows_what_is_in_flight_and_the_record_that_fails_most_first(bootstrap: str) -> None:
    """The numbers come from the broker's HTTP port; a partition without a session has none."""
    text = await shown(_Seen(bootstrap, TIMEOUT_MS), "/group?id=share")
    assert "jobs -0 1 3 3 2 2,000 1,500 480 1: 1,500, 4: 20 nobody" in text
    assert "jobs -1 – 0 0 – – – – none nobody" in text
    failing = text.partition("Records that fail")[2]
    assert "jobs -1 3 1 4 0 archived: not delivered again jobs -0 7 2 1 0 is delivered again" in failing
    assert "--metrics" not in text


async def test_a_console_without_the_port_says_what_it_needs_and_one_whose_port_is_silent_shows_the_rest(
    bootstrap: str,
) -> None:
    """Neither is an error: what Kafka's protocol has is shown."""
    text = await shown(_Groups(bootstrap, TIMEOUT_MS), "/group?id=share")
    assert "With --metrics HOST:PORT" in text and "Records that fail" not in text and "deliveries" not in text
    reader = Reader(bootstrap, TIMEOUT_MS, HttpPort(bootstrap))
    try:
        assert await reader.share_partitions("share") is None
    finally:
        await reader.close()


async def test_a_share_group_without_members_and_offsets_says_so(bootstrap: str) -> None:
    class _Empty(_Groups):
        offsets = {}

    text = await shown(_Empty(bootstrap, TIMEOUT_MS), "/group?id=share")
    assert "lag – " in text
    assert "The group has no offsets and reads nothing." in text and "The group has no members now." in text


async def test_a_streams_group_shows_its_subtopologies_tasks_and_offsets(bootstrap: str) -> None:
    text = await shown(_Groups(bootstrap, TIMEOUT_MS), "/group?id=streams")
    assert "type streams members 1 group epoch 1 assignment epoch 1 topology epoch 1 lag 2 offsets" in text
    assert "jobs -0 3 – 5 5 2 app" in text
    assert "0 jobs none streams-store-changelog" in text
    assert "app /127.0.0.1 process-7 thread 0_0 1_0 1_1 1_2" in text


async def test_a_streams_group_without_a_topology_shows_no_epoch_of_it(bootstrap: str) -> None:
    class _Untold(_Groups):
        topology_epoch = -1

    assert "topology epoch" not in await shown(_Untold(bootstrap, TIMEOUT_MS), "/group?id=streams")


@pytest.mark.parametrize("path", ["/group?id=share", "/group?id=streams"])
async def test_every_number_of_these_groups_has_a_legend(bootstrap: str, path: str) -> None:
    text = await shown(_Seen(bootstrap, TIMEOUT_MS), path)
    legend = text.partition("What the numbers are")[2]
    names = {
        "/group?id=share": (
            *("group epoch", "assignment epoch", "start offset", "last stable", "end", "lag", "members"),
            *("in flight", "acquired", "done", "deliveries: records", "offset", "released", "lost", "rejected"),
        ),
        "/group?id=streams": (
            *("group epoch", "assignment epoch", "topology epoch", "committed", "last stable", "end", "lag"),
            *("pending", "members"),
        ),
    }[path]
    assert [name for name in names if f" {name} " not in f" {legend} "] == []
