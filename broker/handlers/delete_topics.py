"""DeleteTopics (20), versions 1–6; v6 also by topic id (KIP-516).

- `delete.topic.enable=false`: TOPIC_DELETION_DISABLED (v3+), INVALID_REQUEST before.
- Internal topics may be deleted, as in Kafka without an authorizer; they come back at their next need.
- Answered once the removal is durable; the files go in the same turn.
"""

from uuid import UUID

from broker.completion import Completion, all_of
from broker.dispatch import RequestContext
from protocol.errors import ErrorCode, KafkaError
from protocol.generated.delete_topics_request import DeleteTopicsRequest
from protocol.generated.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse

_NO_ID = UUID(int=0)


def handle(context: RequestContext, request: DeleteTopicsRequest) -> Completion[DeleteTopicsResponse]:
    wanted: list[tuple[str | None, UUID]]
    if context.api_version >= 6:
        wanted = [(topic.name, topic.topic_id) for topic in request.topics]
    else:
        wanted = [(name, _NO_ID) for name in request.topic_names]
    answers = [_delete(context, name, topic_id) for name, topic_id in wanted]
    return all_of(answers).map(lambda results: DeleteTopicsResponse(responses=results))


def _delete(context: RequestContext, name: str | None, topic_id: UUID) -> Completion[DeletableTopicResult]:
    broker = context.broker
    try:
        if not broker.config.get_bool("delete.topic.enable"):
            disabled = ErrorCode.TOPIC_DELETION_DISABLED if context.api_version >= 3 else ErrorCode.INVALID_REQUEST
            raise KafkaError(disabled, "This broker has delete.topic.enable=false.")
        if name is None:
            topic = broker.topics.by_id(topic_id)
            if topic is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic with the id {topic_id}")
        else:
            if topic_id != _NO_ID:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "A topic is named by its name or by its id, not by both.")
            topic = broker.topics.get(name)
            if topic is None:
                raise KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
                )
        deleted = broker.topics.delete(topic.name)
    except KafkaError as error:
        return Completion.of(
            DeletableTopicResult(name=name, topic_id=topic_id, error_code=error.code, error_message=error.message)
        )
    result = DeletableTopicResult(name=topic.name, topic_id=topic.topic_id)
    return deleted.map(lambda _: result)
