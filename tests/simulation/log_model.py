"""What one partition's log must hold, kept beside it by the world that writes to it.

Owns: every batch that was appended, the outcome of each transaction, what was reported as durable. Does not own: the
log. Everything here is brute force over the list of batches, so that it can be read and believed.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from oncelog.broker.log.producer_state import ProducerStateManager
from oncelog.broker.log.values import EndMarker
from oncelog.protocol.records.batch import BatchHeader, iter_batches, read_header
from oncelog.protocol.records.control import ControlRecordType, decode_end_txn_marker
from oncelog.protocol.records.record import Record, decode_records

Aborted = tuple[int, int, int]
"""Producer id, first offset, offset of the marker."""


@dataclass(frozen=True)
class Written:
    base_offset: int
    next_offset: int
    data: bytes

    @cached_property
    def header(self) -> BatchHeader:
        return read_header(memoryview(self.data))

    @cached_property
    def records(self) -> list[Record]:
        return [] if self.header.is_control else list(decode_records(memoryview(self.data)))

    @cached_property
    def is_abort(self) -> bool:
        return decode_end_txn_marker(memoryview(self.data))[0] is ControlRecordType.ABORT


@dataclass
class LogModel:
    batches: list[Written] = field(default_factory=list)
    durable_end: int = 0
    """All below was reported as durable."""
    answered_end: int = 0
    """All below was answered: no kill may undo it."""
    log_start: int = 0
    durable_start: int = 0
    is_compacted: bool = False

    @property
    def log_end(self) -> int:
        return self.batches[-1].next_offset if self.batches else 0

    def add(self, base_offset: int, next_offset: int, data: bytes) -> None:
        self.batches.append(Written(base_offset, next_offset, data))

    def cut(self, log_end: int) -> None:
        """Remove what was not durable and is gone; it was never promised."""
        while self.log_end > log_end:
            del self.batches[-1]

    def records(self) -> Iterator[tuple[BatchHeader, Record]]:
        for written in self.batches:
            for record in written.records:
                yield written.header, record

    def aborted(self) -> list[Aborted]:
        """Every aborted transaction, in the order of the markers."""
        found: list[Aborted] = []
        open_first: dict[int, int] = {}
        for written in self.batches:
            header = written.header
            if header.is_control:
                first = open_first.pop(header.producer_id, None)
                if first is not None and written.is_abort:
                    found.append((header.producer_id, first, written.base_offset))
            elif header.is_transactional:
                open_first.setdefault(header.producer_id, written.base_offset)
        return found

    def first_open(self) -> int:
        """Where the earliest open transaction begins; the log end if there is none."""
        open_first: dict[int, int] = {}
        for written in self.batches:
            header = written.header
            if header.is_control:
                open_first.pop(header.producer_id, None)
            elif header.is_transactional:
                open_first.setdefault(header.producer_id, written.base_offset)
        return min(open_first.values(), default=self.log_end)

    def committed(self) -> list[Record]:
        """The records that a read_committed reader of the whole log would see once everything is durable."""
        aborted = self.aborted()
        end = self.first_open()
        return [
            record
            for header, record in self.records()
            if record.offset < end
            and not (
                header.is_transactional
                and any(
                    producer_id == header.producer_id and first <= record.offset < marker
                    for producer_id, first, marker in aborted
                )
            )
        ]

    def producer_state(self) -> ProducerStateManager:
        """The state that the batches add up to, all of them replayed."""
        state = ProducerStateManager()
        for written in self.batches:
            header = written.header
            if header.is_control:
                kind, coordinator_epoch = decode_end_txn_marker(memoryview(written.data))
                committed = kind is ControlRecordType.COMMIT
                marker = EndMarker(header.producer_id, header.producer_epoch, committed, coordinator_epoch)
                state.replay_marker(marker, written.base_offset, header.max_timestamp, 0)
            elif header.producer_id >= 0:
                state.replay_batch(header, written.base_offset, header.max_timestamp, 0)
        return state


def batches_in(records: memoryview) -> list[tuple[BatchHeader, memoryview]]:
    return list(iter_batches(records))


def known(state: ProducerStateManager) -> dict[int, tuple[int, ...]]:
    """Map each producer id to its epoch, open transaction, and the batches whose retry would be recognised."""
    return {
        producer.producer_id: (
            producer.producer_epoch,
            producer.current_transaction_first_offset,
            *(number for batch in producer.batches for number in (batch.first_sequence, batch.first_offset)),
        )
        for producer in state.producers()
    }
