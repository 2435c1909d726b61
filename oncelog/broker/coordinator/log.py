"""The log of a coordinator partition, as the coordinator uses it.

Owns: the port. Does not own: any log; `broker.log.partition_log.PartitionLog` implements it, as a remote log could.
Shaped by Kafka's PartitionWriter and CoordinatorLoader, which are its two halves.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar

from oncelog.broker.log.values import AppendResult, EndMarker, Writer
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import WallMs
from oncelog.protocol.records.batch import BatchHeader
from oncelog.protocol.records.record import Record

T = TypeVar("T")

Batch = tuple[BatchHeader, memoryview]
Piece = list[Batch]
"""Some batches of a log, in order."""


class CoordinatorLog(Protocol):
    @property
    def log_end_offset(self) -> int: ...

    @property
    def offline_error(self) -> str | None:
        """Why the log can no longer be read or appended to; None if it can."""

    def append_own(self, records: Sequence[Record], wall_ms: WallMs, writer: Writer, /) -> AppendResult:
        """Append all records in one batch, or raise KafkaError and append nothing."""

    def append_end_txn_marker(self, marker: EndMarker, wall_ms: WallMs, /) -> AppendResult:
        """Raises KafkaError, in particular if the producer or coordinator is fenced by a newer epoch."""

    def when_durable(self, next_offset: int, /) -> Completion[None]:
        """Completes once everything below `next_offset` is durable."""

    def complete_when_durable(self, completion: Completion[T], value: T, next_offset: int, /) -> None:
        """Complete the caller's `completion` once everything below `next_offset` is durable. The caller may end it
        earlier; no round is started for it."""

    def start_round(self) -> None:
        """Start the round now: a caller waits until what was answered ahead is durable."""

    def replay(self) -> Iterator[Piece | Completion[Piece]]:
        """Yield the whole log in order; if a piece comes later, request the next once it has come. Raises KafkaError,
        or fails with it, for what cannot be read."""
