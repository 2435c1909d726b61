"""Allocates producer ids, from blocks that the metadata log reserves.

Owns: the current block and the callers that wait for the next. Invariant: a block is durable in the metadata log before
its first id is used, so no id is assigned twice, whatever crashes; a restart discards the rest of its block (Kafka's
ProducerIdManager, KIP-730).
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from oncelog.broker.cluster.metadata_records import Registration, series_of
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.generated.producer_ids_record import ProducerIdsRecord

BLOCK_SIZE = 1_000


class ReservedIds(Protocol):
    @property
    def next_producer_id(self) -> int:
        """The first id after all blocks so far."""


class BlockLog(Protocol):
    """The part of the metadata log that reserves blocks."""

    @property
    def state(self) -> ReservedIds: ...

    def write(self, records: Sequence[Any]) -> Completion[None]: ...


class ProducerIdManager:
    def __init__(self, metadata: BlockLog, registration: Callable[[], Registration]) -> None:
        self._metadata = metadata
        self._registration = registration
        self._next = 0
        self._end = 0
        self._waiting: deque[Completion[int]] = deque()
        self._is_fetching = False
        self._lowest = 0

    def skip_to(self, producer_id: int) -> None:
        """Assign no id below this one from now on; survives a restart once an id has been assigned."""
        self._lowest = max(self._lowest, producer_id)
        self._next = self._end

    def is_from_before(self, producer_id: int) -> bool:
        """Return whether the id may have been used in a part of the past that is lost, in epochs that are unknown."""
        return 0 <= series_of(producer_id) < series_of(self._metadata.state.next_producer_id)

    def next_id(self) -> Completion[int]:
        """Return an id never assigned before: at once, or once the next block is durable. Fails if no block can be
        logged."""
        if self._next < self._end:
            return Completion.of(self._take())
        answer: Completion[int] = Completion()
        self._waiting.append(answer)
        self._maybe_fetch_block()
        return answer

    def _take(self) -> int:
        self._next += 1
        return self._next - 1

    def _maybe_fetch_block(self) -> None:
        if self._is_fetching:
            return
        self._is_fetching = True
        start = max(self._metadata.state.next_producer_id, self._lowest)
        node_id, broker_epoch = self._registration()
        record = ProducerIdsRecord(broker_id=node_id, broker_epoch=broker_epoch, next_producer_id=start + BLOCK_SIZE)
        self._metadata.write([record]).then(lambda written: self._on_block(start, written.error))

    def _on_block(self, start: int, error: Exception | None) -> None:
        self._is_fetching = False
        if error is not None:
            # A caller that retries because of this failure must wait for the next block, not fail with this one.
            failed, self._waiting = self._waiting, deque()
            for answer in failed:
                answer.fail(error)
            return
        self._next, self._end = start, start + BLOCK_SIZE
        while self._waiting and self._next < self._end:
            self._waiting.popleft().complete(self._take())
        if self._waiting:
            self._maybe_fetch_block()
