"""Metadata records as bytes: Kafka's MetadataRecordSerde (KIP-631).

Owns: the framing (frame version, record type and record version as unsigned varints, then the message), the list of
records that this broker writes, their batches, and how leader epochs follow from them. Invariant: a record that is not
on the list raises an error, because skipping it would lead to a different state.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple
from uuid import UUID

from oncelog.broker.turns.ports import WallMs
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.generated import (
    config_record,
    feature_level_record,
    partition_record,
    producer_ids_record,
    register_broker_record,
    topic_record,
)
from oncelog.protocol.records.batch import assemble_batch
from oncelog.protocol.records.record import Record, encode_numbered_records, encode_record

_FRAME_VERSION = 1
EPOCHS_A_START = 2
"""The leader epochs that a start adds. Kafka with one broker adds two after a clean stop and after a crash: one without
a leader, and one with a leader again. With a step of one, every recorded response of Kafka would differ from ours;
clients need no more than growth."""

EpochOrigins = tuple[tuple[int, int], ...]
"""The first partition of each span of a topic's partitions, and its leader epoch minus what all starts have added.
Partitions created later have a different origin, as they began with epoch 0 later."""


class Leader(NamedTuple):
    node_id: int
    epoch: int


class Registration(NamedTuple):
    """A start of a node, as recorded in the metadata log."""

    node_id: int
    broker_epoch: int
    """The offset of its record, as in Kafka."""


_LOST_EPOCHS = 1_000
"""A number of epochs larger than a restored backup can lose, in case the wall clock is wrong."""
_YEAR_2020_S = 1_577_836_800
_LATEST_SERIES = 1 << 30
"""The latest series that the wall clock can give, in 2054: there is as much room again above it."""
_SERIES_BITS = 32
"""The length of a series of producer ids, which no cluster exhausts. Ids below a new series are known to be older."""


def series_of(producer_id: int) -> int:
    return producer_id >> _SERIES_BITS


def next_series(producer_id: int, wall_ms: WallMs) -> int:
    """The first producer id of a series after all that may have been given out since a backup was made.

    Series grow with the seconds of the wall clock: what was given out after the backup was restored once is below what
    is given out after it was restored again.
    """
    seconds = min(wall_ms // 1000 - _YEAR_2020_S, _LATEST_SERIES)
    return max(series_of(producer_id) + 1 + _LOST_EPOCHS, seconds) << _SERIES_BITS


def lost_epochs(before: int, after: int) -> int:
    """Return by how much all leader epochs grow with a record of the next producer id, which was `before`: a new series
    means that unknown epochs may have been given out."""
    return max(0, series_of(after) - series_of(before) - 1)


def with_partitions(origins: EpochOrigins, first: int, origin: int) -> EpochOrigins:
    """`origins` after partitions from `first` on were added."""
    return origins if origins and origins[-1][1] == origin else (*origins, (first, origin))


def with_new_leader(origins: EpochOrigins, partition: int, partition_count: int) -> EpochOrigins:
    """`origins` after one partition has got a leader, and with it the next leader epoch."""
    changed: list[tuple[int, int]] = []
    for indexes, origin in spans(origins, range(partition_count)):
        pieces = [(indexes.start, origin)]
        if partition in indexes:
            pieces = [(indexes.start, origin)] if indexes.start < partition else []
            pieces.append((partition, origin + 1))
            if partition + 1 in indexes:
                pieces.append((partition + 1, origin))
        for piece in pieces:
            if not changed or changed[-1][1] != piece[1]:
                changed.append(piece)
    return tuple(changed)


def spans(origins: EpochOrigins, indexes: range) -> Iterator[tuple[range, int]]:
    """The partitions `indexes` in order, grouped by origin."""
    ends = [first for first, _ in origins[1:]] + [indexes.stop]
    for (first, origin), end in zip(origins, ends, strict=True):
        span = range(max(first, indexes.start), min(end, indexes.stop))
        if span:
            yield span, origin


_MODULES: dict[int, ModuleType] = {
    module.API_KEY: module
    for module in (
        register_broker_record,
        topic_record,
        partition_record,
        config_record,
        feature_level_record,
        producer_ids_record,
    )
}
PARTITION_CHANGE = 5
REMOVE_TOPIC = 9
_RARE_RECORDS = {
    PARTITION_CHANGE: "partition_change_record",
    REMOVE_TOPIC: "remove_topic_record",
    10: "delegation_token_record",
    11: "user_scram_credential_record",
    14: "client_quota_record",
    18: "access_control_entry_record",
    19: "remove_access_control_entry_record",
    22: "remove_user_scram_credential_record",
    26: "remove_delegation_token_record",
}
"""Imported when one occurs: few directories have any."""
_PARTITION_ID_AT = 3
"""The position of the number in an encoded PartitionRecord, whose first field it is."""


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """The PartitionRecords of a topic's new partitions, with one leader and epoch: they differ only in their number,
    and may be so many that creating each record would block the event loop."""

    topic_id: UUID
    indexes: range
    leader: Leader
    directory_id: UUID | None = None
    """The leader's log directory, where it has several: Apache Kafka after `oncelog graduate` (KIP-858)."""


