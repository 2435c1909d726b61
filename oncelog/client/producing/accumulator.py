"""Batches per partition, and the order in which they may be sent.

Owns: each partition's buffered batches, those in flight and those to retry; sequences; buffer.memory. Does not own:
connections, transactions or time (passed in). Invariants, per partition:
- a batch keeps producer id, epoch and sequence from its first send on, unless it is known not to be written;
- after a retriable failure no new batch is sent until the batches in flight have been answered and the failed ones have
  been resent, one at a time, in their original order;
- sequences start at 0 under a new identity, and only when no batch of the old one is unresolved;
- the first batch of a producer id is sent alone: a log without state for the id accepts any sequence as its first, so a
  second batch that arrives while the first is rejected (briefly, by the leader of a new topic) would take its place.
"""

from bisect import insort
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter

from oncelog.client.producing.batch import Batch, ProducerIdentity
from oncelog.client.values.errors import KafkaError
from oncelog.client.values.records import Headers, TopicPartition
from oncelog.protocol.records.batch import SEQUENCE_MASK

_SERIAL = attrgetter("serial")


class PartitionQueue:
    """The batches of one partition: buffered, in flight, and to retry."""

    __slots__ = (
        "_known_producer_id",
        "_next_sequence",
        "_next_serial",
        "identity",
        "in_flight",
        "last_sent",
        "muted_until_s",
        "needs_new_identity",
        "retries",
        "topic_partition",
        "waiting",
    )

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.waiting: deque[Batch] = deque()
        self.in_flight: list[Batch] = []
        self.retries: list[Batch] = []
        self.muted_until_s = 0.0
        self.identity = ProducerIdentity()
        self.needs_new_identity = False
        """True if a numbered batch failed for good: the log would see a gap before the next sequence."""
        self.last_sent: Batch | None = None
        self._known_producer_id = self.identity.producer_id
        """The producer id whose batches the log has."""
        self._next_sequence = 0
        self._next_serial = 0

    @property
    def has_unresolved(self) -> bool:
        return bool(self.in_flight or self.retries)

    def outstanding(self) -> Iterator[Batch]:
        yield from self.in_flight
        yield from self.retries
        yield from self.waiting

    def append(
        self, key: bytes | None, value: bytes | None, headers: Headers, timestamp_ms: int, batch_size: int, now_s: float
    ) -> tuple[Batch, bool]:
        """Returns the batch that took the record, and whether it was created for it."""
        if self.waiting:
            last = self.waiting[-1]
            if last.try_append(key, value, headers, timestamp_ms, batch_size):
                return last, False
        batch = self._begin(now_s)
        batch.try_append(key, value, headers, timestamp_ms, batch_size)
        return batch, True

    def append_batch(self, encoded: bytes | memoryview, now_s: float) -> Batch:
        """Append a whole batch that was encoded elsewhere; records buffered before it are sent before it."""
        self.close_batches()
        batch = self._begin(now_s)
        batch.fill(encoded)
        return batch

    def _begin(self, now_s: float) -> Batch:
        batch = Batch(self.topic_partition, self._next_serial, now_s)
        self._next_serial += 1
        self.waiting.append(batch)
        return batch

    def close_batches(self) -> None:
        """Send buffered records without lingering."""
        if self.waiting:
            self.waiting[-1].closed = True

    def ready_at_s(self, linger_s: float, batch_size: int) -> float | None:
        """When the next batch should be sent; None without one, or while the order forbids it."""
        if self.retries:
            return None if self.in_flight else self.muted_until_s
        if not self.waiting or self._must_wait_for_answers:
            return None
        first = self.waiting[0]
        if first.awaited and not self.in_flight:
            # A caller awaits this batch, so lingering gains nothing; while another is in flight, it gathers what comes.
            return self.muted_until_s
        if first.closed or len(self.waiting) > 1 or first.size_bytes >= batch_size:
            return self.muted_until_s
        return max(self.muted_until_s, first.created_at_s + linger_s)

    def take(self, identity: ProducerIdentity, now_s: float, *, compression: str, transactional: bool) -> Batch | None:
        """Return the batch to send now, numbered and encoded; None without one, or if the order forbids it."""
        if now_s < self.muted_until_s:
            return None
        if self.retries:
            if self.in_flight:
                return None
            batch = self.retries.pop(0)
        else:
            if not self.waiting or self._must_wait_for_answers or not self._adopt(identity):
                return None
            batch = self.waiting.popleft()
            self._number(batch, compression, transactional)
        batch.attempt_count += 1
        self.in_flight.append(batch)
        self.last_sent = batch
        return batch

    def on_written(self, batch: Batch, base_offset: int, log_append_time_ms: int) -> None:
        self._remove(batch)
        self._known_producer_id = batch.identity.producer_id
        batch.finish(base_offset, log_append_time_ms)

    def on_retriable(self, batch: Batch, muted_until_s: float) -> None:
        """Queue a batch again with the same sequence: it was not written, or may not have been."""
        self._remove(batch)
        self.muted_until_s = muted_until_s
        insort(self.retries, batch, key=_SERIAL)

    def on_failed(self, batch: Batch, error: KafkaError) -> None:
        self._remove(batch)
        self.needs_new_identity |= batch.sequence >= 0
        batch.fail(error)

    def on_gap(self, batch: Batch, muted_until_s: float) -> bool:
        """Queue a batch again: it was not written, as the log is missing something before it. Return False if the cause
        is not known.

        Unresolved earlier batches are a cause; after an earlier batch failed for good, a new identity is needed.
        """
        if any(other.serial < batch.serial for other in (*self.in_flight, *self.retries)):
            self.on_retriable(batch, muted_until_s)
            return True
        if not self.needs_new_identity:
            return False
        self._remove(batch)
        batch.forget_encoding()
        position = sum(1 for other in self.waiting if other.serial < batch.serial)
        self.waiting.insert(position, batch)
        return True

    def expire(self, created_before_s: float) -> list[Batch]:
        """Remove and return batches that waited too long; those in flight stay until their response."""
        expired = [batch for batch in self.retries if batch.created_at_s <= created_before_s]
        while self.waiting and self.waiting[0].created_at_s <= created_before_s:
            expired.append(self.waiting.popleft())
        if expired:
            self.retries = [batch for batch in self.retries if batch.created_at_s > created_before_s]
            self.needs_new_identity |= any(batch.sequence >= 0 for batch in expired)
        return expired

    def abandon(self) -> list[Batch]:
        """Remove and return every batch that is not in flight."""
        abandoned = [*self.retries, *self.waiting]
        self.needs_new_identity |= bool(self.retries)
        self.retries = []
        self.waiting.clear()
        return abandoned

    @property
    def _must_wait_for_answers(self) -> bool:
        if not self.in_flight:
            return False
        is_first = self.identity.producer_id != self._known_producer_id
        return is_first or any(batch.attempt_count > 1 for batch in self.in_flight)

    def _remove(self, batch: Batch) -> None:
        if batch in self.in_flight:
            self.in_flight.remove(batch)

    def _adopt(self, identity: ProducerIdentity) -> bool:
        if self.identity != identity:
            if self.has_unresolved:
                return False
            self.identity = identity
            self._next_sequence = 0
            self.needs_new_identity = False
        return not self.needs_new_identity

    def _number(self, batch: Batch, compression: str, transactional: bool) -> None:
        sequence = self._next_sequence if self.identity.is_idempotent else -1
        # A batch sent under an abandoned identity counts as new.
        batch.attempt_count = 0
        batch.encode(self.identity, sequence, compression=compression, transactional=transactional)
        if sequence >= 0:
            self._next_sequence = (sequence + batch.record_count) & SEQUENCE_MASK


