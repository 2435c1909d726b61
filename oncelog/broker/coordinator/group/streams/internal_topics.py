"""What the topics of a topology must be like: how many partitions, which are missing, and why it cannot run yet.

Owns: the partition counts of repartition topics and changelogs, the check of copartitioned topics, the task count of
each subtopology. Does not own: topics (`broker.cluster.topics`), who creates the missing ones
(`handlers.streams_group_heartbeat`).
Invariants
- A pure function of the topology and the topics that exist: nothing of it is stored.
- A topic that exists has the partitions that it has; only those that do not are decided here.

KIP-1071. In the order of Kafka's InternalTopicManager: source topics, repartition topics, copartition groups,
changelogs, and only then what is missing.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from heapq import heappop, heappush

from oncelog.broker.coordinator.group.engine.topics import TopicCatalog
from oncelog.broker.coordinator.group.streams.topology import CopartitionGroup, Subtopology, TopicInfo, Topology
from oncelog.protocol.errors import ErrorCode, KafkaError

_NAMED_AT_MOST = 3
_MOST_TASKS = 100_000
"""How many tasks a group may have: a target assignment is computed in one turn. Measured: 4 µs for each."""


class StatusCode(IntEnum):
    """The status of the group in a heartbeat's response, with the protocol's number."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


@dataclass(frozen=True, slots=True)
class Status:
    code: StatusCode
    detail: str


@dataclass(frozen=True, slots=True)
class InternalTopic:
    name: str
    partition_count: int
    replication_factor: int
    """0 means the broker's default."""
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ConfiguredSubtopology:
    subtopology_id: str
    task_count: int
    source_topics: tuple[str, ...]
    repartition_sink_topics: tuple[str, ...]
    repartition_source_topics: Mapping[str, InternalTopic]
    state_changelog_topics: Mapping[str, InternalTopic]

    @property
    def is_stateful(self) -> bool:
        return bool(self.state_changelog_topics)

    @property
    def read_topics(self) -> Iterable[str]:
        return {**dict.fromkeys(self.source_topics), **dict.fromkeys(self.repartition_source_topics)}


@dataclass(frozen=True, slots=True)
class ConfiguredTopology:
    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology] = field(default_factory=dict)
    """Subtopologies by id, sorted; empty if the topics do not fit."""
    missing: tuple[InternalTopic, ...] = ()
    problem: Status | None = None
    """Why the application cannot run yet."""

    @property
    def is_ready(self) -> bool:
        return self.problem is None


class _Unfit(Exception):
    """The topics are not what the topology needs."""

    def __init__(self, code: StatusCode, message: str) -> None:
        super().__init__(message)
        self.status = Status(code, message)


def configure(topology: Topology, topics: TopicCatalog) -> ConfiguredTopology:
    """Raises STREAMS_INVALID_TOPOLOGY for what no topics could fit."""
    try:
        return _configure(topology, topics)
    except _Unfit as unfit:
        return ConfiguredTopology(topology.epoch, problem=unfit.status)


def _configure(topology: Topology, topics: TopicCatalog) -> ConfiguredTopology:
    sources = {name for subtopology in topology.subtopologies for name in subtopology.source_topics}
    absent = [name for name in sorted(sources) if topics.get(name) is None]
    if absent:
        raise _Unfit(StatusCode.MISSING_SOURCE_TOPICS, f"Source topics {_summary(absent)} are missing.")
    counts = _Counts(topics)
    counts.decided.update(_repartition_counts(topology, counts))
    _copartition(topology, counts)
    for subtopology in topology.subtopologies:
        task_count = _task_count(subtopology, counts)
        counts.decided.update((changelog.name, task_count) for changelog in subtopology.state_changelog_topics)
    configured = {each.subtopology_id: _configured(each, counts) for each in topology.subtopologies}
    if sum(each.task_count for each in configured.values()) > _MOST_TASKS:
        raise _invalid(f"The topology has more than {_MOST_TASKS} tasks.")
    missing = _missing(configured.values(), topics)
    problem = None
    if missing:
        detail = f"Internal topics are missing: {_summary([topic.name for topic in missing])}"
        problem = Status(StatusCode.MISSING_INTERNAL_TOPICS, detail)
    return ConfiguredTopology(topology.epoch, configured, missing, problem)


