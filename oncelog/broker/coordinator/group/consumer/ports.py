"""The ports of consumer groups: the topics that exist, and the settings.

Owns: the ports, and the hash of a group's topics. Does not own: topics (`broker.cluster.topics`), the values of
settings (`broker.assembly.group_settings`).
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
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


class MigrationPolicy(Enum):
    """`group.consumer.migration.policy`: which groups with members may change their protocol."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def allows_upgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def allows_downgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


class ConsumerGroupSettings(Protocol):
    """The settings as of now."""

    @property
    def is_enabled(self) -> bool:
        """Whether the finalized feature group.version is 1."""

    @property
    def assignors(self) -> Sequence[str]:
        """The assignors, the default first."""

    @property
    def max_size(self) -> int: ...

    @property
    def classic_max_size(self) -> int: ...

    @property
    def migration_policy(self) -> MigrationPolicy: ...

    def session_timeout_ms(self, group_id: str) -> int: ...

    def heartbeat_interval_ms(self, group_id: str) -> int: ...

    def assignment_interval_ms(self, group_id: str) -> int: ...


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
