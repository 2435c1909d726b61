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

A response is made in three steps. Each partition is planned, from offsets alone, which fixes what its reader may see.
It is read, at once if its bytes are in memory; otherwise they are read off the event loop, in parallel with others.
Once all reads are complete the response is assembled, and only then does the session change.

More than `_AT_ONCE` partitions are parsed, counted, read and encoded in slices (`turns.slices`). Each is planned in
one turn; later changes are ready for the next request.

Left out: preferred read replicas.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from oncelog.broker.fetching.partition import (
    PartitionRead,
    diverging_epoch,
    find_log,
    plan_partition,
    read_partition,
    readable_bytes,
    refuse_follower,
)
from oncelog.broker.fetching.session import INITIAL_EPOCH, FetchedPartition, FetchSession
from oncelog.broker.handlers.shared.asked_topics import names_by_id
from oncelog.broker.log.partition_log import FetchIsolation, PartitionLog
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.requests.dispatch import ELEMENTS_AT_ONCE
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Timer
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.acls import CLUSTER_NAME, AclOperation, ResourceType
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.generated.fetch_request import FetchRequest, FetchTopic, ForgottenTopic
from oncelog.protocol.generated.fetch_response import (
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

_FUTURE_LOCAL_REPLICA_ID = -3
_CURRENT_LEADER_SINCE = 16
_STORAGE_ERROR_SINCE = 6
_AT_ONCE = 100
"""This many partitions are counted and read in one turn. Measured: one without records takes some 4 µs, one with 50."""
_UNTIL_SEEN_MS = 500
"""How long at most even one that would not wait waits for the sync of what was answered."""
_A_SLICE = 10
_READ_ELEMENTS = 15
"""The additional elements that a partition with records counts as."""
MOST_ELEMENTS = ELEMENTS_AT_ONCE
"""The partitions of a session that are freed in one turn."""
_LEADER_IN_DOUBT = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER)
_UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
_FORBIDDEN = ErrorCode.TOPIC_AUTHORIZATION_FAILED
T = TypeVar("T")


def handle(
    context: RequestContext, request: FetchRequest, prepared: FetchSession | None = None
) -> FetchResponse | Completion[Any]:
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
            session = FetchSession(broker.purgatory, by_topic_id)
            session.ask(request.topics)
    fetch = (_Fetch if broker.authorizer is None else _AuthorizedFetch)(context, request, session)
    if len(session.ready) > _AT_ONCE:
        response: FetchResponse | Completion[Any] = context.run(fetch.in_slices())
        return response
    return fetch.answer() if fetch.is_due() else fetch.wait()


def handle_large(context: RequestContext, request: FetchRequest) -> Any:
    return context.run(_handle_in_slices(context, request))


def _handle_in_slices(context: RequestContext, request: FetchRequest) -> Sliced[Any]:
    """A request that may name many partitions: a session takes them in slices, then it is handled like any other."""
    broker = context.broker
    topics = broker.topics
    by_topic_id = names_by_id(context)
    session = broker.fetch_sessions.find(request, by_topic_id)
    if session is None:
        session = FetchSession(broker.purgatory, by_topic_id)
    for asked in request.topics:
        topic = topics.by_id(asked.topic_id) if by_topic_id else topics.get(asked.topic)
        for partitions in _slices(asked.partitions):
            if topic is not None:
                for partition in partitions:
                    topics.find_partition(topic.name, partition.partition)  # opens its log
                    yield 1
            session.ask([FetchTopic(asked.topic, asked.topic_id, partitions)])
            yield len(partitions)
    for forgotten in request.forgotten_topics_data:
        for indexes in _slices(forgotten.partitions):
            session.forget([ForgottenTopic(forgotten.topic, forgotten.topic_id, indexes)])
            yield len(indexes)
    return handle(context, request, session)


def _slices(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + _A_SLICE] for start in range(0, len(items), _A_SLICE))


