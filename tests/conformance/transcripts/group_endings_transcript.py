"""How groups and their offsets end, as any Kafka-compatible broker can be asked: by time, with their topics, with
`__consumer_offsets` itself, and what is answered where that does not exist.

Owns: the questions, and which part of an answer counts. The broker must be fresh and have the settings below; it takes
two and a half minutes of its time.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.consumer_group_describe_request import ConsumerGroupDescribeRequest
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.delete_groups_request import DeleteGroupsRequest
from oncelog.protocol.generated.delete_topics_request import DeleteTopicsRequest
from oncelog.protocol.generated.describe_groups_request import DescribeGroupsRequest
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from oncelog.protocol.generated.leave_group_request import LeaveGroupRequest, MemberIdentity
from oncelog.protocol.generated.list_groups_request import ListGroupsRequest
from oncelog.protocol.generated.metadata_request import MetadataRequest, MetadataRequestTopic
from oncelog.protocol.generated.offset_delete_request import OffsetDeleteRequest
from oncelog.protocol.generated.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.clients.consumer_group_members import Consumer
from tests.clients.group_members import TOPIC, Broker, Member, commit
from tests.clients.offset_producer import Producer

SETTINGS = ("offsets.retention.minutes=1", "offsets.retention.check.interval.ms=500")
RETENTION_MS = 60_000
SOON_MS = 4_000
LONG_SESSION_MS = 1_200_000
OFFSETS = "__consumer_offsets"
# Subscriptions of version 0 to the topics "read" and "topic": Kafka reads them.
READS_READ = (("range", b"\x00\x00" + b"\x00\x00\x00\x01" + b"\x00\x04read" + b"\xff\xff\xff\xff"),)
READS_TOPIC = (("range", b"\x00\x00" + b"\x00\x00\x00\x01" + b"\x00\x05topic" + b"\xff\xff\xff\xff"),)

Told = Iterator[tuple[str, Any]]


def conversation(broker: Broker) -> Told:
    for part in (nowhere, expiry, topics, vanished):
        for name, answer in part(broker):
            yield f"{part.__name__}: {name}", answer


# --- asking -----------------------------------------------------------------------------------------------------------


def _name(code: int) -> str:
    return ErrorCode(code).name


def _create(broker: Broker, *names: str) -> None:
    made = [CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in names]
    answer = broker.ask(CreateTopicsRequest(topics=made, timeout_ms=10_000), 5)
    assert not any(topic.error_code for topic in answer.topics), answer
    wanted = [MetadataRequestTopic(name=name) for name in names]
    while any(topic.error_code for topic in broker.ask(MetadataRequest(topics=wanted), 12).topics):
        broker.let_pass(100)


def _delete(broker: Broker, name: str) -> str:
    answer = broker.ask(DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000), 5)
    broker.let_pass(SOON_MS)
    return _name(answer.responses[0].error_code)


def _find_coordinators(broker: Broker) -> None:
    for key_type in (0, 1):
        while broker.ask(FindCoordinatorRequest(key="any", key_type=key_type), 2).error_code:
            broker.let_pass(100)
    while ErrorCode(broker.ask(DescribeGroupsRequest(groups=["any"]), 5).groups[0].error_code).retriable:
        broker.let_pass(100)


def _listed(broker: Broker) -> list[tuple[str, str, str, str]]:
    answer = broker.ask(ListGroupsRequest(), 5)
    return sorted((group.group_id, group.protocol_type, group.group_state, group.group_type) for group in answer.groups)


def _fetched(broker: Broker, group_id: str) -> tuple[str, list[tuple[str, int, int]]]:
    """All offsets of a group."""
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)])
    answer = broker.ask(request, 8).groups[0]
    return _name(answer.error_code), sorted(
        (topic.name, entry.partition_index, entry.committed_offset)
        for topic in answer.topics
        for entry in topic.partitions
    )


def _described(broker: Broker, group_id: str) -> tuple[str, str, int]:
    group = broker.ask(DescribeGroupsRequest(groups=[group_id]), 5).groups[0]
    return _name(group.error_code), group.group_state, len(group.members)


def _stable(broker: Broker, group_id: str, **settings: Any) -> Member:
    settings = {
        "session_timeout_ms": LONG_SESSION_MS,
        "rebalance_timeout_ms": LONG_SESSION_MS,
        "protocols": READS_READ,
        **settings,
    }
    member = Member(broker, group_id=group_id, **settings)
    member.member_id = member.send_join().message.member_id
    member.send_join()
    member.learn()
    assert member.sync({member.member_id: b""}).message.error_code == ErrorCode.NONE
    return member


def _everything(broker: Broker, group_id: str) -> Told:
    """One request of every group API, of a group of which nothing is known."""
    member = Member(broker, group_id=group_id, protocols=READS_READ)
    for version in (3, 5, 9):
        member.join_version = version
        answer = member.send_join().message
        yield f"join, version {version}", (_name(answer.error_code), bool(answer.member_id), answer.generation_id)
    stranger = Member(broker, group_id=group_id, member_id="stranger", generation_id=1)
    answer = stranger.sync().message
    yield "sync", (_name(answer.error_code), answer.assignment)
    yield "heartbeat", stranger.heartbeat().name
    yield "leave", _left(broker, stranger)
    yield "commit", commit(broker, 1, group_id=group_id).name
    yield "commit of a generation", stranger.commit(1).name
    yield "fetched", _fetched(broker, group_id)
    yield "described", _described(broker, group_id)
    yield (
        "described as a consumer group",
        _name(broker.ask(ConsumerGroupDescribeRequest(group_ids=[group_id]), 1).groups[0].error_code),
    )
    answer = broker.ask(ListGroupsRequest(), 5)
    yield "listed", (_name(answer.error_code), [group.group_id for group in answer.groups])
    answer = broker.ask(DeleteGroupsRequest(groups_names=[group_id]), 2)
    yield "deleted", [_name(entry.error_code) for entry in answer.results]
    answer = broker.ask(OffsetDeleteRequest(group_id=group_id), 0)
    yield "offsets deleted", _name(answer.error_code)
    yield "consumer heartbeat", Consumer(broker, "fresh", group_id=group_id).join().name


def _left(broker: Broker, member: Member) -> Any:
    request = LeaveGroupRequest(group_id=member.group_id, members=[MemberIdentity(member_id=member.member_id)])
    answer = broker.ask(request, 4)
    return _name(answer.error_code), [_name(entry.error_code) for entry in answer.members]


# --- the parts --------------------------------------------------------------------------------------------------------


def nowhere(broker: Broker) -> Told:
    """Requests before any client has asked for a coordinator."""
    _create(broker, TOPIC, "read")
    yield from _everything(broker, "nowhere")
    _find_coordinators(broker)


def expiry(broker: Broker) -> Told:
    """KIP-211: which offsets go after the retention depends on the state of their group."""
    modern = _leave_vacant(broker)
    broker.let_pass(SOON_MS)
    yield "listed soon", _listed(broker)
    yield "an offset with a retention of its own", _fetched(broker, "own-retention")
    broker.let_pass(RETENTION_MS * 2 // 3 - SOON_MS)
    modern.heartbeat()
    for group_id in ("plain", "left", "left-connect"):
        commit(broker, 2, 1, group_id=group_id)
    producer = Producer(broker, "expiry").init()
    for group_id in ("pending", "only-pending"):
        producer.commit_offset(3, group_id=group_id)
    broker.let_pass(RETENTION_MS // 3 + SOON_MS)
    for group_id in ("plain", "left", "left-connect", "reading", "reading-prepares", "connecting", "modern"):
        yield f"fetched: {group_id}", _fetched(broker, group_id)
    for group_id in ("modern-left", "pending", "only-pending"):
        yield f"fetched: {group_id}", _fetched(broker, group_id)
    yield "listed", _listed(broker)
    producer.end(committed=False)
    broker.let_pass(RETENTION_MS + SOON_MS)
    yield "listed at the end", _listed(broker)


def _leave_vacant(broker: Broker) -> Consumer:
    """Groups in all states, with and without offsets; the member of a consumer group, whose session is short."""
    commit(broker, 1, group_id="plain")
    commit(broker, 1, 0, group_id="own-retention", version=4, retention_time_ms=1)
    commit(broker, 1, 1, group_id="own-retention", version=4, retention_time_ms=RETENTION_MS * 20)
    for group_id, protocol_type in (("left", "consumer"), ("left-connect", "connect")):
        member = _stable(broker, group_id, protocol_type=protocol_type)
        member.commit(1)
        member.leave()
    _stable(broker, "left-without-offsets").leave()
    _stable(broker, "reading-without-offsets")
    for group_id in ("reading", "reading-prepares"):
        member = _stable(broker, group_id)
        for topic in (TOPIC, "read"):
            generation_id, member_id = member.generation_id, member.member_id
            commit(broker, 1, topic=topic, group_id=group_id, generation_id=generation_id, member_id=member_id)
    # A member that was asked to join again and does not: nothing is settled.
    Member(broker, "late", group_id="reading-prepares", join_version=3, protocols=READS_READ).send_join()
    _stable(broker, "connecting", protocol_type="connect").commit(1)
    commit(broker, 1, group_id="modern")
    commit(broker, 1, topic="read", group_id="modern")
    modern = Consumer(broker, "reader", group_id="modern", topics=("read",))
    modern.join()
    left = Consumer(broker, "leaver", group_id="modern-left")
    left.join()
    commit(broker, 1, group_id="modern-left", generation_id=left.epoch, member_id=left.member_id, version=9)
    left.leave()
    without = Consumer(broker, "leaver", group_id="modern-left-without-offsets")
    without.join()
    without.leave()
    commit(broker, 1, group_id="pending")
    return modern


def topics(broker: Broker) -> Told:
    """A deletion of a topic deletes the offsets for it, those of open transactions too."""
    _create(broker, "gone", "kept")
    for topic in ("gone", "kept"):
        for group_id in ("simple", "both"):
            commit(broker, 5, topic=topic, group_id=group_id)
    commit(broker, 5, topic="gone", group_id="only-gone")
    reading = _stable(broker, "member")
    generation_id, member_id = reading.generation_id, reading.member_id
    commit(broker, 5, topic="gone", group_id="member", generation_id=generation_id, member_id=member_id)
    producer = Producer(broker, "topics").init()
    for group_id in ("both", "only-pending"):
        producer.add_offsets(group_id)
        producer.send_commit(6, topic="gone", group_id=group_id)
    yield "the topic is deleted", _delete(broker, "gone")
    groups: Sequence[str] = ("simple", "both", "only-gone", "member", "only-pending")
    for group_id in groups:
        yield f"fetched: {group_id}", _fetched(broker, group_id)
    yield "offset of a topic that is gone", commit(broker, 7, topic="gone", group_id="simple").name
    yield "listed", [group for group in _listed(broker) if group[0] in groups]
    _create(broker, "gone")
    producer.end(committed=True)
    broker.let_pass(SOON_MS)
    for group_id in groups:
        yield f"fetched when there is one of its name: {group_id}", _fetched(broker, group_id)
    yield "listed afterwards", [group for group in _listed(broker) if group[0] in groups]
    reading.leave()


def vanished(broker: Broker) -> Told:
    """`__consumer_offsets` is deleted: no group was ever there."""
    member = _stable(broker, "stable", protocols=READS_TOPIC)
    member.commit(5)
    waits = _stable(broker, "prepares", protocols=READS_TOPIC)
    joining = Member(broker, "late", group_id="prepares", join_version=3, protocols=READS_TOPIC).send_join()
    follower = _completing(broker)
    syncing = follower.sync()
    consumer = Consumer(broker, "reader", group_id="modern-vanishes")
    consumer.join()
    commit(broker, 5, group_id="simple-vanishes")
    producer = Producer(broker, "vanished").init()
    producer.commit_offset(5, group_id="transactional")
    yield "a join and a sync wait", (joining.is_there, syncing.is_there)
    yield "deleted", _delete(broker, OFFSETS)
    yield "the join that waited", _name(joining.message.error_code)
    yield "the sync that waited", _name(syncing.message.error_code)
    yield "heartbeat of a member", member.heartbeat().name
    yield "heartbeat of one that was to join again", waits.heartbeat().name
    yield "commit of a member", member.commit(6).name
    yield "heartbeat of a consumer", consumer.heartbeat().name
    yield "transactional commit", producer.send_commit(6, group_id="transactional").name
    for name, answer in _everything(broker, "stable"):
        yield f"afterwards: {name}", answer
    yield from _found_again(broker, member, consumer, producer)


def _found_again(broker: Broker, member: Member, consumer: Consumer, producer: Producer) -> Told:
    _find_coordinators(broker)
    yield "again: listed", _listed(broker)
    yield "again: heartbeat of a member", member.heartbeat().name
    yield "again: commit of a member", member.commit(6).name
    yield "again: heartbeat of a consumer", consumer.heartbeat().name
    for group_id in ("stable", "simple-vanishes", "transactional"):
        yield f"again: fetched {group_id}", _fetched(broker, group_id)
    yield "again: join with the old id", _name(member.send_join().message.error_code)
    fresh = _stable(broker, "stable", protocols=READS_TOPIC)
    yield "again: generation", fresh.generation_id
    yield "again: commit", fresh.commit(7).name
    yield "again: the consumer joins", (consumer.join().name, consumer.epoch)
    yield "again: transactional commit", producer.send_commit(8, group_id="transactional").name
    answer = producer.send_end(committed=True).message
    yield "again: the end of the transaction", _name(answer.error_code)
    broker.let_pass(SOON_MS)
    for group_id in ("stable", "transactional"):
        yield f"again: fetched at the end {group_id}", _fetched(broker, group_id)


def _completing(broker: Broker) -> Member:
    """The follower of a group whose leader has not assigned yet."""
    leader = _stable(broker, "completes", protocols=READS_TOPIC)
    follower = Member(broker, "follower", group_id="completes", join_version=3, protocols=READS_TOPIC)
    follower.session_timeout_ms = follower.rebalance_timeout_ms = LONG_SESSION_MS
    follower.send_join()
    leader.send_join()
    leader.learn()
    follower.learn()
    return follower


# Where we answer otherwise on purpose, and why.
DIFFERENCES: dict[str, tuple[str, object]] = {
    "vanished: transactional commit": (
        "Kafka asks the partition about the transaction first, and it is not there; either sends the producer to look "
        "the coordinator up again",
        "NOT_COORDINATOR",
    ),
}
