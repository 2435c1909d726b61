"""The assignor `range`: contiguous partitions of each topic for each subscriber, in the order of their names.

Owns: the rule alone. Members that read topics with equally many partitions get the same numbers of each, so that
records of several topics with the same key reach the same member. It is not sticky. Static members come first, by
instance id, and keep their ranges when they return under another member id (KIP-345, KIP-848).
"""

from collections.abc import Mapping, Sequence
from uuid import UUID

from oncelog.broker.coordinator.group.assignors.subscriber import Subscriber, TopicPartitions


def assign(subscribers: Sequence[Subscriber], partition_counts: Mapping[UUID, int]) -> dict[str, TopicPartitions]:
    in_order = sorted(subscribers, key=_place)
    assigned: dict[str, dict[UUID, frozenset[int]]] = {subscriber.member_id: {} for subscriber in in_order}
    for topic_id in sorted({topic_id for subscriber in in_order for topic_id in subscriber.topics}):
        readers = [subscriber for subscriber in in_order if topic_id in subscriber.topics]
        quota, extra = divmod(partition_counts[topic_id], len(readers))
        start = 0
        for index, reader in enumerate(readers):
            end = start + quota + (index < extra)
            if end > start:
                assigned[reader.member_id][topic_id] = frozenset(range(start, end))
            start = end
    return dict(assigned)


def _place(subscriber: Subscriber) -> tuple[bool, str]:
    if subscriber.instance_id is not None:
        return False, subscriber.instance_id
    return True, subscriber.member_id
