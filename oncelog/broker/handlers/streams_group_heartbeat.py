"""StreamsGroupHeartbeat (88), version 0: a member of a streams group joins, reports, gets its tasks, leaves (KIP-1071).

- The response is sent once the change is durable; an error has its reason.
- A topology of internal topics of Kafka, or with invalid names: STREAMS_INVALID_TOPOLOGY.
- The first member sets the topology; a member with another one gets INVALID_REQUEST, as topologies cannot be updated
  yet in Kafka 4.3.
- Missing internal topics are created in the name of the client, which needs Create on each of them or on the cluster.
  The response says that they were missing, and the next heartbeat finds them. Why one could not be created is said at
  once, where Kafka says it in the next response. The quota `controller_mutation_rate` counts their partitions.
- The answer is UNSUPPORTED_VERSION while the finalized feature streams.version is 0, and on a broker whose
  group.coordinator.rebalance.protocols does not name `streams`.

Left out, as in Kafka 4.3: static members, warm-up tasks, regular expressions for source topics.
"""

from collections.abc import Sequence
from typing import Any

from oncelog.broker.cluster.topic_rules import check_sizes, check_topic_name, check_total
from oncelog.broker.config.topic_config import validate_topic_config
from oncelog.broker.coordinator.group.streams.heartbeat import EndpointPartitions, HeartbeatRequest, HeartbeatResult
from oncelog.broker.coordinator.group.streams.internal_topics import InternalTopic, StatusCode
from oncelog.broker.coordinator.group.streams.member import Endpoint as MemberEndpoint
from oncelog.broker.coordinator.group.streams.tasks import TaskIds as Tasks
from oncelog.broker.coordinator.group.streams.tasks import by_subtopology
from oncelog.broker.coordinator.group.streams.topology import (
    CopartitionGroup,
    Subtopology,
    TopicInfo,
    Topology,
    make_topology,
)
from oncelog.broker.handlers.rights.checks import may, may_create_topic
from oncelog.broker.handlers.shared.modern_groups import shortened
from oncelog.broker.handlers.shared.streams_topics import named_topics
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.requests.throttling import Mutations
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.slices import TOPIC_ELEMENTS, Sliced
from oncelog.protocol.acls import AclOperation, ResourceType
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.generated import streams_group_heartbeat_request as asked
from oncelog.protocol.generated.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from oncelog.protocol.generated.streams_group_heartbeat_response import (
    Endpoint,
    EndpointToPartitions,
    Status,
    StreamsGroupHeartbeatResponse,
    TaskIds,
    TopicPartition,
)
from oncelog.protocol.topics import INTERNAL_TOPICS

_FAILURES_NAMED = 3


def handle(
    context: RequestContext, request: StreamsGroupHeartbeatRequest
) -> Completion[StreamsGroupHeartbeatResponse] | StreamsGroupHeartbeatResponse:
    streams = context.broker.groups.streams
    try:
        if not streams.is_enabled:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        check_names(request)
        heartbeat = _heartbeat(context, request)
    except KafkaError as error:
        return _refuse(error)
    return streams.heartbeat(heartbeat).map(lambda result: _respond(context, result), _refuse)


def _respond(context: RequestContext, result: HeartbeatResult) -> StreamsGroupHeartbeatResponse | Any:
    return context.run(_create_and_respond(context, result)) if result.missing_topics else _response(result, "")


def _create_and_respond(context: RequestContext, result: HeartbeatResult) -> Sliced[StreamsGroupHeartbeatResponse]:
    return _response(result, (yield from _create(context, result.missing_topics)))


def check_names(request: StreamsGroupHeartbeatRequest) -> None:
    """Raises STREAMS_INVALID_TOPOLOGY for topics that no application may have."""
    names = named_topics(request.topology)
    prohibited = [name for name in names if name in INTERNAL_TOPICS]
    if prohibited:
        raise KafkaError(
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            f"Use of Kafka internal topics {','.join(prohibited)} in a Kafka Streams topology is prohibited.",
        )
    invalid = [name for name in names if not _is_valid(name)]
    if invalid:
        raise KafkaError(
            ErrorCode.STREAMS_INVALID_TOPOLOGY, f"Topic names {','.join(invalid)} are not valid topic names."
        )


def _is_valid(name: str) -> bool:
    try:
        check_topic_name(name)
    except KafkaError:
        return False
    return True


def _heartbeat(context: RequestContext, request: StreamsGroupHeartbeatRequest) -> HeartbeatRequest:
    endpoint, tags = request.user_endpoint, request.client_tags
    return HeartbeatRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        endpoint_epoch=request.endpoint_information_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topology=None if request.topology is None else _topology(request.topology),
        active=_tasks(request.active_tasks),
        standby=_tasks(request.standby_tasks),
        warmup=_tasks(request.warmup_tasks),
        process_id=request.process_id,
        endpoint=None if endpoint is None else MemberEndpoint(endpoint.host, endpoint.port),
        client_tags=None if tags is None else [(tag.key, tag.value) for tag in tags],
        has_task_offsets=request.task_offsets is not None,
        has_task_end_offsets=request.task_end_offsets is not None,
        shuts_down=request.shutdown_application,
        client_id=context.client_id or "",
        client_host=f"/{context.peer.host}",
    )


