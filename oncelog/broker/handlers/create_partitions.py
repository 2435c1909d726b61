"""CreatePartitions (37), versions 0–3: topics grow, never shrink.

- Each topic has its own result: UNKNOWN_TOPIC_OR_PARTITION, INVALID_PARTITIONS if it would not grow,
  INVALID_REPLICA_ASSIGNMENT if the assignment does not match, INVALID_REQUEST if it is named twice.
- More than 10,000 new partitions in one request: POLICY_VIOLATION for the whole request, as CreateTopics does; Kafka
  has no limit here.
- The quota `controller_mutation_rate` counts new partitions: above it v3 gets THROTTLING_QUOTA_EXCEEDED, older ones a
  time to wait (KIP-599).
- `validate_only` decides and writes nothing. The response is sent once durable; the new partitions are usable at once.
"""

from oncelog.broker.cluster.topic_rules import check_assignment, check_growth, check_total
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.requests.throttling import Mutations
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.slices import Sliced, all_done, count_each, each
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.generated.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from oncelog.protocol.generated.create_partitions_response import CreatePartitionsResponse, CreatePartitionsTopicResult

_STRICT_SINCE = 3


def handle(context: RequestContext, request: CreatePartitionsRequest) -> Sliced[CreatePartitionsResponse]:
    names = yield from count_each(wanted.name for wanted in request.topics)
    single = [wanted for wanted in request.topics if names[wanted.name] == 1]
    twice = KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    results = yield from all_done(_error_response(name, twice) for name, count in names.items() if count > 1)
    added = yield from each(single, lambda wanted: max(0, _count_new(context, wanted)))
    try:
        check_total(sum(added))
    except KafkaError as error:
        refused = error
        results += yield from all_done(_error_response(wanted.name, refused) for wanted in single)
    else:
        mutations = Mutations(context, is_strict=context.api_version >= _STRICT_SINCE)
        results += yield from all_done(_grow(context, wanted, request.validate_only, mutations) for wanted in single)
        return mutations.with_throttle_time(CreatePartitionsResponse(results=results))
    return CreatePartitionsResponse(results=results)


def _count_new(context: RequestContext, wanted: CreatePartitionsTopic) -> int:
    topic = context.broker.topics.get(wanted.name)
    return 0 if topic is None else wanted.count - topic.partition_count


def _grow(
    context: RequestContext, wanted: CreatePartitionsTopic, validate_only: bool, mutations: Mutations
) -> Completion[CreatePartitionsTopicResult]:
    topics = context.broker.topics
    done = CreatePartitionsTopicResult(name=wanted.name)
    try:
        topic = topics.get(wanted.name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        check_growth(wanted.name, topic.partition_count, wanted.count)
        if wanted.assignments is not None:
            _check_assignments(context, wanted, wanted.count - topic.partition_count)
        mutations.count(wanted.count - topic.partition_count)
        if validate_only:
            return Completion.of(done)
        grown = topics.grow(wanted.name, wanted.count)
    except KafkaError as error:
        return _error_response(wanted.name, error)
    return grown.map(lambda _: done)


def _check_assignments(context: RequestContext, wanted: CreatePartitionsTopic, added: int) -> None:
    assignments = wanted.assignments or ()
    if len(assignments) != added:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {added} additional partition(s), but only {len(assignments)} assignment(s) were "
            "specified.",
        )
    for assignment in assignments:
        check_assignment(assignment.broker_ids, context.broker.leadership.node_id)


def _error_response(name: str, error: KafkaError) -> Completion[CreatePartitionsTopicResult]:
    return Completion.of(
        CreatePartitionsTopicResult(name=name, error_code=error.code, error_message=error.message or None)
    )
