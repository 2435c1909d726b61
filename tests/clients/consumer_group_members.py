"""Members of consumer groups (KIP-848) as clients play them, heartbeat by heartbeat."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from oncelog.protocol.errors import ErrorCode
from tests.clients.asking import request
from tests.clients.group_members import GROUP, REBALANCE_TIMEOUT_MS, TOPIC, Broker

ASSIGNMENT_INTERVAL_MS = 1_000
CONSUMER_SESSION_TIMEOUT_MS = 45_000


@dataclass
class Consumer:
    """Remembers its epoch and what it owns; gives up revoked partitions at once, and reports that in the next
    heartbeat.
    """

    broker: Broker
    member_id: str = "one"
    group_id: str = GROUP
    instance_id: str | None = None
    topics: Sequence[str] | None = (TOPIC,)
    regex: str | None = None
    assignor: str | None = None
    rebalance_timeout_ms: int = REBALANCE_TIMEOUT_MS
    epoch: int = 0
    owned: dict[UUID, frozenset[int]] = field(default_factory=dict)
    has_news: bool = True
    must_say_all: bool = False
    """An answer was lost: the next heartbeat says everything, so that the answer does too."""
    last: Any = None

    def send(self, **fields: Any) -> Any:
        """One ConsumerGroupHeartbeat as it stands."""
        version = fields.pop("version", 1)
        fields = {"member_epoch": self.epoch, "instance_id": self.instance_id, **fields}
        asked = {"group_id": self.group_id, "member_id": self.member_id, **fields}
        self.last = self.broker.ask(request("ConsumerGroupHeartbeat", **asked), version)
        return self.last

    def join(self, **fields: Any) -> ErrorCode:
        self.epoch, self.owned = 0, {}
        return self._hear(self.send(**{**self._everything(), **fields}))

    def _everything(self) -> dict[str, Any]:
        return {
            "rebalance_timeout_ms": self.rebalance_timeout_ms,
            "subscribed_topic_names": self.topics,
            "subscribed_topic_regex": self.regex,
            "server_assignor": self.assignor,
            **self.reported(),
        }

    def reported(self) -> dict[str, Any]:
        return {"topic_partitions": [(topic_id, sorted(numbers)) for topic_id, numbers in self.owned.items()]}

    def heartbeat(self, **fields: Any) -> ErrorCode:
        """Report, with what it owns if that has changed since."""
        if self.must_say_all:
            fields = {**self._everything(), **fields}
        elif self.has_news:
            fields = {**self.reported(), **fields}
        return self._hear(self.send(**fields))

    def leave(self, epoch: int = -1) -> ErrorCode:
        return ErrorCode(self.send(member_epoch=epoch).error_code)

    def _hear(self, answer: Any) -> ErrorCode:
        error = ErrorCode(answer.error_code)
        self.has_news = self.must_say_all = False
        if error is ErrorCode.NONE:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.owned = {
                    entry.topic_id: frozenset(entry.partitions) for entry in answer.assignment.topic_partitions
                }
                self.has_news = True
        return error

    @property
    def partitions(self) -> list[int]:
        """The partitions that it owns of the only topic that it reads."""
        return sorted(number for numbers in self.owned.values() for number in numbers)


def topic_id(broker: Broker, name: str = TOPIC) -> UUID:
    answer = broker.ask(request("Metadata", topics=[{"name": name}]), 12)
    found: UUID = answer.topics[0].topic_id
    return found


def described(broker: Broker, group_id: str = GROUP) -> Any:
    return broker.ask(request("ConsumerGroupDescribe", group_ids=[group_id]), 1).groups[0]


def settle(broker: Broker, *members: Consumer, rounds: int = 12) -> None:
    """Heartbeats of all, until the group is stable."""
    for _ in range(rounds):
        for member in members:
            member.heartbeat()
        if described(broker, members[0].group_id).group_state == "Stable":
            return
        broker.let_pass(ASSIGNMENT_INTERVAL_MS)
    raise AssertionError(f"{described(broker, members[0].group_id)} does not settle")
