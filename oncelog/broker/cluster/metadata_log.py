"""The metadata log: cluster id, topics with ids and settings, settings of brokers and groups, finalized features,
producer-id blocks; users, rules, quotas and tokens through `broker.cluster.security_state`.

Owns: `ClusterState`, changed only by replaying a record of `__cluster_metadata-0`; writing such records; when to take a
snapshot. Does not own: which partition logs are open (`broker.cluster.topics`), the meaning of a config, the format of
snapshots (`broker.cluster.metadata_snapshot`).
Invariants
- A write is replayed in the turn in which it is appended; it completes once durable.
- A snapshot contains only what is durable in the log. The log is deleted only below the second newest snapshot, so
  either of the two is enough to load from, and damage to the newest one loses nothing.

Records are Kafka's own metadata records in Kafka's own framing (KIP-631), so that `kafka-dump-log.sh
--cluster-metadata-decoder` reads the files. Kafka keeps its cluster id in a file beside the log; here it is a broker
config record named `cluster.id`, so that the replayed log alone is enough.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any
from uuid import UUID

from oncelog.broker.cluster.metadata_records import (
    EPOCHS_A_START,
    PARTITION_CHANGE,
    REMOVE_TOPIC,
    EpochOrigins,
    Leader,
    NewPartitions,
    count_of,
    decode_metadata_record,
    encode_metadata_batch,
    lost_epochs,
    next_series,
    removal_of,
    spans,
    with_new_leader,
    with_partitions,
)
from oncelog.broker.cluster.metadata_snapshot import (
    SnapshotFiles,
    SnapshotId,
    decode_snapshot,
    encode_snapshot,
    last_batch_of,
)
from oncelog.broker.log.partition_log import AppendOrigin, PartitionLog
from oncelog.broker.log.store import StoreDamagedError, StoreError
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Clock, Scheduler
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.errors import ErrorCode, KafkaError, ProtocolError
from oncelog.protocol.generated import (
    config_record,
    feature_level_record,
    partition_record,
    producer_ids_record,
    register_broker_record,
    topic_record,
)
from oncelog.protocol.records.batch import BatchHeader, read_header
from oncelog.protocol.records.record import Record, decode_records
from oncelog.protocol.topics import INTERNAL_TOPICS

if TYPE_CHECKING:
    from oncelog.broker.cluster.security_state import SecurityState

CLUSTER_ID_CONFIG = "cluster.id"

_FILLER_RECORDS = 1_000


class ResourceType(IntEnum):
    """The kinds of resources that have settings: Kafka's ConfigResource.Type."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic in the metadata log; `config` contains only what was set on the topic itself."""

    name: str
    topic_id: UUID
    partition_count: int
    config: Mapping[str, str]
    epoch_origins: EpochOrigins = ()

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS


def fold_name(name: str) -> str:
    """The form of a topic's name in Kafka's metrics."""
    return name.replace(".", "_")


