"""The log of one coordinator's partition in memory, whose flushes happen when the test says so; and its topic.

What is above it is the real runtime: `MemoryTopic` is all that it needs of a broker.
"""

from collections.abc import Iterable, Iterator, Sequence
from struct import pack_into
from typing import Any, TypeVar

from oncelog.broker.coordinator.log import Batch, Piece
from oncelog.broker.coordinator.runtime import CoordinatorRecord
from oncelog.broker.log.values import AppendResult, EndMarker, Writer
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import WallMs
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.records.batch import encode_batch, read_header
from oncelog.protocol.records.control import ControlRecordType, encode_end_txn_marker
from oncelog.protocol.records.record import Record, decode_records

T = TypeVar("T")


class MemoryCoordinatorLog:
    """`durable_end_offset` is how much of it a crash leaves."""

    def __init__(self, batches: Sequence[memoryview] = (), *, flushes_by_itself: bool = True) -> None:
        self._batches = list(batches)
        self.log_end_offset = sum(read_header(batch).record_count for batch in batches)
        self.durable_end_offset = self.log_end_offset
        self.flushes_by_itself = flushes_by_itself
        self.offline_error: str | None = None
        self.refuses: KafkaError | None = None
        """The error that the next append raises, once."""
        self._waiting: list[tuple[int, Completion[Any], Any]] = []

    # --- what the runtime asks ----------------------------------------------------------------------------------------

    def append_own(self, records: Sequence[Record], wall_ms: WallMs, writer: Writer, /) -> AppendResult:
        refusal, self.refuses = self.refuses, None
        if refusal is not None:
            raise refusal
        batch = encode_batch(
            records,
            producer_id=writer.producer_id,
            producer_epoch=writer.producer_epoch,
            transactional=writer.producer_id >= 0,
        )
        return self._write(memoryview(batch))

    def append_end_txn_marker(self, marker: EndMarker, wall_ms: WallMs) -> AppendResult:
        producer_id, producer_epoch, committed, coordinator_epoch, _ = marker
        kind = ControlRecordType.COMMIT if committed else ControlRecordType.ABORT
        return self._write(
            memoryview(encode_end_txn_marker(producer_id, producer_epoch, kind, coordinator_epoch, wall_ms))
        )

    def _write(self, batch: memoryview) -> AppendResult:
        stamped, base_offset = bytearray(batch), self.log_end_offset
        pack_into(">q", stamped, 0, base_offset)
        self._batches.append(memoryview(bytes(stamped)))
        self.log_end_offset += read_header(batch).record_count
        return AppendResult(base_offset, self.log_end_offset - 1, -1, 0, False)

    def when_durable(self, next_offset: int, /) -> Completion[None]:
        durable: Completion[None] = Completion()
        self.complete_when_durable(durable, None, next_offset)
        return durable

    def start_round(self) -> None:
        """Its flushes happen when the test says so."""

    def complete_when_durable(self, completion: Completion[T], value: T, next_offset: int, /) -> None:
        self._waiting.append((next_offset, completion, value))
        if self.flushes_by_itself or next_offset <= self.durable_end_offset:
            self.flush()

    def replay(self) -> Iterator[Piece | Completion[Piece]]:
        for batch in self.batches():
            yield [batch]

    # --- what tests ask -----------------------------------------------------------------------------------------------

    def batches(self) -> Iterator[Batch]:
        for batch in self._batches:
            yield read_header(batch), batch

    @property
    def records(self) -> list[CoordinatorRecord]:
        """Return the appended records, without markers."""
        return [
            CoordinatorRecord(record.key or b"", record.value)
            for header, batch in self.batches()
            if not header.is_control
            for record in decode_records(batch)
        ]

    def write(self, *records: CoordinatorRecord) -> None:
        """Append records that another coordinator has logged."""
        entries = [Record(index, 0, record.key, record.value, ()) for index, record in enumerate(records)]
        self._write(memoryview(encode_batch(entries)))

    def flush(self) -> None:
        """Make all that is in the log durable, and complete the appends that waited for it, in order."""
        self.durable_end_offset = self.log_end_offset
        waiting, self._waiting = self._waiting, []
        for next_offset, completion, value in waiting:
            if next_offset > self.durable_end_offset:
                self._waiting.append((next_offset, completion, value))
            elif not completion.done:
                completion.complete(value)

    def crashed(self, next_offset: int | None = None) -> "MemoryCoordinatorLog":
        """Return the log after a crash: all batches below an offset, at least the durable ones, by default no more."""
        kept = self.durable_end_offset if next_offset is None else next_offset
        batches = [batch for header, batch in self.batches() if header.base_offset + header.record_count <= kept]
        left = MemoryCoordinatorLog(batches, flushes_by_itself=self.flushes_by_itself)
        if batches:
            last = read_header(batches[-1])
            left.log_end_offset = left.durable_end_offset = last.base_offset + last.record_count
        return left

    def prune(self, before_offset: int) -> None:
        """Delete the batches that have no record from this offset on, but for the last."""
        first = [header.base_offset for header, _ in self.batches()]
        while len(first) > 1 and first[1] <= before_offset:
            del first[0], self._batches[0]


class MemoryTopic:
    """An internal topic of logs in memory."""

    def __init__(self, *logs: MemoryCoordinatorLog) -> None:
        self.logs: Sequence[MemoryCoordinatorLog] = logs or (MemoryCoordinatorLog(),)
        self.exists = True

    def partition_count(self) -> int:
        if not self.exists:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return len(self.logs)

    def partition(self, index: int) -> MemoryCoordinatorLog:
        log = self.logs[index]
        if log.offline_error is not None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, log.offline_error)
        return log

    def partitions_with_data(self) -> Iterable[int]:
        return [index for index, log in enumerate(self.logs) if log.log_end_offset]


def no_failure(error: KafkaError) -> None:
    raise AssertionError(f"a log cannot be replayed: {error}")
