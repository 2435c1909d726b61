"""Which states of share-partitions a group has: being made, made, being deleted.

Owns: the value behind ShareGroupStatePartitionMetadata, and its changes. Does not own: the states themselves, nor who
asks for them (`broker.coordinator.share`, `lifecycle`).
Invariants
- Only partitions whose state is made are assigned to members.
- A topic that is being made again is no longer being deleted.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple
from uuid import UUID


class TopicStates(NamedTuple):
    name: str
    partitions: frozenset[int]


class KnownStates(NamedTuple):
    initializing: Mapping[UUID, TopicStates]
    initialized: Mapping[UUID, TopicStates]
    deleting: Mapping[UUID, str]
    """The names of topics; a topic's states are deleted together."""

    @property
    def topic_ids(self) -> Iterable[UUID]:
        return {**self.initializing, **self.initialized, **self.deleting}

    def ids_of(self, name: str) -> list[UUID]:
        """Return the ids of the topics that have or had this name."""
        known = {**self.initializing, **self.initialized}
        return [
            *(topic_id for topic_id, each in known.items() if each.name == name),
            *(topic_id for topic_id, deleted in self.deleting.items() if deleted == name),
        ]

    def begun(self, missing: Mapping[UUID, TopicStates]) -> "KnownStates":
        deleting = {topic_id: name for topic_id, name in self.deleting.items() if topic_id not in missing}
        return KnownStates(_joined(self.initializing, missing), self.initialized, deleting)

    def made(self, partitions: Mapping[UUID, Collection[int]]) -> "KnownStates":
        """Count as made what is still being made: a topic or group that was deleted meanwhile stays deleted."""
        done: dict[UUID, TopicStates] = {}
        for topic_id, numbers in partitions.items():
            begun = self.initializing.get(topic_id)
            still = frozenset() if begun is None else begun.partitions.intersection(numbers)
            if begun is not None and still:
                done[topic_id] = TopicStates(begun.name, still)
        left = _without(self.initializing, {topic_id: each.partitions for topic_id, each in done.items()})
        return KnownStates(left, _joined(self.initialized, done), self.deleting)

    def given_up(self, partitions: Mapping[UUID, Collection[int]]) -> "KnownStates":
        """Forget what could not be made; the next heartbeat begins again."""
        return self._replace(initializing=_without(self.initializing, partitions))

    def deleting_topics(self, topic_ids: Collection[UUID]) -> "KnownStates":
        named = {topic_id: each.name for topic_id, each in self.initialized.items() if topic_id in topic_ids}
        kept = {topic_id: each for topic_id, each in self.initialized.items() if topic_id not in topic_ids}
        return KnownStates(self.initializing, kept, {**self.deleting, **named})

    def deleted(self, topic_ids: Collection[UUID]) -> "KnownStates":
        kept = {topic_id: name for topic_id, name in self.deleting.items() if topic_id not in topic_ids}
        return self._replace(deleting=kept)

    @property
    def made_or_begun(self) -> Mapping[UUID, TopicStates]:
        return _joined(self.initialized, self.initializing)

    def deleting_all(self) -> "KnownStates":
        known = self.made_or_begun
        return KnownStates({}, {}, {**self.deleting, **{topic_id: each.name for topic_id, each in known.items()}})

    def without(self, topic_ids: Collection[UUID]) -> "KnownStates":
        """Forget topics that no longer exist: the share coordinator deletes their states by itself."""
        return KnownStates(
            {topic_id: each for topic_id, each in self.initializing.items() if topic_id not in topic_ids},
            {topic_id: each for topic_id, each in self.initialized.items() if topic_id not in topic_ids},
            {topic_id: name for topic_id, name in self.deleting.items() if topic_id not in topic_ids},
        )


NO_STATES = KnownStates({}, {}, {})


def _joined(first: Mapping[UUID, TopicStates], second: Mapping[UUID, TopicStates]) -> Mapping[UUID, TopicStates]:
    joined = dict(first)
    for topic_id, each in second.items():
        known = joined.get(topic_id)
        joined[topic_id] = each if known is None else TopicStates(each.name, known.partitions | each.partitions)
    return joined


def _without(
    topics: Mapping[UUID, TopicStates], partitions: Mapping[UUID, Collection[int]]
) -> Mapping[UUID, TopicStates]:
    left: dict[UUID, TopicStates] = {}
    for topic_id, each in topics.items():
        numbers = each.partitions.difference(partitions.get(topic_id, ()))
        if numbers:
            left[topic_id] = TopicStates(each.name, numbers)
    return left
