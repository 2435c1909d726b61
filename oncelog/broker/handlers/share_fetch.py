"""ShareFetch (78), versions 1–2: a member of a share group acquires records, and acknowledges others with the same
request (KIP-932).

- A share session has the partitions of a member: epoch 0 opens one in place of the one before, −1 closes it and
  releases what the member holds, another epoch continues it. SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH; a
  request that finds no place for a session is answered SHARE_SESSION_LIMIT_REACHED after its max_wait_ms. The session
  ends with the connection that has opened it. With a group's last session its share-partitions leave the memory, in
  Kafka only with that connection: read again, released ranges that are alike are one.
- Acknowledgements come first, and are answered once they are durable, each partition with an error of its own. A
  request that opens a session has none: INVALID_REQUEST.
- Records are returned as they are stored, in whole batches: the acquired ranges say which of them are the member's.
  With fewer than min_bytes the request waits up to max_wait_ms. A partition is read up to the bound of the group's
  share.isolation.level; records of aborted transactions are never acquired.
- A response has the partitions with records or an error, those that are new in the session, and those that had an error
  in the response before.
- v2+ max_records may be a strict limit (KIP-1206), and locks may be renewed (KIP-1222): then nothing is fetched, and
  max_wait_ms, min_bytes, max_bytes and max_records must be 0.
- UNSUPPORTED_VERSION while the finalized feature share.version is 0.
"""

from collections.abc import Mapping
from uuid import UUID

from oncelog.broker.handlers.shared.share_requests import (
    RENEWS_SINCE,
    Acknowledgements,
    Leaders,
    PartitionError,
    check_sender,
    check_topic,
)
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.requests.dispatch import ELEMENTS_AT_ONCE
from oncelog.broker.sharing.fetch import Fetched, FetchedRecords, ShareFetch, ShareFetchLimits
from oncelog.broker.sharing.sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    PartitionId,
    ShareSession,
    ShareSessionKey,
    next_epoch,
)
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.generated.share_fetch_request import ShareFetchRequest
from oncelog.protocol.generated.share_fetch_response import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchResponse,
)

MOST_ELEMENTS = ELEMENTS_AT_ONCE
"""The partitions of a session, and the acknowledgements of a partition, are taken in one turn."""
_ACQUIRE_MODES = range(2)
_READ_ELEMENTS = 15
"""The additional elements that a partition with records counts as, as in a Fetch."""
_NO_RECORDS = FetchedRecords(ErrorCode.NONE)


