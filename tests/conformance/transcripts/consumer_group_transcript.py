"""A conversation about consumer groups (KIP-848) that any Kafka-compatible broker can be asked to have.

Owns: the questions, and which part of an answer counts: error codes and texts, epochs, assignments by topic name; no
ids that a broker makes.
"""

from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.consumer_group_describe_request import ConsumerGroupDescribeRequest
from oncelog.protocol.generated.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.delete_groups_request import DeleteGroupsRequest
from oncelog.protocol.generated.describe_groups_request import DescribeGroupsRequest
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from oncelog.protocol.generated.heartbeat_request import HeartbeatRequest
from oncelog.protocol.generated.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from oncelog.protocol.generated.leave_group_request import LeaveGroupRequest, MemberIdentity
from oncelog.protocol.generated.list_groups_request import ListGroupsRequest
from oncelog.protocol.generated.metadata_request import MetadataRequest, MetadataRequestTopic
from oncelog.protocol.generated.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog.protocol.generated.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from oncelog.protocol.generated.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from oncelog.protocol.generated.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from tests.clients.group_members import Broker
from tests.clients.offset_producer import Producer

Told = Iterator[tuple[str, Any]]
TOPICS = {"topic": 4, "other": 2}
INTERVAL_MS = 1_200
"""Longer than the time between two assignments of a group."""


def conversation(broker: Broker) -> Told:
    """Every question and its answer; `broker` must be fresh."""
    ask = Asker(broker)
    for part in (
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
    ):
        for name, answer in part(ask):
            yield f"{part.__name__}: {name}", answer


def _name(code: int) -> str:
    return ErrorCode(code).name


