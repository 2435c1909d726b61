"""A batch of records to be sent, and the delivery of each of its records.

Owns: building the batch, its bytes, its outcome. Does not own: the order of batches (`accumulator`). Invariants: it is
encoded once, so that a retry sends the same producer id, epoch and sequence; it completes once, with one outcome for
all its records; a record costs no object beyond its `Delivery`, and no future unless one is awaited.
"""

import asyncio
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial

from oncelog.client.values.errors import KafkaError
from oncelog.client.values.records import Headers, RecordMetadata, TopicPartition
from oncelog.client.values.waiting import resolve
from oncelog.protocol.records.batch import (
    HEADER_SIZE,
    TRANSACTIONAL_MASK,
    assemble_batch,
    read_header,
    stamp_producer,
)
from oncelog.protocol.records.record import NO_HEADERS, encode_head, encode_headers


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """Producer id and epoch; (-1, -1) without idempotence."""

    producer_id: int = -1
    producer_epoch: int = -1

    @property
    def is_idempotent(self) -> bool:
        """Whether batches carry a producer id."""
        return self.producer_id >= 0


def _no_sender() -> None:
    """Do nothing: there is no sender to wake."""


class Batch:
    """Records of one partition that are written together or not at all."""

    __slots__ = (
        "_body",
        "_encoded_elsewhere",
        "_timestamps",
        "attempt_count",
        "awaited",
        "base_offset",
        "base_timestamp_ms",
        "callbacks",
        "check_loop",
        "closed",
        "created_at_s",
        "done",
        "encoded",
        "error",
        "error_seen",
        "identity",
        "last_error",
        "log_append_time_ms",
        "max_timestamp_ms",
        "on_awaited",
        "record_count",
        "sequence",
        "serial",
        "size_bytes",
        "topic_partition",
    )

    def __init__(self, topic_partition: TopicPartition, serial: int, created_at_s: float) -> None:
        self.topic_partition = topic_partition
        self.serial = serial
        """The batch's number among the batches of the partition."""
        self.created_at_s = created_at_s
        self.record_count = 0
        self.size_bytes = HEADER_SIZE
        self.closed = False
        self.awaited = False
        """True if a caller waits for its outcome: the batch does not linger."""
        self.on_awaited: Callable[[], object] = _no_sender
        self.check_loop: Callable[[], object] = _no_sender
        """Raises unless the producer's loop runs: what waits elsewhere would never be woken."""
        self.attempt_count = 0
        self.last_error: KafkaError | None = None
        """The error for which the last attempt is repeated."""
        self.identity = ProducerIdentity()
        self.sequence = -1
        self.encoded: bytes | None = None
        self.done = False
        self.error: KafkaError | None = None
        self.error_seen = False
        self.base_offset = -1
        self.log_append_time_ms = -1
        self.base_timestamp_ms = 0
        self.max_timestamp_ms = 0
        self.callbacks: list[Callable[[], object]] = []
        self._body: list[bytes] = []
        self._encoded_elsewhere: bytes | memoryview | None = None
        self._timestamps: list[int] = []

    def fill(self, encoded: bytes | memoryview) -> None:
        """Take a whole encoded batch instead of records; only its producer is set when it is sent."""
        header = read_header(encoded)
        self._encoded_elsewhere = encoded
        self._timestamps = [header.base_timestamp]
        self.record_count = header.record_count
        self.size_bytes = len(encoded)
        self.closed = True

    def try_append(
        self, key: bytes | None, value: bytes | None, headers: Headers, timestamp_ms: int, batch_size: int
    ) -> bool:
        """Add a record, unless the batch is closed or would exceed `batch_size`; the first record always fits."""
        if self.closed:
            return False
        count = self.record_count
        if not count:
            self.base_timestamp_ms = self.max_timestamp_ms = timestamp_ms
        tail = encode_headers(headers) if headers else NO_HEADERS
        head = encode_head(count, timestamp_ms - self.base_timestamp_ms, key, value, len(tail))
        size = self.size_bytes + len(head) + len(tail)
        if value is not None:
            size += len(value)
        if size > batch_size and count:
            return False
        self.size_bytes = size
        body = self._body
        body.append(head)
        if value:
            # The value itself, not a copy: it is copied once, when the batch is full.
            body.append(value)
        body.append(tail)
        self._timestamps.append(timestamp_ms)
        self.record_count = count + 1
        if timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = timestamp_ms
        return True

    def encode(self, identity: ProducerIdentity, sequence: int, *, compression: str, transactional: bool) -> bytes:
        """Return the bytes to send, encoded once so that a retry sends the same. Keeps the records, in case the batch
        gets a new sequence."""
        if self._encoded_elsewhere is not None:
            self.identity = identity
            self.sequence = sequence
            self.encoded = stamp_producer(
                self._encoded_elsewhere,
                producer_id=identity.producer_id,
                producer_epoch=identity.producer_epoch,
                base_sequence=sequence,
                transactional=transactional,
            )
            return self.encoded
        body = b"".join(self._body)
        attributes = TRANSACTIONAL_MASK if transactional else 0
        if compression != "none":
            from oncelog.protocol.records.compression import CODECS, compress

            attributes |= CODECS[compression]
            body = compress(CODECS[compression], body)
        self.closed = True
        self.identity = identity
        self.sequence = sequence
        self.encoded = assemble_batch(
            body,
            attributes=attributes,
            record_count=self.record_count,
            base_timestamp=self.base_timestamp_ms,
            max_timestamp=self.max_timestamp_ms,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            base_sequence=sequence,
        )
        return self.encoded

    def forget_encoding(self) -> None:
        """Forget the bytes of a batch that is known not to be written: it may get a new identity and sequence."""
        self.encoded = None
        self.sequence = -1

    def finish(self, base_offset: int, log_append_time_ms: int) -> None:
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self._end()

    def fail(self, error: KafkaError) -> None:
        self.error = error
        self._end()

    def _end(self) -> None:
        if self.done:
            return
        self.done = True
        self._body = []
        self._encoded_elsewhere = None
        callbacks, self.callbacks = self.callbacks, []
        for callback in callbacks:
            callback()

    def metadata(self, index: int) -> RecordMetadata:
        """Return where record `index` was written; raises the batch's error."""
        if self.error is not None:
            self.error_seen = True
            raise self.error
        return self.place(index)

    def place(self, index: int) -> RecordMetadata:
        """Return where record `index` was written: offset -1 if it was not."""
        timestamp_ms = self.log_append_time_ms if self.log_append_time_ms >= 0 else self._timestamps[index]
        offset = self.base_offset + index if self.base_offset >= 0 else -1
        return RecordMetadata(*self.topic_partition, offset, timestamp_ms)


