"""Requests and responses about share groups: what a program passes and gets, and how often the coordinator is asked."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from oncelog.client import Admin, ConfigError, SharePartitionOffset, TopicPartition, UnknownTopic
from oncelog.client.values.errors import KafkaError
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.alter_share_group_offsets_response import (
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from oncelog.protocol.generated.delete_share_group_offsets_response import (
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from oncelog.protocol.generated.describe_share_group_offsets_response import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from oncelog.protocol.generated.share_group_describe_response import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeResponse,
    TopicPartitions,
)
from tests.fakes.scripted_answers import ANY, TOPIC
from tests.fakes.virtual_loop import ScriptedBroker, run_virtually

GROUP = "workers"
PLACE = TopicPartition(TOPIC, 0)


def asked(key: ApiKey, answer: Callable[[Any], Any], call: Callable[[Admin], Awaitable[Any]]) -> tuple[Any, list[Any]]:
    """Return the call's result, or the error that it raises, and the requests of that API."""
    broker = ScriptedBroker({**ANY, key: answer})
    found: list[Any] = []

    async def main() -> None:
        async with Admin("host:1") as admin:
            try:
                found.append(await call(admin))
            except KafkaError as error:
                found.append(error)

    run_virtually(broker, main)
    return found[0], [request for seen, request in broker.seen if seen is key]


def group_with(error_code: int = 0, members: tuple[Member, ...] = ()) -> ShareGroupDescribeResponse:
    group = DescribedGroup(
        error_code=error_code,
        group_id=GROUP,
        group_state="Stable",
        group_epoch=3,
        assignment_epoch=2,
        assignor_name="simple",
        members=members,
    )
    return ShareGroupDescribeResponse(groups=[group])


def offsets_with(
    *partitions: DescribeShareGroupOffsetsResponsePartition, error_code: int = 0
) -> DescribeShareGroupOffsetsResponse:
    topics = [DescribeShareGroupOffsetsResponseTopic(topic_name=TOPIC, partitions=partitions)]
    group = DescribeShareGroupOffsetsResponseGroup(group_id=GROUP, topics=topics, error_code=error_code)
    return DescribeShareGroupOffsetsResponse(groups=[group])


def test_a_group_is_described_with_the_members_that_share_its_partitions() -> None:
    """Several members may have the same partition; topics and partitions are sorted, whatever the broker's order."""
    shared = TopicPartitions(topic_name=TOPIC, partitions=[1, 0])
    members = tuple(
        Member(
            member_id=name,
            client_id=f"client-{name}",
            client_host="/127.0.0.1",
            member_epoch=3,
            subscribed_topic_names=["z", TOPIC],
            assignment=Assignment([shared]),
        )
        for name in ("a", "b")
    )
    (group,), (request,) = asked(
        ApiKey.SHARE_GROUP_DESCRIBE,
        lambda _: group_with(members=members),
        lambda admin: admin.describe_share_groups(GROUP),
    )
    assert list(request.group_ids) == [GROUP]
    assert (group.state, group.assignor, group.epoch, group.assignment_epoch) == ("Stable", "simple", 3, 2)
    assert group.coordinator_id == 0
    assert [each.member_id for each in group.members] == ["a", "b"]
    assert {each.partitions for each in group.members} == {(PLACE, TopicPartition(TOPIC, 1))}
    assert {each.topics for each in group.members} == {(TOPIC, "z")}


@pytest.mark.parametrize("busy", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR])
def test_a_coordinator_that_loads_or_has_moved_is_asked_again(busy: ErrorCode) -> None:
    codes = [busy, busy, ErrorCode.NONE]
    found, requests = asked(
        ApiKey.SHARE_GROUP_DESCRIBE,
        lambda _: group_with(codes.pop(0)),
        lambda admin: admin.describe_share_groups(GROUP),
    )
    assert found[0].group_id == GROUP
    assert len(requests) == 3


def test_a_group_that_is_no_share_group_does_not_exist_as_one() -> None:
    error, _ = asked(
        ApiKey.SHARE_GROUP_DESCRIBE,
        lambda _: group_with(ErrorCode.GROUP_ID_NOT_FOUND),
        lambda admin: admin.describe_share_groups(GROUP),
    )
    assert isinstance(error, ConfigError)
    assert str(error) == "GROUP_ID_NOT_FOUND: share group 'workers' does not exist"


def test_a_broker_without_share_groups_is_an_error_that_says_so() -> None:
    error, requests = asked(ApiKey.END_TXN, lambda _: None, lambda admin: admin.describe_share_groups(GROUP))
    assert error.name == "UNSUPPORTED_VERSION"
    assert not requests


