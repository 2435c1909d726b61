"""Members of a group as clients play them, request by request, in any version."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.message import Message
from tests.clients.asking import Reply, one_partition, request
from tests.fakes.broker import VirtualBroker

SESSION_TIMEOUT_MS = 10_000
REBALANCE_TIMEOUT_MS = 60_000
GROUP = "group"
TOPIC = "topic"


class Broker(Protocol):
    """Whom one can ask: a broker in virtual time, or one behind a socket."""

    def send(self, request: Message, version: int, *, client_id: str = "client") -> Reply: ...

    def ask(self, request: Message, version: int) -> Any: ...

    def let_pass(self, delay_ms: int) -> None: ...


def started(*overrides: str, topics: Sequence[str] = (TOPIC,), partition_count: int = 4) -> VirtualBroker:
    """A broker with topics, and with `__consumer_offsets`."""
    broker = VirtualBroker(*overrides)
    broker.ask(request("CreateTopics", topics=[(name, partition_count, 1) for name in topics], timeout_ms=1000), 5)
    broker.ask(request("FindCoordinator", key=GROUP), 1)
    broker.ask(request("FindCoordinator", key="transactional", key_type=1), 1)
    return broker


@dataclass
class Member:
    """One client in a group: remembers its responses, as clients do."""

    broker: Broker
    name: str = "client"
    group_id: str = GROUP
    group_instance_id: str | None = None
    protocols: Sequence[tuple[str, bytes]] = (("range", b"subscription"),)
    session_timeout_ms: int = SESSION_TIMEOUT_MS
    rebalance_timeout_ms: int = REBALANCE_TIMEOUT_MS
    protocol_type: str = "consumer"
    join_version: int = 7
    member_id: str = ""
    generation_id: int = -1
    leader_id: str = ""
    joined: Reply | None = None

    @property
    def is_leader(self) -> bool:
        return bool(self.member_id) and self.leader_id == self.member_id

    def join_request(self) -> Any:
        return request(
            "JoinGroup",
            group_id=self.group_id,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            protocol_type=self.protocol_type,
            protocols=self.protocols,
        )

    def send_join(self) -> Reply:
        """One JoinGroup, as it stands."""
        self.joined = self.broker.send(self.join_request(), self.join_version, client_id=self.name)
        return self.joined

    def join(self) -> Reply:
        """Join, with the id that was asked for if one was."""
        reply = self.send_join()
        if reply.is_there and reply.message.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = reply.message.member_id
            reply = self.send_join()
        return reply

    def learn(self) -> Any:
        """Return the response to the join; the member keeps its id, generation and leader."""
        if self.joined is None:
            raise AssertionError("it has not joined")
        message = self.joined.message
        if message.error_code == ErrorCode.NONE:
            self.member_id = message.member_id
            self.generation_id = message.generation_id
            self.leader_id = message.leader
        return message

    @property
    def _identity(self) -> dict[str, Any]:
        """How the member names itself in its generation."""
        who = {"member_id": self.member_id, "group_instance_id": self.group_instance_id}
        return {"group_id": self.group_id, "generation_id": self.generation_id, **who}

    def sync_request(self, assignments: Mapping[str, bytes] | None = None) -> Any:
        return request("SyncGroup", assignments=list((assignments or {}).items()), **self._identity)

    def sync(self, assignments: Mapping[str, bytes] | None = None) -> Reply:
        return self.broker.send(self.sync_request(assignments), 3)

    def heartbeat(self) -> ErrorCode:
        return ErrorCode(self.broker.ask(request("Heartbeat", **self._identity), 3).error_code)

    def leave(self) -> ErrorCode:
        members = [(self.member_id, self.group_instance_id)]
        answer = self.broker.ask(request("LeaveGroup", group_id=self.group_id, members=members), 3)
        return ErrorCode(answer.members[0].error_code)

    def commit(self, offset: int, partition: int = 0, *, metadata: str = "", version: int = 8) -> ErrorCode:
        return commit(
            self.broker,
            offset,
            partition,
            metadata=metadata,
            version=version,
            **self._identity,
        )


def form(*members: Member) -> None:
    """Bring members into one stable generation; the leader gives each its own name."""
    for member in members:
        member.join()
    for member in members:  # members that joined before the last one are asked to join again
        if member.joined is not None and member.joined.is_there and not _is_current(member, members):
            member.learn()
            member.join()
    for member in members:
        member.learn()
    assert len({member.generation_id for member in members}) == 1
    leader = next(member for member in members if member.is_leader)
    replies = [member.sync() for member in members if member is not leader]
    replies.append(leader.sync({member.member_id: member.name.encode() for member in members}))
    for reply in replies:
        assert reply.message.error_code == ErrorCode.NONE


def _is_current(member: Member, members: Sequence[Member]) -> bool:
    return all(other.joined is not None and other.joined.is_there for other in members) and not describe(
        member.broker, member.group_id
    ).group_state.startswith("Preparing")


def commit(
    broker: Broker,
    offset: int,
    partition: int = 0,
    *,
    topic: str = TOPIC,
    metadata: str | None = "",
    version: int = 8,
    group_id: str = GROUP,
    generation_id: int = -1,
    **member: Any,
) -> ErrorCode:
    """OffsetCommit of one partition, of a member if there is one."""
    topics = one_partition(topic, partition, committed_offset=offset, committed_metadata=metadata)
    asked = request(
        "OffsetCommit",
        group_id=group_id,
        generation_id_or_member_epoch=generation_id,
        topics=topics,
        **member,
    )
    return ErrorCode(broker.ask(asked, version).topics[0].partitions[0].error_code)


def fetch(
    broker: Broker,
    partition: int = 0,
    *,
    topic: str = TOPIC,
    group_id: str = GROUP,
    require_stable: bool = False,
) -> tuple[int, ErrorCode]:
    """OffsetFetch of one partition: offset and error."""
    topics = [(topic, [partition])]
    answer = broker.ask(request("OffsetFetch", group_id=group_id, topics=topics, require_stable=require_stable), 7)
    assert answer.error_code == ErrorCode.NONE
    entry = answer.topics[0].partitions[0]
    return entry.committed_offset, ErrorCode(entry.error_code)


def describe(broker: Broker, group_id: str = GROUP) -> Any:
    """DescribeGroups of one group."""
    return broker.ask(request("DescribeGroups", groups=[group_id]), 5).groups[0]


def state_of(broker: Broker, group_id: str = GROUP) -> str:
    state: str = describe(broker, group_id).group_state
    return state
