"""A conversation about consumer groups (KIP-848) that any Kafka-compatible broker can be asked to have.

Owns: the questions, and which part of an answer counts: error codes and texts, epochs, assignments by topic name; no
ids that a broker makes.
"""

from typing import Any

from oncelog.protocol.errors import ErrorCode
from tests.clients.asking import Broker, Told, name, parts_of, same, since
from tests.clients.group_asker import GroupAsker
from tests.clients.offset_producer import Producer

TOPICS = {"topic": 4, "other": 2}
INTERVAL_MS = 1_200
"""Longer than the time between two assignments of a group."""


def conversation(broker: Broker) -> Told:
    """Every question and its answer; `broker` must be fresh."""
    ask = Talk(broker)
    ask.prepare(**TOPICS)
    yield from parts_of(
        ask,
        validation,
        two_members,
        subscriptions,
        expressions,
        static_members,
        offsets,
        tools,
        empty_groups,
        upgrade,
        classic_members,
        downgrade,
        static_downgrade,
    )


# A subscription of version 1 to the topic "topic", without owned partitions.
SUBSCRIPTION = b"\x00\x01" + b"\x00\x00\x00\x01" + b"\x00\x05topic" + b"\xff\xff\xff\xff" + b"\x00\x00\x00\x00"
# An assignment of version 1: the four partitions of "topic".
ASSIGNMENT = (
    b"\x00\x01\x00\x00\x00\x01\x00\x05topic\x00\x00\x00\x04"
    + b"".join(number.to_bytes(4, "big") for number in range(4))
    + b"\xff\xff\xff\xff"
)
_ASSIGNED = "topic_partitions{topic_id:topic partitions{}}"


class Talk(GroupAsker):
    def beat(self, group_id: str, member_id: str, epoch: int, version: int = 1, **fields: Any) -> tuple[Any, ...]:
        owned = fields.pop("owned", None)
        if owned is not None:
            fields["topic_partitions"] = [(self.ids[topic], numbers) for topic, numbers in owned.items()]
        who = {"group_id": group_id, "member_id": member_id, "member_epoch": epoch}
        answer = self.ask("ConsumerGroupHeartbeat", version, **who, **fields)
        shape = f"error_code error_message member_id:same member_epoch heartbeat_interval_ms assignment.{_ASSIGNED}"
        told: tuple[Any, ...] = self.counts(answer, shape, same=same(member_id))
        return told

    def join(self, group_id: str, member_id: str, version: int = 1, **fields: Any) -> tuple[Any, ...]:
        said = {"rebalance_timeout_ms": 60_000, "topic_partitions": [], "subscribed_topic_names": ["topic"]}
        return self.beat(group_id, member_id, 0, version, **{**said, **fields})

    def group(self, group_id: str) -> tuple[Any, ...]:
        shape = (
            "groups.0(error_code error_message group_state group_epoch assignment_epoch assignor_name "
            "members{member_id instance_id member_epoch subscribed_topic_names{} subscribed_topic_regex "
            f"assignment.{_ASSIGNED} target_assignment.{_ASSIGNED} member_type}})"
        )
        described: tuple[Any, ...] = self.ask("ConsumerGroupDescribe", 1, shape, group_ids=[group_id])
        return described

    def let_pass(self) -> None:
        self.broker.let_pass(INTERVAL_MS)

    # --- the classic protocol -----------------------------------------------------------------------------------------

    def classic_join(
        self,
        group_id: str,
        member_id: str = "",
        instance_id: str | None = None,
        protocols: Any = (("range", SUBSCRIPTION), ("cooperative-sticky", SUBSCRIPTION)),
        kind: str = "consumer",
    ) -> Any:
        reply = self.send(
            "JoinGroup",
            7,
            group_id=group_id,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=60_000,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=kind,
            protocols=protocols,
        )
        return reply.message if reply.is_there else None

    def sync(
        self, group_id: str, generation_id: int, member_id: str, kind: str = "consumer", protocol: str = "range"
    ) -> tuple[Any, ...]:
        who = {"group_id": group_id, "generation_id": generation_id, "member_id": member_id}
        shape = "error_code protocol_type protocol_name assignment:bytes"
        synced: tuple[Any, ...] = self.ask("SyncGroup", 5, shape, **who, protocol_type=kind, protocol_name=protocol)
        return synced

    def classic_beat(self, group_id: str, generation_id: int, member_id: str, instance_id: str | None = None) -> Any:
        who = {"group_id": group_id, "member_id": member_id, "group_instance_id": instance_id}
        return self.ask("Heartbeat", 4, "error_code", generation_id=generation_id, **who)

    def classic_group(self, group_id: str, version: int) -> Any:
        answer = self.ask("DescribeGroups", version, groups=[group_id])
        shape = (
            "groups.0(error_code error_message:since_6 group_state protocol_type protocol_data "
            "members{group_instance_id:named member_assignment:bytes})"
        )
        ways = {"since_6": since(6, version), "named": lambda instance: instance or ""}
        return self.counts(answer, shape, **ways)


