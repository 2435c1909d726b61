"""The topics that exist, as groups look at them.

Owns: the port, and the hash of a group's topics. Does not own: topics (`broker.cluster.topics`).
"""

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Protocol
from uuid import UUID

from oncelog.broker.coordinator.group.assignors.subscriber import TopicPartitions


class Topic(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def topic_id(self) -> UUID: ...

    @property
    def partition_count(self) -> int: ...


class TopicCatalog(Protocol):
    """The topics as of now (`broker.cluster.topics`)."""

    def get(self, name: str) -> Topic | None: ...

    def by_id(self, topic_id: UUID) -> Topic | None: ...

    def all(self) -> Iterable[Topic]: ...


def topic_ids(topics: TopicCatalog, names: Iterable[str]) -> frozenset[UUID]:
    """Return the ids of the topics that exist."""
    return frozenset(topic.topic_id for topic in map(topics.get, names) if topic is not None)


def metadata_hash(topics: TopicCatalog, names: Iterable[str]) -> int:
    """Changes when one of these topics is created, deleted, recreated or extended; 0 if none exists.

    Not Kafka's hash. The number is only ever compared with one from the same broker; a log that comes from Kafka costs
    each group one epoch.
    """
    digest = blake2b(digest_size=8)
    known = [topic for topic in map(topics.get, sorted(names)) if topic is not None]
    for topic in known:
        name = topic.name.encode()
        digest.update(b"%d:%s" % (len(name), name) + topic.topic_id.bytes + b"%d;" % topic.partition_count)
    return int.from_bytes(digest.digest(), "big", signed=True) if known else 0


def by_topic_id(topics: TopicCatalog, named: Mapping[str, Iterable[int]]) -> TopicPartitions:
    """Return the partitions of the topics that exist, by topic id."""
    found = [(topics.get(name), frozenset(numbers)) for name, numbers in named.items()]
    return {topic.topic_id: numbers for topic, numbers in found if topic is not None}


def by_name(topics: TopicCatalog, partitions: TopicPartitions) -> Mapping[str, list[int]]:
    """Return the partitions of the topics that exist, by name."""
    found = [(topics.by_id(topic_id), sorted(numbers)) for topic_id, numbers in partitions.items()]
    return {topic.name: numbers for topic, numbers in found if topic is not None}
