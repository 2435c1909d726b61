"""Who may commit and read the offsets of a group: its members, by their epochs.

Owns: the checks of OffsetCommit, TxnOffsetCommit and OffsetFetch for members. Does not own: offsets (`shard`), the
checks that all types of groups share (`group.offsets`), since when a member has had a partition (its type).

KIPs: 447 (transactional commits by members), 848, 1071, 1251 (an older member epoch is accepted for a partition that
the member has had since then or longer).
"""

from collections.abc import Callable, Sequence
from typing import Any

from oncelog.broker.coordinator.group.engine.kind import CommitErrors, Committer, OffsetRules, OffsetToCommit
from oncelog.protocol.errors import ErrorCode, KafkaError

OwnedSince = Callable[[Any, Any, OffsetToCommit], int | None]
"""Returns the epoch in which a member of a group was assigned what it commits for; None if it does not own it."""


def offset_rules(owned_since: OwnedSince, *, unsupported: str, refuses_all: bool) -> OffsetRules:
    """Return the rules of a type. `unsupported` is the message for clients that know no member epochs; with
    `refuses_all` one partition that may not be committed refuses the request as a whole."""

    rule = owned_since, refuses_all

    def check_commit(group: Any, committer: Committer, offsets: Sequence[OffsetToCommit]) -> CommitErrors:
        if committer.generation_id < 0 and not group.members:
            return {}
        member = _member_of(group, committer.member_id)
        if not member.is_classic and not committer.knows_member_epochs:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, unsupported)
        return _check_epoch(rule, group, member, committer.generation_id, offsets, _stale(member))

    def check_transactional(group: Any, committer: Committer, offsets: Sequence[OffsetToCommit]) -> CommitErrors:
        """Like `check_commit`, but open to any client that names no member, and the client knows no member epochs."""
        if committer.is_anonymous or (committer.generation_id < 0 and not group.members):
            return {}
        member = _member_of(group, committer.member_id)
        return _check_epoch(rule, group, member, committer.generation_id, offsets, ErrorCode.ILLEGAL_GENERATION)

    return OffsetRules(check_commit, check_transactional, _check_reader)


def _check_epoch(
    rule: tuple[OwnedSince, bool],
    group: Any,
    member: Any,
    epoch: int,
    offsets: Sequence[OffsetToCommit],
    stale: ErrorCode,
) -> CommitErrors:
    if epoch == member.epoch:
        return {}
    if epoch > member.epoch:
        raise KafkaError(stale)
    owned_since, refuses_all = rule
    refused: CommitErrors = {}
    for offset in offsets:
        since = owned_since(group, member, offset)
        if since is None or epoch < since:
            refused[offset.partition] = stale
    if refused and refuses_all:
        raise KafkaError(stale)
    return refused


def _check_reader(group: Any, member_id: str | None, epoch: int) -> None:
    """Raises UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH or ILLEGAL_GENERATION for a client that is no longer a member."""
    if member_id is None and epoch < 0:
        return
    member = _member_of(group, member_id or "")
    if epoch != member.epoch:
        raise KafkaError(_stale(member))


def _member_of(group: Any, member_id: str) -> Any:
    member = group.members.get(member_id)
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    return member


def _stale(member: Any) -> ErrorCode:
    return ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH
