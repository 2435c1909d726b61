"""A conversation about the offsets of share groups (KIP-932): describe, alter and delete them, as tools do.

Owns: the questions, and which part of an answer counts: errors, offsets, lags, topics by name.
"""

from collections.abc import Mapping
from typing import Any

from tests.clients.asking import Broker, Told, parts_of
from tests.clients.share_requests import ACCEPT, ERROR, RELEASE, ShareMember
from tests.conformance.transcripts.share_group_transcript import GroupTalk

DIFFERENCES: dict[str, tuple[str, object]] = {
    "described: fetched, offsets": (
        "Kafka writes where a group begins with its first acknowledgement; here that is durable before the first "
        "records are returned",
        (
            True,
            "NONE",
            None,
            [("log", "log", 0, 0, 0, 15, "NONE", None), ("log", "log", 1, -1, 0, -1, "NONE", None)],
        ),
    ),
}


def conversation(broker: Broker) -> Told:
    """Every question and its answer; `broker` must be fresh."""
    talk = OffsetTalk(broker)
    talk.prepare(log=2, other=1)
    yield from parts_of(talk, nowhere, described, altered, removed, lags, kinds, no_partition)


class OffsetTalk(GroupTalk):
    def alter(self, group_id: str, *topics: tuple[str, Mapping[int, int]]) -> Any:
        asked = [(topic, list(offsets.items())) for topic, offsets in topics]
        shape = f"{ERROR} responses/partitions{{topic_name topic_id:topic partition_index {ERROR}}}"
        return self.ask("AlterShareGroupOffsets", 0, shape, group_id=group_id, topics=asked)

    def remove(self, group_id: str, *topics: str) -> Any:
        asked = [(topic,) for topic in topics]
        shape = f"{ERROR} responses{{topic_name topic_id:topic {ERROR}}}"
        return self.ask("DeleteShareGroupOffsets", 0, shape, group_id=group_id, topics=asked)

    def left(self, group_id: str, *topics: str) -> None:
        """A group whose member has left, with offsets of these topics."""
        self.ready(group_id, *topics)
        self.beat(group_id, "m", -1)


def nowhere(talk: OffsetTalk) -> Told:
    """Requests about groups of which nothing is known."""
    for group_id in ("nobody", "", " "):
        yield f"{group_id!r}, all", talk.offsets(group_id)
        yield f"{group_id!r}, some", talk.offsets(group_id, {"log": [1, 0], "gone": [0], "": [0]})
        yield f"{group_id!r}, no partitions", talk.offsets(group_id, {"log": []})
        yield f"{group_id!r}, no topics", talk.offsets(group_id, {})
        yield f"{group_id!r}, delete", talk.remove(group_id, "log")
        yield f"{group_id!r}, delete nothing", talk.remove(group_id)
    yield "'', alter", talk.alter("", ("log", {0: 1}))
    yield "'', alter nothing", talk.alter("")
    yield "no groups", talk.ask("DescribeShareGroupOffsets", 1, "groups:len", groups=[])
    several = {"groups": [(group, None) for group in ("a", "b", "a")]}
    yield "several groups", talk.ask("DescribeShareGroupOffsets", 1, f"groups(group_id {ERROR})", **several)


def described(talk: OffsetTalk) -> Told:
    for _ in range(3):
        talk.produce("log", 5)
    talk.ready("described", "log")
    for version in (0, 1):
        yield f"joined, version {version}", talk.offsets("described", version=version)
        places = {"log": [1, 0], "other": [0], "gone": [0]}
        yield f"joined, some, version {version}", talk.offsets("described", places, version)
    yield "a partition below zero", talk.offsets("described", {"log": [0, -1]})
    member = ShareMember(talk, "described")
    yield "fetched", member.records(0)
    yield "fetched, offsets", talk.offsets("described")
    yield "acknowledged", member.done((0, 4, [ACCEPT]), (5, 5, [RELEASE]), (7, 9, [ACCEPT]))
    for version in (0, 1):
        yield f"acknowledged, offsets, version {version}", talk.offsets("described", version=version)
    talk.produce("log", 5)
    yield "written", talk.offsets("described")


