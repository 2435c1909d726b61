"""DeleteTopics (20), versions 1–6; v6 also by topic id (KIP-516).

- `delete.topic.enable=false`: TOPIC_DELETION_DISABLED (v3+), INVALID_REQUEST before.
- One topic named twice, by names or by name and id: INVALID_REQUEST, and it is not deleted.
- Internal topics may be deleted, as in Kafka without an authorizer; they are created again when needed.
- `__transaction_state` while a transaction is open: INVALID_REQUEST. Kafka, and oncelog.compat=kafka, delete it, and
  open transactions hang.
- The quota `controller_mutation_rate` counts the partitions: above it v5+ gets THROTTLING_QUOTA_EXCEEDED, older ones
  a time to wait (KIP-599).
- The response is sent once the removal is durable, waiting fetches are notified and the name is free; files are deleted
  afterwards.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from uuid import UUID

from oncelog.broker.cluster.metadata_log import Topic
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.requests.throttling import Mutations
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.slices import Sliced, all_done, count_each
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.generated.delete_topics_request import DeleteTopicsRequest
from oncelog.protocol.generated.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from oncelog.protocol.topics import TRANSACTION_STATE, ZERO_UUID

Wanted = tuple[str | None, UUID]
_STRICT_SINCE = 5


def handle(context: RequestContext, request: DeleteTopicsRequest) -> Sliced[DeleteTopicsResponse]:
    wanted: list[Wanted]
    mutations = Mutations(context, is_strict=context.api_version >= _STRICT_SINCE)
    if context.api_version >= 6:
        wanted = [(topic.name, topic.topic_id) for topic in request.topics]
    else:
        wanted = [(name, ZERO_UUID) for name in request.topic_names]
    if not context.broker.config.get_bool("delete.topic.enable"):
        code = ErrorCode.TOPIC_DELETION_DISABLED if context.api_version >= 3 else ErrorCode.INVALID_REQUEST
        text = "Topic deletion is disabled."
        answers: Iterable[Completion[DeletableTopicResult]] = (_error_response(*topic, code, text) for topic in wanted)
    else:
        names = yield from count_each(name for name, topic_id in wanted if name is not None and topic_id == ZERO_UUID)
        ids = yield from count_each(topic_id for name, topic_id in wanted if name is None and topic_id != ZERO_UUID)
        answers = _delete_all(context, wanted, names, ids, mutations)
    return mutations.with_throttle_time(DeleteTopicsResponse(responses=(yield from all_done(answers, 32))))


def _delete_all(
    context: RequestContext, wanted: list[Wanted], names: Counter[str], ids: Counter[UUID], mutations: Mutations
) -> Iterator[Completion[DeletableTopicResult]]:
    topics = context.broker.topics
    refuse = ErrorCode.INVALID_REQUEST
    yield from _malformed(wanted)
    for name, count in names.items():
        topic = topics.get(name)
        if count > 1:
            yield _error_response(name, ZERO_UUID, refuse, "Duplicate topic name.")
        elif topic is None:
            unknown = _error_response(name, ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            # This may be a repetition: the topic must neither be back after a kill nor in the way of the next one.
            yield topics.when_gone(name).flat_map(lambda _, unknown=unknown: unknown)  # type: ignore[misc]
        elif ids.pop(topic.topic_id, None) is not None:
            message = "The provided topic name maps to an ID that was already supplied."
            yield _error_response(name, topic.topic_id, refuse, message)
        else:
            yield _delete(context, topic, mutations)
    for topic_id, count in ids.items():
        topic = topics.by_id(topic_id)
        if count > 1:
            yield _error_response(None, topic_id, refuse, "Duplicate topic id.")
        elif topic is None:
            yield _error_response(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
        else:
            yield _delete(context, topic, mutations)


def _malformed(wanted: list[Wanted]) -> Iterator[Completion[DeletableTopicResult]]:
    refuse = ErrorCode.INVALID_REQUEST
    for name, topic_id in wanted:
        if name is not None and topic_id != ZERO_UUID:
            yield _error_response(name, topic_id, refuse, "You may not specify both topic name and topic id.")
        elif name is None and topic_id == ZERO_UUID:
            yield _error_response(None, ZERO_UUID, refuse, "Neither topic name nor id were specified.")


def _delete(context: RequestContext, topic: Topic, mutations: Mutations) -> Completion[DeletableTopicResult]:
    result = DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_message=None)
    try:
        if topic.name == TRANSACTION_STATE and context.broker.compatibility.guards_open_transactions:
            context.broker.transactions.check_nothing_open()
        mutations.count(topic.partition_count)
        deleted = context.broker.topics.delete(topic.name)
    except KafkaError as error:
        if error.code == ErrorCode.THROTTLING_QUOTA_EXCEEDED:  # without a text in Kafka
            return Completion.of(
                DeletableTopicResult(
                    name=topic.name, topic_id=topic.topic_id, error_code=error.code, error_message=None
                )
            )
        return _error_response(topic.name, topic.topic_id, error.code, error.message)
    return deleted.map(lambda _: result)


def _error_response(
    name: str | None, topic_id: UUID, code: ErrorCode, message: str = ""
) -> Completion[DeletableTopicResult]:
    return Completion.of(
        DeletableTopicResult(name=name, topic_id=topic_id, error_code=code, error_message=message or code.text)
    )
