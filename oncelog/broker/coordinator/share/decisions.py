"""Decides what a request to the share coordinator writes: for one share-partition, changing nothing.

Owns: the checks in Kafka's order with its errors and messages, and whether a write is an update or a snapshot. Does not
own: the state (`shard`), which changes when the records are replayed; topics, of which it is given the number of
partitions.
Invariants
- A writer whose state epoch or leader epoch is over is fenced; so is a reader by its leader epoch.
- A state epoch of −1 is not checked, nor is a leader epoch of −1 of a write; but such a reader is fenced, as in Kafka.

Shaped by Kafka's ShareCoordinatorShard.
"""

from collections.abc import Callable
from typing import NamedTuple
from uuid import UUID

from oncelog.broker.coordinator.runtime import CoordinatorRecord
from oncelog.broker.coordinator.share.batches import combined
from oncelog.broker.coordinator.share.records import Snapshot, UpdateChange, snapshot_record, update_record
from oncelog.broker.coordinator.share.shard import ShareShard, StoredShare
from oncelog.broker.coordinator.share.values import (
    NO_LEADER_EPOCH,
    NO_STATE_EPOCH,
    UNINITIALIZED_START_OFFSET,
    UNKNOWN_DELIVERY_COMPLETE_COUNT,
    SharePartitionKey,
    ShareState,
    StateBatch,
)
from oncelog.broker.turns.ports import WallMs
from oncelog.protocol.errors import ErrorCode, KafkaError

CountPartitions = Callable[[UUID], int]
"""Returns how many partitions the topic of an id has; 0 if there is no such topic."""

_NO_EPOCH_YET = 0
UNINITIALIZED = ShareState(
    _NO_EPOCH_YET, _NO_EPOCH_YET, UNINITIALIZED_START_OFFSET, UNKNOWN_DELIVERY_COMPLETE_COUNT, ()
)
"""The summary of a share-partition that has no state."""


