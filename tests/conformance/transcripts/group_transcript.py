"""A conversation about groups that any Kafka-compatible broker can be asked to have: each question has a name.

Owns: the questions, and which part of an answer counts (error codes, generations, who leads; no ids, no texts).
"""

from collections.abc import Iterator, Sequence
from typing import Any

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.delete_groups_request import DeleteGroupsRequest
from oncelog.protocol.generated.describe_groups_request import DescribeGroupsRequest
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from oncelog.protocol.generated.leave_group_request import LeaveGroupRequest, MemberIdentity
from oncelog.protocol.generated.list_groups_request import ListGroupsRequest
from oncelog.protocol.generated.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from oncelog.protocol.generated.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from oncelog.protocol.generated.sync_group_request import SyncGroupRequest
from tests.clients.group_members import TOPIC, Broker, Member, commit
from tests.clients.offset_producer import Producer

Told = Iterator[tuple[str, Any]]

# A subscription of version 0 to the topic "read": Kafka reads it.
SUBSCRIPTION = b"\x00\x00" + b"\x00\x00\x00\x01" + b"\x00\x04read" + b"\xff\xff\xff\xff"
RANGE = (("range", SUBSCRIPTION),)
STICKY = (("sticky", SUBSCRIPTION),)


def conversation(broker: Broker) -> Told:
    """Every question and its answer; `broker` must be fresh."""
    _prepare(broker)
    for part in (coordinators, first_steps, one_member, offsets, two_members, ends, static_members, transactions):
        for name, answer in part(broker):
            yield f"{part.__name__}: {name}", answer


def _prepare(broker: Broker) -> None:
    topic = CreatableTopic(name=TOPIC, num_partitions=2, replication_factor=1)
    broker.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5)
    for key_type in (0, 1):
        while broker.ask(FindCoordinatorRequest(key="any", key_type=key_type), 2).error_code:
            broker.let_pass(100)
    # The coordinator of a group may still be loading.
    while ErrorCode(broker.ask(DescribeGroupsRequest(groups=["any"]), 5).groups[0].error_code).retriable:
        broker.let_pass(100)


def _member(broker: Broker, group_id: str, name: str = "client", **settings: Any) -> Member:
    return Member(broker, name, group_id=group_id, protocols=settings.pop("protocols", RANGE), **settings)


def _name(code: int) -> str:
    return ErrorCode(code).name


# --- which part of an answer counts -----------------------------------------------------------------------------------


def _joined(answer: Any) -> tuple[Any, ...]:
    is_leader = bool(answer.member_id) and answer.leader == answer.member_id
    about_protocol = (answer.protocol_type, answer.protocol_name)
    return (_name(answer.error_code), answer.generation_id, *about_protocol, is_leader, len(answer.members))


def _synced(answer: Any) -> tuple[Any, ...]:
    return _name(answer.error_code), answer.protocol_type, answer.protocol_name, answer.assignment


def _described(broker: Broker, group_id: str, version: int = 5) -> tuple[Any, ...]:
    group = broker.ask(DescribeGroupsRequest(groups=[group_id]), version).groups[0]
    members = sorted(
        (member.group_instance_id or "", member.member_metadata, member.member_assignment) for member in group.members
    )
    return _name(group.error_code), group.group_state, group.protocol_type, group.protocol_data, members


def _fetched(
    broker: Broker, group_id: str, partitions: Sequence[int] | None, version: int = 7, *, stable: bool = False
) -> tuple[Any, ...]:
    topics, named = None, None
    if partitions is not None:
        topics = [OffsetFetchRequestTopic(name=TOPIC, partition_indexes=partitions)]
        named = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=partitions)]
    groups = [OffsetFetchRequestGroup(group_id=group_id, topics=named)]
    request = OffsetFetchRequest(group_id=group_id, topics=topics, groups=groups, require_stable=stable)
    answer = broker.ask(request, version)
    answer = answer.groups[0] if version >= 8 else answer
    entries = sorted(
        (entry.partition_index, entry.committed_offset, len(entry.metadata), _name(entry.error_code))
        for topic in answer.topics
        for entry in topic.partitions
    )
    return _name(answer.error_code), entries


def _left(broker: Broker, group_id: str, members: Sequence[tuple[str, str | None]], version: int = 4) -> Any:
    identities = [MemberIdentity(member_id=member_id, group_instance_id=instance) for member_id, instance in members]
    request = LeaveGroupRequest(group_id=group_id, member_id=members[0][0], members=identities)
    answer = broker.ask(request, version)
    return _name(answer.error_code), [
        (bool(entry.member_id), entry.group_instance_id, _name(entry.error_code)) for entry in answer.members
    ]


