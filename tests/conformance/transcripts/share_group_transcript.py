"""A conversation about share groups (KIP-932): heartbeats, assignments, and what a group of one kind answers to
requests that are for another.

Owns: the questions, and which part of an answer counts: error codes and texts, epochs, assignments by topic name; no
ids that a broker makes.
"""

from typing import Any

from tests.clients.asking import Broker, Told, parts_of, since
from tests.clients.share_requests import ERROR
from tests.clients.streams_requests import StreamsTalk

INTERVAL_MS = 1_200
"""Longer than the time between two assignments of a group."""
SOON_MS = 1_000
GROUP_SIZE = 6
SETTINGS = (f"group.share.max.size={GROUP_SIZE}",)


def conversation(broker: Broker) -> Told:
    """Every question and its answer; `broker` must be fresh."""
    talk = GroupTalk(broker)
    talk.prepare(log=4, other=2)
    parts = (validation, one_member, members, subscriptions, sizes, topics, described, kinds, listed, deleted)
    yield from parts_of(talk, *parts)


class GroupTalk(StreamsTalk):
    def let_pass(self) -> None:
        self.broker.let_pass(INTERVAL_MS)

    def classic_join(self, version: int, group_id: str, member_id: str = "") -> Any:
        return self.ask(
            "JoinGroup",
            version,
            "error_code",
            group_id=group_id,
            member_id=member_id,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            protocol_type="consumer",
            protocols=[("range", b"")],
        )

    def consumer_join(self, group_id: str, member_id: str = "m") -> Any:
        joins = {"rebalance_timeout_ms": 30_000, "subscribed_topic_names": ["log"], "topic_partitions": []}
        who = {"group_id": group_id, "member_id": member_id, "member_epoch": 0}
        return self.ask("ConsumerGroupHeartbeat", 1, ERROR, **who, **joins)

    def others(self, group_id: str, member_id: str = "m") -> Told:
        """Requests of classic and consumer groups, and of both kinds' tools."""
        member = {"group_id": group_id, "generation_id": 1, "member_id": member_id}
        yield "JoinGroup", self.classic_join(9, group_id, member_id)
        yield "SyncGroup", self.ask("SyncGroup", 5, "error_code", **member)
        yield "Heartbeat", self.ask("Heartbeat", 4, "error_code", **member)
        yield "LeaveGroup", self.leave(group_id, (member_id, None), version=5)
        for version, who, epoch in ((8, member_id, 1), (9, member_id, 1), (9, "", -1)):
            error = self.commit(group_id, who, epoch, "log", version=version)
            yield f"OffsetCommit, version {version}, of {who!r} in {epoch}", [error]
        wanted = [{"group_id": group_id, "topics": None}]
        yield "OffsetFetch", self.ask("OffsetFetch", 9, "groups.0(error_code topics:len)", groups=wanted)
        yield "OffsetDelete", self.ask("OffsetDelete", 0, "error_code", group_id=group_id, topics=[])
        for version in (5, 6):
            found = self.ask("DescribeGroups", version, groups=[group_id])
            shape = "groups.0(error_code error_message:since_6 group_state)"
            shown = self.counts(found, shape, since_6=since(6, version))
            yield f"DescribeGroups, version {version}", shown
        yield "ConsumerGroupHeartbeat", self.consumer_join(group_id, member_id)
        for api, version in (("ConsumerGroupDescribe", 1), ("StreamsGroupDescribe", 0)):
            yield api, self.ask(api, version, f"groups.0({ERROR} group_state)", group_ids=[group_id])

    def delete_each(self, *group_ids: str) -> Any:
        return self.ask("DeleteGroups", 2, "results{group_id error_code}", groups_names=group_ids)


def validation(talk: GroupTalk) -> Told:
    refused: tuple[dict[str, Any], ...] = (
        {"rack_id": ""},
        {"rack_id": " "},
        {"subscribed_topic_names": None},
        {"subscribed_topic_names": []},
    )
    for fields in refused:
        yield f"join with {fields}", talk.join("v", "m", "log", **fields)
    yield "join without a group", talk.join("", "m", "log")
    yield "join with a blank group", talk.join(" ", "m", "log")
    yield "join without a member id", talk.join("v", "", "log")
    yield "join with a blank member id", talk.join("v", " ", "log")
    yield "join with a member id of 36", talk.join("v36", "m" * 36, "log")
    yield "join with a member id of 37", talk.join("v", "m" * 37, "log")
    for epoch in (3, -1, -2, -3):
        yield f"epoch {epoch} in no group", talk.beat("v", "m", epoch)
    yield "no group", talk.group("v")
    yield "no group id", talk.group("")
    yield "topics that are not there", talk.join("nowhere", "m", "gone", "a b", "")
    yield "topics that are not there, offsets", talk.offsets("nowhere")
    yield "an internal topic", talk.join("internal", "m", "__consumer_offsets")
    talk.initialized("internal", "__consumer_offsets")
    yield "an internal topic, described", talk.group("internal")


