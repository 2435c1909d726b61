"""What of a Kafka broker is adopted: decided and reported before anything is written.

Owns: the role of each partition and file, the table of what goes along, what is left, and what is missing. Does not
own: reading the metadata and the directories (`oncelog.tools.kafka_directory`), the work (`adoption`).
Invariant: a row that says MISSING is about records that clients of the cluster can read and clients of the adopted
directory could not; nothing else needs consent (`--partial`).
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from uuid import uuid4

from oncelog.broker.cluster.features import FEATURES
from oncelog.broker.cluster.metadata_log import ClusterState, ResourceType, Topic
from oncelog.broker.cluster.topic_rules import check_topic_name
from oncelog.broker.config.changes import find_resource
from oncelog.broker.config.settings import BrokerConfig
from oncelog.broker.storage.local.checkpoints import LEADER_EPOCHS
from oncelog.broker.storage.local.partition_directory import (
    PARTITION_METADATA,
    directory_of,
    partition_of,
    read_topic_id,
)
from oncelog.broker.storage.local.segment import LOG_SUFFIX, file_name
from oncelog.broker.storage.producer_snapshot import SUFFIX as SNAPSHOT_SUFFIX
from oncelog.protocol.errors import KafkaError
from oncelog.protocol.generated.register_broker_record import RegisterBrokerRecord
from oncelog.protocol.printable import printable_names
from oncelog.protocol.topics import METADATA_TOPIC
from oncelog.tools.kafka_directory import NotPossible
from oncelog.tools.kafka_directory.directories import KafkaDir, Place
from oncelog.tools.kafka_directory.metadata import METADATA_DIRECTORY, NO_LEADER, KafkaMetadata, KafkaPartition
from oncelog.tools.kafka_directory.taking import rows_of_state

_OF_SEGMENTS = re.compile(r"\d{20}\.(log|snapshot)\Z")
_SWAP_SUFFIX = ".swap"
_REMOTE = "remote.storage.enable"
_MIN_ISR = "min.insync.replicas"
_SUFFIXES = {
    "-delete": "are left out: of removed topics",
    "-future": "are left out: replicas on their way to another log directory",
    "-stray": "are left out: Kafka has set them aside",
}


class Fate(Enum):
    """The fate of a part of the cluster."""

    KEPT = "kept"
    LEFT = "left"
    """It stays behind: it has no meaning on one node, or none for this broker."""
    MISSING = "missing"
    """It is missing: its records are elsewhere."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    what: str
    count: int
    fate: Fate
    outcome: str


@dataclass(frozen=True, slots=True)
class FoundPartition:
    """A partition that is adopted."""

    topic: Topic
    partition: int
    kafka_dir: KafkaDir
    segments: tuple[int, ...]
    """The base offsets of the segments, in order; not empty."""
    copied: tuple[str, ...]
    """The names of the small files that go along as they are."""
    snapshots: tuple[int, ...]
    """The offsets of its producer snapshots."""

    @property
    def directory(self) -> str:
        return directory_of(self.topic.name, self.partition)

    def sizes(self) -> tuple[int, int]:
        """Return the bytes of closed segments, and of the one that grows with the small files."""
        path = self.kafka_dir.path / self.directory
        sizes = [(path / file_name(base, LOG_SUFFIX)).stat().st_size for base in self.segments]
        small = [*self.copied, *(file_name(offset, SNAPSHOT_SUFFIX) for offset in self.snapshots)]
        return sum(sizes[:-1]), sizes[-1] + sum((path / name).stat().st_size for name in small)


@dataclass(frozen=True, slots=True)
class Plan:
    node_id: int
    state: ClusterState
    """The part of the cluster's state that is adopted, without its topics."""
    topics: Sequence[tuple[Topic, Sequence[int]]]
    """The topics with the settings that are taken, and with the leader epoch of each partition; their own count of
    these is 0."""
    partitions: Sequence[FoundPartition]
    rows: Sequence[Row]

    @property
    def is_complete(self) -> bool:
        return all(row.fate is not Fate.MISSING for row in self.rows)


