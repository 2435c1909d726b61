"""A conversation about streams groups (KIP-1071) that any Kafka-compatible broker can be asked to have.

Owns: the questions, and which part of an answer counts: error codes and texts, epochs, statuses, tasks, topologies; no
hosts. A list of missing topics counts sorted, as Kafka's order is that of a hash table.
"""

import re
from typing import Any

from oncelog.protocol.errors import ErrorCode
from tests.clients.asking import Broker, Told, counts, name, parts_of
from tests.clients.consumer_group_members import Consumer
from tests.clients.group_asker import GroupAsker
from tests.clients.group_members import TOPIC, Member, commit
from tests.clients.offset_producer import Producer
from tests.clients.streams_group_members import STATELESS, Streams, tasks
from tests.clients.streams_requests import TASKS, subtopology, topic_info, topology

SETTINGS = ("group.streams.initial.rebalance.delay.ms=0", "group.streams.assignment.interval.ms=0")
DIFFERENCES: dict[str, tuple[str, object]] = {}
SMALL = "small"
_GROUP_RESOURCE = 32
_TOPIC_INFO = "(name partitions replication_factor topic_configs{key value})"


def conversation(broker: Broker) -> Told:
    """Every question and its answer; `broker` must be fresh."""
    talk = Talk(broker)
    talk.prepare(**{TOPIC: 4, SMALL: 2})
    parts = (invalid, unknown, one_member, two_members, lost, topologies, internal_topics, delays, standbys, endpoints)
    yield from parts_of(talk, *parts, shutdowns, offsets, transactions, types, ends, settings)


# --- asking ---------------------------------------------------------------------------------------------------------


def _said(answer: Any) -> Any:
    """The comparable part of an answer to a heartbeat."""
    if answer.error_code:
        return counts(answer, "error_code error_message")
    shape = (
        "member_epoch status(status_code status_detail:sorted) "
        f"[{TASKS}] endpoint_information_epoch "
        "partitions_by_user_endpoint{user_endpoint.host user_endpoint.port "
        "active_partitions{topic partitions{}} standby_partitions{topic partitions{}}} heartbeat_interval_ms"
    )
    return counts(answer, shape, sorted=_sorted)


def _sorted(detail: str) -> str:
    listed = re.fullmatch(r"(Internal topics are missing: )([^;]*)(.*)", detail)
    return detail if listed is None else f"{listed[1]}{', '.join(sorted(listed[2].split(', ')))}{listed[3]}"


def _joined(member: Streams, **fields: Any) -> Any:
    member.join(**fields)
    return _said(member.last)


def _beat(member: Streams, **fields: Any) -> Any:
    member.heartbeat(**fields)
    return _said(member.last)


class Talk(GroupAsker):
    def member(self, group_id: str, member_id: str = "one", **fields: Any) -> Streams:
        return Streams(self.broker, member_id, group_id=group_id, **fields)

    def two(self, group_id: str) -> tuple[Streams, Streams]:
        return self.member(group_id, "one"), self.member(group_id, "two")

    def await_topic(self, topic: str) -> None:
        """Kafka's broker learns of a topic a moment after its controller."""
        asked = {"topics": [{"name": topic}]}
        self.until(lambda error: error == "NONE", "Metadata", 12, "topics.0.error_code", **asked)
        self.broker.let_pass(500)

    def described(self, group_id: str) -> Any:
        group = self.ask("StreamsGroupDescribe", 0, group_ids=[group_id]).groups[0]
        if group.error_code:
            return counts(group, "error_code error_message")
        subtopologies = (
            "subtopologies(subtopology_id source_topics repartition_sink_topics "
            f"repartition_source_topics{_TOPIC_INFO} state_changelog_topics{_TOPIC_INFO})"
        )
        member = (
            "member_id member_epoch (instance_id rack_id client_id topology_epoch process_id) client_tags(key value) "
            f"[assignment[{TASKS}] target_assignment[{TASKS}]] "
            "(task_offsets:len task_end_offsets:len is_classic)"
        )
        epochs = "group_state group_epoch assignment_epoch"
        return counts(group, f"{epochs} topology(epoch {subtopologies}) members{{{member}}}")

    def commit_offset(self, group_id: str, offset: int, partition: int = 0, **fields: Any) -> str:
        return commit(self.broker, offset, partition, group_id=group_id, **fields).name

    def configure(self, group_id: str, key: str, value: str) -> Any:
        group = {"resource_type": _GROUP_RESOURCE, "resource_name": group_id}
        asked = [{**group, "configs": [{"name": key, "value": value}]}]
        answer = self.ask("IncrementalAlterConfigs", 1, "responses.0(error_code error_message)", resources=asked)
        self.broker.let_pass(500)
        return answer


