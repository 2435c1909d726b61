"""Committed offsets of groups: checks commits, and reads what is durable.

Owns: the checks of OffsetCommit and TxnOffsetCommit, in Kafka's order, and what OffsetFetch may return. Does not own:
the offsets (`shard`), membership (`membership`, `consumer`), whether a producer's transaction is open
(`broker.handlers`, the log).
Invariant: no commit or fetch completes before everything it depends on is durable.

KIPs: 98, 345, 447 (transactional commits by members, require_stable), 848, 1251 (an older member epoch is accepted for
a partition that the member has owned since).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from oncelog.broker.coordinator.group.consumer.group import ConsumerGroup
from oncelog.broker.coordinator.group.consumer.member import ConsumerMember
from oncelog.broker.coordinator.group.membership import Group, Member
from oncelog.broker.coordinator.group.records import (
    NO_COMMITTED_OFFSET,
    NO_TIMESTAMP,
    CommittedOffset,
    TopicPartition,
    offset_record,
)
from oncelog.broker.coordinator.group.shard import GroupShard, Recorded
from oncelog.broker.coordinator.group.shard_life import GroupShardLife
from oncelog.broker.coordinator.group.states import GroupState
from oncelog.broker.coordinator.runtime import CoordinatorRuntime, WriteResult
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Clock
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.topics import ZERO_UUID


@dataclass(frozen=True, slots=True)
class Committer:
    """The committer: a member of a generation, or an anonymous client (generation -1, no member id)."""

    group_id: str
    generation_id: int
    """The member epoch, in a consumer group."""
    member_id: str
    group_instance_id: str | None
    knows_member_epochs: bool = True
    """Whether the client sends OffsetCommit 9 or later."""

    @property
    def is_anonymous(self) -> bool:
        return self.generation_id < 0 and not self.member_id and self.group_instance_id is None


class OffsetToCommit(NamedTuple):
    partition: TopicPartition
    offset: int
    leader_epoch: int
    metadata: str
    topic_id: UUID = ZERO_UUID


class FetchedOffset(NamedTuple):
    """What OffsetFetch returns for a partition; offset -1 if there is none."""

    error: ErrorCode
    committed: CommittedOffset


class GroupOffsets:
    """The committed offsets of a group as they were in one turn; a copy."""

    __slots__ = ("_committed", "_pending")

    def __init__(self, committed: Mapping[TopicPartition, Recorded], pending: Set[TopicPartition]) -> None:
        self._committed = committed
        self._pending = pending

    def partitions(self) -> Iterable[TopicPartition]:
        """Return the partitions with a committed or a pending offset."""
        return {**self._committed, **dict.fromkeys(sorted(self._pending))}

    def get(self, partition: TopicPartition) -> FetchedOffset:
        if partition in self._pending:
            return _UNSTABLE
        recorded = self._committed.get(partition)
        return NOTHING_FETCHED if recorded is None else FetchedOffset(ErrorCode.NONE, recorded.committed)


NOTHING_FETCHED = FetchedOffset(ErrorCode.NONE, NO_COMMITTED_OFFSET)
_UNSTABLE = FetchedOffset(ErrorCode.UNSTABLE_OFFSET_COMMIT, NO_COMMITTED_OFFSET)
Errors = dict[TopicPartition, ErrorCode]
_LAST_TIMESTAMP_MS = (1 << 63) - 1


class OffsetCoordinator:
    def __init__(
        self,
        runtime: CoordinatorRuntime[GroupShardLife],
        clock: Clock,
        on_alive: Callable[[Group, Member], None],
        metadata_max_length: int,
    ) -> None:
        self._runtime = runtime
        self._clock = clock
        self._on_alive = on_alive
        self._metadata_max_length = metadata_max_length

    # --- committing ---------------------------------------------------------------------------------------------------

    def commit(
        self, committer: Committer, offsets: Sequence[OffsetToCommit], retention_ms: int = NO_TIMESTAMP
    ) -> Completion[Errors]:
        """OffsetCommit: an error code for each partition, once durable. Fails with KafkaError for all of them."""

        def operation(life: GroupShardLife) -> WriteResult[Errors]:
            consumer_group = life.shard.consumer_group(committer.group_id)
            if consumer_group is not None:
                stale = _check_member_epoch(consumer_group, committer, offsets)
            else:
                stale = {}
                error = self._check_commit(life, committer)
                if error:
                    raise KafkaError(error)
            return self._records(life, committer.group_id, offsets, retention_ms, stale)

        return self._runtime.write(committer.group_id, operation)

    def _check_commit(self, life: GroupShardLife, committer: Committer) -> ErrorCode:
        group = life.classic.get(committer.group_id)
        if group is None:
            return _check_without_members(life.shard, committer)
        # Without members any client may commit: tools do, and consumers that assign partitions themselves.
        if group.state is GroupState.EMPTY and committer.generation_id < 0:
            return ErrorCode.NONE
        error = group.check_member(committer.member_id, committer.group_instance_id)
        if error:
            return error
        if committer.generation_id != group.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        if group.state is GroupState.COMPLETING_REBALANCE:
            # It knows its new generation but not its assignment: what it commits may belong to another member by now.
            return ErrorCode.REBALANCE_IN_PROGRESS
        self._on_alive(group, group.members[committer.member_id])
        return ErrorCode.NONE

    def commit_in_transaction(
        self,
        committer: Committer,
        producer_id: int,
        producer_epoch: int,
        offsets: Sequence[OffsetToCommit],
        *,
        transaction_version: int = 0,
        may_answer_ahead: Callable[[], bool] | None = None,
    ) -> Completion[Errors]:
        """TxnOffsetCommit: invisible until the producer's marker. Completes once durable, or when appended if
        `may_answer_ahead()` then. Fails with KafkaError for all."""

        def operation(life: GroupShardLife) -> WriteResult[Errors]:
            consumer_group = life.shard.consumer_group(committer.group_id)
            if consumer_group is not None:
                stale = _check_transactional_epoch(consumer_group, committer, offsets)
            else:
                stale = {}
                error = self._check_transactional(life, committer)
                if error:
                    raise KafkaError(error)
            return self._records(life, committer.group_id, offsets, NO_TIMESTAMP, stale)

        return self._runtime.write_transactional(
            committer.group_id,
            producer_id,
            producer_epoch,
            operation,
            transaction_version=transaction_version,
            may_answer_ahead=may_answer_ahead,
        )

    def _check_transactional(self, life: GroupShardLife, committer: Committer) -> ErrorCode:
        """Check a commit by KIP-447: only if the client names a member. It is allowed in a rebalance and does not renew
        the session."""
        group = life.classic.get(committer.group_id)
        if group is None:
            return _check_without_members(life.shard, committer)
        if committer.is_anonymous or (group.state is GroupState.EMPTY and committer.generation_id < 0):
            return ErrorCode.NONE
        error = group.check_member(committer.member_id, committer.group_instance_id)
        if error:
            return error
        return ErrorCode.NONE if committer.generation_id == group.generation_id else ErrorCode.ILLEGAL_GENERATION

    def _records(
        self,
        life: GroupShardLife,
        group_id: str,
        offsets: Sequence[OffsetToCommit],
        retention_ms: int,
        refused: Errors,
    ) -> WriteResult[Errors]:
        wall_ms = self._clock.wall_ms()
        kept_until_ms = min(wall_ms + retention_ms, _LAST_TIMESTAMP_MS)
        expire_timestamp_ms = NO_TIMESTAMP if retention_ms == NO_TIMESTAMP else kept_until_ms
        errors: Errors = dict(refused)
        records = []
        for partition, offset, leader_epoch, metadata, topic_id in offsets:
            if partition in refused:
                continue
            if _length(metadata) > self._metadata_max_length:
                errors[partition] = ErrorCode.OFFSET_METADATA_TOO_LARGE
                continue
            errors[partition] = ErrorCode.NONE
            committed = CommittedOffset(offset, leader_epoch, metadata, wall_ms, expire_timestamp_ms, topic_id)
            records.append(offset_record(group_id, partition, committed))
        if offsets and not records:
            life.remember(group_id)
        return WriteResult(records, errors)

    # --- fetching -----------------------------------------------------------------------------------------------------

    def fetch(
        self,
        group_id: str,
        partitions: Sequence[TopicPartition] | None,
        require_stable: bool,
        member_id: str | None = None,
        member_epoch: int = -1,
    ) -> Completion[GroupOffsets]:
        """OffsetFetch; None requests every partition that has an offset. Completes with the offsets of this turn, once
        they are durable. Fails with UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH or ILLEGAL_GENERATION for a client that is no
        longer a member."""

        def read(life: GroupShardLife) -> GroupOffsets:
            shard = life.shard
            consumer_group = shard.consumer_group(group_id)
            if consumer_group is not None and not (member_id is None and member_epoch < 0):
                _check_reader(consumer_group, member_id or "", member_epoch)
            pending = shard.pending_partitions(group_id) if require_stable else frozenset()
            # Unlike in Kafka, the list of all includes pending ones: leaving them out would mean "no offset".
            return GroupOffsets(shard.kept_offsets(group_id, partitions), frozenset(pending))

        return self._runtime.read(group_id, read)


def _check_without_members(shard: GroupShard, committer: Committer) -> ErrorCode:
    """Return the error of a commit to a group that never had members: it has no generation, and without offsets it does
    not exist at all."""
    if committer.generation_id < 0:
        return ErrorCode.NONE
    return ErrorCode.UNKNOWN_MEMBER_ID if shard.knows(committer.group_id) else ErrorCode.GROUP_ID_NOT_FOUND


def _check_member_epoch(group: ConsumerGroup, committer: Committer, offsets: Sequence[OffsetToCommit]) -> Errors:
    """Return the errors of the partitions that the member may not commit. Raises UNKNOWN_MEMBER_ID,
    UNSUPPORTED_VERSION, or a stale epoch."""
    if committer.generation_id < 0 and not group.members:
        return {}
    member = _member_of(group, committer.member_id)
    if not member.is_classic and not committer.knows_member_epochs:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    stale = ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH
    return _check_epoch(member, committer.generation_id, offsets, stale)


def _check_transactional_epoch(group: ConsumerGroup, committer: Committer, offsets: Sequence[OffsetToCommit]) -> Errors:
    """Check a transactional commit: like OffsetCommit, but open to any client, and the client knows no member epochs
    (KIP-447)."""
    if committer.is_anonymous or (committer.generation_id < 0 and not group.members):
        return {}
    member = _member_of(group, committer.member_id)
    return _check_epoch(member, committer.generation_id, offsets, ErrorCode.ILLEGAL_GENERATION)


def _member_of(group: ConsumerGroup, member_id: str) -> ConsumerMember:
    member = group.members.get(member_id)
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    return member


def _check_epoch(member: ConsumerMember, epoch: int, offsets: Sequence[OffsetToCommit], stale: ErrorCode) -> Errors:
    """Check a partition's epoch: an older one is accepted for partitions that the member has owned since then or longer
    (KIP-1251)."""
    if epoch == member.epoch:
        return {}
    if epoch > member.epoch:
        raise KafkaError(stale)
    refused: Errors = {}
    for offset in offsets:
        since = member.current.assignment_epoch(offset.topic_id, offset.partition[1])
        if since is None or epoch < since:
            refused[offset.partition] = stale
    return refused


def _check_reader(group: ConsumerGroup, member_id: str, epoch: int) -> None:
    member = _member_of(group, member_id)
    if epoch != member.epoch:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH)


def _length(text: str) -> int:
    """Return the length in UTF-16 units, as Java counts: not bytes, whatever the setting is called, nor one for each
    beyond U+FFFF."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
