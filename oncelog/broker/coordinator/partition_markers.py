"""Writes end-of-transaction markers to local partitions.

Owns: the choice between a user's partition (the log itself) and a coordinator's (its runtime, whose replay makes
pending offsets visible or drops them), and the local channel of the transaction coordinator. WriteTxnMarkers uses the
first alone, as the remote counterpart of the channel.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from oncelog.broker.coordinator.transaction.metadata import TopicPartition
from oncelog.broker.log.values import EndMarker
from oncelog.broker.turns.completion import Completion, all_of
from oncelog.broker.turns.ports import Clock
from oncelog.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from oncelog.broker.cluster.topics import Topics
    from oncelog.broker.coordinator.group.engine.shard_life import GroupShardLife
    from oncelog.broker.coordinator.runtime import CoordinatorRuntime

from oncelog.protocol.topics import CONSUMER_OFFSETS


class PartitionMarkers:
    def __init__(self, topics: "Topics", groups: "CoordinatorRuntime[GroupShardLife]", clock: Clock) -> None:
        self._topics = topics
        self._groups = groups
        self._clock = clock

    def write_marker(self, topic: str, partition: int, marker: EndMarker) -> Completion[ErrorCode]:
        """Append the marker; NONE once durable, or the error that the partition answers."""
        error = self.append_marker(topic, partition, marker)
        if error:
            return Completion.of(error)
        if topic == CONSUMER_OFFSETS:
            written = self._groups.when_durable(partition)
        else:
            log = self._topics.partition(topic, partition)
            written = log.when_durable(log.log_end_offset)
        return written.map(lambda _: ErrorCode.NONE, lambda error: error.code)

    def append_marker(self, topic: str, partition: int, marker: EndMarker) -> ErrorCode:
        """Append a marker and return its error at once; it becomes durable with what was appended before it."""
        wall_ms = self._clock.wall_ms()
        try:
            log = self._topics.partition(topic, partition)
            if topic == CONSUMER_OFFSETS:
                self._groups.append_marker(partition, marker, wall_ms)
            else:
                log.append_end_txn_marker(marker, wall_ms)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE


class LocalMarkerChannel:
    """The `MarkerSender` of the partitions of this node."""

    def __init__(self, node_id: int, markers: PartitionMarkers) -> None:
        self._node_id = node_id
        self._markers = markers

    def append(
        self, node_id: int, marker: EndMarker, partitions: Sequence[TopicPartition], prepared: Completion[Any]
    ) -> list[ErrorCode] | None:
        if node_id != self._node_id:
            return None
        return [self._markers.append_marker(topic, partition, marker) for topic, partition in partitions]

    def send(
        self, node_id: int, marker: EndMarker, partitions: Sequence[TopicPartition]
    ) -> Completion[list[ErrorCode]]:
        if node_id != self._node_id:  # no leader of them is known now: asked again later
            return Completion.of([ErrorCode.NOT_LEADER_OR_FOLLOWER] * len(partitions))
        return all_of([self._markers.write_marker(topic, partition, marker) for topic, partition in partitions])

    def without_response(self, producer_id: int, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        return list(partitions)  # one round makes them durable together