def one_member(talk: GroupTalk) -> Told:
    group = "one"
    yield "joins", talk.join(group, "m", "log", rack_id="rack")
    talk.initialized(group, "log")
    yield "joins, described", talk.group(group)
    yield "reports at once", talk.beat(group, "m", 2)
    yield "reports at once, described", talk.group(group)
    talk.let_pass()
    yield "reports", talk.beat(group, "m", 2)
    yield "reports, described", talk.group(group)
    for epoch in (1, 2, 4, 9, 3):
        yield f"reports {epoch}", talk.beat(group, "m", epoch)
    yield "the same again", talk.beat(group, "m", 3, subscribed_topic_names=["log"])
    yield "another rack", talk.beat(group, "m", 3, rack_id="other")
    yield "joins again", talk.join(group, "m", "log")
    yield "joins again with other topics", talk.join(group, "m", "log", "other")
    talk.initialized(group, "other")
    yield "joins again, described", talk.group(group)
    talk.let_pass()
    yield "reports after that", talk.beat(group, "m", 3)
    talk.let_pass()
    yield "reports after that, again", talk.beat(group, "m", 4)
    yield "described after that", talk.group(group)
    yield "subscribes to nothing", talk.beat(group, "m", 4, subscribed_topic_names=[])
    talk.let_pass()
    yield "subscribes to nothing, reports", talk.beat(group, "m", 5)
    yield "subscribes to nothing, described", talk.group(group)
    yield "subscribes to nothing, offsets", talk.offsets(group)
    yield "leaves with topics", talk.beat(group, "m", -1, subscribed_topic_names=["log"])
    yield "leaves again", talk.beat(group, "m", -1)
    yield "is gone", talk.group(group)
    yield "is gone, reports", talk.beat(group, "m", 6)
    talk.let_pass()
    yield "comes back", talk.join(group, "m", "other")
    yield "comes back, reports", talk.beat(group, "m", 7)
    yield "comes back, described", talk.group(group)


def members(talk: GroupTalk) -> Told:
    """Several members; which of them has which partition depends on the order of hash tables, so only the counts are
    compared.
    """
    group = "several"

    def shared() -> Any:
        error, _, state, epoch, assigned, _, found, _ = talk.group(group)
        each = [(member[0], member[2]) for member in found]
        return error, state, epoch, assigned, each, sorted(len(of) for member in found for _, of in member[5])

    def beat(member: str, epoch: int) -> Any:
        return talk.beat(group, member, epoch)[:-1]

    yield "one joins", talk.join(group, "one", "log")
    talk.initialized(group, "log")
    yield "two joins", talk.join(group, "two", "log")
    yield "two, described", shared()
    talk.let_pass()
    yield "one reports", beat("one", 2)
    yield "two reports", beat("two", 2)
    yield "three joins", talk.join(group, "three", "log")
    talk.let_pass()
    for member in ("three", "two", "one"):
        yield f"{member} reports in 3", beat(member, 3)
    for member in ("four", "five"):
        yield f"{member} joins", talk.join(group, member, "log")
    talk.let_pass()
    for member in ("one", "two", "three", "four", "five"):
        yield f"{member} reports in 4", beat(member, 4)
    yield "five, described", shared()
    yield "somebody else", beat("seven", 3)
    yield "somebody else leaves", beat("seven", -1)
    yield "two leaves", beat("two", -1)
    yield "two has left, described", shared()[:-1]
    talk.let_pass()
    for member in ("one", "three", "four", "five"):
        yield f"{member} reports in 6", beat(member, 6)
    yield "four, described", shared()


def subscriptions(talk: GroupTalk) -> Told:
    group = "subscriptions"
    yield "both", talk.join(group, "a", "log", "other")
    talk.initialized(group, "log", "other")
    talk.let_pass()
    yield "one of them, twice", talk.join(group, "b", "log", "log")[:-1]
    talk.let_pass()
    yield "described", [member[4] for member in talk.group(group)[6]]
    yield "another", talk.beat(group, "b", 3, subscribed_topic_names=["other", "gone"])[:-1]
    talk.let_pass()
    yield "a reports", talk.beat(group, "a", 2)[:-1]
    yield "b reports", talk.beat(group, "b", 4)[:-1]
    found = talk.group(group)[6]
    yield "another, described", [(member[0], member[2], *member[4:5]) for member in found]
    answer = sorted({(topic, number) for member in found for topic, numbers in member[5] for number in numbers})
    yield "each partition once at least", answer


