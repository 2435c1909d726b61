"""The start offsets of share groups: altered, deleted and described, and gone with the group (KIP-932)."""

from contextlib import suppress
from itertools import count
from typing import Any

import pytest

from oncelog.broker.coordinator.share.values import topic_id_text
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from oncelog.protocol.generated.delete_groups_request import DeleteGroupsRequest
from oncelog.protocol.generated.delete_share_group_offsets_request import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from oncelog.protocol.generated.delete_topics_request import DeleteTopicsRequest
from oncelog.protocol.generated.describe_share_group_offsets_request import DescribeShareGroupOffsetsRequestTopic
from oncelog.protocol.generated.read_share_group_state_summary_request import (
    PartitionData,
    ReadShareGroupStateSummaryRequest,
    ReadStateSummaryData,
)
from oncelog.protocol.generated.write_share_group_state_request import (
    PartitionData as WrittenPartition,
)
from oncelog.protocol.generated.write_share_group_state_request import (
    StateBatch,
    WriteShareGroupStateRequest,
    WriteStateData,
)
from oncelog.protocol.topics import ZERO_UUID
from oncelog.testing.memory_disk import PowerCut
from tests.clients.administration import produce
from tests.clients.consumer_group_members import Consumer, topic_id
from tests.clients.group_members import GROUP, TOPIC, Broker, started
from tests.clients.share_group_members import ASSIGNMENT_INTERVAL_MS, ShareMember, offsets, settle, start_offsets
from tests.fakes.broker import VirtualBroker

FIRST = dict.fromkeys(range(4), -1)
FEW_PARTITIONS = ("offsets.topic.num.partitions=1", "share.coordinator.state.topic.num.partitions=1")


def alter(broker: Broker, starts: dict[int, int], topic: str = TOPIC, group_id: str = GROUP) -> Any:
    partitions = [AlterShareGroupOffsetsRequestPartition(index, offset) for index, offset in starts.items()]
    topics = [AlterShareGroupOffsetsRequestTopic(topic, partitions)]
    return broker.ask(AlterShareGroupOffsetsRequest(group_id=group_id, topics=topics), 0)


def delete(broker: Broker, *topics: str, group_id: str = GROUP) -> Any:
    named = [DeleteShareGroupOffsetsRequestTopic(name) for name in topics]
    return broker.ask(DeleteShareGroupOffsetsRequest(group_id=group_id, topics=named), 0)


def delete_group(broker: Broker) -> ErrorCode:
    return ErrorCode(broker.ask(DeleteGroupsRequest(groups_names=[GROUP]), 2).results[0].error_code)


def kept(broker: Broker, partition: int = 0) -> tuple[int, int]:
    """The start offset and the state epoch that the share coordinator has."""
    data = ReadStateSummaryData(topic_id(broker), [PartitionData(partition, 0)])
    answer = broker.ask(ReadShareGroupStateSummaryRequest(group_id=GROUP, topics=[data]), 0)
    (row,) = answer.results[0].partitions
    return row.start_offset, row.state_epoch


def with_member_gone(broker: VirtualBroker) -> None:
    """A group that has read a topic and is empty again."""
    member = ShareMember(broker)
    member.join()
    settle(broker, member)
    member.leave()


# --- altering ---------------------------------------------------------------------------------------------------------


def test_a_group_begins_where_it_is_told_to_even_before_it_exists() -> None:
    broker = started()
    answer = alter(broker, {0: 5, 3: 7})
    assert (answer.error_code, answer.error_message) == (ErrorCode.NONE, None)
    (topic,) = answer.responses
    assert (topic.topic_name, topic.topic_id) == (TOPIC, topic_id(broker))
    assert [(row.partition_index, row.error_code, row.error_message) for row in topic.partitions] == [
        (0, ErrorCode.NONE, None),
        (3, ErrorCode.NONE, None),
    ]
    assert start_offsets(broker) == {TOPIC: {0: 5, 3: 7}}
    assert kept(broker) == (5, 1)


def test_members_that_join_later_begin_there() -> None:
    broker = started()
    alter(broker, {0: 5})
    member = ShareMember(broker)
    member.join()
    settle(broker, member)
    assert member.partitions == [0, 1, 2, 3]
    assert start_offsets(broker) == {TOPIC: {**FIRST, 0: 5}}


