"""Fetch (1), versions 4–16: read whole batches up to the bound of the reader's isolation, waiting for data if asked.

- Isolation: a replica id (≥ 0, or the future-local −3) reads to the log end, read_uncommitted to the high watermark,
  read_committed to the last stable offset with the aborted transactions of what it gets (KIP-98).
- The first batch comes whole even when it is larger than every limit (KIP-74), so that a reader always advances.
- With fewer than min_bytes the request waits up to max_wait_ms; it is woken when its bound moves, not on every append.
- Fetch sessions (KIP-227) are never made: session id 0 answers each request in full, which every client accepts;
  another session id is FETCH_SESSION_ID_NOT_FOUND.
- v9+ leader epochs (KIP-320), v13+ topic ids (KIP-516: UNKNOWN_TOPIC_ID), v12 diverging epochs never arise on a node
  whose leader epoch is constant, v16 node endpoints likewise (KIP-951).

- A client that disconnects waits no more.

Left out: v17, v18 (follower fields); preferred read replicas.
"""

from collections.abc import Sequence

from broker.completion import Completion
from broker.dispatch import RequestContext
from broker.handlers.leader_epoch import check_leader_epoch
from broker.log.partition_log import FetchIsolation, PartitionLog
from protocol.errors import ErrorCode, KafkaError
from protocol.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic
from protocol.generated.fetch_response import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)

_FUTURE_LOCAL_REPLICA_ID = -3


def handle(context: RequestContext, request: FetchRequest) -> FetchResponse | Completion[FetchResponse]:
    if request.session_id != 0:
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    read = _Read(context, request)
    response = read.once()
    if read.complete or request.max_wait_ms <= 0:
        return response
    answer: Completion[FetchResponse] = Completion()

    def try_complete(expired: bool) -> bool:
        response = read.once()
        if not (read.complete or expired):
            return False
        context.peer.on_gone = None
        answer.complete(response)
        return True

    context.peer.on_gone = context.broker.purgatory.wait(read.logs, request.max_wait_ms, try_complete)
    return answer


class _Read:
    """One Fetch, read as often as it is woken; `complete` tells whether the last reading may be answered."""

    __slots__ = (
        "_broker",
        "_bytes_left",
        "_failed",
        "_isolation",
        "_min_bytes",
        "_request",
        "_topic_ids",
        "logs",
        "size",
    )

    def __init__(self, context: RequestContext, request: FetchRequest) -> None:
        self._broker = context.broker
        self._request = request
        self._topic_ids = context.api_version >= 13
        replica_id = request.replica_state.replica_id if context.api_version >= 15 else request.replica_id
        if replica_id >= 0 or replica_id == _FUTURE_LOCAL_REPLICA_ID:
            self._isolation = FetchIsolation.LOG_END
        elif request.isolation_level:
            self._isolation = FetchIsolation.TXN_COMMITTED
        else:
            self._isolation = FetchIsolation.HIGH_WATERMARK
        self._min_bytes = request.min_bytes
        self.logs: list[PartitionLog] = []
        self.size = 0
        self._bytes_left = 0
        self._failed = False

    @property
    def complete(self) -> bool:
        return self._failed or self.size >= self._min_bytes or not self.logs

    def once(self) -> FetchResponse:
        self.logs = []
        self.size = 0
        self._failed = False
        self._bytes_left = min(self._request.max_bytes, self._broker.fetch_max_bytes)
        return FetchResponse(responses=[self._topic(topic) for topic in self._request.topics])

    def _topic(self, wanted: FetchTopic) -> FetchableTopicResponse:
        name = wanted.topic
        if self._topic_ids:
            topic = self._broker.topics.by_id(wanted.topic_id)
            if topic is None:
                self._failed = True
                return FetchableTopicResponse(
                    topic_id=wanted.topic_id,
                    partitions=[_refused(data.partition, ErrorCode.UNKNOWN_TOPIC_ID) for data in wanted.partitions],
                )
            name = topic.name
        return FetchableTopicResponse(
            topic=name, topic_id=wanted.topic_id, partitions=[self._partition(name, data) for data in wanted.partitions]
        )

    def _partition(self, topic: str, wanted: FetchPartition) -> PartitionData:
        log: PartitionLog | None = None
        try:
            log = self._broker.topics.partition(topic, wanted.partition)
            check_leader_epoch(log, wanted.current_leader_epoch)
            result = log.read(
                wanted.fetch_offset,
                min(wanted.partition_max_bytes, self._bytes_left),
                self._isolation,
                at_least_one=self.size == 0,
            )
        except KafkaError as error:
            self._failed = True
            return _refused(wanted.partition, error.code, log)
        self.logs.append(log)
        size = len(result.records)
        self.size += size
        self._bytes_left = max(0, self._bytes_left - size)
        aborted: Sequence[AbortedTransaction] | None = None
        if result.aborted_transactions is not None:
            aborted = [
                AbortedTransaction(producer_id=transaction.producer_id, first_offset=transaction.first_offset)
                for transaction in result.aborted_transactions
            ]
        return PartitionData(
            partition_index=wanted.partition,
            high_watermark=result.high_watermark,
            last_stable_offset=result.last_stable_offset,
            log_start_offset=result.log_start_offset,
            aborted_transactions=aborted,
            records=result.records,
        )


def _refused(partition: int, code: ErrorCode, log: PartitionLog | None = None) -> PartitionData:
    return PartitionData(
        partition_index=partition,
        error_code=code,
        high_watermark=-1,
        log_start_offset=log.log_start_offset if log is not None else -1,
        aborted_transactions=None,
        records=b"",
    )
