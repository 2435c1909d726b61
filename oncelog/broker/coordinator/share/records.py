"""Share-partitions in `__share_group_state`: each record as a change of one of them, in Kafka's formats (KIP-932).

Owns: encoding and decoding. Does not own: the effect of a change (`shard`). A ShareSnapshot is the whole state, or ends
the share-partition; a ShareUpdate changes what the last snapshot and the updates after it have said. Values are written
in version 0, the only one.

Shaped by Kafka's ShareCoordinatorRecordHelpers and ShareGroupOffset.
"""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from oncelog.broker.coordinator.runtime import CoordinatorRecord
from oncelog.broker.coordinator.share.values import SharePartitionKey, ShareState, StateBatch
from oncelog.broker.turns.ports import WallMs
from oncelog.protocol import state_record_codec
from oncelog.protocol.errors import ErrorCode, KafkaError, ProtocolError
from oncelog.protocol.generated import share_snapshot_key, share_snapshot_value, share_update_key, share_update_value
from oncelog.protocol.generated.share_snapshot_key import ShareSnapshotKey
from oncelog.protocol.generated.share_snapshot_value import ShareSnapshotValue
from oncelog.protocol.generated.share_snapshot_value import StateBatch as SnapshotBatch
from oncelog.protocol.generated.share_update_key import ShareUpdateKey
from oncelog.protocol.generated.share_update_value import ShareUpdateValue
from oncelog.protocol.generated.share_update_value import StateBatch as UpdateBatch

_VERSION = 0


class Snapshot(NamedTuple):
    """The state of a share-partition, and which snapshot of it this is."""

    epoch: int
    """The number of snapshots since it was initialized, as the updates after this one repeat it."""
    state: ShareState
    created_ms: WallMs
    written_ms: WallMs
    """Later than `created_ms` if it was written because nothing else had been written for long."""


class SnapshotChange(NamedTuple):
    key: SharePartitionKey
    snapshot: Snapshot | None
    """The snapshot; None if the share-partition is deleted."""


class UpdateChange(NamedTuple):
    key: SharePartitionKey
    snapshot_epoch: int
    leader_epoch: int
    """−1 if it does not change."""
    start_offset: int
    """−1 if it does not change."""
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]


def snapshot_record(key: SharePartitionKey, snapshot: Snapshot | None) -> CoordinatorRecord:
    """Return the record that says everything of a share-partition; None for that it is deleted."""
    encoded_key = state_record_codec.encode_key(ShareSnapshotKey(key.group_id, key.topic_id, key.partition))
    change = SnapshotChange(key, snapshot)
    if snapshot is None:
        return CoordinatorRecord(encoded_key, None, change)
    state = snapshot.state
    value = ShareSnapshotValue(
        snapshot_epoch=snapshot.epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        create_timestamp=snapshot.created_ms,
        write_timestamp=snapshot.written_ms,
        state_batches=[SnapshotBatch(*batch) for batch in state.batches],
    )
    return CoordinatorRecord(encoded_key, state_record_codec.encode_value(value, _VERSION), change)


def update_record(update: UpdateChange) -> CoordinatorRecord:
    key = update.key
    value = ShareUpdateValue(
        snapshot_epoch=update.snapshot_epoch,
        leader_epoch=update.leader_epoch,
        start_offset=update.start_offset,
        delivery_complete_count=update.delivery_complete_count,
        state_batches=[UpdateBatch(*batch) for batch in update.batches],
    )
    return CoordinatorRecord(
        state_record_codec.encode_key(ShareUpdateKey(key.group_id, key.topic_id, key.partition)),
        state_record_codec.encode_value(value, _VERSION),
        update,
    )


def change_of(record: CoordinatorRecord) -> SnapshotChange | UpdateChange | None:
    """Return the change; None for a record of a later release. Raises KafkaError(CORRUPT_MESSAGE)."""
    decoded = record.decoded
    if isinstance(decoded, SnapshotChange):
        return decoded
    if isinstance(decoded, UpdateChange):
        return decoded
    try:
        return _decoded(record)
    except ProtocolError as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a record of __share_group_state: {error}") from error


def _decoded(record: CoordinatorRecord) -> SnapshotChange | UpdateChange | None:
    kind = state_record_codec.prefix(record.key)
    if kind == share_snapshot_key.API_KEY:
        named: ShareSnapshotKey = state_record_codec.decode(share_snapshot_key, record.key, 0)
        key = _key(named.group_id, named.topic_id, named.partition)
        return SnapshotChange(key, None if record.value is None else _snapshot(record.value))
    if kind == share_update_key.API_KEY and record.value is not None:
        updated: ShareUpdateKey = state_record_codec.decode(share_update_key, record.key, 0)
        return _update(_key(updated.group_id, updated.topic_id, updated.partition), record.value)
    return None


def _key(group_id: str, topic_id: UUID, partition: int) -> SharePartitionKey:
    return SharePartitionKey(group_id, topic_id, partition)


def _snapshot(data: bytes) -> Snapshot:
    value: ShareSnapshotValue = state_record_codec.decode(share_snapshot_value, data)
    state = ShareState(
        value.state_epoch,
        value.leader_epoch,
        value.start_offset,
        value.delivery_complete_count,
        _batches(value.state_batches),
    )
    return Snapshot(value.snapshot_epoch, state, WallMs(value.create_timestamp), WallMs(value.write_timestamp))


def _update(key: SharePartitionKey, data: bytes) -> UpdateChange:
    value: ShareUpdateValue = state_record_codec.decode(share_update_value, data)
    return UpdateChange(
        key,
        value.snapshot_epoch,
        value.leader_epoch,
        value.start_offset,
        value.delivery_complete_count,
        _batches(value.state_batches),
    )


def _batches(batches: Sequence[SnapshotBatch] | Sequence[UpdateBatch]) -> tuple[StateBatch, ...]:
    return tuple(
        StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
        for batch in batches
    )
