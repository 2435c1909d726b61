"""What read_committed hides (KIP-98): records of aborted transactions; and what nobody sees: control batches.

Owns: the decision for each batch, in offset order. Does not own: fetching. A broker gives, with a Fetch at
read_committed, the aborted transactions that touch what it returns; a min-heap of their first offsets tells from which
batch on a producer id's transactional batches are hidden, and the producer's ABORT marker until when. Nothing is
buffered and nothing decoded but markers.
"""

from collections.abc import Iterable
from heapq import heapify, heappop

from oncelog.protocol.records.batch import BatchHeader
from oncelog.protocol.records.control import ControlRecordType, decode_end_txn_marker


class AbortedTransactions:
    """Of one fetched piece of a partition; ask `hides` of each batch in order."""

    __slots__ = ("_aborting", "_heap")

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        """`aborted`: (producer id, first offset) in any order."""
        self._heap = [(first_offset, producer_id) for producer_id, first_offset in aborted]
        heapify(self._heap)
        self._aborting: set[int] = set()

    def hides(self, header: BatchHeader, batch: memoryview) -> bool:
        """Is the batch a control batch, or of a transaction that was aborted? Raises ProtocolError for a bad marker."""
        while self._heap and self._heap[0][0] <= header.last_offset:
            self._aborting.add(heappop(self._heap)[1])
        if header.is_control:
            if header.producer_id in self._aborting and is_abort_marker(batch):
                # What this producer id writes from here on belongs to its next transaction.
                self._aborting.discard(header.producer_id)
            return True
        return header.is_transactional and header.producer_id in self._aborting


def is_abort_marker(batch: memoryview) -> bool:
    control_type, _ = decode_end_txn_marker(batch)
    return control_type is ControlRecordType.ABORT
