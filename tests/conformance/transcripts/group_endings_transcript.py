"""How groups and their offsets end, as any Kafka-compatible broker can be asked: by time, with their topics, with
`__consumer_offsets` itself, and what is answered where that does not exist.

Owns: the questions, and which part of an answer counts. The broker must be fresh and have the settings below; it takes
two and a half minutes of its time.
"""

from collections.abc import Sequence
from typing import Any

from oncelog.protocol.errors import ErrorCode
from tests.clients.asking import Broker, Told, counts, name, parts_of
from tests.clients.consumer_group_members import Consumer
from tests.clients.group_asker import GroupAsker
from tests.clients.group_members import TOPIC, Member, commit
from tests.clients.offset_producer import Producer

SETTINGS = ("offsets.retention.minutes=1", "offsets.retention.check.interval.ms=500")
RETENTION_MS = 60_000
SOON_MS = 4_000
LONG_SESSION_MS = 1_200_000
OFFSETS = "__consumer_offsets"
# Subscriptions of version 0 to the topics "read" and "topic": Kafka reads them.
READS_READ = (("range", b"\x00\x00" + b"\x00\x00\x00\x01" + b"\x00\x04read" + b"\xff\xff\xff\xff"),)
READS_TOPIC = (("range", b"\x00\x00" + b"\x00\x00\x00\x01" + b"\x00\x05topic" + b"\xff\xff\xff\xff"),)


def conversation(broker: Broker) -> Told:
    yield from parts_of(GroupAsker(broker), nowhere, expiry, topics, vanished)


# --- asking -----------------------------------------------------------------------------------------------------------


def _delete(talk: GroupAsker, topic: str) -> str:
    error = talk.delete_topic(topic)
    talk.broker.let_pass(SOON_MS)
    return error


def _stable(talk: GroupAsker, group_id: str, **settings: Any) -> Member:
    settings = {
        "session_timeout_ms": LONG_SESSION_MS,
        "rebalance_timeout_ms": LONG_SESSION_MS,
        "protocols": READS_READ,
        **settings,
    }
    member = Member(talk.broker, group_id=group_id, **settings)
    member.member_id = member.send_join().message.member_id
    member.send_join()
    member.learn()
    assert member.sync({member.member_id: b""}).message.error_code == ErrorCode.NONE
    return member


def _everything(talk: GroupAsker, group_id: str) -> Told:
    """One request of every group API, of a group of which nothing is known."""
    member = Member(talk.broker, group_id=group_id, protocols=READS_READ)
    for version in (3, 5, 9):
        member.join_version = version
        shape = "error_code member_id:bool generation_id"
        yield f"join, version {version}", counts(member.send_join().message, shape)
    stranger = Member(talk.broker, group_id=group_id, member_id="stranger", generation_id=1)
    yield "sync", counts(stranger.sync().message, "error_code assignment")
    yield "heartbeat", stranger.heartbeat().name
    yield "leave", talk.leave(group_id, ("stranger", None))
    yield "commit", commit(talk.broker, 1, group_id=group_id).name
    yield "commit of a generation", stranger.commit(1).name
    yield "fetched", talk.all_offsets(group_id)
    group = {"groups": [group_id]}
    yield "described", talk.ask("DescribeGroups", 5, "groups.0(error_code group_state members:len)", **group)
    consumers = talk.ask("ConsumerGroupDescribe", 1, "groups.0.error_code", group_ids=[group_id])
    yield "described as a consumer group", consumers
    yield "listed", talk.ask("ListGroups", 5, "error_code groups.group_id")
    yield "deleted", talk.delete_groups(group_id)
    yield "offsets deleted", talk.ask("OffsetDelete", 0, "error_code", group_id=group_id)
    yield "consumer heartbeat", Consumer(talk.broker, "fresh", group_id=group_id).join().name


# --- the parts --------------------------------------------------------------------------------------------------------