class _Counts:
    """The partition count of each topic: what it has, or what was decided."""

    def __init__(self, topics: TopicCatalog) -> None:
        self._topics = topics
        self.decided: dict[str, int] = {}

    def get(self, name: str) -> int | None:
        topic = self._topics.get(name)
        return self.decided.get(name) if topic is None else topic.partition_count

    def of(self, name: str) -> int:
        count = self.get(name)
        if count is None:
            raise _invalid(f"Number of partitions is not set for topic: {name}")
        return count


# --- repartition topics ---------------------------------------------------------------------------------------------


def _repartition_counts(topology: Topology, counts: _Counts) -> dict[str, int]:
    """Return the partition count of each repartition topic: the one that the application sets, or the largest of those
    that the writing subtopology reads, which may be repartition topics themselves.

    Kafka goes through all subtopologies again and again until each is decided. Here one is looked at again only when a
    topic that it reads has been decided, at the same place of that order: a long chain costs no more than its length.
    """
    sources = [topic for subtopology in topology.subtopologies for topic in subtopology.repartition_source_topics]
    found = {topic.name: topic.partition_count for topic in sources if topic.partition_count}
    readers: dict[str, list[int]] = {}
    for index, subtopology in enumerate(topology.subtopologies):
        for topic in subtopology.repartition_source_topics:
            readers.setdefault(topic.name, []).append(index)
    undecided = {index for index, each in enumerate(topology.subtopologies) if each.repartition_sink_topics}
    turns = [(0, index) for index in sorted(undecided)]
    while turns:
        turn, index = heappop(turns)
        subtopology = topology.subtopologies[index]
        count = _largest_known(subtopology, found, counts) if index in undecided else None
        if count is None:
            continue
        undecided.discard(index)
        for sink in subtopology.repartition_sink_topics:
            if sink not in found:
                found[sink] = count
                for reader in readers.get(sink, ()):
                    heappush(turns, (turn + (reader <= index), reader))
    if any(sink not in found for index in undecided for sink in topology.subtopologies[index].repartition_sink_topics):
        raise _invalid(
            "Failed to compute number of partitions for all repartition topics. There may be loops in the topology "
            "that cannot be resolved."
        )
    if any(topic.name not in found for topic in sources):
        raise _invalid(
            "Failed to compute number of partitions for all repartition topics, because a repartition source topic "
            "is never used as a sink topic."
        )
    return found


def _largest_known(subtopology: Subtopology, found: Mapping[str, int], counts: _Counts) -> int | None:
    known = [found.get(topic.name) for topic in subtopology.repartition_source_topics]
    known += [counts.get(name) for name in subtopology.source_topics]
    return max((count for count in known if count is not None), default=None)


# --- copartition groups ---------------------------------------------------------------------------------------------


def _copartition(topology: Topology, counts: _Counts) -> None:
    """Make the repartition topics of each group as large as its other topics, which must be equal.

    Only what is fixed within a group counts there, as in the classic protocol; in Kafka 4.3's broker what is fixed
    anywhere does.
    """
    wanted = [topic for subtopology in topology.subtopologies for topic in subtopology.repartition_source_topics]
    fixed = {topic.name for topic in wanted if topic.partition_count}
    repartitioned = {topic.name for topic in wanted}
    for subtopology in topology.subtopologies:
        for group in subtopology.copartition_groups:
            names = _names(subtopology, group)
            if names:
                counts.decided.update(_equal_counts(names, fixed & names, repartitioned, counts))


