"""Which batches belong to aborted transactions, and which markers nobody needs any more.

Owns: the answer to both, from the transaction index alone. Invariants
- A batch is aborted exactly if it lies between the first offset and the marker of an aborted transaction of its
  producer: what a read_committed reader skips. No answer depends on what was asked before, so both phases of a round
  ask the same object.
- A marker stays until a round has met no batch of its transaction, and as long as there is a producer snapshot that
  says that the transaction is open: whoever rebuilds the producers from that one must get to know of its end.

After Kafka's CleanedTransactionMetadata, which instead must be shown every marker.
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
        """The aborted transaction that a batch, or a marker, belongs to."""
        found = self._by_producer.get(header.producer_id) if header.is_transactional else None
        if found is None:
            return None
        last_offsets, entries = found
        slot = bisect_left(last_offsets, header.base_offset)
        if slot == len(entries) or entries[slot].first_offset > header.base_offset:
            return None
        return entries[slot]


class CleanedTransactions:
    """The transactions that one pass over the log meets, batch by batch in offset order."""

    __slots__ = ("_aborted", "_kept", "_met", "_open")

    def __init__(self, aborted: AbortedTransactions) -> None:
        self._aborted = aborted
        self._met: set[int] = set()
        self._open: set[int] = set()
        self._kept: list[AbortedEntry] = []

    def on_snapshot(self, open_producers: set[int]) -> None:
        """From here on producers may be rebuilt from a snapshot in which these have a transaction open."""
        self._open = open_producers

    def take_kept(self) -> list[AbortedEntry]:
        """For the transaction index of the new segment: the aborted transactions of which a batch was still met."""
        kept, self._kept = self._kept, []
        return kept

    def on_data(self, header: BatchHeader) -> bool:
        """True if the batch belongs to an aborted transaction."""
        if not header.is_transactional:
            return False
        self._met.add(header.producer_id)
        return self._aborted.find(header) is not None

    def on_marker(self, header: BatchHeader) -> bool:
        """True if the marker has no more to tell."""
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
