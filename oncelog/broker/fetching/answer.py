"""The response to a Fetch, made of one partition after another.

Owns: its topics and partitions in their order, its size, what its session learns from it. Does not own: when partitions
are read (`broker.fetching.fetch`).

A response is made in three steps. Each partition is planned, from offsets alone, which fixes what its reader may see.
It is read, at once if its bytes are in memory; otherwise they are read off the event loop, in parallel with others.
Once all reads before it are complete it is assembled, and only then does the session change.
"""

from collections.abc import Iterable, Iterator, Sequence

from oncelog.broker.fetching.partition import (
    PartitionRead,
    find_log,
    plan_partition,
    read_partition,
    refuse_follower,
)
from oncelog.broker.fetching.ports import FetchContext
from oncelog.broker.fetching.session import INITIAL_EPOCH, FetchedPartition, FetchSession
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.generated.fetch_response import (
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

_CURRENT_LEADER_SINCE = 16
_STORAGE_ERROR_SINCE = 6
_LEADER_IN_DOUBT = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER)
_WITHOUT_TRANSACTIONS = (
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
)


class FetchAnswer:
    __slots__ = (
        "_bytes_left",
        "_context",
        "_endpoints",
        "_is_follower",
        "_is_kept",
        "_last_topic",
        "_only_changes",
        "_partitions",
        "_session",
        "_topics",
        "late",
        "read_count",
    )

    read_count: int
    """The partitions that have records."""
    late: list[tuple[FetchedPartition, PartitionData | PartitionRead]]
    """The partitions from the first one with a pending read on."""
    _partitions: list[PartitionData]
    """The partitions of the last topic so far."""
    _only_changes: bool
    _is_kept: bool
    """Both are set when it begins."""

    def __init__(self, context: FetchContext, session: FetchSession, max_bytes: int, *, is_follower: bool) -> None:
        self._context = context
        self._session = session
        self._bytes_left = max_bytes
        self._is_follower = is_follower
        self.read_count = 0
        self.late = []
        self._topics: list[FetchableTopicResponse] = []
        self._last_topic: object = None
        self._endpoints: Sequence[NodeEndpoint] = ()

    def begin(self) -> None:
        session, sessions = self._session, self._context.broker.fetch_sessions
        self._only_changes = session.session_id != 0
        if session.epoch == INITIAL_EPOCH:
            sessions.offer(session)
        self._is_kept = session.session_id != 0 and sessions.holds(session)
        self._bytes_left = min(self._bytes_left, self._context.peer.next_response_bytes)

    def read(self, partitions: Iterable[FetchedPartition]) -> None:
        """Plan these, read them, or start to, and assemble them unless a read before them is pending."""
        bytes_left = self._bytes_left
        for partition in partitions:
            part = self._read(partition, bytes_left)
            size = part.at_most_bytes if isinstance(part, PartitionRead) else len(part.records or b"")
            if size:
                self.read_count += 1
                bytes_left = bytes_left - size if bytes_left > size else 0
            if self.late or isinstance(part, PartitionRead):
                self.late.append((partition, part))
            else:
                self._assemble(partition, part)
        self._bytes_left = bytes_left

    def pending_reads(self) -> Iterator[Completion[PartitionData]]:
        return (part.data for _, part in self.late if isinstance(part, PartitionRead))

    def assemble_late(self) -> None:
        """All pending reads are done."""
        late, self.late = self.late, []
        for partition, part in late:
            if isinstance(part, PartitionRead):
                try:
                    part = part.data.result()
                except KafkaError as error:
                    part = self._refuse(partition, error.code)
            self._assemble(partition, part)

    def response(self) -> FetchResponse:
        return FetchResponse(
            session_id=self._session.session_id, responses=self._topics, node_endpoints=self._endpoints
        )

    def _read(self, partition: FetchedPartition, bytes_left: int) -> PartitionData | PartitionRead:
        session = self._session
        try:
            if session.check_rights is not None:
                session.check_rights(partition, "FETCH")
            log = partition.log
            if log is None:
                log = find_log(self._context.broker.topics, partition)
            if self._is_follower:
                refuse_follower(partition, log)
            plan = plan_partition(partition, log, session.isolation)
            if isinstance(plan, PartitionData):
                return plan
            max_bytes = min(partition.max_bytes, bytes_left)
            return read_partition(partition, log, plan, max_bytes, at_least_one=not self.read_count)
        except KafkaError as error:
            return self._refuse(partition, error.code)

    def _assemble(self, partition: FetchedPartition, data: PartitionData) -> None:
        session, log = self._session, partition.log
        if data.records:
            session.rotate(partition)
        elif (
            self._is_kept
            and log is not None
            and partition.fetch_offset >= log.upper_bound(session.isolation)
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
            self._partitions = []
            self._topics.append(_topic(partition, self._partitions))
        self._partitions.append(data)

    def _refuse(self, partition: FetchedPartition, code: ErrorCode) -> PartitionData:
        """It stays ready: the error is reported again as long as it lasts."""
        context, log = self._context, partition.log
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
        self._session.forget_log(partition)
        return PartitionData(
            partition_index=partition.index,
            error_code=code,
            high_watermark=-1,
            log_start_offset=-1,
            current_leader=leader,
            aborted_transactions=() if code in _WITHOUT_TRANSACTIONS else None,
            records=b"",
        )


def _topic(partition: FetchedPartition, partitions: list[PartitionData]) -> FetchableTopicResponse:
    if partition.topic_id is not None:
        return FetchableTopicResponse(topic_id=partition.topic_id, partitions=partitions)
    return FetchableTopicResponse(topic=partition.topic or "", partitions=partitions)