def _counting(changelog: str, repartition: str, partitions: int = 0) -> Any:
    return topology(
        subtopology("0", TOPIC, sinks=[repartition]),
        subtopology(
            "1",
            repartitioned=[topic_info(repartition, partitions)],
            changelogs=[topic_info(changelog, cleanup_policy="compact")],
            copartitioned=[((), (0,))],
        ),
    )


def _stateful(changelog: str) -> Any:
    return topology(subtopology("0", TOPIC, changelogs=[topic_info(changelog)]))


def _reading(*topics: str, **fields: Any) -> Any:
    return topology(subtopology("0", *topics, **fields))


# --- the conversation -----------------------------------------------------------------------------------------------

_JOINING: dict[str, Any] = {
    "rebalance_timeout_ms": 1000,
    "topology": STATELESS,
    "process_id": "p",
    "active_tasks": [],
    "standby_tasks": [],
    "warmup_tasks": [],
    "client_tags": [],
}


def invalid(talk: Talk) -> Told:
    member = talk.member("invalid")
    for question, fields in {
        "static member": {"instance_id": "i"},
        "task offsets": {"task_offsets": [("0", 0, 1)]},
        "task end offsets": {"task_end_offsets": []},
        "warm-up tasks": {"warmup_tasks": tasks({"0": [1]})},
        "regular expression": {"topology": _reading(regex=["a.*"])},
        "no member id": {"member_id": ""},
        "blank member id": {"member_id": " "},
        "no group id": {"group_id": ""},
        "no rack id": {"rack_id": ""},
        "no rebalance timeout": {"rebalance_timeout_ms": -1},
        "null active tasks": {"active_tasks": None},
        "active tasks": {"active_tasks": tasks({"0": [1]})},
        "standby tasks": {"standby_tasks": tasks({"0": [1]})},
        "null warm-up tasks": {"warmup_tasks": None},
        "no topology": {"topology": None},
        "changelog with partitions": {"topology": _reading(TOPIC, changelogs=[topic_info("c", 2)])},
        "epoch -2": {"member_epoch": -2},
        "epoch -3": {"member_epoch": -3, "topology": None},
        "one kind of tasks": {"member_epoch": 1, "topology": None, "standby_tasks": None},
        "topology later": {"member_epoch": 1},
        "internal topic": {"topology": _reading("__consumer_offsets")},
        "invalid topic": {"topology": _reading("a b")},
    }.items():
        yield question, _said(member.send(**{**_JOINING, **fields}))


def unknown(talk: Talk) -> Told:
    member = talk.member("nowhere")
    yield "heartbeat", _said(member.send(member_epoch=3))
    yield "leave", _said(member.send(member_epoch=-1))
    yield "describe", talk.described("nowhere")
    yield "describe none", talk.described("")
    talk.member("somewhere", "other").join()
    member.group_id = "somewhere"
    yield "member's heartbeat", _said(member.send(member_epoch=3))
    yield "member's leave", _said(member.send(member_epoch=-1))


def one_member(talk: Talk) -> Told:
    member = talk.member("alone")
    yield "join", _joined(member, client_tags=[("zone", "z")], rack_id="rack")
    yield "described", talk.described("alone")
    yield "report", _beat(member)
    yield "nothing new", _beat(member)
    yield "join again", _joined(member)
    yield "other process", _said(member.send(process_id="other"))
    yield "after that", _beat(member)
    for epoch in (1, 99):
        yield f"epoch {epoch}", _said(member.send(member_epoch=epoch))
    answer = _beat(member, active_tasks=tasks({"9": [0]}), standby_tasks=[], warmup_tasks=[])
    yield "subtopology that is not there", answer
    for number in (4, -1):
        reported = tasks({"0": [number]})
        yield f"task {number}", _beat(member, active_tasks=reported, standby_tasks=[], warmup_tasks=[])
    yield "leave", _said(member.send(member_epoch=-1))
    yield "described empty", talk.described("alone")


def two_members(talk: Talk) -> Told:
    one, two = talk.two("two")
    yield "one joins", _joined(one)
    yield "two joins", _joined(two)
    yield "assigning", talk.described("two")
    yield "one is to give up", _beat(one)
    yield "two waits", _beat(two)
    yield "reconciling", talk.described("two")
    yield "one still has them", _said(one.send(active_tasks=tasks({"0": [0, 1, 2]}), standby_tasks=[], warmup_tasks=[]))
    yield "one says nothing", _said(one.send())
    yield "one gave up", _beat(one)
    yield "two takes", _beat(two)
    yield "stable", talk.described("two")
    yield "one leaves", _said(one.send(member_epoch=-1))
    yield "two takes the rest", _beat(two)
    yield "one joins again", _joined(one)