class Accumulator:
    """The queues of all partitions, and their total size."""

    def __init__(
        self, *, batch_size: int, linger_s: float, buffer_memory_bytes: int, on_room: Callable[[], None] | None = None
    ) -> None:
        """`on_room` is called when a batch has ended and there is room for more."""
        self.queues: dict[TopicPartition, PartitionQueue] = {}
        self.buffered_bytes = 0
        self._on_room = on_room
        self._batch_size = batch_size
        self._linger_s = linger_s
        self._buffer_memory_bytes = buffer_memory_bytes

    @property
    def has_room(self) -> bool:
        return self.buffered_bytes < self._buffer_memory_bytes

    def queue(self, topic_partition: TopicPartition) -> PartitionQueue:
        queue = self.queues.get(topic_partition)
        if queue is None:
            queue = self.queues[topic_partition] = PartitionQueue(topic_partition)
        return queue

    def try_append(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        timestamp_ms: int,
    ) -> Batch | None:
        """Return the batch that took the record; None if it needs another. The one that waits is then full: it is
        sent."""
        # A tuple equals the TopicPartition of the same fields, and costs a quarter.
        queue = self.queues.get((topic, partition))  # type: ignore[call-overload]
        if queue is None or not queue.waiting:
            return None
        batch: Batch = queue.waiting[-1]
        if batch.try_append(key, value, headers, timestamp_ms, self._batch_size):
            return batch
        batch.closed = True
        return None

    def append(
        self,
        topic_partition: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        timestamp_ms: int,
        now_s: float,
    ) -> tuple[Batch, bool]:
        """Return the batch that took the record, and whether it was created for it."""
        queue = self.queue(topic_partition)
        batch, begun = queue.append(key, value, headers, timestamp_ms, self._batch_size, now_s)
        if begun:
            # The first record always fits, whatever its size; later ones only within batch.size.
            self._count(batch, max(self._batch_size, batch.size_bytes))
        return batch, begun

    def append_batch(self, topic_partition: TopicPartition, encoded: bytes | memoryview, now_s: float) -> Batch:
        """Buffer a whole batch that was encoded elsewhere."""
        batch = self.queue(topic_partition).append_batch(encoded, now_s)
        self._count(batch, len(encoded))
        return batch

    def _count(self, batch: Batch, size_bytes: int) -> None:
        self.buffered_bytes += size_bytes
        batch.callbacks.append(lambda: self._on_ended(size_bytes))

    def ready_at_s(self, queue: PartitionQueue) -> float | None:
        return queue.ready_at_s(self._linger_s, self._batch_size)

    def outstanding(self) -> list[Batch]:
        return [batch for queue in self.queues.values() for batch in queue.outstanding()]

    def close_batches(self) -> None:
        for queue in self.queues.values():
            queue.close_batches()

    def abandon(self, error: KafkaError) -> None:
        """Fail everything that is not in flight."""
        self._fail((batch for queue in self.queues.values() for batch in queue.abandon()), error)

    @property
    def needs_new_identity(self) -> bool:
        return any(queue.needs_new_identity for queue in self.queues.values())

    def _fail(self, batches: Iterable[Batch], error: KafkaError) -> None:
        for batch in list(batches):
            batch.fail(error)

    def _on_ended(self, size_bytes: int) -> None:
        self.buffered_bytes -= size_bytes
        if self._on_room is not None and self.has_room:
            self._on_room()
