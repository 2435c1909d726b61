"""The heartbeat of a consumer group's member: the value between handlers and coordinator.

Owns: its shape, independent of protocol versions, and what makes a heartbeat valid by itself, in Kafka's order and
wording; the entry of a LeaveGroup. Does not own: what a group makes of it, its result (`engine.requests`).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from oncelog.broker.coordinator.group.consumer.regex import NOTHING_MATCHED, Matches
from oncelog.broker.coordinator.group.engine.errors import LEAVE_EPOCH, NOT_SAID, STATIC_LEAVE_EPOCH, empty_field
from oncelog.broker.coordinator.group.engine.requests import TopicFilter
from oncelog.protocol.errors import ErrorCode, KafkaError


@dataclass(frozen=True, slots=True)
class HeartbeatRequest:
    """ConsumerGroupHeartbeat: None means "as before"."""

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int
    topic_names: Sequence[str] | None
    topic_regex: str | None
    server_assignor: str | None
    owned: Mapping[UUID, Collection[int]] | None
    client_id: str
    client_host: str
    makes_its_own_id: bool
    may_describe: TopicFilter | None = None
    matches: Matches = NOTHING_MATCHED

    @property
    def is_leaving(self) -> bool:
        return self.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH)

    @property
    def is_joining(self) -> bool:
        return self.member_epoch == 0

    @property
    def is_full(self) -> bool:
        """Whether the request has all fields that a member can send, so that all fields are returned."""
        has_subscription = self.topic_names is not None or self.topic_regex is not None
        return self.rebalance_timeout_ms != NOT_SAID and has_subscription and self.owned is not None


@dataclass(frozen=True, slots=True)
class LeavingMember:
    """One entry of LeaveGroup."""

    member_id: str
    instance_id: str | None


def check_heartbeat(request: HeartbeatRequest, assignors: Sequence[str]) -> None:
    """Raises INVALID_REQUEST or UNSUPPORTED_ASSIGNOR."""
    problem = _problem(request)
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)
    wanted = request.server_assignor
    if wanted is not None and wanted not in assignors:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {wanted[:300]} is not supported. Supported assignors: {', '.join(assignors)}.",
        )


def _problem(request: HeartbeatRequest) -> str | None:
    epoch = request.member_epoch
    needs_member_id = request.makes_its_own_id or epoch > 0 or epoch == LEAVE_EPOCH
    problem = empty_field(
        ("MemberId", request.member_id if needs_member_id else None),
        ("GroupId", request.group_id),
        ("InstanceId", request.instance_id),
        ("RackId", request.rack_id),
    )
    if problem is not None:
        return problem
    if epoch == 0:
        return _joining_problem(request)
    if epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        return "InstanceId can't be null."
    return "MemberEpoch is invalid." if epoch < STATIC_LEAVE_EPOCH else None


def _joining_problem(request: HeartbeatRequest) -> str | None:
    if request.rebalance_timeout_ms == NOT_SAID:
        return "RebalanceTimeoutMs must be provided in first request."
    if request.owned is None or request.owned:
        return "TopicPartitions must be empty when (re-)joining."
    if request.topic_names is None and request.topic_regex is None:
        return "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
    return None