# --- the parts --------------------------------------------------------------------------------------------------------


def validation(ask: Talk) -> Told:
    refused: tuple[dict[str, Any], ...] = (
        {"instance_id": ""},
        {"rack_id": " "},
        {"rebalance_timeout_ms": -1},
        {"topic_partitions": None},
        {"topic_partitions": [{}]},
        {"subscribed_topic_names": None},
        {"server_assignor": "nope"},
        {"server_assignor": ""},
    )
    for said in refused:
        question = f"join with {sorted(said)} {'' if said.get('topic_partitions') else said}"
        yield question, ask.join("v", "m", **said)
    yield "join without a group", ask.join("", "m")
    yield "join without a member id", ask.join("v", "")
    yield "leave, version 0, without a member id", ask.beat("v", "", -1, 0)
    yield "report, version 0, without a member id", ask.beat("v", "", 3, 0)
    for epoch in (3, -1, -2, -3):
        yield f"epoch {epoch} in no group", ask.beat("v", "m", epoch)
    yield "static leave of no group", ask.beat("v", "m", -2, instance_id="i")
    yield "no group", ask.group("v")
    yield "no group id", ask.group("")
    yield "join, version 0, the broker makes the id", ask.join("v0", "", 0)


def two_members(ask: Talk) -> Told:
    group = "two"
    yield "one joins", ask.join(group, "one")
    yield "one reports", ask.beat(group, "one", 2)
    yield (
        "one says all",
        ask.beat(
            group,
            "one",
            2,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=["topic"],
            owned={"topic": [0, 1, 2, 3]},
        ),
    )
    yield "two joins", ask.join(group, "two")
    yield "two is there", ask.group(group)
    ask.let_pass()
    for epoch in (1, 2, 3):
        yield f"two reports {epoch}", ask.beat(group, "two", epoch)
    yield "one reports 2", ask.beat(group, "one", 2)
    yield "one is revoking", ask.group(group)
    yield "one is still revoking", ask.beat(group, "one", 2, owned={"topic": [0, 1, 2]})
    yield "one has revoked", ask.beat(group, "one", 2, owned={"topic": [0, 1]})
    yield "one repeats that", ask.beat(group, "one", 2, owned={"topic": [0, 1]})
    yield "one repeats otherwise", ask.beat(group, "one", 2, owned={"topic": [0, 2]})
    yield "one repeats without saying", ask.beat(group, "one", 2)
    yield "two may have them", ask.beat(group, "two", 3)
    yield "two is ahead", ask.beat(group, "two", 9)
    yield "all is well", ask.group(group)
    yield "somebody else", ask.beat(group, "three", 3)
    yield "somebody else leaves", ask.beat(group, "three", -1)
    yield "two joins again", ask.join(group, "two")
    yield "two leaves", ask.beat(group, "two", -1)
    yield "one is left", ask.group(group)
    yield "too early", ask.beat(group, "one", 3)
    ask.let_pass()
    yield "late enough", ask.beat(group, "one", 3)
    yield "one has all", ask.group(group)
    yield "one leaves", ask.beat(group, "one", -1)
    yield "nobody is left", ask.group(group)


def subscriptions(ask: Talk) -> Told:
    group = "subscriptions"
    yield "nothing", ask.join(group, "one", subscribed_topic_names=[])
    yield "nothing, described", ask.group(group)
    yield "nothing, reported", ask.beat(group, "one", 1)
    yield "range", ask.beat(group, "one", 1, server_assignor="range")
    yield "range, described", ask.group(group)
    ask.let_pass()
    yield "twice the same", ask.beat(group, "one", 1, subscribed_topic_names=["topic", "topic"])
    yield "twice the same, described", ask.group(group)
    ask.let_pass()
    yield "another, and one that is not there", ask.beat(group, "one", 2, subscribed_topic_names=["other", "gone"])
    yield "another, described", ask.group(group)
    ask.let_pass()
    yield "another, owned", ask.beat(group, "one", 3, owned={"other": [0, 1]})
    yield "at once", ask.beat(group, "one", 3, subscribed_topic_names=["topic", "other"])
    yield "at once, nothing is given up", ask.beat(group, "one", 3, subscribed_topic_names=["topic"])
    yield "before the interval", ask.group(group)
    yield "it is given up", ask.beat(group, "one", 3, owned={})
    ask.let_pass()
    yield "after the interval", ask.beat(group, "one", 3, owned={})
    yield "in the end", ask.group(group)