def lost(talk: Talk) -> Told:
    one, two = talk.two("lost")
    one.join()
    two.join()
    one.heartbeat()
    before = one.epoch
    one.send(**one.reported())
    yield "previous epoch, with its tasks", _said(one.send(member_epoch=before, **one.reported()))
    yield "previous epoch, without", _said(one.send(member_epoch=before))
    foreign = {"active_tasks": tasks({"0": [0, 1, 2, 3]}), "standby_tasks": [], "warmup_tasks": []}
    yield "previous epoch, with others", _said(one.send(member_epoch=before, **foreign))


def topologies(talk: Talk) -> Told:
    one, two = talk.two("topologies")
    one.topology = topology(*_reading(TOPIC)["subtopologies"], epoch=5)
    yield "epoch 5", _joined(one)
    for epoch in (4, 5, 6):
        two.topology = topology(*_reading(SMALL)["subtopologies"], epoch=epoch)
        yield f"another, epoch {epoch}", _joined(two)
    yield "of the old one", _beat(two)
    absent = talk.member("absent", topology=_reading("absent-e", "absent-d", "absent-c", "absent-b"))
    yield "absent topics", _joined(absent)
    yield "absent topics, described", talk.described("absent")
    copartitioned = _reading(TOPIC, SMALL, copartitioned=[((0, 1), ())])
    yield "not copartitioned", _joined(talk.member("unequal", topology=copartitioned))
    repartitioned = [topic_info("fixed-repartition", 3)]
    fixed = topology(
        subtopology("0", TOPIC, sinks=["fixed-repartition"]),
        subtopology("1", SMALL, repartitioned=repartitioned, copartitioned=[((0,), (0,))]),
    )
    yield "fixed otherwise", _joined(talk.member("fixed", topology=fixed))
    loop = topology(
        subtopology("0", sinks=["r"], repartitioned=[topic_info("s")]),
        subtopology("1", sinks=["s"], repartitioned=[topic_info("r")]),
    )
    yield "loop", _joined(talk.member("loop", topology=loop))
    never = topology(subtopology("0", repartitioned=[topic_info("never")]))
    yield "never written", _joined(talk.member("never", topology=never))


def internal_topics(talk: Talk) -> Told:
    member = talk.member("counting", topology=_counting("made-changelog", "made-repartition"))
    yield "missing", _joined(member)
    talk.await_topic("made-changelog")
    talk.await_topic("made-repartition")
    yield "made", _beat(member)
    yield "described", talk.described("counting")
    made = [{"name": topic} for topic in ("made-changelog", "made-repartition")]
    yield "sizes", [len(topic.partitions) for topic in talk.ask("Metadata", 12, topics=made).topics]
    talk.create("small-changelog", 3)
    member = talk.member("otherwise", topology=_stateful("small-changelog"))
    yield "another size", _joined(member)


def delays(talk: Talk) -> Told:
    talk.configure("delayed", "streams.initial.rebalance.delay.ms", "3000")
    one, two = talk.two("delayed")
    yield "one joins", _joined(one)
    yield "two joins", _joined(two)
    yield "described", talk.described("delayed")
    talk.broker.let_pass(4000)
    # Which of them has which tasks follows from the order of a hash table in Kafka.
    yield "after it", sorted((_beat(one), _beat(two)))
    talk.configure("slow", "streams.assignment.interval.ms", "15000")
    one, two = talk.two("slow")
    yield "one at once", _joined(one)
    yield "two within the interval", _joined(two)


def standbys(talk: Talk) -> Told:
    one, two = talk.two("standby")
    talk.create("standby-changelog", 4)
    one.topology = two.topology = _stateful("standby-changelog")
    one.join()
    two.join()
    for member in (one, one, two):
        member.heartbeat()
    talk.configure("standby", "streams.num.standby.replicas", "1")
    yield "one", _beat(one)
    yield "two", _beat(two)
    yield "described", talk.described("standby")
    two.leave()
    yield "one alone", _beat(one)
    yield "it gives up its standby tasks", _beat(one)
    yield "it has them as active ones", _beat(one)


def endpoints(talk: Talk) -> Told:
    one = talk.member("endpoints", "one", endpoint=("a", 1))
    two = talk.member("endpoints", "two", endpoint=("b", 2))
    yield "one joins", _joined(one)
    yield "one again", _beat(one)
    yield "two joins", _joined(two)
    for question in ("one is to give up", "one gave up"):
        yield question, _beat(one)
    yield "two takes", _beat(two)
    yield "one hears of it", _beat(one)
    yield "one knows it", _beat(one)


def shutdowns(talk: Talk) -> Told:
    one, two = talk.two("shutdown")
    one.join()
    two.join()
    yield "one leaves with it", _said(one.send(member_epoch=-1, shutdown_application=True))
    yield "two hears of it", _beat(two)
    yield "two still does", _beat(two)
    two.leave()
    yield "forgotten", _joined(two)
    yield "two asks for it", _said(two.send(shutdown_application=True))