def _deleted(broker: Broker, *group_ids: str) -> list[str]:
    answer = broker.ask(DeleteGroupsRequest(groups_names=group_ids), 2)
    return [_name(entry.error_code) for entry in answer.results]


def _offset_deleted(broker: Broker, group_id: str, topic: str = TOPIC, partition: int = 0) -> tuple[Any, ...]:
    partitions = [OffsetDeleteRequestPartition(partition_index=partition)]
    topics = [OffsetDeleteRequestTopic(name=topic, partitions=partitions)]
    answer = broker.ask(OffsetDeleteRequest(group_id=group_id, topics=topics), 0)
    return _name(answer.error_code), [
        _name(entry.error_code) for entries in answer.topics for entry in entries.partitions
    ]


def _listed(broker: Broker, **filters: Any) -> list[tuple[str, str, str]]:
    answer = broker.ask(ListGroupsRequest(**filters), 5)
    return sorted((group.group_id, group.protocol_type, group.group_state) for group in answer.groups)


# --- the parts --------------------------------------------------------------------------------------------------------


def coordinators(broker: Broker) -> Told:
    for key, key_type, version in (("", 0, 2), ("", 1, 2), ("x", 7, 2), ("x", 7, 4), ("x", 2, 5), ("x", 0, 6)):
        answer = broker.ask(FindCoordinatorRequest(key=key, key_type=key_type, coordinator_keys=[key]), version)
        found = answer.coordinators[0] if version >= 4 else answer
        yield f"key {key!r} of type {key_type}, version {version}", (_name(found.error_code), found.node_id >= 0)


def first_steps(broker: Broker) -> Told:
    for name, member in (
        ("without a group id", _member(broker, "")),
        ("with a short session timeout", _member(broker, "first", session_timeout_ms=10)),
        ("with an id that nobody gave out", _member(broker, "first", member_id="nobody")),
        ("without protocols", _member(broker, "first-refused", protocols=())),
        ("without a kind", _member(broker, "first-refused", protocol_type="")),
    ):
        for version in (3, 5, 7):
            member.join_version = version
            yield f"join {name}, version {version}", _joined(member.send_join().message)
    member = _member(broker, "first", join_version=5)
    answer = member.send_join().message
    yield "first join", _joined(answer)
    yield "the id begins with the client's name", answer.member_id.startswith("client-")
    member.member_id = answer.member_id
    member.join_version = 9
    yield "second join", _joined(member.join().message)


def one_member(broker: Broker) -> Told:
    member = _member(broker, "one")
    member.join()
    member.learn()
    stranger = _member(broker, "one", member_id="stranger", generation_id=1)
    stale = _member(broker, "one", member_id=member.member_id, generation_id=0)
    other_instance = _member(broker, "one", member_id=member.member_id, generation_id=1, group_instance_id="instance")
    yield "heartbeat before the sync", member.heartbeat().name
    yield "commit before the sync", member.commit(1).name
    yield "sync of a stranger", _synced(stranger.sync().message)
    yield "sync of an old generation", _synced(stale.sync().message)
    for names in ((None, None), ("consumer", "other"), ("other", "range")):
        request = SyncGroupRequest(
            group_id="one",
            generation_id=1,
            member_id=member.member_id,
            protocol_type=names[0],
            protocol_name=names[1],
        )
        yield f"sync with protocol {names}", _synced(broker.ask(request, 5))
    yield "sync", _synced(member.sync({member.member_id: b"part"}).message)
    yield "sync again with another assignment", _synced(member.sync({member.member_id: b"other"}).message)
    for name, who in (("member", member), ("stranger", stranger), ("old", stale), ("instance", other_instance)):
        yield f"heartbeat of {name}", who.heartbeat().name
        yield f"commit of {name}", who.commit(5).name
    for group_id in ("nowhere", ""):
        yield f"heartbeat to {group_id!r}", _member(broker, group_id, generation_id=1).heartbeat().name
    yield "join with another protocol", _joined(_member(broker, "one", protocols=STICKY).send_join().message)
    yield "join as another kind", _joined(_member(broker, "one", protocol_type="connect").send_join().message)
    changed = _member(broker, "one", member_id=member.member_id, protocols=STICKY)
    yield "the only member changes its protocol", _joined(changed.send_join().message)
    yield "described", _described(broker, "one")


