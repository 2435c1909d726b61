"""A conversation about groups that any Kafka-compatible broker can be asked to have: each question has a name.

Owns: the questions, and which part of an answer counts (error codes, generations, who leads; no ids, no texts).
"""

from collections.abc import Sequence
from typing import Any

from tests.clients.asking import Broker, Told, counts, name, parts_of
from tests.clients.group_asker import GroupAsker
from tests.clients.group_members import TOPIC, Member, commit
from tests.clients.offset_producer import Producer

# A subscription of version 0 to the topic "read": Kafka reads it.
SUBSCRIPTION = b"\x00\x00" + b"\x00\x00\x00\x01" + b"\x00\x04read" + b"\xff\xff\xff\xff"
RANGE = (("range", SUBSCRIPTION),)
STICKY = (("sticky", SUBSCRIPTION),)


def conversation(broker: Broker) -> Told:
    """Every question and its answer; `broker` must be fresh."""
    talk = Talk(broker)
    talk.prepare(**{TOPIC: 2})
    yield from parts_of(
        talk, coordinators, first_steps, one_member, offsets, two_members, ends, static_members, transactions
    )


# --- which part of an answer counts -----------------------------------------------------------------------------------

_SYNCED = "error_code protocol_type protocol_name assignment"


def _joined(answer: Any) -> Any:
    shape = "error_code generation_id protocol_type protocol_name leader:is_it members:len"
    return counts(answer, shape, is_it=lambda leader: bool(answer.member_id) and leader == answer.member_id)


def _synced(answer: Any) -> Any:
    return counts(answer, _SYNCED)


class Talk(GroupAsker):
    def member(self, group_id: str, client: str = "client", **settings: Any) -> Member:
        return Member(self.broker, client, group_id=group_id, protocols=settings.pop("protocols", RANGE), **settings)

    def described(self, group_id: str, version: int = 5) -> Any:
        shape = (
            "groups.0(error_code group_state protocol_type protocol_data "
            "members{group_instance_id:named member_metadata member_assignment})"
        )
        answer = self.ask("DescribeGroups", version, groups=[group_id])
        return self.counts(answer, shape, named=lambda instance: instance or "")

    def fetched(
        self, group_id: str, partitions: Sequence[int] | None, version: int = 7, *, stable: bool = False
    ) -> Any:
        topics = None if partitions is None else [{"name": TOPIC, "partition_indexes": partitions}]
        group = {"group_id": group_id, "topics": topics}
        of = "error_code topics/partitions{partition_index committed_offset metadata:len error_code}"
        shape = f"groups.0({of})" if version >= 8 else of
        return self.ask("OffsetFetch", version, shape, **group, groups=[group], require_stable=stable)

    def left(self, group_id: str, members: Sequence[tuple[str, str | None]], version: int = 4) -> Any:
        shape = "error_code members(member_id:bool group_instance_id error_code)"
        who = {"group_id": group_id, "member_id": members[0][0]}
        return self.ask("LeaveGroup", version, shape, **who, members=members)

    def listed_as(self, group_id: str, **filters: Any) -> list[tuple[Any, ...]]:
        return [group[:3] for group in self.listed(**filters)[1] if group[0] == group_id]


# --- the parts --------------------------------------------------------------------------------------------------------


def coordinators(talk: Talk) -> Told:
    for key, key_type, version in (("", 0, 2), ("", 1, 2), ("x", 7, 2), ("x", 7, 4), ("x", 2, 5), ("x", 0, 6)):
        answer = talk.ask("FindCoordinator", version, key=key, key_type=key_type, coordinator_keys=[key])
        found = answer.coordinators[0] if version >= 4 else answer
        yield f"key {key!r} of type {key_type}, version {version}", (name(found.error_code), found.node_id >= 0)


def first_steps(talk: Talk) -> Told:
    for what, member in (
        ("without a group id", talk.member("")),
        ("with a short session timeout", talk.member("first", session_timeout_ms=10)),
        ("with an id that nobody gave out", talk.member("first", member_id="nobody")),
        ("without protocols", talk.member("first-refused", protocols=())),
        ("without a kind", talk.member("first-refused", protocol_type="")),
    ):
        for version in (3, 5, 7):
            member.join_version = version
            yield f"join {what}, version {version}", _joined(member.send_join().message)
    member = talk.member("first", join_version=5)
    answer = member.send_join().message
    yield "first join", _joined(answer)
    yield "the id begins with the client's name", answer.member_id.startswith("client-")
    member.member_id = answer.member_id
    member.join_version = 9
    yield "second join", _joined(member.join().message)


