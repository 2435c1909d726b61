"""The topology of a Kafka Streams application, as its members describe it.

Owns: the shapes, and which topics a topology needs. Does not own: how many partitions these need (`internal_topics`).
Invariants: subtopologies are sorted by their ids, which are unique, so equal topologies are equal values.

KIP-1071. The lists of one subtopology keep their order: a copartition group refers to source topics by their index.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from oncelog.protocol.errors import ErrorCode, KafkaError


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """An internal topic as the application wants it."""

    name: str
    partition_count: int = 0
    """0 if the number of partitions follows from the topics that are read."""
    replication_factor: int = 0
    """0 means the broker's default."""
    config: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class CopartitionGroup:
    """Topics that must have the same number of partitions, as indexes into those of the subtopology."""

    source_topics: tuple[int, ...] = ()
    source_topic_regex: tuple[int, ...] = ()
    repartition_source_topics: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Subtopology:
    subtopology_id: str
    source_topics: tuple[str, ...] = ()
    source_topic_regex: tuple[str, ...] = ()
    state_changelog_topics: tuple[TopicInfo, ...] = ()
    repartition_sink_topics: tuple[str, ...] = ()
    repartition_source_topics: tuple[TopicInfo, ...] = ()
    copartition_groups: tuple[CopartitionGroup, ...] = ()

    @property
    def read_topics(self) -> Iterable[str]:
        """The topics of which a task reads one partition each."""
        yield from self.source_topics
        for topic in self.repartition_source_topics:
            yield topic.name


@dataclass(frozen=True, slots=True)
class Topology:
    epoch: int
    subtopologies: tuple[Subtopology, ...]

    @property
    def required_topics(self) -> frozenset[str]:
        """Every topic that must exist: sources, repartition topics, changelogs."""
        names = {name for subtopology in self.subtopologies for name in subtopology.read_topics}
        return frozenset(
            names.union(topic.name for each in self.subtopologies for topic in each.state_changelog_topics)
        )

    @property
    def readers(self) -> Mapping[str, str]:
        """The subtopology that reads each topic."""
        return {name: each.subtopology_id for each in self.subtopologies for name in each.read_topics}


def make_topology(epoch: int, subtopologies: Iterable[Subtopology]) -> Topology:
    """Raises STREAMS_INVALID_TOPOLOGY if two subtopologies have one id, or the epoch is negative."""
    ordered = sorted(subtopologies, key=lambda subtopology: subtopology.subtopology_id)
    if epoch < 0:
        raise KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, "Topology epoch must be non-negative.")
    for one, other in pairwise(ordered):
        if one.subtopology_id == other.subtopology_id:
            message = f"Subtopology {one.subtopology_id[:300]} is defined twice."
            raise KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)
    return Topology(epoch, tuple(ordered))
