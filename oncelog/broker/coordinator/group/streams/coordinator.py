"""The coordinator of streams groups: checks each heartbeat, and decides what follows from it (KIP-1071).

Owns: the checks of StreamsGroupHeartbeat in Kafka's order, joining, leaving, fencing, and the delay before the first
assignment. Does not own: the steps of a change (`update`), what topics must be like (`internal_topics`), who creates
them (`handlers.streams_group_heartbeat`).
Invariants
- A response to a member contains only durable state.
- A decision that could not be logged starts or stops no timer, and is not remembered in any other way.
"""

from dataclasses import dataclass
from typing import TypeVar

from oncelog.broker.config.group_settings import GroupSettings, StreamsGroupConfig
from oncelog.broker.coordinator.group.engine.errors import NOT_SAID, fenced, group_is_full, unknown_member
from oncelog.broker.coordinator.group.engine.shard_life import GroupShardLife
from oncelog.broker.coordinator.group.engine.topics import TopicCatalog, metadata_hash
from oncelog.broker.coordinator.group.engine.writer import Decision, Follow, GroupWriter
from oncelog.broker.coordinator.group.records import group_record
from oncelog.broker.coordinator.group.streams.endpoints import endpoints_of
from oncelog.broker.coordinator.group.streams.group import StreamsGroup
from oncelog.broker.coordinator.group.streams.heartbeat import HeartbeatRequest, HeartbeatResult, check_heartbeat
from oncelog.broker.coordinator.group.streams.internal_topics import (
    ConfiguredTopology,
    Status,
    StatusCode,
    configure,
)
from oncelog.broker.coordinator.group.streams.kind import STREAMS_GROUPS
from oncelog.broker.coordinator.group.streams.life import StreamsGroupLife
from oncelog.broker.coordinator.group.streams.member import MemberMetadata, StreamsMember
from oncelog.broker.coordinator.group.streams.tasks import NO_TASKS, Tasks
from oncelog.broker.coordinator.group.streams.topology import Topology
from oncelog.broker.coordinator.group.streams.update import STANDBY_REPLICAS, StreamsSteps
from oncelog.broker.coordinator.runtime import CoordinatorRuntime
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Clock, Scheduler
from oncelog.protocol.errors import ErrorCode, KafkaError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DescribedStreamsGroup:
    group: StreamsGroup
    configured: ConfiguredTopology | None
    """The topology with the topics that it needs; None while there is no topology, or one that no topics fit."""


