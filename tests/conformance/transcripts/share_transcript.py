"""A conversation about the records of share groups (KIP-932) that any Kafka-compatible broker can be asked to have.

Owns: the questions. Does not own: which part of an answer counts (`tests.conformance.share_room`).
"""

from collections.abc import Mapping
from typing import Any

from tests.clients.asking import Broker, Told
from tests.conformance.share_room import SPREADS_MS, Key, Room

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
SETTINGS = (
    "group.share.min.record.lock.duration.ms=1000",
    "group.share.min.partition.max.record.locks=100",
    "share.coordinator.state.topic.num.partitions=5",
    "share.coordinator.state.topic.replication.factor=1",
    "share.coordinator.state.topic.min.isr=1",
    "transaction.state.log.num.partitions=5",
    "offsets.topic.num.partitions=5",
)


def conversation(broker: Broker, wall_ms: int) -> Told:
    """Every question and its answer; `broker` must be fresh."""
    Room(broker, "any", wall_ms).await_coordinators()
    for part in (
        sessions,
        strangers,
        batches,
        record_limit,
        invalid_acknowledgements,
        acknowledgements,
        with_a_fetch,
        endings,
        renewals,
        delivery_counts,
        locks,
        most_locks,
        beginnings,
        uncommitted,
        committed,
        deleted_records,
        deleted_topics,
    ):
        room = Room(broker, part.__name__.replace("_", "-"), wall_ms)
        for name, answer in part(room):
            yield f"{part.__name__}: {name}", answer


# --- the parts --------------------------------------------------------------------------------------------------------


def sessions(room: Room) -> Told:
    key = room.started()
    room.write("t", 2)
    member = room.member("first")
    yield "no session", member.fetch(key, share_session_epoch=1)
    yield "nothing to close", member.fetch(key, share_session_epoch=-1)
    yield "nothing to acknowledge in", member.acknowledge({}, share_session_epoch=1)
    yield "acknowledging opens none", member.acknowledge({}, share_session_epoch=0)
    yield "opened with acknowledgements", member.fetch(acknowledged={key: [(0, 0, [ACCEPT])]})
    yield "opened", member.records(key)
    yield "an epoch ahead", member.fetch(share_session_epoch=member.epoch + 1)
    yield "an epoch behind", member.acknowledge({}, share_session_epoch=member.epoch - 1)
    yield "goes on", member.acknowledge({})
    yield "another one", room.member("second").fetch(share_session_epoch=member.epoch)
    member.epoch = 0
    yield "opened again", member.fetch(key, max_wait_ms=0)
    yield "still its records", member.acknowledge({key: [(0, 1, [ACCEPT])]})
    yield "closed", member.fetch(share_session_epoch=-1)
    yield "closed twice", member.acknowledge({}, share_session_epoch=-1)


def strangers(room: Room) -> Told:
    key = room.started()
    room.write("t")
    member = room.member("first")
    for name, fields in (
        ("no group", {"group_id": None}),
        ("no member", {"member_id": None}),
        ("an empty member", {"member_id": ""}),
        ("a long member", {"member_id": "x" * 37}),
    ):
        yield f"fetch, {name}", member.fetch(key, **fields)
        yield f"acknowledge, {name}", member.acknowledge({}, **fields)
    missing: list[Key] = [("t", 1), ("t", -1)]
    yield "missing partitions", member.records(key, *missing)
    yield "missing again", member.fetch(max_wait_ms=0)
    acknowledged: dict[Key, Any] = {each: [(0, 0, [ACCEPT])] for each in missing}
    yield "acknowledged there", member.acknowledge(acknowledged)
    yield "acknowledged there with a fetch", member.fetch(acknowledged=acknowledged, max_wait_ms=0)
    yield "acknowledged nowhere", member.acknowledge({("nowhere", 0): [(0, 0, [ACCEPT])]})
    yield "an unknown topic", room.member("second").fetch(("nowhere", 0))
    room.group_id = "unknown"
    yield "a group that there is not", room.member("first").records(key)


def batches(room: Room) -> Told:
    key = room.started()
    for count in (3, 2, 4, 1, 5):
        room.write("t", count)
    first, second = room.member("first"), room.member("second")
    yield "as many as one", first.records(key, max_records=1)
    yield "what is left of it", second.records(key, max_records=4)
    yield "in batches of two", second.records(batch_size=2)
    yield "nothing is left", first.fetch(max_wait_ms=0)
    room.write("t", 2)
    yield "nothing wanted", first.fetch(max_records=0)
    yield "no bytes wanted", first.fetch(max_bytes=0)
    yield "few bytes", first.records(max_bytes=1)
    yield "an acquire mode that there is not", first.fetch(share_acquire_mode=2)


