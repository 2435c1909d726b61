"""Markers on their way from the coordinator to the partitions of a transaction.

Owns: the values that travel, the local channel, the verdict on each answer. Does not own: when to send and what
follows (`marker_delivery`), how a partition writes a marker (`broker.coordinator.partition_markers`). The remote form
of the channel is a WriteTxnMarkers request to the node that leads the partitions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from oncelog.broker.completion import Completion, all_of
from oncelog.broker.coordinator.transaction.metadata import TopicPartition
from oncelog.protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class EndMarker:
    """One transaction's marker for some partitions of one node (WriteTxnMarkersRequest.WritableTxnMarker)."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    transaction_version: int
    partitions: Sequence[TopicPartition]


class Verdict(Enum):
    """What an answer means for the transaction."""

    WRITTEN = "written"
    RETRY = "retry"
    GIVE_UP = "give up"


_SOMEONE_NEWER = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})


def verdict(error: ErrorCode) -> Verdict:
    """As Kafka's TransactionMarkerRequestCompletionHandler: a fenced marker means that someone newer was there.

    What Kafka does not expect stops it; here it is tried again, because a partition given up on keeps its readers
    waiting for ever.
    """
    if error is ErrorCode.NONE or error is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT:
        return Verdict.WRITTEN
    return Verdict.GIVE_UP if error in _SOMEONE_NEWER else Verdict.RETRY


class MarkerSender(Protocol):
    """Carries a marker to a node; the local form is `LocalMarkerChannel`."""

    def send(self, node_id: int, marker: EndMarker) -> Completion[list[ErrorCode]]: ...


class MarkerWriter(Protocol):
    """`broker.coordinator.partition_markers.PartitionMarkers`."""

    def write_marker(
        self,
        topic: str,
        partition: int,
        *,
        producer_id: int,
        producer_epoch: int,
        committed: bool,
        coordinator_epoch: int,
        transaction_version: int,
    ) -> Completion[ErrorCode]: ...


class LocalMarkerChannel:
    """Delivers to the partitions of this very node."""

    def __init__(self, node_id: int, writer: MarkerWriter) -> None:
        self._node_id = node_id
        self._writer = writer

    def send(self, node_id: int, marker: EndMarker) -> Completion[list[ErrorCode]]:
        """The answer of each partition, in their order, once all have answered."""
        if node_id != self._node_id:
            raise ValueError(f"node {node_id} is not reached by the local channel of node {self._node_id}")
        return all_of(
            [
                self._writer.write_marker(
                    topic,
                    partition,
                    producer_id=marker.producer_id,
                    producer_epoch=marker.producer_epoch,
                    committed=marker.committed,
                    coordinator_epoch=marker.coordinator_epoch,
                    transaction_version=marker.transaction_version,
                )
                for topic, partition in marker.partitions
            ]
        )