class StreamsGroupCoordinator:
    def __init__(
        self,
        runtime: CoordinatorRuntime[GroupShardLife],
        clock: Clock,
        scheduler: Scheduler,
        topics: TopicCatalog,
        settings: GroupSettings[StreamsGroupConfig],
    ) -> None:
        self._runtime = runtime
        self._clock = clock
        self._scheduler = scheduler
        self._topics = topics
        self._settings = settings
        self._writer = GroupWriter[StreamsGroup](STREAMS_GROUPS, runtime, clock, settings)

    @property
    def is_enabled(self) -> bool:
        return self._settings.is_enabled

    def describe(self, group_id: str) -> Completion[DescribedStreamsGroup]:
        """The group, once everything shown is durable. Fails with GROUP_ID_NOT_FOUND."""
        return self._runtime.read(group_id, lambda life: self._described(life, group_id))

    def _described(self, life: GroupShardLife, group_id: str) -> DescribedStreamsGroup:
        group = self._writer.existing(life, group_id).copy()
        try:
            configured = None if group.topology is None else configure(group.topology, self._topics)
        except KafkaError:
            configured = None
        return DescribedStreamsGroup(group, configured)

    # --- heartbeats ---------------------------------------------------------------------------------------------------

    def heartbeat(self, request: HeartbeatRequest) -> Completion[HeartbeatResult]:
        """StreamsGroupHeartbeat: a member reports, joins or leaves. Fails with KafkaError."""
        try:
            if not self._settings.is_enabled:
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
            check_heartbeat(request)
            decide = self._decide_leave if request.is_leaving else self._decide_heartbeat
            return self._writer.write(request.group_id, lambda life: decide(life, request))
        except KafkaError as error:
            return Completion.failed(error)

    def _decide_heartbeat(self, life: GroupShardLife, request: HeartbeatRequest) -> Decision[HeartbeatResult]:
        group_id, member_id = request.group_id, request.member_id
        config = self._settings.of(group_id)
        steps, then = self._begin(life, request)
        known = steps.update.group
        before = self._find_member(known, request)
        soft = _soft(life, group_id) or self._new_life(life, group_id)
        must_bump = steps.describe_member(member_id, _to_metadata(before, request))
        statuses = _stale_topology(known.topology, steps.update.group.members[member_id].metadata)
        configured = self._settle_topics(life, soft, steps, request, must_bump=must_bump)
        delay_ms = 0 if known.members else config.initial_rebalance_delay_ms
        target = NO_TASKS
        if soft.is_delayed or delay_ms > 0:
            statuses.append(_delayed("initial rebalance delay"))
            then.append(lambda: soft.delay(delay_ms))
        else:
            if not steps.maybe_assign(config.assignment_interval_ms, configured):
                statuses.append(_delayed("assignment interval"))
            target = steps.update.group.target_of(member_id)
        member = steps.reconcile(member_id, target, request.reported)
        if configured.problem is not None:
            statuses.append(configured.problem)
        requested_by = soft.shutdown_requested_by or (member_id if request.shuts_down else None)
        if requested_by is not None:
            statuses.append(_shutdown(requested_by))
        has_new_tasks = before is None or before.current.assigned != member.current.assigned
        includes_assignment = request.is_joining or has_new_tasks
        endpoint_epoch = soft.endpoint_epoch + (includes_assignment and member.metadata.endpoint is not None)
        endpoints = None
        if endpoint_epoch != request.endpoint_epoch:
            others = [other for other in steps.update.group.members.values() if other.member_id != member_id]
            endpoints = endpoints_of([*others, member], configured, self._topics)
        if life.shard.modern_group(group_id) is None:
            endpoint_epoch = 0  # as in Kafka: a new group has no version yet
        then.append(lambda: self._writer.start_session(life, group_id, member))
        then.append(lambda: self._remember(life, soft, request, configured, requested_by, endpoint_epoch))
        return Decision(
            steps.update,
            HeartbeatResult(
                member_id,
                member.epoch,
                config.heartbeat_interval_ms,
                statuses,
                _without_epochs(member) if includes_assignment else None,
                endpoint_epoch,
                endpoints,
                configured.missing,
            ),
            then,
        )

    def _settle_topics(
        self,
        life: GroupShardLife,
        soft: StreamsGroupLife,
        steps: StreamsSteps,
        request: HeartbeatRequest,
        *,
        must_bump: bool,
    ) -> ConfiguredTopology:
        """Return what the topics must be like; begin a new group epoch if something that counts has changed."""
        topology = steps.settle_topology(request.topology)
        configured = soft.configured
        known_hash = steps.update.group.group_epoch.metadata_hash
        if configured is None or configured.epoch != topology.epoch or request.group_id not in life.checked:
            configured = configure(topology, self._topics)
            known_hash = metadata_hash(self._topics, topology.required_topics)
        if configured.is_ready:
            _check_tasks(configured, request)
        configs = {STANDBY_REPLICAS: str(self._settings.of(request.group_id).num_standby_replicas)}
        steps.settle_epoch(known_hash, configured, configs, must_bump=must_bump)
        return configured

    def _begin(self, life: GroupShardLife, request: HeartbeatRequest) -> tuple[StreamsSteps, list[Follow]]:
        """Return the group to work on, which may be created for this, also in the place of an empty classic one."""
        group_id = request.group_id
        group, classic = self._writer.find(life, group_id), life.classic.get(group_id)
        if group is not None:
            if request.is_joining:
                _check_room(group, self._settings.of(group_id).max_size)
            return self._steps(group), []
        is_vacant = life.shard.modern_group(group_id) is None and (classic is None or classic.is_empty)
        if not request.is_joining or not is_vacant:
            raise life.not_found(STREAMS_GROUPS, group_id, "Streams group")
        steps = self._steps(StreamsGroup(group_id))
        if classic is None:
            return steps, []
        steps.update.records.append(group_record(group_id, None))
        return steps, [lambda: life.release_classic(group_id)]

    def _find_member(self, group: StreamsGroup, request: HeartbeatRequest) -> StreamsMember | None:
        """Return the member that sent the request; None for a new one."""
        member = group.members.get(request.member_id)
        if member is None:
            if not request.is_joining:
                raise unknown_member(request.member_id, group.group_id)
            return None
        _check_epoch(member, request)
        return member

    def _remember(
        self,
        life: GroupShardLife,
        soft: StreamsGroupLife,
        request: HeartbeatRequest,
        configured: ConfiguredTopology,
        shutdown_requested_by: str | None,
        endpoint_epoch: int,
    ) -> None:
        group_id = request.group_id
        life.volatile[group_id] = soft
        life.checked.add(group_id)
        soft.configured = configured
        soft.endpoint_epoch = endpoint_epoch
        if shutdown_requested_by is not None:
            soft.shutdown_requested_by = shutdown_requested_by

    def _new_life(self, life: GroupShardLife, group_id: str) -> StreamsGroupLife:
        return StreamsGroupLife(self._clock, self._scheduler, lambda: self._on_delay_over(life, group_id))

    # --- leaving ------------------------------------------------------------------------------------------------------

    def _decide_leave(self, life: GroupShardLife, request: HeartbeatRequest) -> Decision[HeartbeatResult]:
        group_id, member_id = request.group_id, request.member_id
        group = self._writer.existing(life, group_id)
        if member_id not in group.members:
            raise unknown_member(member_id, group_id)
        decision = self._removal(life, group, member_id, HeartbeatResult(member_id, request.member_epoch))
        if request.shuts_down:
            decision.then.insert(0, lambda: self._shut_down(life, group_id, member_id))
        return decision

    def _removal(self, life: GroupShardLife, group: StreamsGroup, member_id: str, response: T) -> Decision[T]:
        steps = self._steps(group)
        steps.remove(member_id)
        return Decision(steps.update, response, [lambda: _end_if_empty(life, steps.update.group)])

    def _shut_down(self, life: GroupShardLife, group_id: str, member_id: str) -> None:
        soft = _soft(life, group_id)
        if soft is None:
            soft = life.volatile[group_id] = self._new_life(life, group_id)
        soft.request_shutdown(member_id)

    # --- timers -------------------------------------------------------------------------------------------------------

    def on_active(self, life: GroupShardLife, group: StreamsGroup) -> None:
        """Let members continue where they were, with a new session."""
        self._writer.on_active(life, group)

    def on_expired(self, life: GroupShardLife, group_id: str, member_id: str) -> None:
        """Remove a member that was silent, or exceeded a timeout."""
        self._writer.on_expired(
            life, group_id, member_id, lambda life, group: self._removal(life, group, member_id, None)
        )

    def _on_delay_over(self, life: GroupShardLife, group_id: str) -> None:
        """Make the first assignment. If that cannot be logged, the next heartbeat makes it."""

        def decide(_: GroupShardLife) -> Decision[None]:
            steps = self._steps(self._writer.find(life, group_id) or StreamsGroup(group_id))
            topology = steps.update.group.topology
            if steps.update.group.members and topology is not None:
                interval_ms = self._settings.of(group_id).assignment_interval_ms
                steps.maybe_assign(interval_ms, configure(topology, self._topics))
            return Decision(steps.update, None)

        self._writer.write(group_id, decide)

    def _steps(self, base: StreamsGroup) -> StreamsSteps:
        return StreamsSteps(self._writer.update(base))


