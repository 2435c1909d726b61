"""Fetch (1), versions 4–18: read whole batches up to the bound of the reader's isolation level, waiting for data if
requested.

- Isolation: read_uncommitted reads to the high watermark, read_committed to the last stable offset with the aborted
  transactions of what it returns (KIP-98), the future-local replica −3 to the log end. A replica id of 0 or more is
  rejected as by a Kafka without such a replica: UNKNOWN_LEADER_EPOCH, without an epoch NOT_LEADER_OR_FOLLOWER.
- The first batch is returned whole even if it exceeds every limit (KIP-74), so that a reader always advances.
- With fewer than min_bytes the request waits up to max_wait_ms. While waiting, it counts available bytes and reads
  nothing; the data is read once. The wait ends when the client disconnects.
- v7+ sessions (KIP-227, `broker.fetching.session`): epoch 0 opens one, −1 ends it, otherwise the response has what
  changed: records, errors, a new high watermark or log start. FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH,
  and FETCH_SESSION_TOPIC_ID_ERROR if names and ids are mixed. Partitions that returned records move to the end of the
  queue.
- v9+ leader epochs (KIP-320), v12 diverging epochs, v13+ topic ids (KIP-516), v16 current leader and its address if an
  epoch is fenced (KIP-951). v17 and v18 add fields for followers; here there are none.
- Unknown topics are reported but do not end the wait for the others; any other error is reported at once. v4 and v5
  lack KAFKA_STORAGE_ERROR and get NOT_LEADER_OR_FOLLOWER.

This file finds the session of a request, or makes one; `broker.fetching` does the rest. A request that may name many
partitions is parsed, given to its session and encoded in slices (`turns.slices`).

Left out: preferred read replicas.
"""

from typing import Any

from oncelog.broker.fetching.fetch import Answered, Fetch, slices_of
from oncelog.broker.fetching.session import FetchSession
from oncelog.broker.handlers.shared.asked_topics import names_by_id
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.requests.dispatch import ELEMENTS_AT_ONCE
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.errors import KafkaError
from oncelog.protocol.generated.fetch_request import FetchRequest, FetchTopic, ForgottenTopic
from oncelog.protocol.generated.fetch_response import FetchResponse

MOST_ELEMENTS = ELEMENTS_AT_ONCE
"""The partitions of a session that are freed in one turn."""


def handle(context: RequestContext, request: FetchRequest, prepared: FetchSession | None = None) -> Answered:
    """`prepared` is the session, of this request alone if it has no id, that already has the requested partitions."""
    broker = context.broker
    by_topic_id = names_by_id(context)
    try:
        session = broker.fetch_sessions.resume(request, by_topic_id, prepared)
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    if session is not None:
        broker.metrics.incremental_fetches += 1
    else:
        broker.metrics.full_fetches += 1
        if prepared is not None and not prepared.session_id:
            session = prepared
        else:
            session = FetchSession(broker.purgatory, by_topic_id, request.session_epoch)
            session.ask(request.topics)
    return Fetch(context, request, session).go_on()


def handle_large(context: RequestContext, request: FetchRequest) -> Any:
    return context.run(_handle_in_slices(context, request))


def _handle_in_slices(context: RequestContext, request: FetchRequest) -> Sliced[Any]:
    """A request that may name many partitions: a session takes them in slices, then it is handled like any other."""
    broker = context.broker
    by_topic_id = names_by_id(context)
    session = broker.fetch_sessions.find(request, by_topic_id)
    if session is None:
        session = FetchSession(broker.purgatory, by_topic_id, request.session_epoch)
    for asked in request.topics:
        for partitions in slices_of(asked.partitions):
            session.ask([FetchTopic(asked.topic, asked.topic_id, partitions)])
            yield len(partitions)
    for forgotten in request.forgotten_topics_data:
        for indexes in slices_of(forgotten.partitions):
            session.forget([ForgottenTopic(forgotten.topic, forgotten.topic_id, indexes)])
            yield len(indexes)
    return handle(context, request, session)
