"""How many bytes a Fetch would get now, and how long it should wait for more.

Owns: the sum over its partitions, counted from offsets and indexes alone. Does not own: the wait
(`broker.fetching.fetch`). Invariant: a partition is in the sum with its `available_bytes`, so it may be counted again
whenever its log moves.

- Unknown topics do not end the wait for the others; any other error is reported at once, as a diverging epoch is.
- What was answered to its producer but is not durable yet is below no bound: even a reader that would not wait, and one
  that has enough, waits a moment for its sync, so that it sees what it may know of.
"""

from collections.abc import Iterable

from oncelog.broker.cluster.topics import Topics
from oncelog.broker.fetching.partition import diverging_epoch, find_log, readable_bytes
from oncelog.broker.fetching.session import FetchedPartition, FetchSession
from oncelog.broker.log.partition_log import FetchIsolation, PartitionLog
from oncelog.protocol.errors import ErrorCode, KafkaError

_SYNC_WAIT_MS = 500
"""How long at most a Fetch waits for the sync of what was answered."""
_UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class AvailableBytes:
    __slots__ = (
        "_bytes",
        "_max_wait_ms",
        "_min_bytes",
        "_readable_count",
        "_session",
        "_sync_wait_ms",
        "_topics",
    )

    def __init__(self, session: FetchSession, topics: Topics, min_bytes: int, max_wait_ms: int) -> None:
        self._session = session
        self._topics = topics
        self._min_bytes = min_bytes
        self._max_wait_ms = max_wait_ms
        self._bytes = 0
        self._readable_count = len(session) - len(session.ready)
        self._sync_wait_ms = 0

    @property
    def wait_ms(self) -> int:
        """How long to wait for more; 0 or less: not at all, with enough bytes, an error, or nothing that could bring
        any."""
        if self._sync_wait_ms:
            return max(self._max_wait_ms, self._sync_wait_ms)
        return self._max_wait_ms if self._bytes < self._min_bytes and self._readable_count else 0

    def count(self, partitions: Iterable[FetchedPartition]) -> bool:
        """Count these for the first time; returns whether the others need not be counted."""
        if self._max_wait_ms <= 0:
            self._look_ahead(partitions)
            return False
        for partition in partitions:
            try:
                log = partition.log
                if log is None:
                    log = find_log(self._topics, partition)
                self._add(partition, log)
            except KafkaError as error:
                is_unknown = error.code in _UNKNOWN and partition.log is None
                if is_unknown or error.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                    continue
                self._add_enough()
            self._readable_count += 1
            if self._bytes >= self._min_bytes:
                return True
        return False

    def _look_ahead(self, partitions: Iterable[FetchedPartition]) -> None:
        """Count partitions with records that were answered and are not readable yet: even a reader that would not wait
        must wait for them."""
        if self._session.isolation is FetchIsolation.HIGH_WATERMARK:
            for partition in partitions:
                try:
                    log = partition.log
                    if log is None:
                        log = find_log(self._topics, partition)
                    if log.answered_offset > log.high_watermark:
                        self._add(partition, log)
                except KafkaError:
                    continue  # the response reports it

    def recount(self, partition: FetchedPartition) -> bool:
        """Its log has moved; returns whether to respond now."""
        try:
            if partition.log is not None:
                self._add(partition, partition.log)
        except KafkaError:
            self._add_enough()
        self._sync_wait_ms = 0  # all logs of a round move in one turn
        return self._bytes >= self._min_bytes or self._max_wait_ms <= 0

    def _add(self, partition: FetchedPartition, log: PartitionLog) -> None:
        isolation, check_rights = self._session.isolation, self._session.check_rights
        if check_rights is not None:
            check_rights(partition, None)
        if diverging_epoch(partition, log) is not None:
            self._add_enough()
            return
        if log.high_watermark < log.log_end_offset:
            log.start_round_for(isolation)
            if isolation is FetchIsolation.HIGH_WATERMARK and log.answered_offset > log.high_watermark:
                self._sync_wait_ms = _SYNC_WAIT_MS
        available_bytes = readable_bytes(partition, log, isolation)
        self._bytes += available_bytes - partition.available_bytes
        partition.available_bytes = available_bytes

    def _add_enough(self) -> None:
        self._bytes = max(self._bytes, self._min_bytes)
