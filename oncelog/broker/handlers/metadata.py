"""Metadata (3), versions 0–13: brokers, topics, partitions; creates missing topics if allowed.

- v0: no topics named means all; v1+: null means all, an empty list none. v4+ requests say whether to auto-create.
- Auto-creation (`auto.create.topics.enable`) completes once the topic is durable, so that a client needs no retry. With
  `oncelog.compat=kafka` the topic is UNKNOWN_TOPIC_OR_PARTITION in that response, and there in the next. The
  quota `controller_mutation_rate` of the client counts its partitions: what is above it is UNKNOWN_TOPIC_OR_PARTITION,
  in every version and without a time to wait, as in Kafka, and the client asks again.
- v10+ returns topic ids, v12+ looks up by id (UNKNOWN_TOPIC_ID); if any topic is given by id, those given by name are
  ignored, as in Kafka. v10 and v11 may not look up by id: INVALID_REQUEST for every topic.
- v8+ authorized operations, if requested (v8–v10 also for the cluster): all of them, unless there is an authorizer.
- A node that has ended, or that was deposed and is not back, is not listed, as in Kafka; for a while it is to clients
  that would not find it again once it is back (`cluster.nodes`).
- v13's top-level error code is always NONE: this broker never asks a client to rebootstrap (KIP-1102).
- A row of neither a name nor an id is ignored, where Kafka fails over it (UNKNOWN_SERVER_ERROR).
- A topic that is named several times is returned once, as in Kafka. Topics are as they were when the request arrived,
  those created by it as they are created.
- A partition whose files cannot be used has no leader, no replica in sync, and this node as an offline replica, with
  LEADER_NOT_AVAILABLE, as in Kafka after a failure of a log directory.
- The addresses are those of the client's listener on each node. A node that stands by creates no topic: the client
  asks again, and gets to the leader in the end. One that does not know who leads answers LEADER_NOT_AVAILABLE for every
  partition, and names no controller.
- A topic that cannot be auto-created is returned with the reason (INVALID_TOPIC_EXCEPTION), where Kafka's broker, which
  does not wait for its controller, returns UNKNOWN_TOPIC_OR_PARTITION and the client retries.
"""

from collections.abc import Iterable
from uuid import UUID

from oncelog.broker.cluster.leadership import NO_LEADER
from oncelog.broker.cluster.metadata_log import Topic
from oncelog.broker.cluster.nodes import lists_nodes_that_are_gone
from oncelog.broker.cluster.topic_rules import check_topic_name
from oncelog.broker.handlers.rights.checks import may_create_topic
from oncelog.broker.handlers.shared.asked_topics import asked_ids
from oncelog.broker.handlers.shared.authorized_operations import CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.requests.throttling import Mutations
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.slices import Sliced, each
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.generated.metadata_request import MetadataRequest
from oncelog.protocol.generated.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from oncelog.protocol.topics import INTERNAL_TOPICS

_BY_ID_SINCE = 12
_PARTITIONS_A_STEP = 64
_NOT_NOW = frozenset(
    (
        ErrorCode.TOPIC_ALREADY_EXISTS,  # its deletion is not durable yet
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    )
)
"""Errors with which the topic is not created now and may be later: a client asks again."""


def handle(
    context: RequestContext, request: MetadataRequest
) -> Sliced[MetadataResponse | Completion[MetadataResponse]]:
    topics = context.broker.topics
    view = _View(context, request)
    found: Iterable[Topic | Completion[Topic] | MetadataResponseTopic] = ()
    if request.topics is None or (context.api_version == 0 and not request.topics):
        found = tuple(topics.all())
    elif (ids := asked_ids(request.topics)) is not None:
        if context.api_version < _BY_ID_SINCE:
            return _refuse(request)
        found = yield from each(ids, view.find_id)
    else:
        may_create = (
            (context.api_version < 4 or request.allow_auto_topic_creation)
            and context.broker.leadership.is_ours
            and context.broker.config.get_bool("auto.create.topics.enable")
        )
        names = dict.fromkeys(wanted.name or "" for wanted in request.topics)
        found = yield from each(names, lambda name: topics.get(name) or view.missing(name, may_create), 2)
    answers = []
    for entry in found:
        if isinstance(entry, Completion):
            yield entry
            entry = entry.result()
        answers.append((yield from view.describe(entry)) if isinstance(entry, Topic) else entry)
    return _once_durable(context, view.respond(answers))


