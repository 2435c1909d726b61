"""A conversation about streams groups (KIP-1071) that any Kafka-compatible broker can be asked to have.

Owns: the questions, and which part of an answer counts: error codes and texts, epochs, statuses, tasks, topologies; no
hosts. A list of missing topics counts sorted, as Kafka's order is that of a hash table.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.delete_groups_request import DeleteGroupsRequest
from oncelog.protocol.generated.describe_groups_request import DescribeGroupsRequest
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from oncelog.protocol.generated.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from oncelog.protocol.generated.list_groups_request import ListGroupsRequest
from oncelog.protocol.generated.metadata_request import MetadataRequest, MetadataRequestTopic
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
from oncelog.protocol.generated.streams_group_describe_request import StreamsGroupDescribeRequest
from oncelog.protocol.generated.streams_group_heartbeat_request import (
    CopartitionGroup,
    Endpoint,
    KeyValue,
    Subtopology,
    TaskOffset,
    TopicInfo,
    Topology,
)
from tests.clients.consumer_group_members import Consumer
from tests.clients.group_members import TOPIC, Broker, Member, commit
from tests.clients.offset_producer import Producer
from tests.clients.streams_group_members import STATELESS, Streams, ids, tasks

SETTINGS = ("group.streams.initial.rebalance.delay.ms=0", "group.streams.assignment.interval.ms=0")
DIFFERENCES: dict[str, tuple[str, object]] = {}
SMALL = "small"
_GROUP_RESOURCE, _SET = 32, 0

Told = Iterator[tuple[str, Any]]


def conversation(broker: Broker) -> Told:
    """Every question and its answer; `broker` must be fresh."""
    _create(broker, TOPIC, 4)
    _create(broker, SMALL, 2)
    for key_type in (0, 1):
        while broker.ask(FindCoordinatorRequest(key="any", key_type=key_type), 2).error_code:
            broker.let_pass(100)
    while ErrorCode(broker.ask(DescribeGroupsRequest(groups=["any"]), 5).groups[0].error_code).retriable:
        broker.let_pass(100)
    parts = (invalid, unknown, one_member, two_members, lost, topologies, internal_topics, delays, standbys, endpoints)
    for part in (*parts, shutdowns, offsets, transactions, types, ends, settings):
        for name, answer in part(broker):
            yield f"{part.__name__}: {name}", answer


# --- asking ---------------------------------------------------------------------------------------------------------


def _name(code: int) -> str:
    return ErrorCode(code).name


def _create(broker: Broker, name: str, partition_count: int) -> None:
    topic = CreatableTopic(name=name, num_partitions=partition_count, replication_factor=1)
    broker.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5)
    _await(broker, name)


def _await(broker: Broker, name: str) -> None:
    """Kafka's broker learns of a topic a moment after its controller."""
    while broker.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 12).topics[0].error_code:
        broker.let_pass(100)
    broker.let_pass(500)


def _said(answer: Any) -> Any:
    """The comparable part of an answer to a heartbeat."""
    if answer.error_code:
        return _name(answer.error_code), answer.error_message
    assigned = (answer.active_tasks, answer.standby_tasks, answer.warmup_tasks)
    endpoints = answer.partitions_by_user_endpoint
    return (
        answer.member_epoch,
        [(status.status_code, _sorted(status.status_detail)) for status in answer.status or ()],
        [None if some is None else _tasks(some) for some in assigned],
        answer.endpoint_information_epoch,
        None if endpoints is None else sorted(map(_endpoint, endpoints)),
        answer.heartbeat_interval_ms,
    )


def _sorted(detail: str) -> str:
    listed = re.fullmatch(r"(Internal topics are missing: )([^;]*)(.*)", detail)
    return detail if listed is None else f"{listed[1]}{', '.join(sorted(listed[2].split(', ')))}{listed[3]}"


def _tasks(entries: Sequence[Any]) -> list[tuple[str, list[int]]]:
    return sorted((name, sorted(partitions)) for name, partitions in ids(entries).items())


def _endpoint(each: Any) -> tuple[Any, ...]:
    endpoint = each.user_endpoint
    parts = (each.active_partitions, each.standby_partitions)
    return (
        endpoint.host,
        endpoint.port,
        *(sorted((some.topic, sorted(some.partitions)) for some in part) for part in parts),
    )


def _joined(member: Streams, **fields: Any) -> Any:
    member.join(**fields)
    return _said(member.last)