class Delivery:
    """The future outcome of one record: await it for its RecordMetadata, or poll `done()` and `result()`.

        delivery = await producer.send_soon("topic", b"value")
        metadata = await delivery       # raises what kept the record from being written

    Awaiting raises DeliveryTimeout, TransactionAborted, ProducerFenced or another KafkaError.
    """

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: Batch, index: int) -> None:
        self._batch = batch
        self._index = index

    def done(self) -> bool:
        """Whether the record was acknowledged or has failed."""
        return self._batch.done

    def result(self) -> RecordMetadata:
        """Return the record's metadata; raises the error that kept it from being written, or asyncio.InvalidStateError
        before `done()`."""
        if not self._batch.done:
            raise asyncio.InvalidStateError("the record has not been delivered yet")
        return self._batch.metadata(self._index)

    def _outcome(self) -> tuple[RecordMetadata, KafkaError | None]:
        """Return the outcome for hooks; it does not count as a report of the error to the program."""
        return self._batch.place(self._index), self._batch.error

    def add_done_callback(self, callback: "Callable[[Delivery], None]") -> None:
        """Call `callback(delivery)` from the event loop once the outcome is known, even if it already is."""
        self._batch.check_loop()
        loop = asyncio.get_running_loop()
        # Not called directly: an exception in one callback must not keep the others from running.
        if self._batch.done:
            loop.call_soon(callback, self)
        else:
            self._batch.callbacks.append(partial(loop.call_soon, callback, self))

    def __await__(self) -> Generator[None, None, RecordMetadata]:
        batch = self._batch
        if not batch.done:
            batch.check_loop()
            if not batch.awaited:
                batch.awaited = True
                batch.on_awaited()
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            batch.callbacks.append(partial(resolve, waiter, None))
            yield from waiter.__await__()
        return batch.metadata(self._index)