def _refuse(request: MetadataRequest) -> MetadataResponse:
    return MetadataResponse(
        topics=[
            MetadataResponseTopic(
                error_code=ErrorCode.INVALID_REQUEST, name=wanted.name or "", topic_id=wanted.topic_id
            )
            for wanted in request.topics or ()
        ]
    )


def _once_durable(
    context: RequestContext, response: MetadataResponse
) -> MetadataResponse | Completion[MetadataResponse]:
    """Return the response once everything in it is durable, since a crash could still undo a new topic; nearly always
    it is already."""
    durable = context.broker.metadata.durable()
    return response if durable.done else durable.map(lambda _: response)


class _View:
    """The part of the cluster that the response to one request may contain."""

    def __init__(self, context: RequestContext, request: MetadataRequest) -> None:
        self._context = context
        self._request = request
        self._operations = TOPIC_OPERATIONS if request.include_topic_authorized_operations else NOT_ASKED

    def respond(self, topics: list[MetadataResponseTopic]) -> MetadataResponse:
        broker = self._context.broker
        asked = self._request.include_cluster_authorized_operations
        topics_asked = self._request.topics
        asks_for_nodes_alone = topics_asked is not None and not topics_asked
        lists_gone = lists_nodes_that_are_gone(self._context.peer.software_name, asks_for_nodes_alone)
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=node_id, host=host, port=port, rack=rack)
                for node_id, host, port, is_gone, rack in broker.nodes.seen_by(self._context.peer)
                if not is_gone or lists_gone
            ],
            cluster_id=broker.cluster_id,
            controller_id=broker.leadership.controller.node_id,
            topics=topics,
            cluster_authorized_operations=CLUSTER_OPERATIONS if asked else NOT_ASKED,
        )

    def describe(self, topic: Topic) -> Sliced[MetadataResponseTopic]:
        leadership = self._context.broker.leadership
        node_ids = leadership.replica_node_ids
        error_code = ErrorCode.LEADER_NOT_AVAILABLE if leadership.leader_node_id == NO_LEADER else ErrorCode.NONE
        offline = self._context.broker.logs.offline_of(topic.name)
        partitions: list[MetadataResponsePartition] = []
        for start in range(0, topic.partition_count, _PARTITIONS_A_STEP):
            indexes = range(start, min(start + _PARTITIONS_A_STEP, topic.partition_count))
            partitions += [
                MetadataResponsePartition(
                    partition_index=index,
                    error_code=error_code,
                    leader_id=leader.node_id,
                    leader_epoch=leader.epoch,
                    replica_nodes=node_ids,
                    isr_nodes=node_ids,
                )
                if index not in offline
                else MetadataResponsePartition(
                    error_code=ErrorCode.LEADER_NOT_AVAILABLE,
                    partition_index=index,
                    leader_id=NO_LEADER,
                    leader_epoch=leader.epoch,
                    replica_nodes=node_ids,
                    offline_replicas=node_ids,
                )
                for index, leader in zip(indexes, leadership.leaders_of(topic, indexes), strict=True)
            ]
            yield len(indexes)
        return MetadataResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=topic.is_internal,
            partitions=partitions,
            topic_authorized_operations=self._operations,
        )

    def find_id(self, topic_id: UUID) -> Topic | MetadataResponseTopic:
        topic = self._context.broker.topics.by_id(topic_id)
        if topic is None:
            return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
        return topic

    def missing(self, name: str, may_create: bool) -> Completion[Topic] | MetadataResponseTopic:
        broker = self._context.broker
        try:
            check_topic_name(name)
            # Asked where it counts: a topic that was there when the rights were checked may be gone by now.
            if may_create and not may_create_topic(self._context, name):
                raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            if may_create:
                created = self._create(name)
                if broker.compatibility.creates_topics_at_once:
                    return created
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        except KafkaError as error:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if error.code in _NOT_NOW else error.code
            return MetadataResponseTopic(error_code=code, name=name)

    def _create(self, name: str) -> Completion[Topic]:
        broker = self._context.broker
        if name in INTERNAL_TOPICS:
            return broker.topics.ensure_internal(name)
        broker.topics.check_name(name)
        partition_count = broker.config.get_int("num.partitions")
        Mutations(self._context, is_strict=True).count(partition_count)
        return broker.topics.create(name, partition_count)
