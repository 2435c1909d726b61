"""Members of streams groups (KIP-1071) as Kafka Streams plays them, heartbeat by heartbeat."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.streams_group_describe_request import StreamsGroupDescribeRequest
from oncelog.protocol.generated.streams_group_heartbeat_request import (
    CopartitionGroup,
    KeyValue,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from tests.clients.asking import request
from tests.clients.group_members import GROUP, REBALANCE_TIMEOUT_MS, TOPIC, Broker

ASSIGNMENT_INTERVAL_MS = 1_000
INITIAL_DELAY_MS = 3_000
STREAMS_SESSION_TIMEOUT_MS = 45_000
CHANGELOG, REPARTITION = "app-store-changelog", "app-count-repartition"
Roles = Mapping[str, Iterable[int]]

STATELESS = Topology(epoch=0, subtopologies=[Subtopology(subtopology_id="0", source_topics=[TOPIC])])
"""One subtopology that reads TOPIC."""
COUNTING = Topology(
    epoch=0,
    subtopologies=[
        Subtopology(subtopology_id="0", source_topics=[TOPIC], repartition_sink_topics=[REPARTITION]),
        Subtopology(
            subtopology_id="1",
            repartition_source_topics=[TopicInfo(name=REPARTITION)],
            state_changelog_topics=[
                TopicInfo(name=CHANGELOG, topic_configs=[KeyValue(key="cleanup.policy", value="compact")])
            ],
            copartition_groups=[CopartitionGroup(repartition_source_topics=[0])],
        ),
    ],
)
"""A word count: it reads TOPIC, and counts what comes back through a repartition topic."""


@dataclass
class Streams:
    """Remembers its epoch and its tasks; gives up revoked tasks at once, and reports that in the next heartbeat."""

    broker: Broker
    member_id: str = "one"
    group_id: str = GROUP
    process_id: str = ""
    topology: Any = field(default_factory=lambda: STATELESS)
    endpoint: Any = None
    rebalance_timeout_ms: int = REBALANCE_TIMEOUT_MS
    epoch: int = 0
    endpoint_epoch: int = -1
    active: dict[str, frozenset[int]] = field(default_factory=dict)
    standby: dict[str, frozenset[int]] = field(default_factory=dict)
    has_news: bool = True
    last: Any = None

    def send(self, **fields: Any) -> Any:
        """One StreamsGroupHeartbeat as it stands."""
        fields = {"member_epoch": self.epoch, "endpoint_information_epoch": self.endpoint_epoch, **fields}
        fields = {"group_id": self.group_id, "member_id": self.member_id, **fields}
        self.last = self.broker.ask(request("StreamsGroupHeartbeat", **fields), 0)
        return self.last

    def join(self, **fields: Any) -> ErrorCode:
        self.epoch, self.active, self.standby = 0, {}, {}
        return self._hear(self.send(**{**self.joining(), **fields}))

    def joining(self) -> dict[str, Any]:
        """The fields of a first heartbeat."""
        return {
            "rebalance_timeout_ms": self.rebalance_timeout_ms,
            "topology": self.topology,
            "process_id": self.process_id or self.member_id,
            "user_endpoint": self.endpoint,
            "client_tags": [],
            **self.reported(),
        }

    def reported(self) -> dict[str, Any]:
        return {"active_tasks": tasks(self.active), "standby_tasks": tasks(self.standby), "warmup_tasks": []}

    def heartbeat(self, **fields: Any) -> ErrorCode:
        """Report, with its tasks if they have changed since."""
        if self.epoch == 0:
            fields = {**self.joining(), **fields}
        elif self.has_news:
            fields = {**self.reported(), **fields}
        return self._hear(self.send(**fields))

    def leave(self, **fields: Any) -> ErrorCode:
        return ErrorCode(self.send(member_epoch=-1, **fields).error_code)

    def _hear(self, answer: Any) -> ErrorCode:
        error = ErrorCode(answer.error_code)
        self.has_news = False
        if error is ErrorCode.NONE:
            self.epoch, self.endpoint_epoch = answer.member_epoch, answer.endpoint_information_epoch
            if answer.active_tasks is not None:
                self.active = ids(answer.active_tasks)
                self.standby = ids(answer.standby_tasks)
                self.has_news = True
        return error

    @property
    def statuses(self) -> list[int]:
        """The status codes that the last answer had."""
        return [status.status_code for status in self.last.status]

    @property
    def partitions(self) -> list[int]:
        """The active tasks of its first subtopology."""
        return sorted(self.active.get("0", ()))


def tasks(roles: Roles) -> list[TaskIds]:
    return [TaskIds(subtopology_id=name, partitions=sorted(partitions)) for name, partitions in roles.items()]


def ids(entries: Sequence[Any]) -> dict[str, frozenset[int]]:
    return {entry.subtopology_id: frozenset(entry.partitions) for entry in entries}


def described(broker: Broker, group_id: str = GROUP) -> Any:
    return broker.ask(StreamsGroupDescribeRequest(group_ids=[group_id]), 0).groups[0]


def settle(broker: Broker, *members: Streams, rounds: int = 12) -> None:
    """Heartbeats of all, until the group is stable."""
    for _ in range(rounds):
        for member in members:
            member.heartbeat()
        if described(broker, members[0].group_id).group_state == "Stable":
            return
        broker.let_pass(INITIAL_DELAY_MS)
    raise AssertionError(f"{described(broker, members[0].group_id)} does not settle")
