"""What share-partitions and the requests of share consumers need of other parts of the broker.

Owns: only the interfaces. The share coordinator has the first; the rooms above this one have the others.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from oncelog.broker.coordinator.share.values import SharePartitionKey, ShareState, StateBatch
from oncelog.broker.sharing.sessions import Connection
from oncelog.broker.turns.completion import Completion

if TYPE_CHECKING:
    from oncelog.broker.cluster.topics import Topics
    from oncelog.broker.fetching.purgatory import FetchPurgatory
    from oncelog.broker.turns.ports import Clock, Scheduler


class SharePersister(Protocol):
    """Keeps the states of share-partitions (`broker.coordinator.share`). What it accepts takes effect in this turn, and
    completes once it is durable; what it refuses has failed already with a KafkaError, and nothing has changed."""

    def read(self, key: SharePartitionKey, leader_epoch: int) -> Completion[ShareState]: ...

    def write(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
    ) -> Completion[None]: ...


class SharePeer(Connection, Protocol):
    """The client of a connection."""

    on_disconnect: Callable[[], None] | None
    on_left: Callable[[], None] | None

    @property
    def next_response_bytes(self) -> int: ...


class SharingParts(Protocol):
    """The parts of the broker in which partitions are shared."""

    @property
    def topics(self) -> "Topics": ...

    @property
    def purgatory(self) -> "FetchPurgatory": ...

    @property
    def scheduler(self) -> "Scheduler": ...

    @property
    def clock(self) -> "Clock": ...
