"""Heartbeats of streams groups that are rejected, and topologies whose topics are missing, wrong or impossible."""

from typing import Any

import pytest

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.metadata_request import MetadataRequest
from oncelog.protocol.generated.streams_group_heartbeat_request import (
    Subtopology,
    TaskOffset,
    TopicInfo,
    Topology,
)
from tests.clients.group_members import GROUP, TOPIC, started
from tests.clients.streams_group_members import (
    ASSIGNMENT_INTERVAL_MS,
    CHANGELOG,
    COUNTING,
    REPARTITION,
    STATELESS,
    Streams,
    described,
    tasks,
)
from tests.fakes.broker import VirtualBroker

AT_ONCE = "group.streams.initial.rebalance.delay.ms=0"


# --- topologies -----------------------------------------------------------------------------------------------------


def names(broker: VirtualBroker) -> dict[str, int]:
    """The partition counts of all topics of clients."""
    topics = broker.ask(MetadataRequest(topics=None), 9).topics
    return {topic.name: len(topic.partitions) for topic in topics if not topic.is_internal}


def test_missing_internal_topics_are_made_and_then_the_tasks_are_given() -> None:
    broker = started(AT_ONCE)
    one = Streams(broker, topology=COUNTING)
    one.join()
    (status,) = one.last.status
    assert (status.status_code, status.status_detail) == (
        3,
        f"Internal topics are missing: {REPARTITION}, {CHANGELOG}",
    )
    group = described(broker)
    changelog = group.topology.subtopologies[1].state_changelog_topics[0]
    assert (group.group_state, changelog.name, changelog.partitions) == ("NotReady", CHANGELOG, 0)
    assert names(broker) == {TOPIC: 4, CHANGELOG: 4, REPARTITION: 4}
    broker.let_pass(ASSIGNMENT_INTERVAL_MS)
    one.heartbeat()
    assert (one.active, one.last.status) == ({"0": frozenset(range(4)), "1": frozenset(range(4))}, [])
    group = described(broker)
    changelog = group.topology.subtopologies[1].state_changelog_topics[0]
    assert (group.group_state, changelog.name, changelog.partitions) == ("Stable", CHANGELOG, 4)


def test_tasks_wait_for_source_topics() -> None:
    broker = started(AT_ONCE)
    one = Streams(broker, topology=Topology(subtopologies=[Subtopology("0", source_topics=["absent"])]))
    one.join()
    (status,) = one.last.status
    assert (status.status_code, status.status_detail) == (1, "Source topics absent are missing.")
    broker.ask(CreateTopicsRequest(topics=[CreatableTopic("absent", 2, 1)], timeout_ms=1000), 5)
    broker.let_pass(ASSIGNMENT_INTERVAL_MS)
    one.heartbeat()
    assert one.partitions == [0, 1]


def test_an_internal_topic_with_other_partitions_is_left_alone() -> None:
    broker = started(AT_ONCE)
    broker.ask(CreateTopicsRequest(topics=[CreatableTopic(CHANGELOG, 3, 1)], timeout_ms=1000), 5)
    one = Streams(broker, topology=COUNTING)
    one.join()
    (status,) = one.last.status
    assert status.status_code == 2
    assert status.status_detail == (
        f"Existing topic {CHANGELOG} has different number of partitions: expected 4, found 3"
    )
    assert (one.active, names(broker)) == ({}, {TOPIC: 4, CHANGELOG: 3})


def test_what_cannot_be_created_is_said_in_the_status() -> None:
    broker = started(AT_ONCE)
    replicated = Subtopology("0", [TOPIC], state_changelog_topics=[TopicInfo(CHANGELOG, replication_factor=3)])
    one = Streams(broker, topology=Topology(subtopologies=[replicated]))
    one.join()
    (status,) = one.last.status
    assert status.status_code == 3
    assert f"; Creation failed: {CHANGELOG} (Unable to replicate the partition 3 time(s)" in status.status_detail
    assert names(broker) == {TOPIC: 4}


def test_another_topology_is_rejected_and_an_older_one_is_stale() -> None:
    broker = started(AT_ONCE)
    one = Streams(broker, "one", topology=Topology(5, STATELESS.subtopologies))
    one.join()
    two = Streams(broker, "two", topology=Topology(5, COUNTING.subtopologies))
    assert two.join() is ErrorCode.INVALID_REQUEST
    assert two.last.error_message == "Topology updates are not supported yet."
    three = Streams(broker, "three", topology=Topology(4, COUNTING.subtopologies))
    assert three.join() is ErrorCode.NONE
    assert three.last.status[0].status_detail == (
        "The member's topology epoch 4 is behind the group's topology epoch 5."
    )


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (
            ["__consumer_offsets"],
            "Use of Kafka internal topics __consumer_offsets in a Kafka Streams topology is prohibited.",
        ),
        (["a b", "good"], "Topic names a b are not valid topic names."),
    ],
)
def test_a_topology_of_topics_that_cannot_be_is_rejected(names: list[str], message: str) -> None:
    one = Streams(started(), topology=Topology(subtopologies=[Subtopology("0", source_topics=names)]))
    assert one.join() is ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert one.last.error_message == message


