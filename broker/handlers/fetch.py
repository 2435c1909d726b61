"""Fetch (1), versions 4–18: read whole batches up to the bound of the reader's isolation, waiting for data if asked.

- Isolation: read_uncommitted reads to the high watermark, read_committed to the last stable offset with the aborted
  transactions of what it gets (KIP-98), the future-local replica −3 to the log end. A replica id of 0 or more is
  refused as by a Kafka that has no such replica: UNKNOWN_LEADER_EPOCH, without an epoch NOT_LEADER_OR_FOLLOWER.
- The first batch comes whole even when it is larger than every limit (KIP-74), so that a reader always advances.
- With fewer than min_bytes the request waits up to max_wait_ms. Waiting, it counts what has come and reads nothing; the
  answer is read once. A client that disconnects waits no more.
- v7+ sessions (KIP-227, `broker.fetch_session`): epoch 0 opens one, −1 ends it, else the answer has what changed:
  records, errors, a new high watermark or log start. FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, and
  FETCH_SESSION_TOPIC_ID_ERROR when names and ids are mixed. Partitions that gave records go to the end of the line.
- v9+ leader epochs (KIP-320), v12 diverging epochs, v13+ topic ids (KIP-516), v16 current leader and its address where
  an epoch is fenced (KIP-951). v17 and v18 add what followers say of themselves; here nobody follows.
- Unknown topics are told but do not end the wait for the others; any other error is told at once. v4 and v5 know no
  KAFKA_STORAGE_ERROR: they are told NOT_LEADER_OR_FOLLOWER.

Left out: preferred read replicas.
"""

from typing import Any

from broker.completion import Completion
from broker.dispatch import ELEMENTS_AT_ONCE, RequestContext
from broker.fetch_session import INITIAL_EPOCH, FetchedPartition, FetchSession
from broker.handlers.partition_fetch import diverging_epoch, find_log, read_partition, readable_bytes, refuse_follower
from broker.log.partition_log import FetchIsolation, PartitionLog
from broker.ports import Timer
from broker.slices import Sliced
from protocol.errors import ErrorCode, KafkaError
from protocol.generated.fetch_request import FetchRequest
from protocol.generated.fetch_response import (
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

_FUTURE_LOCAL_REPLICA_ID = -3
_TOPIC_IDS_SINCE = 13
_CURRENT_LEADER_SINCE = 16
_STORAGE_ERROR_SINCE = 6
MOST_ELEMENTS = ELEMENTS_AT_ONCE
"""What is ready is counted and read in one turn: between two, what is counted might move."""
_LEADER_IN_DOUBT = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER)
_UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def handle(context: RequestContext, request: FetchRequest) -> FetchResponse | Completion[FetchResponse]:
    broker = context.broker
    by_topic_id = context.api_version >= _TOPIC_IDS_SINCE
    try:
        session = broker.fetch_sessions.resume(request, by_topic_id)
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    if session is None:
        broker.metrics.full_fetches += 1
        session = FetchSession(broker.purgatory, by_topic_id)
        session.ask(request.topics)
    else:
        broker.metrics.incremental_fetches += 1
    fetch = _Fetch(context, request, session)
    if request.max_wait_ms <= 0 or fetch.is_due():
        return fetch.answer()
    return fetch.wait()


def handle_large(context: RequestContext, request: FetchRequest) -> Sliced[Any]:
    """One of many partitions: their logs are opened some in each turn, and the answer is encoded some in each turn."""
    topics = context.broker.topics
    for asked in request.topics:
        topic = topics.get(asked.topic) if context.api_version < _TOPIC_IDS_SINCE else topics.by_id(asked.topic_id)
        if topic is not None:
            for partition in asked.partitions:
                topics.find_partition(topic.name, partition.partition)
                yield 1
    return handle(context, request)


