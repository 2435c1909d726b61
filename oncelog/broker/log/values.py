"""The small values in the interface of a partition's log.

Owns: their fields only.
"""

from enum import Enum
from typing import NamedTuple


class FetchIsolation(Enum):
    """The upper bound of a read (Kafka's FetchIsolation)."""

    LOG_END = 0
    HIGH_WATERMARK = 1
    TXN_COMMITTED = 2


class AppendOrigin(Enum):
    """The origin of an append. A client may not write control batches; its sequences are checked and its retries
    recognised."""

    CLIENT = 0
    COORDINATOR = 1
    METADATA = 2


class Writer(NamedTuple):
    """The producer in whose transaction a coordinator appends records; producer id −1: in none."""

    producer_id: int
    producer_epoch: int
    transaction_version: int


NO_TRANSACTION = Writer(-1, -1, 0)


class EndMarker(NamedTuple):
    """The marker that ends a producer's transaction, the same in each of its partitions."""

    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    transaction_version: int = 0


class AppendResult(NamedTuple):
    base_offset: int
    last_offset: int
    log_append_time_ms: int  # -1: the timestamps are the producer's
    log_start_offset: int
    duplicate: bool


class AbortedTransaction(NamedTuple):
    """An aborted transaction in a fetch response; its end is the marker among the batches."""

    producer_id: int
    first_offset: int


class ReadBounds(NamedTuple):
    """The offsets that a reader may see, and those that its response reports: taken in one turn."""

    upper_bound: int
    """Exclusive; the boundary of a batch."""
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    isolation: FetchIsolation
