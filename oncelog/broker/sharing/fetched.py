"""What was read from the log for a share-partition: which batches, and which of them belong to aborted transactions.

Owns: the look at the headers, and at the markers for read_committed (KIP-98), once for each read, and no further than
records are acquired: a read may have a hundred thousand batches of one record. Does not own: the reading.

Kafka: SharePartition's fetchAbortedTransactionRecordBatches, ShareFetchUtils' maybeSliceFetchRecords.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop
from typing import Final, NamedTuple

from oncelog.broker.sharing.values import AcquiredRecords
from oncelog.protocol.records.batch import CONTROL_MASK, TRANSACTIONAL_MASK, iter_batches
from oncelog.protocol.records.control import ControlRecordType, decode_end_txn_marker


class FetchedBatch(NamedTuple):
    base_offset: int
    last_offset: int
    size_bytes: int = 0
    is_aborted: bool = False


class Fetched(NamedTuple):
    """The batches that were read from `fetch_offset` on, at least one; the first may begin before it."""

    fetch_offset: int
    batches: Sequence[FetchedBatch]

    @property
    def first_offset(self) -> int:
        return self.batches[0].base_offset

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset

    def end_of_batch_at(self, offset: int) -> int:
        """Return the last offset of the batch that holds `offset`; if none does, `offset`."""
        index = bisect_right(self.batches, offset, key=_base_offset) - 1
        return max(offset, self.batches[index].last_offset) if index >= 0 else offset

    def bytes_of(self, acquired: Sequence[AcquiredRecords]) -> tuple[int, int]:
        """Return where the batches from the first to the last acquired record begin and end in the bytes that were
        read. `acquired` has at least one, in order."""
        first_offset, last_offset = acquired[0].first_offset, acquired[-1].last_offset
        first = max(0, bisect_right(self.batches, first_offset, key=_base_offset) - 1)
        end = max(first + 1, bisect_right(self.batches, last_offset, key=_base_offset))
        start_bytes = sum([batch.size_bytes for batch in self.batches[:first]])
        return start_bytes, start_bytes + sum([batch.size_bytes for batch in self.batches[first:end]])


class Reach(NamedTuple):
    """How far an acquisition reaches at most: no batch that begins behind that changes it."""

    known_until: int
    """The last offset that is known already."""
    new_count: int
    """How many offsets are acquired that are not. The batch with the last one counts as a whole."""


_NO_END: Final = Reach(2**63 - 1, 0)


def read_fetched(
    fetch_offset: int,
    records: memoryview,
    aborted: Iterable[tuple[int, int]] | None,
    reach: Reach = _NO_END,
) -> Fetched | None:
    """Return what `records` has within reach, None if it has no batch. `aborted` has the producer id and first offset
    of each aborted transaction, None for read_uncommitted. Raises ProtocolError for a bad marker."""
    beginning = [(first_offset, producer_id) for producer_id, first_offset in aborted or ()]
    heapify(beginning)
    aborting: set[int] = set()
    batches: list[FetchedBatch] = []
    until_offset = -1
    for header, batch in iter_batches(records):
        last_offset, is_aborted = header.last_offset, False
        if not batches:
            until_offset = max(reach.known_until, header.base_offset - 1) + reach.new_count
        while beginning and beginning[0][0] <= last_offset:
            aborting.add(heappop(beginning)[1])
        if aborting and header.producer_id in aborting:
            if header.attributes & CONTROL_MASK == 0:
                is_aborted = header.attributes & TRANSACTIONAL_MASK != 0
            elif header.record_count and decode_end_txn_marker(batch)[0] is ControlRecordType.ABORT:
                # Later batches of this producer id belong to its next transaction.
                aborting.discard(header.producer_id)
        batches.append(FetchedBatch(header.base_offset, last_offset, len(batch), is_aborted))
        if last_offset >= until_offset:
            break
    return Fetched(fetch_offset, batches) if batches else None


def without_aborted(acquired: list[AcquiredRecords], aborted: Sequence[FetchedBatch]) -> list[AcquiredRecords]:
    """Return the ranges without the offsets of aborted batches. Both are in order."""
    if not aborted:
        return acquired
    kept: list[AcquiredRecords] = []
    index = 0
    for first_offset, last_offset, delivery_count in acquired:
        while index < len(aborted) and aborted[index].last_offset < first_offset:
            index += 1
        # The next range may overlap the last of them as well.
        at = index
        while at < len(aborted) and aborted[at].base_offset <= last_offset:
            if first_offset < aborted[at].base_offset:
                kept.append(AcquiredRecords(first_offset, aborted[at].base_offset - 1, delivery_count))
            first_offset = aborted[at].last_offset + 1
            at += 1
        if first_offset <= last_offset:
            kept.append(AcquiredRecords(first_offset, last_offset, delivery_count))
    return kept


def _base_offset(batch: FetchedBatch) -> int:
    return batch.base_offset
