"""What tools ask about groups, and how groups end: describe, list, delete, expire.

Owns: the rules under which a group or its offsets may go. Does not own: groups and offsets themselves.
Invariant: what goes is tombstoned in `__consumer_offsets`, offsets of open transactions included; a group with members
never goes.

KIPs: 211 (expiry of offsets), 229 (DeleteGroups), 496 (OffsetDelete), 518 and 848 (states and types of groups).
"""

from collections.abc import Callable, Sequence

from broker.completion import Completion
from broker.coordinator.group.exchange import GroupDescription
from broker.coordinator.group.membership import Group
from broker.coordinator.group.records import TopicPartition, group_record, offset_record
from broker.coordinator.group.shard import GroupShard
from broker.coordinator.group.states import GroupState
from broker.coordinator.group.subscription import subscribed_topics
from broker.coordinator.runtime import CoordinatorRecord, CoordinatorRuntime, WriteResult
from protocol.errors import ErrorCode, KafkaError

EXPIRY_INTERVAL_MS = 60_000
"""Kafka looks every ten minutes; both are small against retentions that count in minutes."""


class Inventory:
    def __init__(
        self,
        runtime: CoordinatorRuntime[GroupShard],
        groups: dict[str, Group],
        on_deleted: Callable[[Group], None],
        offsets_retention_ms: int,
    ) -> None:
        """`groups` are the coordinator's own; one that is deleted is taken out, and `on_deleted` told."""
        self._runtime = runtime
        self._groups = groups
        self._on_deleted = on_deleted
        self._retention_ms = offsets_retention_ms
        self._next_expiry_ms = 0

    # --- asking -------------------------------------------------------------------------------------------------------

    def describe(self, group_id: str) -> Completion[GroupDescription | None]:
        """The group once all that it shows is durable; None if there is no such group."""
        return self._runtime.read(group_id, lambda shard: self._description(shard, group_id))

    def _description(self, shard: GroupShard, group_id: str) -> GroupDescription | None:
        group = self._groups.get(group_id)
        if group is not None:
            return group.described()
        return GroupDescription(group_id, GroupState.EMPTY.value, "") if shard.knows(group_id) else None

    def all(self) -> Sequence[GroupDescription]:
        """Every group, without its members, by id."""
        found = {
            group.group_id: GroupDescription(group.group_id, group.state.value, group.protocol_type or "")
            for group in self._groups.values()
        }
        for shard in self._runtime.shards():
            for group_id in shard.group_ids():
                found.setdefault(group_id, GroupDescription(group_id, GroupState.EMPTY.value, ""))
        return [found[group_id] for group_id in sorted(found)]

    # --- deleting -----------------------------------------------------------------------------------------------------

    def delete(self, group_id: str) -> Completion[ErrorCode]:
        """DeleteGroups: only a group without members. Fails with KafkaError when the coordinator is not available."""

        def operation(shard: GroupShard) -> WriteResult[ErrorCode]:
            group = self._groups.get(group_id)
            if group is None and not shard.knows(group_id):
                return WriteResult((), ErrorCode.GROUP_ID_NOT_FOUND)
            if group is not None and group.state is not GroupState.EMPTY:
                return WriteResult((), ErrorCode.NON_EMPTY_GROUP)
            self._forget(group_id)
            return WriteResult(self._tombstones(shard, group_id), ErrorCode.NONE)

        return self._runtime.write(group_id, operation)

    def _tombstones(self, shard: GroupShard, group_id: str) -> list[CoordinatorRecord]:
        partitions = sorted({*shard.offsets(group_id), *shard.pending_partitions(group_id)})
        records = [offset_record(group_id, partition, None) for partition in partitions]
        if shard.group(group_id) is not None:
            records.append(group_record(group_id, None))
        return records

    def delete_offsets(
        self, group_id: str, partitions: Sequence[TopicPartition]
    ) -> Completion[dict[TopicPartition, ErrorCode]]:
        """OffsetDelete: not of topics that members read. Fails with KafkaError for the group as a whole."""

        def operation(shard: GroupShard) -> WriteResult[dict[TopicPartition, ErrorCode]]:
            topics = self._check_offsets_deletable(shard, group_id)
            errors = {
                partition: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if partition[0] in topics else ErrorCode.NONE
                for partition in partitions
            }
            kept = {*shard.offsets(group_id), *shard.pending_partitions(group_id)}
            gone = [partition for partition, error in errors.items() if not error and partition in kept]
            return WriteResult([offset_record(group_id, partition, None) for partition in gone], errors)

        return self._runtime.write(group_id, operation)

    def _check_offsets_deletable(self, shard: GroupShard, group_id: str) -> frozenset[str]:
        """The topics whose offsets must stay."""
        group = self._groups.get(group_id)
        if group is None or group.state is GroupState.EMPTY:
            if group is None and not shard.knows(group_id):
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
            return frozenset()
        topics = subscribed_topics(group)
        if topics is None:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
        return topics

    # --- expiry -------------------------------------------------------------------------------------------------------

    def step(self, now_ms: int) -> None:
        """Forget offsets, and then groups, that nobody has used for offsets.retention.minutes."""
        if now_ms < self._next_expiry_ms:
            return
        self._next_expiry_ms = now_ms + EXPIRY_INTERVAL_MS
        for shard in self._runtime.shards():
            for group_id in shard.group_ids():
                group = self._groups.get(group_id)
                if group is None or group.state is GroupState.EMPTY:
                    self._maybe_expire(shard, group_id, now_ms)
        for group in list(self._groups.values()):
            is_vacant = group.state is GroupState.EMPTY and not group.pending_members
            if is_vacant and not self._is_logged(group.group_id):
                self._forget(group.group_id)

    def _maybe_expire(self, shard: GroupShard, group_id: str, now_ms: int) -> None:
        stored = shard.group(group_id)
        idle_since_ms = stored.state_timestamp_ms if stored is not None else 0
        expired = list(shard.expired_partitions(group_id, idle_since_ms, now_ms, self._retention_ms))
        records = [offset_record(group_id, partition, None) for partition in expired]
        is_idle = now_ms - idle_since_ms >= self._retention_ms
        is_bare = len(expired) == len(shard.offsets(group_id)) and not shard.pending_partitions(group_id)
        if stored is not None and is_idle and is_bare:
            records.append(group_record(group_id, None))
        if records:
            self._runtime.write(group_id, lambda _: WriteResult(records, None))

    def _is_logged(self, group_id: str) -> bool:
        return self._runtime.shard(group_id).knows(group_id)

    def _forget(self, group_id: str) -> None:
        group = self._groups.pop(group_id, None)
        if group is not None:
            self._on_deleted(group)
