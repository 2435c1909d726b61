"""DeleteShareGroupOffsets (92), version 0: forgets what a share group without members has read of topics (KIP-932).

- The group then begins as a new one does. GROUP_ID_NOT_FOUND, also for a group of another type; NON_EMPTY_GROUP for one
  that has members.
- Each topic has its own result, once durable: UNKNOWN_TOPIC_OR_PARTITION, also if there is nothing to delete, or the
  share coordinator's error.
- UNSUPPORTED_VERSION while the finalized feature share.version is 0.
"""

from oncelog.broker.cluster.topics import Topics
from oncelog.broker.coordinator.group.share.offsets import DeleteErrors
from oncelog.broker.handlers.shared.modern_groups import shortened
from oncelog.broker.handlers.shared.share_groups import serves_share_groups, topic_id_of
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.generated.delete_share_group_offsets_request import DeleteShareGroupOffsetsRequest
from oncelog.protocol.generated.delete_share_group_offsets_response import (
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from oncelog.protocol.topics import ZERO_UUID


def handle(
    context: RequestContext, request: DeleteShareGroupOffsetsRequest
) -> Completion[DeleteShareGroupOffsetsResponse]:
    if not serves_share_groups(context):
        return Completion.of(_refuse(KafkaError(ErrorCode.UNSUPPORTED_VERSION)))
    if not request.group_id:
        return Completion.of(_refuse(KafkaError(ErrorCode.INVALID_GROUP_ID)))
    topics = context.broker.topics
    names = list(dict.fromkeys(topic.topic_name for topic in request.topics))
    deleted = context.broker.groups.shares.offsets.delete(request.group_id, names)
    return deleted.map(lambda errors: _respond(topics, errors), _refuse)


def _respond(topics: Topics, errors: DeleteErrors) -> DeleteShareGroupOffsetsResponse:
    return DeleteShareGroupOffsetsResponse(
        responses=[
            DeleteShareGroupOffsetsResponseTopic(name, topic_id_of(topics, name))
            if error is None
            else DeleteShareGroupOffsetsResponseTopic(name, ZERO_UUID, error.code, str(error))
            for name, error in errors.items()
        ]
    )


def _refuse(error: KafkaError) -> DeleteShareGroupOffsetsResponse:
    return DeleteShareGroupOffsetsResponse(error_code=error.code, error_message=shortened(str(error)))
