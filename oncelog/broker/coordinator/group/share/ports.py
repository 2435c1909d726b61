"""The port of share groups to the states of their share-partitions.

Owns: the port. Does not own: the states (`broker.coordinator.share`), what is in flight (`broker.sharing`).
"""

from typing import Protocol

from oncelog.broker.coordinator.share.values import SharePartitionKey, ShareState
from oncelog.broker.turns.completion import Completion


class ShareStates(Protocol):
    """The share coordinator, as the group coordinator needs it. What it accepts takes effect in this turn, and
    completes once it is durable; what it refuses has failed already with a KafkaError, and nothing has changed."""

    def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> Completion[None]:
        """Begin the state of a share-partition again; a start offset of -1 is decided by the first reader."""

    def delete(self, key: SharePartitionKey) -> Completion[None]:
        """Delete the state; no error if there is none."""

    def summary(self, key: SharePartitionKey, leader_epoch: int) -> Completion[ShareState]:
        """Return the state without its batches."""
