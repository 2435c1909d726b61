"""Markers in flight from the coordinator to the partitions of a transaction.

Owns: the port of the sender, the verdict on each response. Does not own: when to send, and what follows
(`marker_delivery`); the local sender, and how a partition writes a marker (`broker.coordinator.partition_markers`).
"""

from collections.abc import Sequence
from enum import Enum
from typing import Any, Protocol

from oncelog.broker.coordinator.transaction.metadata import TopicPartition
from oncelog.broker.log.values import EndMarker
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.errors import ErrorCode


class Verdict(Enum):
    """The meaning of a partition's response for the transaction."""

    WRITTEN = "written"
    RETRY = "retry"
    GIVE_UP = "give up"


_NEWER_COORDINATOR = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})


def verdict(error: ErrorCode) -> Verdict:
    """Return the verdict of Kafka's TransactionMarkerRequestCompletionHandler: a newer coordinator fences a marker.

    Kafka stops at an error that it does not expect; here it is retried, because giving up on a partition would block
    its readers for ever.
    """
    if error is ErrorCode.NONE or error is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT:
        return Verdict.WRITTEN
    return Verdict.GIVE_UP if error in _NEWER_COORDINATOR else Verdict.RETRY


class MarkerSender(Protocol):
    """Brings a marker to partitions of one node, as a WritableTxnMarker of a WriteTxnMarkersRequest does; the local
    implementation is `LocalMarkerChannel`."""

    def append(
        self, node_id: int, marker: EndMarker, partitions: Sequence[TopicPartition], prepared: Completion[Any]
    ) -> list[ErrorCode] | None:
        """Append a marker in this turn, so that PREPARE, appended before, and the marker become durable in one round.
        Return the error code of each partition, in order; None if they are not here, or a fault rule holds something:
        then call `send` once PREPARE is durable, which completes `prepared`."""

    def send(
        self, node_id: int, marker: EndMarker, partitions: Sequence[TopicPartition]
    ) -> Completion[list[ErrorCode]]:
        """Send a marker, and return the error code of each partition in order, once all have responded: markers written
        are durable then."""

    def without_response(self, producer_id: int, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Return those partitions that have not responded to a marker of this producer, which was sent to all of these
        together."""