def nowhere(talk: GroupAsker) -> Told:
    """Requests before any client has asked for a coordinator."""
    talk.create(TOPIC, 2)
    talk.create("read", 2)
    yield from _everything(talk, "nowhere")
    talk.await_coordinators()


def expiry(talk: GroupAsker) -> Told:
    """KIP-211: which offsets go after the retention depends on the state of their group."""
    modern = _leave_vacant(talk)
    talk.broker.let_pass(SOON_MS)
    yield "listed soon", talk.listed()[1]
    yield "an offset with a retention of its own", talk.all_offsets("own-retention")
    talk.broker.let_pass(RETENTION_MS * 2 // 3 - SOON_MS)
    modern.heartbeat()
    for group_id in ("plain", "left", "left-connect"):
        commit(talk.broker, 2, 1, group_id=group_id)
    producer = Producer(talk.broker, "expiry").init()
    for group_id in ("pending", "only-pending"):
        producer.commit_offset(3, group_id=group_id)
    talk.broker.let_pass(RETENTION_MS // 3 + SOON_MS)
    for group_id in ("plain", "left", "left-connect", "reading", "reading-prepares", "connecting", "modern"):
        yield f"fetched: {group_id}", talk.all_offsets(group_id)
    for group_id in ("modern-left", "pending", "only-pending"):
        yield f"fetched: {group_id}", talk.all_offsets(group_id)
    yield "listed", talk.listed()[1]
    producer.end(committed=False)
    talk.broker.let_pass(RETENTION_MS + SOON_MS)
    yield "listed at the end", talk.listed()[1]


def _leave_vacant(talk: GroupAsker) -> Consumer:
    """Groups in all states, with and without offsets; the member of a consumer group, whose session is short."""
    commit(talk.broker, 1, group_id="plain")
    commit(talk.broker, 1, 0, group_id="own-retention", version=4, retention_time_ms=1)
    commit(talk.broker, 1, 1, group_id="own-retention", version=4, retention_time_ms=RETENTION_MS * 20)
    for group_id, protocol_type in (("left", "consumer"), ("left-connect", "connect")):
        member = _stable(talk, group_id, protocol_type=protocol_type)
        member.commit(1)
        member.leave()
    _stable(talk, "left-without-offsets").leave()
    _stable(talk, "reading-without-offsets")
    for group_id in ("reading", "reading-prepares"):
        member = _stable(talk, group_id)
        for topic in (TOPIC, "read"):
            generation_id, member_id = member.generation_id, member.member_id
            commit(talk.broker, 1, topic=topic, group_id=group_id, generation_id=generation_id, member_id=member_id)
    # A member that was asked to join again and does not: nothing is settled.
    Member(talk.broker, "late", group_id="reading-prepares", join_version=3, protocols=READS_READ).send_join()
    _stable(talk, "connecting", protocol_type="connect").commit(1)
    commit(talk.broker, 1, group_id="modern")
    commit(talk.broker, 1, topic="read", group_id="modern")
    modern = Consumer(talk.broker, "reader", group_id="modern", topics=("read",))
    modern.join()
    left = Consumer(talk.broker, "leaver", group_id="modern-left")
    left.join()
    commit(talk.broker, 1, group_id="modern-left", generation_id=left.epoch, member_id=left.member_id, version=9)
    left.leave()
    without = Consumer(talk.broker, "leaver", group_id="modern-left-without-offsets")
    without.join()
    without.leave()
    commit(talk.broker, 1, group_id="pending")
    return modern


def topics(talk: GroupAsker) -> Told:
    """A deletion of a topic deletes the offsets for it, those of open transactions too."""
    talk.create("gone", 2)
    talk.create("kept", 2)
    for topic in ("gone", "kept"):
        for group_id in ("simple", "both"):
            commit(talk.broker, 5, topic=topic, group_id=group_id)
    commit(talk.broker, 5, topic="gone", group_id="only-gone")
    reading = _stable(talk, "member")
    generation_id, member_id = reading.generation_id, reading.member_id
    commit(talk.broker, 5, topic="gone", group_id="member", generation_id=generation_id, member_id=member_id)
    producer = Producer(talk.broker, "topics").init()
    for group_id in ("both", "only-pending"):
        producer.add_offsets(group_id)
        producer.send_commit(6, topic="gone", group_id=group_id)
    yield "the topic is deleted", _delete(talk, "gone")
    groups: Sequence[str] = ("simple", "both", "only-gone", "member", "only-pending")
    for group_id in groups:
        yield f"fetched: {group_id}", talk.all_offsets(group_id)
    yield "offset of a topic that is gone", commit(talk.broker, 7, topic="gone", group_id="simple").name
    yield "listed", [group for group in talk.listed()[1] if group[0] in groups]
    talk.create("gone", 2)
    producer.end(committed=True)
    talk.broker.let_pass(SOON_MS)
    for group_id in groups:
        yield f"fetched when there is one of its name: {group_id}", talk.all_offsets(group_id)
    yield "listed afterwards", [group for group in talk.listed()[1] if group[0] in groups]
    reading.leave()


def vanished(talk: GroupAsker) -> Told:
    """`__consumer_offsets` is deleted: no group was ever there."""
    member = _stable(talk, "stable", protocols=READS_TOPIC)
    member.commit(5)
    waits = _stable(talk, "prepares", protocols=READS_TOPIC)
    joining = Member(talk.broker, "late", group_id="prepares", join_version=3, protocols=READS_TOPIC).send_join()
    follower = _completing(talk)
    syncing = follower.sync()
    consumer = Consumer(talk.broker, "reader", group_id="modern-vanishes")
    consumer.join()
    commit(talk.broker, 5, group_id="simple-vanishes")
    producer = Producer(talk.broker, "vanished").init()
    producer.commit_offset(5, group_id="transactional")
    yield "a join and a sync wait", (joining.is_there, syncing.is_there)
    yield "deleted", _delete(talk, OFFSETS)
    yield "the join that waited", name(joining.message.error_code)
    yield "the sync that waited", name(syncing.message.error_code)
    yield "heartbeat of a member", member.heartbeat().name
    yield "heartbeat of one that was to join again", waits.heartbeat().name
    yield "commit of a member", member.commit(6).name
    yield "heartbeat of a consumer", consumer.heartbeat().name
    yield "transactional commit", producer.send_commit(6, group_id="transactional").name
    for question, answer in _everything(talk, "stable"):
        yield f"afterwards: {question}", answer
    yield from _found_again(talk, member, consumer, producer)


def _found_again(talk: GroupAsker, member: Member, consumer: Consumer, producer: Producer) -> Told:
    talk.await_coordinators()
    yield "again: listed", talk.listed()[1]
    yield "again: heartbeat of a member", member.heartbeat().name
    yield "again: commit of a member", member.commit(6).name
    yield "again: heartbeat of a consumer", consumer.heartbeat().name
    for group_id in ("stable", "simple-vanishes", "transactional"):
        yield f"again: fetched {group_id}", talk.all_offsets(group_id)
    yield "again: join with the old id", name(member.send_join().message.error_code)
    fresh = _stable(talk, "stable", protocols=READS_TOPIC)
    yield "again: generation", fresh.generation_id
    yield "again: commit", fresh.commit(7).name
    yield "again: the consumer joins", (consumer.join().name, consumer.epoch)
    yield "again: transactional commit", producer.send_commit(8, group_id="transactional").name
    answer = producer.send_end(committed=True).message
    yield "again: the end of the transaction", name(answer.error_code)
    talk.broker.let_pass(SOON_MS)
    for group_id in ("stable", "transactional"):
        yield f"again: fetched at the end {group_id}", talk.all_offsets(group_id)


def _completing(talk: GroupAsker) -> Member:
    """The follower of a group whose leader has not assigned yet."""
    leader = _stable(talk, "completes", protocols=READS_TOPIC)
    follower = Member(talk.broker, "follower", group_id="completes", join_version=3, protocols=READS_TOPIC)
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
