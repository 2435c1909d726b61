"""Blocking clients, for code without an event loop: `from oncelog.sync import Producer, Consumer, Admin`."""

from oncelog.client.blocking.clients import (
    Admin,
    Consumer,
    Delivery,
    Producer,
    SessionBatch,
    ShareConsumer,
    Transaction,
    TransactionalSession,
)

__all__ = [
    "Admin",
    "Consumer",
    "Delivery",
    "Producer",
    "SessionBatch",
    "ShareConsumer",
    "Transaction",
    "TransactionalSession",
]
