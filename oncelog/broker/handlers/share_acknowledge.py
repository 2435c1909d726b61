"""ShareAcknowledge (79), versions 1–2: a member of a share group says what has become of the records that it has
acquired (KIP-932).

- It continues the member's share session (`handlers.share_fetch`) or closes it with epoch −1, which releases what the
  member still holds; it opens none: INVALID_SHARE_SESSION_EPOCH for epoch 0.
- Each partition is acknowledged as a whole or not at all, and answered once that is durable: INVALID_RECORD_STATE for
  records that the member does not hold, INVALID_REQUEST for acknowledgements that contradict themselves.
- v2+ locks may be renewed (KIP-1222), by a request that says so.
- UNSUPPORTED_VERSION while the finalized feature share.version is 0.
"""

from uuid import UUID

from oncelog.broker.handlers.shared.share_requests import RENEWS_SINCE, Acknowledgements, Leaders, check_sender
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.requests.dispatch import ELEMENTS_AT_ONCE
from oncelog.broker.sharing.sessions import FINAL_EPOCH
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.errors import KafkaError
from oncelog.protocol.generated.share_acknowledge_request import ShareAcknowledgeRequest
from oncelog.protocol.generated.share_acknowledge_response import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)

MOST_ELEMENTS = ELEMENTS_AT_ONCE
"""The acknowledgements of a partition are checked and made in one turn."""


def handle(context: RequestContext, request: ShareAcknowledgeRequest) -> Sliced[ShareAcknowledgeResponse]:
    sharing = context.broker.sharing
    try:
        member = check_sender(context, request.group_id, request.member_id)
        session = sharing.sessions.acknowledging(member, request.share_session_epoch)
    except KafkaError as error:
        return ShareAcknowledgeResponse(error_code=error.code)
    is_renewal = context.api_version >= RENEWS_SINCE and request.is_renew_ack
    acknowledgements = Acknowledgements(context, member, is_renewal=is_renewal)
    yield from acknowledgements.make(request.topics)
    if request.share_session_epoch == FINAL_EPOCH:
        sharing.sessions.close(session)
    results = yield from acknowledgements.answered()
    leaders = Leaders(context)
    topics: dict[UUID, list[PartitionData]] = {}
    for each, result in results.items():
        leader = leaders.of(each, result.code)
        data = PartitionData(
            partition_index=each.partition,
            error_code=result.code,
            error_message=result.message,
            current_leader=LeaderIdAndEpoch() if leader is None else LeaderIdAndEpoch(*leader),
        )
        topics.setdefault(each.topic_id, []).append(data)
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=sharing.settings.of(member.group_id).record_lock_duration_ms,
        responses=[ShareAcknowledgeTopicResponse(topic_id=each, partitions=rows) for each, rows in topics.items()],
        node_endpoints=[
            NodeEndpoint(node_id=node_id, host=host, port=port) for node_id, (host, port) in leaders.addresses.items()
        ],
    )