def test_numbers_that_the_broker_does_not_know_are_none() -> None:
    """-1 on the wire: the partition has not been read yet, or its lag is unknown."""
    known = DescribeShareGroupOffsetsResponsePartition(partition_index=1, start_offset=7, leader_epoch=2, lag=5)
    unknown = DescribeShareGroupOffsetsResponsePartition(partition_index=0, start_offset=-1, leader_epoch=-1, lag=-1)
    found, (request,) = asked(
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        lambda _: offsets_with(known, unknown),
        lambda admin: admin.list_share_group_offsets(GROUP),
    )
    assert request.groups[0].topics is None
    assert list(found.items()) == [
        (PLACE, SharePartitionOffset(None, None, None)),
        (TopicPartition(TOPIC, 1), SharePartitionOffset(7, 2, 5)),
    ]


def test_only_the_partitions_that_are_named_are_asked_for() -> None:
    places = [TopicPartition("b", 1), TopicPartition("a", 0), TopicPartition("b", 0)]
    _, (request,) = asked(
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        lambda _: offsets_with(),
        lambda admin: admin.list_share_group_offsets(GROUP, places),
    )
    named = {topic.topic_name: list(topic.partitions) for topic in request.groups[0].topics}
    assert named == {"b": [1, 0], "a": [0]}


def test_an_error_of_one_partition_is_raised_with_its_name() -> None:
    refused = DescribeShareGroupOffsetsResponsePartition(
        partition_index=0, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, error_message="not yours"
    )
    error, _ = asked(
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        lambda _: offsets_with(refused),
        lambda admin: admin.list_share_group_offsets(GROUP, [PLACE]),
    )
    assert error.name == "TOPIC_AUTHORIZATION_FAILED"
    assert "share group 'workers', topic-0: not yours" in str(error)


def altered(error_code: int = 0, partition_code: int = 0) -> AlterShareGroupOffsetsResponse:
    partition = AlterShareGroupOffsetsResponsePartition(partition_index=0, error_code=partition_code)
    topic = AlterShareGroupOffsetsResponseTopic(topic_name=TOPIC, partitions=[partition])
    return AlterShareGroupOffsetsResponse(error_code=error_code, responses=[topic])


def test_offsets_are_sent_by_topic_and_partition() -> None:
    result, (request,) = asked(
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        lambda _: altered(),
        lambda admin: admin.alter_share_group_offsets(GROUP, {PLACE: 42}),
    )
    assert result is None
    (topic,) = request.topics
    (partition,) = topic.partitions
    assert (request.group_id, topic.topic_name) == (GROUP, TOPIC)
    assert (partition.partition_index, partition.start_offset) == (0, 42)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (altered(ErrorCode.NON_EMPTY_GROUP), "NON_EMPTY_GROUP: share group 'workers' has members"),
        (altered(ErrorCode.GROUP_ID_NOT_FOUND), "GROUP_ID_NOT_FOUND: group 'workers' is not a share group"),
        (
            altered(0, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
            "TOPIC_AUTHORIZATION_FAILED: share group 'workers', topic-0",
        ),
    ],
    ids=["members", "another type", "one partition"],
)
def test_a_refusal_to_move_offsets_is_raised_once_with_its_subject(
    answer: AlterShareGroupOffsetsResponse, said: str
) -> None:
    error, requests = asked(
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        lambda _: answer,
        lambda admin: admin.alter_share_group_offsets(GROUP, {PLACE: 42}),
    )
    assert isinstance(error, KafkaError) and not error.retriable
    assert str(error).startswith(said)
    assert len(requests) == 1


@pytest.mark.parametrize("place", [TopicPartition("other", 0), TopicPartition(TOPIC, 9)], ids=["topic", "partition"])
def test_nothing_is_sent_for_a_partition_that_does_not_exist(place: TopicPartition) -> None:
    error, requests = asked(
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        lambda _: altered(),
        lambda admin: admin.alter_share_group_offsets(GROUP, {place: 1}),
    )
    assert error.name == "UNKNOWN_TOPIC_OR_PARTITION"
    assert not requests


def deleted(code: int) -> DeleteShareGroupOffsetsResponse:
    topic = DeleteShareGroupOffsetsResponseTopic(topic_name=TOPIC, error_code=code)
    return DeleteShareGroupOffsetsResponse(responses=[topic])


def test_a_topic_without_offsets_of_the_group_is_not_called_unknown() -> None:
    """The broker has one code for it and for a topic that does not exist."""
    error, _ = asked(
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        lambda _: deleted(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        lambda admin: admin.delete_share_group_offsets(GROUP, [TOPIC]),
    )
    assert not isinstance(error, UnknownTopic)
    assert "share group 'workers' has no offsets of topic 'topic'" in str(error)
    other, requests = asked(
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        lambda _: deleted(0),
        lambda admin: admin.delete_share_group_offsets(GROUP, ["other"]),
    )
    assert isinstance(other, UnknownTopic) and not requests


def test_one_topic_alone_is_no_list() -> None:
    error, requests = asked(
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        lambda _: deleted(0),
        lambda admin: admin.delete_share_group_offsets(GROUP, TOPIC),
    )
    assert "topics=['topic']" in str(error) and not requests
