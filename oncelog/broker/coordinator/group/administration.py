"""The administration of groups: describe, list, delete, expire.

Owns: the rules under which a group or its offsets may be deleted, whatever the group's type. Does not own: groups and
offsets themselves.
Invariant: what is deleted is tombstoned in `__consumer_offsets`, offsets of open transactions included; a group with
members is never deleted.

A topic's offsets are deleted once its removal is durable: before that a crash could bring the topic back without them.

KIPs: 211 (expiry of offsets), 229 (DeleteGroups), 496 (OffsetDelete), 518 and 848 (states and types of groups).
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from oncelog.broker.coordinator.group.classic.membership import Group
from oncelog.broker.coordinator.group.classic.states import GroupState
from oncelog.broker.coordinator.group.engine.requests import GroupDescription
from oncelog.broker.coordinator.group.engine.shard import GroupShard
from oncelog.broker.coordinator.group.engine.shard_life import GroupShardLife
from oncelog.broker.coordinator.group.engine.subscription import CONSUMER
from oncelog.broker.coordinator.group.kinds import kind_of
from oncelog.broker.coordinator.group.records import NO_TIMESTAMP, TopicPartition, group_record, offset_record
from oncelog.broker.coordinator.runtime import CoordinatorRecord, CoordinatorRuntime, WriteResult
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Clock, WallMs
from oncelog.broker.turns.schedule import Schedule
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.errors import ErrorCode, KafkaError

_BATCH_BYTES = 512 * 1024
_RECORD_OVERHEAD_BYTES = 24
_FORGOTTEN_AT_ONCE = 250
_FORGOTTEN_ELEMENTS = 4
"""How many groups are forgotten in a turn. Measured: a tombstone is logged and replayed in about 20 µs."""


class GroupAdministration:
    def __init__(
        self,
        runtime: CoordinatorRuntime[GroupShardLife],
        on_deleted: Callable[[Group], None],
        clock: Clock,
        offsets_retention_ms: int,
        check_interval_ms: int,
        prepare_deletion: Callable[[str], Completion[None] | None],
    ) -> None:
        """`on_deleted` is called for a classic group that has been deleted; `prepare_deletion` with the id of a group
        that is to be deleted returns a completion of what must happen first, if anything must."""
        self._runtime = runtime
        self._on_deleted = on_deleted
        self._retention_ms = offsets_retention_ms
        self._check_interval_ms = check_interval_ms
        self._prepare_deletion = prepare_deletion
        self._clock = clock
        self._expiry = Schedule(clock, first_in_ms=check_interval_ms)

    # --- asking -------------------------------------------------------------------------------------------------------

    def describe(self, group_id: str) -> Completion[GroupDescription]:
        """Describe the classic group, once everything shown is durable. Fails with GROUP_ID_NOT_FOUND, also for a
        consumer group, which has a request of its own."""
        return self._runtime.read(group_id, lambda life: self._description(life, group_id))

    def _description(self, life: GroupShardLife, group_id: str) -> GroupDescription:
        shard = life.shard
        if shard.modern_group(group_id) is not None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id[:300]} is not a classic group.")
        group: Group | None = life.classic.get(group_id)
        if group is not None:
            return group.description()
        if not shard.knows(group_id):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id[:300]} not found.")
        return GroupDescription(group_id, GroupState.EMPTY.value, "")

    def all(self) -> Iterator[GroupDescription]:
        """Yield every group without its members, as of its turn: a group that exists all the time is listed once,
        whatever happens between two steps. Raises KafkaError while some may be missing."""
        self._runtime.check_loaded()
        return self._all()

    def committed(self) -> Iterator[tuple[str, TopicPartition, int]]:
        """Yield the committed offset of each group in each partition as of its turn, durable or not: for observers,
        never for a response to a client."""
        for life in self._runtime.shards():
            for group_id in life.shard.group_ids():
                for partition, recorded in life.shard.kept_offsets(group_id, None).items():
                    yield group_id, partition, recorded.committed.offset

    def _all(self) -> Iterator[GroupDescription]:
        listed: set[str] = set()
        for life in self._runtime.shards():
            for group_id in life.shard.group_ids():
                if life.knows(group_id):
                    listed.add(group_id)
                    yield self._list_entry(life, group_id)
        for life in self._runtime.shards():
            for group_id in tuple(life.classic):
                if group_id not in listed and group_id in life.classic:
                    yield self._list_entry(life, group_id)

    def _list_entry(self, life: GroupShardLife, group_id: str) -> GroupDescription:
        modern_group = life.shard.modern_group(group_id)
        if modern_group is not None:
            kind = kind_of(modern_group)
            return GroupDescription(group_id, modern_group.state.value, kind.protocol_type, group_type=kind.group_type)
        group: Group | None = life.classic.get(group_id)
        if group is not None:
            return GroupDescription(group_id, group.state.value, group.protocol_type or "")
        return GroupDescription(group_id, GroupState.EMPTY.value, "")

    # --- deleting -----------------------------------------------------------------------------------------------------

    def delete(self, group_id: str) -> Completion[ErrorCode]:
        """DeleteGroups: only a group without members. Fails with KafkaError when the coordinator is not available, or
        what the group has elsewhere cannot be deleted."""
        prepared = self._prepare_deletion(group_id)
        return self._delete(group_id) if prepared is None else prepared.flat_map(lambda _: self._delete(group_id))

    def _delete(self, group_id: str) -> Completion[ErrorCode]:
        def operation(life: GroupShardLife) -> WriteResult[ErrorCode]:
            shard = life.shard
            group: Group | None = life.classic.get(group_id)
            if group is None and not shard.knows(group_id):
                return WriteResult((), ErrorCode.GROUP_ID_NOT_FOUND)
            modern_group = shard.modern_group(group_id)
            has_members = bool(modern_group.members) if modern_group is not None else False
            if has_members or (group is not None and group.state is not GroupState.EMPTY):
                return WriteResult((), ErrorCode.NON_EMPTY_GROUP)
            self._forget(life, group_id)
            return WriteResult(self._tombstones(shard, group_id), ErrorCode.NONE)

        return self._runtime.write(group_id, operation)

    def _tombstones(self, shard: GroupShard, group_id: str) -> list[CoordinatorRecord]:
        partitions = sorted({*shard.offsets(group_id), *shard.pending_partitions(group_id)})
        records = [offset_record(group_id, partition, None) for partition in partitions]
        modern_group = shard.modern_group(group_id)
        ended = (
            [group_record(group_id, None)] if modern_group is None else kind_of(modern_group).tombstones(modern_group)
        )
        return [*records, *ended]

    def delete_offsets(
        self, group_id: str, partitions: Sequence[TopicPartition]
    ) -> Completion[dict[TopicPartition, ErrorCode]]:
        """OffsetDelete: not for topics that members read. Fails with KafkaError for the group as a whole."""

        def operation(life: GroupShardLife) -> WriteResult[dict[TopicPartition, ErrorCode]]:
            shard = life.shard
            topics = self._check_offsets_deletable(life, group_id)
            errors = {
                partition: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
                if topics is None or partition[0] in topics
                else ErrorCode.NONE
                for partition in partitions
            }
            kept = {*shard.offsets(group_id), *shard.pending_partitions(group_id)}
            gone = [partition for partition, error in errors.items() if not error and partition in kept]
            return WriteResult([offset_record(group_id, partition, None) for partition in gone], errors)

        return self._runtime.write(group_id, operation)

    def _check_offsets_deletable(self, life: GroupShardLife, group_id: str) -> frozenset[str] | None:
        """Return the topics whose offsets are in use, None for consumers whose subscriptions are unknown. Raises
        KafkaError if the group's offsets cannot be deleted."""
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        shard = life.shard
        modern_group = shard.modern_group(group_id)
        if modern_group is not None:
            if kind_of(modern_group).offsets is None:
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id[:300]} is not a consumer group.")
            return modern_group.topics
        group: Group | None = life.classic.get(group_id)
        if group is None or group.state is GroupState.EMPTY:
            if group is None and not shard.knows(group_id):
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
            return frozenset()
        if group.protocol_type != CONSUMER:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
        return group.topics

    # --- expiry -------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Expire offsets unused for offsets.retention.minutes, and groups without members or offsets.

        Runs first one interval after the start, as in Kafka: members disconnected by the restart are back by then.
        """
        if not self._expiry.take(self._check_interval_ms):
            return
        wall_ms = self._clock.wall_ms()
        for life in self._runtime.shards():
            for group_id in life.shard.group_ids():
                read = self._topics_read(life, group_id)
                if read is not None:
                    self._maybe_expire(life, group_id, read, wall_ms)
            for group in list(life.classic.values()):
                is_vacant = group.state is GroupState.EMPTY and not group.pending_members
                if is_vacant and not life.shard.knows(group.group_id):
                    self._forget(life, group.group_id)

    def _topics_read(self, life: GroupShardLife, group_id: str) -> frozenset[str] | None:
        """Return the topics whose offsets are in use; None while that is undecided, or cannot be known (KIP-211), and
        for a group that commits no offsets, which does not expire."""
        modern_group = life.shard.modern_group(group_id)
        if modern_group is not None:
            return None if kind_of(modern_group).offsets is None else modern_group.topics
        group: Group | None = life.classic.get(group_id)
        if group is None or group.state is GroupState.EMPTY:
            return frozenset()
        return group.topics if group.state is GroupState.STABLE else None

    def _maybe_expire(self, life: GroupShardLife, group_id: str, read: frozenset[str], wall_ms: WallMs) -> None:
        shard = life.shard
        old = shard.expired_partitions(group_id, self._idle_since_ms(life, group_id), wall_ms, self._retention_ms)
        expired = [partition for partition in old if partition[0] not in read]
        records = [offset_record(group_id, partition, None) for partition in expired]
        if len(expired) == len(shard.offsets(group_id)) and not shard.pending_partitions(group_id):
            records += self._end(life, group_id)
        self._log(group_id, records)

    def _log(self, group_id: str, records: Sequence[CoordinatorRecord]) -> None:
        """Log tombstones in as many batches as needed: a topic may have more offsets than fit into one."""
        batch: list[CoordinatorRecord] = []
        size_bytes = 0
        for record in records:
            if batch and size_bytes + len(record.key) > _BATCH_BYTES:
                self._runtime.write(group_id, partial(_write_all, batch))
                batch, size_bytes = [], 0
            batch.append(record)
            size_bytes += len(record.key) + _RECORD_OVERHEAD_BYTES
        if batch:
            self._runtime.write(group_id, partial(_write_all, batch))

    def _idle_since_ms(self, life: GroupShardLife, group_id: str) -> int | None:
        """Return when a group that had members became empty, even if offsets were committed since. None where each
        commit's time counts: with members, in consumer groups, and in groups that never had members."""
        stored, group = life.shard.group(group_id), life.classic.get(group_id)
        is_empty = group is None or group.state is GroupState.EMPTY
        if stored is None or not stored.protocol_type or not is_empty or stored.state_timestamp_ms == NO_TIMESTAMP:
            return None
        return stored.state_timestamp_ms

    def _end(self, life: GroupShardLife, group_id: str) -> list[CoordinatorRecord]:
        """Return tombstones for a group without offsets, if it has no members either."""
        modern_group = life.shard.modern_group(group_id)
        if modern_group is not None:
            return [] if modern_group.members else kind_of(modern_group).tombstones(modern_group)
        group: Group | None = life.classic.get(group_id)
        is_vacant = group is None or (group.state is GroupState.EMPTY and not group.pending_members)
        return [group_record(group_id, None)] if is_vacant else []

    def on_topic_removed(self, name: str) -> Sliced[None]:
        """Delete the topic's offsets with it, those of open transactions included."""
        for life in self._runtime.shards():
            keys = yield from life.shard.offsets_of_topic(name)
            for start in range(0, len(keys), _FORGOTTEN_AT_ONCE):
                some = keys[start : start + _FORGOTTEN_AT_ONCE]
                self._log(some[0].group_id, [offset_record(key.group_id, key.partition, None) for key in some])
                yield len(some) * _FORGOTTEN_ELEMENTS

    def _forget(self, life: GroupShardLife, group_id: str) -> None:
        group = life.classic.pop(group_id, None)
        if group is not None:
            self._on_deleted(group)


def _write_all(records: Sequence[CoordinatorRecord], _: GroupShardLife) -> WriteResult[None]:
    return WriteResult(records, None)
