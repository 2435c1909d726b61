"""Who gets which partition."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.client.assignors import (
    ASSIGNORS,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from oncelog.client.records import TopicPartition
from oncelog.protocol.errors import ProtocolError

topics = st.sampled_from(("a", "b", "c"))
subscriptions = st.dictionaries(
    st.sampled_from(("m1", "m2", "m3", "m4")), st.lists(topics, unique=True, max_size=3), min_size=1
)
counts = st.dictionaries(topics, st.integers(1, 7))


@pytest.mark.parametrize("name", ASSIGNORS)
@given(subscriptions, counts)
def test_each_wanted_partition_goes_to_exactly_one_member_that_wants_its_topic(
    name: str, wanted: dict[str, list[str]], partition_counts: dict[str, int]
) -> None:
    assignment = ASSIGNORS[name](wanted, partition_counts)
    assert assignment.keys() == wanted.keys()
    for member, partitions in assignment.items():
        assert {each.topic for each in partitions} <= set(wanted[member])
    given_out = sorted(each for partitions in assignment.values() for each in partitions)
    asked_for = {topic for each in wanted.values() for topic in each}
    assert given_out == sorted(
        TopicPartition(topic, index)
        for topic, count in partition_counts.items()
        if topic in asked_for
        for index in range(count)
    )


@pytest.mark.parametrize("name", ASSIGNORS)
@given(st.integers(1, 4), st.integers(1, 9))
def test_members_that_want_the_same_topic_differ_by_at_most_one_partition(name: str, members: int, count: int) -> None:
    assignment = ASSIGNORS[name]({f"m{number}": ["a"] for number in range(members)}, {"a": count})
    sizes = [len(partitions) for partitions in assignment.values()]
    assert max(sizes) - min(sizes) <= 1


def test_range_gives_consecutive_partitions_and_the_rest_to_the_first() -> None:
    assignment = ASSIGNORS["range"]({"y": ["a"], "x": ["a"]}, {"a": 3})
    assert [each.partition for each in assignment["x"]] == [0, 1]
    assert [each.partition for each in assignment["y"]] == [2]


@given(st.lists(st.builds(TopicPartition, topics, st.integers(0, 9)), unique=True))
def test_an_assignment_comes_back_as_it_was_sent(partitions: list[TopicPartition]) -> None:
    assert sorted(decode_assignment(encode_assignment(partitions))) == sorted(partitions)


def test_a_subscription_of_a_later_version_is_read_as_far_as_it_is_known() -> None:
    data = encode_subscription(["b", "a"])
    assert decode_subscription(data) == ["a", "b"]
    assert decode_subscription(b"\x00\x00" + data[2:]) == ["a", "b"]


def test_no_bytes_are_no_assignment_and_one_byte_is_an_error() -> None:
    assert decode_assignment(b"") == []
    with pytest.raises(ProtocolError):
        decode_assignment(b"\x00")
