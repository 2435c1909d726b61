"""Decides for one batch what remains of it, and writes it anew where less remains.

Owns: the decision alone. Invariants
- A record goes only if a newer one with its key is at or below the map's end, if it is a tombstone whose time is over,
  if its transaction aborted, or if it has no key, which a compacted topic refuses.
- What remains keeps its offset, timestamp and key; a batch keeps its first and last offset, producer and sequence.
- The last batches of a producer that is still known stay, without records if need be: a log that is read again from its
  start must know the same sequences. So does the last batch of a round: a reader must get to the end of what is stable.

After Kafka's Cleaner.checkBatchRetention and MemoryRecords.filterTo; KIP-534.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from oncelog.broker.log.producer_state import ProducerStateManager
from oncelog.broker.ports import WallMs
from oncelog.broker.storage.compaction.offset_map import OffsetMap
from oncelog.broker.storage.compaction.transactions import CleanedTransactions
from oncelog.protocol.records.batch import COMPRESSION_MASK, DELETE_HORIZON_MASK, BatchHeader, assemble_batch
from oncelog.protocol.records.compression import compress
from oncelog.protocol.records.record import Record, decode_records, encode_record


@dataclass(frozen=True, slots=True)
class Remainder:
    """What is written of a batch."""

    data: bytes | memoryview
    record_count: int
    max_timestamp: int


@dataclass(frozen=True, slots=True)
class KnownProducer:
    """What the partition remembers of a producer: its epoch and the last offsets of its last batches."""

    producer_epoch: int
    last_offsets: frozenset[int]


def known_producers(producer_state: ProducerStateManager) -> dict[int, KnownProducer]:
    """By producer id, as they are now."""
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
    """Where this round ends at the latest."""
    wall_ms: WallMs
    delete_retention_ms: int

    def prepare(self, header: BatchHeader, batch: memoryview) -> Remainder | None:
        """What remains of `batch`; None if nothing does. Raises ProtocolError for a batch that cannot be read."""
        is_unneeded_marker = False
        if header.is_control:
            is_unneeded_marker = self._is_unneeded(header)
            discards = is_unneeded_marker and self._is_over(header)
        else:
            discards = self.transactions.on_data(header)
        records = [] if discards else decode_records(batch)
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
        # One that an earlier round has emptied is kept for its producer's epoch alone.
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
        # What a tombstone that was not mapped deletes stays until a later round: its time must not begin before, or
        # that round takes both at once, and a reader in between keeps the value. Kafka's begins in any round.
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
    """The header alone, without records and, as Kafka writes it, without compression."""
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