def test_a_subtopology_or_task_that_does_not_exist_is_rejected() -> None:
    one = Streams(started(AT_ONCE))
    one.join()
    assert one.send(active_tasks=tasks({"9": [0]}), standby_tasks=[], warmup_tasks=[]).error_message == (
        "Subtopology 9 does not exist in the topology."
    )
    assert one.send(active_tasks=[], standby_tasks=tasks({"9": []}), warmup_tasks=[]).error_message == (
        "Subtopology 9 does not exist in the topology."
    )
    assert one.send(active_tasks=tasks({"0": []}), standby_tasks=[], warmup_tasks=[]).error_code == ErrorCode.NONE
    assert one.send(active_tasks=tasks({"0": [4]}), standby_tasks=[], warmup_tasks=[]).error_message == (
        "Task 4 for subtopology 0 is invalid. Number of tasks for this subtopology: 4"
    )


# --- invalid requests -----------------------------------------------------------------------------------------------

JOINING: dict[str, Any] = {
    "rebalance_timeout_ms": 1000,
    "topology": STATELESS,
    "active_tasks": [],
    "standby_tasks": [],
    "warmup_tasks": [],
}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"instance_id": "i"}, "Static membership is not yet supported."),
        ({"task_offsets": [TaskOffset("0", 0, 1)]}, "TaskOffsets are not supported yet."),
        ({"task_end_offsets": []}, "TaskEndOffsets are not supported yet."),
        ({"warmup_tasks": tasks({"0": [1]})}, "WarmupTasks are not supported yet."),
        ({"warmup_tasks": tasks({"0": []})}, "WarmupTasks are not supported yet."),
        (
            {"topology": Topology(0, [Subtopology("0", source_topic_regex=["a.*"])])},
            "Regular expressions for source topics are not supported yet.",
        ),
        ({"member_id": " "}, "MemberId can't be empty."),
        ({"group_id": ""}, "GroupId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"active_tasks": None}, "ActiveTasks must be empty when (re-)joining."),
        ({"active_tasks": tasks({"0": []})}, "ActiveTasks must be empty when (re-)joining."),
        ({"standby_tasks": tasks({"0": [1]})}, "StandbyTasks must be empty when (re-)joining."),
        ({"topology": None}, "Topology must be non-null when (re-)joining."),
        ({"member_epoch": -2}, "InstanceId can't be null."),
        ({"member_epoch": -3}, "MemberEpoch is -3, but must be greater than or equal to -2."),
        (
            {"member_epoch": 1, "topology": None, "standby_tasks": None},
            "If one task-type is non-null, all must be non-null.",
        ),
        ({"member_epoch": 1}, "Topology can only be provided when (re-)joining."),
    ],
)
def test_an_invalid_heartbeat_is_rejected_with_the_reason(fields: dict[str, Any], message: str) -> None:
    answer = Streams(started()).send(**{**JOINING, **fields})
    assert (ErrorCode(answer.error_code), answer.error_message) == (ErrorCode.INVALID_REQUEST, message)


def test_a_changelog_has_no_partition_count_of_its_own() -> None:
    changelog = Subtopology("0", [TOPIC], state_changelog_topics=[TopicInfo("c", 2)])
    answer = Streams(started()).send(**{**JOINING, "topology": Topology(0, [changelog])})
    assert ErrorCode(answer.error_code) is ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert answer.error_message == "Changelog topic c must have an undefined partition count, but it is set to 2."


def test_a_group_that_is_not_there_and_a_member_that_is_not_there_are_unknown() -> None:
    broker = started()
    one = Streams(broker)
    assert one.send(member_epoch=3).error_message == f"Streams group {GROUP} not found."
    assert one.send(member_epoch=-1).error_message == f"Group {GROUP} not found."
    one.join()
    answer = Streams(broker, "two").send(member_epoch=3)
    assert ErrorCode(answer.error_code) is ErrorCode.UNKNOWN_MEMBER_ID
    assert answer.error_message == f"Member two is not a member of group {GROUP}."


def test_no_more_members_join_than_fit() -> None:
    broker = started("group.streams.max.size=1")
    Streams(broker, "one").join()
    two = Streams(broker, "two")
    assert two.join() is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert two.last.error_message == "The streams group has reached its maximum capacity of 1 members."
