"""What tools ask about groups, and how groups end: describe, list, delete, expire.

Owns: the rules under which a group or its offsets may go, whatever its type. Does not own: groups and offsets
themselves.
Invariant: what goes is tombstoned in `__consumer_offsets`, offsets of open transactions included; a group with members
never goes.

KIPs: 211 (expiry of offsets), 229 (DeleteGroups), 496 (OffsetDelete), 518 and 848 (states and types of groups).
"""

from collections.abc import Callable, Sequence

from broker.completion import Completion
from broker.coordinator.group.consumer.update import tombstones
from broker.coordinator.group.exchange import CONSUMER_TYPE, GroupDescription
from broker.coordinator.group.membership import Group
from broker.coordinator.group.records import TopicPartition, group_record, offset_record
from broker.coordinator.group.shard import GroupShard
from broker.coordinator.group.states import GroupState
from broker.coordinator.group.subscription import CONSUMER, subscribed_topics
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

    def describe(self, group_id: str) -> Completion[GroupDescription]:
        """The classic group once all that it shows is durable. Fails with GROUP_ID_NOT_FOUND, also for a consumer
        group, which has a request of its own."""
        return self._runtime.read(group_id, lambda shard: self._description(shard, group_id))

    def _description(self, shard: GroupShard, group_id: str) -> GroupDescription:
        if shard.consumer_group(group_id) is not None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id[:300]} is not a classic group.")
        group = self._groups.get(group_id)
        if group is not None:
            return group.described()
        if not shard.knows(group_id):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id[:300]} not found.")
        return GroupDescription(group_id, GroupState.EMPTY.value, "")

    def all(self) -> Sequence[GroupDescription]:
        """Every group, without its members, by id."""
        found = {
            group.group_id: GroupDescription(group.group_id, group.state.value, group.protocol_type or "")
            for group in self._groups.values()
        }
        for shard in self._runtime.shards():
            for group_id, group in shard.consumer_groups().items():
                found[group_id] = GroupDescription(group_id, group.state.value, CONSUMER, group_type=CONSUMER_TYPE)
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
            consumer_group = shard.consumer_group(group_id)
            has_members = bool(consumer_group.members) if consumer_group is not None else False
            if has_members or (group is not None and group.state is not GroupState.EMPTY):
                return WriteResult((), ErrorCode.NON_EMPTY_GROUP)
            self._forget(group_id)
            return WriteResult(self._tombstones(shard, group_id), ErrorCode.NONE)

        return self._runtime.write(group_id, operation)

    def _tombstones(self, shard: GroupShard, group_id: str) -> list[CoordinatorRecord]:
        partitions = sorted({*shard.offsets(group_id), *shard.pending_partitions(group_id)})
        records = [offset_record(group_id, partition, None) for partition in partitions]
        if shard.group(group_id) is not None:
            records.append(group_record(group_id, None))
        consumer_group = shard.consumer_group(group_id)
        if consumer_group is not None:
            records += tombstones(consumer_group)
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
        consumer_group = shard.consumer_group(group_id)
        if consumer_group is not None:
            return consumer_group.topics
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
                read = self._topics_read(shard, group_id)
                if read is not None:
                    self._maybe_expire(shard, group_id, read, now_ms)
        for group in list(self._groups.values()):
            is_vacant = group.state is GroupState.EMPTY and not group.pending_members
            if is_vacant and not self._is_logged(group.group_id):
                self._forget(group.group_id)

    def _topics_read(self, shard: GroupShard, group_id: str) -> frozenset[str] | None:
        """Topics whose offsets are in use; None while that is not settled, or cannot be known (KIP-211)."""
        consumer_group = shard.consumer_group(group_id)
        if consumer_group is not None:
            return consumer_group.topics
        group = self._groups.get(group_id)
        if group is None or group.state is GroupState.EMPTY:
            return frozenset()
        return subscribed_topics(group) if group.state is GroupState.STABLE else None

    def _maybe_expire(self, shard: GroupShard, group_id: str, read: frozenset[str], now_ms: int) -> None:
        stored, group = shard.group(group_id), self._groups.get(group_id)
        is_empty = group is None or group.state is GroupState.EMPTY
        # With members it is the time of the commit that counts: their state does not tell what nobody reads any more.
        idle_since_ms = stored.state_timestamp_ms if stored is not None and is_empty else 0
        old = shard.expired_partitions(group_id, idle_since_ms, now_ms, self._retention_ms)
        expired = [partition for partition in old if partition[0] not in read]
        records = [offset_record(group_id, partition, None) for partition in expired]
        is_bare = len(expired) == len(shard.offsets(group_id)) and not shard.pending_partitions(group_id)
        if is_bare:
            records += self._end(shard, group_id, is_idle=is_empty and now_ms - idle_since_ms >= self._retention_ms)
        if records:
            self._runtime.write(group_id, lambda _: WriteResult(records, None))

    def _end(self, shard: GroupShard, group_id: str, *, is_idle: bool) -> list[CoordinatorRecord]:
        """Of a group without offsets, if it has no members either; a consumer group does not say since when."""
        consumer_group = shard.consumer_group(group_id)
        if consumer_group is not None:
            return [] if consumer_group.members else tombstones(consumer_group)
        return [group_record(group_id, None)] if is_idle and shard.group(group_id) is not None else []

    def _is_logged(self, group_id: str) -> bool:
        return self._runtime.shard(group_id).knows(group_id)

    def _forget(self, group_id: str) -> None:
        group = self._groups.pop(group_id, None)
        if group is not None:
            self._on_deleted(group)
