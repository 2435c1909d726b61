"""Consumer groups (KIP-848): epochs, reconciliation, fencing, sessions and restarts, as members see them."""

import pytest

from oncelog.client.groups.subscriptions import Subscription, encode_subscription
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.delete_topics_request import DeleteTopicsRequest
from tests.clients.consumer_group_members import (
    ASSIGNMENT_INTERVAL_MS,
    CONSUMER_SESSION_TIMEOUT_MS,
    Consumer,
    described,
    settle,
    topic_id,
)
from tests.clients.group_members import TOPIC, Member, started


def test_a_member_alone_has_everything_at_once() -> None:
    broker = started()
    one = Consumer(broker)
    assert one.join() is ErrorCode.NONE
    assert (one.epoch, one.partitions) == (2, [0, 1, 2, 3])
    assert described(broker).group_state == "Stable"


def test_a_static_member_returns_to_its_place_under_another_id() -> None:
    broker = started()
    one, two = Consumer(broker, "one", instance_id="i"), Consumer(broker, "two")
    one.join()
    two.join()
    settle(broker, one, two)
    partitions, epoch = one.partitions, described(broker).group_epoch
    assert one.leave(-2) is ErrorCode.NONE
    assert two.heartbeat() is ErrorCode.NONE
    back = Consumer(broker, "back", instance_id="i")
    assert back.join() is ErrorCode.NONE
    assert (back.partitions, described(broker).group_epoch) == (partitions, epoch)
    assert one.heartbeat() is ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_that_stays_away_is_out_after_its_session() -> None:
    broker = started()
    one, two = Consumer(broker, "one", instance_id="i"), Consumer(broker, "two")
    one.join()
    two.join()
    settle(broker, one, two)
    one.leave(-2)
    broker.let_pass(CONSUMER_SESSION_TIMEOUT_MS // 2)
    two.heartbeat()
    broker.let_pass(CONSUMER_SESSION_TIMEOUT_MS // 2)
    settle(broker, two)
    assert two.partitions == [0, 1, 2, 3]


def test_an_instance_id_that_is_in_use_is_not_given_away() -> None:
    broker = started()
    Consumer(broker, "one", instance_id="i").join()
    other = Consumer(broker, "two", instance_id="i")
    assert other.join() is ErrorCode.UNRELEASED_INSTANCE_ID
    assert other.heartbeat(member_epoch=2) is ErrorCode.FENCED_INSTANCE_ID


def test_a_topic_that_is_deleted_and_made_again_is_another_topic() -> None:
    broker = started()
    one = Consumer(broker)
    one.join()
    old = topic_id(broker)
    broker.ask(DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=1_000), 5)
    broker.let_pass(ASSIGNMENT_INTERVAL_MS)
    settle(broker, one)
    assert one.partitions == []
    topic = CreatableTopic(name=TOPIC, num_partitions=2, replication_factor=1)
    broker.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1_000), 5)
    broker.let_pass(ASSIGNMENT_INTERVAL_MS)
    settle(broker, one)
    assert list(one.owned) == [topic_id(broker)] != [old]
    assert one.partitions == [0, 1]


def test_a_regular_expression_follows_the_topics() -> None:
    broker = started(topics=("a-1", "b-1"), partition_count=1)
    one = Consumer(broker, topics=None, regex="a-.*")
    one.join()
    settle(broker, one)
    assert list(one.owned) == [topic_id(broker, "a-1")]
    topic = CreatableTopic(name="a-2", num_partitions=1, replication_factor=1)
    broker.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1_000), 5)
    broker.let_pass(ASSIGNMENT_INTERVAL_MS)
    settle(broker, one)
    assert set(one.owned) == {topic_id(broker, "a-1"), topic_id(broker, "a-2")}
    broker = broker.killed()
    one.broker = broker
    assert described(broker).members[0].subscribed_topic_regex == "a-.*"
    one.heartbeat(subscribed_topic_regex="b-.*")
    broker.let_pass(ASSIGNMENT_INTERVAL_MS)
    settle(broker, one)
    assert list(one.owned) == [topic_id(broker, "b-1")]