def one_member(talk: Talk) -> Told:
    member = talk.member("one")
    member.join()
    member.learn()
    stranger = talk.member("one", member_id="stranger", generation_id=1)
    stale = talk.member("one", member_id=member.member_id, generation_id=0)
    other_instance = talk.member("one", member_id=member.member_id, generation_id=1, group_instance_id="instance")
    yield "heartbeat before the sync", member.heartbeat().name
    yield "commit before the sync", member.commit(1).name
    yield "sync of a stranger", _synced(stranger.sync().message)
    yield "sync of an old generation", _synced(stale.sync().message)
    for names in ((None, None), ("consumer", "other"), ("other", "range")):
        who = {"group_id": "one", "generation_id": 1, "member_id": member.member_id}
        said = {"protocol_type": names[0], "protocol_name": names[1]}
        yield f"sync with protocol {names}", talk.ask("SyncGroup", 5, _SYNCED, **who, **said)
    yield "sync", _synced(member.sync({member.member_id: b"part"}).message)
    yield "sync again with another assignment", _synced(member.sync({member.member_id: b"other"}).message)
    for what, who in (("member", member), ("stranger", stranger), ("old", stale), ("instance", other_instance)):
        yield f"heartbeat of {what}", who.heartbeat().name
        yield f"commit of {what}", who.commit(5).name
    for group_id in ("nowhere", ""):
        yield f"heartbeat to {group_id!r}", talk.member(group_id, generation_id=1).heartbeat().name
    yield "join with another protocol", _joined(talk.member("one", protocols=STICKY).send_join().message)
    yield "join as another kind", _joined(talk.member("one", protocol_type="connect").send_join().message)
    changed = talk.member("one", member_id=member.member_id, protocols=STICKY)
    yield "the only member changes its protocol", _joined(changed.send_join().message)
    yield "described", talk.described("one")


def offsets(talk: Talk) -> Told:
    def committed(offset: int = 5, group_id: str = "offsets", **settings: Any) -> str:
        return commit(talk.broker, offset, settings.pop("partition", 0), group_id=group_id, **settings).name

    member = talk.member("offsets-members")
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
    for what, metadata in (("4096", "x" * 4096), ("4097", "x" * 4097), ("4096 wide", "ä" * 4096), ("null", None)):
        yield f"with metadata: {what}", committed(7, metadata=metadata)
        yield f"fetched: {what}", talk.fetched("offsets", [0])
    yield "with the empty group id", committed(group_id="")
    for version in (1, 5, 7, 8):
        yield f"fetched, version {version}", talk.fetched("offsets", [0, 1, 9], version)
        yield f"fetched with the empty group id, version {version}", talk.fetched("", [0], version)
        if version > 1:
            yield f"all fetched, version {version}", talk.fetched("offsets", None, version)
            yield f"all fetched of no group, version {version}", talk.fetched("nowhere", None, version)


def two_members(talk: Talk) -> Told:
    one, two = talk.member("two", "one"), talk.member("two", "two")
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
    yield "described while it is prepared", talk.described("two")
    yield "deleted", talk.delete_groups("two")
    yield "leader joins", _joined(one.send_join().message)
    yield "newcomer joined", _joined(waiting.message)
    one.learn()
    two.learn()
    yield "described while it is completed", talk.described("two")
    yield "leader joins again", _joined(one.send_join().message)
    held = two.sync()
    yield "the follower's sync waits", not held.is_there
    yield "leader's sync", _synced(one.sync({one.member_id: b"part"}).message)
    yield "follower's sync", _synced(held.message)
    yield "described", talk.described("two")
    yield "follower joins again", _joined(two.send_join().message)
    yield "offset deleted of a topic that is read", talk.delete_offset("two", "read")
    yield "offset deleted", talk.delete_offset("two", TOPIC)
    for version in (2, 4):
        yield f"stranger leaves, version {version}", talk.left("two", [("stranger", None)], version)
        yield f"somebody leaves no group, version {version}", talk.left("nowhere", [("m", None)], version)
        yield f"somebody leaves without a group id, version {version}", talk.left("", [("m", None)], version)
    yield "an instance leaves", talk.left("two", [("", "instance")])
    yield "all leave", talk.left("two", [(one.member_id, None), (two.member_id, None), (one.member_id, None)])
    yield "described when all have left", talk.described("two")
    yield "heartbeat when all have left", one.heartbeat().name
    yield "commit when all have left", one.commit(3).name
    yield "old member joins", _joined(one.send_join().message)


