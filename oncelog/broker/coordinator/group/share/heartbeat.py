"""The heartbeat of a share group's member: the value between handlers and coordinator.

Owns: its shape, and what makes a heartbeat valid by itself and against the group, in Kafka's order and wording. Does
not own: what a group makes of it, its result (`engine.requests`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from oncelog.broker.coordinator.group.engine.errors import LEAVE_EPOCH, empty_field, fenced, group_is_full
from oncelog.broker.coordinator.group.share.group import ShareGroup
from oncelog.broker.coordinator.group.share.member import ShareMember
from oncelog.protocol.errors import ErrorCode, KafkaError


@dataclass(frozen=True, slots=True)
class HeartbeatRequest:
    """ShareGroupHeartbeat: None means "as before"."""

    group_id: str
    member_id: str
    member_epoch: int
    rack_id: str | None
    topic_names: Sequence[str] | None
    client_id: str
    client_host: str

    @property
    def is_leaving(self) -> bool:
        return self.member_epoch == LEAVE_EPOCH

    @property
    def is_joining(self) -> bool:
        return self.member_epoch == 0


def check_heartbeat(request: HeartbeatRequest) -> None:
    """Raises INVALID_REQUEST."""
    problem = _problem(request)
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)


def _problem(request: HeartbeatRequest) -> str | None:
    problem = empty_field(("MemberId", request.member_id), ("GroupId", request.group_id), ("RackId", request.rack_id))
    if problem is not None:
        return problem
    if request.is_joining:
        return None if request.topic_names else "SubscribedTopicNames must be set in first request."
    return "MemberEpoch is invalid." if request.member_epoch < LEAVE_EPOCH else None


def check_room(group: ShareGroup, member_id: str, max_size: int) -> None:
    """Raises GROUP_MAX_SIZE_REACHED."""
    if len(group.members) >= max_size and member_id not in group.members:
        raise group_is_full("share", max_size)


def check_epoch(member: ShareMember, epoch: int) -> None:
    """Raises FENCED_MEMBER_EPOCH. The previous epoch is accepted: the response with the current one may be lost."""
    known, previous = member.epoch, member.current.previous_epoch
    if epoch in (0, known) or (epoch < known and epoch == previous):
        return
    is_older = epoch < known
    detail = f", and it does not match the previous member epoch ({previous})." if is_older else "."
    raise fenced("share", epoch, known, detail)
