"""AlterShareGroupOffsets (91), version 0: sets where a share group without members begins in partitions (KIP-932).

- A group that does not exist is created. GROUP_ID_NOT_FOUND for one of another type, NON_EMPTY_GROUP for one that has
  members.
- Each partition has its own result, once durable: UNKNOWN_TOPIC_OR_PARTITION, or the share coordinator's error.
- A partition below zero refuses the whole request with UNKNOWN_SERVER_ERROR.
- UNSUPPORTED_VERSION while the finalized feature share.version is 0.
"""

from oncelog.broker.cluster.topics import Topics
from oncelog.broker.coordinator.group.share.offsets import AlterErrors, OffsetsToAlter
from oncelog.broker.handlers.shared.modern_groups import shortened
from oncelog.broker.handlers.shared.share_groups import serves_share_groups, topic_id_of
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.generated.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
)
from oncelog.protocol.generated.alter_share_group_offsets_response import (
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)


def handle(
    context: RequestContext, request: AlterShareGroupOffsetsRequest
) -> Completion[AlterShareGroupOffsetsResponse]:
    if not serves_share_groups(context):
        return Completion.of(_refuse(KafkaError(ErrorCode.UNSUPPORTED_VERSION)))
    if not request.group_id:
        return Completion.of(_refuse(KafkaError(ErrorCode.INVALID_GROUP_ID)))
    topics = context.broker.topics
    wanted = [
        OffsetsToAlter(topic.topic_name, {each.partition_index: each.start_offset for each in topic.partitions})
        for topic in request.topics
    ]
    altered = context.broker.groups.shares.offsets.alter(request.group_id, wanted)
    return altered.map(lambda errors: _respond(topics, request, errors), _refuse)


def _respond(
    topics: Topics, request: AlterShareGroupOffsetsRequest, errors: AlterErrors
) -> AlterShareGroupOffsetsResponse:
    # Kafka's order: topics that do not exist first.
    in_order = sorted(request.topics, key=lambda topic: topics.get(topic.topic_name) is not None)
    return AlterShareGroupOffsetsResponse(
        responses=[
            AlterShareGroupOffsetsResponseTopic(
                topic_name=topic.topic_name,
                topic_id=topic_id_of(topics, topic.topic_name),
                partitions=_partitions(topic, errors),
            )
            for topic in in_order
        ]
    )


def _partitions(
    topic: AlterShareGroupOffsetsRequestTopic, errors: AlterErrors
) -> list[AlterShareGroupOffsetsResponsePartition]:
    rows = []
    for each in topic.partitions:
        error = errors.get((topic.topic_name, each.partition_index))
        rows.append(
            AlterShareGroupOffsetsResponsePartition(each.partition_index)
            if error is None
            else AlterShareGroupOffsetsResponsePartition(each.partition_index, error.code, str(error))
        )
    return rows


def _refuse(error: KafkaError) -> AlterShareGroupOffsetsResponse:
    return AlterShareGroupOffsetsResponse(error_code=error.code, error_message=shortened(str(error)))