class ClusterState:
    """The state that the records add up to."""

    def __init__(self) -> None:
        self.cluster_id: str | None = None
        self.topics: dict[str, Topic] = {}
        self.topics_by_id: dict[UUID, Topic] = {}
        self.removed: dict[UUID, str] = {}
        """Topics whose removal was replayed and whose files may not all be deleted yet: id and name."""
        self.names_by_folded: dict[str, str] = {}
        """Names of topics by their form in metrics, where '.' and '_' are the same."""
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        """Settings of brokers ("" for all of them) and groups, by resource type and name; topics have their own."""
        self.features: dict[str, int] = {}
        self.features_epoch = 0
        self.next_producer_id = 0
        self.registration: register_broker_record.RegisterBrokerRecord | None = None
        """The newest start; None for a directory that was never started since starts are recorded."""
        self.epochs_of_starts = 0
        """The number that all replayed starts, and restored backups, have added to the leader epoch of each partition.
        """
        self._security: "SecurityState | None" = None

    @property
    def security(self) -> "SecurityState":
        """Users, rules, quotas and tokens."""
        if self._security is None:
            from oncelog.broker.cluster.security_state import SecurityState  # few directories have any

            self._security = SecurityState()
        return self._security

    @property
    def has_quotas(self) -> bool:
        return self._security is not None and bool(self._security.quotas)

    def replay(self, record: Any, offset: int) -> None:
        """Apply one record; raises for an unknown one, because skipping it would lead to a different state."""
        match record:
            case topic_record.TopicRecord():
                self._put(Topic(record.name, record.topic_id, 0, {}))
            case partition_record.PartitionRecord():
                self._replay_partitions(record.topic_id, 1, record.leader_epoch, offset)
            case NewPartitions():
                self._replay_partitions(record.topic_id, len(record.indexes), record.leader.epoch, offset)
            case config_record.ConfigRecord():
                self._replay_config(record)
            case register_broker_record.RegisterBrokerRecord():
                self.registration = record
                self.epochs_of_starts += EPOCHS_A_START
            case feature_level_record.FeatureLevelRecord():
                self.features[record.name] = record.feature_level
                self.features_epoch = offset
            case producer_ids_record.ProducerIdsRecord():
                self.epochs_of_starts += lost_epochs(self.next_producer_id, record.next_producer_id)
                self.next_producer_id = record.next_producer_id
            case _:
                self._replay_rare(record, offset)

    def _replay_rare(self, record: Any, offset: int) -> None:
        kind = getattr(record, "API_KEY", None)
        if kind == REMOVE_TOPIC:
            topic = self._topic(record.topic_id, offset)
            del self.topics[topic.name]
            self.names_by_folded.pop(fold_name(topic.name), None)
            del self.topics_by_id[topic.topic_id]
            self.removed[topic.topic_id] = topic.name
        elif kind != PARTITION_CHANGE:
            self.security.replay(record, offset)
        elif record.leader >= 0:
            topic = self._topic(record.topic_id, offset)
            origins = with_new_leader(topic.epoch_origins, record.partition_id, topic.partition_count)
            self._put(replace(topic, epoch_origins=origins))

    def _replay_partitions(self, topic_id: UUID, count: int, leader_epoch: int, offset: int) -> None:
        topic = self._topic(topic_id, offset)
        first = topic.partition_count
        origins = with_partitions(topic.epoch_origins, first, leader_epoch - self.epochs_of_starts)
        # Not by `replace`, which takes five times as long: a start replays every partition.
        self._put(Topic(topic.name, topic.topic_id, first + count, topic.config, origins))

    def _replay_config(self, record: config_record.ConfigRecord) -> None:
        if record.resource_type != ResourceType.TOPIC:
            if record.resource_type == ResourceType.BROKER and record.name == CLUSTER_ID_CONFIG:
                self.cluster_id = record.value
            else:
                self._replay_other_config(record)
            return
        topic = self.topics[record.resource_name]
        config = dict(topic.config)
        if record.value is None:
            config.pop(record.name, None)
        else:
            config[record.name] = record.value
        self._put(replace(topic, config=config))

    def _replay_other_config(self, record: config_record.ConfigRecord) -> None:
        resource = (record.resource_type, record.resource_name)
        config = self.configs.setdefault(resource, {})
        if record.value is None:
            config.pop(record.name, None)
        else:
            config[record.name] = record.value
        if not config:
            del self.configs[resource]

    def config(self, resource_type: int, name: str) -> Mapping[str, str]:
        """The settings of the resource itself; empty for one that does not exist."""
        if resource_type == ResourceType.TOPIC:
            topic = self.topics.get(name)
            return topic.config if topic is not None else {}
        return self.configs.get((resource_type, name), {})

    def records(self) -> Iterator[Any]:
        """Records that add up to the current state, even if it changes during the iteration."""
        topics, epochs_of_starts = list(self.topics.values()), self.epochs_of_starts
        registration = self.registration
        node_id = -1 if registration is None else registration.broker_id
        broker_epoch = -1 if registration is None else registration.broker_epoch
        removed = [
            record
            for topic_id, name in self.removed.items()
            for record in (
                topic_record.TopicRecord(name=name, topic_id=topic_id),
                removal_of(topic_id),
            )
        ]
        configs = [(resource, dict(config)) for resource, config in self.configs.items()]
        head = feature_records(self.features)
        if self.cluster_id is not None:
            head.append(cluster_id_record(self.cluster_id))
        if registration is not None:
            head.append(registration)
        if self.next_producer_id:
            head.append(
                producer_ids_record.ProducerIdsRecord(
                    broker_id=node_id, broker_epoch=broker_epoch, next_producer_id=self.next_producer_id
                )
            )

        # Generators as functions, for mypyc makes lists of generator expressions.
        def settings() -> Iterator[Any]:
            for (kind, name), config in configs:
                for key, value in config.items():
                    yield config_record.ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)

        def records_of(topic: Topic) -> list[Any]:
            partitions = [
                NewPartitions(topic.topic_id, indexes, Leader(node_id, origin + epochs_of_starts))
                for indexes, origin in spans(topic.epoch_origins, range(topic.partition_count))
            ]
            return topic_records(topic, *partitions)

        security = () if self._security is None else self._security.records()
        return chain(head, settings(), security, removed, chain.from_iterable(map(records_of, topics)))

    def _topic(self, topic_id: UUID, offset: int) -> Topic:
        topic = self.topics_by_id.get(topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"metadata offset {offset} names the unknown topic {topic_id}")
        return topic

    def _put(self, topic: Topic) -> None:
        self.topics[topic.name] = topic
        self.names_by_folded[fold_name(topic.name)] = topic.name
        self.topics_by_id[topic.topic_id] = topic


