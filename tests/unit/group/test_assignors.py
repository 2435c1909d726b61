"""The assignors of consumer groups keep their promises for any members, subscriptions and earlier assignments."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.coordinator.group.assignors.subscriber import Subscriber, TopicPartitions
from oncelog.broker.coordinator.group.assignors.table import ASSIGNORS

A, B, C = UUID(int=1), UUID(int=2), UUID(int=3)
GONE = UUID(int=99)
Assigned = Mapping[str, TopicPartitions]


def flat(partitions: TopicPartitions) -> set[tuple[UUID, int]]:
    return {(topic_id, number) for topic_id, numbers in partitions.items() for number in numbers}


def sizes(assigned: Assigned) -> list[int]:
    return [len(flat(partitions)) for partitions in assigned.values()]


counts = st.fixed_dictionaries({topic_id: st.integers(1, 12) for topic_id in (A, B, C)})
topic_sets = st.frozensets(st.sampled_from((A, B, C)))


@st.composite
def questions(draw: st.DrawFn, *, same_topics: bool = False) -> tuple[list[Subscriber], dict[UUID, int]]:
    """Members, of whom each partition belonged to one at most; some of it may be stale."""
    partition_counts = draw(counts)
    names = draw(st.lists(st.integers(0, 99).map("m{:02}".format), min_size=1, max_size=8, unique=True))
    topics = draw(topic_sets)
    owners: dict[str, dict[UUID, set[int]]] = {name: {} for name in names}
    for topic_id, count in (*partition_counts.items(), (GONE, 2)):
        for number in range(count):
            owner = draw(st.sampled_from((None, *names)))
            if owner is not None:
                owners[owner].setdefault(topic_id, set()).add(number)
    subscribers = [
        Subscriber(
            name,
            draw(st.none() | st.just(f"i-{name}")),
            topics if same_topics else draw(topic_sets),
            {topic_id: frozenset(numbers) for topic_id, numbers in owners[name].items()},
        )
        for name in names
    ]
    return subscribers, partition_counts


@pytest.mark.parametrize("name", ASSIGNORS)
@given(question=questions())
def test_each_subscribed_partition_has_one_owner_that_subscribes_to_it(
    name: str, question: tuple[list[Subscriber], dict[UUID, int]]
) -> None:
    subscribers, partition_counts = question
    assigned = ASSIGNORS[name](subscribers, partition_counts)
    assert assigned.keys() == {subscriber.member_id for subscriber in subscribers}
    owned = Counter(partition for partitions in assigned.values() for partition in flat(partitions))
    read = {topic_id for subscriber in subscribers for topic_id in subscriber.topics}
    assert owned == {(topic_id, number): 1 for topic_id in read for number in range(partition_counts[topic_id])}
    for subscriber in subscribers:
        assert assigned[subscriber.member_id].keys() <= subscriber.topics
        assert all(assigned[subscriber.member_id].values())


@pytest.mark.parametrize("name", ASSIGNORS)
@given(question=questions(), random=st.randoms(use_true_random=False))
def test_the_answer_does_not_depend_on_the_order_of_the_question(
    name: str, question: tuple[list[Subscriber], dict[UUID, int]], random: object
) -> None:
    subscribers, partition_counts = question
    assert ASSIGNORS[name](subscribers, partition_counts) == ASSIGNORS[name](subscribers[::-1], partition_counts)


@given(question=questions(same_topics=True))
def test_uniform_is_even_and_moves_no_more_than_that_needs(
    question: tuple[list[Subscriber], dict[UUID, int]],
) -> None:
    subscribers, partition_counts = question
    assigned = ASSIGNORS["uniform"](subscribers, partition_counts)
    assert max(sizes(assigned)) - min(sizes(assigned)) <= 1
    topics = subscribers[0].topics
    before = {
        subscriber.member_id: {entry for entry in flat(subscriber.assigned) if entry[0] in topics}
        for subscriber in subscribers
    }
    total = sum(sizes(assigned))
    quota, extra = divmod(total, len(subscribers))
    # At best so many stay: everybody its share, and the larger shares where they are used.
    over = sum(len(owned) > quota for owned in before.values())
    best = sum(min(len(owned), quota) for owned in before.values()) + min(over, extra)
    stayed = sum(len(before[member_id] & flat(partitions)) for member_id, partitions in assigned.items())
    assert stayed == best


@pytest.mark.parametrize("name", ASSIGNORS)
@given(question=questions())
def test_an_assignment_that_is_right_stays(name: str, question: tuple[list[Subscriber], dict[UUID, int]]) -> None:
    subscribers, partition_counts = question
    assigned = ASSIGNORS[name](subscribers, partition_counts)
    again = [replace(subscriber, assigned=assigned[subscriber.member_id]) for subscriber in subscribers]
    assert ASSIGNORS[name](again, partition_counts) == assigned


@given(question=questions())
def test_uniform_leaves_no_single_move_that_would_help(
    question: tuple[list[Subscriber], dict[UUID, int]],
) -> None:
    subscribers, partition_counts = question
    assigned = ASSIGNORS["uniform"](subscribers, partition_counts)
    load = {member_id: len(flat(partitions)) for member_id, partitions in assigned.items()}
    for owner, partitions in assigned.items():
        for topic_id in partitions:
            for other in subscribers:
                if topic_id in other.topics:
                    assert load[owner] - load[other.member_id] <= 1


@given(question=questions())
def test_range_gives_neighbours_and_the_same_numbers_of_like_topics(
    question: tuple[list[Subscriber], dict[UUID, int]],
) -> None:
    subscribers, partition_counts = question
    assigned = ASSIGNORS["range"](subscribers, partition_counts)
    for partitions in assigned.values():
        for numbers in partitions.values():
            assert max(numbers) - min(numbers) + 1 == len(numbers)
    everything = [replace(subscriber, topics=frozenset((A, B))) for subscriber in subscribers]
    like = ASSIGNORS["range"](everything, {A: 7, B: 7})
    assert all(partitions.get(A) == partitions.get(B) for partitions in like.values())


def test_range_keeps_the_places_of_static_members() -> None:
    def who_has(members: Sequence[tuple[str, str]]) -> dict[str, TopicPartitions]:
        subscribers = [Subscriber(member_id, instance, frozenset((A,)), {}) for member_id, instance in members]
        assigned = ASSIGNORS["range"](subscribers, {A: 4})
        return {instance: assigned[member_id] for member_id, instance in members}

    assert who_has([("x", "1"), ("y", "2")]) == who_has([("z", "1"), ("a", "2")])


def test_an_assignment_without_members_is_no_error() -> None:
    assert [assignor([], {A: 1}) for assignor in ASSIGNORS.values()] == [{}, {}]