class Asker:
    """Asks, and keeps of an answer what counts."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        topics = [
            CreatableTopic(name=name, num_partitions=count, replication_factor=1) for name, count in TOPICS.items()
        ]
        broker.ask(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 5)
        for key_type in (0, 1):
            while broker.ask(FindCoordinatorRequest(key="any", key_type=key_type), 2).error_code:
                broker.let_pass(100)
        while ErrorCode(broker.ask(DescribeGroupsRequest(groups=["any"]), 5).groups[0].error_code).retriable:
            broker.let_pass(100)
        wanted = [MetadataRequestTopic(name=name) for name in TOPICS]
        found = broker.ask(MetadataRequest(topics=wanted), 12).topics
        self.ids: dict[str, UUID] = {topic.name: topic.topic_id for topic in found}
        self.names = {topic_id: name for name, topic_id in self.ids.items()}

    def beat(self, group_id: str, member_id: str, epoch: int, version: int = 1, **fields: Any) -> tuple[Any, ...]:
        owned = fields.pop("owned", None)
        if owned is not None:
            fields["topic_partitions"] = [
                TopicPartitions(topic_id=self.ids[name], partitions=numbers) for name, numbers in owned.items()
            ]
        request = ConsumerGroupHeartbeatRequest(group_id=group_id, member_id=member_id, member_epoch=epoch, **fields)
        answer = self.broker.ask(request, version)
        told = None if answer.assignment is None else self._assigned(answer.assignment.topic_partitions)
        echoes = answer.member_id == member_id
        error = (_name(answer.error_code), answer.error_message)
        return (*error, echoes, answer.member_epoch, answer.heartbeat_interval_ms, told)

    def _assigned(self, entries: Sequence[Any]) -> list[tuple[str, list[int]]]:
        return sorted((self.names[entry.topic_id], sorted(entry.partitions)) for entry in entries)

    def join(self, group_id: str, member_id: str, version: int = 1, **fields: Any) -> tuple[Any, ...]:
        said = {"rebalance_timeout_ms": 60_000, "topic_partitions": [], "subscribed_topic_names": ["topic"]}
        return self.beat(group_id, member_id, 0, version, **{**said, **fields})

    def group(self, group_id: str) -> tuple[Any, ...]:
        group = self.broker.ask(ConsumerGroupDescribeRequest(group_ids=[group_id]), 1).groups[0]
        members = sorted(
            (
                member.member_id,
                member.instance_id,
                member.member_epoch,
                sorted(member.subscribed_topic_names),
                member.subscribed_topic_regex,
                self._assigned(member.assignment.topic_partitions),
                self._assigned(member.target_assignment.topic_partitions),
                member.member_type,
            )
            for member in group.members
        )
        state = (group.group_state, group.group_epoch, group.assignment_epoch, group.assignor_name)
        return (_name(group.error_code), group.error_message, *state, members)

    def let_pass(self) -> None:
        self.broker.let_pass(INTERVAL_MS)

    # --- the classic protocol -----------------------------------------------------------------------------------------

    def classic_join(
        self,
        group_id: str,
        member_id: str = "",
        instance_id: str | None = None,
        protocols: Any = None,
        kind: str = "consumer",
    ) -> Any:
        offered = (
            protocols if protocols is not None else [("range", SUBSCRIPTION), ("cooperative-sticky", SUBSCRIPTION)]
        )
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=60_000,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=kind,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in offered],
        )
        reply = self.broker.send(request, 7)
        return reply.message if reply.is_there else None

    def sync(self, group_id: str, generation_id: int, member_id: str, **fields: Any) -> tuple[Any, ...]:
        request = SyncGroupRequest(group_id=group_id, generation_id=generation_id, member_id=member_id, **fields)
        answer = self.broker.ask(request, 5)
        return _name(answer.error_code), answer.protocol_type, answer.protocol_name, bytes(answer.assignment)

    def classic_beat(self, group_id: str, generation_id: int, member_id: str, instance_id: str | None = None) -> str:
        request = HeartbeatRequest(
            group_id=group_id, generation_id=generation_id, member_id=member_id, group_instance_id=instance_id
        )
        return _name(self.broker.ask(request, 4).error_code)

    def leave(self, group_id: str, *members: tuple[str, str | None]) -> Any:
        identities = [
            MemberIdentity(member_id=member_id, group_instance_id=instance) for member_id, instance in members
        ]
        answer = self.broker.ask(LeaveGroupRequest(group_id=group_id, members=identities), 4)
        return _name(answer.error_code), [_name(entry.error_code) for entry in answer.members]

    def listed(self, **filters: Any) -> Any:
        groups = self.broker.ask(ListGroupsRequest(**filters), 5).groups
        return sorted((group.group_id, group.protocol_type, group.group_state, group.group_type) for group in groups)

    def classic_group(self, group_id: str, version: int) -> Any:
        group = self.broker.ask(DescribeGroupsRequest(groups=[group_id]), version).groups[0]
        message = group.error_message if version >= 6 else None
        members = sorted((member.group_instance_id or "", bytes(member.member_assignment)) for member in group.members)
        return _name(group.error_code), message, group.group_state, group.protocol_type, group.protocol_data, members

    def commit(
        self, group_id: str, member_id: str, epoch: int, partition: int, version: int = 9, topic: str = "topic"
    ) -> str:
        data = OffsetCommitRequestPartition(partition_index=partition, committed_offset=1, committed_metadata="")
        topics = [OffsetCommitRequestTopic(name=topic, topic_id=self.ids[topic], partitions=[data])]
        request = OffsetCommitRequest(
            group_id=group_id, member_id=member_id, generation_id_or_member_epoch=epoch, topics=topics
        )
        return _name(self.broker.ask(request, version).topics[0].partitions[0].error_code)

    def fetch(self, group_id: str, member_id: str | None, epoch: int, version: int = 9) -> Any:
        topics = [OffsetFetchRequestTopics(name="topic", topic_id=self.ids["topic"], partition_indexes=[0])]
        group = OffsetFetchRequestGroup(group_id=group_id, member_id=member_id, member_epoch=epoch, topics=topics)
        answer = self.broker.ask(OffsetFetchRequest(groups=[group], require_stable=False), version).groups[0]
        partitions = [entry.committed_offset for topic in answer.topics for entry in topic.partitions]
        return _name(answer.error_code), partitions


# A subscription of version 1 to the topic "topic", without owned partitions.
SUBSCRIPTION = b"\x00\x01" + b"\x00\x00\x00\x01" + b"\x00\x05topic" + b"\xff\xff\xff\xff" + b"\x00\x00\x00\x00"
# An assignment of version 1: the four partitions of "topic".
ASSIGNMENT = (
    b"\x00\x01\x00\x00\x00\x01\x00\x05topic\x00\x00\x00\x04"
    + b"".join(number.to_bytes(4, "big") for number in range(4))
    + b"\xff\xff\xff\xff"
)


# --- the parts --------------------------------------------------------------------------------------------------------


def validation(ask: Asker) -> Told:
    empty = TopicPartitions()
    for fields in (
        {"instance_id": ""},
        {"rack_id": " "},
        {"rebalance_timeout_ms": -1},
        {"topic_partitions": None},
        {"topic_partitions": [empty]},
        {"subscribed_topic_names": None},
        {"server_assignor": "nope"},
        {"server_assignor": ""},
    ):
        said: dict[str, Any] = fields
        yield (
            f"join with {sorted(said)} {'' if empty in (said.get('topic_partitions') or ()) else said}",
            ask.join("v", "m", **said),
        )
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


def two_members(ask: Asker) -> Told:
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


def subscriptions(ask: Asker) -> Told:
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


def expressions(ask: Asker) -> Told:
    group = "expressions"
    yield "a bad one", ask.join(group, "one", subscribed_topic_names=None, subscribed_topic_regex="a(")[0]
    yield "no group was made", ask.group(group)
    ask.join(group, "one", subscribed_topic_names=None, subscribed_topic_regex="top.*")
    ask.let_pass()
    yield "matched", ask.join(group, "one", subscribed_topic_names=None, subscribed_topic_regex="top.*")
    yield "matched, described", ask.group(group)
    yield "a bad one while there is a good one", ask.beat(group, "one", 2, subscribed_topic_regex="[")[0]
    yield "the good one is still there", ask.beat(group, "one", 2)
    yield (
        "from end to end",
        ask.join("expressions-2", "one", subscribed_topic_names=[], subscribed_topic_regex="opi"),
    )
    ask.let_pass()
    yield "from end to end, described", ask.group("expressions-2")[-1]
    yield "none any more", ask.beat(group, "one", 2, subscribed_topic_regex="")
    yield "none any more, described", ask.group(group)


def static_members(ask: Asker) -> Told:
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


def offsets(ask: Asker) -> Told:
    group = "offsets"
    ask.join(group, "one")
    for version, epoch, member in (
        (9, 2, "one"), (10, 2, "one"), (8, 2, "one"), (9, 3, "one"), (9, 1, "one"), (9, 2, "nobody"), (9, -1, ""),
        (9, -1, "one"),
    ):  # fmt: skip
        yield f"commit of {member!r} in {epoch}, version {version}", ask.commit(group, member, epoch, 0, version)
    for version, epoch, reader in (
        (9, 2, "one"),
        (9, 1, "one"),
        (9, 2, "nobody"),
        (9, -1, None),
        (9, 2, None),
        (8, -1, None),
        (9, -1, "one"),
    ):
        yield f"fetch of {reader!r} in {epoch}, version {version}", ask.fetch(group, reader, epoch, version)
    ask.join(group, "two")
    ask.let_pass()
    ask.beat(group, "two", 2)
    ask.beat(group, "one", 2)
    ask.beat(group, "one", 2, owned={"topic": [0, 1]})
    ask.beat(group, "two", 3)
    yield "an older epoch for what it has had since", ask.commit(group, "one", 2, 0)
    yield "an older epoch for what it has lost", ask.commit(group, "one", 2, 2)
    yield "the epoch for what another has", ask.commit(group, "one", 3, 2)
    yield "an older epoch for what is new", ask.commit(group, "two", 2, 2)
    yield "a topic that it does not read", ask.commit(group, "one", 2, 0, topic="other")
    producer = Producer(ask.broker).init()
    producer.add_offsets(group)
    for member, epoch in (("one", 3), ("one", 9), ("nobody", 3), ("", -1), ("one", -1)):
        answer = producer.send_commit(5, 1, group_id=group, member_id=member, generation_id=epoch)
        yield f"transactional commit of {member!r} in {epoch}", answer.name
    producer.end(committed=False)


def tools(ask: Asker) -> Told:
    group = "tools"
    ask.join(group, "one")
    ask.commit(group, "one", 2, 0)
    ask.commit(group, "one", 2, 0, topic="other")
    yield "classic description, version 5", ask.classic_group(group, 5)
    yield "classic description, version 6", ask.classic_group(group, 6)
    yield "listed by type", [entry for entry in ask.listed(types_filter=["CONSUMER"]) if entry[0] == group]
    yield "listed by state", [entry for entry in ask.listed(states_filter=["stable"]) if entry[0] == group]
    yield "not listed", [entry for entry in ask.listed(types_filter=["classic"]) if entry[0] == group]
    for topic in TOPICS:
        partitions = [OffsetDeleteRequestPartition(partition_index=0)]
        request = OffsetDeleteRequest(
            group_id=group, topics=[OffsetDeleteRequestTopic(name=topic, partitions=partitions)]
        )
        answer = ask.broker.ask(request, 0)
        deleted = [_name(entry.error_code) for entries in answer.topics for entry in entries.partitions]
        yield f"offsets of {topic} deleted", (_name(answer.error_code), deleted)

    def delete() -> Any:
        answer = ask.broker.ask(DeleteGroupsRequest(groups_names=[group]), 2)
        return [_name(entry.error_code) for entry in answer.results]

    yield "deleted with a member", delete()
    ask.beat(group, "one", -1)
    yield "deleted", delete()
    yield "deleted again", delete()
    yield "it is gone", ask.group(group)


def empty_groups(ask: Asker) -> Told:
    ask.join("empty", "one")
    ask.beat("empty", "one", -1)
    yield "sync", ask.sync("empty", 1, "x", protocol_type="consumer", protocol_name="range")[0]
    yield "heartbeat", ask.classic_beat("empty", 1, "x")
    yield "leave", ask.leave("empty", ("x", None))
    joined = ask.classic_join("empty")
    yield "a classic member may come", _name(joined.error_code)
    joined = ask.classic_join("empty", joined.member_id)
    yield "and is in a classic group", (_name(joined.error_code), joined.generation_id, joined.protocol_name)
    yield "which is no consumer group", ask.group("empty")
    ask.sync("empty", 1, joined.member_id, protocol_type="consumer", protocol_name="range")
    ask.leave("empty", (joined.member_id, None))
    yield "nor when it is empty", ask.group("empty")
    yield "a report is none of its", ask.beat("empty", "one", 5)
    yield "a leave is none of its", ask.beat("empty", "one", -1)
    yield "a consumer may come again", ask.join("empty", "one")


def _formed(ask: Asker, group: str, instance_id: str | None = None, kind: str = "consumer") -> tuple[str, int]:
    """A classic group of one member that has all partitions."""
    joined = ask.classic_join(group, instance_id=instance_id, kind=kind)
    if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        joined = ask.classic_join(group, joined.member_id, kind=kind)
    request = SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        group_instance_id=instance_id,
        assignments=[_assignment(joined.member_id)],
    )
    ask.broker.ask(request, 4)
    return joined.member_id, joined.generation_id


def _assignment(member_id: str) -> Any:
    return SyncGroupRequestAssignment(member_id=member_id, assignment=ASSIGNMENT)


def upgrade(ask: Asker) -> Told:
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
    yield (
        "it may not sync before",
        ask.sync(group, generation, classic, protocol_type="consumer", protocol_name="range"),
    )
    joined = ask.classic_join(group, classic)
    yield (
        "it joins",
        (_name(joined.error_code), joined.generation_id, joined.protocol_name, joined.leader, len(joined.members)),
    )
    yield (
        "and has its part",
        ask.sync(group, joined.generation_id, classic, protocol_type="consumer", protocol_name="range"),
    )
    yield "beats", ask.classic_beat(group, joined.generation_id, classic)
    yield "the consumer has its part", ask.beat(group, "one", 2)
    others = [member[2:] for member in ask.group(group)[-1]]
    yield "all is well", sorted(others)
    strange, _ = _formed(ask, "strange", kind="connect")
    yield "a group of another kind cannot", (bool(strange), ask.join("strange", "one"))


def classic_members(ask: Asker) -> Told:
    group = "classic"
    ask.join(group, "one")
    refused = ask.classic_join(group, kind="connect")
    yield "another kind", _name(refused.error_code)
    yield "no protocols", _name(ask.classic_join(group, protocols=[]).error_code)
    malformed = ask.classic_join(group, "x", protocols=[("range", b"\x00")])
    yield "no subscription", _name(malformed.error_code)
    joined = ask.classic_join(group)
    yield "first it needs an id", _name(joined.error_code)
    joined = ask.classic_join(group, "chosen")
    yield "any id will do", (_name(joined.error_code), joined.member_id, joined.generation_id)
    yield "sync", ask.sync(group, joined.generation_id, "chosen", protocol_type="consumer", protocol_name="range")
    yield (
        "sync of another protocol",
        ask.sync(group, joined.generation_id, "chosen", protocol_type="consumer", protocol_name="sticky"),
    )
    yield (
        "sync of another kind",
        ask.sync(group, joined.generation_id, "chosen", protocol_type="connect", protocol_name="range"),
    )
    yield "sync of another generation", ask.sync(group, 77, "chosen", protocol_type="consumer", protocol_name="range")
    yield "sync of a consumer", ask.sync(group, 2, "one", protocol_type="consumer", protocol_name="range")
    yield "sync of nobody", ask.sync(group, 2, "nobody", protocol_type="consumer", protocol_name="range")
    yield "heartbeat", ask.classic_beat(group, joined.generation_id, "chosen")
    yield "heartbeat of another generation", ask.classic_beat(group, 77, "chosen")
    yield "heartbeat of a consumer", ask.classic_beat(group, 2, "one")
    yield "heartbeat of an instance that is not there", ask.classic_beat(group, 2, "chosen", "i")
    other = ask.classic_join(group, "third", protocols=[("sticky", SUBSCRIPTION)])
    yield "without a common protocol", _name(other.error_code)
    yield "commit before version 9", ask.commit(group, "chosen", joined.generation_id, 0, 8)
    yield "commit of another generation", ask.commit(group, "chosen", 77, 0, 8)
    yield "a tool removes members", ask.leave(group, ("nobody", None), ("", "i"), ("chosen", None), ("one", None))
    yield "nobody is left", ask.group(group)


def downgrade(ask: Asker) -> Told:
    group = "downgrade"
    classic, _ = _formed(ask, group)
    ask.join(group, "one")
    ask.let_pass()
    ask.beat(group, "one", 2)
    joined = ask.classic_join(group, classic)
    ask.sync(group, joined.generation_id, classic, protocol_type="consumer", protocol_name="range")
    yield "the consumer leaves", ask.beat(group, "one", -1)
    yield "the group is a classic one", ask.classic_group(group, 6)
    yield "and rebalances", ask.classic_beat(group, joined.generation_id, classic)
    yield "it is no consumer group", ask.group(group)
    joined = ask.classic_join(group, classic)
    yield "it goes on", (_name(joined.error_code), joined.generation_id, joined.leader == classic)


def static_downgrade(ask: Asker) -> Told:
    group = "static-downgrade"
    classic, _ = _formed(ask, group, "classic")
    ask.join(group, "one", instance_id="i")
    ask.let_pass()
    ask.beat(group, "one", 2, instance_id="i")
    joined = ask.classic_join(group, classic, "classic")
    ask.sync(
        group,
        joined.generation_id,
        classic,
        group_instance_id="classic",
        protocol_type="consumer",
        protocol_name="range",
    )
    ask.beat(group, "one", 2, instance_id="i")
    yield "all is well", ask.group(group)[2:5]
    back = ask.classic_join(group, "", "i")
    yield "the last consumer comes back as a classic member", (_name(back.error_code), back.generation_id)
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