def _records_of(batch: memoryview) -> Iterator[Any]:
    for record in decode_records(batch):
        yield decode_metadata_record(memoryview(record.value or b""), record.offset)


def _is_filler(record: Any) -> bool:
    """Whether it may be of `MetadataLog._fill`."""
    return isinstance(record, feature_level_record.FeatureLevelRecord) or (
        isinstance(record, config_record.ConfigRecord) and record.name == CLUSTER_ID_CONFIG
    )


_OF_A_COPY = (
    "it is of another copy of this directory: move it away, or restore the whole directory as it was in one moment"
)


@dataclass(frozen=True, slots=True)
class SnapshotSettings:
    """When a snapshot is due: after so many bytes since the last one, or after this time."""

    scheduler: Scheduler
    max_new_bytes: int
    max_interval_ms: int
    """0: no time limit."""
    delete_log_below: Callable[[PartitionLog, int], Completion[None]]
    on_error: Callable[[OSError], None]
    """Called for a snapshot that cannot be written or deleted; the next one may be."""


class MetadataLog:
    def __init__(
        self,
        log: PartitionLog,
        clock: Clock,
        files: SnapshotFiles,
        snapshots: SnapshotSettings | None = None,
    ) -> None:
        """Without `snapshots` none is taken: for read-only use."""
        self._log = log
        self._clock = clock
        self._files = files
        self._snapshots = snapshots
        self._snapshot: SnapshotId | None = None
        self._snapshot_bytes = 0
        self._snapshot_at_ms = clock.monotonic_ms()
        self._new_bytes = 0
        self._is_taking_snapshot = False
        self.state = ClusterState()

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of the metadata log itself."""
        return self._log.leader_epoch

    # -- loading

    def load(self) -> Sliced[list[str]]:
        """Replay the newest whole snapshot and the log after it; called once, before the first request.

        Returns a line for each problem. Raises KafkaError(CORRUPT_MESSAGE) if the log starts after the end of every
        whole snapshot.
        """
        log = self._log
        lines: list[str] = []
        for snapshot in self._files.found():
            try:
                data = self._files.read(snapshot)
                state = self._decoded(snapshot, data)
                yield from self._check_origin(snapshot, data, state)
                self.state, self._snapshot_bytes = state, len(data)
            except (KafkaError, ProtocolError, OSError, ValueError) as error:
                lines.append(f"the snapshot {self._files.path(snapshot)} cannot be used: {error}")
                continue
            self._snapshot = snapshot
            break
        start_offset, last_epoch = self._snapshot or (0, 0)
        if start_offset < log.log_start_offset:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                "; ".join([*lines, f"no snapshot reaches to offset {log.log_start_offset}, where the log begins"]),
            )
        if start_offset > log.log_end_offset:
            lines.append(f"the metadata log ends at {log.log_end_offset}, its snapshot is used from {start_offset} on")
            log.lead(last_epoch + 1)
            self._fill(start_offset)
            return lines
        for piece in log.replay(start_offset):
            if isinstance(piece, Completion):
                yield piece
                piece = piece.result()
            for header, batch in piece:
                last_epoch = max(last_epoch, header.partition_leader_epoch)
                self._new_bytes += len(batch)
                for record in decode_records(batch):
                    self._replay(record)
        # The process that loads the log leads it, in an epoch that no record has yet.
        log.lead(last_epoch + 1)
        return lines

    def _replay(self, record: Record) -> None:
        if record.value is None:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"an empty metadata record at offset {record.offset}")
        self.state.replay(decode_metadata_record(memoryview(record.value), record.offset), record.offset)

    def _check_origin(self, snapshot: SnapshotId, data: bytes, state: ClusterState) -> Sliced[None]:
        """Raise ProtocolError if the log has another batch where the snapshot ends: then it is of another copy of the
        directory, which went on by itself. What a repair or `_fill` has put there says nothing."""
        log, last_offset = self._log, snapshot.end_offset - 1
        if last_offset >= log.log_end_offset:
            wanted = state.registration
            known = yield from self._known_registration(wanted)
            if wanted is not None and known is not None and known.incarnation_id != wanted.incarnation_id:
                raise ProtocolError(f"it has another start of this broker than the log, so {_OF_A_COPY}")
        elif last_offset >= log.log_start_offset:
            found = yield from self._batch_at(last_offset)
            if found is None:
                return
            header, batch = found
            last = last_batch_of(data)
            is_same = header.max_timestamp == last.timestamp_ms and last.crc in (None, header.crc)
            if not is_same and not all(map(_is_filler, _records_of(batch))):
                raise ProtocolError(f"the log has another batch where it ends, so {_OF_A_COPY}")

    def _known_registration(self, wanted: Any) -> Sliced[Any]:
        """Return the start of this broker at the offset of the `wanted` one, by the log, or by a snapshot to whose end
        the log reaches; None if neither has it."""
        log = self._log
        if wanted is not None and log.log_start_offset <= wanted.broker_epoch < log.log_end_offset:
            found = yield from self._batch_at(wanted.broker_epoch)
            starts = [each for each in _records_of(found[1]) if isinstance(each, type(wanted))] if found else []
            return starts[0] if starts else None
        for snapshot in self._files.found() if wanted is not None else ():
            if wanted.broker_epoch < snapshot.end_offset <= log.log_end_offset:
                try:
                    data = self._files.read(snapshot)
                    state = self._decoded(snapshot, data)
                    yield from self._check_origin(snapshot, data, state)
                except (KafkaError, ProtocolError, OSError, ValueError):
                    continue
                return state.registration
        return None

    def _batch_at(self, offset: int) -> Sliced[tuple[BatchHeader, memoryview] | None]:
        """The batch that holds this offset; None: the log has none, or cannot be read there. Not by the log's own
        `replay`, after which it is offline: a snapshot makes up for damage below its end."""
        try:
            for piece in self._log.stored.replay(offset, self._log.log_end_offset):
                if isinstance(piece, Completion):
                    yield piece
                    piece = piece.result()
                for header, batch in piece:
                    if header.next_offset > offset:
                        return (header, batch) if header.base_offset <= offset else None
        except (StoreError, StoreDamagedError):
            pass
        return None

    def _decoded(self, snapshot: SnapshotId, data: bytes) -> ClusterState:
        state = ClusterState()
        for record in decode_snapshot(data):
            # The offset of each record is lost; the epoch of the features must not fall below what clients have seen.
            state.replay(record, snapshot.end_offset - 1)
        return state

    def _fill(self, end_offset: int) -> None:
        """With `oncelog.flush.policy=os` the log may lose records in a power cut that the snapshot contains. New
        records must follow the snapshot, so offsets up to its end are filled with no-op records. Raises KafkaError."""
        filler = feature_records(self.state.features)[:1] or [cluster_id_record(self.state.cluster_id or "")]
        while (missing := end_offset - self._log.log_end_offset) > 0:
            written = self.write(filler * min(missing, _FILLER_RECORDS))
            if written.error is not None:
                raise written.error

    # -- writing

    def register(self, node_id: int, incarnation_id: UUID, *, may_be_older: bool = False) -> Completion[None]:
        """Record a new start of this node: it leads all its partitions in a new epoch. `may_be_older`: record that more
        epochs and producer ids were given out than may have been, with all that is lost."""
        record = register_broker_record.RegisterBrokerRecord(
            broker_id=node_id, incarnation_id=incarnation_id, broker_epoch=self._log.log_end_offset, fenced=False
        )
        if not may_be_older:
            return self.write([record])
        ids = producer_ids_record.ProducerIdsRecord(
            broker_id=node_id,
            broker_epoch=record.broker_epoch,
            next_producer_id=next_series(self.state.next_producer_id, self._clock.wall_ms()),
        )
        return self.write([record, ids])

    def write(self, records: Sequence[Any]) -> Completion[None]:
        """Append `records` as one batch (all or none after a crash), replay them now, complete once durable."""
        wall_ms = self._clock.wall_ms()
        batch = encode_metadata_batch(records, wall_ms)
        try:
            appended = self._log.append(memoryview(batch), wall_ms=wall_ms, origin=AppendOrigin.METADATA)
        except KafkaError as error:
            return Completion.failed(error)
        offset = appended.base_offset
        for record in records:
            self.state.replay(record, offset)
            offset += count_of(record)
        self._new_bytes += len(batch)
        if self._snapshots is not None:
            self._maybe_take_snapshot(self._snapshots, batch)
        return self._log.when_durable(appended.last_offset + 1)

    def _maybe_take_snapshot(self, settings: SnapshotSettings, last_batch: bytes) -> None:
        """Take the state of this turn, which ends with this batch, and write it once durable. At least as much must be
        new as the last snapshot contained: so the cost of snapshots is a constant factor, however large the state."""
        interval_ms = settings.max_interval_ms
        is_due = self._new_bytes >= max(settings.max_new_bytes, self._snapshot_bytes)
        if not is_due and interval_ms:
            is_due = self._clock.monotonic_ms() - self._snapshot_at_ms >= interval_ms
        if not is_due or self._is_taking_snapshot:
            return
        self._is_taking_snapshot = True
        self._new_bytes = 0
        self._snapshot_at_ms = self._clock.monotonic_ms()
        snapshot = SnapshotId(self._log.log_end_offset, self.leader_epoch)
        write = partial(self._write_snapshot, self.state.records(), read_header(last_batch), snapshot)

        def on_durable(_: Completion[None]) -> None:
            settings.scheduler.run_in_thread(write, lambda error: self._on_snapshot(settings, snapshot, error))

        self._log.when_durable(snapshot.end_offset).then(on_durable)

    def _write_snapshot(self, records: Iterator[Any], last: BatchHeader, snapshot: SnapshotId) -> None:
        data = encode_snapshot(records, last.max_timestamp, snapshot.epoch, last.crc)
        self._snapshot_bytes = len(data)
        self._files.write(snapshot, data)

    def _on_snapshot(self, settings: SnapshotSettings, snapshot: SnapshotId, error: Exception | None) -> None:
        self._is_taking_snapshot = False
        if error is not None:
            self._report(settings, error)
            return
        before, self._snapshot = self._snapshot, snapshot
        kept = {snapshot, snapshot if before is None else before}
        deleted = Completion.of(None) if before is None else settings.delete_log_below(self._log, before.end_offset)

        def delete_files(done: Completion[None]) -> None:
            if done.error is None:
                try:
                    self._files.keep_only(kept)
                except OSError as problem:
                    self._report(settings, problem)

        deleted.then(delete_files)

    def _report(self, settings: SnapshotSettings, error: Exception) -> None:
        if isinstance(error, OSError):
            settings.on_error(error)

    def change_leader(self, topic_id: UUID, partitions: Iterable[int], node_id: int) -> Completion[None]:
        """This node leads these partitions of a topic from now on, in their next leader epoch (KIP-631)."""
        from oncelog.protocol.generated.partition_change_record import PartitionChangeRecord  # a start writes none

        return self.write(
            [
                PartitionChangeRecord(topic_id=topic_id, partition_id=partition, isr=(node_id,), leader=node_id)
                for partition in partitions
            ]
        )

    def set_features(self, levels: Mapping[str, int]) -> Completion[None]:
        """Finalize these levels, with immediate effect."""
        return self.write(feature_records(levels))

    def set_config(self, resource_type: int, name: str, changes: Mapping[str, str | None]) -> Completion[None]:
        """Set settings of a resource, or unset those that are None."""
        return self.write(
            [
                config_record.ConfigRecord(resource_type=resource_type, resource_name=name, name=key, value=value)
                for key, value in changes.items()
            ]
        )

    def durable(self) -> Completion[None]:
        """Completes once everything in the current state is durable."""
        return self._log.when_durable(self._log.log_end_offset)


def cluster_id_records(cluster_id: str, features: Mapping[str, int]) -> list[Any]:
    """The records of the very first start."""
    return [*feature_records(features), cluster_id_record(cluster_id)]


def cluster_id_record(cluster_id: str) -> Any:
    return config_record.ConfigRecord(
        resource_type=ResourceType.BROKER, resource_name="", name=CLUSTER_ID_CONFIG, value=cluster_id
    )


def feature_records(levels: Mapping[str, int]) -> list[Any]:
    return [feature_level_record.FeatureLevelRecord(name=name, feature_level=level) for name, level in levels.items()]


def topic_records(topic: Topic, *partitions: NewPartitions) -> list[Any]:
    """A new topic with its partitions and configs."""
    records: list[Any] = [topic_record.TopicRecord(name=topic.name, topic_id=topic.topic_id), *partitions]
    records += [
        config_record.ConfigRecord(resource_type=ResourceType.TOPIC, resource_name=topic.name, name=name, value=value)
        for name, value in topic.config.items()
    ]
    return records