def _names(subtopology: Subtopology, group: CopartitionGroup) -> frozenset[str]:
    try:
        names = [subtopology.source_topics[_index(index)] for index in group.source_topics]
        names += [
            subtopology.repartition_source_topics[_index(index)].name for index in group.repartition_source_topics
        ]
    except IndexError:
        raise _invalid("A copartition group refers to a topic that does not exist.") from None
    return frozenset(names)


def _index(index: int) -> int:
    if index < 0:
        raise IndexError(index)
    return index


def _equal_counts(
    names: Collection[str], fixed: Collection[str], repartitioned: Collection[str], counts: _Counts
) -> dict[str, int]:
    internal = {name: counts.of(name) for name in sorted(names) if name in repartitioned}
    external = {name: counts.of(name) for name in sorted(names) if name not in repartitioned}
    if external:
        count = _same(external, external)
    elif fixed:
        count = _same({name: counts.of(name) for name in sorted(fixed)}, internal)
    else:
        count = max(internal.values())
    for name, its_own in internal.items():
        if name in fixed and its_own != count:
            raise _Unfit(
                StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                f"Number of partitions [{its_own}] of repartition topic [{name}] doesn't match number of partitions "
                f"[{count}] of the source topic.",
            )
    return dict.fromkeys(internal, count)


def _same(compared: Mapping[str, int], shown: Mapping[str, int]) -> int:
    sizes = list(compared.values())
    if any(size != sizes[0] for size in sizes):
        listed = ", ".join(f"{name}={size}" for name, size in shown.items())
        message = f"Following topics do not have the same number of partitions: [{{{listed}}}]"
        raise _Unfit(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, message)
    return sizes[0]


# --- the result -----------------------------------------------------------------------------------------------------


def _task_count(subtopology: Subtopology, counts: _Counts) -> int:
    sizes = [counts.of(name) for name in subtopology.read_topics]
    if not sizes:
        raise _invalid(f"No source topics found for subtopology {subtopology.subtopology_id[:300]}")
    return max(sizes)


def _configured(subtopology: Subtopology, counts: _Counts) -> ConfiguredSubtopology:
    return ConfiguredSubtopology(
        subtopology.subtopology_id,
        _task_count(subtopology, counts),
        tuple(dict.fromkeys(subtopology.source_topics)),
        tuple(dict.fromkeys(subtopology.repartition_sink_topics)),
        {topic.name: _internal(topic, counts) for topic in subtopology.repartition_source_topics},
        {topic.name: _internal(topic, counts) for topic in subtopology.state_changelog_topics},
    )


def _internal(topic: TopicInfo, counts: _Counts) -> InternalTopic:
    count = topic.partition_count or counts.decided[topic.name]
    if count < 1:
        raise _invalid("Number of partitions must be at least 1.")
    return InternalTopic(topic.name, count, topic.replication_factor, dict(topic.config))


def _missing(subtopologies: Iterable[ConfiguredSubtopology], topics: TopicCatalog) -> tuple[InternalTopic, ...]:
    needed: dict[str, InternalTopic] = {}
    for subtopology in subtopologies:
        needed.update(subtopology.repartition_source_topics)
        needed.update(subtopology.state_changelog_topics)
    missing = []
    for name, wanted in sorted(needed.items()):
        existing = topics.get(name)
        if existing is None:
            missing.append(wanted)
        elif existing.partition_count != wanted.partition_count:
            raise _Unfit(
                StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                f"Existing topic {name} has different number of partitions: expected {wanted.partition_count}, found "
                f"{existing.partition_count}",
            )
    return tuple(missing)


def _summary(names: Collection[str]) -> str:
    """Name a few topics: a response need not repeat a long list."""
    more = f" and {len(names) - _NAMED_AT_MOST} additional topics" if len(names) > _NAMED_AT_MOST else ""
    return ", ".join(list(names)[:_NAMED_AT_MOST]) + more


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)