def _beat(member: Streams, **fields: Any) -> Any:
    member.heartbeat(**fields)
    return _said(member.last)


def _described(broker: Broker, group_id: str) -> Any:
    group = broker.ask(StreamsGroupDescribeRequest(group_ids=[group_id]), 0).groups[0]
    if group.error_code:
        return _name(group.error_code), group.error_message
    members = sorted(
        (
            member.member_id,
            member.member_epoch,
            (member.instance_id, member.rack_id, member.client_id, member.topology_epoch, member.process_id),
            [(tag.key, tag.value) for tag in member.client_tags],
            [_assignment(assignment) for assignment in (member.assignment, member.target_assignment)],
            (len(member.task_offsets), len(member.task_end_offsets), member.is_classic),
        )
        for member in group.members
    )
    return group.group_state, group.group_epoch, group.assignment_epoch, _topology(group.topology), members


def _assignment(assignment: Any) -> list[Any]:
    return [_tasks(some) for some in (assignment.active_tasks, assignment.standby_tasks, assignment.warmup_tasks)]


def _topology(topology: Any) -> Any:
    return topology.epoch, [
        (
            each.subtopology_id,
            each.source_topics,
            each.repartition_sink_topics,
            [_topic(topic) for topic in each.repartition_source_topics],
            [_topic(topic) for topic in each.state_changelog_topics],
        )
        for each in topology.subtopologies
    ]


def _topic(topic: Any) -> tuple[Any, ...]:
    configs = sorted((entry.key, entry.value) for entry in topic.topic_configs)
    return topic.name, topic.partitions, topic.replication_factor, configs


def _counting(changelog: str, repartition: str, partitions: int = 0) -> Topology:
    return Topology(
        epoch=0,
        subtopologies=[
            Subtopology(subtopology_id="0", source_topics=[TOPIC], repartition_sink_topics=[repartition]),
            Subtopology(
                subtopology_id="1",
                repartition_source_topics=[TopicInfo(name=repartition, partitions=partitions)],
                state_changelog_topics=[
                    TopicInfo(name=changelog, topic_configs=[KeyValue(key="cleanup.policy", value="compact")])
                ],
                copartition_groups=[CopartitionGroup(repartition_source_topics=[0])],
            ),
        ],
    )


def _stateful(changelog: str) -> Topology:
    return Topology(subtopologies=[Subtopology("0", [TOPIC], state_changelog_topics=[TopicInfo(changelog)])])


def _reading(*topics: str, **fields: Any) -> Topology:
    return Topology(subtopologies=[Subtopology("0", topics, **fields)])


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


def invalid(broker: Broker) -> Told:
    member = Streams(broker, group_id="invalid")
    for name, fields in {
        "static member": {"instance_id": "i"},
        "task offsets": {"task_offsets": [TaskOffset("0", 0, 1)]},
        "task end offsets": {"task_end_offsets": []},
        "warm-up tasks": {"warmup_tasks": tasks({"0": [1]})},
        "regular expression": {"topology": _reading(source_topic_regex=["a.*"])},
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
        "changelog with partitions": {"topology": _reading(TOPIC, state_changelog_topics=[TopicInfo("c", 2)])},
        "epoch -2": {"member_epoch": -2},
        "epoch -3": {"member_epoch": -3, "topology": None},
        "one kind of tasks": {"member_epoch": 1, "topology": None, "standby_tasks": None},
        "topology later": {"member_epoch": 1},
        "internal topic": {"topology": _reading("__consumer_offsets")},
        "invalid topic": {"topology": _reading("a b")},
    }.items():
        yield name, _said(member.send(**{**_JOINING, **fields}))


def unknown(broker: Broker) -> Told:
    member = Streams(broker, group_id="nowhere")
    yield "heartbeat", _said(member.send(member_epoch=3))
    yield "leave", _said(member.send(member_epoch=-1))
    yield "describe", _described(broker, "nowhere")
    yield "describe none", _described(broker, "")
    Streams(broker, "other", group_id="somewhere").join()
    member.group_id = "somewhere"
    yield "member's heartbeat", _said(member.send(member_epoch=3))
    yield "member's leave", _said(member.send(member_epoch=-1))


