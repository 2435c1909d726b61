"""The members of one classic group while the broker runs: who has joined, who waits, and the current generation.

Owns: the volatile state of a group; after a restart, only what the last logged generation contains. Does not own:
offsets and logged generations (`shard`), when a rebalance begins and ends (`rebalance`), time.
Invariants: the leader is a member; an instance id has one member; every waiting completion is completed exactly once;
generations only increase.

KIPs: 345 (static members), 394 (pending members).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from oncelog.broker.coordinator.group.classic.states import GroupState, check_transition
from oncelog.broker.coordinator.group.engine.deadline import Deadline
from oncelog.broker.coordinator.group.engine.requests import (
    DescribedMember,
    GroupDescription,
    JoinedMember,
    JoinRequest,
    JoinResult,
    Protocol,
    SyncResult,
)
from oncelog.broker.coordinator.group.engine.subscription import CONSUMER, read_subscription
from oncelog.broker.coordinator.group.records import StoredGroup, StoredMember
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import WallMs
from oncelog.protocol.errors import ErrorCode


@dataclass(slots=True, eq=False)
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
    owes_sync: bool = False
    """True if the member knows of a generation and has not requested its assignment yet."""
    is_new: bool = False
    """True if the member has not received any generation yet."""
    session: Deadline | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether one of the member's requests is held here, so that its connection cannot carry heartbeats."""
        return self.join_waiter is not None or self.sync_waiter is not None

    def metadata_for(self, protocol_name: str | None) -> bytes:
        return next((metadata for name, metadata in self.protocols if name == protocol_name), b"")

    def update(self, request: JoinRequest) -> None:
        self.protocols = request.protocols
        self.rebalance_timeout_ms = request.rebalance_timeout_ms
        self.session_timeout_ms = request.session_timeout_ms

    def end_session(self) -> None:
        """Stop the session of one that is no longer a member."""
        if self.session is not None:
            self.session.clear()
            self.session = None  # it refers to the member and would keep it alive

    def answer_join(self, result: JoinResult) -> None:
        waiter, self.join_waiter = self.join_waiter, None
        if waiter is not None:
            waiter.complete(result)

    def answer_sync(self, result: SyncResult) -> None:
        waiter, self.sync_waiter = self.sync_waiter, None
        if waiter is not None:
            waiter.complete(result)


def member_from(member_id: str, request: JoinRequest, assignment: bytes = b"") -> Member:
    return Member(
        member_id,
        request.group_instance_id,
        request.client_id,
        request.client_host,
        request.rebalance_timeout_ms,
        request.session_timeout_ms,
        request.protocols,
        assignment,
    )


