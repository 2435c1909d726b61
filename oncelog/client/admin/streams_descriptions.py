"""What Admin returns about streams groups (KIP-1071) as plain values.

Owns: the classes. Does not own: the requests (`streams_groups`). The task offsets of a member are left out: Kafka 4.3
has fields for them, and leaves them empty.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


class StreamsTask(NamedTuple):
    """One task: a partition of a subtopology. Its text is Kafka's, such as `0_2`."""

    subtopology_id: str
    partition: int

    def __str__(self) -> str:
        return f"{self.subtopology_id}_{self.partition}"


@dataclass(frozen=True, slots=True)
class StreamsTasks:
    """The tasks of one member: those that it processes, those whose state it keeps as a standby, and those whose state
    it restores to take them over."""

    active: tuple[StreamsTask, ...] = ()
    standby: tuple[StreamsTask, ...] = ()
    warmup: tuple[StreamsTask, ...] = ()


@dataclass(frozen=True, slots=True)
class StreamsInternalTopic:
    """A topic that an application needs for itself. `partition_count` is 0 where the sources decide, and
    `replication_factor` 0 where the broker does."""

    name: str
    partition_count: int
    replication_factor: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class StreamsSubtopology:
    """A connected part of an application's topology, with the topics that it reads and writes."""

    subtopology_id: str
    source_topics: tuple[str, ...]
    repartition_sink_topics: tuple[str, ...]
    repartition_source_topics: tuple[StreamsInternalTopic, ...]
    changelog_topics: tuple[StreamsInternalTopic, ...]

    @property
    def read_topics(self) -> tuple[str, ...]:
        """The topics whose records it processes, of others and its own."""
        return (*self.source_topics, *(each.name for each in self.repartition_source_topics))


@dataclass(frozen=True, slots=True)
class StreamsMemberDescription:
    """One member of a streams group: a thread of a process. `tasks` are those that it has, `target_tasks` those that it
    should have. `user_endpoint` is where the application serves interactive queries."""

    member_id: str
    group_instance_id: str | None
    rack_id: str | None
    client_id: str
    host: str
    process_id: str
    epoch: int
    topology_epoch: int
    user_endpoint: tuple[str, int] | None
    client_tags: Mapping[str, str]
    tasks: StreamsTasks
    target_tasks: StreamsTasks
    is_classic: bool


@dataclass(frozen=True, slots=True)
class StreamsGroupDescription:
    """One streams group, whose id is the application.id. `topology_epoch` is -1 if the coordinator has no topology."""

    group_id: str
    state: str
    epoch: int
    assignment_epoch: int
    topology_epoch: int
    coordinator_id: int
    subtopologies: tuple[StreamsSubtopology, ...]
    members: tuple[StreamsMemberDescription, ...]

    @property
    def source_topics(self) -> tuple[str, ...]:
        """The topics that the application reads and that are not its own, sorted."""
        return tuple(sorted({name for each in self.subtopologies for name in each.source_topics}))

    @property
    def internal_topics(self) -> tuple[str, ...]:
        """The repartition and changelog topics of the application, sorted."""
        return tuple(
            sorted(
                {
                    topic.name
                    for each in self.subtopologies
                    for topic in (*each.repartition_source_topics, *each.changelog_topics)
                }
                - set(self.source_topics)
            )
        )
