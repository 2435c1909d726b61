"""The public API of oncelog: `from oncelog import Producer, Consumer, Admin`, and every other public name.

Owns: the public names, which are those of `oncelog.client`. `oncelog.sync` has blocking versions of the clients.
Everything else in this package is private and may change.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oncelog.client import (
        AbortableError,
        Acks,
        Admin,
        ClusterDescription,
        CommitFailed,
        CommitUnknown,
        Compression,
        ConfigError,
        ConnectionLost,
        Consumer,
        ConsumerGroupMetadata,
        ConsumerOptions,
        ConsumerRecords,
        ConsumerSettings,
        CorruptBatch,
        Delivery,
        DeliveryMode,
        DeliveryTimeout,
        FatalError,
        Headers,
        InvalidState,
        IsolationLevel,
        KafkaError,
        ListedTransaction,
        NewTopic,
        NoOffsetForPartition,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        OffsetReset,
        Offsets,
        OnPartitions,
        OutOfOrderSequence,
        PreparedTxnState,
        Producer,
        ProducerFenced,
        ProducerIdentity,
        ProducerOptions,
        ProducerSettings,
        QueueFull,
        Record,
        RecordMetadata,
        RequestTimedOut,
        RetriableError,
        SessionBatch,
        TopicDescription,
        TopicPartition,
        Transaction,
        TransactionAborted,
        TransactionalSession,
        TransactionDescription,
        UnknownTopic,
    )
else:

    def __getattr__(name: str) -> Any:
        # Imported on first use: `oncelog serve` needs none of them and starts faster without.
        if name not in __all__:
            raise AttributeError(f"module 'oncelog' has no attribute {name!r}")
        return getattr(import_module("oncelog.client"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]


__all__ = [
    "AbortableError",
    "Acks",
    "Admin",
    "ClusterDescription",
    "CommitFailed",
    "CommitUnknown",
    "Compression",
    "ConfigError",
    "ConnectionLost",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerOptions",
    "ConsumerRecords",
    "ConsumerSettings",
    "CorruptBatch",
    "Delivery",
    "DeliveryMode",
    "DeliveryTimeout",
    "FatalError",
    "Headers",
    "InvalidState",
    "IsolationLevel",
    "KafkaError",
    "ListedTransaction",
    "NewTopic",
    "NoOffsetForPartition",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetReset",
    "Offsets",
    "OnPartitions",
    "OutOfOrderSequence",
    "PreparedTxnState",
    "Producer",
    "ProducerFenced",
    "ProducerIdentity",
    "ProducerOptions",
    "ProducerSettings",
    "QueueFull",
    "Record",
    "RecordMetadata",
    "RequestTimedOut",
    "RetriableError",
    "SessionBatch",
    "TopicDescription",
    "TopicPartition",
    "Transaction",
    "TransactionAborted",
    "TransactionDescription",
    "TransactionalSession",
    "UnknownTopic",
]
