"""Who gets which partition."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.client.groups.assignors import ASSIGNORS
from oncelog.client.groups.sticky import Assignment
from oncelog.client.groups.subscriptions import (
    Subscription,
    decode_assignment,
    decode_sticky_subscription,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from oncelog.client.options import settings
from oncelog.client.values.records import TopicPartition
from oncelog.protocol.errors import ProtocolError

topics = st.sampled_from(("a", "b", "c"))
subscriptions = st.dictionaries(
    st.sampled_from(("m1", "m2", "m3", "m4")), st.lists(topics, unique=True, max_size=3), min_size=1
)
counts = st.dictionaries(topics, st.integers(1, 7))


def test_the_options_name_exactly_the_assignors_that_there_are() -> None:
    assert tuple(ASSIGNORS) == settings.ASSIGNORS


@pytest.mark.parametrize("name", ASSIGNORS)
@given(subscriptions, counts)
def test_each_wanted_partition_goes_to_exactly_one_member_that_wants_its_topic(
    name: str, wanted: dict[str, list[str]], partition_counts: dict[str, int]
) -> None:
    assignment = ASSIGNORS[name].assign(
        {member: Subscription(each) for member, each in wanted.items()}, partition_counts
    )
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
    assignment = ASSIGNORS[name].assign({f"m{number}": Subscription(["a"]) for number in range(members)}, {"a": count})
    sizes = [len(partitions) for partitions in assignment.values()]
    assert max(sizes) - min(sizes) <= 1


def test_range_gives_consecutive_partitions_and_the_rest_to_the_first() -> None:
    assignment = ASSIGNORS["range"].assign({"y": Subscription(["a"]), "x": Subscription(["a"])}, {"a": 3})
    assert [each.partition for each in assignment["x"]] == [0, 1]
    assert [each.partition for each in assignment["y"]] == [2]


@given(st.lists(st.builds(TopicPartition, topics, st.integers(0, 9)), unique=True))
def test_an_assignment_comes_back_as_it_was_sent(partitions: list[TopicPartition]) -> None:
    assert sorted(decode_assignment(encode_assignment(partitions))) == sorted(partitions)


def test_a_subscription_of_a_later_version_is_read_as_far_as_it_is_known() -> None:
    data = encode_subscription(Subscription(["b", "a"]))
    assert decode_subscription(data) == Subscription(["a", "b"], [])
    assert decode_subscription(b"\x00\x00" + data[2:]) == Subscription(["a", "b"], [])


def test_no_bytes_are_no_assignment_and_one_byte_is_an_error() -> None:
    assert decode_assignment(b"") == []
    with pytest.raises(ProtocolError):
        decode_assignment(b"\x00")


claims = st.dictionaries(
    st.sampled_from(("m1", "m2", "m3", "m4")),
    st.builds(
        Subscription,
        st.lists(topics, unique=True, min_size=1),
        st.lists(st.builds(TopicPartition, topics, st.integers(0, 7)), unique=True),
        st.integers(-1, 3),
    ),
    min_size=1,
)


@given(claims, counts)
def test_a_cooperative_group_settles_and_no_partition_is_given_out_while_another_member_holds_it(
    members: dict[str, Subscription], partition_counts: dict[str, int]
) -> None:
    assign = ASSIGNORS["cooperative-sticky"].assign
    holders = members
    for generation_id in range(4, 8):
        assignment = assign(holders, partition_counts)
        for member, places in assignment.items():
            for place in set(places) - set(holders[member].owned):
                assert not [other for other in holders if other != member and place in holders[other].owned]
        settled = all(set(each.owned) == set(assignment[member]) for member, each in holders.items())
        holders = {
            member: Subscription(each.topics, assignment[member], generation_id) for member, each in holders.items()
        }
    assert settled
    assert {member: sorted(each) for member, each in assignment.items()} == {
        member: sorted(each) for member, each in ASSIGNORS["sticky"].assign(holders, partition_counts).items()
    }


@given(st.integers(1, 5), st.integers(0, 12), st.integers(0, 4))
def test_when_a_member_leaves_the_others_keep_what_they_have(members: int, count: int, leaver: int) -> None:
    assign = ASSIGNORS["sticky"].assign
    names = [f"m{number}" for number in range(members)]
    before = assign({name: Subscription(["a"]) for name in names}, {"a": count})
    stay = [name for name in names if name != f"m{leaver}"]
    after: Assignment = assign({name: Subscription(["a"], before[name], 1) for name in stay}, {"a": count})
    for name in stay:
        assert set(before[name]) <= set(after[name])


def test_of_two_claims_the_newer_generation_counts_and_of_equal_ones_neither() -> None:
    place = TopicPartition("a", 0)
    assign = ASSIGNORS["cooperative-sticky"].assign
    old, new = Subscription(["a"], [place], 1), Subscription(["a"], [place], 2)
    assert assign({"m1": old, "m2": new}, {"a": 1}) == {"m1": [], "m2": [place]}
    assert assign({"m1": new, "m2": new}, {"a": 1}) == {"m1": [], "m2": []}


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
@given(
    st.builds(
        Subscription,
        st.lists(topics, unique=True).map(sorted),
        st.lists(st.builds(TopicPartition, topics, st.integers(0, 9)), unique=True).map(sorted),
        st.integers(-1, 5),
    )
)
def test_a_sticky_subscription_comes_back_as_it_was_sent(name: str, subscription: Subscription) -> None:
    assignor = ASSIGNORS[name]
    assert assignor.decode(assignor.encode(subscription)) == subscription


@given(st.binary(max_size=40))
def test_a_member_whose_sticky_user_data_makes_no_sense_has_nothing(data: bytes) -> None:
    plain = encode_subscription(Subscription(["a"]))
    length = plain.index(b"\xff\xff\xff\xff")
    broken = plain[:length] + len(data).to_bytes(4, "big") + data + plain[length + 4 :]
    assert decode_sticky_subscription(broken).topics == ["a"]