def _topology(topology: asked.Topology) -> Topology:
    return make_topology(
        topology.epoch,
        [
            Subtopology(
                each.subtopology_id,
                tuple(each.source_topics),
                tuple(each.source_topic_regex),
                tuple(map(_topic, each.state_changelog_topics)),
                tuple(each.repartition_sink_topics),
                tuple(map(_topic, each.repartition_source_topics)),
                tuple(
                    CopartitionGroup(
                        tuple(group.source_topics),
                        tuple(group.source_topic_regex),
                        tuple(group.repartition_source_topics),
                    )
                    for group in each.copartition_groups
                ),
            )
            for each in topology.subtopologies
        ],
    )


def _topic(topic: asked.TopicInfo) -> TopicInfo:
    config = tuple((entry.key, entry.value) for entry in topic.topic_configs)
    return TopicInfo(topic.name, topic.partitions, topic.replication_factor, config)


def _tasks(tasks: Sequence[asked.TaskIds] | None) -> Tasks | None:
    if tasks is None:
        return None
    found: dict[str, frozenset[int]] = {entry.subtopology_id: frozenset() for entry in tasks}
    found.update(by_subtopology((entry.subtopology_id, partition) for entry in tasks for partition in entry.partitions))
    return found


# --- the response ---------------------------------------------------------------------------------------------------


def _response(result: HeartbeatResult, obstacle: str) -> StreamsGroupHeartbeatResponse:
    """Return the response; `obstacle` says why internal topics could not be created."""
    tasks, endpoints = result.assignment, result.endpoints
    return StreamsGroupHeartbeatResponse(
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval_ms=result.heartbeat_interval_ms,
        status=[
            Status(status.code, status.detail + (obstacle if status.code is StatusCode.MISSING_INTERNAL_TOPICS else ""))
            for status in result.statuses
        ],
        active_tasks=None if tasks is None else _task_ids(tasks.active),
        standby_tasks=None if tasks is None else _task_ids(tasks.standby),
        warmup_tasks=None if tasks is None else _task_ids(tasks.warmup),
        endpoint_information_epoch=result.endpoint_epoch,
        partitions_by_user_endpoint=None if endpoints is None else [_endpoint(each) for each in endpoints],
    )


def _task_ids(tasks: Tasks) -> list[TaskIds]:
    return [TaskIds(subtopology_id, sorted(partitions)) for subtopology_id, partitions in tasks.items()]


def _endpoint(each: EndpointPartitions) -> EndpointToPartitions:
    return EndpointToPartitions(
        Endpoint(each.endpoint.host, each.endpoint.port),
        [TopicPartition(topic, partitions) for topic, partitions in each.active],
        [TopicPartition(topic, partitions) for topic, partitions in each.standby],
    )


def _refuse(error: KafkaError) -> StreamsGroupHeartbeatResponse:
    return StreamsGroupHeartbeatResponse(error_code=error.code, error_message=shortened(error.message) or None)


# --- internal topics ------------------------------------------------------------------------------------------------


def _create(context: RequestContext, missing: Sequence[InternalTopic]) -> Sliced[str]:
    """Create the topics in the name of the client; return what to add to the status if some cannot be created."""
    if not may(context, AclOperation.CREATE, ResourceType.CLUSTER, quietly=True):
        denied = []
        for topic in missing:
            yield 1
            if not may_create_topic(context, topic.name):
                denied.append(topic.name)
        if denied:
            return shortened(f"; Unauthorized to CREATE on topics {', '.join(denied)}.")
    mutations = Mutations(context, is_strict=True)
    partition_count = sum(topic.partition_count for topic in missing)
    failed = []
    for topic in missing:
        yield TOPIC_ELEMENTS
        try:
            check_total(partition_count)
            _create_one(context, topic, mutations)
        except KafkaError as error:
            failed.append(f"{topic.name} ({error.message or error.code.text})")
    if not failed:
        return ""
    more = f" and {len(failed) - _FAILURES_NAMED} more" if len(failed) > _FAILURES_NAMED else ""
    return shortened(f"; Creation failed: {', '.join(failed[:_FAILURES_NAMED])}{more}.")


def _create_one(context: RequestContext, topic: InternalTopic, mutations: Mutations) -> None:
    topics = context.broker.topics
    if topics.get(topic.name) is not None:
        return  # another member has made it meanwhile
    topics.check_name(topic.name)
    validate_topic_config(topic.config)
    check_sizes(topic.partition_count, topic.replication_factor or -1)
    mutations.count(topic.partition_count)
    created: Completion[Any] = topics.create(topic.name, topic.partition_count, topic.config)
    if created.error is not None:
        raise created.error