def one_member(broker: Broker) -> Told:
    member = Streams(broker, group_id="alone")
    yield "join", _joined(member, client_tags=[KeyValue(key="zone", value="z")], rack_id="rack")
    yield "described", _described(broker, "alone")
    yield "report", _beat(member)
    yield "nothing new", _beat(member)
    yield "join again", _joined(member)
    yield "other process", _said(member.send(process_id="other"))
    yield "after that", _beat(member)
    for epoch in (1, 99):
        yield f"epoch {epoch}", _said(member.send(member_epoch=epoch))
    yield (
        "subtopology that is not there",
        _beat(member, active_tasks=tasks({"9": [0]}), standby_tasks=[], warmup_tasks=[]),
    )
    for number in (4, -1):
        reported = tasks({"0": [number]})
        yield f"task {number}", _beat(member, active_tasks=reported, standby_tasks=[], warmup_tasks=[])
    yield "leave", _said(member.send(member_epoch=-1))
    yield "described empty", _described(broker, "alone")


def two_members(broker: Broker) -> Told:
    one, two = Streams(broker, "one", group_id="two"), Streams(broker, "two", group_id="two")
    yield "one joins", _joined(one)
    yield "two joins", _joined(two)
    yield "assigning", _described(broker, "two")
    yield "one is to give up", _beat(one)
    yield "two waits", _beat(two)
    yield "reconciling", _described(broker, "two")
    yield "one still has them", _said(one.send(active_tasks=tasks({"0": [0, 1, 2]}), standby_tasks=[], warmup_tasks=[]))
    yield "one says nothing", _said(one.send())
    yield "one gave up", _beat(one)
    yield "two takes", _beat(two)
    yield "stable", _described(broker, "two")
    yield "one leaves", _said(one.send(member_epoch=-1))
    yield "two takes the rest", _beat(two)
    yield "one joins again", _joined(one)


def lost(broker: Broker) -> Told:
    one, two = Streams(broker, "one", group_id="lost"), Streams(broker, "two", group_id="lost")
    one.join()
    two.join()
    one.heartbeat()
    before = one.epoch
    one.send(**one.reported())
    yield "previous epoch, with its tasks", _said(one.send(member_epoch=before, **one.reported()))
    yield "previous epoch, without", _said(one.send(member_epoch=before))
    foreign = {"active_tasks": tasks({"0": [0, 1, 2, 3]}), "standby_tasks": [], "warmup_tasks": []}
    yield "previous epoch, with others", _said(one.send(member_epoch=before, **foreign))


def topologies(broker: Broker) -> Told:
    one, two = Streams(broker, "one", group_id="topologies"), Streams(broker, "two", group_id="topologies")
    one.topology = Topology(5, STATELESS.subtopologies)
    yield "epoch 5", _joined(one)
    for epoch in (4, 5, 6):
        two.topology = Topology(epoch, _reading(SMALL).subtopologies)
        yield f"another, epoch {epoch}", _joined(two)
    yield "of the old one", _beat(two)
    absent = Streams(broker, group_id="absent", topology=_reading("absent-e", "absent-d", "absent-c", "absent-b"))
    yield "absent topics", _joined(absent)
    yield "absent topics, described", _described(broker, "absent")
    copartitioned = _reading(TOPIC, SMALL, copartition_groups=[CopartitionGroup(source_topics=[0, 1])])
    yield "not copartitioned", _joined(Streams(broker, group_id="unequal", topology=copartitioned))
    fixed = _counting("fixed-changelog", "fixed-repartition", 3)
    fixed = Topology(
        0,
        [
            fixed.subtopologies[0],
            Subtopology(
                "1",
                [SMALL],
                repartition_source_topics=fixed.subtopologies[1].repartition_source_topics,
                copartition_groups=[CopartitionGroup(source_topics=[0], repartition_source_topics=[0])],
            ),
        ],
    )
    yield "fixed otherwise", _joined(Streams(broker, group_id="fixed", topology=fixed))
    loop = [
        Subtopology("0", [], repartition_sink_topics=["r"], repartition_source_topics=[TopicInfo("s")]),
        Subtopology("1", [], repartition_sink_topics=["s"], repartition_source_topics=[TopicInfo("r")]),
    ]
    yield "loop", _joined(Streams(broker, group_id="loop", topology=Topology(0, loop)))
    never = [Subtopology("0", [], repartition_source_topics=[TopicInfo("never")])]
    yield "never written", _joined(Streams(broker, group_id="never", topology=Topology(0, never)))


