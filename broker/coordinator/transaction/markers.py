"""Markers in flight from the coordinator to the partitions of a transaction.

Owns: the values that are sent, the local channel, the verdict on each response. Does not own: when to send, and what
follows (`marker_delivery`); how a partition writes a marker (`broker.coordinator.partition_markers`). The remote
counterpart of the channel is a WriteTxnMarkers request to the leader of the partitions.
"""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from oncelog.broker.completion import Completion, all_of
from oncelog.broker.coordinator.transaction.metadata import TopicPartition
from oncelog.protocol.errors import ErrorCode


class EndMarker(NamedTuple):
    """One transaction's marker for some partitions of one node (WriteTxnMarkersRequest.WritableTxnMarker)."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    transaction_version: int
    partitions: Sequence[TopicPartition]


class Verdict(Enum):
    """What a partition's response means for the transaction."""

    WRITTEN = "written"
    RETRY = "retry"
    GIVE_UP = "give up"


_SOMEONE_NEWER = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})


def verdict(error: ErrorCode) -> Verdict:
    """As Kafka's TransactionMarkerRequestCompletionHandler: a fenced marker means that a newer coordinator exists.

    Kafka stops at an error that it does not expect; here it is retried, because giving up on a partition would block
    its readers for ever.
    """
    if error is ErrorCode.NONE or error is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT:
        return Verdict.WRITTEN
    return Verdict.GIVE_UP if error in _SOMEONE_NEWER else Verdict.RETRY


class MarkerSender(Protocol):
    """Sends a marker to a node; the local implementation is `LocalMarkerChannel`."""

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
    """Writes markers to the partitions of this node."""

    def __init__(self, node_id: int, writer: MarkerWriter) -> None:
        self._node_id = node_id
        self._writer = writer

    def send(self, node_id: int, marker: EndMarker) -> Completion[list[ErrorCode]]:
        """The error code of each partition, in request order, once all have responded."""
        if node_id != self._node_id:
            raise ValueError(f"the local channel of node {self._node_id} cannot reach node {node_id}")
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