def record_limit(room: Room) -> Told:
    key = room.started()
    for count in (5, 3, 4):
        room.write("t", count)
    member = room.member("first")
    for number, wanted in enumerate((2, 2, 3, 10)):
        keys = [key] if number == 0 else []
        yield f"{number}: {wanted} at most", member.records(*keys, share_acquire_mode=1, max_records=wanted)
    yield "released", member.acknowledge({key: [(1, 6, [RELEASE])]})
    yield "of the released ones", member.records(share_acquire_mode=1, max_records=4)
    yield "the rest of them", member.records(share_acquire_mode=1, max_records=4)


def invalid_acknowledgements(room: Room) -> Told:
    key, other = (room.topic("t"), 0), (room.topic("u"), 0)
    room.set(share_auto_offset_reset="earliest")
    room.begin("t", "u")
    room.write("t", 5)
    room.write("t", 5)
    room.write("u", 5)
    member = room.member("first")
    yield "held", member.records(key)
    for name, batches in (
        ("backwards", [(1, 0, [ACCEPT])]),
        ("out of order", [(2, 3, [ACCEPT]), (0, 1, [ACCEPT])]),
        ("overlapping", [(0, 3, [ACCEPT]), (2, 4, [ACCEPT])]),
        ("touching", [(0, 3, [ACCEPT]), (3, 4, [ACCEPT])]),
        ("no types", [(0, 0, [])]),
        ("too many types", [(0, 0, [ACCEPT, ACCEPT])]),
        ("too few types", [(0, 3, [ACCEPT, ACCEPT])]),
        ("no such type", [(0, 0, [5])]),
        ("a negative type", [(0, 0, [-1])]),
        ("a renewal that is not said to be one", [(0, 0, [RENEW])]),
        ("past the end", [(10, 10, [ACCEPT])]),
        ("over the end", [(8, 10, [ACCEPT])]),
        ("far past the end", [(1_000, 1_001, [ACCEPT])]),
        ("negative offsets", [(-5, -1, [ACCEPT])]),
        ("none", []),
    ):
        yield name, member.acknowledge({key: batches})
        yield f"{name}, with a fetch", member.fetch(acknowledged={key: batches}, max_wait_ms=0)
    yield "one of two", member.acknowledge({key: [(3, 2, [ACCEPT])], other: [(0, 0, [ACCEPT])]})
    yield "of another member", room.member("second").fetch(key, max_wait_ms=0)
    second = room.member("second")
    second.fetch(key, max_wait_ms=0)
    yield "not the owner", second.acknowledge({key: [(0, 9, [ACCEPT])]})
    yield "not the owner of one", second.acknowledge({key: [(3, 3, [ACCEPT])]})
    yield "all are still held", member.acknowledge({key: [(0, 9, [ACCEPT])]})
    yield "once more", member.acknowledge({key: [(0, 9, [ACCEPT])]})
    room.write("t", 1)
    yield "the next one", member.records()
    yield "far before", member.acknowledge({key: [(0, 3, [REJECT])]})
    yield "before and now", member.acknowledge({key: [(8, 10, [ACCEPT])]})


def acknowledgements(room: Room) -> Told:
    key = room.started()
    room.write("t", 10)
    first, second = room.member("first"), room.member("second")
    yield "held", first.records(key)
    types = [ACCEPT, RELEASE, REJECT, GAP, ACCEPT, RELEASE]
    yield "one by one", first.acknowledge({key: [(0, 5, types)]})
    yield "released ones", second.records(key)
    yield "what was released is not held", first.acknowledge({key: [(1, 1, [ACCEPT])]})
    yield "a part is not held", first.acknowledge({key: [(5, 7, [ACCEPT])]})
    yield "in two", first.acknowledge({key: [(6, 7, [RELEASE]), (9, 9, [ACCEPT])]})
    yield "released again", first.records()
    yield "all of its own", second.acknowledge({key: [(1, 1, [ACCEPT]), (5, 5, [REJECT])]})
    yield "with one between", first.acknowledge({key: [(6, 8, [ACCEPT, RELEASE, ACCEPT])]})
    yield "the last one", second.records()