def make_plan(dirs: Sequence[KafkaDir], metadata: KafkaMetadata, config: BrokerConfig) -> Plan:
    """Raises NotPossible if nothing can be adopted."""
    first = dirs[0]
    if not metadata.state.topics and any(set(each.directories()) - {METADATA_DIRECTORY} for each in dirs):
        raise NotPossible(
            f"the metadata knows no topic, and {first.path} has partitions: give the directory with the newest "
            "metadata too (metadata.log.dir)"
        )
    taking = _Settings(metadata.state, first.node.node_id, config)
    state = _adopted_state(metadata.state, first, taking)
    placed = _Placing(dirs, metadata)
    placed.run()
    topics = [
        (replace(topic, config=taking.take(ResourceType.TOPIC, name, topic.config)), placed.leader_epochs[name])
        for name, topic in sorted(metadata.state.topics.items())
    ]
    rows = [
        *_rows_of_state(state, [topic for topic, _ in topics], placed.partitions),
        *placed.rows(),
        *_rows_of_settings(metadata.state, first.node.node_id, taking),
        *_rows_of_entries(dirs),
    ]
    return Plan(first.node.node_id, state, topics, placed.partitions, [row for row in rows if row.count])


# --- partitions -------------------------------------------------------------------------------------------------------


class _Placing:
    """Finds the files of each partition of the cluster."""

    def __init__(self, dirs: Sequence[KafkaDir], metadata: KafkaMetadata) -> None:
        self._metadata = metadata
        self._node_id = dirs[0].node.node_id
        self._given = {each.node.directory_id for each in dirs}
        self._found: dict[Place, list[KafkaDir]] = {}
        for each in dirs:
            for name in each.directories():
                self._found.setdefault(partition_of(name) or ("", 0), []).append(each)
        self._problems: dict[str, list[str]] = {}
        """The directories of partitions, by the problem to report about them."""
        self._placed: set[Place] = set()
        self.partitions: list[FoundPartition] = []
        """The partitions with records."""
        self.leader_epochs: dict[str, list[int]] = {}

    def run(self) -> None:
        for name, topic in sorted(self._metadata.state.topics.items()):
            _check_name(name)
            known = self._metadata.partitions.get(topic.topic_id, {})
            if sorted(known) != list(range(len(known))):
                raise NotPossible(f"the metadata lacks partitions of {name}: take another node's copy")
            self.leader_epochs[name] = [known[index].leader_epoch for index in sorted(known)]
            if topic.config.get(_REMOTE) == "true":
                self._note(_REMOTE_ROW, name)
            for index in sorted(known):
                self._place(topic, index, known[index])
        for place in self._found:
            if place not in self._placed and place[0] != METADATA_TOPIC:
                self._note(_UNKNOWN_ROW, directory_of(*place))

    def _place(self, topic: Topic, index: int, partition: KafkaPartition) -> None:
        directory = directory_of(topic.name, index)
        if self._node_id not in partition.replicas:
            self._note(_ELSEWHERE_ROW, directory)
            return
        own = [each for each in self._found.get((topic.name, index), ()) if self._is_its_own(each, topic, directory)]
        if not own and not self._metadata.was_started:
            return
        if not own:
            directory_ids = dict(zip(partition.replicas, partition.directories, strict=False))
            is_given = directory_ids.get(self._node_id) in self._given
            self._note(_GONE_ROW if is_given or not directory_ids else _OTHER_DIR_ROW, directory)
            return
        if len(own) > 1:
            raise NotPossible(f"{directory} is in {own[0].path} and in {own[1].path}: give the one that Kafka uses")
        self._placed.add((topic.name, index))
        role = _role_of(partition, self._node_id)
        if role is not None:
            self._note(role, directory)
        found = _files_of(own[0], topic, index)
        if found is not None:
            self.partitions.append(found)

    def _is_its_own(self, kafka_dir: KafkaDir, topic: Topic, directory: str) -> bool:
        return read_topic_id(kafka_dir.disk, directory) in (topic.topic_id, None)

    def _note(self, row: str, directory: str) -> None:
        self._problems.setdefault(row, []).append(directory)

    def rows(self) -> Iterator[Row]:
        for what, fate, outcome in _PARTITION_ROWS:
            places = self._problems.get(what, [])
            yield Row(what, len(places), fate, f"{outcome}: {printable_names(places)}" if places else "")


