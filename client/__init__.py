"""A thin, typed asyncio client for Kafka-compatible brokers: producer with transactions, consumer, admin.

`client.sync` has the same for code without an event loop; `client.errors` what is raised.
"""

from client.admin import Admin, NewTopic
from client.batch import Delivery, ProducerIdentity
from client.consumer import Consumer
from client.errors import KafkaError
from client.prepared import PreparedTxnState
from client.producer import Producer
from client.records import ConsumerGroupMetadata, OffsetAndMetadata, Record, RecordMetadata, TopicPartition
from client.transaction import Transaction

__all__ = [
    "Admin",
    "Consumer",
    "ConsumerGroupMetadata",
    "Delivery",
    "KafkaError",
    "NewTopic",
    "OffsetAndMetadata",
    "PreparedTxnState",
    "Producer",
    "ProducerIdentity",
    "Record",
    "RecordMetadata",
    "TopicPartition",
    "Transaction",
]
