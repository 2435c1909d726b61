"""The assignor `uniform` for members that read different topics.

Owns: the rule. Every member keeps what it still reads; free partitions go to the least loaded reader, topics with few
readers first; then partitions move from readers with more to readers with fewer until no single move helps, or the
rounds are used up.
Invariant: within one topic no reader has a partition while another reader of that topic has two fewer in all, except in
patterns that do not settle in ROUND_COUNT rounds.
"""

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from oncelog.broker.coordinator.group.assignors.subscriber import Subscriber, TopicPartitions

ROUND_COUNT = 16
"""The number of rounds, as in Kafka; overlapping subscriptions nearly always settle in two."""


class _Balance:
    """The assignment while it is computed; members are indexes into the sorted list."""

    def __init__(self, subscribers: Sequence[Subscriber], partition_counts: Mapping[UUID, int]) -> None:
        self.subscribers = subscribers
        self.partition_counts = partition_counts
        self.readers: dict[UUID, list[int]] = {}
        for index, subscriber in enumerate(subscribers):
            for topic_id in subscriber.topics:
                self.readers.setdefault(topic_id, []).append(index)
        self.loads = [0] * len(subscribers)
        self.parts: dict[UUID, dict[int, list[int]]] = {topic_id: {} for topic_id in self.readers}

    def topics(self) -> list[UUID]:
        """Return the topics with the most partitions for each reader first, then those with the fewest readers."""

        def place(topic_id: UUID) -> tuple[float, int, UUID]:
            reader_count = len(self.readers[topic_id])
            return -self.partition_counts[topic_id] / reader_count, reader_count, topic_id

        return sorted(self.readers, key=place)

    def give(self, topic_id: UUID, number: int, index: int) -> None:
        self.parts[topic_id].setdefault(index, []).append(number)
        self.loads[index] += 1

    def take(self, topic_id: UUID, index: int) -> int:
        self.loads[index] -= 1
        return self.parts[topic_id][index].pop()

    def keep_old(self) -> None:
        taken: set[tuple[UUID, int]] = set()
        for index, subscriber in enumerate(self.subscribers):
            for topic_id in sorted(subscriber.assigned.keys() & subscriber.topics):
                for number in sorted(subscriber.assigned[topic_id]):
                    if number < self.partition_counts[topic_id] and (topic_id, number) not in taken:
                        taken.add((topic_id, number))
                        self.give(topic_id, number, index)

    def least_loaded(self, topic_id: UUID) -> int:
        return min(self.readers[topic_id], key=lambda index: (self.loads[index], index))

    def share_out_free(self, topic_id: UUID) -> None:
        owned = {number for numbers in self.parts[topic_id].values() for number in numbers}
        for number in range(self.partition_counts[topic_id]):
            if number not in owned:
                self.give(topic_id, number, self.least_loaded(topic_id))

    def even_out(self, topic_id: UUID) -> bool:
        """Move single partitions as long as that helps; True if any has moved."""
        has_moved = False
        while True:
            owners = [index for index, numbers in self.parts[topic_id].items() if numbers]
            most = max(owners, key=lambda index: (self.loads[index], index), default=None)
            least = self.least_loaded(topic_id)
            if most is None or self.loads[most] - self.loads[least] <= 1:
                return has_moved
            self.give(topic_id, self.take(topic_id, most), least)
            has_moved = True


def assign(subscribers: Sequence[Subscriber], partition_counts: Mapping[UUID, int]) -> dict[str, TopicPartitions]:
    in_order = sorted(subscribers, key=lambda subscriber: subscriber.member_id)
    balance = _Balance(in_order, partition_counts)
    topics = balance.topics()
    balance.keep_old()
    for topic_id in topics:
        balance.share_out_free(topic_id)
    for _ in range(ROUND_COUNT):
        moved = [topic_id for topic_id in topics if balance.even_out(topic_id)]
        if not moved:
            break
    return {subscriber.member_id: dict(_parts_of(balance, index)) for index, subscriber in enumerate(in_order)}


def _parts_of(balance: _Balance, index: int) -> Iterable[tuple[UUID, frozenset[int]]]:
    for topic_id, parts in balance.parts.items():
        if parts.get(index):
            yield topic_id, frozenset(parts[index])
