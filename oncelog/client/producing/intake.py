"""Adds one record to the producer's buffer without waiting.

Owns: what may be sent, the record's partition and timestamp, when the sender is woken. Does not own: waiting for
metadata and buffer space (`producer`), batches (`accumulator`). Invariant: a record that is taken costs one `Delivery`,
no future, no task, and no turn of the event loop.
"""

import time
from collections.abc import Callable, Mapping
from operator import index
from typing import Any, Final

from oncelog.client.producing.accumulator import Accumulator
from oncelog.client.producing.batch import Batch, Delivery
from oncelog.client.producing.partitioner import Partitioner
from oncelog.client.values.errors import AbortableError, ConfigError
from oncelog.client.values.records import Headers, TopicPartition
from oncelog.client.wire.metadata import Topic
from oncelog.protocol.errors import ErrorCode

_PAIR = 2
_NO_TIMESTAMP_MS = 2**63
_time_s: Final = time.time


class Intake:
    """Adds records to the buffer: `add` returns None if the caller has to wait before it adds the record again."""

    def __init__(
        self,
        topics: Mapping[str, Topic],
        accumulator: Accumulator,
        *,
        max_record_bytes: int,
        clock_s: Callable[[], float],
        wake: Callable[[], None],
        check_loop: Callable[[], None],
        on_failed: Callable[[Batch], None],
    ) -> None:
        self.has_filled_a_batch = False
        """True if the last record filled its batch. A caller that continues without a turn of the event loop would
        starve the sender."""
        self._topics = topics
        self._accumulator = accumulator
        self._partitioner = Partitioner()
        self._max_record_bytes = max_record_bytes
        self._clock_s = clock_s
        self._wake = wake
        self._check_loop = check_loop
        self._on_failed = on_failed

    def add(self, topic: Any, key: Any, value: Any, headers: Any, partition: Any, timestamp_ms: Any) -> Delivery | None:
        """Add a record, or return None without metadata (so for a topic that is no str) or buffer space. Raises
        ConfigError and AbortableError for what cannot be sent."""
        if type(value) is not bytes or key is not None or headers or len(value) > self._max_record_bytes:
            key, value = self._checked(topic, key, value, headers)
        known = self._topics.get(topic)
        accumulator = self._accumulator
        if known is None or not accumulator.has_room:
            return None
        count = len(known.leaders)
        sticky = False
        if partition is None:
            sticky = key is None
            partition = self._partitioner.partition(topic, key, known.leaders)
        elif type(partition) is not int or not 0 <= partition < count:
            partition = _as_partition(topic, partition, count)
        if timestamp_ms is None:
            timestamp_ms = int(_time_s() * 1000)
        elif type(timestamp_ms) is not int or not 0 <= timestamp_ms < _NO_TIMESTAMP_MS:
            timestamp_ms = _as_timestamp(timestamp_ms)
        batch = accumulator.try_append(topic, partition, key, value, headers, timestamp_ms)
        if batch is not None:
            self.has_filled_a_batch = False
        else:
            if sticky:
                partition = self._other_partition(topic, partition, known.leaders)
            batch = self._begin(TopicPartition(topic, partition), key, value, headers, timestamp_ms)
        return Delivery(batch, batch.record_count - 1)

    def add_batch(self, topic: Any, partition: int, encoded: bytes | memoryview) -> Delivery | None:
        """Buffer a whole batch that was encoded elsewhere, as `add` does; the delivery is its first record's."""
        known = self._topics.get(topic)
        if known is None or not self._accumulator.has_room:
            return None
        count = len(known.leaders)
        if not 0 <= partition < count:
            raise _no_partition(topic, partition, count)
        self._check_loop()
        batch = self._accumulator.append_batch(TopicPartition(topic, partition), encoded, self._clock_s())
        self._on_begun(batch)
        return Delivery(batch, 0)

    def _checked(self, topic: object, key: object, value: object, headers: object) -> tuple[bytes | None, bytes | None]:
        """Return the record's bytes, immutable from here on."""
        key_bytes, value_bytes = _as_bytes("key", key), _as_bytes("value", value)
        if headers:
            _check_headers(headers)
        size_bytes = len(key_bytes or b"") + len(value_bytes or b"")
        if size_bytes > self._max_record_bytes:
            raise AbortableError(
                f"a record of {size_bytes} bytes for {topic!r}: max_request_size is {self._max_record_bytes}",
                code=ErrorCode.MESSAGE_TOO_LARGE,
                hint="raise max_request_size of the producer and max.message.bytes of the topic, or send less",
            )
        return key_bytes, value_bytes

    def _other_partition(self, topic: str, partition: int, leaders: tuple[int, ...]) -> int:
        """Return the partition for a record without a key whose batch is full, and for those after it."""
        if self._accumulator.queue(TopicPartition(topic, partition)).waiting:
            self._partitioner.on_batch_full(topic, len(leaders))
            return self._partitioner.partition(topic, None, leaders)
        return partition

    def _begin(
        self,
        topic_partition: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        timestamp_ms: int,
    ) -> Batch:
        # Once for each batch: a record that joins one is looked at when it is awaited or flushed.
        self._check_loop()
        accumulator = self._accumulator
        self.has_filled_a_batch = bool(accumulator.queue(topic_partition).waiting)
        batch, begun = accumulator.append(topic_partition, key, value, headers, timestamp_ms, self._clock_s())
        if begun:
            self._on_begun(batch)
        return batch

    def _on_begun(self, batch: Batch) -> None:
        def on_ended() -> None:
            if batch.error is not None:
                self._on_failed(batch)

        batch.callbacks.append(on_ended)
        batch.on_awaited = self._wake
        batch.check_loop = self._check_loop
        self._wake()


