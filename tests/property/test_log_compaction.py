"""Compaction removes what a newer record of its key makes needless, and nothing else, however the process stops."""

from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.partition_log import FetchIsolation, PartitionLog
from oncelog.protocol.records.batch import encode_batch, iter_batches
from oncelog.protocol.records.control import ControlRecordType, decode_end_txn_marker
from oncelog.protocol.records.record import Record, decode_records
from oncelog.testing.memory_disk import MemoryDisk, PowerCut
from tests.fakes.logs import Logs, read_records, segments_of
from tests.support.samples import examples

COMPACT = LogConfig(
    cleanup_policy="compact",
    segment_bytes=700,
    index_interval_bytes=100,
    delete_retention_ms=1000,
    min_cleanable_dirty_ratio=0.01,
)
KEYS = [b"a", b"b", b"c", b"a key that is longer than thirty-two bytes in all"]
PRODUCERS = 3
COMPRESSIONS = ("none", "gzip", "lz4")


@dataclass(frozen=True)
class Seen:
    """A record as a reader sees it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


@dataclass
class Writer:
    """Appends batches and keeps what a reader should see of them."""

    logs: Logs
    log: PartitionLog
    records: list[Seen] = field(default_factory=list)

    def append(
        self, keys: list[int], tombstone: bool, producer_id: int, transactional: bool, compression: str = "none"
    ) -> None:
        state = self.log.producer_state.producer(producer_id) if producer_id >= 0 else None
        if state is not None and state.current_transaction_first_offset >= 0:
            transactional = True
        wall_ms = self.logs.clock.time_ms
        end = self.log.log_end_offset
        records = [
            Record(slot, wall_ms, KEYS[key], None if tombstone else b"%d" % (end + slot))
            for slot, key in enumerate(keys)
        ]
        data = encode_batch(
            records,
            producer_id=producer_id,
            producer_epoch=-1 if producer_id < 0 else state.producer_epoch if state else 0,
            base_sequence=-1 if producer_id < 0 else state.last_sequence + 1 if state else 0,
            transactional=transactional and producer_id >= 0,
            compression=compression,
        )
        self.logs.append(self.log, memoryview(data))
        self.records += [Seen(end + record.offset, wall_ms, record.key, record.value) for record in records]

    def end(self, producer_id: int, committed: bool, bump: bool) -> None:
        state = self.log.producer_state.producer(producer_id)
        if state is not None:
            self.logs.end_transaction(self.log, producer_id, state.producer_epoch + bump, committed=committed)

    def settle(self) -> None:
        """End every transaction, then fill the active segment so that all of it may be compacted."""
        for _, producer_id in self.log.producer_state.ongoing_transactions():
            self.end(producer_id, committed=False, bump=False)


def read(log: PartitionLog, isolation: FetchIsolation) -> list[Seen]:
    """Read as a consumer does: fetch by fetch, with the aborted transactions filtered out by their list."""
    seen: list[Seen] = []
    offset = log.log_start_offset
    while offset < log.upper_bound(isolation):
        result = read_records(log, offset, 500, isolation)
        waiting = sorted((entry.first_offset, entry.producer_id) for entry in result.aborted_transactions or ())
        aborted: set[int] = set()
        before = offset
        for header, batch in iter_batches(result.records):
            while waiting and waiting[0][0] <= header.last_offset:
                aborted.add(waiting.pop(0)[1])
            if header.next_offset <= offset:
                continue
            offset = header.next_offset
            if header.is_control:
                if header.record_count and decode_end_txn_marker(batch)[0] is ControlRecordType.ABORT:
                    aborted.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborted):
                seen += [Seen(*record[:4]) for record in decode_records(batch)]
        assert offset > before, "a reader must advance"
    return seen


def latest(records: list[Seen]) -> dict[bytes | None, bytes | None]:
    """The state that the records add up to, tombstones taken away."""
    state: dict[bytes | None, bytes | None] = {}
    for record in records:
        state.pop(record.key, None)
        if record.value is not None:
            state[record.key] = record.value
    return state


actions = st.lists(
    st.one_of(
        st.tuples(
            st.just("append"),
            st.lists(st.integers(0, len(KEYS) - 1), min_size=1, max_size=4),
            st.booleans(),
            st.integers(-1, PRODUCERS - 1),
            st.booleans(),
            st.sampled_from(COMPRESSIONS),
        ),
        st.tuples(st.just("end"), st.integers(0, PRODUCERS - 1), st.booleans(), st.booleans()),
        st.tuples(st.just("compact"), st.integers(0, 3000)),
        st.tuples(st.just("restart"), st.sampled_from(["clean", "kill", "no snapshots"])),
    ),
    min_size=10,
    max_size=70,
)


def restarted(writer: Writer, how: str) -> Writer:
    logs = writer.logs.stopped_cleanly() if how == "clean" else writer.logs.killed()
    if how == "no snapshots":
        for name in logs.disk.list_dir("topic-0"):
            if name.endswith((".snapshot", ".batches")):
                logs.disk.delete(f"topic-0/{name}")
    return Writer(logs, logs.open(), writer.records)


def check(writer: Writer, committed: list[Seen], written: list[Seen]) -> None:
    """`committed` is what a read_committed reader saw before the last compaction."""
    log = writer.log
    now = read(log, FetchIsolation.TXN_COMMITTED)
    originals = {record.offset: record for record in written}
    assert all(originals[record.offset] == record for record in now), "a record changed"
    assert [record.offset for record in now] == sorted({record.offset for record in now})
    before = {record.offset for record in committed}
    assert all(record.offset in before for record in now), "a record appeared"
    assert latest(now) == latest(committed), "the newest record of a key is gone"


@settings(max_examples=examples(120), deadline=None)
@given(actions)
def test_the_newest_record_of_each_key_stays_where_it_was(steps: list[tuple]) -> None:  # type: ignore[type-arg]
    logs = Logs(config=COMPACT)
    writer = Writer(logs, logs.open())
    for step in steps:
        writer.logs.clock.time_ms += 10
        match step:
            case ("append", keys, tombstone, producer_id, transactional, compression):
                writer.append(keys, tombstone, producer_id, transactional, compression)
            case ("end", producer_id, committed, bump):
                writer.end(producer_id, committed, bump)
            case ("compact", wait_ms):
                writer.logs.flush()
                committed = read(writer.log, FetchIsolation.TXN_COMMITTED)
                writer.logs.clock.time_ms += wait_ms
                writer.logs.compact()
                check(writer, committed, writer.records)
            case ("restart", how):
                writer.logs.flush()
                committed = read(writer.log, FetchIsolation.TXN_COMMITTED)
                end_offset, known = writer.log.log_end_offset, sequences(writer.log)
                writer = restarted(writer, how)
                assert writer.log.offline_error is None
                assert writer.log.log_end_offset == end_offset
                assert sequences(writer.log) == known, "a producer would be taken for another"
                assert read(writer.log, FetchIsolation.TXN_COMMITTED) == committed
    assert not writer.logs.compaction_problems


def sequences(log: PartitionLog) -> dict[int, tuple[int, int, int]]:
    return {
        state.producer_id: (state.producer_epoch, state.last_sequence, state.current_transaction_first_offset)
        for state in log.producer_state.producers()
    }


def filled(seed: int, disk: MemoryDisk | None = None) -> Writer:
    """A log with transactions of both outcomes, tombstones and many segments, all of it durable."""
    random = Random(seed)
    logs = Logs(disk, config=COMPACT)
    writer = Writer(logs, logs.open())
    for _ in range(60):
        logs.clock.time_ms += 10
        producer_id = random.randint(-1, PRODUCERS - 1)
        keys = [random.randrange(len(KEYS)) for _ in range(random.randint(1, 3))]
        writer.append(keys, random.random() < 0.2, producer_id, random.random() < 0.5)
        if random.random() < 0.3:
            writer.end(random.randrange(PRODUCERS), random.random() < 0.5, False)
    writer.settle()
    logs.flush()
    return writer


def test_what_was_cleaned_holds_one_record_of_each_key() -> None:
    writer = filled(1)
    clean_offset = segments_of(writer.log)[len(segments_of(writer.log)) - 1].base_offset
    size_bytes = writer.log.size_bytes
    assert writer.logs.compact() == 1
    cleaned = [record for record in read(writer.log, FetchIsolation.TXN_COMMITTED) if record.offset < clean_offset]
    assert len(cleaned) == len({record.key for record in cleaned}) <= len(KEYS)
    assert writer.log.size_bytes < size_bytes / 2


def test_a_round_with_little_memory_cleans_part_by_part() -> None:
    writer = filled(2)
    logs = Logs(writer.logs.disk.kill(), config=COMPACT, cleaner_memory_bytes=1)
    again = Writer(logs, logs.open(), writer.records)
    committed = read(again.log, FetchIsolation.TXN_COMMITTED)
    assert logs.compact() > 3
    check(again, committed, writer.records)


def test_tombstones_go_once_their_time_is_over() -> None:
    logs = Logs(config=COMPACT)
    writer = Writer(logs, logs.open())
    writer.append([0], False, -1, False)
    writer.append([0], True, -1, False)
    for rounds in range(3):
        for _ in range(12):
            writer.append([1, 2], False, -1, False)
        logs.flush()
        assert logs.compact()
        tombstones = [record for record in read(logs.open(), FetchIsolation.TXN_COMMITTED) if record.value is None]
        assert len(tombstones) == (1 if rounds < 2 else 0)
        logs.clock.time_ms += 600


def test_markers_go_after_the_data_of_their_transactions() -> None:
    logs = Logs(config=COMPACT)
    writer = Writer(logs, logs.open())
    for committed in (True, False):
        writer.append([0, 1], False, 0, True)
        writer.end(0, committed, bump=True)
    for _ in range(3):
        for _ in range(14):
            writer.append([0, 1, 2], False, 1, False)
        logs.flush()
        assert logs.compact()
        logs.clock.time_ms += 2000
    headers = [header for header, _ in writer.log.batches()]
    markers = [header for header in headers if header.is_control]
    # The last one stays, emptied: it alone keeps the epoch of its producer.
    assert [(marker.producer_id, marker.producer_epoch, marker.record_count) for marker in markers] == [(0, 2, 0)]
    assert sequences(restarted(writer, "no snapshots").log)[0] == (2, -1, -1)


@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in (100, 200, 300))])
def test_a_crash_at_any_step_leaves_the_old_segments_or_the_new_one(first: int) -> None:
    for operation in range(first, first + 100):
        writer = filled(operation)
        committed = read(writer.log, FetchIsolation.TXN_COMMITTED)
        known, end_offset = sequences(writer.log), writer.log.log_end_offset
        disk = writer.logs.disk
        disk.operations_left = operation % 80
        with suppress(PowerCut):
            writer.logs.compact()
        disk.operations_left = None
        logs = writer.logs.crashed(operation) if operation % 2 else writer.logs.killed()
        again = Writer(logs, logs.open(), writer.records)
        assert again.log.offline_error is None, again.log.offline_error
        assert again.log.log_end_offset == end_offset
        assert sequences(again.log) == known
        check(again, committed, writer.records)
        logs.compact()
        check(again, committed, writer.records)
        assert not [name for name in logs.disk.list_dir("topic-0") if name.endswith((".cleaned", ".swap"))]


def test_a_segment_that_is_missing_in_a_compacted_log_is_reported() -> None:
    """Gaps between offsets are no news there; the manifest knows which segments there should be."""
    writer = filled(5)
    logs = writer.logs.stopped_cleanly()
    bases = [name for name in logs.disk.list_dir("topic-0") if name.endswith(".log")]
    logs.disk.delete(f"topic-0/{bases[2]}")
    log = logs.open()
    assert log.offline_error is not None and bases[2] in log.offline_error


def test_a_round_ends_when_the_log_start_moves_or_the_policy_changes() -> None:
    for change in ("start", "policy", "delete"):
        writer = filled(6)
        logs, log = writer.logs, writer.log
        cleaner = logs.store.cleaner
        assert cleaner is not None
        cleaner.step(logs.manager.logs)
        assert cleaner.is_busy
        if change == "start":
            logs.delete_records(log, segments_of(log)[1].base_offset)
        elif change == "policy":
            log.config = LogConfig(cleanup_policy="delete")
        else:
            logs.delete()
        logs.flush()
        assert not cleaner.is_busy and cleaner.round_count == 0
        assert not [name for name in logs.disk.list_dir("topic-0") if name.endswith(".cleaned")]


def test_the_marker_stays_as_long_as_a_batch_of_its_transaction() -> None:
    """A log without the marker, read from its start, would hold a transaction open for ever."""
    logs = Logs(config=COMPACT)
    writer = Writer(logs, logs.open())
    writer.append([0], False, 0, True)
    writer.end(0, False, bump=False)
    for _ in range(4):
        for _ in range(14):
            writer.append([1, 2], False, -1, False)
        logs.flush()
        assert logs.compact()
        logs.clock.time_ms += 2000
    kinds = [(header.is_control, header.record_count) for header, _ in writer.log.batches() if header.producer_id == 0]
    assert kinds == [(False, 0), (True, 1)]
    again = restarted(writer, "no snapshots").log
    assert again.last_stable_offset == again.log_end_offset