def internal_topics(broker: Broker) -> Told:
    member = Streams(broker, group_id="counting", topology=_counting("made-changelog", "made-repartition"))
    yield "missing", _joined(member)
    _await(broker, "made-changelog")
    _await(broker, "made-repartition")
    yield "made", _beat(member)
    yield "described", _described(broker, "counting")
    sizes = [
        len(broker.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 12).topics[0].partitions)
        for name in ("made-changelog", "made-repartition")
    ]
    yield "sizes", sizes
    _create(broker, "small-changelog", 3)
    member = Streams(broker, group_id="otherwise", topology=_stateful("small-changelog"))
    yield "another size", _joined(member)


def delays(broker: Broker) -> Told:
    _configure(broker, "delayed", "streams.initial.rebalance.delay.ms", "3000")
    one, two = Streams(broker, "one", group_id="delayed"), Streams(broker, "two", group_id="delayed")
    yield "one joins", _joined(one)
    yield "two joins", _joined(two)
    yield "described", _described(broker, "delayed")
    broker.let_pass(4000)
    # Which of them has which tasks follows from the order of a hash table in Kafka.
    yield "after it", sorted((_beat(one), _beat(two)))
    _configure(broker, "slow", "streams.assignment.interval.ms", "15000")
    one, two = Streams(broker, "one", group_id="slow"), Streams(broker, "two", group_id="slow")
    yield "one at once", _joined(one)
    yield "two within the interval", _joined(two)


def standbys(broker: Broker) -> Told:
    one, two = Streams(broker, "one", group_id="standby"), Streams(broker, "two", group_id="standby")
    _create(broker, "standby-changelog", 4)
    one.topology = two.topology = _stateful("standby-changelog")
    one.join()
    two.join()
    for member in (one, one, two):
        member.heartbeat()
    _configure(broker, "standby", "streams.num.standby.replicas", "1")
    yield "one", _beat(one)
    yield "two", _beat(two)
    yield "described", _described(broker, "standby")
    two.leave()
    yield "one alone", _beat(one)
    yield "it gives up its standby tasks", _beat(one)
    yield "it has them as active ones", _beat(one)


def endpoints(broker: Broker) -> Told:
    one = Streams(broker, "one", group_id="endpoints", endpoint=Endpoint("a", 1))
    two = Streams(broker, "two", group_id="endpoints", endpoint=Endpoint("b", 2))
    yield "one joins", _joined(one)
    yield "one again", _beat(one)
    yield "two joins", _joined(two)
    for name in ("one is to give up", "one gave up"):
        yield name, _beat(one)
    yield "two takes", _beat(two)
    yield "one hears of it", _beat(one)
    yield "one knows it", _beat(one)


def shutdowns(broker: Broker) -> Told:
    one, two = Streams(broker, "one", group_id="shutdown"), Streams(broker, "two", group_id="shutdown")
    one.join()
    two.join()
    yield "one leaves with it", _said(one.send(member_epoch=-1, shutdown_application=True))
    yield "two hears of it", _beat(two)
    yield "two still does", _beat(two)
    two.leave()
    yield "forgotten", _joined(two)
    yield "two asks for it", _said(two.send(shutdown_application=True))


def _fetched(broker: Broker, group_id: str, member_id: str | None, epoch: int) -> Any:
    topics = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])]
    group = OffsetFetchRequestGroup(group_id=group_id, member_id=member_id, member_epoch=epoch, topics=topics)
    answer = broker.ask(OffsetFetchRequest(groups=[group]), 9).groups[0]
    return _name(answer.error_code), [entry.committed_offset for topic in answer.topics for entry in topic.partitions]


def offsets(broker: Broker) -> Told:
    one, two = Streams(broker, "one", group_id="offsets"), Streams(broker, "two", group_id="offsets")
    one.join()
    two.join()
    for member in (one, one, two):
        member.heartbeat()
    for version in (8, 9):
        for epoch in (-1, 0, 1, 2, 3, 4):
            for partition in (0, 3):
                error = commit(
                    broker,
                    epoch + 5,
                    partition,
                    group_id="offsets",
                    member_id="one",
                    generation_id=epoch,
                    version=version,
                )
                yield f"version {version}, epoch {epoch}, partition {partition}", error.name
    yield (
        "of another topic",
        commit(broker, 1, topic=SMALL, group_id="offsets", member_id="one", generation_id=2, version=9).name,
    )
    yield "stranger", commit(broker, 1, group_id="offsets", member_id="three", generation_id=3, version=9).name
    for member_id, epoch in ((None, -1), ("one", 3), ("one", 2), ("three", 3)):
        yield f"fetched by {member_id}, epoch {epoch}", _fetched(broker, "offsets", member_id, epoch)
    deleted = OffsetDeleteRequestTopic(name=TOPIC, partitions=[OffsetDeleteRequestPartition(partition_index=0)])
    delete = OffsetDeleteRequest(group_id="offsets", topics=[deleted])
    yield "deleted in use", _name(broker.ask(delete, 0).topics[0].partitions[0].error_code)
    one.leave()
    two.leave()
    yield "without members", commit(broker, 1, group_id="offsets", version=9).name
    yield "deleted", _name(broker.ask(delete, 0).topics[0].partitions[0].error_code)


