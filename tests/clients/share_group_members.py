"""Members of share groups (KIP-932) as clients play them, heartbeat by heartbeat."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from oncelog.protocol.generated.share_group_describe_request import ShareGroupDescribeRequest
from oncelog.protocol.generated.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from tests.clients.group_members import GROUP, TOPIC, Broker

ASSIGNMENT_INTERVAL_MS = 1_000
SHARE_SESSION_TIMEOUT_MS = 45_000


@dataclass
class ShareMember:
    """Remembers its epoch and what it is assigned."""

    broker: Broker
    member_id: str = "one"
    group_id: str = GROUP
    topics: Sequence[str] = (TOPIC,)
    epoch: int = 0
    assigned: dict[UUID, frozenset[int]] = field(default_factory=dict)
    last: Any = None

    def send(self, **fields: Any) -> Any:
        """One ShareGroupHeartbeat as it stands."""
        fields = {"group_id": self.group_id, "member_id": self.member_id, "member_epoch": self.epoch, **fields}
        self.last = self.broker.ask(ShareGroupHeartbeatRequest(**fields), 1)
        return self.last

    def join(self, **fields: Any) -> ErrorCode:
        self.epoch, self.assigned = 0, {}
        return self._hear(self.send(**{"subscribed_topic_names": self.topics, **fields}))

    def heartbeat(self, **fields: Any) -> ErrorCode:
        return self._hear(self.send(**fields))

    def leave(self) -> ErrorCode:
        return ErrorCode(self.send(member_epoch=-1).error_code)

    def _hear(self, answer: Any) -> ErrorCode:
        error = ErrorCode(answer.error_code)
        if error is ErrorCode.NONE:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.assigned = {
                    entry.topic_id: frozenset(entry.partitions) for entry in answer.assignment.topic_partitions
                }
        return error

    @property
    def partitions(self) -> list[int]:
        """The assigned partitions of the only topic that it reads."""
        return sorted(number for numbers in self.assigned.values() for number in numbers)


def described(broker: Broker, group_id: str = GROUP) -> Any:
    return broker.ask(ShareGroupDescribeRequest(group_ids=[group_id]), 1).groups[0]


def settle(broker: Broker, *members: ShareMember, rounds: int = 12) -> None:
    """Heartbeats of all, until nothing changes any more."""
    before = ""
    for _ in range(rounds):
        for member in members:
            member.heartbeat()
        now = repr(described(broker, members[0].group_id))
        if now == before:
            return
        before = now
        broker.let_pass(ASSIGNMENT_INTERVAL_MS)
    raise AssertionError(f"{before} does not settle")


def offsets(broker: Broker, group_id: str = GROUP, topics: Any = None) -> Any:
    group = DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=topics)
    return broker.ask(DescribeShareGroupOffsetsRequest(groups=[group]), 1).groups[0]


def start_offsets(broker: Broker, group_id: str = GROUP) -> dict[str, dict[int, int]]:
    """Where the group begins, by topic and partition; -1 where it has not begun."""
    topics = offsets(broker, group_id).topics
    return {each.topic_name: {row.partition_index: row.start_offset for row in each.partitions} for each in topics}