def count_of(record: Any) -> int:
    """The number of log records that this stands for."""
    return len(record.indexes) if isinstance(record, NewPartitions) else 1


def encode_metadata_batch(records: Sequence[Any], timestamp_ms: int, base_offset: int = 0, epoch: int = -1) -> bytes:
    """One batch of all these records, NewPartitions among them."""
    parts: list[bytes] = []
    count = 0
    for record in records:
        if isinstance(record, NewPartitions):
            value = encode_metadata_record(_first_of(record), version=0 if record.directory_id is None else 1)
            parts.append(encode_numbered_records(value, _PARTITION_ID_AT, record.indexes, count))
        else:
            parts.append(encode_record(Record(count, timestamp_ms, None, encode_metadata_record(record)), count, 0))
        count += count_of(record)
    return assemble_batch(
        b"".join(parts),
        attributes=0,
        record_count=count,
        base_timestamp=timestamp_ms,
        max_timestamp=timestamp_ms,
        base_offset=base_offset,
        partition_leader_epoch=epoch,
    )


def _first_of(partitions: NewPartitions) -> partition_record.PartitionRecord:
    leader = partitions.leader
    return partition_record.PartitionRecord(
        partition_id=partitions.indexes[0],
        topic_id=partitions.topic_id,
        replicas=(leader.node_id,),
        isr=(leader.node_id,),
        leader=leader.node_id,
        leader_epoch=leader.epoch,
        partition_epoch=leader.epoch,
        directories=() if partitions.directory_id is None else (partitions.directory_id,),
    )


def encode_metadata_record(record: Any, version: int = 0) -> bytes:
    module = _module_of(record.API_KEY)
    if module is None:
        raise KeyError(f"no metadata record: {record!r}")
    return b"".join((bytes((_FRAME_VERSION, module.API_KEY, version)), *module.encode(record, version)))


def _module_of(api_key: int) -> ModuleType | None:
    module = _MODULES.get(api_key)
    if module is None and api_key in _RARE_RECORDS:
        module = _MODULES[api_key] = import_module(f"oncelog.protocol.generated.{_RARE_RECORDS[api_key]}")
    return module


def removal_of(topic_id: UUID) -> Any:
    """Return the RemoveTopicRecord of a topic."""
    module = _module_of(REMOVE_TOPIC)
    if module is None:
        raise KeyError(REMOVE_TOPIC)
    return module.RemoveTopicRecord(topic_id=topic_id)


def decode_metadata_record(value: memoryview, offset: int) -> Any:
    """Raises KafkaError(CORRUPT_MESSAGE) for a record of an unknown kind."""
    module = _module_of(value[1]) if len(value) > 3 and value[0] == _FRAME_VERSION else None
    if module is None or value[2] not in module.VERSIONS:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the metadata record at offset {offset} is of an unknown kind")
    record, _ = module.decode(value, value[2], 3)
    return record
