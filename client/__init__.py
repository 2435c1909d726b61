"""A thin, typed asyncio client for Kafka-compatible brokers: producer with transactions, consumer, admin.

`oncelog` re-exports the same names; `oncelog.sync` has blocking versions of the clients.
"""

from oncelog.client.admin import (
    Admin,
    ClusterDescription,
    ListedTransaction,
    NewTopic,
    TopicDescription,
    TransactionDescription,
)
from oncelog.client.batch import Delivery, ProducerIdentity
from oncelog.client.consumer import Consumer, ConsumerRecords
from oncelog.client.errors import (
    AbortableError,
    CommitFailed,
    CommitUnknown,
    ConfigError,
    ConnectionLost,
    CorruptBatch,
    DeliveryTimeout,
    FatalError,
    InvalidState,
    KafkaError,
    NoOffsetForPartition,
    OutOfOrderSequence,
    ProducerFenced,
    QueueFull,
    RequestTimedOut,
    RetriableError,
    TransactionAborted,
    UnknownTopic,
)
from oncelog.client.offsets import IsolationLevel
from oncelog.client.prepared import PreparedTxnState
from oncelog.client.producer import Producer
from oncelog.client.records import (
    ConsumerGroupMetadata,
    Headers,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    Offsets,
    Record,
    RecordMetadata,
    TopicPartition,
)
from oncelog.client.session import SessionBatch, TransactionalSession
from oncelog.client.settings import (
    Acks,
    Compression,
    ConsumerOptions,
    ConsumerSettings,
    DeliveryMode,
    OffsetReset,
    OnPartitions,
    ProducerOptions,
    ProducerSettings,
)
from oncelog.client.transaction import Transaction

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
