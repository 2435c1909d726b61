"""The share-partitions of one `__share_group_state` partition, as replayed from the log.

Owns: the state of each share-partition, and the offset below which the log says nothing more; changed by replay alone.
Does not own: what may be written (`decisions`), when (`coordinator`).
Invariants
- Each state is that of its last snapshot and of the updates after it.
- The highest epochs that a share-partition has had fence until it is deleted, also where it has begun again with lower
  ones.
- The log from `redundant_before` on gives the same shard as the whole log. (Kafka forgets the highest epochs with the
  records that had them, so that a restart may fence less.)

Shaped by Kafka's ShareCoordinatorShard and ShareCoordinatorOffsetsManager.
"""

from collections.abc import Iterator

from oncelog.broker.coordinator.runtime import CoordinatorRecord
from oncelog.broker.coordinator.share.batches import combined
from oncelog.broker.coordinator.share.records import Snapshot, SnapshotChange, UpdateChange, change_of
from oncelog.broker.coordinator.share.values import SharePartitionKey, ShareState
from oncelog.broker.log.values import EndMarker
from oncelog.broker.turns.ports import WallMs

_UNCHANGED = -1
_NO_TIME = WallMs(0)


class StoredShare:
    """One share-partition."""

    __slots__ = ("leader_epoch", "needed_from", "snapshot", "state_epoch", "update_count")

    def __init__(self, snapshot: Snapshot, offset: int) -> None:
        self.snapshot = snapshot
        """The last snapshot with the updates since."""
        self.state_epoch = snapshot.state.state_epoch
        self.leader_epoch = snapshot.state.leader_epoch
        """The highest epochs, which fence."""
        self.needed_from = offset
        """The offset of the oldest record that says something: the last snapshot, or one before that has an epoch."""
        self.update_count = 0
        """The number of updates since the last snapshot."""

    @property
    def state(self) -> ShareState:
        return self.snapshot.state


class ShareShard:
    """The shard of one life of a partition."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self._shares: dict[SharePartitionKey, StoredShare] = {}
        self._next_offset = 0
        self.pruned_before = 0
        """The offset below which this life has deleted the records."""
        self.has_resigned = False

    # --- reading ------------------------------------------------------------------------------------------------------

    def get(self, key: SharePartitionKey) -> StoredShare | None:
        return self._shares.get(key)

    def all(self) -> Iterator[tuple[SharePartitionKey, StoredShare]]:
        yield from self._shares.items()

    @property
    def redundant_before(self) -> int:
        """The offset below which no record says anything."""
        return min((share.needed_from for share in self._shares.values()), default=self._next_offset)

    # --- replay -------------------------------------------------------------------------------------------------------

    def replay(self, record: CoordinatorRecord, *, offset: int, producer_id: int) -> None:
        self._next_offset = offset + 1
        change = change_of(record)
        if isinstance(change, UpdateChange):
            self._replay_update(change, offset)
        elif isinstance(change, SnapshotChange):
            before = self._shares.pop(change.key, None)
            if change.snapshot is not None:
                self._shares[change.key] = _renewed(before, StoredShare(change.snapshot, offset))

    def _replay_update(self, update: UpdateChange, offset: int) -> None:
        share = self._shares.get(update.key)
        if share is None:
            # Its snapshot is pruned, so that a later one or its end follows.
            state = ShareState(0, 0, _UNCHANGED, _UNCHANGED, ())
            share = StoredShare(Snapshot(update.snapshot_epoch, state, _NO_TIME, _NO_TIME), offset)
            self._shares[update.key] = share
        before = share.state
        start_offset = before.start_offset if update.start_offset == _UNCHANGED else update.start_offset
        after = ShareState(
            before.state_epoch,
            before.leader_epoch if update.leader_epoch == _UNCHANGED else update.leader_epoch,
            start_offset,
            update.delivery_complete_count,
            combined(before.batches, update.batches, start_offset),
        )
        share.snapshot = share.snapshot._replace(state=after)
        share.leader_epoch = max(share.leader_epoch, after.leader_epoch)
        share.update_count += 1

    def replay_end_transaction_marker(self, marker: EndMarker, offset: int, /) -> None:
        """No transaction writes to this topic."""

    # --- its life -----------------------------------------------------------------------------------------------------

    def on_active(self) -> None:
        """Nothing is left unfinished by a replayed log."""

    def on_resigned(self) -> None:
        """Another life may write from now on."""
        self.has_resigned = True


def _renewed(before: StoredShare | None, share: StoredShare) -> StoredShare:
    """Return the share-partition with the epochs that it had before, if they are higher."""
    if before is not None and (before.state_epoch > share.state_epoch or before.leader_epoch > share.leader_epoch):
        share.state_epoch = max(before.state_epoch, share.state_epoch)
        share.leader_epoch = max(before.leader_epoch, share.leader_epoch)
        share.needed_from = before.needed_from
    return share