_ELSEWHERE_ROW = "partitions of other nodes"
_OUT_OF_SYNC_ROW = "replicas out of sync"
_FOLLOWER_ROW = "replicas of another leader"
_OTHER_DIR_ROW = "in another log directory"
_GONE_ROW = "without a directory"
_UNKNOWN_ROW = "unknown partitions"
_REMOTE_ROW = "topics with remote segments"
_PARTITION_ROWS = (
    (_FOLLOWER_ROW, Fate.KEPT, "were in sync: all that was committed when this node last heard of it"),
    (_ELSEWHERE_ROW, Fate.MISSING, "stay empty"),
    (_OUT_OF_SYNC_ROW, Fate.MISSING, "lack the newest records of their leader, and may have some that it dropped"),
    (_OTHER_DIR_ROW, Fate.MISSING, "stay empty, unless you give that directory of this broker too"),
    (_GONE_ROW, Fate.MISSING, "stay empty"),
    (_REMOTE_ROW, Fate.MISSING, "begin with the oldest segment that is here; tiered storage is not read"),
    (_UNKNOWN_ROW, Fate.LEFT, "are left out: the metadata knows no such topic, or not here"),
)


def _check_name(name: str) -> None:
    """Raise NotPossible for a name that no topic can have: topics' names become those of directories."""
    try:
        check_topic_name(name)
    except KafkaError as error:
        raise NotPossible(f"the metadata names a topic that no Kafka would create: {error}; restore it") from error
    if name == METADATA_TOPIC:
        raise NotPossible(f"the metadata names {name} as a topic, which no Kafka would create: restore it")


def _role_of(partition: KafkaPartition, node_id: int) -> str | None:
    """Return the row about a partition whose leader is another node; None where this one has all there is."""
    if partition.leader == node_id or list(partition.replicas) == [node_id]:
        return None
    if partition.leader == NO_LEADER:
        return None if node_id in (*partition.isr, *partition.eligible) else _OUT_OF_SYNC_ROW
    return _FOLLOWER_ROW if node_id in partition.isr else _OUT_OF_SYNC_ROW


def _files_of(kafka_dir: KafkaDir, topic: Topic, index: int) -> FoundPartition | None:
    """Return the files of a partition; None if it has no segment. Raises NotPossible."""
    directory = directory_of(topic.name, index)
    names = kafka_dir.disk.list_dir(directory)
    if any(name.endswith(_SWAP_SUFFIX) for name in names):
        raise NotPossible(
            f"{kafka_dir.path / directory} is half-way through a compaction, which ended with its Kafka: start Kafka "
            "once, so that it completes that, and stop it cleanly"
        )
    of_segments = [name for name in names if _OF_SEGMENTS.match(name)]
    segments = tuple(int(name[:20]) for name in of_segments if name.endswith(LOG_SUFFIX))
    if not segments:
        return None
    copied = tuple(name for name in names if name in (LEADER_EPOCHS, PARTITION_METADATA))
    snapshots = tuple(int(name[:20]) for name in of_segments if name.endswith(SNAPSHOT_SUFFIX))
    return FoundPartition(topic, index, kafka_dir, segments, copied, snapshots)


# --- state ------------------------------------------------------------------------------------------------------------


