"""CreateTopics (19), versions 2–7.

- Each topic has its own result; one failure does not affect the others. −1 partitions or replicas mean the defaults.
- More than 10,000 partitions in one request: POLICY_VIOLATION for the whole request.
- One node holds one replica: a replication factor above 1 is INVALID_REPLICATION_FACTOR, as on a one-node Kafka.
- Manual assignments must name this node only, and partitions 0 to n − 1.
- Two names that collide ('.' and '_') are rejected also within one request, where Kafka creates both.
- v5+ returns the topic's configs, v7+ its id. `validate_only` decides and writes nothing.
- The quota `controller_mutation_rate` counts new partitions, also those that are only validated: above it v6+ gets
  THROTTLING_QUOTA_EXCEEDED, older ones a time to wait (KIP-599).

Left out: create.topic.policy.class.name.
"""

from collections.abc import Mapping

from oncelog.broker.cluster.metadata_log import Topic
from oncelog.broker.cluster.topic_rules import check_assignment, check_numbering, check_sizes, check_total
from oncelog.broker.config.descriptions import describe_topic
from oncelog.broker.config.topic_config import validate_topic_config
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.requests.throttling import Mutations
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.slices import Sliced, count_each, each
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.create_topics_response import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)
from oncelog.protocol.topics import METADATA_TOPIC, ZERO_UUID

_STRICT_SINCE = 6


def handle(context: RequestContext, request: CreateTopicsRequest) -> Sliced[CreateTopicsResponse]:
    topics = request.topics
    names = yield from count_each(wanted.name for wanted in topics)
    plan = _Plan(context, request.validate_only)
    sizes = yield from each(topics, lambda wanted: plan.size(wanted) if names[wanted.name] == 1 else 0)
    try:
        check_total(sum(sizes))
    except KafkaError as error:
        refused = error
        return CreateTopicsResponse(
            topics=(yield from each(topics, lambda wanted: _error_response(wanted.name, refused)))
        )
    twice = KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    results = yield from each(
        (name for name, count in names.items() if count > 1), lambda name: _error_response(name, twice)
    )
    created: list[Completion[Topic] | CreatableTopicResult] = []
    for wanted in topics:
        if names[wanted.name] == 1:
            created.append(plan.create(wanted))
            yield 1
    for topic in created:
        if isinstance(topic, Completion):
            if not topic.done:
                yield topic
            results.append(plan.created(topic.result()))
            yield 32
        else:
            results.append(topic)
            yield 1
    if any(result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS for result in results):
        # This may be a retry: a client that learns that the topic exists must not lose it by a kill.
        durable = context.broker.metadata.durable()
        if not durable.done:
            yield durable
    return plan.mutations.with_throttle_time(CreateTopicsResponse(topics=results))


class _Plan:
    """One request, topic by topic."""

    def __init__(self, context: RequestContext, validate_only: bool) -> None:
        self._context = context
        self._validate_only = validate_only
        self._known_configs: dict[frozenset[tuple[str, str]], list[CreatableTopicConfigs]] = {}
        self.mutations = Mutations(context, is_strict=context.api_version >= _STRICT_SINCE)
        self._default_count = context.broker.config.get_int("num.partitions")

    def size(self, wanted: CreatableTopic) -> int:
        """Return how many partitions this requests; an invalid number counts as 0."""
        if wanted.assignments:
            return len(wanted.assignments)
        return self._default_count if wanted.num_partitions == -1 else max(0, wanted.num_partitions)

    def create(self, wanted: CreatableTopic) -> Completion[Topic] | CreatableTopicResult:
        context = self._context
        topics = context.broker.topics
        try:
            if wanted.name == METADATA_TOPIC:
                message = f"Creation of internal topic {METADATA_TOPIC} is prohibited."
                raise KafkaError(ErrorCode.INVALID_REQUEST, message)
            topics.check_name(wanted.name)
            config = _config(wanted)
            self._check_placement(wanted)
            partition_count = self.size(wanted)
            if topics.get(wanted.name) is None:
                self.mutations.count(partition_count)
            if self._validate_only:
                return Completion.of(Topic(wanted.name, ZERO_UUID, partition_count, config))
            return topics.create(wanted.name, partition_count, config)
        except KafkaError as error:
            return _error_response(wanted.name, error)

    def _check_placement(self, wanted: CreatableTopic) -> None:
        if not wanted.assignments:
            check_sizes(wanted.num_partitions, wanted.replication_factor)
            return
        for what, number in (
            ("replication factor", wanted.replication_factor),
            ("numPartitions", wanted.num_partitions),
        ):
            if number != -1:
                message = f"A manual partition assignment was specified, but {what} was not set to -1."
                raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        for assignment in wanted.assignments:
            check_assignment(assignment.broker_ids, self._context.broker.leadership.node_id)
        check_numbering([assignment.partition_index for assignment in wanted.assignments])

    def created(self, topic: Topic) -> CreatableTopicResult:
        return CreatableTopicResult(
            name=topic.name,
            topic_id=topic.topic_id,
            num_partitions=topic.partition_count,
            replication_factor=1,
            error_message=None,
            configs=self._configs(topic.config) if self._context.api_version >= 5 else None,
        )

    def _configs(self, config: Mapping[str, str]) -> list[CreatableTopicConfigs]:
        """Return the settings, built once for all topics with the same ones: 10,000 times 30 objects would burden the
        garbage collector."""
        key = frozenset(config.items())
        known = self._known_configs.get(key)
        if known is None:
            known = self._known_configs[key] = [
                CreatableTopicConfigs(
                    name=entry.name,
                    value=entry.value,
                    read_only=entry.read_only,
                    config_source=entry.config_source,
                    is_sensitive=entry.is_sensitive,
                )
                for entry in describe_topic(config, self._context.broker.config)
            ]
        return known


def _config(wanted: CreatableTopic) -> Mapping[str, str]:
    config = {entry.name: entry.value for entry in wanted.configs}
    for name, value in config.items():
        if value is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {name}")
    checked = {name: value for name, value in config.items() if value is not None}
    validate_topic_config(checked)
    return checked


def _error_response(name: str, error: KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=error.message or None)
