"""Share groups (KIP-932): epochs, assignments, fencing, sessions, states and restarts, as members see them."""

from typing import Any

import pytest

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.consumer_group_describe_request import ConsumerGroupDescribeRequest
from oncelog.protocol.generated.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.delete_groups_request import DeleteGroupsRequest
from oncelog.protocol.generated.delete_topics_request import DeleteTopicsRequest
from oncelog.protocol.generated.describe_groups_request import DescribeGroupsRequest
from oncelog.protocol.generated.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from oncelog.protocol.generated.list_groups_request import ListGroupsRequest
from oncelog.protocol.generated.offset_delete_request import OffsetDeleteRequest
from oncelog.protocol.generated.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from oncelog.protocol.generated.share_group_describe_request import ShareGroupDescribeRequest
from tests.clients.consumer_group_members import Consumer, topic_id
from tests.clients.group_members import GROUP, TOPIC, Member, commit, started
from tests.clients.share_group_members import (
    ASSIGNMENT_INTERVAL_MS,
    ShareMember,
    described,
    settle,
    start_offsets,
)
from tests.fakes.broker import VirtualBroker

_GROUP_CONFIG = 32


def pair(broker: VirtualBroker) -> tuple[ShareMember, ShareMember]:
    """Two members that share four partitions."""
    one, two = ShareMember(broker, "one"), ShareMember(broker, "two")
    one.join()
    two.join()
    settle(broker, one, two)
    return one, two


# --- joining, reporting, leaving --------------------------------------------------------------------------------------


def test_the_first_heartbeat_begins_the_states_and_the_next_has_the_partitions() -> None:
    broker = started()
    one = ShareMember(broker)
    assert one.join() is ErrorCode.NONE
    assert (one.epoch, one.partitions) == (2, [])
    assert start_offsets(broker) == {TOPIC: dict.fromkeys(range(4), -1)}
    broker.let_pass(ASSIGNMENT_INTERVAL_MS)
    assert one.heartbeat() is ErrorCode.NONE
    assert (one.epoch, one.partitions) == (3, [0, 1, 2, 3])
    assert one.heartbeat() is ErrorCode.NONE
    assert one.last.assignment is None
    assert one.last.heartbeat_interval_ms == 5_000


