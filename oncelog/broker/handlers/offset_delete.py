"""OffsetDelete (47), version 0: deletes committed offsets of a group (KIP-496).

- Each partition has its own result, once durable: UNKNOWN_TOPIC_OR_PARTITION, GROUP_SUBSCRIBED_TO_TOPIC while a member
  is subscribed to the topic, or while its members are consumers whose subscriptions are unknown.
- For the group as a whole: INVALID_GROUP_ID, GROUP_ID_NOT_FOUND; NON_EMPTY_GROUP if its members are not consumers.
"""

from oncelog.broker.coordinator.group.engine.kind import CommitErrors
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.offset_delete_request import OffsetDeleteRequest
from oncelog.protocol.generated.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def handle(context: RequestContext, request: OffsetDeleteRequest) -> Completion[OffsetDeleteResponse]:
    topics = context.broker.topics
    wanted = [(topic.name, data.partition_index) for topic in request.topics for data in topic.partitions]
    known = [partition for partition in wanted if topics.has_partition(*partition)]
    errors: CommitErrors = dict.fromkeys(wanted, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return context.broker.groups.administration.delete_offsets(request.group_id, known).map(
        lambda deleted: _respond(request, {**errors, **deleted}),
        lambda error: OffsetDeleteResponse(error_code=error.code),
    )


def _respond(request: OffsetDeleteRequest, errors: CommitErrors) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(
                        partition_index=data.partition_index, error_code=errors[topic.name, data.partition_index]
                    )
                    for data in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