class _Fetch:
    """One Fetch on its way to its answer; a FetchWaiter of its session while it waits."""

    __slots__ = (
        "_answer",
        "_available_bytes",
        "_context",
        "_endpoints",
        "_is_follower",
        "_isolation",
        "_max_bytes",
        "_min_bytes",
        "_request",
        "_session",
        "_settled",
        "_timer",
    )

    def __init__(self, context: RequestContext, request: FetchRequest, session: FetchSession) -> None:
        self._context = context
        self._request = request
        self._session = session
        replica_id = request.replica_state.replica_id if context.api_version >= 15 else request.replica_id
        self._is_follower = replica_id >= 0
        if replica_id == _FUTURE_LOCAL_REPLICA_ID:
            self._isolation = FetchIsolation.LOG_END
        elif request.isolation_level:
            self._isolation = FetchIsolation.TXN_COMMITTED
        else:
            self._isolation = FetchIsolation.HIGH_WATERMARK
        session.begin(self._isolation)
        self._max_bytes = min(request.max_bytes, context.broker.fetch_max_bytes)
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        self._available_bytes = 0
        self._settled: list[FetchedPartition] = []
        self._endpoints: list[NodeEndpoint] = []
        self._answer: Completion[FetchResponse] | None = None
        self._timer: Timer | None = None

    # -- waiting

    def is_due(self) -> bool:
        """Whether the answer may leave: enough bytes, an error, or nothing that could bring any. Reads no records."""
        session, topics = self._session, self._context.broker.topics
        found = 0
        readable_count = len(session) - len(session.ready)
        for partition in session.ready:
            log = partition.log
            try:
                if log is None:
                    log = partition.log = find_log(topics, partition)
                found += self._count(partition, log)
            except KafkaError as error:
                if error.code in _UNKNOWN and log is None:
                    continue
                return True
            readable_count += 1
            if found >= self._min_bytes:
                return True
        self._available_bytes = found
        return found >= self._min_bytes or not readable_count

    def _count(self, partition: FetchedPartition, log: PartitionLog) -> int:
        if self._is_follower or diverging_epoch(partition, log) is not None:
            return self._min_bytes
        partition.available_bytes = readable_bytes(partition, log, self._isolation)
        return partition.available_bytes

    def wait(self) -> Completion[FetchResponse]:
        context = self._context
        self._answer = Completion()
        self._session.begin_wait(self)
        self._timer = context.broker.purgatory.wait(self._request.max_wait_ms, self._complete)
        context.peer.on_gone = self._cancel
        return self._answer

    def on_moved(self, partition: FetchedPartition) -> None:
        before = partition.available_bytes
        try:
            if partition.log is not None:
                self._available_bytes += self._count(partition, partition.log) - before
            is_due = self._available_bytes >= self._min_bytes
        except KafkaError:
            is_due = True
        if is_due:
            self._complete()

    def on_replaced(self) -> None:
        """The client has gone on with the session on another connection."""
        answer = self._end_wait()
        answer.complete(
            FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=self._session.session_id)
        )

    def _complete(self) -> None:
        answer = self._end_wait()
        answer.complete(self.answer())

    def _cancel(self) -> None:
        self._end_wait()
        if not self._context.broker.fetch_sessions.holds(self._session):
            self._session.close()

    def _end_wait(self) -> Completion[FetchResponse]:
        answer, timer = self._answer, self._timer
        if answer is None or timer is None:
            raise RuntimeError("a fetch that does not wait cannot end its wait")
        self._answer = self._timer = None
        self._session.end_wait()
        self._context.broker.purgatory.end_wait(timer)
        self._context.peer.on_gone = None
        return answer

    # -- the answer

    def answer(self) -> FetchResponse:
        """Read what is ready, and let the session go on or end."""
        session = self._session
        sessions = self._context.broker.fetch_sessions
        topics = self._read_all(only_news=session.session_id != 0)
        if self._request.session_epoch == INITIAL_EPOCH and session.session_id == 0:
            sessions.offer(session)
        if sessions.holds(session):
            for partition in self._settled:
                session.settle(partition)
        else:
            session.close()
        return FetchResponse(session_id=session.session_id, responses=topics, node_endpoints=self._endpoints)

    def _read_all(self, *, only_news: bool) -> list[FetchableTopicResponse]:
        session = self._session
        topics: list[FetchableTopicResponse] = []
        partitions: list[PartitionData] = []
        last_topic: object = None
        bytes_left = min(self._max_bytes, self._context.peer.next_answer_bytes)
        is_empty = True
        for partition in tuple(session.ready):
            data = self._read(partition, bytes_left, at_least_one=is_empty)
            size = len(data.records or b"")
            if size:
                is_empty = False
                bytes_left = max(0, bytes_left - size)
            news = partition.tell(data.high_watermark, data.log_start_offset)
            if only_news and not (news or size or data.error_code or data.diverging_epoch.epoch >= 0):
                continue
            topic = partition.topic_id or partition.topic
            if topic != last_topic:
                last_topic = topic
                partitions = []
                topics.append(_topic(partition, partitions))
            partitions.append(data)
        return topics

    def _read(self, partition: FetchedPartition, bytes_left: int, *, at_least_one: bool) -> PartitionData:
        session = self._session
        log = partition.log
        try:
            if log is None:
                log = partition.log = find_log(self._context.broker.topics, partition)
            if self._is_follower:
                refuse_follower(partition, log)
            data = read_partition(partition, log, self._isolation, bytes_left, at_least_one=at_least_one)
        except KafkaError as error:
            session.forget_log(partition)
            return self._refused(partition, error.code, log)
        if data.records:
            session.rotate(partition)
        elif partition.fetch_offset >= log.upper_bound(self._isolation) and data.diverging_epoch.epoch < 0:
            self._settled.append(partition)
        return data

    def _refused(self, partition: FetchedPartition, code: ErrorCode, log: PartitionLog | None) -> PartitionData:
        """Stays ready: it is told again as long as it lasts."""
        context = self._context
        version = context.api_version
        leader = LeaderIdAndEpoch()
        if code in _LEADER_IN_DOUBT and log is not None and version >= _CURRENT_LEADER_SINCE:
            node_id = context.broker.node_id
            leader = LeaderIdAndEpoch(leader_id=node_id, leader_epoch=log.leader_epoch)
            if not self._is_follower:
                host, port = context.advertised
                self._endpoints = [NodeEndpoint(node_id=node_id, host=host, port=port)]
        if code is ErrorCode.KAFKA_STORAGE_ERROR and version < _STORAGE_ERROR_SINCE:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return PartitionData(
            partition_index=partition.index,
            error_code=code,
            high_watermark=-1,
            log_start_offset=-1,
            current_leader=leader,
            aborted_transactions=() if code in _UNKNOWN else None,
            records=b"",
        )


def _topic(partition: FetchedPartition, partitions: list[PartitionData]) -> FetchableTopicResponse:
    if partition.topic_id is not None:
        return FetchableTopicResponse(topic_id=partition.topic_id, partitions=partitions)
    return FetchableTopicResponse(topic=partition.topic or "", partitions=partitions)
