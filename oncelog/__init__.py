"""The public face of oncelog: what people import, and the console script.

The names are loaded when they are first used, so that the command line stays quick.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from client import (
        Admin,
        Consumer,
        ConsumerGroupMetadata,
        KafkaError,
        NewTopic,
        OffsetAndMetadata,
        Producer,
        Record,
        RecordMetadata,
        TopicPartition,
        Transaction,
    )

__all__ = [
    "Admin",
    "Consumer",
    "ConsumerGroupMetadata",
    "KafkaError",
    "NewTopic",
    "OffsetAndMetadata",
    "Producer",
    "Record",
    "RecordMetadata",
    "TopicPartition",
    "Transaction",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'oncelog' has no attribute {name!r}")
    import client

    if not hasattr(client, "Producer"):
        raise ImportError(
            f"oncelog needs its package 'client', but Python finds another at {client.__file__ or client.__path__}: "
            "rename that folder, or start Python with -P"
        )
    return getattr(client, name)
