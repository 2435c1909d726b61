"""Which batches belong to aborted transactions, and which markers are obsolete.

Owns: both decisions, from the transaction index only. Invariants
- A batch is aborted if and only if it is between the first offset and the marker of an aborted transaction of its
  producer: what a read_committed reader skips. Lookups are stateless, so both phases of a round share one object.
- A marker is retained until a round finds no batch of its transaction, and as long as a producer snapshot has the
  transaction open: recovery from that snapshot must replay its end.

After Kafka's CleanedTransactionMetadata, which instead must read every marker.
"""

from bisect import bisect_left
from collections.abc import Iterable

from oncelog.broker.log.store import AbortedEntry
from oncelog.protocol.records.batch import BatchHeader


class AbortedTransactions:
    """The aborted transactions of a whole log, by producer."""

    __slots__ = ("_by_producer",)

    def __init__(self, entries: Iterable[AbortedEntry]) -> None:
        """`entries` in the order of their markers."""
        self._by_producer: dict[int, tuple[list[int], list[AbortedEntry]]] = {}
        for entry in entries:
            last_offsets, known = self._by_producer.setdefault(entry.producer_id, ([], []))
            last_offsets.append(entry.last_offset)
            known.append(entry)

    def find(self, header: BatchHeader) -> AbortedEntry | None:
        """The aborted transaction that a batch or marker belongs to."""
        found = self._by_producer.get(header.producer_id) if header.is_transactional else None
        if found is None:
            return None
        last_offsets, entries = found
        slot = bisect_left(last_offsets, header.base_offset)
        if slot == len(entries) or entries[slot].first_offset > header.base_offset:
            return None
        return entries[slot]


class CleanedTransactions:
    """The transactions of one pass over the log, batch by batch in offset order."""

    __slots__ = ("_aborted", "_kept", "_met", "_open")

    def __init__(self, aborted: AbortedTransactions) -> None:
        self._aborted = aborted
        self._met: set[int] = set()
        self._open: set[int] = set()
        self._kept: list[AbortedEntry] = []

    def on_snapshot(self, open_producers: set[int]) -> None:
        """Recovery may start here, from a snapshot in which these producers have an open transaction."""
        self._open = open_producers

    def take_kept(self) -> list[AbortedEntry]:
        """The aborted transactions that still had a batch, for the transaction index of the new segment."""
        kept, self._kept = self._kept, []
        return kept

    def on_data(self, header: BatchHeader) -> bool:
        """True if the batch belongs to an aborted transaction."""
        if not header.is_transactional:
            return False
        self._met.add(header.producer_id)
        return self._aborted.find(header) is not None

    def on_marker(self, header: BatchHeader) -> bool:
        """True if the marker is obsolete."""
        producer_id = header.producer_id
        if producer_id not in self._met and producer_id not in self._open:
            return True
        self._open.discard(producer_id)
        if producer_id in self._met:
            self._met.remove(producer_id)
            entry = self._aborted.find(header)
            if entry is not None:
                self._kept.append(entry)
        return False
