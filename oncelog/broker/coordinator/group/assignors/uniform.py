"""The assignor `uniform`: as even as possible, with as few moves as that allows.

Owns: the rule for members that all read the same topics. Does not own: the rule for others (`unequal`).
Invariant: counts differ by at most one; a partition moves only from a member that has more than its share. The members
with one more are, as far as possible, those that have it already.
"""

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from oncelog.broker.coordinator.group.assignors import unequal
from oncelog.broker.coordinator.group.assignors.subscriber import Subscriber, TopicPartitions

Partition = tuple[UUID, int]


def assign(subscribers: Sequence[Subscriber], partition_counts: Mapping[UUID, int]) -> dict[str, TopicPartitions]:
    if not subscribers:
        return {}
    if any(subscriber.topics != subscribers[0].topics for subscriber in subscribers):
        return unequal.assign(subscribers, partition_counts)
    return _assign_equal(sorted(subscribers, key=lambda subscriber: subscriber.member_id), partition_counts)


def _assign_equal(
    subscribers: Sequence[Subscriber], partition_counts: Mapping[UUID, int]
) -> dict[str, TopicPartitions]:
    topics = subscribers[0].topics
    everything = [(topic_id, number) for topic_id in sorted(topics) for number in range(partition_counts[topic_id])]
    quota, extra_count = divmod(len(everything), len(subscribers))
    kept: dict[str, list[Partition]] = {}
    owned: set[Partition] = set()
    wanted: list[tuple[str, int]] = []
    for index, subscriber in enumerate(subscribers):
        mine = list(_still_valid(subscriber, partition_counts, owned))
        left_count = len(subscribers) - index
        # An extra one goes to a member that has it already, unless the remaining members only just use them up.
        has_extra = extra_count > 0 and (len(mine) > quota or left_count <= extra_count)
        extra_count -= has_extra
        share = quota + has_extra
        kept[subscriber.member_id] = mine[:share]
        owned.update(mine[:share])
        if len(mine) < share:
            wanted.append((subscriber.member_id, share - len(mine)))
    free = iter([partition for partition in everything if partition not in owned])
    for member_id, count in wanted:
        kept[member_id].extend(partition for _, partition in zip(range(count), free, strict=False))
    return {member_id: group_by_topic(partitions) for member_id, partitions in kept.items()}


def _still_valid(
    subscriber: Subscriber, partition_counts: Mapping[UUID, int], owned: set[Partition]
) -> Iterable[Partition]:
    for topic_id in sorted(subscriber.assigned.keys() & subscriber.topics):
        for number in sorted(subscriber.assigned[topic_id]):
            if number < partition_counts[topic_id] and (topic_id, number) not in owned:
                yield topic_id, number


def group_by_topic(partitions: Iterable[Partition]) -> TopicPartitions:
    numbers: dict[UUID, list[int]] = {}
    for topic_id, number in partitions:
        numbers.setdefault(topic_id, []).append(number)
    return {topic_id: frozenset(found) for topic_id, found in numbers.items()}
