"""The heartbeat of a streams group's member and its result: the values between handlers and coordinator.

Owns: the shapes, independent of protocol versions, and what makes a heartbeat valid by itself, in Kafka's order and
wording. Does not own: what a group makes of it.

KIP-1071; what Kafka 4.3 does not support yet is rejected as there: static members, warm-up tasks, task offsets, and
regular expressions for source topics.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from oncelog.broker.coordinator.group.engine.errors import LEAVE_EPOCH, NOT_SAID, STATIC_LEAVE_EPOCH, empty_field
from oncelog.broker.coordinator.group.streams.internal_topics import InternalTopic, Status
from oncelog.broker.coordinator.group.streams.member import Endpoint
from oncelog.broker.coordinator.group.streams.tasks import TaskIds, Tasks, without_empty
from oncelog.broker.coordinator.group.streams.topology import Topology
from oncelog.protocol.errors import ErrorCode, KafkaError


@dataclass(frozen=True, slots=True)
class HeartbeatRequest:
    """StreamsGroupHeartbeat: None means "as before"."""

    group_id: str
    member_id: str
    member_epoch: int
    endpoint_epoch: int = 0
    """The version of the endpoints that the member knows."""
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = NOT_SAID
    topology: Topology | None = None
    active: TaskIds | None = None
    """A subtopology may be named without partitions, as the member has sent it; so below."""
    standby: TaskIds | None = None
    warmup: TaskIds | None = None
    process_id: str | None = None
    endpoint: Endpoint | None = None
    client_tags: Sequence[tuple[str, str]] | None = None
    has_task_offsets: bool = False
    has_task_end_offsets: bool = False
    shuts_down: bool = False
    client_id: str = ""
    client_host: str = ""

    @property
    def is_leaving(self) -> bool:
        return self.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH)

    @property
    def is_joining(self) -> bool:
        return self.member_epoch == 0

    @property
    def reported(self) -> Tasks | None:
        """The tasks that the member reports to have; None if it does not."""
        if self.active is None or self.standby is None or self.warmup is None:
            return None
        return Tasks(without_empty(self.active), without_empty(self.standby), without_empty(self.warmup))


@dataclass(frozen=True, slots=True)
class EndpointPartitions:
    """The partitions for which the process of a member answers queries."""

    endpoint: Endpoint
    active: Sequence[tuple[str, Sequence[int]]]
    standby: Sequence[tuple[str, Sequence[int]]]


@dataclass(frozen=True, slots=True)
class HeartbeatResult:
    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    statuses: Sequence[Status] = ()
    assignment: Tasks | None = None
    """The tasks; None if the member keeps what it has."""
    endpoint_epoch: int = 0
    endpoints: Sequence[EndpointPartitions] | None = None
    """The partitions of each endpoint; None if the member knows them."""
    missing_topics: Sequence[InternalTopic] = ()


def check_heartbeat(request: HeartbeatRequest) -> None:
    """Raises INVALID_REQUEST or STREAMS_INVALID_TOPOLOGY."""
    problem = _unsupported(request) or _problem(request)
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)
    if request.is_joining and request.topology is not None:
        _check_changelogs(request.topology)
    problem = _incomplete(request)
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)


def _unsupported(request: HeartbeatRequest) -> str | None:
    if request.instance_id is not None:
        return "Static membership is not yet supported."
    if request.has_task_offsets:
        return "TaskOffsets are not supported yet."
    if request.has_task_end_offsets:
        return "TaskEndOffsets are not supported yet."
    if request.warmup:
        return "WarmupTasks are not supported yet."
    if request.topology is not None and any(each.source_topic_regex for each in request.topology.subtopologies):
        return "Regular expressions for source topics are not supported yet."
    return None


def _problem(request: HeartbeatRequest) -> str | None:
    problem = empty_field(("MemberId", request.member_id), ("GroupId", request.group_id), ("RackId", request.rack_id))
    if problem is not None:
        return problem
    epoch = request.member_epoch
    if epoch == 0:
        return _joining_problem(request)
    if epoch == STATIC_LEAVE_EPOCH:
        return "InstanceId can't be null."
    if epoch < STATIC_LEAVE_EPOCH:
        return f"MemberEpoch is {epoch}, but must be greater than or equal to -2."
    return None


def _joining_problem(request: HeartbeatRequest) -> str | None:
    if request.rebalance_timeout_ms == NOT_SAID:
        return "RebalanceTimeoutMs must be provided in first request."
    named = (("ActiveTasks", request.active), ("StandbyTasks", request.standby), ("WarmupTasks", request.warmup))
    for name, tasks in named:
        if tasks is None or tasks:
            return f"{name} must be empty when (re-)joining."
    if request.topology is None:
        return "Topology must be non-null when (re-)joining."
    return None


def _check_changelogs(topology: Topology) -> None:
    for subtopology in topology.subtopologies:
        for topic in subtopology.state_changelog_topics:
            if topic.partition_count:
                raise KafkaError(
                    ErrorCode.STREAMS_INVALID_TOPOLOGY,
                    f"Changelog topic {topic.name} must have an undefined partition count, but it is set to "
                    f"{topic.partition_count}.",
                )


def _incomplete(request: HeartbeatRequest) -> str | None:
    tasks = (request.active, request.standby, request.warmup)
    if any(some is not None for some in tasks) and any(some is None for some in tasks):
        return "If one task-type is non-null, all must be non-null."
    if not request.is_joining and request.topology is not None:
        return "Topology can only be provided when (re-)joining."
    return None
