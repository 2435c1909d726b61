"""Requests that are plain data, and shapes that say what counts of an answer."""

from typing import Any

import pytest

from oncelog.protocol.generated.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from oncelog.protocol.generated.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from oncelog.protocol.generated.describe_topic_partitions_request import Cursor, DescribeTopicPartitionsRequest
from tests.clients.asking import NO_ID, counts, request

ANSWER = DeleteRecordsResponse(
    topics=[
        DeleteRecordsTopicResult(name="b", partitions=[DeleteRecordsPartitionResult(1, 5, 0)]),
        DeleteRecordsTopicResult(
            name="a", partitions=[DeleteRecordsPartitionResult(2, 6, 3), DeleteRecordsPartitionResult(0, 7, 0)]
        ),
    ]
)


@pytest.mark.parametrize("row", [{"topic_id": NO_ID, "partitions": [1]}, (NO_ID, [1]), TopicPartitions(NO_ID, [1])])
def test_a_structure_is_a_dictionary_a_tuple_in_the_order_of_the_schema_or_itself(row: object) -> None:
    expected = ConsumerGroupHeartbeatRequest(group_id="g", topic_partitions=[TopicPartitions(NO_ID, [1])])
    assert request("ConsumerGroupHeartbeat", group_id="g", topic_partitions=[row]) == expected


def test_what_may_be_null_stays_null() -> None:
    assert request("ConsumerGroupHeartbeat", topic_partitions=None).topic_partitions is None
    assert request("DescribeTopicPartitions", cursor=None).cursor is None
    of_a_structure = request("DescribeTopicPartitions", cursor=("t", 1))
    assert of_a_structure == DescribeTopicPartitionsRequest(cursor=Cursor("t", 1))


@pytest.mark.parametrize("fields", [{"grup_id": "g"}, {"topic_partitions": [{"topic": NO_ID}]}])
def test_a_field_that_the_message_does_not_have_is_an_error(fields: Any) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        request("ConsumerGroupHeartbeat", **fields)


@pytest.mark.parametrize("row", [(NO_ID, [1], "more")])
def test_a_row_with_more_values_than_fields_is_an_error(row: object) -> None:
    with pytest.raises(ValueError, match="3 values for 2 fields"):
        request("ConsumerGroupHeartbeat", topic_partitions=[row])


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ("throttle_time_ms", 0),
        ("throttle_time_ms topics.name", (0, ["b", "a"])),
        ("topics.0.name", "b"),
        ("topics.0.partitions.0.error_code", "NONE"),
        ("topics:len", 2),
        ("topics.name:shouted", "B A"),
        ("topics(name partitions(partition_index))", [("b", [1]), ("a", [2, 0])]),
        ("topics{name partitions{partition_index}}", [("a", [0, 2]), ("b", [1])]),
        ("topics/partitions.error_code", ["NONE", "UNKNOWN_TOPIC_OR_PARTITION", "NONE"]),
        ("topics/partitions{name partition_index}", [("a", 0), ("a", 2), ("b", 1)]),
        ("topics.0(name [throttle_time_ms name])", ("b", [0, "b"])),
        ("topics.1.partitions.0[partition_index low_watermark]", [2, 6]),
    ],
)
def test_a_shape_says_what_counts_and_in_which_order(shape: str, expected: object) -> None:
    assert counts(ANSWER, shape, shouted=lambda names: " ".join(names).upper()) == expected


@pytest.mark.parametrize("shape", ["nothing", "topics.0.nothing", "topics(nothing)", "topics.0.name.first"])
def test_a_shape_of_a_field_that_is_not_there_is_an_error(shape: str) -> None:
    with pytest.raises(AttributeError):
        counts(ANSWER, shape)


@pytest.mark.parametrize("shape", ["topics(name", "topics name)", "topics, name", "topics(name}"])
def test_what_is_no_shape_is_an_error(shape: str) -> None:
    with pytest.raises(ValueError, match="is no shape"):
        counts(ANSWER, shape)
