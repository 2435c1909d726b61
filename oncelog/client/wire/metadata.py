"""What brokers last said of the cluster: its nodes, features, topics, and the leaders of partitions.

Owns: the cache. Does not own: asking for it (`cluster`). Invariant: a topic that is in `topics` exists as far as the
last response about it said; what is stale is forgotten, and asked for before its next use.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from uuid import UUID

from oncelog.client.values.errors import ConfigError
from oncelog.client.values.records import TopicPartition
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.metadata_response import MetadataResponse

NO_LEADER = -1
"""The leader of a partition that has none, as Metadata names it."""


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    topic_id: UUID
    leaders: tuple[int, ...]
    """Node id of each partition's leader, -1 while there is none."""
    is_internal: bool = False
    refreshed_at_s: float = 0.0

    @property
    def partition_count(self) -> int:
        return len(self.leaders)


class Metadata:
    def __init__(self) -> None:
        self.cluster_id: str | None = None
        self.controller_id = -1
        self.nodes: dict[int, tuple[str, int]] = {}
        self.topics: dict[str, Topic] = {}
        self.missing: set[str] = set()
        """Topics that were asked for, and do not exist."""
        self.features: dict[str, int] = {}
        """The finalized level of each feature, of the newest epoch that a broker has reported."""
        self._features_epoch = -1

    def on_response(self, response: MetadataResponse, now_s: float) -> None:
        """Take what a broker said; topics that it does not know are left out."""
        self.nodes = {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        for topic in response.topics:
            is_missing = topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            (self.missing.add if is_missing else self.missing.discard)(topic.name or "")
            if topic.error_code or topic.name is None or not topic.partitions:
                self.topics.pop(topic.name or "", None)
                continue
            leaders = [NO_LEADER] * len(topic.partitions)
            for partition in topic.partitions:
                if partition.partition_index < len(leaders):
                    leaders[partition.partition_index] = partition.leader_id
            self.topics[topic.name] = Topic(topic.name, topic.topic_id, tuple(leaders), topic.is_internal, now_s)

    def on_features(self, epoch: int, levels: dict[str, int]) -> None:
        """Take the features that a broker reports to each new connection, if none has reported newer ones."""
        if epoch > self._features_epoch:
            self._features_epoch, self.features = epoch, levels

    def topic(self, name: str, *, is_led: bool) -> Topic | None:
        """The topic; with `is_led` only if all its partitions have leaders."""
        known = self.topics.get(name)
        return known if known is not None and not (is_led and min(known.leaders) < 0) else None

    def refreshed_at_s(self, name: str) -> float:
        """When the topic was last found, on the loop's clock; before any time if it is not known."""
        known = self.topics.get(name)
        return float("-inf") if known is None else known.refreshed_at_s

    def lacking(self, places: Collection[TopicPartition]) -> list[str]:
        """The topics that are not known to have all these partitions."""
        known = self.topics
        return sorted({name for name, number in places if name not in known or number >= known[name].partition_count})

    def leader(self, topic_partition: TopicPartition) -> int:
        """Node id of the leader, -1 while unknown."""
        topic = self.topics.get(topic_partition.topic)
        if topic is None or topic_partition.partition >= len(topic.leaders):
            return NO_LEADER
        return topic.leaders[topic_partition.partition]

    def checked_leader(self, place: TopicPartition) -> int:
        """Node id of the leader. Raises ConfigError for a partition that its topic, which is known, does not have."""
        topic = self.topics[place.topic]
        if not 0 <= place.partition < topic.partition_count:
            raise no_partition(topic, place.partition)
        return topic.leaders[place.partition]

    def forget_leaders(self, topics: Iterable[str]) -> None:
        """The leaders moved or cannot be reached: refresh before the next use."""
        for name in topics:
            self.topics.pop(name, None)


def no_partition(topic: Topic, partition: int) -> ConfigError:
    """The error for a partition that the topic does not have."""
    text = f"topic {topic.name!r} has no partition {partition}: the last is {topic.partition_count - 1}"
    return ConfigError(text, code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