def expressions(ask: Talk) -> Told:
    group = "expressions"
    yield "a bad one", ask.join(group, "one", subscribed_topic_names=None, subscribed_topic_regex="a(")[0]
    yield "no group was made", ask.group(group)
    ask.join(group, "one", subscribed_topic_names=None, subscribed_topic_regex="top.*")
    ask.let_pass()
    yield "matched", ask.join(group, "one", subscribed_topic_names=None, subscribed_topic_regex="top.*")
    yield "matched, described", ask.group(group)
    yield "a bad one while there is a good one", ask.beat(group, "one", 2, subscribed_topic_regex="[")[0]
    yield "the good one is still there", ask.beat(group, "one", 2)
    answer = ask.join("expressions-2", "one", subscribed_topic_names=[], subscribed_topic_regex="opi")
    yield "from end to end", answer
    ask.let_pass()
    yield "from end to end, described", ask.group("expressions-2")[-1]
    yield "none any more", ask.beat(group, "one", 2, subscribed_topic_regex="")
    yield "none any more, described", ask.group(group)


def static_members(ask: Talk) -> Told:
    group = "static"
    yield "joins", ask.join(group, "one", instance_id="i")
    yield "reports", ask.beat(group, "one", 2, instance_id="i")
    yield "reports without its instance id", ask.beat(group, "one", 2)
    yield "another id for it", ask.join(group, "two", instance_id="i")
    yield "itself again", ask.join(group, "one", instance_id="i")
    yield "another id reports", ask.beat(group, "two", 2, instance_id="i")
    yield "another instance reports", ask.beat(group, "one", 2, instance_id="j")
    yield "another id leaves", ask.beat(group, "two", -2, instance_id="i")
    yield "another instance leaves", ask.beat(group, "one", -2, instance_id="j")
    yield "a dynamic leave of a static member", ask.beat(group, "three", -1, instance_id="i")
    yield "is away", ask.beat(group, "one", -2, instance_id="i")
    yield "is away, described", ask.group(group)
    yield "reports while away", ask.beat(group, "one", 2, instance_id="i")
    yield "is back", ask.join(group, "two", instance_id="i")
    yield "is back, described", ask.group(group)
    yield "its old self reports", ask.beat(group, "one", 2, instance_id="i")
    yield "goes for good", ask.beat(group, "two", -1, instance_id="i")
    yield "is gone", ask.group(group)


def offsets(ask: Talk) -> Told:
    group = "offsets"
    ask.join(group, "one")
    for version, epoch, member in (
        (9, 2, "one"), (10, 2, "one"), (8, 2, "one"), (9, 3, "one"), (9, 1, "one"), (9, 2, "nobody"), (9, -1, ""),
        (9, -1, "one"),
    ):  # fmt: skip
        told = ask.commit(group, member, epoch, "topic", 0, version)
        yield f"commit of {member!r} in {epoch}, version {version}", told
    for version, epoch, reader in (
        (9, 2, "one"),
        (9, 1, "one"),
        (9, 2, "nobody"),
        (9, -1, None),
        (9, 2, None),
        (8, -1, None),
        (9, -1, "one"),
    ):
        yield f"fetch of {reader!r} in {epoch}, version {version}", ask.fetched(group, reader, epoch, "topic", version)
    ask.join(group, "two")
    ask.let_pass()
    ask.beat(group, "two", 2)
    ask.beat(group, "one", 2)
    ask.beat(group, "one", 2, owned={"topic": [0, 1]})
    ask.beat(group, "two", 3)
    yield "an older epoch for what it has had since", ask.commit(group, "one", 2, "topic", 0)
    yield "an older epoch for what it has lost", ask.commit(group, "one", 2, "topic", 2)
    yield "the epoch for what another has", ask.commit(group, "one", 3, "topic", 2)
    yield "an older epoch for what is new", ask.commit(group, "two", 2, "topic", 2)
    yield "a topic that it does not read", ask.commit(group, "one", 2, "other", 0)
    producer = Producer(ask.broker).init()
    producer.add_offsets(group)
    for member, epoch in (("one", 3), ("one", 9), ("nobody", 3), ("", -1), ("one", -1)):
        answer = producer.send_commit(5, 1, group_id=group, member_id=member, generation_id=epoch)
        yield f"transactional commit of {member!r} in {epoch}", answer.name
    producer.end(committed=False)