def ends(talk: Talk) -> Told:
    commit(talk.broker, 5, group_id="ends")
    commit(talk.broker, 6, group_id="ends", partition=1)
    yield "listed", talk.listed_as("ends")
    yield "filtered", talk.listed_as("ends", states_filter=["eMPTY"])
    yield "filtered by another state", [group[0] for group in talk.listed(states_filter=["bogus"])[1]]
    yield "described", talk.described("ends")
    yield "offset deleted", talk.delete_offset("ends", TOPIC, 1)
    yield "offset deleted that is not there", talk.delete_offset("ends", TOPIC, 1)
    yield "offset deleted of no topic", talk.delete_offset("ends", "nowhere")
    yield "offset deleted of no group", talk.delete_offset("nowhere", TOPIC)
    yield "fetched", talk.fetched("ends", [0, 1])
    yield "deleted", talk.delete_groups("ends", "ends")
    yield "deleted again", talk.delete_groups("ends")
    for version in (5, 6):
        yield f"described afterwards, version {version}", talk.described("ends", version)
    yield "fetched afterwards", talk.fetched("ends", [0])


def static_members(talk: Talk) -> Told:
    def returning(version: int = 7) -> Member:
        return talk.member("static", group_instance_id="instance", join_version=version)

    old = returning(5)
    yield "joins", _joined(old.send_join().message)
    old.learn()
    yield "syncs", _synced(old.sync({old.member_id: b"part"}).message)
    new = returning()
    answer = new.send_join().message
    yield "returns", _joined(answer)
    yield "its old id leads", answer.leader == old.member_id
    new.learn()
    for what, member in (("old", old), ("new", new)):
        yield f"{what} heartbeat", member.heartbeat().name
        yield f"{what} sync", _synced(member.sync().message)
        yield f"{what} commit", member.commit(1).name
    yield "old join", _joined(old.send_join().message)
    yield "old leaves", talk.left("static", [(old.member_id, "instance")])
    unnamed = talk.member("static", member_id=old.member_id, generation_id=1)
    yield "old heartbeat without its instance", unnamed.heartbeat().name
    newest = returning(9)
    answer = newest.send_join().message
    yield "returns, version 9", (*_joined(answer), answer.skip_assignment)
    newest.learn()
    yield "described", talk.described("static")
    yield "leader joins again", _joined(newest.send_join().message)
    yield "leaves by its instance", talk.left("static", [("", "instance")])
    yield "described afterwards", talk.described("static")


def transactions(talk: Talk) -> Told:
    producer = Producer(talk.broker, "transactions").init()

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
    yield "fetched", talk.fetched("transactions", [0, 1])
    yield "fetched when it must be stable", talk.fetched("transactions", [0, 1], stable=True)
    yield "all fetched when they must be stable", talk.fetched("transactions", None, stable=True)
    yield "described", talk.described("transactions")
    yield "plain commit meanwhile", commit(talk.broker, 9, group_id="transactions").name
    producer.end(committed=True)
    yield "the later record counts", _settled(talk)
    while sent() == "CONCURRENT_TRANSACTIONS":
        talk.broker.let_pass(20)
    for version in (3, 4):
        yield f"after the end, version {version}", sent(version=version)
    producer.add_offsets("transactions")
    yield "next transaction", sent(20)
    yield "deleted meanwhile", talk.delete_groups("transactions")
    producer.end(committed=True)
    yield "nothing comes back", _settled(talk)
    producer.add_offsets("transactions")
    Producer(talk.broker, "transactions").init()
    for version in range(5):
        yield f"of a fenced producer, version {version}", sent(version=version)
    producer = Producer(talk.broker, "transactions").init()
    yield "added by itself", sent(33, version=5)
    producer.producer_epoch -= 1
    yield "added by itself, fenced", sent(33, version=5)


def _settled(talk: Talk) -> tuple[Any, ...]:
    """Fetch the stable offsets, once the markers have arrived."""
    while True:
        fetched = talk.fetched("transactions", [0], stable=True)
        if "UNSTABLE_OFFSET_COMMIT" not in repr(fetched):
            return fetched
        talk.broker.let_pass(20)


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
