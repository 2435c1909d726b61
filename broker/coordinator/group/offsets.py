"""Committed offsets of groups: who may commit, and reading what is durable.

Owns: the checks of OffsetCommit, TxnOffsetCommit and OffsetFetch. Does not own: the offsets (`shard`), membership
(`coordinator`, asked through two functions). KIPs: 98, 345, 447 (transactional commits, require_stable), 211 (expiry).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from broker.completion import Completion
from broker.coordinator.group.membership import Group, Member
from broker.coordinator.group.records import CommittedOffset, TopicPartition, offset_record
from broker.coordinator.group.shard import GroupShard
from broker.coordinator.group.states import GroupState
from broker.coordinator.runtime import CoordinatorRuntime, WriteResult
from broker.ports import Clock
from protocol.errors import ErrorCode

NO_OFFSET = -1


@dataclass(frozen=True, slots=True)
class Committer:
    """Who commits: a member of a generation, or nobody in particular (generation -1, no member id)."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None


@dataclass(frozen=True, slots=True)
class FetchedOffset:
    """What OffsetFetch tells of a partition; offset -1 when there is none."""

    error: ErrorCode
    committed: CommittedOffset


_NONE = CommittedOffset(NO_OFFSET, -1, "", -1)
Errors = dict[TopicPartition, ErrorCode]


class OffsetCoordinator:
    def __init__(
        self,
        runtime: CoordinatorRuntime[GroupShard],
        clock: Clock,
        group_of: Callable[[str], Group | None],
        on_alive: Callable[[Group, Member], None],
        metadata_max_bytes: int,
    ) -> None:
        self._runtime = runtime
        self._clock = clock
        self._group_of = group_of
        self._on_alive = on_alive
        self._metadata_max_bytes = metadata_max_bytes

    def commit(
        self, committer: Committer, offsets: Sequence[tuple[TopicPartition, int, int, str]]
    ) -> Completion[Errors]:
        """OffsetCommit of (partition, offset, leader epoch, metadata): an error for each, once durable."""
        error = self._check_commit(committer)
        if error:
            return Completion.of({partition: error for partition, *_ in offsets})
        return self._runtime.write(committer.group_id, lambda _: self._records(committer.group_id, offsets))

    def _check_commit(self, committer: Committer) -> ErrorCode:
        group = self._group_of(committer.group_id)
        if group is None or group.state is GroupState.EMPTY:
            # Without members anybody may commit: tools do, and consumers that assign partitions themselves.
            if committer.generation_id < 0:
                return ErrorCode.NONE
            return ErrorCode.ILLEGAL_GENERATION if group is None else ErrorCode.UNKNOWN_MEMBER_ID
        error = group.check_member(committer.member_id, committer.group_instance_id)
        if error:
            return error
        if committer.generation_id != group.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        self._on_alive(group, group.members[committer.member_id])
        if group.state is GroupState.COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def commit_in_transaction(
        self,
        committer: Committer,
        producer_id: int,
        producer_epoch: int,
        offsets: Sequence[tuple[TopicPartition, int, int, str]],
    ) -> Completion[Errors]:
        """TxnOffsetCommit: durable but invisible until the producer's marker. Fails with KafkaError for the producer."""
        error = self._check_transactional(committer)
        if error:
            return Completion.of({partition: error for partition, *_ in offsets})
        return self._runtime.write_transactional(
            committer.group_id,
            producer_id,
            producer_epoch,
            lambda _: self._records(committer.group_id, offsets),
        )

    def _check_transactional(self, committer: Committer) -> ErrorCode:
        """KIP-447: checked only when the client says who it is; allowed during a rebalance, no sign of life."""
        group = self._group_of(committer.group_id)
        if group is None:
            return ErrorCode.NONE if committer.generation_id < 0 else ErrorCode.ILLEGAL_GENERATION
        if not committer.member_id and committer.generation_id < 0 and committer.group_instance_id is None:
            return ErrorCode.NONE
        error = group.check_member(committer.member_id, committer.group_instance_id)
        if error:
            return error
        return ErrorCode.NONE if committer.generation_id == group.generation_id else ErrorCode.ILLEGAL_GENERATION

    def _records(self, group_id: str, offsets: Sequence[tuple[TopicPartition, int, int, str]]) -> WriteResult[Errors]:
        now_ms = self._clock.now_ms()
        errors: Errors = {}
        records = []
        for partition, offset, leader_epoch, metadata in offsets:
            if len(metadata.encode()) > self._metadata_max_bytes:
                errors[partition] = ErrorCode.OFFSET_METADATA_TOO_LARGE
                continue
            errors[partition] = ErrorCode.NONE
            committed = CommittedOffset(offset, leader_epoch, metadata, now_ms)
            records.append(offset_record(group_id, partition, committed))
        return WriteResult(records, errors)

    def fetch(
        self, group_id: str, partitions: Sequence[TopicPartition] | None, require_stable: bool
    ) -> Completion[Mapping[TopicPartition, FetchedOffset]]:
        """OffsetFetch; None asks for every partition that has an offset. Answered once what was read is durable."""

        def read(shard: GroupShard) -> Mapping[TopicPartition, FetchedOffset]:
            pending = shard.pending_partitions(group_id) if require_stable else set()
            wanted = partitions if partitions is not None else sorted({*shard.offsets(group_id), *pending})
            return {
                partition: FetchedOffset(ErrorCode.UNSTABLE_OFFSET_COMMIT, _NONE)
                if partition in pending
                else FetchedOffset(ErrorCode.NONE, shard.offset(group_id, partition) or _NONE)
                for partition in wanted
            }

        return self._runtime.read(group_id, read)

    def forget(self, group_id: str, partitions: Sequence[TopicPartition]) -> Completion[None]:
        """Write tombstones for offsets."""
        records = [offset_record(group_id, partition, None) for partition in partitions]
        return self._runtime.write(group_id, lambda _: WriteResult(records, None))
