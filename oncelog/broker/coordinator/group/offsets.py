"""Committed offsets of groups: checks commits, and reads what is durable.

Owns: the checks of OffsetCommit and TxnOffsetCommit, in Kafka's order, and what OffsetFetch may return. Does not own:
the offsets (`engine.shard`), membership (`classic`, `consumer`, `streams`), whether a producer's transaction is open
(`broker.handlers`, the log).
Invariant: no commit or fetch completes before everything it depends on is durable.

KIPs: 98, 345, 447 (transactional commits by members, require_stable), 848, 1251 (an older member epoch is accepted for
a partition that the member has owned since).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import NamedTuple

from oncelog.broker.coordinator.group.classic.membership import Group, Member
from oncelog.broker.coordinator.group.classic.states import GroupState
from oncelog.broker.coordinator.group.engine.kind import (
    CommitErrors,
    Committer,
    ModernGroup,
    OffsetRules,
    OffsetToCommit,
)
from oncelog.broker.coordinator.group.engine.shard import GroupShard, Recorded
from oncelog.broker.coordinator.group.engine.shard_life import GroupShardLife
from oncelog.broker.coordinator.group.kinds import kind_of
from oncelog.broker.coordinator.group.records import (
    NO_COMMITTED_OFFSET,
    NO_TIMESTAMP,
    CommittedOffset,
    TopicPartition,
    offset_record,
)
from oncelog.broker.coordinator.runtime import CoordinatorRuntime, WriteResult
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Clock
from oncelog.protocol.errors import ErrorCode, KafkaError


class FetchedOffset(NamedTuple):
    """The answer of OffsetFetch for a partition; offset -1 if there is none."""

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
    ) -> Completion[CommitErrors]:
        """OffsetCommit: an error code for each partition, once durable. Fails with KafkaError for all of them."""

        def operation(life: GroupShardLife) -> WriteResult[CommitErrors]:
            group = life.shard.modern_group(committer.group_id)
            if group is not None:
                stale = _rules(group).check_commit(group, committer, offsets)
            else:
                stale = {}
                error = self._check_commit(life, committer)
                if error:
                    raise KafkaError(error)
            return self._records(life, committer.group_id, offsets, retention_ms, stale)

        return self._runtime.write(committer.group_id, operation)

    def _check_commit(self, life: GroupShardLife, committer: Committer) -> ErrorCode:
        group: Group | None = life.classic.get(committer.group_id)
        if group is None:
            return _check_without_members(life.shard, committer, is_transactional=False)
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
    ) -> Completion[CommitErrors]:
        """TxnOffsetCommit: invisible until the producer's marker. Completes once durable, or when appended if
        `may_answer_ahead()` then. Fails with KafkaError for all."""

        def operation(life: GroupShardLife) -> WriteResult[CommitErrors]:
            group = life.shard.modern_group(committer.group_id)
            if group is not None:
                stale = _rules(group).check_transactional(group, committer, offsets)
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
        group: Group | None = life.classic.get(committer.group_id)
        if group is None:
            return _check_without_members(life.shard, committer, is_transactional=True)
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
        refused: CommitErrors,
    ) -> WriteResult[CommitErrors]:
        wall_ms = self._clock.wall_ms()
        kept_until_ms = min(wall_ms + retention_ms, _LAST_TIMESTAMP_MS)
        expire_timestamp_ms = NO_TIMESTAMP if retention_ms == NO_TIMESTAMP else kept_until_ms
        errors: CommitErrors = dict(refused)
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
        if offsets and not records and not life.knows(group_id):
            # Nothing is logged: as in Kafka, the group exists from here to the next clean-up.
            life.classic[group_id] = Group(group_id)
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
            group = shard.modern_group(group_id)
            rules = None if group is None else kind_of(group).offsets
            if rules is not None:
                rules.check_reader(group, member_id, member_epoch)
            pending = shard.pending_partitions(group_id) if require_stable else frozenset()
            # Unlike in Kafka, the list of all includes pending ones: leaving them out would mean "no offset".
            return GroupOffsets(shard.kept_offsets(group_id, partitions), frozenset(pending))

        return self._runtime.read(group_id, read)


def _check_without_members(shard: GroupShard, committer: Committer, *, is_transactional: bool) -> ErrorCode:
    """Return the error of a commit to a group that never had members: it has no generation, and without offsets it does
    not exist at all, which only newer clients have an error code for."""
    if committer.generation_id < 0:
        return ErrorCode.NONE
    if shard.knows(committer.group_id):
        return ErrorCode.UNKNOWN_MEMBER_ID
    knows_the_error = committer.knows_member_epochs and not is_transactional
    return ErrorCode.GROUP_ID_NOT_FOUND if knows_the_error else ErrorCode.ILLEGAL_GENERATION


def _rules(group: ModernGroup) -> OffsetRules:
    """Raises GROUP_ID_NOT_FOUND for a type of groups that commits no offsets, as Kafka does."""
    rules = kind_of(group).offsets
    if rules is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.group_id} is not a consumer group.")
    return rules


def _length(text: str) -> int:
    """Return the length in UTF-16 units, as Java counts: not bytes, whatever the setting is called, nor one for each
    beyond U+FFFF."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