def with_a_fetch(room: Room) -> Told:
    key, other = (room.topic("t", 2), 0), ("t", 1)
    room.set(share_auto_offset_reset="earliest")
    room.begin("t")
    room.write("t", 3)
    room.write("t", 3, 1)
    member = room.member("first")
    held = member.records(key)
    yield "held", held
    yield "released and got again", member.records(acknowledged={key: [(0, 1, [RELEASE])]})
    yield "of a partition that is new to it", member.records(acknowledged={other: [(0, 2, [ACCEPT])]})
    both = {key: [(0, 2, [ACCEPT])], other: [(0, 5, [ACCEPT])]}
    yield "one is right", member.fetch(acknowledged=both, max_wait_ms=0)
    yield "forgotten", member.fetch(acknowledged={other: [(0, 2, [RELEASE])]}, forgotten=[other], max_wait_ms=0)
    yield "not in the session", member.fetch(max_wait_ms=0)
    yield "acknowledged all the same", room.member("second").records(other)


def endings(room: Room) -> Told:
    key = room.started()
    room.write("t", 4)
    first, second = room.member("first"), room.member("second")
    yield "held", first.records(key)
    yield "closed with a fetch", first.fetch(acknowledged={key: [(0, 0, [ACCEPT])]}, share_session_epoch=-1)
    yield "released", second.records(key)
    yield "closed", second.acknowledge({key: [(1, 1, [ACCEPT])]}, share_session_epoch=-1)
    first.epoch = 0
    yield "released once more", first.records(key)


def renewals(room: Room) -> Told:
    key = room.started()
    room.write("t", 4)
    member = room.member("first")
    yield "held", member.records(key)
    nothing: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
    for name in nothing:
        yield f"with {name}", member.fetch(is_renew_ack=True, **{**nothing, name: 1})
    renewed: dict[Key, Any] = {key: [(0, 1, [RENEW])]}
    yield "with a fetch", member.fetch(acknowledged=renewed, is_renew_ack=True, **nothing)
    yield "alone", member.acknowledge(renewed, is_renew_ack=True)
    mixed: dict[Key, Any] = {key: [(0, 2, [RENEW, ACCEPT, RELEASE])]}
    yield "with others", member.acknowledge(mixed, is_renew_ack=True)
    yield "of what is not held", member.acknowledge({key: [(1, 1, [RENEW])]}, is_renew_ack=True)
    yield "without any", member.acknowledge({key: [(0, 0, [ACCEPT])]}, is_renew_ack=True)
    room.set(share_renew_acknowledge_enable="false")
    yield "not enabled", member.acknowledge({key: [(3, 3, [RENEW])]}, is_renew_ack=True)
    first_version = room.member("third", version=1)
    first_version.fetch(key, max_wait_ms=0)
    yield "in version 1", first_version.acknowledge({key: [(3, 3, [RENEW])]})


def delivery_counts(room: Room) -> Told:
    key = room.started(share_delivery_count_limit="5")
    room.write("t", 4)
    member = room.member("first")
    for number in range(8):
        keys = [key] if number == 0 else []
        found = member.records(*keys) if number < 5 else member.fetch(*keys)
        yield f"{number}: got", found
        ranges = found[0][6] if found else []
        released: dict[Key, Any] = {key: [(first, last, [RELEASE]) for first, last, _ in ranges]}
        yield f"{number}: released", member.acknowledge(released)
    room.write("t", 1)
    yield "the next ones", member.records()


def locks(room: Room) -> Told:
    key = room.started(share_record_lock_duration_ms="1000")
    room.write("t", 3)
    first, second = room.member("first"), room.member("second")
    yield "held", first.records(key)
    yield "one is accepted", first.acknowledge({key: [(1, 1, [ACCEPT])]})
    room.broker.let_pass(2_000)
    yield "got by another one", second.records(key)
    yield "too late", first.acknowledge({key: [(0, 0, [ACCEPT])]})
    yield "in time", second.acknowledge({key: [(0, 0, [ACCEPT])]})


