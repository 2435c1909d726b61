"""What members ask of the coordinator and what they are told: the values between handlers and group.

Owns: the shapes, free of wire versions. Does not own: what follows from them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from oncelog.protocol.errors import ErrorCode

NO_GENERATION = -1
Protocol = tuple[str, bytes]
"""A name ("range") and what the member says under it (its subscription)."""


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """What a member asks for (JoinGroupRequest)."""

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


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """How the leader sees a member."""

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
class DescribedMember:
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


CLASSIC_TYPE, CONSUMER_TYPE = "classic", "consumer"


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group as tools see it."""

    group_id: str
    state: str
    protocol_type: str
    protocol_name: str = ""
    members: Sequence[DescribedMember] = ()
    group_type: str = CLASSIC_TYPE
