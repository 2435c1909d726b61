"""Writes one end-of-transaction marker to one local partition.

Owns: the choice between a user's partition (the log itself) and a coordinator's (its runtime, whose replay makes
pending offsets visible or drops them). Used by the transaction coordinator and by WriteTxnMarkers.
"""

from typing import TYPE_CHECKING

from oncelog.broker.completion import Completion
from oncelog.broker.ports import Clock
from oncelog.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from oncelog.broker.cluster.topics import Topics
    from oncelog.broker.coordinator.group.shard_life import GroupShardLife
    from oncelog.broker.coordinator.runtime import CoordinatorRuntime

from oncelog.protocol.topics import CONSUMER_OFFSETS


class PartitionMarkers:
    def __init__(self, topics: "Topics", groups: "CoordinatorRuntime[GroupShardLife]", clock: Clock) -> None:
        self._topics = topics
        self._groups = groups
        self._clock = clock

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
    ) -> Completion[ErrorCode]:
        """Append the marker; NONE once durable, or the error that the partition answers."""
        wall_ms = self._clock.wall_ms()
        try:
            if topic == CONSUMER_OFFSETS:
                self._topics.partition(topic, partition)
                written = self._groups.write_marker(
                    partition,
                    producer_id=producer_id,
                    producer_epoch=producer_epoch,
                    committed=committed,
                    coordinator_epoch=coordinator_epoch,
                    transaction_version=transaction_version,
                    wall_ms=wall_ms,
                )
            else:
                log = self._topics.partition(topic, partition)
                appended = log.append_end_txn_marker(
                    producer_id=producer_id,
                    producer_epoch=producer_epoch,
                    committed=committed,
                    coordinator_epoch=coordinator_epoch,
                    wall_ms=wall_ms,
                    transaction_version=transaction_version,
                )
                written = log.when_durable(appended.last_offset + 1)
        except KafkaError as error:
            return Completion.of(error.code)
        return written.map(lambda _: ErrorCode.NONE, lambda error: error.code)
