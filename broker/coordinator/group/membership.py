"""The members of one classic group while the broker runs: who is in, who waits, which generation it is.

Owns: the volatile side of a group, empty after a restart but for what the last logged generation says. Does not own:
offsets and logged generations (`shard`), timers and logging (`coordinator`).
Invariants: the leader is a member; every waiting completion is answered exactly once; generations only rise.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from broker.completion import Completion
from broker.coordinator.group.records import StoredGroup, StoredMember
from broker.coordinator.group.states import GroupState, check_transition
from broker.ports import Timer
from protocol.errors import ErrorCode

NO_GENERATION = -1
Protocol = tuple[str, bytes]


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


@dataclass(frozen=True, slots=True)
class SyncResult:
    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(slots=True)
class Member:
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Sequence[Protocol]
    assignment: bytes = b""
    join_waiter: Completion[JoinResult] | None = None
    sync_waiter: Completion[SyncResult] | None = None
    session_deadline_ms: int = 0
    session_timer: Timer | None = None

    def metadata_for(self, protocol_name: str | None) -> bytes:
        return next((metadata for name, metadata in self.protocols if name == protocol_name), b"")

    def answer_join(self, result: JoinResult) -> None:
        waiter, self.join_waiter = self.join_waiter, None
        if waiter is not None:
            waiter.complete(result)

    def answer_sync(self, result: SyncResult) -> None:
        waiter, self.sync_waiter = self.sync_waiter, None
        if waiter is not None:
            waiter.complete(result)


@dataclass(slots=True)
class Group:
    group_id: str
    state: GroupState = GroupState.EMPTY
    generation_id: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    pending_members: dict[str, Timer] = field(default_factory=dict)
    """Ids given out with MEMBER_ID_REQUIRED whose owners have not come back yet."""
    rebalance_timer: Timer | None = None
    is_waiting_for_first_members: bool = False

    def move_to(self, state: GroupState) -> None:
        check_transition(self.state, state)
        self.state = state

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def has_all_joined(self) -> bool:
        return not self.pending_members and all(member.join_waiter for member in self.members.values())

    def accepts(self, protocol_type: str, protocols: Sequence[Protocol]) -> bool:
        """Is there a protocol that this member and everybody else knows?"""
        if not protocol_type or not protocols:
            return False
        if not self.members:
            return True
        names = {name for name, _ in protocols}
        return protocol_type == self.protocol_type and any(name in names for name in self._common_protocols())

    def _common_protocols(self) -> list[str]:
        """Protocols that every member knows, in the first member's order."""
        members = list(self.members.values())
        if not members:
            return []
        return [
            name
            for name, _ in members[0].protocols
            if all(any(name == other for other, _ in member.protocols) for member in members[1:])
        ]

    def elect_protocol(self) -> str:
        """Each member votes for the first common protocol on its list; ties go to the one named first."""
        common = self._common_protocols()
        votes = dict.fromkeys(common, 0)
        for member in self.members.values():
            favourite = next(name for name, _ in member.protocols if name in votes)
            votes[favourite] += 1
        return max(common, key=lambda name: votes[name])

    def add(self, member: Member, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id

    def remove(self, member_id: str) -> Member | None:
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        if member.session_timer is not None:
            member.session_timer.cancel()
        if member.group_instance_id is not None and self.static_members.get(member.group_instance_id) == member_id:
            del self.static_members[member.group_instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        return member

    def check_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID when another member holds the instance id (KIP-345)."""
        if group_instance_id is not None:
            owner = self.static_members.get(group_instance_id)
            if owner is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if owner != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def joined(self, member_id: str, leader_id: str | None = None) -> JoinResult:
        """The answer to a member of the current generation; the leader is told who is in."""
        leader = self.leader_id if leader_id is None else leader_id
        members: Iterable[JoinedMember] = ()
        if member_id == leader:
            members = (
                JoinedMember(other.member_id, other.group_instance_id, other.metadata_for(self.protocol_name))
                for other in self.members.values()
            )
        return JoinResult(
            member_id=member_id,
            generation_id=self.generation_id,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader_id=leader or "",
            members=tuple(members),
        )

    def synced(self, member: Member) -> SyncResult:
        return SyncResult(
            protocol_type=self.protocol_type, protocol_name=self.protocol_name, assignment=member.assignment
        )

    def stored(self, assignments: dict[str, bytes], now_ms: int) -> StoredGroup:
        """The generation as it is logged, with the assignment of each member."""
        return StoredGroup(
            self.protocol_type or "",
            self.generation_id,
            self.protocol_name,
            self.leader_id,
            now_ms,
            [
                StoredMember(
                    member.member_id,
                    member.group_instance_id,
                    member.client_id,
                    member.client_host,
                    member.rebalance_timeout_ms,
                    member.session_timeout_ms,
                    member.metadata_for(self.protocol_name),
                    assignments.get(member.member_id, b""),
                )
                for member in self.members.values()
            ],
        )


def restored(group_id: str, stored: StoredGroup) -> Group:
    """The group as the log last told it: stable if it had members, with the one protocol that was chosen."""
    group = Group(
        group_id,
        state=GroupState.STABLE if stored.members else GroupState.EMPTY,
        generation_id=stored.generation_id,
        protocol_type=stored.protocol_type or None,
        protocol_name=stored.protocol_name,
        leader_id=stored.leader_id,
    )
    for entry in stored.members:
        member = Member(
            entry.member_id,
            entry.group_instance_id,
            entry.client_id,
            entry.client_host,
            entry.rebalance_timeout_ms,
            entry.session_timeout_ms,
            ((stored.protocol_name or "", entry.subscription),),
            entry.assignment,
        )
        group.members[member.member_id] = member
        if member.group_instance_id is not None:
            group.static_members[member.group_instance_id] = member.member_id
    return group