def handle(context: RequestContext, request: ShareFetchRequest) -> Sliced[ShareFetchResponse]:
    sharing = context.broker.sharing
    is_renewal = context.api_version >= RENEWS_SINCE and request.is_renew_ack
    try:
        member = check_sender(context, request.group_id, request.member_id)
        if is_renewal and (request.max_wait_ms or request.min_bytes or request.max_bytes or request.max_records):
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        has_acknowledgements = any(row.acknowledgement_batches for topic in request.topics for row in topic.partitions)
        session = _session(context, request, member, has_acknowledgements=has_acknowledgements)
    except KafkaError as error:
        if error.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED and request.max_wait_ms > 0:
            yield _pause(context, request.max_wait_ms)
        return ShareFetchResponse(error_code=error.code)
    acknowledgements = Acknowledgements(context, member, is_renewal=is_renewal)
    if has_acknowledgements:
        yield from acknowledgements.make(request.topics)
    epoch = request.share_session_epoch
    fetched: Fetched = {}
    if epoch == FINAL_EPOCH:
        sharing.sessions.close(session)
    elif not is_renewal:
        try:
            fetched = yield from _fetch(context, request, session)
        except KafkaError as error:
            return ShareFetchResponse(error_code=error.code)
    acknowledged = yield from acknowledgements.answered()
    if epoch not in (INITIAL_EPOCH, FINAL_EPOCH):
        if session.epoch != next_epoch(epoch):
            return ShareFetchResponse(error_code=ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        fetched = _for_session(session, fetched)
    return _response(context, sharing.settings.of(member.group_id).record_lock_duration_ms, fetched, acknowledged)


def _session(
    context: RequestContext, request: ShareFetchRequest, member: ShareSessionKey, *, has_acknowledgements: bool
) -> ShareSession:
    """Return the session that the request opens, continues or is about to close. Raises KafkaError."""
    sharing, epoch = context.broker.sharing, request.share_session_epoch
    if epoch == FINAL_EPOCH:
        return sharing.sessions.existing(member)
    asked = [
        (PartitionId(topic.topic_id, row.partition_index), _name(context, topic.topic_id))
        for topic in request.topics
        for row in topic.partitions
    ]
    if epoch != INITIAL_EPOCH:
        forgotten = [
            PartitionId(topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions
        ]
        return sharing.sessions.resume(member, epoch, asked, forgotten)
    if has_acknowledgements:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    session = sharing.sessions.open(member, context.peer, asked)
    sharing.follow(context.peer)
    return session


def _name(context: RequestContext, topic_id: UUID) -> str | None:
    topic = context.broker.topics.by_id(topic_id)
    return None if topic is None else topic.name


def _fetch(context: RequestContext, request: ShareFetchRequest, session: ShareSession) -> Sliced[Fetched]:
    """Return the partitions that have records or an error. Raises KafkaError, which refuses the request."""
    broker, group_id = context.broker, session.key.group_id
    fetched: dict[PartitionId, FetchedRecords] = {}
    wanted: list[PartitionId] = []
    for each, known in tuple(session.partitions.items()):
        if known.topic is None:
            known.topic = _name(context, each.topic_id)
        try:
            check_topic(context, each, known.topic)
        except KafkaError as error:
            fetched[each] = FetchedRecords(error.code)
        else:
            wanted.append(each)
        yield 1
    if not wanted:
        return fetched
    if request.share_acquire_mode not in _ACQUIRE_MODES:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    if not broker.sharing.sessions.continues(session, request.share_session_epoch):
        # Another request came between two slices: what is acquired now would have no member.
        raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
    max_bytes = min(request.max_bytes, broker.fetch_max_bytes)
    limits = ShareFetchLimits(
        max_wait_ms=request.max_wait_ms,
        min_bytes=min(request.min_bytes, max_bytes),
        max_bytes=max_bytes,
        max_records=request.max_records,
        batch_size=request.batch_size,
        acquire_mode=request.share_acquire_mode,
        isolation=broker.sharing.isolation(group_id),
    )
    fetch = ShareFetch(broker, context.peer, session, limits)
    found = yield from fetch.fetch(broker.sharing, wanted, request.share_session_epoch)
    yield _READ_ELEMENTS * len(found)
    return {**found, **fetched}


def _for_session(session: ShareSession, fetched: Fetched) -> Fetched:
    """Return what is new to a client that has a session."""
    new: dict[PartitionId, FetchedRecords] = {}
    for each, found in fetched.items():
        known = session.partitions.get(each)
        if known is None:  # forgotten meanwhile
            continue
        has_records = len(found.records) > 0
        if known.is_in_response(has_records=has_records, has_error=found.code is not ErrorCode.NONE):
            new[each] = found
            if has_records:
                session.rotate(each)
    return new


def _response(
    context: RequestContext,
    lock_duration_ms: int,
    fetched: Fetched,
    acknowledged: Mapping[PartitionId, PartitionError],
) -> ShareFetchResponse:
    leaders = Leaders(context)
    topics: dict[UUID, list[PartitionData]] = {}
    for each in dict.fromkeys((*fetched, *acknowledged)):
        found = fetched.get(each, _NO_RECORDS)
        error = acknowledged.get(each, _NO_ERROR)
        leader = leaders.of(each, found.code)
        data = PartitionData(
            partition_index=each.partition,
            error_code=found.code,
            acknowledge_error_code=error.code,
            acknowledge_error_message=error.message,
            current_leader=LeaderIdAndEpoch() if leader is None else LeaderIdAndEpoch(*leader),
            records=found.records,
            acquired_records=[AcquiredRecords(*acquired) for acquired in found.acquired],
        )
        topics.setdefault(each.topic_id, []).append(data)
    return ShareFetchResponse(
        acquisition_lock_timeout_ms=lock_duration_ms,
        responses=[ShareFetchableTopicResponse(topic_id=each, partitions=rows) for each, rows in topics.items()],
        node_endpoints=[
            NodeEndpoint(node_id=node_id, host=host, port=port) for node_id, (host, port) in leaders.addresses.items()
        ],
    )


_NO_ERROR = PartitionError(ErrorCode.NONE)


def _pause(context: RequestContext, wait_ms: int) -> Completion[None]:
    """Complete after that time, or when the client is gone."""
    over: Completion[None] = Completion()

    def end() -> None:
        timer.cancel()
        context.peer.on_disconnect = None
        over.complete(None)

    timer = context.broker.scheduler.call_later(wait_ms, end)
    context.peer.on_disconnect = end
    return over
