"""Metadata (3), versions 0–12: brokers, topics, partitions; creates topics on the way when it may.

- v0: no topics named means all; v1+: null means all, an empty list none. v4+ says itself whether to auto-create.
- Auto-creation (`auto.create.topics.enable`) answers once the topic is durable, so that a client needs no retry.
- v10+ returns topic ids, v12 looks up by id (UNKNOWN_TOPIC_ID).
- The address is the one under which the client's listener is advertised.

Left out: v13 (top-level error code for rebootstrapping, KIP-1102); authorized operations, until there are ACLs.
"""

from uuid import UUID

from broker.completion import Completion, all_of
from broker.dispatch import RequestContext
from broker.metadata_log import Topic
from protocol.errors import ErrorCode, KafkaError
from protocol.generated.metadata_request import MetadataRequest
from protocol.generated.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

_NO_ID = UUID(int=0)


def handle(context: RequestContext, request: MetadataRequest) -> MetadataResponse | Completion[MetadataResponse]:
    topics = context.broker.topics
    if request.topics is None or (context.api_version == 0 and not request.topics):
        return _once_durable(context, _respond(context, [_describe(context, topic) for topic in topics.all()]))
    may_create = (context.api_version < 4 or request.allow_auto_topic_creation) and context.broker.config.get_bool(
        "auto.create.topics.enable"
    )
    answers: list[Completion[MetadataResponseTopic]] = []
    for wanted in request.topics:
        if wanted.name is None or wanted.topic_id != _NO_ID:
            answers.append(Completion.of(_by_id(context, wanted.topic_id)))
            continue
        topic = topics.get(wanted.name)
        if topic is not None:
            answers.append(Completion.of(_describe(context, topic)))
        else:
            answers.append(_missing(context, wanted.name, may_create))
    if all(answer.done for answer in answers):
        return _once_durable(context, _respond(context, [answer.result() for answer in answers]))
    return all_of(answers).map(lambda described: _respond(context, described))


def _once_durable(
    context: RequestContext, response: MetadataResponse
) -> MetadataResponse | Completion[MetadataResponse]:
    """Nobody is told of a topic that a crash could still undo; nearly always all is durable already."""
    durable = context.broker.metadata.durable()
    return response if durable.done else durable.map(lambda _: response)


def _respond(context: RequestContext, topics: list[MetadataResponseTopic]) -> MetadataResponse:
    broker = context.broker
    host, port = context.advertised
    return MetadataResponse(
        brokers=(MetadataResponseBroker(node_id=broker.node_id, host=host, port=port),),
        cluster_id=broker.cluster_id,
        controller_id=broker.node_id,
        topics=topics,
    )


def _describe(context: RequestContext, topic: Topic) -> MetadataResponseTopic:
    node_ids = (context.broker.node_id,)
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[
            MetadataResponsePartition(
                partition_index=index,
                leader_id=node_ids[0],
                leader_epoch=0,
                replica_nodes=node_ids,
                isr_nodes=node_ids,
            )
            for index in range(topic.partition_count)
        ],
    )


def _by_id(context: RequestContext, topic_id: UUID) -> MetadataResponseTopic:
    topic = context.broker.topics.by_id(topic_id)
    if topic is None:
        return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
    return _describe(context, topic)


def _missing(context: RequestContext, name: str, may_create: bool) -> Completion[MetadataResponseTopic]:
    broker = context.broker
    try:
        if name in ("__consumer_offsets", "__transaction_state") and may_create:
            created = broker.topics.ensure_internal(name)
        elif may_create:
            created = broker.topics.create(name, broker.config.get_int("num.partitions"))
        else:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    except KafkaError as error:
        code = error.code
        if code is ErrorCode.TOPIC_ALREADY_EXISTS:  # its deletion is not durable yet
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return Completion.of(MetadataResponseTopic(error_code=code, name=name))
    return created.map(lambda topic: _describe(context, topic))