def most_locks(room: Room) -> Told:
    key = room.started(share_partition_max_record_locks="100")
    for _ in range(3):
        room.write("t", 60)
    first, second = room.member("first"), room.member("second")
    yield "to the limit", first.records(key)
    yield "no more", second.fetch(key, max_wait_ms=200)
    yield "a few are done", first.acknowledge({key: [(0, 29, [ACCEPT])]})
    yield "still no more", second.fetch(max_wait_ms=200)
    yield "one is released", first.acknowledge({key: [(40, 40, [RELEASE])]})
    yield "that one", second.records()
    yield "it is done", second.acknowledge({key: [(40, 40, [ACCEPT])]})
    yield "most are done", first.acknowledge({key: [(30, 39, [ACCEPT]), (41, 99, [ACCEPT])]})
    room.write("t", 60)
    yield "what comes then", first.records()


def beginnings(room: Room) -> Told:
    for name, reset in (("latest", "latest"), ("earliest", "earliest"), ("duration", "by_duration:PT1H")):
        room.group_id = f"beginnings-{name}"
        key = room.topic("t"), 0
        room.set(share_auto_offset_reset=reset)
        room.begin("t")
        room.write("t", 2)
        member = room.member("first")
        member.fetch(key, max_wait_ms=1_000)
        yield f"{name}: before", member.fetch(max_wait_ms=0)
        room.write("t", 1)
        yield f"{name}: after", member.fetch(max_wait_ms=1_000)


def _transactions(room: Room, isolation: str) -> Told:
    key = room.started(share_isolation_level=isolation)
    member = room.member("first")
    room.write("t", 1)
    yield "before any", member.records(key)
    room.begin_transaction("t")
    room.write("t", 2, in_transaction=True)
    yield "open", member.fetch(max_wait_ms=200)
    room.write("t", 1)
    yield "behind it", member.fetch(max_wait_ms=200)
    room.end_transaction(committed=False)
    yield "aborted", member.fetch()
    room.begin_transaction("t")
    room.write("t", 2, in_transaction=True)
    room.end_transaction(committed=True)
    yield "committed", member.records()
    room.write("t", 1)
    yield "behind both", member.records()
    yield "all of it", member.acknowledge({key: [(0, 8, [ACCEPT])]})


def uncommitted(room: Room) -> Told:
    yield from _transactions(room, "read_uncommitted")


def committed(room: Room) -> Told:
    yield from _transactions(room, "read_committed")


def deleted_records(room: Room) -> Told:
    key = room.started()
    room.write("t", 3)
    room.write("t", 3)
    first, second = room.member("first"), room.member("second")
    yield "held", first.records(key, max_records=1)
    room.delete_records("t", 4)
    yield "the rest", second.records(key)
    yield "those that are gone", first.acknowledge({key: [(0, 2, [ACCEPT])]})
    yield "released", second.acknowledge({key: [(4, 5, [RELEASE])]})
    room.delete_records("t", 6)
    room.write("t", 1)
    yield "what comes then", second.records()


def deleted_topics(room: Room) -> Told:
    key = room.started()
    room.write("t", 3)
    member = room.member("first")
    yield "held", member.records(key)
    deleting = {"topics": [{"name": room.named("t")}], "timeout_ms": 10_000}
    assert room.ask("DeleteTopics", 6, "responses.0.error_code", **deleting) == "NONE"
    room.broker.let_pass(SPREADS_MS)
    yield "acknowledged", member.acknowledge({key: [(0, 0, [ACCEPT])]})
    yield "fetched", member.fetch(max_wait_ms=0)


_NO_NAME = "Kafka counts the bytes of a topic by its name, and fails with a NullPointerException where there is none."
_NO_TRACE = (
    "An acknowledgement that is refused leaves no trace here; in Kafka it has split the batch, which the text names."
)
DIFFERENCES: Mapping[str, tuple[str, object]] = {
    "strangers: an unknown topic": (
        _NO_NAME,
        [("nowhere", 0, "UNKNOWN_TOPIC_ID", None, "NONE", None, [], [])],
    ),
    "deleted_topics: fetched": (
        _NO_NAME,
        [("t", 0, "UNKNOWN_TOPIC_OR_PARTITION", None, "NONE", None, [], [])],
    ),
    **dict.fromkeys(
        ("invalid_acknowledgements: not the owner", "invalid_acknowledgements: not the owner of one"),
        (_NO_TRACE, [("t", 0, "INVALID_RECORD_STATE", "Member is not the owner of batch record")]),
    ),
    "deleted_records: the rest": (
        "What lies below the start of the log is not handed out here, although it is part of a batch that is.",
        [("t", 0, "NONE", None, "NONE", None, [(4, 5, 1)], [(3, 5)])],
    ),
}
