"""What a store does for a round of compaction: it reads batches and replaces segments.

Owns: the port. Does not own: the round (`compaction_round`), the choice of a log (`cleaner`).
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from oncelog.broker.log.store import Batches
from oncelog.broker.storage.retention import StoredSegment
from oncelog.broker.storage.transaction_index import TransactionIndex
from oncelog.broker.turns.completion import Completion

Slice = Callable[[], None] | Completion[Any] | None
"""Work to run off the loop before the next slice, or what must have ended by then; None: this was just a pause for the
loop."""


class CompactedSegment(StoredSegment, Protocol):
    transaction_index: TransactionIndex


class Output(Protocol):
    """What is left of a group of segments; readers do not see it yet."""

    transaction_index: TransactionIndex

    def append(self, batch: bytes, next_offset: int, timestamp: int, /) -> Slice:
        """Add a batch whose greatest timestamp is `timestamp`; returns what must end before the next one. Raises
        OSError."""


SegmentT = TypeVar("SegmentT", bound=CompactedSegment)
OutputT = TypeVar("OutputT", bound=Output)


class Rewriting(Protocol[SegmentT, OutputT]):
    """One log, as a round needs it. Methods raise OSError, KafkaError or ProtocolError on damage, and StoreError if
    a later round should try again."""

    def prepare(self) -> Slice:
        """What must end before the round reads anything."""

    @property
    def segments(self) -> Sequence[SegmentT]: ...

    def pieces(self, from_offset: int, to_offset: int) -> Iterator[Batches | Slice]:
        """The batches between two offsets; a Slice must end before the next piece is requested."""

    def index_bytes_of(self, segment: SegmentT) -> int:
        """Its share of `segment.index.bytes`."""

    def open_producers(self, segment: SegmentT) -> set[int]:
        """The producers that have a transaction open where the segment begins, if a start may begin there."""

    def output(self, group: Sequence[SegmentT]) -> OutputT: ...

    def put_in_place(self, group: Sequence[SegmentT], output: OutputT) -> Generator[Slice, None, bool]:
        """Replace adjacent segments by what is left of them; returns False if they are no longer part of the log."""

    def discard(self, output: OutputT) -> None:
        """It does not come in place."""