def sizes(talk: GroupTalk) -> Told:
    for number in range(GROUP_SIZE + 1):
        yield f"member {number} joins", talk.join("sizes", f"{number}", "other")[:2]
    yield "a member joins again", talk.join("sizes", "0", "other")[:2]


def topics(talk: GroupTalk) -> Told:
    """Topics that come, grow and go."""
    group = "topics"
    yield "before", talk.join(group, "m", "coming")
    talk.create("coming", 2)
    talk.let_pass()
    yield "it has come", talk.beat(group, "m", 2)
    talk.initialized(group, "coming")
    yield "it has come, offsets", talk.offsets(group)
    talk.let_pass()
    yield "it is assigned", talk.beat(group, "m", 3)
    talk.delete_topic("coming")
    talk.broker.let_pass(SOON_MS)
    talk.let_pass()
    yield "it has gone", talk.beat(group, "m", 4)
    yield "it has gone, described", talk.group(group)
    yield "it has gone, offsets", talk.offsets(group)
    talk.ids["old"] = talk.ids["coming"]
    talk.create("coming", 1)
    talk.let_pass()
    yield "it is there again", talk.beat(group, "m", 5)
    talk.initialized(group, "coming")
    yield "it is there again, offsets", talk.offsets(group)
    talk.let_pass()
    yield "it is assigned again", talk.beat(group, "m", 6)
    talk.grow("coming", 3)
    talk.broker.let_pass(SOON_MS)
    yield "it has grown", talk.beat(group, "m", 7)
    while len(talk.offsets(group)[-1]) < 3:
        talk.broker.let_pass(50)
    talk.let_pass()
    yield "it has grown, reported", talk.beat(group, "m", talk.group(group)[6][0][2])
    yield "it has grown, described", talk.group(group)


def described(talk: GroupTalk) -> Told:
    several = ["one", "gone", "", "several"]
    shape = f"groups{{group_id {ERROR} group_state}}"
    yield "several groups", talk.ask("ShareGroupDescribe", 1, shape, group_ids=several)
    yield "none", talk.ask("ShareGroupDescribe", 1, "groups:len", group_ids=[])
    yield "twice the same", talk.ask("ShareGroupDescribe", 1, "groups:len", group_ids=["one", "one"])
    yield "with operations", talk.group("one", include_authorized_operations=True)[-1]
    yield "with operations of no group", talk.group("gone", include_authorized_operations=True)


def kinds(talk: GroupTalk) -> Told:
    """Requests of one kind to groups of another, with members and without."""
    for group_id in ("share", "left"):
        talk.join(group_id, "m", "log")
        talk.initialized(group_id, "log")
    talk.beat("left", "m", -1)
    for group_id in ("share", "left"):
        for question, answer in talk.others(group_id):
            yield f"{group_id}: {question}", answer
        yield f"{group_id}: StreamsGroupHeartbeat", talk.streams_join(group_id, "m")[:2]
        yield f"{group_id}: afterwards", talk.group(group_id)
    talk.classic_join(3, "classic")
    talk.commit("simple", "", -1, "log", version=8)
    talk.consumer_join("consumer")
    talk.streams_join("streams", "m")
    for group_id in ("classic", "simple", "consumer", "streams"):
        yield f"{group_id}: join", talk.join(group_id, "m", "log")
        yield f"{group_id}: report", talk.beat(group_id, "m", 1)
        yield f"{group_id}: leave", talk.beat(group_id, "m", -1)
        yield f"{group_id}: described", talk.group(group_id)


def listed(talk: GroupTalk) -> Told:
    for version in (0, 4, 5):
        yield f"version {version}", talk.listed(version)
    for types in (["share"], ["Share"], ["streams"], ["share", "classic"], ["nothing"], [""]):
        yield f"types {types}", talk.listed(types_filter=types)
    for states in (["Empty"], ["Stable"], ["stable"], ["Dead"]):
        yield f"states {states}", talk.listed(types_filter=["share"], states_filter=states)


def deleted(talk: GroupTalk) -> Told:
    talk.ready("full", "log")
    talk.ready("offsets", "log")
    yield "with offsets", talk.offsets("offsets")
    talk.beat("offsets", "m", -1)
    yield "when empty", talk.offsets("offsets")
    yield "several", talk.delete_each("full", "offsets", "left", "gone", "")
    yield "again", talk.delete_each("offsets", "left")
    yield "described", (talk.group("full")[2], talk.group("offsets"), talk.group("left"))
    yield "no offsets", (talk.offsets("offsets"), talk.offsets("offsets", {"log": [0, 1]}))
    yield "made again", talk.join("offsets", "m", "log")
    talk.initialized("offsets", "log")
    yield "made again, offsets", talk.offsets("offsets")


# Where we answer otherwise on purpose, and why.
DIFFERENCES: dict[str, tuple[str, object]] = {
    "described: twice the same": ("a group is answered once, as it may have many members", 1)
}
