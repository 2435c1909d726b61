"""The requests of members and their results: the values between handlers and coordinator.

Owns: the shapes that more than one type of group has, independent of protocol versions: a consumer group answers
classic members, too. Does not own: the decisions about them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from oncelog.broker.coordinator.group.assignors.subscriber import TopicPartitions
from oncelog.protocol.errors import ErrorCode

NO_GENERATION = -1
Protocol = tuple[str, bytes]
"""A protocol's name ("range") and the member's metadata for it (its subscription)."""
TopicFilter = Callable[[str], bool]
"""Whether a member may know of a topic."""


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """A member's JoinGroupRequest."""

    group_id: str
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Sequence[Protocol]
    requires_known_member_id: bool
    supports_skip_assignment: bool = False
    may_describe: TopicFilter | None = None


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """A member as the leader sees it."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinResult:
    error: ErrorCode = ErrorCode.NONE
    member_id: str = ""
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str = ""
    members: Sequence[JoinedMember] = ()
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True)
class SyncResult:
    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class HeartbeatResult:
    """The result of a heartbeat of a consumer or share group's member."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assignment: TopicPartitions | None = None
    """The assignment; None if the member keeps what it has."""


@dataclass(frozen=True, slots=True)
class DescribedMember:
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


CLASSIC_TYPE, CONSUMER_TYPE, SHARE_TYPE, STREAMS_TYPE = "classic", "consumer", "share", "streams"


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group as tools show it."""

    group_id: str
    state: str
    protocol_type: str
    protocol_name: str = ""
    members: Sequence[DescribedMember] = ()
    group_type: str = CLASSIC_TYPE
