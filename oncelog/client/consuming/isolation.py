"""What read_committed hides (KIP-98): records of aborted transactions; and what every reader skips: control batches.

Owns: the decision for each batch, in offset order. Does not own: fetching. At read_committed a Fetch response lists the
aborted transactions that overlap the returned batches. A min-heap of their first offsets gives the batch from which a
producer id's transactional batches are hidden, up to its ABORT marker. Nothing is buffered, and only markers are
decoded.
"""

from collections.abc import Iterable
from heapq import heapify, heappop

from oncelog.protocol.records.batch import CONTROL_MASK, TRANSACTIONAL_MASK, BatchHeader
from oncelog.protocol.records.control import ControlRecordType, decode_end_txn_marker


class AbortedTransactions:
    """The aborted transactions of one fetched range of a partition; call `hides` for each batch in order."""

    __slots__ = ("_aborting", "_heap")

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        """`aborted` has (producer id, first offset) pairs in any order."""
        self._heap = [(first_offset, producer_id) for producer_id, first_offset in aborted]
        heapify(self._heap)
        self._aborting: set[int] = set()

    def hides(self, header: BatchHeader, batch: memoryview) -> bool:
        """Whether the batch is a control batch or belongs to an aborted transaction. Raises ProtocolError for a bad
        marker."""
        attributes = header.attributes
        while self._heap and self._heap[0][0] <= header.last_offset:
            self._aborting.add(heappop(self._heap)[1])
        if attributes & CONTROL_MASK:
            if header.producer_id in self._aborting and is_abort_marker(batch):
                # Later batches of this producer id belong to its next transaction.
                self._aborting.discard(header.producer_id)
            return True
        return attributes & TRANSACTIONAL_MASK != 0 and header.producer_id in self._aborting


def is_abort_marker(batch: memoryview) -> bool:
    """Whether the control batch is an ABORT marker. Raises ProtocolError."""
    control_type, _ = decode_end_txn_marker(batch)
    return control_type is ControlRecordType.ABORT