def test_what_does_not_exist_is_named_partition_by_partition() -> None:
    broker = started()
    (topic,) = alter(broker, {0: 1, 9: 2}).responses
    text = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.text
    assert [(row.partition_index, row.error_code, row.error_message) for row in topic.partitions] == [
        (0, ErrorCode.NONE, None),
        (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text),
    ]
    (topic,) = alter(broker, {0: 1}, topic="nowhere").responses
    assert (topic.topic_id, topic.partitions[0].error_code) == (ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def test_a_partition_below_zero_refuses_all() -> None:
    """Nothing is altered, as it is recorded of Kafka."""
    broker = started()
    alter(broker, {0: 3})
    answer = alter(broker, {0: 5, -1: 5})
    text = f"Initialize share group parameters has invalid partitionId - {GROUP} {topic_id_text(topic_id(broker))} -1"
    assert (answer.error_code, answer.error_message) == (ErrorCode.UNKNOWN_SERVER_ERROR, text)
    assert kept(broker)[0] == 3


def test_a_group_with_members_is_not_moved() -> None:
    broker = started()
    member = ShareMember(broker)
    member.join()
    settle(broker, member)
    for answer in (alter(broker, {0: 5}), delete(broker, TOPIC)):
        assert (answer.error_code, answer.error_message, answer.responses) == (
            ErrorCode.NON_EMPTY_GROUP,
            ErrorCode.NON_EMPTY_GROUP.text,
            [],
        )
    assert delete_group(broker) is ErrorCode.NON_EMPTY_GROUP
    assert start_offsets(broker) == {TOPIC: FIRST}


def test_a_group_of_another_type_is_not_moved() -> None:
    broker = started()
    Consumer(broker, "consumer").join()
    for answer in (alter(broker, {0: 5}), delete(broker, TOPIC)):
        assert (answer.error_code, answer.error_message) == (
            ErrorCode.GROUP_ID_NOT_FOUND,
            "Group group is not a share group.",
        )


def test_a_group_without_a_name_is_not_moved() -> None:
    broker = started()
    assert alter(broker, {0: 5}, group_id="").error_code == ErrorCode.INVALID_GROUP_ID
    assert delete(broker, TOPIC, group_id="").error_code == ErrorCode.INVALID_GROUP_ID


def test_without_the_feature_everything_is_refused() -> None:
    broker = started()
    broker.broker.metadata.set_features({"share.version": 0})
    for answer in (alter(broker, {0: 5}), delete(broker, TOPIC)):
        assert (answer.error_code, answer.error_message) == (
            ErrorCode.UNSUPPORTED_VERSION,
            ErrorCode.UNSUPPORTED_VERSION.text,
        )
    assert offsets(broker).error_code == ErrorCode.UNSUPPORTED_VERSION


# --- deleting ---------------------------------------------------------------------------------------------------------


def test_a_group_forgets_a_topic_and_begins_again() -> None:
    broker = started(topics=(TOPIC, "other"))
    member = ShareMember(broker, topics=(TOPIC, "other"))
    member.join()
    settle(broker, member)
    member.leave()
    alter(broker, {0: 5})
    answer = delete(broker, TOPIC)
    assert answer.error_code == ErrorCode.NONE
    (topic,) = answer.responses
    assert (topic.topic_name, topic.topic_id, topic.error_code) == (TOPIC, topic_id(broker), ErrorCode.NONE)
    assert start_offsets(broker) == {"other": FIRST}
    member.join()
    settle(broker, member)
    assert start_offsets(broker) == {TOPIC: FIRST, "other": FIRST}


def test_a_topic_that_was_not_read_has_nothing_to_delete() -> None:
    broker = started(topics=(TOPIC, "other"))
    with_member_gone(broker)
    answer = delete(broker, "other", TOPIC, "nowhere")
    assert [(row.topic_name, row.error_code, row.error_message) for row in answer.responses] == [
        (TOPIC, ErrorCode.NONE, None),
        ("other", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no offset information to delete."),
        ("nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.text),
    ]
    answer = delete(broker, TOPIC, group_id="unknown")
    assert (answer.error_code, answer.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group unknown not found.")


def test_the_states_of_a_group_are_deleted_with_it() -> None:
    broker = started()
    with_member_gone(broker)
    alter(broker, {0: 5})
    assert kept(broker)[0] == 5
    assert delete_group(broker) is ErrorCode.NONE
    assert kept(broker) == (-1, 0)
    assert delete_group(broker) is ErrorCode.GROUP_ID_NOT_FOUND
    assert start_offsets(broker) == {}
    broker = broker.killed()
    assert (delete_group(broker), start_offsets(broker)) == (ErrorCode.GROUP_ID_NOT_FOUND, {})


def test_a_group_is_deleted_though_a_topic_of_it_is_gone() -> None:
    broker = started()
    with_member_gone(broker)
    broker.ask(DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=1_000), 5)
    assert delete_group(broker) is ErrorCode.NONE


# --- describing -------------------------------------------------------------------------------------------------------


def test_the_lag_is_what_is_neither_read_nor_acknowledged() -> None:
    broker = started()
    for _ in range(10):
        produce(broker, TOPIC)
    with_member_gone(broker)
    alter(broker, {0: 3})
    batch = StateBatch(first_offset=5, last_offset=6, delivery_state=2, delivery_count=1)
    partition = WrittenPartition(
        partition=0,
        state_epoch=kept(broker)[1],
        leader_epoch=0,
        start_offset=3,
        delivery_complete_count=2,
        state_batches=[batch],
    )
    data = WriteStateData(topic_id(broker), [partition])
    written = broker.ask(WriteShareGroupStateRequest(group_id=GROUP, topics=[data]), 1)
    assert written.results[0].partitions[0].error_code == ErrorCode.NONE
    rows = {row.partition_index: row for row in offsets(broker).topics[0].partitions}
    assert (rows[0].start_offset, rows[0].lag, rows[0].error_code) == (3, 10 - 3 - 2, ErrorCode.NONE)
    assert (rows[1].start_offset, rows[1].lag) == (-1, -1)


@pytest.mark.parametrize(
    ("start", "lag"),
    [
        (5, -5),
        (-1, -1),
        (-2, 2),
        (-(2**63) + 1, 2**63 - 1),
        (-(2**63), -(2**63)),
        (2**63 - 1, -(2**63) + 1),
    ],
)
def test_the_lag_of_any_start_offset_is_apache_kafkas(start: int, lag: int) -> None:
    """Recorded of Kafka 4.3 with an empty partition: any int64 may be set, and the difference wraps around."""
    broker = started()
    assert alter(broker, {0: start}).error_code == ErrorCode.NONE
    rows = {row.partition_index: row for row in offsets(broker).topics[0].partitions}
    assert (rows[0].error_code, rows[0].start_offset, rows[0].lag) == (ErrorCode.NONE, start, lag)


def test_a_partition_that_was_not_read_is_no_error() -> None:
    broker = started()
    asked = [
        DescribeShareGroupOffsetsRequestTopic("nowhere", [0, 1]),
        DescribeShareGroupOffsetsRequestTopic(TOPIC, [2, 9]),
    ]
    group = offsets(broker, "unknown", asked)
    assert (group.group_id, group.error_code) == ("unknown", ErrorCode.NONE)
    assert [(topic.topic_name, topic.topic_id) for topic in group.topics] == [
        (TOPIC, topic_id(broker)),
        ("nowhere", ZERO_UUID),
    ]
    rows = [(row.partition_index, row.start_offset, row.lag) for topic in group.topics for row in topic.partitions]
    assert rows == [(2, -1, -1), (9, -1, -1), (0, -1, -1), (1, -1, -1)]
    assert {row.error_code for topic in group.topics for row in topic.partitions} == {ErrorCode.NONE}
    assert offsets(broker, GROUP, []).topics == []


# --- the power goes ---------------------------------------------------------------------------------------------------


def cut(broker: VirtualBroker, operations: int, act: Any) -> bool:
    """Act until the power goes after so many operations of the disk; True if it did."""
    broker.operations_left = operations
    with suppress(PowerCut):
        act()
    has_ended = broker.has_ended
    broker.operations_left = None
    return has_ended


@pytest.mark.parametrize("seed", [0, 1])
def test_wherever_the_power_goes_members_have_all_partitions_in_the_end(seed: int) -> None:
    for operations in count():
        broker = started(*FEW_PARTITIONS)
        member = ShareMember(broker)

        def act(broker: VirtualBroker = broker, member: ShareMember = member) -> None:
            member.join()
            broker.let_pass(ASSIGNMENT_INTERVAL_MS)
            member.heartbeat()

        was_cut = cut(broker, operations, act)
        member.broker = broker = broker.crashed(seed)
        member.join()
        broker.let_pass(ASSIGNMENT_INTERVAL_MS)
        settle(broker, member)
        assert (member.partitions, start_offsets(broker)) == ([0, 1, 2, 3], {TOPIC: FIRST})
        if not was_cut:
            break
    assert operations > 5


@pytest.mark.parametrize("seed", [0, 1])
def test_wherever_the_power_goes_an_offset_that_was_altered_is(seed: int) -> None:
    for operations in count():
        broker = started(*FEW_PARTITIONS)
        answers: list[Any] = []
        was_cut = cut(broker, operations, lambda b=broker, a=answers: a.append(alter(b, {0: 5})))
        broker = broker.crashed(seed)
        is_altered = bool(answers) and answers[0].responses[0].partitions[0].error_code == ErrorCode.NONE
        if is_altered:
            assert start_offsets(broker)[TOPIC][0] == 5
        member = ShareMember(broker)
        member.join()
        settle(broker, member)
        starts = start_offsets(broker)[TOPIC]
        assert starts[0] in ((5,) if is_altered else (5, -1))
        assert member.partitions == [0, 1, 2, 3]
        if not was_cut:
            break
    assert operations > 5


@pytest.mark.parametrize("seed", [0, 1])
def test_wherever_the_power_goes_a_group_that_was_deleted_has_left_nothing(seed: int) -> None:
    for operations in count():
        broker = started(*FEW_PARTITIONS)
        alter(broker, {0: 5})
        answers: list[ErrorCode] = []
        was_cut = cut(broker, operations, lambda b=broker, a=answers: a.append(delete_group(b)))
        broker = broker.crashed(seed)
        if answers != [ErrorCode.NONE]:
            assert delete_group(broker) in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND)
        assert (kept(broker), start_offsets(broker)) == ((-1, 0), {})
        if not was_cut:
            break
    assert operations > 5
