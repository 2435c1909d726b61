"""Which topics and partitions exist, and the open log of each partition.

Owns: creation, growth and deletion (through the metadata log), the lookup from (topic, index) to a `PartitionLog`.
Does not own: the rules (`broker.cluster.topic_rules`), records and files (`broker.log`), the durable metadata
(`broker.cluster.metadata_log`).
Invariants
- A partition has an open log only if it exists in the metadata log and this node leads it: the log is opened when it is
  gained, by a creation, a start or a change of leader, and no look-up creates one.
- A topic's files are deleted only once its removal is durable; its name is free again once they are out of the way.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol
from uuid import UUID

from oncelog.broker.cluster.leadership import Leadership
from oncelog.broker.cluster.metadata_log import (
    MetadataLog,
    ResourceType,
    Topic,
    fold_name,
    topic_records,
)
from oncelog.broker.cluster.metadata_records import NewPartitions, removal_of
from oncelog.broker.cluster.topic_rules import check_collision, check_topic_name
from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.log_manager import LogManager
from oncelog.broker.log.partition_log import PartitionLog, not_led
from oncelog.broker.log.store import Removal
from oncelog.broker.turns.completion import Completion, all_of
from oncelog.broker.turns.ports import Entropy
from oncelog.broker.turns.slices import LOG_OPEN_ELEMENTS, PARTITIONS_AN_ELEMENT, TOPIC_ELEMENTS, Sliced, Slices
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.printable import printable_names
from oncelog.protocol.topics import INTERNAL_TOPICS, METADATA_TOPIC


class LeaderListener(Protocol):
    """A component that works on partitions which this node leads: a coordinator, with the logs of its own topic."""

    topic: str

    def lose(self, partition: int) -> None:
        """Called before the log resigns."""

    def gain(self, partition: int, epoch: int) -> None:
        """Called once the log is open."""

    def on_topic_changed(self, name: str) -> None:
        """A topic was created, deleted or extended."""


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
        self._deleting: dict[str, Completion[None]] = {}
        self._hidden = {METADATA_TOPIC}
        """Topics with open logs that clients may not use: that of the metadata log, where a write could ruin the broker
        for good, and those whose removal is durable."""
        self._watchers: list[Callable[[str], None]] = []
        self._removal_watchers: list[Callable[[str], Sliced[None]]] = []
        self._leader_listeners: list[LeaderListener] = []
        self._opening: dict[UUID, Completion[None]] = {}
        """Topics of which not all logs are open yet that this node leads."""
        leadership.watch(self)
        logs.watch_losses(leadership.lose)

    def watch(self, on_change: Callable[[str], None]) -> None:
        """Call `on_change(name)` in the turn in which a topic is created, deleted or extended."""
        self._watchers.append(on_change)

    def watch_removals(self, on_removed: Callable[[str], Sliced[None]]) -> None:
        """Run the steps of `on_removed(name)` once the removal of a topic is durable, before its name is free again."""
        self._removal_watchers.append(on_removed)

    def watch_leaders(self, listener: LeaderListener) -> None:
        """Notify `listener` of the partitions of its topic that this node loses and gains at run time."""
        self._leader_listeners.append(listener)
        self.watch(listener.on_topic_changed)

    def _notify_watchers(self, name: str) -> None:
        for on_change in self._watchers:
            on_change(name)

    def load(self) -> Sliced[list[str]]:
        """Open every existing partition, which recovers it; called once, before the first request.

        Files of removed topics that a stop has left are deleted. Files of partitions that are not in the metadata log
        are neither opened nor touched. Returns a line for each change, and one for everything left alone.
        """
        state = self._metadata.state
        storage = self._logs.store.topics
        lines = storage.finish_removals(state.removed, state.topics_by_id)
        known = {(METADATA_TOPIC, 0)}
        for topic in self.all():
            known.update((topic.name, index) for index in range(topic.partition_count))
            yield from self._open(topic, range(topic.partition_count), elements=0)  # no request waits yet
        state.removed.clear()
        self._logs.begin_serving()
        unknown = storage.unknown_entries(known)
        if unknown:
            lines.append(f"left as it is, because it is not in the metadata log: {printable_names(unknown)}")
        return lines

    # -- the logs of partitions that this node leads

    def _open(self, topic: Topic, partitions: Iterable[int], elements: int = LOG_OPEN_ELEMENTS) -> Sliced[None]:
        """Each takes as long as several requests."""
        config = self._config_of(topic)
        for index in partitions:
            log = yield from self._logs.open(topic.name, index, topic.topic_id, config)
            if self._leads(topic, index):
                self._lead(log, topic)
            else:  # deleted meanwhile, or lost again
                self._logs.resign(topic.name, index)
            yield elements

    def _open_new(self, topic: Topic, partitions: range) -> Completion[None]:
        """Open the logs of new partitions, in slices; those of the first slice in this turn."""
        opened = self._slices.run_own(self._open(topic, partitions))
        if not opened.done:
            self._opening[topic.topic_id] = opened
            opened.then(lambda _: self._end_opening(topic.topic_id))
        return opened

    def _end_opening(self, topic_id: UUID) -> None:
        self._opening.pop(topic_id, None)

    def _leads(self, topic: Topic, partition: int) -> bool:
        return topic.topic_id in self._metadata.state.topics_by_id and self._leadership.leads(topic, partition)

    def _lead(self, log: PartitionLog, topic: Topic) -> None:
        (leader,) = self._leadership.leaders_of(topic, range(log.partition, log.partition + 1))
        log.lead(leader.epoch)
        log.is_led = self._leadership.is_durable

    def on_epochs_changed(self) -> None:
        """See `LeadershipListener`."""
        for log in self._logs.logs:
            topic = self.get(log.topic)
            if topic is not None:
                self._lead(log, topic)

    def on_lost(self, name: str, partition: int) -> None:
        """See `LeadershipListener`. Coordinators first: their waiters look for another one."""
        for listener in self._leader_listeners:
            if listener.topic == name:
                listener.lose(partition)
        self._logs.resign(name, partition)

    def on_gained(self, name: str, partition: int) -> None:
        """See `LeadershipListener`."""
        self._slices.run_own(self._gain(name, partition))

    def _gain(self, name: str, partition: int) -> Sliced[None]:
        topic = self.get(name)
        if topic is None or not self._leads(topic, partition):
            return
        yield from self._open(topic, (partition,))
        epoch = self._leadership.epoch_of(name, partition)
        if epoch is not None and self._logs.get(name, partition) is not None:
            for listener in self._leader_listeners:
                if listener.topic == name:
                    listener.gain(partition, epoch)

    # -- looking up

    def get(self, name: str) -> Topic | None:
        return self._metadata.state.topics.get(name)

    def by_id(self, topic_id: object) -> Topic | None:
        return self._metadata.state.topics_by_id.get(topic_id)  # type: ignore[call-overload, no-any-return]

    def all(self) -> Iterable[Topic]:
        return self._metadata.state.topics.values()

    def partition(self, name: str, index: int) -> PartitionLog:
        """The log of a partition. Raises UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER if this node does not lead
        it, KAFKA_STORAGE_ERROR if it is offline."""
        log = self._logs.get(name, index)
        if log is None or name in self._hidden:
            raise self.missing(name, index)
        if log.offline_error is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, log.offline_error)
        return log

    def missing(self, name: str, index: int) -> KafkaError:
        """Why there is no log of such a partition: UNKNOWN_TOPIC_OR_PARTITION or NOT_LEADER_OR_FOLLOWER."""
        if self.has_partition(name, index) and name not in self._hidden:
            return not_led(f"{name}-{index}")
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {name[:300]}-{index}")

    def has_partition(self, name: str, index: int) -> bool:
        topic = self.get(name)
        return topic is not None and 0 <= index < topic.partition_count

    def find_partition(self, name: str, index: int) -> PartitionLog | None:
        """The log of a partition that this node leads and clients may use, offline or not."""
        return None if name in self._hidden else self._logs.get(name, index)

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
        made = self._metadata.state.topics[name]
        opened = self._open_new(made, partitions.indexes)
        self._notify_watchers(name)
        return all_of([written, opened]).map(lambda _: made)

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
            self._logs.store.topics.make_way(name, partitions)
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
        opened = self._open_new(self._metadata.state.topics[name], new)
        self._notify_watchers(name)
        return all_of([written, opened]).map(lambda _: None)

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
        removal = self._logs.store.topics.begin_removal(name, topic.topic_id)
        written = self._write([removal_of(topic.topic_id)])
        gone: Completion[None] = Completion()
        self._deleting[name] = gone
        self._notify_watchers(name)
        deleted = written.flat_map(lambda _: self._slices.run_own(self._remove(topic, removal)))
        deleted.then(lambda _: gone.complete(None))
        return deleted

    def when_gone(self, name: str) -> Completion[None]:
        """Completes once a topic of this name that is being deleted is gone, or the outcome stays unknown."""
        return self._deleting.get(name) or Completion.of(None)

    def _remove(self, topic: Topic, removal: Removal) -> Sliced[None]:
        """Remove what is left of a topic whose removal is durable; in slices, as it may have 10,000 open logs."""
        name = topic.name
        self._hidden.add(name)
        for on_removed in self._removal_watchers:
            yield from on_removed(name)
        self._log_configs.pop(name, None)
        yield from self._logs.withdraw(name, topic.partition_count, removal)
        self._hidden.discard(name)
        self._deleting.pop(name, None)
        self._slices.run_own(self._delete_records(topic, removal))

    def _delete_records(self, topic: Topic, removal: Removal) -> Sliced[None]:
        all_gone = yield from removal.delete()
        if all_gone:
            self._metadata.state.removed.pop(topic.topic_id, None)

    def ensure_internal(self, name: str) -> Completion[Topic]:
        """A coordinator's topic, created on first use with one replica. Raises KafkaError."""
        topic = self.get(name)
        if topic is not None:
            made = topic
            return self._opening.get(topic.topic_id, Completion.of(None)).map(lambda _: made)
        if not self._leadership.is_ours:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{name} does not exist yet, and another node leads")
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
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return topic.partition_count

    def partition(self, index: int) -> PartitionLog:
        self.partition_count()
        try:
            return self._topics.partition(self._name, index)
        except KafkaError as error:
            is_elsewhere = error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
            code = ErrorCode.NOT_COORDINATOR if is_elsewhere else ErrorCode.COORDINATOR_NOT_AVAILABLE
            raise KafkaError(code, str(error)) from error

    def partitions_with_data(self) -> Iterable[int]:
        topic = self._topics.get(self._name)
        for index in range(topic.partition_count if topic else 0):
            log = self._topics.find_partition(self._name, index)
            if log is not None and (log.log_end_offset > 0 or log.offline_error is not None):
                yield index
