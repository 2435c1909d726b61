"""Who may commit and read the offsets of a streams group: its members, by their epochs.

Owns: the checks of OffsetCommit, TxnOffsetCommit and OffsetFetch for members. Does not own: offsets (`shard`), the
checks that all types of groups share (`offsets`).
Invariant: the request is accepted or rejected as a whole, as in Kafka.

KIPs: 447 (transactional commits by members), 1071, 1251 (an older member epoch is accepted for the input of a task that
the member has had since).
"""

from collections.abc import Sequence

from oncelog.broker.coordinator.group.kind import CommitErrors, Committer, OffsetToCommit
from oncelog.broker.coordinator.group.streams.group import StreamsGroup
from oncelog.broker.coordinator.group.streams.member import StreamsMember
from oncelog.protocol.errors import ErrorCode, KafkaError


def check_commit(group: StreamsGroup, committer: Committer, offsets: Sequence[OffsetToCommit]) -> CommitErrors:
    """Raises UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION or STALE_MEMBER_EPOCH."""
    if committer.generation_id < 0 and not group.members:
        return {}
    member = _member_of(group, committer.member_id)
    if not committer.knows_member_epochs:
        message = "OffsetCommit version 9 or above must be used by members using the streams group protocol"
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, message)
    _check_epoch(group, member, committer.generation_id, offsets, ErrorCode.STALE_MEMBER_EPOCH)
    return {}


def check_transactional(group: StreamsGroup, committer: Committer, offsets: Sequence[OffsetToCommit]) -> CommitErrors:
    """Raises UNKNOWN_MEMBER_ID or ILLEGAL_GENERATION. Open to any client that names no member (KIP-447)."""
    if committer.is_anonymous or (committer.generation_id < 0 and not group.members):
        return {}
    member = _member_of(group, committer.member_id)
    _check_epoch(group, member, committer.generation_id, offsets, ErrorCode.ILLEGAL_GENERATION)
    return {}


def check_reader(group: StreamsGroup, member_id: str | None, epoch: int) -> None:
    """Raises UNKNOWN_MEMBER_ID or STALE_MEMBER_EPOCH for a client that is no longer a member."""
    if member_id is None and epoch < 0:
        return
    if epoch != _member_of(group, member_id or "").epoch:
        raise KafkaError(ErrorCode.STALE_MEMBER_EPOCH)


def _member_of(group: StreamsGroup, member_id: str) -> StreamsMember:
    member = group.members.get(member_id)
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    return member


def _check_epoch(
    group: StreamsGroup, member: StreamsMember, epoch: int, offsets: Sequence[OffsetToCommit], stale: ErrorCode
) -> None:
    if epoch == member.epoch:
        return
    if epoch > member.epoch:
        raise KafkaError(stale)
    readers = group.readers
    for offset in offsets:
        topic, partition = offset.partition
        since = member.current.assigned_in(readers[topic], partition) if topic in readers else None
        if since is None or epoch < since:
            raise KafkaError(stale)