@dataclass(slots=True, eq=False)
class Group:
    group_id: str
    state: GroupState = GroupState.EMPTY
    generation_id: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    pending_members: dict[str, Deadline] = field(default_factory=dict)
    """The ids returned with MEMBER_ID_REQUIRED that have not joined yet."""
    collects: bool | None = None
    """True if a member has joined since the wait for the first members was last extended; None without such a wait."""
    rebalance: Deadline | None = None
    """The deadline for members to rejoin, and then for the new generation to request its assignment."""

    def move_to(self, state: GroupState) -> None:
        check_transition(self.state, state)
        self.state = state

    # --- members ------------------------------------------------------------------------------------------------------

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
        member.end_session()
        if member.group_instance_id is not None and self.static_members.get(member.group_instance_id) == member_id:
            del self.static_members[member.group_instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        return member

    def replace_static(self, previous: Member, member: Member) -> None:
        """Put the same instance under a new member id in the place of the old one."""
        is_leader = self.leader_id == previous.member_id
        order = [member if other is previous else other for other in self.members.values()]
        previous.end_session()
        self.members = {other.member_id: other for other in order}
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        if is_leader:
            self.leader_id = member.member_id

    def remove_pending(self, member_id: str) -> bool:
        pending = self.pending_members.pop(member_id, None)
        if pending is not None:
            pending.clear()
        return pending is not None

    def check_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Return UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID when another member holds the instance id (KIP-345); NONE for
        a member."""
        if group_instance_id is not None:
            owner = self.static_members.get(group_instance_id)
            if owner is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if owner != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def has_room_for(self, member_id: str, max_size: int) -> bool:
        """Whether another member fits. During a rebalance only members that have rejoined count: a group over its new
        limit keeps the first ones."""
        member = self.members.get(member_id)
        match self.state:
            case GroupState.EMPTY | GroupState.DEAD:
                return True
            case GroupState.PREPARING_REBALANCE:
                waiting_count = sum(other.join_waiter is not None for other in self.members.values())
                return (member is not None and member.join_waiter is not None) or waiting_count < max_size
            case _:
                return member is not None or len(self.members) < max_size

    # --- rebalance ----------------------------------------------------------------------------------------------------

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def has_all_joined(self) -> bool:
        return not self.pending_members and all(member.join_waiter is not None for member in self.members.values())

    def elect_joined_leader(self) -> bool:
        """Elect a leader among the members that have rejoined; return False if there is none."""
        leader = self.members.get(self.leader_id or "")
        if leader is None or leader.join_waiter is None:
            leader = next((member for member in self.members.values() if member.join_waiter), None)
            if leader is None:
                return False
            self.leader_id = leader.member_id
        return True

    def accepts(self, request: JoinRequest) -> bool:
        """Whether the request shares a protocol with all members, its own earlier metadata included."""
        if not request.protocol_type or not request.protocols:
            return False
        if not self.members:
            return True
        if request.protocol_type != self.protocol_type:
            return False
        return not {name for name, _ in request.protocols}.isdisjoint(_common_protocols(self.members.values()))

    def elect_protocol(self) -> str:
        """Return the protocol with the most votes: each member votes for the first common one on its list; ties go to
        the one named first."""
        votes = dict.fromkeys(_common_protocols(self.members.values()), 0)
        for member in self.members.values():
            favourite = next(name for name, _ in member.protocols if name in votes)
            votes[favourite] += 1
        return max(votes, key=lambda name: votes[name])

    # --- answers ------------------------------------------------------------------------------------------------------

    def join_result(self, member_id: str) -> JoinResult:
        """Return the response to a member of the current generation; the leader's lists the members."""
        return JoinResult(
            member_id=member_id,
            generation_id=self.generation_id,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader_id=self.leader_id or "",
            members=self.seen_by_leader() if member_id == self.leader_id else (),
        )

    def seen_by_leader(self) -> Sequence[JoinedMember]:
        return tuple(
            JoinedMember(member.member_id, member.group_instance_id, member.metadata_for(self.protocol_name))
            for member in self.members.values()
        )

    def sync_result(self, member: Member) -> SyncResult:
        return SyncResult(
            protocol_type=self.protocol_type, protocol_name=self.protocol_name, assignment=member.assignment
        )

    def description(self) -> GroupDescription:
        """Describe the group. Outside Stable there is no agreed protocol, and so no metadata to show."""
        is_stable = self.state is GroupState.STABLE
        return GroupDescription(
            self.group_id,
            self.state.value,
            self.protocol_type or "",
            (self.protocol_name or "") if is_stable else "",
            [
                DescribedMember(
                    member.member_id,
                    member.group_instance_id,
                    member.client_id,
                    member.client_host,
                    member.metadata_for(self.protocol_name) if is_stable else b"",
                    member.assignment,
                )
                for member in self.members.values()
            ],
        )

    @property
    def is_empty(self) -> bool:
        return self.state is GroupState.EMPTY

    @property
    def topics(self) -> frozenset[str] | None:
        """Every topic that a member subscribes to; None if the group is not one of consumers, or it cannot be
        decoded."""
        if self.protocol_type != CONSUMER:
            return None
        topics: set[str] = set()
        for member in self.members.values():
            for _, metadata in member.protocols:
                subscription = read_subscription(metadata)
                if subscription is None:
                    return None
                topics.update(subscription.topics)
        return frozenset(topics)

    def to_stored(self, assignments: Mapping[str, bytes], wall_ms: WallMs) -> StoredGroup:
        """Return the generation in the form in which it is logged, with the assignment of each member."""
        return StoredGroup(
            self.protocol_type or "",
            self.generation_id,
            self.protocol_name,
            self.leader_id,
            wall_ms,
            tuple(
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
            ),
        )


def _common_protocols(members: Collection[Member]) -> Iterable[str]:
    """Return the protocols that every member supports, in the first member's order."""
    known = [{name for name, _ in member.protocols} for member in members]
    first = next(iter(members))
    return [name for name, _ in first.protocols if all(name in names for names in known)]


def restore_group(group_id: str, stored: StoredGroup) -> Group:
    """Restore the group as last logged: stable if it had members, with the one protocol that was chosen."""
    group = Group(
        group_id,
        state=GroupState.STABLE if stored.members else GroupState.EMPTY,
        generation_id=stored.generation_id,
        protocol_name=stored.protocol_name,
    )
    for entry in stored.members:
        member = Member(
            entry.member_id,
            entry.group_instance_id,
            entry.client_id,
            entry.client_host,
            # Version 0 of the record does not store it.
            entry.rebalance_timeout_ms if entry.rebalance_timeout_ms >= 0 else entry.session_timeout_ms,
            entry.session_timeout_ms,
            ((stored.protocol_name or "", entry.subscription),),
            entry.assignment,
        )
        group.add(member, stored.protocol_type)
    group.protocol_type = stored.protocol_type or None
    group.leader_id = stored.leader_id if stored.leader_id in group.members else group.leader_id
    return group