@pytest.mark.interpreted
def test_a_heartbeat_that_changes_nothing_does_not_look_at_every_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not look at every member either; the next heartbeat after a change sees the change."""
    looked: list[str] = []
    broker = started()
    one, two = pair(broker)
    one.heartbeat()
    catalog = broker.broker.topics
    monkeypatch.setattr(type(catalog), "by_id", _noting(type(catalog).by_id, looked))
    assert one.heartbeat() is two.heartbeat() is ErrorCode.NONE
    assert not looked
    more = CreatePartitionsTopic(name=TOPIC, count=5, assignments=None)
    broker.ask(CreatePartitionsRequest(topics=[more], timeout_ms=1000), 3)
    settle(broker, one, two)
    assert sorted((*one.partitions, *two.partitions)) == [0, 1, 2, 3, 4]


def _noting(look: Any, looked: list[str]) -> Any:
    def noted(self: Any, topic_id: Any) -> Any:
        looked.append(topic_id)
        return look(self, topic_id)

    return noted


def test_a_group_is_described_as_it_is() -> None:
    broker = started()
    one = ShareMember(broker)
    one.join(rack_id="rack")
    settle(broker, one)
    group = described(broker)
    assert (group.group_state, group.group_epoch, group.assignment_epoch, group.assignor_name) == (
        *("Stable", 3, 3),
        "simple",
    )
    (member,) = group.members
    assert (member.member_id, member.rack_id, member.member_epoch) == ("one", "rack", 3)
    assert (member.client_id, member.client_host, member.subscribed_topic_names) == ("client", "/10.0.0.1", [TOPIC])
    (assigned,) = member.assignment.topic_partitions
    assert (assigned.topic_id, assigned.topic_name, assigned.partitions) == (topic_id(broker), TOPIC, (0, 1, 2, 3))


def test_members_share_the_partitions_evenly_and_each_has_one_at_least() -> None:
    broker = started()
    one, two = pair(broker)
    assert (len(one.partitions), len(two.partitions)) == (2, 2)
    assert sorted(one.partitions + two.partitions) == [0, 1, 2, 3]
    more = [ShareMember(broker, f"m{number}") for number in range(4)]
    for member in more:
        member.join()
    settle(broker, one, two, *more)
    assert all(1 <= len(member.partitions) <= 2 for member in (one, two, *more))


def test_a_member_leaves_once_and_the_last_one_an_empty_group() -> None:
    broker = started()
    one, two = pair(broker)
    one.leave()
    assert one.leave() is ErrorCode.UNKNOWN_MEMBER_ID
    assert one.last.error_message == "Member one is not a member of group group."
    assert two.leave() is ErrorCode.NONE
    assert described(broker).group_state == "Empty"


def test_a_response_that_was_lost_costs_nothing() -> None:
    broker = started()
    one = ShareMember(broker)
    one.join()
    broker.let_pass(ASSIGNMENT_INTERVAL_MS)
    assert one.send().member_epoch == 3  # it does not arrive
    assert one.heartbeat() is ErrorCode.NONE
    assert one.epoch == 3


@pytest.mark.parametrize(
    ("epoch", "text"),
    [
        (
            9,
            "The share group member has a greater member epoch (9) than the one known by the group coordinator (3). "
            "The member must abandon all its partitions and rejoin.",
        ),
        (
            1,
            "The share group member has a smaller member epoch (1) than the one known by the group coordinator (3), "
            "and it does not match the previous member epoch (2). The member must abandon all its partitions and "
            "rejoin.",
        ),
    ],
)
def test_another_epoch_is_fenced(epoch: int, text: str) -> None:
    broker = started()
    one = ShareMember(broker)
    one.join()
    settle(broker, one)
    answer = one.send(member_epoch=epoch)
    assert (answer.error_code, answer.error_message) == (ErrorCode.FENCED_MEMBER_EPOCH, text)
    assert one.join() is ErrorCode.NONE
    assert one.partitions == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"member_id": ""}, None),
        ({"member_id": "x" * 37}, None),
        ({"member_id": " "}, "MemberId can't be empty."),
        ({"group_id": " "}, "GroupId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"subscribed_topic_names": None}, "SubscribedTopicNames must be set in first request."),
        ({"subscribed_topic_names": []}, "SubscribedTopicNames must be set in first request."),
        ({"member_epoch": -2}, "MemberEpoch is invalid."),
    ],
)
def test_a_heartbeat_that_says_nothing_sensible_is_refused(fields: dict[str, Any], text: str | None) -> None:
    answer = ShareMember(started()).send(**{"subscribed_topic_names": [TOPIC], **fields})
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert answer.error_message == text


def test_a_heartbeat_of_a_stranger_is_refused() -> None:
    broker = started()
    one = ShareMember(broker)
    answer = one.send(member_epoch=1)
    assert (answer.error_code, answer.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Share group group not found.",
    )
    assert one.leave() is ErrorCode.GROUP_ID_NOT_FOUND
    assert one.last.error_message == "Group group not found."
    one.join()
    answer = ShareMember(broker, "two").send(member_epoch=1)
    assert (answer.error_code, answer.error_message) == (
        ErrorCode.UNKNOWN_MEMBER_ID,
        "Member two is not a member of group group.",
    )


def test_a_full_group_takes_no_new_member() -> None:
    broker = started("group.share.max.size=1")
    one = ShareMember(broker)
    one.join()
    two = ShareMember(broker, "two")
    assert two.join() is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert two.last.error_message == "The share group has reached its maximum capacity of 1 members."
    assert one.join() is ErrorCode.NONE


# --- topics -----------------------------------------------------------------------------------------------------------


def test_a_new_subscription_takes_effect_at_once() -> None:
    broker = started(topics=("a", "b"), partition_count=2)
    one = ShareMember(broker, topics=("a",))
    one.join()
    settle(broker, one)
    assert one.assigned == {topic_id(broker, "a"): frozenset({0, 1})}
    assert one.heartbeat(subscribed_topic_names=["b"]) is ErrorCode.NONE
    assert one.assigned == {}
    broker.let_pass(ASSIGNMENT_INTERVAL_MS)
    settle(broker, one)
    assert one.assigned == {topic_id(broker, "b"): frozenset({0, 1})}


def test_a_topic_that_is_deleted_and_made_again_is_another_topic() -> None:
    broker = started()
    one = ShareMember(broker)
    one.join()
    settle(broker, one)
    before = topic_id(broker)
    broker.ask(DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=1_000), 5)
    broker.let_pass(ASSIGNMENT_INTERVAL_MS)
    settle(broker, one)
    assert (one.assigned, start_offsets(broker)) == ({}, {})
    create = [CreatableTopic(name=TOPIC, num_partitions=2, replication_factor=1)]
    broker.ask(CreateTopicsRequest(topics=create, timeout_ms=1000), 5)
    broker.let_pass(ASSIGNMENT_INTERVAL_MS)
    settle(broker, one)
    assert one.assigned == {topic_id(broker): frozenset({0, 1})}
    assert topic_id(broker) != before


# --- restarts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", ["killed", "crashed"])
def test_a_restart_leaves_the_states_of_partitions_as_they_were(stop: str) -> None:
    broker = started()
    pair(broker)
    before = start_offsets(broker)
    broker = broker.killed() if stop == "killed" else broker.crashed(7)
    assert start_offsets(broker) == before


# --- settings ---------------------------------------------------------------------------------------------------------


def test_sessions_and_intervals_follow_the_settings_of_the_group() -> None:
    broker = started("group.share.min.session.timeout.ms=1", "group.share.min.heartbeat.interval.ms=1")
    configs = [
        AlterableConfig(name=name, config_operation=0, value=value)
        for name, value in (
            ("share.session.timeout.ms", "20000"),
            ("share.heartbeat.interval.ms", "6000"),
            ("share.assignment.interval.ms", "5000"),
        )
    ]
    resource = AlterConfigsResource(resource_type=_GROUP_CONFIG, resource_name=GROUP, configs=configs)
    answer = broker.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert answer.responses[0].error_code == ErrorCode.NONE
    one = ShareMember(broker)
    one.join()
    assert one.last.heartbeat_interval_ms == 6_000
    broker.let_pass(4_999)
    one.heartbeat()
    assert one.partitions == []
    broker.let_pass(1)
    one.heartbeat()
    assert one.partitions == [0, 1, 2, 3]
    broker.let_pass(20_000)
    assert one.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


# --- other types of groups --------------------------------------------------------------------------------------------


def test_no_request_for_another_type_finds_it() -> None:
    broker = started()
    ShareMember(broker).join()
    assert broker.ask(ListGroupsRequest(types_filter=["consumer"]), 5).groups == []
    (group,) = broker.ask(DescribeGroupsRequest(groups=[GROUP]), 6).groups
    assert (group.error_code, group.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group group is not a classic group.",
    )
    (group,) = broker.ask(ConsumerGroupDescribeRequest(group_ids=[GROUP]), 1).groups
    assert (group.error_code, group.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group group is not a consumer group.",
    )
    (group,) = broker.ask(ShareGroupDescribeRequest(group_ids=["other"]), 1).groups
    assert (group.error_code, group.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group other not found.")
    (group,) = broker.ask(ShareGroupDescribeRequest(group_ids=[""]), 1).groups
    assert (group.error_code, group.group_id) == (ErrorCode.INVALID_GROUP_ID, "")


def test_a_member_of_another_protocol_does_not_get_into_a_share_group() -> None:
    broker = started()
    ShareMember(broker).join()
    consumer = Consumer(broker, "consumer")
    assert consumer.join() is ErrorCode.GROUP_ID_NOT_FOUND
    assert consumer.last.error_message == "Group group is not a consumer group."
    classic = Member(broker)
    classic.join()
    assert classic.joined is not None
    assert (classic.joined.message.error_code, classic.joined.message.member_id) == (
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        "",
    )


def test_a_share_group_keeps_no_offsets() -> None:
    broker = started()
    ShareMember(broker).join()
    assert {commit(broker, 5, version=version) for version in (8, 9)} == {ErrorCode.GROUP_ID_NOT_FOUND}
    (group,) = broker.ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP)]), 8).groups
    assert (group.error_code, group.topics) == (ErrorCode.NONE, [])
    answer = broker.ask(OffsetDeleteRequest(group_id=GROUP, topics=[]), 0)
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_of_another_type_does_not_become_a_share_group() -> None:
    broker = started()
    commit(broker, 5)
    one = ShareMember(broker)
    assert one.join() is ErrorCode.GROUP_ID_NOT_FOUND
    assert one.last.error_message == "Group group is not a share group."
    Consumer(broker, "consumer", group_id="consumers").join()
    assert ShareMember(broker, group_id="consumers").join() is ErrorCode.GROUP_ID_NOT_FOUND
    broker.ask(DeleteGroupsRequest(groups_names=[GROUP]), 2)
    assert one.join() is ErrorCode.NONE


def test_an_empty_share_group_stays_until_it_is_deleted() -> None:
    broker = started("offsets.retention.minutes=1", "offsets.retention.check.interval.ms=1000")
    one = ShareMember(broker)
    one.join()
    settle(broker, one)
    one.leave()
    broker.let_pass(10 * 60_000)
    assert described(broker).group_state == "Empty"
    assert start_offsets(broker) == {TOPIC: dict.fromkeys(range(4), -1)}