def tools(ask: Talk) -> Told:
    group = "tools"
    ask.join(group, "one")
    ask.commit(group, "one", 2, "topic", 0)
    ask.commit(group, "one", 2, "other", 0)
    yield "classic description, version 5", ask.classic_group(group, 5)
    yield "classic description, version 6", ask.classic_group(group, 6)
    yield "listed by type", [entry for entry in ask.listed(types_filter=["CONSUMER"])[1] if entry[0] == group]
    yield "listed by state", [entry for entry in ask.listed(states_filter=["stable"])[1] if entry[0] == group]
    yield "not listed", [entry for entry in ask.listed(types_filter=["classic"])[1] if entry[0] == group]
    for topic in TOPICS:
        yield f"offsets of {topic} deleted", ask.delete_offset(group, topic)
    yield "deleted with a member", ask.delete_groups(group)
    ask.beat(group, "one", -1)
    yield "deleted", ask.delete_groups(group)
    yield "deleted again", ask.delete_groups(group)
    yield "it is gone", ask.group(group)


def empty_groups(ask: Talk) -> Told:
    ask.join("empty", "one")
    ask.beat("empty", "one", -1)
    yield "sync", ask.sync("empty", 1, "x")[0]
    yield "heartbeat", ask.classic_beat("empty", 1, "x")
    yield "leave", ask.leave("empty", ("x", None))
    joined = ask.classic_join("empty")
    yield "a classic member may come", name(joined.error_code)
    joined = ask.classic_join("empty", joined.member_id)
    yield "and is in a classic group", (name(joined.error_code), joined.generation_id, joined.protocol_name)
    yield "which is no consumer group", ask.group("empty")
    ask.sync("empty", 1, joined.member_id)
    ask.leave("empty", (joined.member_id, None))
    yield "nor when it is empty", ask.group("empty")
    yield "a report is none of its", ask.beat("empty", "one", 5)
    yield "a leave is none of its", ask.beat("empty", "one", -1)
    yield "a consumer may come again", ask.join("empty", "one")


def _formed(ask: Talk, group: str, instance_id: str | None = None, kind: str = "consumer") -> tuple[str, int]:
    """A classic group of one member that has all partitions."""
    joined = ask.classic_join(group, instance_id=instance_id, kind=kind)
    if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        joined = ask.classic_join(group, joined.member_id, kind=kind)
    who = {"group_id": group, "member_id": joined.member_id, "group_instance_id": instance_id}
    assignments = [(joined.member_id, ASSIGNMENT)]
    ask.ask("SyncGroup", 4, **who, generation_id=joined.generation_id, assignments=assignments)
    return joined.member_id, joined.generation_id


def upgrade(ask: Talk) -> Told:
    group = "upgrade"
    classic, generation = _formed(ask, group)
    yield "a report does not upgrade", ask.beat(group, "one", 3)
    yield "a consumer joins", ask.join(group, "one")
    described = ask.group(group)
    yield "the group is a consumer group", described[:6]
    yield "of both kinds", sorted((member[2:]) for member in described[-1])
    yield "the classic member is told", ask.classic_beat(group, generation, classic)
    ask.let_pass()
    yield "the consumer gets the new target", ask.beat(group, "one", 2)
    yield "the classic member is asked to join", ask.classic_beat(group, generation, classic)
    answer = ask.sync(group, generation, classic)
    yield "it may not sync before", answer
    joined = ask.classic_join(group, classic)
    answer = (name(joined.error_code), joined.generation_id, joined.protocol_name, joined.leader, len(joined.members))
    yield "it joins", answer
    answer = ask.sync(group, joined.generation_id, classic)
    yield "and has its part", answer
    yield "beats", ask.classic_beat(group, joined.generation_id, classic)
    yield "the consumer has its part", ask.beat(group, "one", 2)
    others = [member[2:] for member in ask.group(group)[-1]]
    yield "all is well", sorted(others)
    strange, _ = _formed(ask, "strange", kind="connect")
    yield "a group of another kind cannot", (bool(strange), ask.join("strange", "one"))


