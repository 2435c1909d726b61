"""The metadata of a Kafka cluster, as the log and the snapshots of its quorum have it (KIP-630, KIP-631).

Owns: the state that Kafka's records add up to: `ClusterState`, and beside it where the replicas of each partition are,
which one node of ours never asks. Does not own: what of it is adopted (`plan`).
Invariant: a record that is neither replayed nor listed as meaningless here raises an error, because skipping it could
lead to a different state.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple
from uuid import UUID

from oncelog.broker.cluster.metadata_log import ClusterState
from oncelog.broker.cluster.metadata_records import decode_metadata_record
from oncelog.broker.cluster.metadata_snapshot import SnapshotFiles, decode_snapshot
from oncelog.broker.storage.local.batch_scan import BatchScan
from oncelog.broker.storage.local.partition_directory import directory_of
from oncelog.broker.storage.local.segment import LOG_SUFFIX
from oncelog.broker.turns.ports import Disk
from oncelog.protocol.errors import KafkaError, ProtocolError
from oncelog.protocol.generated import partition_change_record, partition_record, remove_topic_record
from oncelog.protocol.records.record import decode_records
from oncelog.protocol.topics import METADATA_TOPIC
from oncelog.tools.kafka_directory import NotPossible
from oncelog.tools.kafka_directory.bootstrap import BOOTSTRAP

METADATA_DIRECTORY = directory_of(METADATA_TOPIC, 0)
_WITHOUT_MEANING = {
    0: "RegisterBrokerRecord",
    1: "UnregisterBrokerRecord",
    7: "FenceBrokerRecord",
    8: "UnfenceBrokerRecord",
    17: "BrokerRegistrationChangeRecord",
    20: "NoOpRecord",
    21: "ZkMigrationStateRecord",
    27: "RegisterControllerRecord",
    28: "ClearElrRecord",
}
"""The records about nodes, of which ours is another one, and about what only several can have."""
_NO_CHANGE = -2
NO_LEADER = -1


class Boundary(Enum):
    """The records around those that count together or not at all (KIP-868)."""

    BEGIN = 23
    END = 24
    ABORT = 25


_BOUNDARIES = {boundary.value: boundary for boundary in Boundary}


class KafkaPartition(NamedTuple):
    """A partition in the cluster, with node ids."""

    replicas: Sequence[int]
    isr: Sequence[int]
    leader: int
    """The leader; NO_LEADER if it has none."""
    leader_epoch: int
    directories: Sequence[UUID]
    """The log directory of each replica; empty if the cluster does not say."""
    eligible: Sequence[int] = ()
    """The nodes that may become leader of a partition without one, since they have all that was committed (KIP-966)."""

    def changed(self, change: partition_change_record.PartitionChangeRecord) -> "KafkaPartition":
        """Return the partition after a change, as Kafka's PartitionRegistration.merge: the epoch rises with the leader,
        even if that stays the same."""
        has_leader = change.leader != _NO_CHANGE
        return KafkaPartition(
            self.replicas if change.replicas is None else tuple(change.replicas),
            self.isr if change.isr is None else tuple(change.isr),
            change.leader if has_leader else self.leader,
            self.leader_epoch + has_leader,
            self.directories if change.directories is None else tuple(change.directories),
            self.eligible if change.eligible_leader_replicas is None else tuple(change.eligible_leader_replicas),
        )


@dataclass(slots=True)
class KafkaMetadata:
    state: ClusterState = field(default_factory=ClusterState)
    """The state without partitions of its topics."""
    partitions: dict[UUID, dict[int, KafkaPartition]] = field(default_factory=dict)
    """The partitions by topic id and number."""
    was_started: bool = True
    """False for a Kafka that was formatted and never started: it has made no directories yet."""

    def replay(self, record: Any, offset: int) -> None:
        """Raises KafkaError, LookupError."""
        match record:
            case partition_record.PartitionRecord():
                self.partitions.setdefault(record.topic_id, {})[record.partition_id] = KafkaPartition(
                    tuple(record.replicas),
                    tuple(record.isr),
                    record.leader,
                    record.leader_epoch,
                    tuple(record.directories),
                    tuple(record.eligible_leader_replicas or ()),
                )
            case partition_change_record.PartitionChangeRecord():
                of_topic = self.partitions[record.topic_id]
                of_topic[record.partition_id] = of_topic[record.partition_id].changed(record)
            case _:
                self.state.replay(record, offset)
                if isinstance(record, remove_topic_record.RemoveTopicRecord):
                    self.partitions.pop(record.topic_id, None)


def decode_kafka_record(value: memoryview, offset: int) -> Any:
    """Return the record, the boundary of a transaction, or None for one without a meaning. Raises NotPossible."""
    kind, version = (value[1], value[2]) if len(value) > 3 else (-1, -1)
    if kind in _WITHOUT_MEANING:
        return None
    if kind in _BOUNDARIES:
        return _BOUNDARIES[kind]
    if kind == partition_change_record.API_KEY and version in partition_change_record.VERSIONS:
        return partition_change_record.decode(value, version, 3)[0]
    try:
        return decode_metadata_record(value, offset)
    except KafkaError as error:
        raise NotPossible(
            f"the metadata has a record of kind {kind}, version {version}, at offset {offset}: it is of a Kafka later "
            "than 4.3, or damaged; adopt reads those of 3.9 to 4.3"
        ) from error


def read_metadata(disk: Disk) -> KafkaMetadata:
    """Return the newest state in this log directory. Raises NotPossible, OSError."""
    metadata = KafkaMetadata()
    metadata_log = _Log(disk)
    start_offset = 0
    for snapshot in SnapshotFiles(disk, METADATA_DIRECTORY).found():
        records = _snapshot(disk, SnapshotFiles(disk, METADATA_DIRECTORY).path(snapshot))
        if records is not None:
            start_offset = snapshot.end_offset
            _replay(metadata, records)
            break
    log_records = list(metadata_log.records(start_offset))
    if not start_offset and not log_records:
        # Formatted, and never started: the first start begins the log with these.
        metadata.was_started = False
        _replay(metadata, (_snapshot(disk, BOOTSTRAP) if disk.exists(BOOTSTRAP) else None) or [])
    _replay(metadata, log_records)
    return metadata


def _snapshot(disk: Disk, path: str) -> list[tuple[int, Any]] | None:
    """Return the records of a snapshot; None for one that is not whole: there is an older one, or the log."""
    try:
        return [(-1, record) for record in decode_snapshot(disk.read_bytes(path), decode_kafka_record)]
    except (ProtocolError, KafkaError):
        return None


def _replay(metadata: KafkaMetadata, records: Sequence[tuple[int, Any]]) -> None:
    """Replay records. Those of a transaction count from its end on; one without an end does not (KIP-868)."""
    held: list[tuple[int, Any]] | None = None
    for offset, record in records:
        if record is Boundary.BEGIN:
            held = []
        elif isinstance(record, Boundary):
            _apply(metadata, held or [] if record is Boundary.END else [])
            held = None
        elif held is not None:
            held.append((offset, record))
        else:
            _apply(metadata, [(offset, record)])


def _apply(metadata: KafkaMetadata, records: Sequence[tuple[int, Any]]) -> None:
    for offset, record in records:
        try:
            if record is not None:
                metadata.replay(record, offset)
        except (KafkaError, LookupError) as error:
            raise NotPossible(
                f"the metadata cannot be replayed at offset {offset} ({record.NAME}: {error}): {_START_KAFKA}"
            ) from error


_START_KAFKA = "start Apache Kafka on it once, stop it cleanly, and try again, or take another node's copy"


class _Log:
    """The segments of the metadata log."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        names = [name for name in disk.list_dir(METADATA_DIRECTORY) if name.endswith(LOG_SUFFIX)]
        self._bases = sorted(int(name.removesuffix(LOG_SUFFIX)) for name in names)

    def records(self, start_offset: int) -> Iterator[tuple[int, Any]]:
        """Yield (offset, record) from there on; those of the quorum itself are left out. Raises NotPossible."""
        if self._bases and self._bases[0] > start_offset:
            raise NotPossible(
                f"the metadata log begins at offset {self._bases[0]}, and no whole snapshot reaches it: {_START_KAFKA}"
            )
        for base_offset, next_base in zip(self._bases, [*self._bases[1:], None], strict=False):
            if next_base is None or next_base > start_offset:
                yield from self._of_segment(base_offset, next_base, start_offset)

    def _of_segment(self, base_offset: int, next_base: int | None, start_offset: int) -> Iterator[tuple[int, Any]]:
        path = f"{METADATA_DIRECTORY}/{base_offset:020d}{LOG_SUFFIX}"
        file = self._disk.open(path)
        scan = BatchScan(file.read_view, file.size_bytes, base_offset, has_gaps=False, end_offset=next_base)
        for header, batch in scan:
            if not header.is_control and header.next_offset > start_offset:
                for record in decode_records(batch):
                    if record.offset >= start_offset and record.value is not None:
                        yield record.offset, decode_kafka_record(memoryview(record.value), record.offset)
        file.close()
        if scan.problem is not None and next_base is not None:  # otherwise a torn write
            raise NotPossible(f"{path} is damaged at position {scan.position}: {scan.problem}; {_START_KAFKA}")
