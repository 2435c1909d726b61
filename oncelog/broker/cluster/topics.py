"""Which topics and partitions exist, and the open log of each partition.

Owns: creation, growth and deletion (through the metadata log), the lookup from (topic, index) to a `PartitionLog`.
Does not own: the rules (`broker.cluster.topic_rules`), records and files (`broker.log`), the durable metadata
(`broker.cluster.metadata_log`).
Invariants
- A partition has a log only if it exists in the metadata log.
- A topic's files are deleted only once its removal is durable; its name is free again once they are out of the way.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from oncelog.broker.cluster.leadership import Leadership
from oncelog.broker.cluster.metadata_log import (
    MetadataLog,
    ResourceType,
    Topic,
    fold_name,
    topic_records,
)
from oncelog.broker.cluster.metadata_records import NewPartitions
from oncelog.broker.cluster.topic_rules import check_collision, check_topic_name
from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.log_manager import LogManager
from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.log.store import Withdrawn
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Entropy
from oncelog.broker.turns.slices import LOG_OPEN_ELEMENTS, PARTITIONS_AN_ELEMENT, TOPIC_ELEMENTS, Sliced, Slices
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.generated.remove_topic_record import RemoveTopicRecord
from oncelog.protocol.printable import printable_names
from oncelog.protocol.topics import INTERNAL_TOPICS, METADATA_TOPIC


class Topics:
    def __init__(
        self,
        metadata: MetadataLog,
        logs: LogManager,
        entropy: Entropy,
        leadership: Leadership,
        log_config: Callable[[Topic], LogConfig],
        internal_topics: Mapping[str, tuple[int, Mapping[str, str]]],
        slices: Slices,
    ) -> None:
        self._metadata = metadata
        self._logs = logs
        self._entropy = entropy
        self._leadership = leadership
        self._log_config = log_config
        self._log_configs: dict[str, tuple[Topic, LogConfig]] = {}
        """Cached by topic: all partitions share one, and computing it takes longer than opening a log."""
        self._slices = slices
        self._internal_topics = internal_topics
        self._deleting: set[str] = set()
        self._hidden = {METADATA_TOPIC}
        """Topics with open logs that clients may not use: that of the metadata log, where a write could ruin the broker
        for good, and those whose removal is durable."""
        self._watchers: list[Callable[[str], None]] = []
        self._removal_watchers: list[Callable[[str], Sliced[None]]] = []
        leadership.watch(self._on_gained)

    def watch(self, on_change: Callable[[str], None]) -> None:
        """Call `on_change(name)` in the turn in which a topic is created, deleted or extended."""
        self._watchers.append(on_change)

    def watch_removals(self, on_removed: Callable[[str], Sliced[None]]) -> None:
        """Run the steps of `on_removed(name)` once the removal of a topic is durable, before its name is free again."""
        self._removal_watchers.append(on_removed)

    def _notify_watchers(self, name: str) -> None:
        for on_change in self._watchers:
            on_change(name)

    def load(self) -> Sliced[list[str]]:
        """Open every existing partition, which recovers it; called once, before the first request.

        Files of removed topics that a stop has left are deleted. Files of partitions that are not in the metadata log
        are neither opened nor touched. Returns a line for each change, and one for everything left alone.
        """
        state = self._metadata.state
        store = self._logs.store
        lines = store.finish_removals(state.removed, state.topics_by_id)
        known = {(METADATA_TOPIC, 0)}
        for topic in self.all():
            config = self._config_of(topic)
            for index in range(topic.partition_count):
                known.add((topic.name, index))
                if store.holds(topic.name, index, topic.topic_id):
                    log = yield from self._logs.open(topic.name, index, topic.topic_id, config)
                    self._lead(log, topic)
        state.removed.clear()
        self._logs.complete_recovery()
        store.begin_serving()
        unknown = store.unknown_entries(known)
        if unknown:
            lines.append(f"left as it is, because it is not in the metadata log: {printable_names(unknown)}")
        return lines

    def get(self, name: str) -> Topic | None:
        return self._metadata.state.topics.get(name)

    def by_id(self, topic_id: object) -> Topic | None:
        return self._metadata.state.topics_by_id.get(topic_id)  # type: ignore[call-overload, no-any-return]

    def all(self) -> Iterable[Topic]:
        return self._metadata.state.topics.values()

    def partition(self, name: str, index: int) -> PartitionLog:
        """The log of a partition; raises UNKNOWN_TOPIC_OR_PARTITION, or KAFKA_STORAGE_ERROR if it is offline."""
        log = self._logs.get(name, index)
        if log is None or name in self._hidden:
            log = self.find_partition(name, index)
            if log is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {name[:300]}-{index}")
        if log.offline_error is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, log.offline_error)
        return log

    def has_partition(self, name: str, index: int) -> bool:
        topic = self.get(name)
        return topic is not None and 0 <= index < topic.partition_count

    def find_partition(self, name: str, index: int) -> PartitionLog | None:
        log = self._logs.get(name, index)
        if log is not None:
            return None if name in self._hidden else log
        topic = self.get(name)
        if topic is None or not 0 <= index < topic.partition_count:
            return None
        self._slices.charge(LOG_OPEN_ELEMENTS)  # it takes as long as several requests
        log = self._logs.create(name, index, topic.topic_id, self._config_of(topic))
        self._lead(log, topic)
        return log

    def _lead(self, log: PartitionLog, topic: Topic) -> None:
        (leader,) = self._leadership.leaders_of(topic, range(log.partition, log.partition + 1))
        log.lead(leader.epoch)
        log.is_led = self._leadership.is_durable

    def _on_gained(self) -> None:
        for log in self._logs.logs:
            topic = self.get(log.topic)
            if topic is not None:
                self._lead(log, topic)

    def open_log(self, name: str, index: int) -> PartitionLog | None:
        """The log of a partition if it is open, as all are that had files at the start."""
        return self._logs.get(name, index)

    def _config_of(self, topic: Topic) -> LogConfig:
        known = self._log_configs.get(topic.name)
        if known is None or known[0] is not topic:
            known = self._log_configs[topic.name] = topic, self._log_config(topic)
        return known[1]

    def create(self, name: str, partition_count: int, config: Mapping[str, str] | None = None) -> Completion[Topic]:
        """Create a topic; usable at once, completes once durable. Raises KafkaError if it may not be created."""
        self.check_name(name)
        if partition_count <= 0:
            raise KafkaError(ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0.")
        topic = Topic(name, self._entropy.uuid(), partition_count, dict(config or {}))
        partitions = NewPartitions(topic.topic_id, range(partition_count), self._leadership.of_new_partitions)
        written = self._write_partitions(name, partitions.indexes, topic_records(topic, partitions))
        self._notify_watchers(name)
        made = self._metadata.state.topics[name]
        return written.map(lambda _: made)

    def _write(self, records: Sequence[Any]) -> Completion[None]:
        """Raises KafkaError if the records cannot be appended, as on a full disk: nothing has changed then."""
        written = self._metadata.write(records)
        if written.error is not None:
            raise written.error
        return written

    def _write_partitions(self, name: str, partitions: range, records: Sequence[Any]) -> Completion[None]:
        self._slices.charge(TOPIC_ELEMENTS + len(partitions) // PARTITIONS_AN_ELEMENT)
        self._make_way(name, partitions)
        return self._write(records)

    def _make_way(self, name: str, partitions: range) -> None:
        """Runs before the creation is logged: after a restart the owner of such a directory would be unknown."""
        try:
            self._logs.store.make_way(name, partitions)
        except OSError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"cannot make room for {name}: {error}") from error

    def check_name(self, name: str) -> None:
        """Raises KafkaError if no topic of this name may be created."""
        check_topic_name(name)
        if name == METADATA_TOPIC:
            # Deleting such a topic would delete the metadata log with it.
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
        if name in self._metadata.state.topics or name in self._deleting:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        check_collision(name, self._metadata.state.names_by_folded.get(fold_name(name)))

    def grow(self, name: str, partition_count: int) -> Completion[None]:
        """Add partitions to a topic; usable at once, completes once durable. Raises KafkaError."""
        topic = self.get(name)
        if topic is None or partition_count <= topic.partition_count:
            raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"{name[:300]!r} cannot grow to {partition_count}.")
        new = range(topic.partition_count, partition_count)
        partitions = NewPartitions(topic.topic_id, new, self._leadership.of_new_partitions)
        written = self._write_partitions(name, new, [partitions])
        self._notify_watchers(name)
        return written

    def on_config_change(self, resource_type: int, name: str) -> None:
        """Settings of a topic, or the broker's defaults for all topics, have changed: open logs apply them at once, or
        within a few turns if there are very many."""
        self._log_configs.clear()
        if resource_type == ResourceType.BROKER:
            self._slices.run_own(self._set_up_logs())
        topic = self.get(name) if resource_type == ResourceType.TOPIC else None
        if topic is not None:
            config = self._config_of(topic)
            for index in range(topic.partition_count):
                log = self._logs.get(topic.name, index)
                if log is not None:
                    log.config = config

    def _set_up_logs(self) -> Sliced[None]:
        for log in list(self._logs.logs):
            topic = self.get(log.topic)
            if topic is not None:
                is_known = topic.name in self._log_configs
                log.config = self._config_of(topic)
                yield 1 if is_known else LOG_OPEN_ELEMENTS

    def delete(self, name: str) -> Completion[None]:
        """Delete a topic; completes once that is durable and the name is free. Raises UNKNOWN_TOPIC_OR_PARTITION."""
        topic = self.get(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name[:300]!r}")
        self._logs.store.prepare_removal(topic.topic_id)
        written = self._write([RemoveTopicRecord(topic_id=topic.topic_id)])
        self._deleting.add(name)
        self._notify_watchers(name)
        return written.flat_map(lambda _: self._slices.run_own(self._remove(topic)))

    def _remove(self, topic: Topic) -> Sliced[None]:
        """Remove what is left of a topic whose removal is durable; in slices, as it may have 10,000 open logs."""
        name = topic.name
        self._hidden.add(name)
        for on_removed in self._removal_watchers:
            yield from on_removed(name)
        self._log_configs.pop(name, None)
        withdrawn = yield from self._logs.withdraw(name, topic.topic_id, topic.partition_count)
        self._hidden.discard(name)
        self._deleting.discard(name)
        self._slices.run_own(self._delete_files(withdrawn))

    def _delete_files(self, withdrawn: Withdrawn) -> Sliced[None]:
        all_gone = yield from self._logs.delete(withdrawn)
        if all_gone:
            self._metadata.state.removed.pop(withdrawn.topic_id, None)

    def ensure_internal(self, name: str) -> Completion[Topic]:
        """`__consumer_offsets` or `__transaction_state`, created on first use with one replica. Raises KafkaError."""
        topic = self.get(name)
        if topic is not None:
            return Completion.of(topic)
        partition_count, config = self._internal_topics[name]
        return self.create(name, partition_count, config)


class InternalTopicSource:
    """The partitions of one internal topic, for the coordinator runtime."""

    def __init__(self, topics: Topics, name: str) -> None:
        if name not in INTERNAL_TOPICS:
            raise ValueError(f"{name} is not an internal topic")
        self._topics = topics
        self._name = name

    def partition_count(self) -> int:
        topic = self._topics.get(self._name)
        if topic is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"{self._name} does not exist: send FindCoordinator first")
        return topic.partition_count

    def partition(self, index: int) -> PartitionLog:
        self.partition_count()
        try:
            return self._topics.partition(self._name, index)
        except KafkaError as error:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from error

    def partitions_with_data(self) -> Iterable[int]:
        topic = self._topics.get(self._name)
        for index in range(topic.partition_count if topic else 0):
            log = self._topics.open_log(self._name, index)
            if log is not None and (log.log_end_offset > 0 or log.offline_error is not None):
                yield index
