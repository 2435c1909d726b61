"""The groups of one `__consumer_offsets` partition, as replayed from the log.

Owns: committed offsets, offsets of open transactions, the last logged generation of each classic group, each group of
another type (`kind`); changed by replay alone. Does not own: what a restart forgets (sessions, waiting joins:
`shard_life`).
Invariants
- A transactional offset is visible only after its producer's COMMIT marker in this partition; ABORT drops it (KIP-98).
- Of two commits for one partition the later *record* wins, even if an older transactional one is promoted later.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import NamedTuple

from oncelog.broker.coordinator.group.engine.changes import Change, GroupChanged
from oncelog.broker.coordinator.group.engine.kind import GroupKind, GroupRecord, ModernGroup
from oncelog.broker.coordinator.group.records import (
    NO_TIMESTAMP,
    CommittedOffset,
    GenerationChange,
    OffsetChange,
    OffsetKey,
    StoredGroup,
    TopicPartition,
    decode,
)
from oncelog.broker.coordinator.runtime import CoordinatorRecord
from oncelog.broker.log.values import EndMarker
from oncelog.broker.turns.ports import WallMs
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol import state_record_codec


class Recorded(NamedTuple):
    record_offset: int
    committed: CommittedOffset


class GroupShard:
    def __init__(self, partition: int, kind_of_record: Callable[[int], GroupKind | None]) -> None:
        """`kind_of_record(record_type)` returns the type of groups to which a record belongs, if that is one of
        `kind`."""
        self.partition = partition
        self._kind_of_record = kind_of_record
        self._groups: dict[str, StoredGroup] = {}
        self._modern_groups: dict[str, ModernGroup] = {}
        self._offsets: dict[str, dict[TopicPartition, Recorded]] = {}
        """The offsets by group. A group whose last offset is gone stays until its tombstone: as in Kafka, a clean-up
        ends it."""
        self._pending: dict[int, dict[OffsetKey, Recorded]] = {}
        self._pending_counts: dict[str, dict[TopicPartition, int]] = {}
        """The number of open transactions per group and partition: read far more often than it changes."""

    # --- reading ------------------------------------------------------------------------------------------------------

    def group(self, group_id: str) -> StoredGroup | None:
        return self._groups.get(group_id)

    def groups(self) -> Mapping[str, StoredGroup]:
        return self._groups

    def modern_group(self, group_id: str) -> ModernGroup | None:
        """Return the group of any type but the classic one, to be read only: a decision works on a copy."""
        return self._modern_groups.get(group_id)

    def modern_groups(self) -> Mapping[str, ModernGroup]:
        return self._modern_groups

    def group_ids(self) -> list[str]:
        """Return every group that has a generation or members, or has had an offset, even in an open transaction."""
        return list({**self._groups, **self._modern_groups, **self._offsets})

    def knows(self, group_id: str) -> bool:
        return group_id in self._groups or group_id in self._modern_groups or group_id in self._offsets

    def offset(self, group_id: str, partition: TopicPartition) -> CommittedOffset | None:
        recorded = self._offsets.get(group_id, {}).get(partition)
        return None if recorded is None else recorded.committed

    def offsets(self, group_id: str) -> Mapping[TopicPartition, CommittedOffset]:
        return {partition: recorded.committed for partition, recorded in self._offsets.get(group_id, {}).items()}

    def kept_offsets(
        self, group_id: str, partitions: Sequence[TopicPartition] | None
    ) -> Mapping[TopicPartition, Recorded]:
        """Return a copy of the committed offsets, at least for the given partitions; None means all."""
        kept = self._offsets.get(group_id, {})
        if partitions is None or len(partitions) > len(kept):
            return kept.copy()
        return {partition: kept[partition] for partition in partitions if partition in kept}

    def pending_partitions(self, group_id: str) -> Set[TopicPartition]:
        """Return the partitions with an offset in an open transaction (KIP-447). It is a view: do not keep it."""
        return self._pending_counts.get(group_id, {}).keys()

    # --- replay -------------------------------------------------------------------------------------------------------

    def replay(self, record: CoordinatorRecord, *, offset: int, producer_id: int) -> None:
        change = self._decode(record) if record.decoded is None else record.decoded
        if isinstance(change, OffsetChange):
            self._replay_offset(change, offset, producer_id)
        elif isinstance(change, GroupRecord):
            self._replay_modern_group(*change)
        elif isinstance(change, GenerationChange):
            self._replay_generation(*change)

    def _decode(self, record: CoordinatorRecord) -> object:
        """Return what a record says that was read from the log; None for one of a later release."""
        kind = self._kind_of_record(state_record_codec.prefix(record.key))
        return decode(record) if kind is None else kind.decode(record)

    def _replay_generation(self, group_id: str, generation: StoredGroup | None) -> None:
        if generation is None:
            self._groups.pop(group_id, None)
            self._end_without_offsets(group_id)
        else:
            self._groups[group_id] = generation

    def _replay_modern_group(self, kind: GroupKind, group_id: str, change: Change) -> None:
        group = self._modern_groups.get(group_id)
        if group is not None and group.group_type != kind.group_type:
            group = None
        if change[-1] is None:
            is_end = isinstance(change, GroupChanged)
            # A tombstone creates no group, nor does it end one of another type that has the id by now.
            if group is not None and is_end:
                del self._modern_groups[group_id]
            elif group is not None:
                group.apply(change)
            if is_end:
                self._end_without_offsets(group_id)
            return
        if group is None:
            group = self._modern_groups[group_id] = kind.create(group_id)
        group.apply(change)

    def _replay_offset(self, change: OffsetChange, offset: int, producer_id: int) -> None:
        key, committed = change
        if committed is None:
            self._forget(key)
        elif producer_id < 0:
            self._offsets.setdefault(key.group_id, {})[key.partition] = Recorded(offset, committed)
        else:
            self._offsets.setdefault(key.group_id, {})
            pending = self._pending.setdefault(producer_id, {})
            if key not in pending:
                counts = self._pending_counts.setdefault(key.group_id, {})
                counts[key.partition] = counts.get(key.partition, 0) + 1
            pending[key] = Recorded(offset, committed)

    def _forget(self, key: OffsetKey) -> None:
        """Forget an offset. The group stays, also where a log begins with the tombstone."""
        self._offsets.setdefault(key.group_id, {}).pop(key.partition, None)
        if key.partition not in self.pending_partitions(key.group_id):
            return
        for producer_id, pending in list(self._pending.items()):
            if pending.pop(key, None) is not None:
                self._no_longer_pending(key)
            if not pending:
                del self._pending[producer_id]

    def _end_without_offsets(self, group_id: str) -> None:
        if group_id in self._offsets and not self._offsets[group_id] and group_id not in self._pending_counts:
            del self._offsets[group_id]

    def _no_longer_pending(self, key: OffsetKey) -> None:
        counts = self._pending_counts[key.group_id]
        counts[key.partition] -= 1
        if not counts[key.partition]:
            del counts[key.partition]
            if not counts:
                del self._pending_counts[key.group_id]

    def replay_end_transaction_marker(self, marker: EndMarker, offset: int) -> None:
        pending = self._pending.pop(marker.producer_id, {})
        for key in pending:
            self._no_longer_pending(key)
        if not marker.committed:
            return
        for key, recorded in pending.items():
            offsets = self._offsets.setdefault(key.group_id, {})
            current = offsets.get(key.partition)
            if current is None or current.record_offset < recorded.record_offset:
                offsets[key.partition] = recorded

    # --- expiry -------------------------------------------------------------------------------------------------------

    def expired_partitions(
        self, group_id: str, idle_since_ms: int | None, wall_ms: WallMs, retention_ms: int
    ) -> Iterable[TopicPartition]:
        """Yield expired offsets: `retention_ms` after `idle_since_ms`, or after their own commit if that is None, or
        at the time in their record; never one in an open transaction (KIP-211). Nothing expires before a time in the
        future is reached, as in Kafka: setting a clock back expires nothing."""
        pending = self.pending_partitions(group_id)
        for partition, (_, committed) in self._offsets.get(group_id, {}).items():
            expires_ms = committed.expire_timestamp_ms
            if expires_ms == NO_TIMESTAMP:
                expires_ms = retention_ms + (committed.commit_timestamp_ms if idle_since_ms is None else idle_since_ms)
            if wall_ms >= expires_ms and partition not in pending:
                yield partition

    def offsets_of_topic(self, topic: str) -> Sliced[list[OffsetKey]]:
        """Yield every offset for a topic, including those in open transactions, once no more can be added."""
        # Pending ones first: one that is committed meanwhile is found either before or after.
        pending = (key for offsets in self._pending.values() for key in offsets)
        found = dict.fromkeys(key for key in pending if key.partition[0] == topic)
        for group_id, offsets in list(self._offsets.items()):
            partitions = [partition for partition in offsets if partition[0] == topic]
            found |= dict.fromkeys(OffsetKey(group_id, partition) for partition in partitions)
            yield 1 + len(offsets) // 16 + len(partitions)
        return list(found)