class _Fetch:
    """One Fetch in progress; a FetchWaiter of its session while it waits."""

    __slots__ = (
        "_answer",
        "_answered",
        "_available_bytes",
        "_bytes_left",
        "_context",
        "_endpoints",
        "_epoch",
        "_is_early",
        "_is_ending",
        "_is_follower",
        "_is_kept",
        "_isolation",
        "_last_topic",
        "_late",
        "_max_bytes",
        "_min_bytes",
        "_moved",
        "_only_changes",
        "_read_count",
        "_readable_count",
        "_request",
        "_session",
        "_timer",
        "_topics",
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
        self._max_bytes = max(0, min(request.max_bytes, context.broker.fetch_max_bytes))
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        self._is_early = False
        """Something was answered that is not durable yet, and this reader may see it in a moment."""
        self._available_bytes = 0
        self._readable_count = 0
        self._endpoints: list[NodeEndpoint] = []
        self._topics: list[FetchableTopicResponse] = []
        self._answered: list[PartitionData] = []
        """Partitions of the last one of the topics."""
        self._answer: Completion[FetchResponse | Completion[FetchResponse]] | None = None
        self._timer: Timer | None = None
        self._is_ending = False
        self._late: list[tuple[FetchedPartition, PartitionData | PartitionRead]] = []
        """The partitions from the first one with a pending read on: assembled once all reads are complete."""
        self._moved: dict[FetchedPartition, None] = {}
        """Partitions that moved since this request's slices began to count."""
        self._epoch = session.epoch

    # -- waiting

    def is_due(self) -> bool:
        """Whether to respond now: enough bytes, an error, or nothing that could bring any. Reads no records."""
        session = self._session
        if self._request.max_wait_ms <= 0:
            self._look_ahead(session.ready)
            return not self._is_early
        self._readable_count = len(session) - len(session.ready)
        return (self._count_all(session.ready) or not self._readable_count) and not self._is_early

    def _look_ahead(self, partitions: Iterable[FetchedPartition]) -> None:
        """For a reader that would not wait: whether it must, to see what was answered already."""
        if self._isolation is FetchIsolation.HIGH_WATERMARK:
            topics = self._context.broker.topics
            for partition in partitions:
                log = partition.log
                try:
                    if log is None:
                        log = partition.log = find_log(topics, partition)
                    if log.answered_offset > log.high_watermark:
                        self._available_bytes += self._count(partition, log)
                except KafkaError:
                    continue  # the response tells

    def _count_all(self, partitions: Iterable[FetchedPartition]) -> bool:
        """Count the available bytes; returns whether they, with those of other partitions, are enough to respond."""
        topics = self._context.broker.topics
        for partition in partitions:
            log = partition.log
            try:
                if log is None:
                    log = partition.log = find_log(topics, partition)
                self._available_bytes += self._count(partition, log)
            except KafkaError as error:
                if error.code is _FORBIDDEN or (error.code in _UNKNOWN and log is None):
                    continue
                return True
            self._readable_count += 1
            if self._available_bytes >= self._min_bytes:
                return True
        return self._available_bytes >= self._min_bytes

    def _count(self, partition: FetchedPartition, log: PartitionLog) -> int:
        if self._is_follower or diverging_epoch(partition, log) is not None:
            return self._min_bytes
        if log.high_watermark < log.log_end_offset:
            log.start_round_for(self._isolation)
            if self._isolation is FetchIsolation.HIGH_WATERMARK and log.answered_offset > log.high_watermark:
                self._is_early = True
        partition.available_bytes = readable_bytes(partition, log, self._isolation)
        return partition.available_bytes

    def wait(self) -> Completion[FetchResponse | Completion[FetchResponse]]:
        context = self._context
        self._answer = Completion()
        self._session.begin_wait(self)
        max_wait_ms = max(self._request.max_wait_ms, _UNTIL_SEEN_MS if self._is_early else 0)
        self._timer = context.broker.purgatory.wait(max_wait_ms, self._complete)
        context.peer.on_disconnect = self._cancel
        return self._answer

    def on_moved(self, partition: FetchedPartition) -> None:
        if self._answer is None:
            self._moved[partition] = None
        elif self._count_again(partition) and not self._is_ending:
            # After this turn: other logs of the same round are to be heard of, and belong to the same response.
            self._is_ending = True
            self._context.broker.scheduler.call_soon(self._end)

    def _end(self) -> None:
        if self._answer is not None:  # not timed out meanwhile, nor disconnected
            self._complete()

    def _count_again(self, partition: FetchedPartition) -> bool:
        """It has moved: whether to respond now."""
        before = partition.available_bytes
        try:
            if partition.log is not None:
                self._available_bytes += self._count(partition, partition.log) - before
        except KafkaError:
            return True
        return self._available_bytes >= self._min_bytes or self._request.max_wait_ms <= 0

    def on_replaced(self) -> None:
        """The client has continued the session on another connection."""
        if self._answer is not None:
            self._end_wait().complete(self._replaced())

    @property
    def _is_replaced(self) -> bool:
        return self._session.epoch != self._epoch

    def _replaced(self) -> FetchResponse:
        return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=self._session.session_id)

    def _complete(self) -> None:
        answer = self._end_wait()
        if len(self._session.ready) > _AT_ONCE:
            answer.complete(self._context.run(self.in_slices(is_due=True)))
        else:
            answer.complete(self.answer())

    def _cancel(self) -> None:
        self._end_wait()
        self._leave()

    def _leave(self) -> None:
        if not self._context.broker.fetch_sessions.holds(self._session):
            self._session.close()

    def _end_wait(self) -> Completion[FetchResponse | Completion[FetchResponse]]:
        answer, timer = self._answer, self._timer
        if answer is None or timer is None:
            raise RuntimeError("a fetch that does not wait cannot end its wait")
        self._answer = self._timer = None
        self._session.end_wait()
        self._context.broker.purgatory.end_wait(timer)
        self._context.peer.on_disconnect = None
        return answer

    # -- many partitions

    def in_slices(self, *, is_due: bool = False) -> Sliced[FetchResponse | Completion[Any]]:
        """The response, or a wait for it: what `handle` does with few partitions."""
        session = self._session
        if self._is_replaced:
            return self._replaced()
        session.begin_slices(self)
        waits = False
        try:
            waits = not (is_due or (yield from self._is_due_in_slices()))
            if not waits:
                yield from self._read_in_slices()
                yield from self._read_late()
        finally:  # also when the client has disconnected
            if not self._is_replaced:
                session.end_wait()
                if not waits:
                    self._leave()
        if self._is_replaced:
            return self._replaced()
        return self.wait() if waits else self._response()

    def _is_due_in_slices(self) -> Sliced[bool]:
        session = self._session
        waits_for_bytes = self._request.max_wait_ms > 0
        self._readable_count = len(session) - len(session.ready)
        for partitions in _slices(tuple(session.ready)):
            if self._is_replaced or (waits_for_bytes and self._count_all(partitions)):
                return not self._is_early
            self._look_ahead(() if waits_for_bytes else partitions)
            session.watch(partitions)
            yield len(partitions)
        while self._moved:
            if self._is_replaced or self._count_again(self._moved.popitem()[0]):
                return True
            yield 1
        has_enough_bytes = self._available_bytes >= self._min_bytes or not self._readable_count
        return not self._is_early and (has_enough_bytes or not waits_for_bytes)

    def _read_in_slices(self) -> Sliced[None]:
        self._begin_answer()
        for partitions in _slices(tuple(self._session.ready)):
            if self._is_replaced:
                return
            before = self._read_count
            self._read_all(partitions)
            yield len(partitions) + _READ_ELEMENTS * (self._read_count - before)

    # -- the response

    def answer(self) -> FetchResponse | Completion[Any]:
        """Read what is ready, and continue or end the session."""
        self._begin_answer()
        self._read_all(tuple(self._session.ready))
        if self._late:
            response: FetchResponse | Completion[Any] = self._context.run(self._answer_late())
            return response
        if not self._is_kept:
            self._session.close()
        return self._response()

    def _answer_late(self) -> Sliced[FetchResponse]:
        session = self._session
        session.begin_slices(self)
        try:
            yield from self._read_late()
        finally:  # also when the client has disconnected
            if not self._is_replaced:
                session.end_wait()
                self._leave()
        return self._replaced() if self._is_replaced else self._response()

    def _read_late(self) -> Sliced[None]:
        """Wait for the pending reads, all of which were started when they were planned."""
        late, self._late = self._late, []
        for slot, (partition, part) in enumerate(late):
            if isinstance(part, PartitionRead):
                try:
                    yield part.data
                    data = part.data.result()
                except KafkaError as error:
                    data = self._refuse(partition, error, partition.log)
                late[slot] = partition, data
                yield _READ_ELEMENTS
        if self._is_replaced:
            return
        for partition, part in late:
            if isinstance(part, PartitionData):
                self._assemble(partition, part)

    def _begin_answer(self) -> None:
        session, context = self._session, self._context
        sessions = context.broker.fetch_sessions
        self._only_changes = session.session_id != 0
        if self._request.session_epoch == INITIAL_EPOCH and session.session_id == 0:
            sessions.offer(session)
            self._epoch = session.epoch
        self._is_kept = session.session_id != 0 and sessions.holds(session)
        self._bytes_left = min(self._max_bytes, context.peer.next_response_bytes)
        self._read_count = 0
        self._last_topic: object = None

    def _response(self) -> FetchResponse:
        return FetchResponse(
            session_id=self._session.session_id, responses=self._topics, node_endpoints=self._endpoints
        )

    def _read_all(self, partitions: Iterable[FetchedPartition]) -> None:
        bytes_left = self._bytes_left
        for partition in partitions:
            part = self._read(partition, bytes_left, at_least_one=not self._read_count)
            size = part.at_most_bytes if isinstance(part, PartitionRead) else len(part.records or b"")
            if size:
                self._read_count += 1
                bytes_left = bytes_left - size if bytes_left > size else 0
            if self._late or isinstance(part, PartitionRead):
                self._late.append((partition, part))
            else:
                self._assemble(partition, part)
        self._bytes_left = bytes_left

    def _read(
        self, partition: FetchedPartition, bytes_left: int, *, at_least_one: bool
    ) -> PartitionData | PartitionRead:
        log = partition.log
        try:
            if log is None:
                log = partition.log = find_log(self._context.broker.topics, partition)
            if self._is_follower:
                refuse_follower(partition, log)
            plan = plan_partition(partition, log, self._isolation)
            if isinstance(plan, PartitionData):
                return plan
            max_bytes = min(partition.max_bytes, bytes_left)
            return read_partition(partition, log, plan, max_bytes, at_least_one=at_least_one)
        except KafkaError as error:
            return self._refuse(partition, error, log)

    def _assemble(self, partition: FetchedPartition, data: PartitionData) -> None:
        session, log = self._session, partition.log
        if data.records:
            session.rotate(partition)
        elif (
            self._is_kept
            and log is not None
            and partition.fetch_offset >= log.upper_bound(self._isolation)
            and data.diverging_epoch.epoch < 0
            and not data.error_code
        ):
            session.settle(partition)
        has_moved = partition.update_offsets(data.high_watermark, data.log_start_offset)
        if self._only_changes and not (has_moved or data.records or data.error_code or data.diverging_epoch.epoch >= 0):
            return
        topic = partition.topic_id or partition.topic
        if topic != self._last_topic:
            self._last_topic = topic
            self._answered = []
            self._topics.append(_topic(partition, self._answered))
        self._answered.append(data)

    def _refuse(self, partition: FetchedPartition, error: KafkaError, log: PartitionLog | None) -> PartitionData:
        self._session.forget_log(partition)
        return self._error_response(partition, error.code, log)

    def _error_response(self, partition: FetchedPartition, code: ErrorCode, log: PartitionLog | None) -> PartitionData:
        """Stays ready: the error is reported again as long as it lasts."""
        context = self._context
        version = context.api_version
        leader = LeaderIdAndEpoch()
        if code in _LEADER_IN_DOUBT and log is not None and version >= _CURRENT_LEADER_SINCE:
            current = context.broker.leadership.leader_of(log.topic, log.partition)
            if current is not None:
                leader = LeaderIdAndEpoch(leader_id=current.node_id, leader_epoch=current.epoch)
                if not self._is_follower:
                    host, port = context.advertised
                    self._endpoints = [NodeEndpoint(node_id=current.node_id, host=host, port=port)]
        if code is ErrorCode.KAFKA_STORAGE_ERROR and version < _STORAGE_ERROR_SINCE:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return PartitionData(
            partition_index=partition.index,
            error_code=code,
            high_watermark=-1,
            log_start_offset=-1,
            current_leader=leader,
            aborted_transactions=() if code in _UNKNOWN or code is _FORBIDDEN else None,
            records=b"",
        )


