"""Decides which records of one batch are retained, and rewrites the batch if some are not.

Owns: the decision only. Invariants
- A record is removed only if a newer one with its key is at or below the map's end, if it is a tombstone past its
  delete horizon, if its transaction aborted, or if it has no key, which a compacted topic rejects.
- A batch whose records cannot be read is retained as it is.
- A retained record keeps its offset, timestamp and key; a batch keeps its first and last offset, producer and sequence.
- The last batches of an active producer are retained, without records if necessary: replay from the start must give the
  same sequences. So is the last batch of a round: a reader must reach the last stable offset.

After Kafka's Cleaner.checkBatchRetention and MemoryRecords.filterTo; KIP-534.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from oncelog.broker.log.producer_state import ProducerStateManager
from oncelog.broker.storage.compaction.offset_map import OffsetMap
from oncelog.broker.storage.compaction.transactions import CleanedTransactions
from oncelog.broker.turns.ports import WallMs
from oncelog.protocol.records.batch import COMPRESSION_MASK, DELETE_HORIZON_MASK, BatchHeader, assemble_batch
from oncelog.protocol.records.compression import compress
from oncelog.protocol.records.record import Record, encode_record


@dataclass(frozen=True, slots=True)
class Remainder:
    """The part of a batch that is retained."""

    data: bytes | memoryview
    record_count: int
    max_timestamp: int


@dataclass(frozen=True, slots=True)
class KnownProducer:
    """The state of a producer in the partition: its epoch and the last offsets of its last batches."""

    producer_epoch: int
    last_offsets: frozenset[int]


def known_producers(producer_state: ProducerStateManager) -> dict[int, KnownProducer]:
    """Return each producer as the partition knows it now, by producer id."""
    return {
        state.producer_id: KnownProducer(state.producer_epoch, frozenset(batch.last_offset for batch in state.batches))
        for state in producer_state.producers()
    }


@dataclass(frozen=True, slots=True)
class BatchFilter:
    offset_map: OffsetMap
    transactions: CleanedTransactions
    producers: Mapping[int, KnownProducer]
    end_offset: int
    """An upper bound for the end of this round."""
    wall_ms: WallMs
    delete_retention_ms: int

    def prepare(self, header: BatchHeader, batch: memoryview) -> Remainder | None:
        """Return the part of `batch` that is retained, if any. Raises ProtocolError if the batch is damaged."""
        is_unneeded_marker = False
        if header.is_control:
            is_unneeded_marker = self._is_unneeded(header)
            discards = is_unneeded_marker and self._is_over(header)
        else:
            discards = self.transactions.on_data(header)
        records = [] if discards else self.offset_map.decode(header, batch)
        if records is None:
            return Remainder(batch, header.record_count, header.max_timestamp)
        kept = [record for record in records if header.is_control or self._keeps(record, header)]
        if kept:
            needs_horizon = not header.has_delete_horizon and (
                is_unneeded_marker or (self._is_mapped(header) and any(record.value is None for record in kept))
            )
            if len(kept) == header.record_count and not needs_horizon:
                return Remainder(batch, len(kept), header.max_timestamp)
            return self._rewritten(header, kept, needs_horizon)
        if header.next_offset == self.end_offset or self._is_needed_by_producer(header):
            return Remainder(_emptied(header), 0, -1)
        return None

    def _is_unneeded(self, header: BatchHeader) -> bool:
        # A marker that an earlier round emptied is retained only for its producer's epoch.
        return header.record_count == 0 or self.transactions.on_marker(header)

    def _is_over(self, header: BatchHeader) -> bool:
        return header.record_count == 0 or (header.has_delete_horizon and header.base_timestamp <= self.wall_ms)

    def _keeps(self, record: Record, header: BatchHeader) -> bool:
        if record.offset > self.offset_map.latest_offset:
            return True
        if record.key is None:
            return False
        newest = self.offset_map.get(record.key)
        if newest is not None and record.offset < newest:
            return False
        return record.value is not None or not self._is_over(header)

    def _is_mapped(self, header: BatchHeader) -> bool:
        # A tombstone above the map's end deletes values only in a later round: were its delete horizon set now, that
        # round could remove both, and a reader in between would keep the value. Kafka sets it in any round.
        return header.last_offset <= self.offset_map.latest_offset

    def _is_needed_by_producer(self, header: BatchHeader) -> bool:
        known = self.producers.get(header.producer_id) if header.producer_id >= 0 else None
        if known is None:
            return False
        if known.last_offsets:
            return header.last_offset in known.last_offsets
        return header.is_control and header.producer_epoch == known.producer_epoch

    def _rewritten(self, header: BatchHeader, kept: list[Record], needs_horizon: bool) -> Remainder:
        base_timestamp = kept[0].timestamp
        attributes = header.attributes
        if needs_horizon:
            base_timestamp = self.wall_ms + self.delete_retention_ms
            attributes |= DELETE_HORIZON_MASK
        elif header.has_delete_horizon:
            base_timestamp = header.base_timestamp
        base_offset = header.base_offset
        body = b"".join(
            [encode_record(record, record.offset - base_offset, record.timestamp - base_timestamp) for record in kept]
        )
        if header.compression_type:
            body = compress(header.compression_type, body)
        max_timestamp = header.max_timestamp
        if not header.is_log_append_time:
            max_timestamp = max(record.timestamp for record in kept)
        data = assemble_batch(
            body,
            attributes=attributes,
            record_count=len(kept),
            last_offset_delta=header.last_offset_delta,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            base_offset=base_offset,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            partition_leader_epoch=header.partition_leader_epoch,
        )
        return Remainder(data, len(kept), max_timestamp)


def _emptied(header: BatchHeader) -> bytes:
    """The header alone, without records and, as in Kafka, without compression."""
    return assemble_batch(
        b"",
        attributes=header.attributes & ~(DELETE_HORIZON_MASK | COMPRESSION_MASK),
        record_count=0,
        last_offset_delta=header.last_offset_delta,
        base_timestamp=-1,
        max_timestamp=header.max_timestamp,
        base_offset=header.base_offset,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        partition_leader_epoch=header.partition_leader_epoch,
    )