def _soft(life: GroupShardLife, group_id: str) -> StreamsGroupLife | None:
    """Return what is not logged of the group."""
    soft = life.volatile.get(group_id)
    return soft if isinstance(soft, StreamsGroupLife) else None


def _end_if_empty(life: GroupShardLife, group: StreamsGroup) -> None:
    if not group.members and group.group_id in life.volatile:
        life.volatile.pop(group.group_id).end()


def _check_room(group: StreamsGroup, max_size: int) -> None:
    """Raises GROUP_MAX_SIZE_REACHED, as in Kafka also for a member that rejoins."""
    if len(group.members) >= max_size:
        raise group_is_full("streams", max_size)


def _check_epoch(member: StreamsMember, request: HeartbeatRequest) -> None:
    """Raises FENCED_MEMBER_EPOCH. The previous epoch is accepted from a member that may have missed one response."""
    epoch, current = request.member_epoch, member.current
    if epoch in (0, member.epoch):
        return
    reported = request.reported
    is_repeated = epoch == current.previous_epoch and epoch < member.epoch
    if is_repeated and reported is not None and current.assigned.has_all(reported):
        return
    raise fenced("streams", epoch, member.epoch)


def _check_tasks(configured: ConfiguredTopology, request: HeartbeatRequest) -> None:
    """Raises INVALID_REQUEST for a task that the topology does not have."""
    for tasks in (request.active, request.standby, request.warmup):
        for subtopology_id, partitions in (tasks or {}).items():
            subtopology = configured.subtopologies.get(subtopology_id)
            if subtopology is None:
                message = f"Subtopology {subtopology_id} does not exist in the topology."
                raise KafkaError(ErrorCode.INVALID_REQUEST, message)
            for partition in partitions:
                if not 0 <= partition < subtopology.task_count:
                    raise KafkaError(
                        ErrorCode.INVALID_REQUEST,
                        f"Task {partition} for subtopology {subtopology_id} is invalid. Number of tasks for this "
                        f"subtopology: {subtopology.task_count}",
                    )