class _Settings:
    """Takes the settings that could be set here, one by one, and notes the names of the others."""

    def __init__(self, kafka: ClusterState, node_id: int, config: BrokerConfig) -> None:
        self._kafka = kafka
        self._node_id = node_id
        self._config = config
        self.left: list[str] = []
        self.demands = 0
        """The number of settings that demand more replicas to have a record before it is acknowledged."""

    def take(self, kind: int, name: str, settings: Mapping[str, str]) -> dict[str, str]:
        taken = {}
        for key, value in settings.items():
            if key == _MIN_ISR and value != "1":
                self.demands += 1
                continue
            try:
                find_resource(kind, name, self._kafka, self._config, self._node_id).check({key: value}, [key])
            except KafkaError:
                self.left.append(key)
            else:
                taken[key] = value
        return taken


def _adopted_state(kafka: ClusterState, first: KafkaDir, taking: _Settings) -> ClusterState:
    state = ClusterState()
    state.cluster_id = first.node.cluster_id
    # `oncelog graduate` knows by it which node it was, before a first start here too.
    state.registration = RegisterBrokerRecord(broker_id=first.node.node_id, incarnation_id=uuid4(), fenced=False)
    state.next_producer_id = kafka.next_producer_id
    for name, feature in FEATURES.items():
        # metadata.version has one level here; what a cluster has not finalized is at level 0.
        state.features[name] = min(max(kafka.features.get(name, 0), feature.minimum), feature.maximum)
    for (kind, name), settings in kafka.configs.items():
        is_own = kind == ResourceType.BROKER and name in ("", str(first.node.node_id))
        if is_own or kind in (ResourceType.GROUP, ResourceType.CLIENT_METRICS):
            taken = taking.take(kind, name, settings)
            if taken:
                state.configs[kind, name] = taken
    for record in kafka.security.records():
        state.replay(record, -1)
    return state


def _rows_of_state(state: ClusterState, topics: Sequence[Topic], partitions: Sequence[FoundPartition]) -> Iterator[Row]:
    of_topic = Counter(found.topic.name for found in partitions)
    security = state.security
    logins = "go along: their users can log in where sasl.enabled.mechanisms has SCRAM"
    with_records = ("partitions with records", len(partitions), "go along, with their offsets and transactions")
    for what, count, outcome in rows_of_state(state, topics, with_records, of_topic.__getitem__, state.features):
        yield Row(what, count, Fate.KEPT, outcome)
    yield Row("SCRAM credentials", len(security.scram_credentials), Fate.KEPT, logins)
    yield Row("ACLs", len(security.acls), Fate.KEPT, "go along: in force where authorizer.class.name is set")
    yield Row("quotas", len(security.quotas), Fate.KEPT, "go along, and are in force")
    tokens = "go along: in force where delegation.token.secret.key is Kafka's"
    yield Row("delegation tokens", len(security.tokens), Fate.KEPT, tokens)


def _rows_of_settings(kafka: ClusterState, node_id: int, taking: _Settings) -> Iterator[Row]:
    nodes = [name for (kind, name) in kafka.configs if kind == ResourceType.BROKER and name not in ("", str(node_id))]
    features = sorted(set(kafka.features).difference(FEATURES))
    names = ", ".join(sorted(set(taking.left)))
    yield Row("settings not possible here", len(taking.left), Fate.LEFT, f"are left out: {names}")
    yield Row(_MIN_ISR, taking.demands, Fate.LEFT, "is left out above 1: with one replica nothing could be produced")
    yield Row("brokers with settings", len(nodes), Fate.LEFT, f"are other nodes, left out: {', '.join(sorted(nodes))}")
    yield Row("features unknown here", len(features), Fate.LEFT, f"are left out: {', '.join(features)}")


def _rows_of_entries(dirs: Sequence[KafkaDir]) -> Iterator[Row]:
    for suffix, outcome in _SUFFIXES.items():
        names = [name for each in dirs for name in each.directories(suffix)]
        yield Row(f"directories *{suffix}", len(names), Fate.LEFT, outcome)