def classic_members(ask: Talk) -> Told:
    group = "classic"
    ask.join(group, "one")
    refused = ask.classic_join(group, kind="connect")
    yield "another kind", name(refused.error_code)
    yield "no protocols", name(ask.classic_join(group, protocols=[]).error_code)
    malformed = ask.classic_join(group, "x", protocols=[("range", b"\x00")])
    yield "no subscription", name(malformed.error_code)
    joined = ask.classic_join(group)
    yield "first it needs an id", name(joined.error_code)
    joined = ask.classic_join(group, "chosen")
    yield "any id will do", (name(joined.error_code), joined.member_id, joined.generation_id)
    yield "sync", ask.sync(group, joined.generation_id, "chosen")
    answer = ask.sync(group, joined.generation_id, "chosen", protocol="sticky")
    yield "sync of another protocol", answer
    answer = ask.sync(group, joined.generation_id, "chosen", kind="connect")
    yield "sync of another kind", answer
    yield "sync of another generation", ask.sync(group, 77, "chosen")
    yield "sync of a consumer", ask.sync(group, 2, "one")
    yield "sync of nobody", ask.sync(group, 2, "nobody")
    yield "heartbeat", ask.classic_beat(group, joined.generation_id, "chosen")
    yield "heartbeat of another generation", ask.classic_beat(group, 77, "chosen")
    yield "heartbeat of a consumer", ask.classic_beat(group, 2, "one")
    yield "heartbeat of an instance that is not there", ask.classic_beat(group, 2, "chosen", "i")
    other = ask.classic_join(group, "third", protocols=[("sticky", SUBSCRIPTION)])
    yield "without a common protocol", name(other.error_code)
    yield "commit before version 9", ask.commit(group, "chosen", joined.generation_id, "topic", 0, 8)
    yield "commit of another generation", ask.commit(group, "chosen", 77, "topic", 0, 8)
    yield "a tool removes members", ask.leave(group, ("nobody", None), ("", "i"), ("chosen", None), ("one", None))
    yield "nobody is left", ask.group(group)


def downgrade(ask: Talk) -> Told:
    group = "downgrade"
    classic, _ = _formed(ask, group)
    ask.join(group, "one")
    ask.let_pass()
    ask.beat(group, "one", 2)
    joined = ask.classic_join(group, classic)
    ask.sync(group, joined.generation_id, classic)
    yield "the consumer leaves", ask.beat(group, "one", -1)
    yield "the group is a classic one", ask.classic_group(group, 6)
    yield "and rebalances", ask.classic_beat(group, joined.generation_id, classic)
    yield "it is no consumer group", ask.group(group)
    joined = ask.classic_join(group, classic)
    yield "it goes on", (name(joined.error_code), joined.generation_id, joined.leader == classic)


def static_downgrade(ask: Talk) -> Told:
    group = "static-downgrade"
    classic, _ = _formed(ask, group, "classic")
    ask.join(group, "one", instance_id="i")
    ask.let_pass()
    ask.beat(group, "one", 2, instance_id="i")
    joined = ask.classic_join(group, classic, "classic")
    who = {"group_id": group, "member_id": classic, "group_instance_id": "classic"}
    ask.ask("SyncGroup", 5, **who, generation_id=joined.generation_id, protocol_type="consumer", protocol_name="range")
    ask.beat(group, "one", 2, instance_id="i")
    yield "all is well", ask.group(group)[2:5]
    back = ask.classic_join(group, "", "i")
    yield "the last consumer comes back as a classic member", (name(back.error_code), back.generation_id)
    yield "the group is a classic one", ask.classic_group(group, 6)
    yield "which goes on", ask.classic_beat(group, joined.generation_id, classic, "classic")


# Where we answer otherwise on purpose, and why.
DIFFERENCES: dict[str, tuple[str, object]] = {
    "offsets: fetch of None in 2, version 9": (
        "Kafka stumbles over a member epoch without a member id",
        ("UNKNOWN_MEMBER_ID", []),
    ),
    "classic_members: no subscription": (
        "Kafka stumbles over a subscription that is cut short, though it has an error for one that cannot be read",
        "INCONSISTENT_GROUP_PROTOCOL",
    ),
}