def _no_partition(topic: str, partition: int, count: int) -> ConfigError:
    return ConfigError(f"partition {partition} of topic {topic!r}, which has {count}")


def _as_partition(topic: str, partition: object, count: int) -> int:
    number = _as_int("partition", partition, "partition=2 say, or none for a choice by the key")
    if 0 <= number < count:
        return number
    raise _no_partition(topic, number, count)


def _as_timestamp(timestamp_ms: object) -> int:
    number = _as_int("timestamp_ms", timestamp_ms, "int(time.time() * 1000)")
    if 0 <= number < _NO_TIMESTAMP_MS:
        return number
    raise ConfigError(f"timestamp_ms is {number}, and must be milliseconds since 1970")


def _as_int(name: str, number: object, hint: str) -> int:
    """Return the value as an int, also of numpy's integers."""
    try:
        return index(number)  # type: ignore[arg-type]
    except TypeError:
        raise ConfigError(f"{name} is {type(number).__name__}, and must be an int", hint=hint) from None


def _as_bytes(name: str, content: object) -> bytes | None:
    if content is None or isinstance(content, bytes):
        return content
    if isinstance(content, bytearray | memoryview):
        return bytes(content)
    hint = f"{name}.encode()" if isinstance(content, str) else "encode it, with json.dumps(...).encode() say"
    raise ConfigError(f"{name} is {type(content).__name__}, and must be bytes or None", hint=hint)


def _check_headers(headers: object) -> None:
    if isinstance(headers, dict):
        raise ConfigError("headers is dict, and must be a list of pairs", hint="list(headers.items())")
    if not isinstance(headers, list | tuple):
        raise ConfigError(f"headers is {type(headers).__name__}, and must be a list of (str, bytes) pairs")
    for pair in headers:
        if not isinstance(pair, tuple) or len(pair) != _PAIR or not isinstance(pair[0], str):
            raise ConfigError(f"a header is {pair!r}, and must be a pair of str and bytes")
        _as_bytes("a header's value", pair[1])