def test_a_bad_regular_expression_makes_no_group() -> None:
    broker = started()
    assert Consumer(broker, topics=None, regex="a(").join() is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert described(broker).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_an_expression_that_costs_others_their_lives_costs_nothing_here() -> None:
    broker = started(topics=("a" * 200 + "b",), partition_count=1)
    one = Consumer(broker, topics=None, regex="(a|a)*c|(a*)*d")
    assert one.join() is ErrorCode.NONE
    assert one.partitions == []


def test_the_assignor_that_most_members_want_assigns() -> None:
    broker = started()
    one = Consumer(broker, "one", assignor="range")
    one.join()
    assert described(broker).assignor_name == "range"
    Consumer(broker, "two", assignor="uniform").join()
    Consumer(broker, "three", assignor="uniform").join()
    assert described(broker).assignor_name == "uniform"
    assert Consumer(broker, "four", assignor="nobody's").join() is ErrorCode.UNSUPPORTED_ASSIGNOR


def test_a_full_group_takes_no_new_member() -> None:
    broker = started("group.consumer.max.size=1")
    one = Consumer(broker, "one", instance_id="i")
    one.join()
    assert Consumer(broker, "two").join() is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert one.join(instance_id="i") is ErrorCode.UNRELEASED_INSTANCE_ID
    one.leave(-2)
    assert Consumer(broker, "back", instance_id="i").join() is ErrorCode.NONE


@pytest.mark.parametrize(
    ("protocols", "answer"),
    [
        ("classic,streams", ErrorCode.UNSUPPORTED_VERSION),
        ("consumer, classic", ErrorCode.NONE),
    ],
)
def test_a_broker_serves_consumer_groups_only_if_its_protocols_name_them(protocols: str, answer: ErrorCode) -> None:
    broker = started(f"group.coordinator.rebalance.protocols={protocols}")
    assert Consumer(broker).join() is answer
    assert described(broker).error_code == answer


_SUBSCRIPTION = encode_subscription(Subscription([TOPIC]))


def test_a_consumer_group_takes_classic_members_also_where_the_policy_migrates_no_group() -> None:
    broker = started("group.consumer.migration.policy=disabled")
    one = Consumer(broker, "one")
    one.join()
    two = Member(broker, protocols=(("range", _SUBSCRIPTION),))
    assert two.join().message.error_code == ErrorCode.NONE
    one.leave()
    group = described(broker)
    assert (group.error_code, len(group.members)) == (ErrorCode.NONE, 1), "it is a consumer group still"


def test_a_classic_member_that_a_consumer_group_refuses_is_answered_without_an_id() -> None:
    broker = started()
    Consumer(broker, "one").join()
    two = Member(broker, member_id="two", protocol_type="connect")
    answer = two.join().message
    assert (answer.error_code, answer.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")


def test_sessions_and_intervals_follow_the_settings() -> None:
    broker = started(
        "group.consumer.min.session.timeout.ms=1000",
        "group.consumer.session.timeout.ms=3000",
        "group.consumer.min.heartbeat.interval.ms=100",
        "group.consumer.heartbeat.interval.ms=200",
        "group.consumer.assignment.interval.ms=0",
    )
    one, two = Consumer(broker, "one"), Consumer(broker, "two")
    one.join()
    assert one.last.heartbeat_interval_ms == 200
    two.join()
    assert described(broker).assignment_epoch == 3
    broker.let_pass(3_000)
    assert one.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("jump_ms", [-30 * 86_400_000, -1_000, 30 * 86_400_000])
def test_members_get_partitions_in_time_though_the_clock_was_set_back_since_the_last_assignment(jump_ms: int) -> None:
    broker = started()
    one, two = Consumer(broker, "one"), Consumer(broker, "two")
    one.join()
    broker.time.wall_offset_ms += jump_ms
    two.join()
    broker.let_pass(1_000)
    one.heartbeat()
    two.heartbeat()
    group = described(broker)
    assert group.assignment_epoch == group.group_epoch == 3