def altered(talk: OffsetTalk) -> Told:
    yield "no group", talk.alter("altered", ("log", {0: 7}))
    yield "no group, then", (talk.group("altered"), talk.offsets("altered"))
    yield "a group that has members", talk.alter("described", ("log", {0: 1}))
    talk.left("changed", "log")
    yield "an empty group", talk.alter("changed", ("log", {0: 7, 1: 3}))
    yield "an empty group, then", (talk.group("changed"), talk.offsets("changed"))
    for offset in (100, -1, -2, 0):
        yield f"to {offset}", (talk.alter("changed", ("log", {0: offset})), talk.offsets("changed"))
    yield "no such partition", talk.alter("changed", ("log", {0: 5, 7: 5}))
    yield "a partition below zero", talk.alter("changed", ("log", {0: 5, -1: 5}))
    yield "no such topic", talk.alter("changed", ("gone", {0: 5}), ("", {0: 5}), ("log", {1: 5}))
    yield "another topic", talk.alter("changed", ("other", {0: 5}))
    yield "twice the same topic", talk.alter("changed", ("log", {0: 2}), ("log", {0: 3}))
    yield "nothing", talk.alter("changed")
    yield "no partitions", talk.alter("changed", ("log", {}))
    yield "in the end", talk.offsets("changed")
    yield "only there since it was altered", talk.alter("changed fresh", ("log", {0: 4}))
    yield "a member of it", talk.join("changed fresh", "m", "log")
    talk.initialized("changed fresh", "log")
    while len(talk.offsets("changed fresh")[-1]) < 2:
        talk.broker.let_pass(50)
    yield "a member of it, offsets", talk.offsets("changed fresh")
    member = ShareMember(talk, "changed fresh")
    yield "a member of it, records", member.records(0)
    yield "a member of it, fetched", talk.offsets("changed fresh")


def removed(talk: OffsetTalk) -> Told:
    talk.left("removed", "log", "other")
    yield "before", talk.offsets("removed")
    yield "a group that has members", talk.remove("described", "log")
    yield "of nothing", talk.remove("removed")
    yield "of no such topic", talk.remove("removed", "gone", "")
    yield "one, and no such topic", talk.remove("removed", "log", "gone")
    yield "one, then", talk.offsets("removed")
    yield "again", talk.remove("removed", "log")
    yield "twice the same", talk.remove("removed", "other", "other")
    yield "all, then", (talk.group("removed"), talk.offsets("removed"))
    yield "a member comes", talk.join("removed", "m", "log")
    talk.initialized("removed", "log")
    yield "a member comes, offsets", talk.offsets("removed")


def lags(talk: OffsetTalk) -> Told:
    """Lag is what is behind the start offset and not done."""
    talk.produce("other", 10)
    talk.ready("lags", "other")
    member = ShareMember(talk, "lags", topic="other")
    yield "fetched", member.records(0)
    for batch in ((2, 3, [ACCEPT]), (0, 0, [ACCEPT]), (1, 1, [RELEASE]), (9, 9, [ACCEPT])):
        said: Any = batch
        yield f"{said}", (member.done(said), talk.offsets("lags"))
    yield "closed", member.acknowledge(acknowledged={}, epoch=-1)
    talk.configure("latest", share_auto_offset_reset="latest")
    talk.join("latest", "m", "other")
    talk.initialized("latest", "other")
    member = ShareMember(talk, "latest", topic="other")
    yield "from the latest", member.fetch(0, max_wait_ms=500)
    yield "from the latest, offsets", talk.offsets("latest")
    talk.produce("other", 3)
    yield "from the latest, written", talk.offsets("latest")
    yield "from the latest, fetched", member.records()
    yield "from the latest, done", (member.done((10, 12, [ACCEPT])), talk.offsets("latest"))


def kinds(talk: OffsetTalk) -> Told:
    talk.consumer_join("consumer")
    yield "describe", talk.offsets("consumer")
    yield "describe some", talk.offsets("consumer", {"log": [0]})
    yield "alter", talk.alter("consumer", ("log", {0: 1}))
    yield "delete", talk.remove("consumer", "log")


def no_partition(talk: OffsetTalk) -> Told:
    """Kafka's group coordinator asks for half a minute before it believes that there is none."""
    yield "beside one that is there", talk.offsets("described", {"log": [0, 7]})
