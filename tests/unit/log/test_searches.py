"""What is found through indexes and summaries of segments is what looking at every batch finds."""

from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.log.partition_log import AbortedTransaction, FetchIsolation, PartitionLog
from oncelog.broker.storage.local.reader import collect_aborted
from oncelog.protocol.records.control import ControlRecordType, decode_end_txn_marker
from oncelog.protocol.records.record import decode_records
from tests.fakes.logs import Logs, batch, segments_of

PRODUCERS = 3


def steps(*kinds: str) -> st.SearchStrategy[list[tuple[str, int]]]:
    return st.lists(st.tuples(st.sampled_from(kinds), st.integers(0, PRODUCERS - 1)), min_size=15, max_size=60)


class Life:
    """Transactions of a few producers over segments of two batches or so; some of the oldest are deleted."""

    def __init__(self, taken: list[tuple[str, int]], *, ask_on_the_way: bool) -> None:
        self.logs = Logs(policy="memory")
        self.log = self.logs.open(segment_bytes=200)
        self.sequences = [0] * PRODUCERS
        for number, (kind, producer_id) in enumerate(taken):
            self._take(kind, producer_id, number)
            if ask_on_the_way and number % 5 == 0 and len(segments_of(self.log)):
                collect_aborted(segments_of(self.log), self.log.log_start_offset, self.log.log_end_offset)
                self.log.offset_of_max_timestamp()

    def _take(self, kind: str, producer_id: int, number: int) -> None:
        logs, log = self.logs, self.log
        timestamp = 1_000_000 - number * 37 % 11
        if kind == "write":
            sequence = self.sequences[producer_id]
            data = batch(producer_id=producer_id, base_sequence=sequence, transactional=True, timestamp=timestamp)
            logs.append(log, data)
            self.sequences[producer_id] += 1
        elif kind == "plain":
            logs.append(log, batch(timestamp=timestamp))
        elif kind == "delete":
            logs.flush()
            log.advance_log_start(log.log_start_offset + (log.log_end_offset - log.log_start_offset) // 3)
        else:
            logs.end_transaction(log, producer_id, committed=kind == "commit")
        logs.flush()


def aborted_by_reading(log: PartitionLog) -> list[tuple[int, int, int]]:
    """(first offset, marker, producer id) of each aborted transaction, by walking over every batch that is left."""
    first_offsets: dict[int, int] = {}
    aborted = []
    for header, data in log.batches():
        if header.is_control:
            marker, _ = decode_end_txn_marker(data)
            first_offset = first_offsets.pop(header.producer_id, None)
            if marker is ControlRecordType.ABORT and first_offset is not None:
                aborted.append((first_offset, header.base_offset, header.producer_id))
        elif header.producer_id >= 0:
            first_offsets.setdefault(header.producer_id, header.base_offset)
    return aborted


@given(steps("write", "write", "write", "abort", "abort", "commit", "plain"), st.booleans())
def test_aborted_transactions_are_exactly_those_that_a_walk_over_the_log_finds(
    taken: list[tuple[str, int]], ask_on_the_way: bool
) -> None:
    log = Life(taken, ask_on_the_way=ask_on_the_way).log
    aborted = aborted_by_reading(log)
    for start in range(log.last_stable_offset):
        for end in range(start + 1, log.last_stable_offset + 1):
            expected = tuple(
                AbortedTransaction(producer_id, first_offset)
                for first_offset, marker, producer_id in aborted
                if marker >= start and first_offset < end
            )
            assert collect_aborted(segments_of(log), start, end) == expected


@given(steps("write", "plain", "plain", "abort", "delete"), st.booleans())
def test_first_record_of_a_timestamp_is_the_one_that_a_walk_over_the_log_finds(
    taken: list[tuple[str, int]], ask_on_the_way: bool
) -> None:
    log = Life(taken, ask_on_the_way=ask_on_the_way).log
    records = [record for _, data in log.batches() for record in decode_records(data)]
    records = [record for record in records if record.offset >= log.log_start_offset]
    for wanted in range(1_000_000 - 12, 1_000_002):
        at_least = [(record.offset, record.timestamp) for record in records if record.timestamp >= wanted]
        assert log.offset_for_timestamp(wanted, FetchIsolation.HIGH_WATERMARK) == (at_least[0] if at_least else None)
    if log.log_start_offset == 0:
        # Otherwise a record below the start, in a segment that is still needed, may hide the greatest of the others.
        greatest = max((record.timestamp for record in records), default=None)
        of_greatest = [record.offset for record in records if record.timestamp == greatest]
        assert log.offset_of_max_timestamp() == (None if greatest is None else (of_greatest[0], greatest))
