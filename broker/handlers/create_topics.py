"""CreateTopics (19), versions 2–7.

- Each topic is answered on its own; one failure stops no other. v4+: −1 partitions or replicas mean the defaults.
- One node holds one replica: a replication factor above 1 is INVALID_REPLICATION_FACTOR, as on a one-node Kafka.
- Manual assignments must name this node only, and partitions 0 to n − 1.
- v5+ returns the topic's configs, v7+ its id. `validate_only` decides and writes nothing.

Left out: create.topic.policy.class.name.
"""

from collections.abc import Mapping
from uuid import UUID

from broker.completion import Completion, all_of
from broker.dispatch import RequestContext
from broker.handlers.describe_configs import topic_config_entries
from broker.metadata_log import Topic
from broker.topic_config import validate_topic_config
from protocol.errors import ErrorCode, KafkaError
from protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from protocol.generated.create_topics_response import CreatableTopicConfigs, CreatableTopicResult, CreateTopicsResponse

_NO_TOPIC_ID = UUID(int=0)


def handle(context: RequestContext, request: CreateTopicsRequest) -> Completion[CreateTopicsResponse]:
    names = [wanted.name for wanted in request.topics]
    answers = [
        _refused(wanted.name, KafkaError(ErrorCode.INVALID_REQUEST, f"Duplicate topic name: {wanted.name}"))
        if names.count(wanted.name) > 1
        else _create(context, wanted, request.validate_only)
        for wanted in request.topics
    ]
    return all_of(answers).map(lambda results: CreateTopicsResponse(topics=results))


def _create(context: RequestContext, wanted: CreatableTopic, validate_only: bool) -> Completion[CreatableTopicResult]:
    broker = context.broker
    try:
        partition_count = _partition_count(context, wanted)
        config = _config(wanted)
        if validate_only:
            broker.topics.check_creatable(wanted.name, partition_count)
            return Completion.of(_created(context, Topic(wanted.name, _NO_TOPIC_ID, partition_count, config)))
        created = broker.topics.create(wanted.name, partition_count, config)
    except KafkaError as error:
        return _refused(wanted.name, error)
    return created.map(lambda topic: _created(context, topic))


def _partition_count(context: RequestContext, wanted: CreatableTopic) -> int:
    if wanted.assignments:
        if wanted.num_partitions != -1 or wanted.replication_factor != -1:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "A manual assignment must come with -1 partitions and replicas."
            )
        indexes = sorted(assignment.partition_index for assignment in wanted.assignments)
        if indexes != list(range(len(indexes))):
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Partitions must be numbered 0 to n - 1.")
        if any(tuple(assignment.broker_ids) != (context.broker.node_id,) for assignment in wanted.assignments):
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The one broker here has the id {context.broker.node_id}."
            )
        return len(indexes)
    if wanted.replication_factor not in (-1, 1):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Replication factor {wanted.replication_factor} is not possible with 1 broker: use 1 or -1.",
        )
    if wanted.num_partitions == -1:
        return context.broker.config.get_int("num.partitions")
    return wanted.num_partitions


def _config(wanted: CreatableTopic) -> Mapping[str, str]:
    config = {entry.name: entry.value for entry in wanted.configs}
    for name, value in config.items():
        if value is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {name}")
    checked = {name: value for name, value in config.items() if value is not None}
    validate_topic_config(checked)
    return checked


def _created(context: RequestContext, topic: Topic) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic.topic_id,
        num_partitions=topic.partition_count,
        replication_factor=1,
        configs=[
            CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=entry.config_source,
                is_sensitive=entry.is_sensitive,
            )
            for entry in topic_config_entries(context, topic)
        ]
        if context.api_version >= 5
        else None,
    )


def _refused(name: str, error: KafkaError) -> Completion[CreatableTopicResult]:
    return Completion.of(CreatableTopicResult(name=name, error_code=error.code, error_message=error.message or None))
