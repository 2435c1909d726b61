"""Calls of the program's own hooks, as Kafka's interceptors: whatever one raises is logged and changes nothing.

Owns: the types of the hooks, and what becomes of their errors. Does not own: when they are called (`producer`,
`consumer`, `commits`).
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from oncelog.client.values.errors import KafkaError
from oncelog.client.values.records import (
    K,
    OffsetAndMetadata,
    ProducerRecord,
    Record,
    RecordMetadata,
    TopicPartition,
    V,
)

_log = logging.getLogger("oncelog.client")

OnSend = Callable[[ProducerRecord[K, V]], ProducerRecord[K, V]]
"""Gets each record before it is serialized, and returns it, changed or not."""
OnAcknowledgement = Callable[[RecordMetadata, KafkaError | None], object]
"""Gets the outcome of each record: where it was written, or the error."""
OnConsume = Callable[[Sequence[Record[K, V]]], Sequence[Record[K, V]]]
"""Gets the records before they are returned, and returns those that are."""
OnCommitted = Callable[[Mapping[TopicPartition, OffsetAndMetadata]], object]
"""Gets offsets after they were committed."""
OnCommit = Callable[[Mapping[TopicPartition, OffsetAndMetadata], KafkaError | None], None]
"""Gets the offsets of one `commit_async`, and the error if they were not committed."""
OnAcknowledged = Callable[[TopicPartition, Sequence[int], KafkaError | None], object]
"""Gets the offsets of acknowledged records of a partition once their leader has responded, and the error if it refused
them."""
OnShareCommit = Callable[[Mapping[TopicPartition, KafkaError | None]], object]
"""Gets the outcome of one `ShareConsumer.commit_async` for each partition."""
OnPartitions = Callable[[Sequence[TopicPartition]], Awaitable[None] | None]
"""A rebalance callback: `async def on_assign(partitions): ...`, or a plain function."""


def before_send(hook: OnSend[K, V], record: ProducerRecord[K, V]) -> ProducerRecord[K, V]:
    """Return the record as the hook does, or unchanged."""
    try:
        changed = hook(record)
        if not isinstance(changed, ProducerRecord):
            raise TypeError(f"it must return a ProducerRecord, not {type(changed).__name__}")
    except Exception:
        _log.warning("on_send failed: the record is sent as it was", exc_info=True)
        return record
    return changed


def on_outcome(hook: OnAcknowledgement, metadata: RecordMetadata, error: KafkaError | None) -> None:
    try:
        hook(metadata, error)
    except Exception:
        _log.warning("on_acknowledgement failed", exc_info=True)


def before_return(hook: OnConsume[K, V], records: Sequence[Record[K, V]]) -> list[Record[K, V]]:
    """Return the records as the hook does, or unchanged."""
    try:
        return list(hook(records))
    except Exception:
        _log.warning("on_consume failed: the records are returned as they were", exc_info=True)
        return list(records)


def after_commit(hook: OnCommitted, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
    try:
        hook(offsets)
    except Exception:
        _log.warning("on_commit failed", exc_info=True)


def call_back(
    callback: OnCommit, offsets: Mapping[TopicPartition, OffsetAndMetadata], error: KafkaError | None
) -> None:
    try:
        callback(offsets, error)
    except Exception:
        _log.warning("the callback of a commit failed", exc_info=True)


def on_acknowledged(
    hook: OnAcknowledged, topic_partition: TopicPartition, offsets: Sequence[int], error: KafkaError | None
) -> None:
    try:
        hook(topic_partition, offsets, error)
    except Exception:
        _log.warning("on_acknowledged failed", exc_info=True)


def on_share_commit(callback: OnShareCommit, outcomes: Mapping[TopicPartition, KafkaError | None]) -> None:
    try:
        callback(outcomes)
    except Exception:
        _log.warning("the callback of a commit failed", exc_info=True)


async def on_partitions(hook: OnPartitions, partitions: Sequence[TopicPartition]) -> None:
    """Call a rebalance callback. Unlike the others, it is part of the rebalance: what it raises is raised by the
    poll."""
    result = hook(partitions)
    if result is not None:
        await result


async def on_closing(hook: OnPartitions, partitions: Sequence[TopicPartition]) -> None:
    """Call a rebalance callback at a close, which no error stops."""
    try:
        await on_partitions(hook, partitions)
    except Exception:
        _log.warning("on_revoke failed while the consumer was closed", exc_info=True)
