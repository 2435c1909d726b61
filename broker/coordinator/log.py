"""What a coordinator asks of the log below one of its partitions.

Owns: the port. Does not own: any log; `broker.log.partition_log.PartitionLog` has this shape, and so may one that lies
elsewhere.
Shaped by Kafka's PartitionWriter and CoordinatorLoader, which are the two halves of it.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

from oncelog.broker.completion import Completion
from oncelog.broker.log.values import AppendOrigin, AppendResult
from oncelog.broker.ports import WallMs
from oncelog.protocol.records.batch import BatchHeader

Batch = tuple[BatchHeader, memoryview]
Piece = Sequence[Batch]
"""Some batches of a log, in order."""


class CoordinatorLog(Protocol):
    @property
    def log_end_offset(self) -> int: ...

    @property
    def offline_error(self) -> str | None:
        """Why nothing can be read or appended any more."""

    def append(
        self, batch: memoryview, /, *, wall_ms: WallMs, origin: AppendOrigin, transaction_version: int
    ) -> AppendResult:
        """Append one batch whole, or raise KafkaError and append nothing."""

    def append_end_txn_marker(
        self,
        *,
        producer_id: int,
        producer_epoch: int,
        committed: bool,
        coordinator_epoch: int,
        wall_ms: WallMs,
        transaction_version: int,
    ) -> AppendResult:
        """Raises KafkaError, in particular for a producer or a coordinator that has a newer one before it."""

    def when_durable(self, next_offset: int, /) -> Completion[None]:
        """Completes once all below `next_offset` is durable."""

    def replay(self) -> Iterator[Piece | Completion[None]]:
        """All there is, in order; a completion comes before a piece that is not at hand: ask again once it has ended.
        Raises KafkaError, or the completion fails with it, for what cannot be read."""