def offsets(broker: Broker) -> Told:
    def committed(offset: int = 5, group_id: str = "offsets", **settings: Any) -> str:
        return commit(broker, offset, settings.pop("partition", 0), group_id=group_id, **settings).name

    member = _member(broker, "offsets-members")
    member.join()
    member.learn()
    yield "sync", _synced(member.sync({}).message)
    yield "of nobody, while there are members", committed(group_id="offsets-members")
    yield "of a member without a generation", committed(member_id=member.member_id, group_id="offsets-members")
    yield "of nobody", committed()
    yield "with a member id alone", committed(member_id="m")
    for version in (8, 9):
        yield f"of a generation, version {version}", committed(generation_id=1, member_id="m", version=version)
        known = committed(group_id="nowhere", generation_id=1, member_id="m", version=version)
        yield f"of a generation of no group, version {version}", known
    for partition in (9, -1):
        yield f"for partition {partition}", committed(partition=partition)
    yield "for no topic", committed(topic="nowhere")
    for offset in (-1, -5):
        yield f"offset {offset}", committed(offset)
    for name, metadata in (("4096", "x" * 4096), ("4097", "x" * 4097), ("4096 wide", "ä" * 4096), ("null", None)):
        yield f"with metadata: {name}", committed(7, metadata=metadata)
        yield f"fetched: {name}", _fetched(broker, "offsets", [0])
    yield "with the empty group id", committed(group_id="")
    for version in (1, 5, 7, 8):
        yield f"fetched, version {version}", _fetched(broker, "offsets", [0, 1, 9], version)
        yield f"fetched with the empty group id, version {version}", _fetched(broker, "", [0], version)
        if version > 1:
            yield f"all fetched, version {version}", _fetched(broker, "offsets", None, version)
            yield f"all fetched of no group, version {version}", _fetched(broker, "nowhere", None, version)


def two_members(broker: Broker) -> Told:
    one, two = _member(broker, "two", "one"), _member(broker, "two", "two")
    one.join()
    one.learn()
    yield "first sync", _synced(one.sync({one.member_id: b"all"}).message)
    two.member_id = two.send_join().message.member_id
    yield "heartbeat while an id is out", one.heartbeat().name
    waiting = two.send_join()
    yield "the newcomer waits", not waiting.is_there
    yield "heartbeat", one.heartbeat().name
    yield "sync", _synced(one.sync().message)
    yield "commit", one.commit(3).name
    yield "described while it is prepared", _described(broker, "two")
    yield "deleted", _deleted(broker, "two")
    yield "leader joins", _joined(one.send_join().message)
    yield "newcomer joined", _joined(waiting.message)
    one.learn()
    two.learn()
    yield "described while it is completed", _described(broker, "two")
    yield "leader joins again", _joined(one.send_join().message)
    held = two.sync()
    yield "the follower's sync waits", not held.is_there
    yield "leader's sync", _synced(one.sync({one.member_id: b"part"}).message)
    yield "follower's sync", _synced(held.message)
    yield "described", _described(broker, "two")
    yield "follower joins again", _joined(two.send_join().message)
    yield "offset deleted of a topic that is read", _offset_deleted(broker, "two", "read")
    yield "offset deleted", _offset_deleted(broker, "two")
    for version in (2, 4):
        yield f"stranger leaves, version {version}", _left(broker, "two", [("stranger", None)], version)
        yield f"somebody leaves no group, version {version}", _left(broker, "nowhere", [("m", None)], version)
        yield f"somebody leaves without a group id, version {version}", _left(broker, "", [("m", None)], version)
    yield "an instance leaves", _left(broker, "two", [("", "instance")])
    yield "all leave", _left(broker, "two", [(one.member_id, None), (two.member_id, None), (one.member_id, None)])
    yield "described when all have left", _described(broker, "two")
    yield "heartbeat when all have left", one.heartbeat().name
    yield "commit when all have left", one.commit(3).name
    yield "old member joins", _joined(one.send_join().message)


def ends(broker: Broker) -> Told:
    commit(broker, 5, group_id="ends")
    commit(broker, 6, group_id="ends", partition=1)
    yield "listed", [group for group in _listed(broker) if group[0] == "ends"]
    yield "filtered", [group for group in _listed(broker, states_filter=["eMPTY"]) if group[0] == "ends"]
    yield "filtered by another state", [group[0] for group in _listed(broker, states_filter=["bogus"])]
    yield "described", _described(broker, "ends")
    yield "offset deleted", _offset_deleted(broker, "ends", partition=1)
    yield "offset deleted that is not there", _offset_deleted(broker, "ends", partition=1)
    yield "offset deleted of no topic", _offset_deleted(broker, "ends", "nowhere")
    yield "offset deleted of no group", _offset_deleted(broker, "nowhere")
    yield "fetched", _fetched(broker, "ends", [0, 1])
    yield "deleted", _deleted(broker, "ends", "ends")
    yield "deleted again", _deleted(broker, "ends")
    for version in (5, 6):
        yield f"described afterwards, version {version}", _described(broker, "ends", version)
    yield "fetched afterwards", _fetched(broker, "ends", [0])