def transactions(broker: Broker) -> Told:
    member = Streams(broker, group_id="transactions")
    member.join()
    producer = Producer(broker, "streams-transactions").init()
    assert producer.add_offsets("transactions") is ErrorCode.NONE
    for name, fields in {
        "its epoch": {"member_id": "one", "generation_id": 2},
        "newer epoch": {"member_id": "one", "generation_id": 3},
        "older epoch": {"member_id": "one", "generation_id": 1},
        "stranger": {"member_id": "two", "generation_id": 2},
        "nobody": {},
    }.items():
        yield name, producer.send_commit(7, group_id="transactions", **fields).name
    producer.end(committed=True)
    broker.let_pass(1_000)
    yield "fetched", _fetched(broker, "transactions", None, -1)


def types(broker: Broker) -> Told:
    member = Streams(broker, group_id="types")
    member.join()
    classic = Member(broker, group_id="types")
    yield "classic member joins", _name(classic.send_join().message.error_code)
    consumer = Consumer(broker, "c", group_id="types")
    yield "consumer joins", _refused(consumer)
    described = broker.ask(DescribeGroupsRequest(groups=["types"]), 6).groups[0]
    yield "described as classic", (_name(described.error_code), described.error_message)
    member.leave()
    yield "consumer joins when it is empty", _refused(consumer)
    yield "classic member joins when it is empty", _name(classic.send_join().message.error_code)
    broker.let_pass(1_000)
    yield "it was a streams group", _described(broker, "types")
    consumer = Consumer(broker, "c", group_id="consumers")
    consumer.join()
    member = Streams(broker, group_id="consumers")
    yield "joins consumers", _joined(member)
    yield "reports to consumers", _said(member.send(member_epoch=1))
    yield "leaves consumers", _said(member.send(member_epoch=-1))
    consumer.leave()
    yield "joins when no consumer is left", _joined(member)
    commit(broker, 5, group_id="committed")
    member = Streams(broker, group_id="committed")
    yield "heartbeat where offsets are", _said(member.send(member_epoch=1))
    yield "joins where offsets are", _joined(member)
    yield "and they stay", _fetched(broker, "committed", None, -1)


def _refused(consumer: Consumer) -> Any:
    consumer.join()
    return _name(consumer.last.error_code), consumer.last.error_message


def ends(broker: Broker) -> Told:
    member = Streams(broker, group_id="ends")
    member.join()
    delete = DeleteGroupsRequest(groups_names=["ends"])
    listed = broker.ask(ListGroupsRequest(types_filter=["streams"]), 5).groups
    yield (
        "listed",
        [
            (group.group_id, group.protocol_type, group.group_state, group.group_type)
            for group in listed
            if group.group_id == "ends"
        ],
    )
    yield "deleted with members", _name(broker.ask(delete, 2).results[0].error_code)
    member.leave()
    yield "deleted", _name(broker.ask(delete, 2).results[0].error_code)
    yield "described", _described(broker, "ends")
    member.topology = _reading(SMALL)
    yield "another topology in its place", _joined(member)


def _configure(broker: Broker, group_id: str, name: str, value: str) -> Any:
    config = AlterableConfig(name=name, config_operation=_SET, value=value)
    resource = AlterConfigsResource(resource_type=_GROUP_RESOURCE, resource_name=group_id, configs=[config])
    (answer,) = broker.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    broker.let_pass(500)
    return _name(answer.error_code), answer.error_message


def settings(broker: Broker) -> Told:
    for name, values in {
        "streams.session.timeout.ms": ("44999", "45000", "60001", "x"),
        "streams.heartbeat.interval.ms": ("4999", "15000", "15001"),
        "streams.num.standby.replicas": ("-1", "2", "3"),
        "streams.initial.rebalance.delay.ms": ("-1", "0", "100000"),
        "streams.assignment.interval.ms": ("-1", "15000", "15001"),
        "streams.nothing": ("1",),
    }.items():
        for value in values:
            yield f"{name}={value}", _configure(broker, "settings", name, value)
