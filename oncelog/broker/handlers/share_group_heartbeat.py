"""ShareGroupHeartbeat (76), version 1: a member of a share group joins, reports, gets its assignment, leaves (KIP-932).

- The response is sent once the change is durable; an error has its reason.
- A partition is assigned once its state is made, which the first heartbeat of a group begins: the assignment follows
  with a later one.
- UNSUPPORTED_VERSION while the finalized feature share.version is 0.
"""

from oncelog.broker.coordinator.group.assignors.subscriber import TopicPartitions
from oncelog.broker.coordinator.group.engine.requests import HeartbeatResult
from oncelog.broker.coordinator.group.share.heartbeat import HeartbeatRequest
from oncelog.broker.handlers.shared.share_groups import is_member_id, serves_share_groups
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.generated.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from oncelog.protocol.generated.share_group_heartbeat_response import (
    Assignment,
    ShareGroupHeartbeatResponse,
)
from oncelog.protocol.generated.share_group_heartbeat_response import TopicPartitions as ResponseTopicPartitions

_MESSAGE_CHARACTERS = 4_000


def handle(context: RequestContext, request: ShareGroupHeartbeatRequest) -> Completion[ShareGroupHeartbeatResponse]:
    if not serves_share_groups(context):
        return Completion.of(ShareGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))
    if not is_member_id(request.member_id):
        return Completion.of(ShareGroupHeartbeatResponse(error_code=ErrorCode.INVALID_REQUEST))
    heartbeat = HeartbeatRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        rack_id=request.rack_id,
        topic_names=request.subscribed_topic_names,
        client_id=context.client_id or "",
        client_host=f"/{context.peer.host}",
    )
    return context.broker.groups.shares.heartbeat(heartbeat).map(_respond, _refuse)


def _respond(result: HeartbeatResult) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval_ms=result.heartbeat_interval_ms,
        assignment=None if result.assignment is None else _assignment(result.assignment),
    )


def _assignment(partitions: TopicPartitions) -> Assignment:
    return Assignment(
        topic_partitions=[
            ResponseTopicPartitions(topic_id=topic_id, partitions=sorted(numbers))
            for topic_id, numbers in partitions.items()
        ]
    )


def _refuse(error: KafkaError) -> ShareGroupHeartbeatResponse:
    # The message repeats names, and must fit into one string.
    return ShareGroupHeartbeatResponse(error_code=error.code, error_message=error.message[:_MESSAGE_CHARACTERS])
