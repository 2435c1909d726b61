"""The assignor of share groups keeps its promises for any members, subscriptions and earlier assignments (KIP-932)."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.coordinator.group.assignors.subscriber import Subscriber, TopicPartitions
from oncelog.broker.coordinator.group.share.assignor import assign

A, B, C = UUID(int=1), UUID(int=2), UUID(int=3)
Question = tuple[list[Subscriber], dict[UUID, frozenset[int]]]
numbers = st.frozensets(st.integers(0, 6))
held = st.dictionaries(st.sampled_from((A, B, C, UUID(int=99))), numbers)
topic_sets = st.frozensets(st.sampled_from((A, B, C)))


@st.composite
def questions(draw: st.DrawFn, *, same_topics: bool = False) -> Question:
    """Members that had anything before, perhaps what is gone; some states are not made yet."""
    names = draw(st.lists(st.integers(0, 99).map("m{:02}".format), min_size=1, max_size=9, unique=True))
    topics = draw(topic_sets)
    subscribers = [Subscriber(name, None, topics if same_topics else draw(topic_sets), draw(held)) for name in names]
    return subscribers, {topic_id: draw(numbers) for topic_id in (A, B, C)}


def flat(partitions: TopicPartitions) -> set[tuple[UUID, int]]:
    return {(topic_id, number) for topic_id, those in partitions.items() for number in those}


def readers_of(assigned: Mapping[str, TopicPartitions]) -> Counter[tuple[UUID, int]]:
    return Counter(partition for partitions in assigned.values() for partition in flat(partitions))


def wanted(question: Question) -> set[tuple[UUID, int]]:
    subscribers, made = question
    topics = frozenset().union(*(each.topics for each in subscribers))
    return {(topic_id, number) for topic_id in topics for number in made[topic_id]}


@given(question=questions())
def test_a_member_has_made_partitions_of_its_topics_alone_and_none_is_left_out(question: Question) -> None:
    subscribers, made = question
    assigned = assign(subscribers, made)
    assert assigned.keys() == {each.member_id for each in subscribers}
    for each in subscribers:
        assert assigned[each.member_id].keys() <= each.topics
    assert set(readers_of(assigned)) == wanted(question)


@given(question=questions(same_topics=True))
def test_partitions_and_members_are_even(question: Question) -> None:
    """No member has two partitions more than another; each partition has equally many readers, as few as it takes for
    each member to have one."""
    subscribers, made = question
    assigned = assign(subscribers, made)
    sizes = [len(flat(partitions)) for partitions in assigned.values()]
    assert max(sizes) - min(sizes) <= 1
    partitions = wanted(question)
    if partitions:
        assert set(readers_of(assigned).values()) == {-(-len(subscribers) // len(partitions))}
        assert min(sizes) >= (1 if len(subscribers) <= len(partitions) else 0)


@given(question=questions())
def test_each_topic_is_even_among_its_own_readers(question: Question) -> None:
    subscribers, made = question
    if len({each.topics for each in subscribers}) == 1:
        return
    assigned = assign(subscribers, made)
    for topic_id in (A, B, C):
        sizes = [len(assigned[each.member_id].get(topic_id, ())) for each in subscribers if topic_id in each.topics]
        assert not sizes or max(sizes) - min(sizes) <= 1


@given(question=questions())
def test_what_is_assigned_stays(question: Question) -> None:
    subscribers, made = question
    assigned = assign(subscribers, made)
    again = [replace(each, assigned=assigned[each.member_id]) for each in subscribers]
    assert assign(again, made) == assigned


@given(question=questions(same_topics=True), data=st.data())
def test_a_member_that_leaves_moves_no_more_than_it_had_and_the_balance_needs(
    question: Question, data: st.DataObject
) -> None:
    """The others lose nothing but what evens them out."""
    subscribers, made = question
    assigned = assign(subscribers, made)
    left = data.draw(st.sampled_from(subscribers))
    others = [replace(each, assigned=assigned[each.member_id]) for each in subscribers if each is not left]
    if not others:
        return
    after = assign(others, made)
    for each in others:
        before, now = flat(assigned[each.member_id]), flat(after[each.member_id])
        # It keeps all that its new part has room for, unless a partition has fewer readers now.
        shares_less = max(readers_of(after).values(), default=0) < max(readers_of(assigned).values(), default=0)
        assert shares_less or len(before & now) >= min(len(before), len(now)) - 1


@given(question=questions())
def test_the_order_of_the_members_does_not_matter(question: Question) -> None:
    subscribers, made = question
    assert assign(list(reversed(subscribers)), made) == assign(subscribers, made)


def test_many_members_share_few_partitions() -> None:
    subscribers = [Subscriber(f"m{number}", None, frozenset({A}), {}) for number in range(7)]
    assigned = assign(subscribers, {A: frozenset({0, 1, 2})})
    assert set(readers_of(assigned).values()) == {3}
    assert sorted(len(flat(partitions)) for partitions in assigned.values()) == [1, 1, 1, 1, 1, 2, 2]


def test_without_members_and_without_partitions_there_is_nothing_to_assign() -> None:
    assert assign([], {A: frozenset({0})}) == {}
    assert assign([Subscriber("m", None, frozenset({A}), {A: frozenset({0})})], {}) == {"m": {}}
