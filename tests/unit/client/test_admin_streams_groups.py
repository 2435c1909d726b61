"""Responses about streams groups: what a program gets, and whose lag is counted."""

from collections.abc import Awaitable, Callable
from typing import Any

from oncelog.client import Admin, StreamsInternalTopic, StreamsTask, StreamsTasks, TopicPartition
from oncelog.client.values.errors import KafkaError
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.consumer_group_describe_response import (
    ConsumerGroupDescribeResponse,
)
from oncelog.protocol.generated.consumer_group_describe_response import (
    DescribedGroup as ConsumerGroup,
)
from oncelog.protocol.generated.describe_groups_response import DescribedGroup as ClassicGroup
from oncelog.protocol.generated.describe_groups_response import DescribeGroupsResponse
from oncelog.protocol.generated.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from oncelog.protocol.generated.streams_group_describe_response import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    StreamsGroupDescribeResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from tests.fakes.scripted_answers import ANY, TOPIC, offset_fetch
from tests.fakes.virtual_loop import Answers, ScriptedBroker, run_virtually

GROUP = "group"
CHANGELOG = TopicInfo("group-store-changelog", 2, 1, [KeyValue("cleanup.policy", "compact")])
REPARTITION = TopicInfo("group-by-word-repartition", 2, 1, [])
READS = Subtopology(subtopology_id="0", source_topics=[TOPIC, "lines"], repartition_sink_topics=[REPARTITION.name])
COUNTS = Subtopology(subtopology_id="1", repartition_source_topics=[REPARTITION], state_changelog_topics=[CHANGELOG])


def member(**fields: Any) -> Member:
    return Member(
        **{
            "member_id": "thread",
            "member_epoch": 4,
            "client_id": "client",
            "client_host": "/127.0.0.1",
            "topology_epoch": 1,
            "process_id": "process",
            "assignment": Assignment(active_tasks=[TaskIds("1", [1, 0]), TaskIds("0", [0])]),
            "target_assignment": Assignment(standby_tasks=[TaskIds("1", [0])], warmup_tasks=[TaskIds("1", [1])]),
            **fields,
        }
    )


def described(code: int = 0, topology: Topology | None = None, *members: Member) -> StreamsGroupDescribeResponse:
    group = DescribedGroup(
        error_code=code,
        group_id=GROUP,
        group_state="Stable",
        group_epoch=4,
        assignment_epoch=4,
        topology=topology,
        members=members,
    )
    return StreamsGroupDescribeResponse(groups=[group])


def outcome(answers: Answers, call: Callable[[Admin], Awaitable[Any]]) -> Any:
    """Return the call's result, or the error that it raises."""
    found: list[Any] = []

    async def main() -> None:
        async with Admin("host:1") as admin:
            try:
                found.append(await call(admin))
            except KafkaError as error:
                found.append(error)

    run_virtually(ScriptedBroker({**ANY, **answers}), main)
    return found[0]


def group_of(response: StreamsGroupDescribeResponse) -> Any:
    found = outcome(
        {ApiKey.STREAMS_GROUP_DESCRIBE: lambda _: response}, lambda admin: admin.describe_streams_groups(GROUP)
    )
    return found[0] if isinstance(found, list) else found


def test_a_group_is_described_with_its_topology_and_the_tasks_of_each_member() -> None:
    endpoint = Endpoint("localhost", 8080)
    tags = [KeyValue("zone", "a")]
    found = group_of(described(0, Topology(1, [READS, COUNTS]), member(user_endpoint=endpoint, client_tags=tags)))
    assert (found.state, found.epoch, found.assignment_epoch, found.topology_epoch) == ("Stable", 4, 4, 1)
    assert found.source_topics == ("lines", TOPIC)
    assert found.internal_topics == (REPARTITION.name, CHANGELOG.name)
    (changelog,) = found.subtopologies[1].changelog_topics
    assert changelog == StreamsInternalTopic(CHANGELOG.name, 2, 1, {"cleanup.policy": "compact"})
    (thread,) = found.members
    assert thread.tasks == StreamsTasks(active=(StreamsTask("0", 0), StreamsTask("1", 0), StreamsTask("1", 1)))
    assert [str(each) for each in thread.target_tasks.standby + thread.target_tasks.warmup] == ["1_0", "1_1"]
    assert (thread.user_endpoint, thread.client_tags) == (("localhost", 8080), {"zone": "a"})


def test_a_group_whose_topology_is_not_known_has_none() -> None:
    found = group_of(described())
    assert (found.topology_epoch, found.subtopologies, found.members) == (-1, (), ())


def test_a_group_that_is_no_streams_group_does_not_exist_as_one() -> None:
    error = group_of(described(ErrorCode.GROUP_ID_NOT_FOUND))
    assert str(error) == "GROUP_ID_NOT_FOUND: streams group 'group' does not exist"


def _no_consumer_group(_: Any) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(groups=[ConsumerGroup(error_code=ErrorCode.GROUP_ID_NOT_FOUND)])


def _no_classic_group(_: Any) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=[ClassicGroup(error_code=ErrorCode.GROUP_ID_NOT_FOUND)])


def _ends_at_5(request: Any) -> ListOffsetsResponse:
    at = [
        ListOffsetsPartitionResponse(partition_index=each.partition_index, offset=0 if each.timestamp == -2 else 5)
        for topic in request.topics
        for each in topic.partitions
    ]
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=TOPIC, partitions=at)])


def lags_with(response: StreamsGroupDescribeResponse) -> Any:
    answers: Answers = {
        ApiKey.CONSUMER_GROUP_DESCRIBE: _no_consumer_group,
        ApiKey.DESCRIBE_GROUPS: _no_classic_group,
        ApiKey.STREAMS_GROUP_DESCRIBE: lambda _: response,
        ApiKey.OFFSET_FETCH: offset_fetch,
        ApiKey.LIST_OFFSETS: _ends_at_5,
    }
    return outcome(answers, lambda admin: admin.list_group_lag(GROUP))


def test_the_lag_is_that_of_the_partitions_which_the_active_tasks_read() -> None:
    """A task has a number for all its sources: one that has fewer partitions is not asked for more, nor is a topic that
    was deleted."""
    reads = member(assignment=Assignment(active_tasks=[TaskIds("0", [0, 1])]))
    (lag,) = lags_with(described(0, Topology(1, [READS, COUNTS]), reads))
    assert (lag.topic_partition, lag.committed_offset, lag.lag) == (TopicPartition(TOPIC, 0), 0, 5)
    assert lag.member is not None and lag.member.member_id == "thread"


def test_a_group_of_no_type_is_not_found_by_the_name_that_was_asked_for() -> None:
    error = lags_with(described(ErrorCode.GROUP_ID_NOT_FOUND))
    assert str(error) == "GROUP_ID_NOT_FOUND: group 'group' does not exist"