class Written(NamedTuple):
    """The changes of a share-partition that its leader writes."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    """−1 if it does not change."""
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]


def initialize(
    shard: ShareShard,
    key: SharePartitionKey,
    state_epoch: int,
    start_offset: int,
    count_partitions: CountPartitions,
    wall_ms: WallMs,
) -> list[CoordinatorRecord]:
    """Begin a share-partition, or begin it again with a higher state epoch. Raises KafkaError."""
    _check_partition(key)
    share = shard.get(key)
    if share is not None:
        _check_state_epoch(share, state_epoch)
    _check_topic(key, count_partitions)
    is_unread = start_offset == UNINITIALIZED_START_OFFSET
    # From an offset that was set on purpose the lag is known.
    complete_count = UNKNOWN_DELIVERY_COMPLETE_COUNT if is_unread else 0
    epoch = 0 if share is None else share.snapshot.epoch + 1
    state = ShareState(state_epoch, _NO_EPOCH_YET, start_offset, complete_count, ())
    return [snapshot_record(key, Snapshot(epoch, state, wall_ms, wall_ms))]


def write(
    shard: ShareShard,
    key: SharePartitionKey,
    written: Written,
    count_partitions: CountPartitions,
    wall_ms: WallMs,
    updates_per_snapshot: int,
) -> list[CoordinatorRecord]:
    """Change a share-partition. Raises KafkaError."""
    _check_partition(key)
    share = _initialized(shard, key, "Write")
    if written.leader_epoch != NO_LEADER_EPOCH:
        _check_leader_epoch(share, written.leader_epoch)
    _check_state_epoch(share, written.state_epoch)
    _check_topic(key, count_partitions)
    # The epoch of a writer is checked, and not kept: a leader reads before it writes.
    return [_record(key, share, written, share.state.leader_epoch, wall_ms, updates_per_snapshot)]


def read(
    shard: ShareShard,
    key: SharePartitionKey,
    leader_epoch: int,
    count_partitions: CountPartitions,
    wall_ms: WallMs,
    updates_per_snapshot: int,
) -> tuple[list[CoordinatorRecord], ShareState]:
    """Return what fences the leaders before this one, and the state with its epoch. Raises KafkaError."""
    _check_partition(key)
    share = _initialized(shard, key, "Read")
    state = share.state._replace(leader_epoch=leader_epoch)
    _check_leader_epoch(share, leader_epoch)
    _check_topic(key, count_partitions)
    if leader_epoch == share.leader_epoch:
        return [], state
    same = Written(state.state_epoch, leader_epoch, state.start_offset, state.delivery_complete_count, ())
    record = _record(key, share, same, leader_epoch, wall_ms, updates_per_snapshot)
    return [record], state


def summary(shard: ShareShard, key: SharePartitionKey, count_partitions: CountPartitions) -> ShareState:
    """Return the state without batches, to leaders of any epoch. Raises KafkaError."""
    _check_partition(key)
    _check_topic(key, count_partitions)
    share = shard.get(key)
    return UNINITIALIZED if share is None else share.state._replace(batches=())


def delete(shard: ShareShard, key: SharePartitionKey, count_partitions: CountPartitions) -> list[CoordinatorRecord]:
    """End a share-partition, if there is one. Raises KafkaError."""
    _check_partition(key)
    _check_topic(key, count_partitions)
    return ended(shard, key)


def is_first(share: StoredShare) -> bool:
    """Whether its last snapshot is not one that was written because it was cold. If no share-partition has such a one
    there is little to prune."""
    return share.snapshot.created_ms == share.snapshot.written_ms


def is_cold(share: StoredShare, wall_ms: WallMs, interval_ms: int) -> bool:
    """Whether its last snapshot is that old: it is what keeps the log from being pruned."""
    return wall_ms - share.snapshot.written_ms >= interval_ms


def renewed(shard: ShareShard, key: SharePartitionKey, wall_ms: WallMs) -> list[CoordinatorRecord]:
    """Write a snapshot of a share-partition as it is, if there is one: with the epochs that fence, so that no record
    before is needed."""
    share = shard.get(key)
    if share is None:
        return []
    snapshot = share.snapshot
    state = snapshot.state._replace(state_epoch=share.state_epoch, leader_epoch=share.leader_epoch)
    return [snapshot_record(key, snapshot._replace(epoch=snapshot.epoch + 1, state=state, written_ms=wall_ms))]


def ended(shard: ShareShard, key: SharePartitionKey) -> list[CoordinatorRecord]:
    """End a share-partition, if there is one, whatever has become of its topic."""
    return [] if shard.get(key) is None else [snapshot_record(key, None)]


def _record(
    key: SharePartitionKey,
    share: StoredShare,
    written: Written,
    leader_epoch: int,
    wall_ms: WallMs,
    updates_per_snapshot: int,
) -> CoordinatorRecord:
    before = share.snapshot
    if share.update_count < updates_per_snapshot:
        batches = combined((), written.batches, written.start_offset)
        count = written.delivery_complete_count
        return update_record(UpdateChange(key, before.epoch, leader_epoch, written.start_offset, count, batches))
    is_moved = written.start_offset != UNINITIALIZED_START_OFFSET
    start_offset = written.start_offset if is_moved else before.state.start_offset
    state = ShareState(
        share.state_epoch,
        max(leader_epoch, share.leader_epoch),
        start_offset,
        written.delivery_complete_count,
        combined(before.state.batches, written.batches, start_offset),
    )
    return snapshot_record(key, Snapshot(before.epoch + 1, state, wall_ms, wall_ms))


# --- checks -----------------------------------------------------------------------------------------------------------


def _check_partition(key: SharePartitionKey) -> None:
    if key.partition < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The partition id cannot be a negative number.")


def _initialized(shard: ShareShard, key: SharePartitionKey, operation: str) -> StoredShare:
    share = shard.get(key)
    if share is None:
        text = f"{operation} operation on uninitialized share partition not allowed."
        raise KafkaError(ErrorCode.INVALID_REQUEST, text)
    return share


def _check_leader_epoch(share: StoredShare, leader_epoch: int) -> None:
    if leader_epoch < share.leader_epoch:
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_LEADER_EPOCH.text)


def _check_state_epoch(share: StoredShare, state_epoch: int) -> None:
    if state_epoch != NO_STATE_EPOCH and state_epoch < share.state_epoch:
        raise KafkaError(ErrorCode.FENCED_STATE_EPOCH, ErrorCode.FENCED_STATE_EPOCH.text)


def _check_topic(key: SharePartitionKey, count_partitions: CountPartitions) -> None:
    if key.partition >= count_partitions(key.topic_id):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.text)