class _AuthorizedFetch(_Fetch):
    """With an authorizer: Read on each topic, of followers ClusterAction. Each partition is checked whenever it is
    counted or read, for a session outlives the rights with which it was opened."""

    __slots__ = ()

    def __init__(self, context: RequestContext, request: FetchRequest, session: FetchSession) -> None:
        authorizer = context.broker.authorizer
        if authorizer is not None:
            session.begin_under(authorizer.rules.version)
        super().__init__(context, request, session)

    def _count(self, partition: FetchedPartition, log: PartitionLog) -> int:
        if not self._may_read(partition, request=None):
            raise KafkaError(_FORBIDDEN)
        return super()._count(partition, log)

    def _read(
        self, partition: FetchedPartition, bytes_left: int, *, at_least_one: bool
    ) -> PartitionData | PartitionRead:
        if not self._may_read(partition, request="FETCH"):
            return self._refuse(partition, KafkaError(_FORBIDDEN), None)
        return super()._read(partition, bytes_left, at_least_one=at_least_one)

    def _may_read(self, partition: FetchedPartition, request: str | None) -> bool:
        context = self._context
        authorizer, peer = context.broker.authorizer, context.peer
        name = _name_of(context, partition)
        if authorizer is None or name is None:
            return True
        operation, kind = AclOperation.READ, ResourceType.TOPIC
        if self._is_follower:
            operation, kind, name = AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME
        return authorizer.allows(peer.principal, peer.host, operation, kind, name, request)


def _name_of(context: RequestContext, partition: FetchedPartition) -> str | None:
    if partition.topic_id is None:
        return partition.topic
    topic = context.broker.topics.by_id(partition.topic_id)
    return None if topic is None else topic.name


def _topic(partition: FetchedPartition, partitions: list[PartitionData]) -> FetchableTopicResponse:
    if partition.topic_id is not None:
        return FetchableTopicResponse(topic_id=partition.topic_id, partitions=partitions)
    return FetchableTopicResponse(topic=partition.topic or "", partitions=partitions)