def _to_metadata(before: StreamsMember | None, request: HeartbeatRequest) -> MemberMetadata:
    known = MemberMetadata() if before is None else before.metadata
    timeout_ms, topology, tags = request.rebalance_timeout_ms, request.topology, request.client_tags
    return MemberMetadata(
        instance_id=known.instance_id,
        rack_id=known.rack_id if request.rack_id is None else request.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        rebalance_timeout_ms=known.rebalance_timeout_ms if timeout_ms == NOT_SAID else timeout_ms,
        topology_epoch=known.topology_epoch if topology is None else topology.epoch,
        process_id=known.process_id if request.process_id is None else request.process_id,
        endpoint=known.endpoint if request.endpoint is None else request.endpoint,
        client_tags=known.client_tags if tags is None else tuple(sorted(tags)),
    )


def _stale_topology(known: Topology | None, metadata: MemberMetadata) -> list[Status]:
    if known is None or metadata.topology_epoch >= known.epoch:
        return []
    detail = (
        f"The member's topology epoch {metadata.topology_epoch} is behind the group's topology epoch {known.epoch}."
    )
    return [Status(StatusCode.STALE_TOPOLOGY, detail)]


def _delayed(setting: str) -> Status:
    return Status(StatusCode.ASSIGNMENT_DELAYED, f"Assignment delayed due to the configured {setting}.")


def _shutdown(member_id: str) -> Status:
    detail = (
        f"Streams group member {member_id} encountered a fatal error and requested a shutdown for the entire "
        "application."
    )
    return Status(StatusCode.SHUTDOWN_APPLICATION, detail)


def _without_epochs(member: StreamsMember) -> Tasks:
    assigned = member.current.assigned
    active = {name: frozenset(epochs) for name, epochs in assigned.active.items()}
    return Tasks(active, assigned.standby, assigned.warmup)
