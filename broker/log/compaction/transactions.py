"""Which batches belong to aborted transactions, and which markers nobody needs any more.

Owns: the transactions that reach into what one round reads, met in offset order. Invariant: the data of an aborted
transaction goes; its marker stays until a round has met no data of it. So does the marker of a commit. After Kafka's
CleanedTransactionMetadata.
"""

from collections.abc import Iterable
from heapq import heappop, heappush

from broker.log.transaction_index import AbortedEntry
from protocol.records.batch import BatchHeader


class CleanedTransactions:
    __slots__ = ("_committed", "_kept", "_met_data", "_ongoing_aborted", "_waiting")

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, AbortedEntry]] = []
        self._ongoing_aborted: dict[int, AbortedEntry] = {}
        self._met_data: set[int] = set()
        self._committed: set[int] = set()
        self._kept: list[AbortedEntry] = []

    def add_aborted(self, entries: Iterable[AbortedEntry]) -> None:
        for entry in entries:
            heappush(self._waiting, (entry.first_offset, entry.last_offset, entry))

    def take_kept(self) -> list[AbortedEntry]:
        """For the transaction index of the new segment: the aborted transactions of which data was still met."""
        kept, self._kept = self._kept, []
        return kept

    def on_data(self, header: BatchHeader) -> bool:
        """True if the batch belongs to an aborted transaction."""
        self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        producer_id = header.producer_id
        if producer_id in self._ongoing_aborted:
            self._met_data.add(producer_id)
            return True
        self._committed.add(producer_id)
        return False

    def on_marker(self, header: BatchHeader, aborted: bool) -> bool:
        """True if nothing of the marker's transaction was met: it has no more to tell."""
        self._begin_up_to(header.last_offset)
        producer_id = header.producer_id
        if not aborted:
            is_empty = producer_id not in self._committed
            self._committed.discard(producer_id)
            return is_empty
        entry = self._ongoing_aborted.pop(producer_id, None)
        if entry is None or producer_id not in self._met_data:
            return True
        self._met_data.discard(producer_id)
        self._kept.append(entry)
        return False

    def _begin_up_to(self, offset: int) -> None:
        while self._waiting and self._waiting[0][0] <= offset:
            entry = heappop(self._waiting)[2]
            self._ongoing_aborted.setdefault(entry.producer_id, entry)