def static_members(broker: Broker) -> Told:
    def returning(version: int = 7) -> Member:
        return _member(broker, "static", group_instance_id="instance", join_version=version)

    old = returning(5)
    yield "joins", _joined(old.send_join().message)
    old.learn()
    yield "syncs", _synced(old.sync({old.member_id: b"part"}).message)
    new = returning()
    answer = new.send_join().message
    yield "returns", _joined(answer)
    yield "its old id leads", answer.leader == old.member_id
    new.learn()
    for name, member in (("old", old), ("new", new)):
        yield f"{name} heartbeat", member.heartbeat().name
        yield f"{name} sync", _synced(member.sync().message)
        yield f"{name} commit", member.commit(1).name
    yield "old join", _joined(old.send_join().message)
    yield "old leaves", _left(broker, "static", [(old.member_id, "instance")])
    unnamed = _member(broker, "static", member_id=old.member_id, generation_id=1)
    yield "old heartbeat without its instance", unnamed.heartbeat().name
    newest = returning(9)
    answer = newest.send_join().message
    yield "returns, version 9", (*_joined(answer), answer.skip_assignment)
    newest.learn()
    yield "described", _described(broker, "static")
    yield "leader joins again", _joined(newest.send_join().message)
    yield "leaves by its instance", _left(broker, "static", [("", "instance")])
    yield "described afterwards", _described(broker, "static")


def transactions(broker: Broker) -> Told:
    producer = Producer(broker, "transactions").init()

    def sent(offset: int = 5, group_id: str = "transactions", **settings: Any) -> str:
        return producer.send_commit(offset, settings.pop("partition", 0), group_id=group_id, **settings).name

    for version in range(5):
        yield f"before the group is added, version {version}", sent(version=version)
    yield "added", producer.add_offsets("transactions").name
    yield "generation of no group", sent(generation_id=1, member_id="m")
    yield "sent", sent()
    yield "for partition 9", sent(partition=9)
    yield "for no topic", sent(topic="nowhere")
    yield "without a group id", sent(group_id="")
    yield "generation of a group of offsets", sent(group_id="offsets", generation_id=1, member_id="m")
    yield "member id alone", sent(member_id="m")
    for change in (1, -1):
        producer.producer_epoch += change
        yield f"epoch {change:+}", sent()
        producer.producer_epoch -= change
    producer.producer_id += 1000
    yield "another producer id", sent()
    producer.producer_id -= 1000
    producer.transactional_id = "nobody's"
    yield "another transactional id", sent()
    producer.transactional_id = "transactions"
    yield "fetched", _fetched(broker, "transactions", [0, 1])
    yield "fetched when it must be stable", _fetched(broker, "transactions", [0, 1], stable=True)
    yield "all fetched when they must be stable", _fetched(broker, "transactions", None, stable=True)
    yield "described", _described(broker, "transactions")
    yield "plain commit meanwhile", commit(broker, 9, group_id="transactions").name
    producer.end(committed=True)
    yield "the later record counts", _settled(broker)
    while sent() == "CONCURRENT_TRANSACTIONS":
        broker.let_pass(20)
    for version in (3, 4):
        yield f"after the end, version {version}", sent(version=version)
    producer.add_offsets("transactions")
    yield "next transaction", sent(20)
    yield "deleted meanwhile", _deleted(broker, "transactions")
    producer.end(committed=True)
    yield "nothing comes back", _settled(broker)
    producer.add_offsets("transactions")
    Producer(broker, "transactions").init()
    for version in range(5):
        yield f"of a fenced producer, version {version}", sent(version=version)
    producer = Producer(broker, "transactions").init()
    yield "added by itself", sent(33, version=5)
    producer.producer_epoch -= 1
    yield "added by itself, fenced", sent(33, version=5)


def _settled(broker: Broker) -> tuple[Any, ...]:
    """Fetch the stable offsets, once the markers have arrived."""
    while True:
        fetched = _fetched(broker, "transactions", [0], stable=True)
        if "UNSTABLE_OFFSET_COMMIT" not in repr(fetched):
            return fetched
        broker.let_pass(20)


# Where we answer otherwise on purpose, and why.
DIFFERENCES: dict[str, tuple[str, object]] = {
    "transactions: another transactional id": (
        "Kafka asks its transaction coordinator only for the first commit of a transaction, we ask ours each time, so "
        "that nothing slips in between the end of a transaction and its marker",
        "INVALID_PRODUCER_ID_MAPPING",
    ),
    "transactions: all fetched when they must be stable": (
        "Kafka leaves out what has only a pending offset, which a client would take for no offset at all",
        ("NONE", [(0, -1, 0, "UNSTABLE_OFFSET_COMMIT")]),
    ),
}
