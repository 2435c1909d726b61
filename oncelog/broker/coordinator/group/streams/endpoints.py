"""Which partitions the process behind each endpoint answers interactive queries for.

Owns: the way from the tasks of a member to partitions of topics. Does not own: when a member gets them (`coordinator`).

KIP-1071; Kafka's EndpointToPartitionsManager. A topic that has fewer partitions than its subtopology has tasks is
listed with the partitions that it has.
"""

from collections.abc import Iterable, Mapping, Sequence

from oncelog.broker.coordinator.group.engine.topics import TopicCatalog
from oncelog.broker.coordinator.group.streams.heartbeat import EndpointPartitions
from oncelog.broker.coordinator.group.streams.internal_topics import ConfiguredTopology
from oncelog.broker.coordinator.group.streams.member import StreamsMember

Partitions = Sequence[tuple[str, Sequence[int]]]


def endpoints_of(
    members: Iterable[StreamsMember], configured: ConfiguredTopology, topics: TopicCatalog
) -> list[EndpointPartitions]:
    """Return what each member with an endpoint has."""
    found = []
    for member in members:
        endpoint, assigned = member.metadata.endpoint, member.current.assigned
        if endpoint is not None:
            active = _partitions(assigned.active, configured, topics)
            found.append(EndpointPartitions(endpoint, active, _partitions(assigned.standby, configured, topics)))
    return found


def _partitions(tasks: Mapping[str, Iterable[int]], configured: ConfiguredTopology, topics: TopicCatalog) -> Partitions:
    found: list[tuple[str, Sequence[int]]] = []
    for subtopology_id, numbers in tasks.items():
        subtopology = configured.subtopologies.get(subtopology_id)
        if subtopology is None:
            continue
        for name in subtopology.read_topics:
            topic = topics.get(name)
            if topic is not None:
                found.append((name, sorted(number for number in numbers if number < topic.partition_count)))
    return found
