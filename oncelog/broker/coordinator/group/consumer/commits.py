"""Who may commit and read the offsets of a consumer group: its members, by their epochs.

Owns: the checks of OffsetCommit, TxnOffsetCommit and OffsetFetch for members. Does not own: offsets (`shard`), the
checks that all types of groups share (`offsets`).

KIPs: 447 (transactional commits by members), 848, 1251 (an older member epoch is accepted for a partition that the
member has owned since).
"""

from collections.abc import Sequence

from oncelog.broker.coordinator.group.consumer.group import ConsumerGroup
from oncelog.broker.coordinator.group.consumer.member import ConsumerMember
from oncelog.broker.coordinator.group.kind import CommitErrors, Committer, OffsetToCommit
from oncelog.protocol.errors import ErrorCode, KafkaError


def check_commit(group: ConsumerGroup, committer: Committer, offsets: Sequence[OffsetToCommit]) -> CommitErrors:
    """Return the errors of the partitions that the member may not commit. Raises UNKNOWN_MEMBER_ID,
    UNSUPPORTED_VERSION, or a stale epoch."""
    if committer.generation_id < 0 and not group.members:
        return {}
    member = _member_of(group, committer.member_id)
    if not member.is_classic and not committer.knows_member_epochs:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    stale = ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH
    return _check_epoch(member, committer.generation_id, offsets, stale)


def check_transactional(group: ConsumerGroup, committer: Committer, offsets: Sequence[OffsetToCommit]) -> CommitErrors:
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


def _check_epoch(
    member: ConsumerMember, epoch: int, offsets: Sequence[OffsetToCommit], stale: ErrorCode
) -> CommitErrors:
    """Check a partition's epoch: an older one is accepted for partitions that the member has owned since then or longer
    (KIP-1251)."""
    if epoch == member.epoch:
        return {}
    if epoch > member.epoch:
        raise KafkaError(stale)
    refused: CommitErrors = {}
    for offset in offsets:
        since = member.current.assignment_epoch(offset.topic_id, offset.partition[1])
        if since is None or epoch < since:
            refused[offset.partition] = stale
    return refused


def check_reader(group: ConsumerGroup, member_id: str | None, epoch: int) -> None:
    """Raises UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH or ILLEGAL_GENERATION for a client that is no longer a member."""
    if member_id is None and epoch < 0:
        return
    member = _member_of(group, member_id or "")
    if epoch != member.epoch:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH)