def offsets(talk: Talk) -> Told:
    one, two = talk.two("offsets")
    one.join()
    two.join()
    for member in (one, one, two):
        member.heartbeat()
    for version in (8, 9):
        for epoch in (-1, 0, 1, 2, 3, 4):
            for partition in (0, 3):
                who = {"member_id": "one", "generation_id": epoch, "version": version}
                question = f"version {version}, epoch {epoch}, partition {partition}"
                yield question, talk.commit_offset("offsets", epoch + 5, partition, **who)
    who = {"member_id": "one", "generation_id": 2, "version": 9}
    yield "of another topic", talk.commit_offset("offsets", 1, topic=SMALL, **who)
    yield "stranger", talk.commit_offset("offsets", 1, member_id="three", generation_id=3, version=9)
    for member_id, epoch in ((None, -1), ("one", 3), ("one", 2), ("three", 3)):
        yield f"fetched by {member_id}, epoch {epoch}", talk.fetched("offsets", member_id, epoch, TOPIC)
    yield "deleted in use", talk.delete_offset("offsets", TOPIC)[1][0]
    one.leave()
    two.leave()
    yield "without members", talk.commit_offset("offsets", 1, version=9)
    yield "deleted", talk.delete_offset("offsets", TOPIC)[1][0]


def transactions(talk: Talk) -> Told:
    member = talk.member("transactions")
    member.join()
    producer = Producer(talk.broker, "streams-transactions").init()
    assert producer.add_offsets("transactions") is ErrorCode.NONE
    for question, fields in {
        "its epoch": {"member_id": "one", "generation_id": 2},
        "newer epoch": {"member_id": "one", "generation_id": 3},
        "older epoch": {"member_id": "one", "generation_id": 1},
        "stranger": {"member_id": "two", "generation_id": 2},
        "nobody": {},
    }.items():
        yield question, producer.send_commit(7, group_id="transactions", **fields).name
    producer.end(committed=True)
    talk.broker.let_pass(1_000)
    yield "fetched", talk.fetched("transactions", None, -1, TOPIC)


def types(talk: Talk) -> Told:
    member = talk.member("types")
    member.join()
    classic = Member(talk.broker, group_id="types")
    yield "classic member joins", name(classic.send_join().message.error_code)
    consumer = Consumer(talk.broker, "c", group_id="types")
    yield "consumer joins", _refused(consumer)
    shape = "groups.0(error_code error_message)"
    yield "described as classic", talk.ask("DescribeGroups", 6, shape, groups=["types"])
    member.leave()
    yield "consumer joins when it is empty", _refused(consumer)
    yield "classic member joins when it is empty", name(classic.send_join().message.error_code)
    talk.broker.let_pass(1_000)
    yield "it was a streams group", talk.described("types")
    consumer = Consumer(talk.broker, "c", group_id="consumers")
    consumer.join()
    member = talk.member("consumers")
    yield "joins consumers", _joined(member)
    yield "reports to consumers", _said(member.send(member_epoch=1))
    yield "leaves consumers", _said(member.send(member_epoch=-1))
    consumer.leave()
    yield "joins when no consumer is left", _joined(member)
    talk.commit_offset("committed", 5)
    member = talk.member("committed")
    yield "heartbeat where offsets are", _said(member.send(member_epoch=1))
    yield "joins where offsets are", _joined(member)
    yield "and they stay", talk.fetched("committed", None, -1, TOPIC)


def _refused(consumer: Consumer) -> Any:
    consumer.join()
    return counts(consumer.last, "error_code error_message")


def ends(talk: Talk) -> Told:
    member = talk.member("ends")
    member.join()
    yield "listed", [group for group in talk.listed(types_filter=["streams"])[1] if group[0] == "ends"]
    yield "deleted with members", talk.delete_groups("ends")[0]
    member.leave()
    yield "deleted", talk.delete_groups("ends")[0]
    yield "described", talk.described("ends")
    member.topology = _reading(SMALL)
    yield "another topology in its place", _joined(member)


def settings(talk: Talk) -> Told:
    for key, values in {
        "streams.session.timeout.ms": ("44999", "45000", "60001", "x"),
        "streams.heartbeat.interval.ms": ("4999", "15000", "15001"),
        "streams.num.standby.replicas": ("-1", "2", "3"),
        "streams.initial.rebalance.delay.ms": ("-1", "0", "100000"),
        "streams.assignment.interval.ms": ("-1", "15000", "15001"),
        "streams.nothing": ("1",),
    }.items():
        for value in values:
            yield f"{key}={value}", talk.configure("settings", key, value)
