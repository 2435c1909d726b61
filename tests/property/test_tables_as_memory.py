"""A log over tables gives what the same log in memory gives, whatever of it is in chunks, in a tail, or comes back from
a start."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.broker.log.partition_log import FetchIsolation
from oncelog.broker.log.store import FoundRecord
from oncelog.broker.storage.shared.store import SharedSizes
from oncelog.protocol.records.batch import iter_batches
from oncelog.protocol.records.record import Record, decode_records
from tests.fakes.logs import batch
from tests.fakes.tables import Database
from tests.simulation.log_model import known
from tests.support.samples import examples
from tests.unit.storage.stores import STORES, Stored, _tables

KEYS = 4
PRODUCERS = 3
START_MS = 1_000_000
_names = count()

actions = st.lists(
    st.one_of(
        st.tuples(
            st.just("append"),
            st.integers(-1, PRODUCERS - 1),
            st.integers(1, 3),
            st.integers(0, 100),
            st.integers(-50, 50),
            st.integers(0, KEYS - 1),
        ),
        st.tuples(st.just("end"), st.integers(0, PRODUCERS - 1), st.booleans()),
        st.tuples(st.just("settle")),
        st.tuples(st.just("checkpoint")),
        st.tuples(st.just("purge"), st.integers(0, 10)),
        st.tuples(st.just("retain")),
        st.tuples(st.just("pass"), st.integers(0, 400)),
        st.tuples(st.just("start again")),
        st.tuples(st.just("give away")),
    ),
    min_size=5,
    max_size=80,
)
sizes = st.builds(
    SharedSizes,
    row_bytes=st.sampled_from([100, 1_000_000]),
    checkpoint_bytes=st.sampled_from([1, 500, 5_000]),
    chunk_bytes=st.sampled_from([1, 200, 1_000, 1_000_000]),
    written_bytes=st.sampled_from([0, 500, 1_000_000]),
    fetched_bytes=st.sampled_from([0, 1_000, 1_000_000]),
)


class Twins:
    """The same log twice."""

    def __init__(self, tables: str, **config: int | str) -> None:
        self.model, self.tables = Stored("memory", **config), Stored(tables, **config)
        self.written: list[Record] = []
        self._open: set[int] = set()
        self._sequences = [0] * PRODUCERS

    @property
    def both(self) -> tuple[Stored, Stored]:
        return self.model, self.tables

    def run(self, action: tuple[object, ...]) -> None:
        getattr(self, "_" + str(action[0]).replace(" ", "_"))(*action[1:])

    def _append(self, producer: int, records: int, size: int, later_ms: int, key: int) -> None:
        """Those of a producer are in transactions."""
        timestamp = self.model.clock.wall_ms() + later_ms
        identity = {}
        if producer >= 0:
            identity = {"producer_id": producer, "base_sequence": self._sequences[producer], "transactional": True}
            self._sequences[producer] += records
            self._open.add(producer)
        value = b"%d" % self.model.log.log_end_offset + b"x" * size
        data = batch(records, timestamp=timestamp, key=b"key %d" % key, value=value, **identity)  # type: ignore[arg-type]
        first, second = [stored.append(data) for stored in self.both]
        assert first == second
        end = first.base_offset
        self.written += [record._replace(offset=end + at) for at, record in enumerate(decode_records(data))]

    def _end(self, producer: int, committed: bool) -> None:
        if producer in self._open:
            self._open.remove(producer)
            first, second = [stored.end(producer, committed=committed) for stored in self.both]
            assert first == second

    def _settle(self) -> None:
        for stored in self.both:
            stored.settle()

    def _checkpoint(self) -> None:
        self._settle()
        self.tables.store.step([])  # the manager's own step has retention in it, at times of its own
        self._settle()

    def _purge(self, tenths: int) -> None:
        self._settle()
        log = self.model.log
        offset = log.log_start_offset + (log.high_watermark - log.log_start_offset) * tenths // 10
        for stored in self.both:
            moved = stored.manager.delete_records(stored.log, offset)
            stored.settle()
            moved.result()

    def _retain(self) -> None:
        self._settle()
        for stored in self.both:
            stored.manager.apply_retention(stored.clock.wall_ms())
            stored.settle()

    def _pass(self, time_ms: int) -> None:
        for stored in self.both:
            stored.clock.time_ms += time_ms

    def _start_again(self) -> None:
        self._settle()
        for stored in self.both:
            stored.start_again()

    def _give_away(self) -> None:
        self._settle()
        for stored in self.both:
            stored.give_away()

    def work(self) -> None:
        """Compaction, and what else is due."""
        self._settle()
        for stored in self.both:
            stored.let_work()


@contextmanager
def over_tables(wanted: SharedSizes) -> Iterator[str]:
    name, database = f"tables {next(_names)}", Database()
    STORES[name] = lambda: _tables(database, wanted)
    yield name
    del STORES[name]


def _facts(stored: Stored) -> dict[str, object]:
    log = stored.log
    return {
        "bounds": (log.log_start_offset, log.last_stable_offset, log.high_watermark, log.log_end_offset),
        "size": log.size_bytes,
        "segments": [
            (segment.base_offset, segment.next_offset)
            for segment in log.stored.segments  # type: ignore[attr-defined]
            if segment.size_bytes
        ],
        "producers": known(log.producer_state),
        "epochs": [(epoch, max(offset, log.log_start_offset)) for epoch, offset in log.epochs.entries],
        "replayed": stored.replayed(),
    }


def _found(stored: Stored, wanted_ms: int, isolation: FetchIsolation) -> FoundRecord | None:
    return stored.wait_for(lambda: stored.log.offset_for_timestamp(wanted_ms, isolation))


def _same(twins: Twins, random: Random) -> None:
    model, tables = twins.both
    assert _facts(tables) == _facts(model)
    log = model.log
    start, end = log.log_start_offset, log.log_end_offset
    for offset in range(start, end):
        for max_bytes in (1, random.randint(1, 600)):
            found = bytes(tables.read(offset, max_bytes).records)
            assert found
            assert bytes(model.read(offset, len(found)).records)[: len(found)] == found
    for _ in range(10):
        first, last = sorted((random.randint(start, end), random.randint(start, end)))
        assert tables.log.stored.aborted_between(first, last) == log.stored.aborted_between(first, last)
    for isolation in FetchIsolation:
        for wanted in range(START_MS - 60, model.clock.wall_ms() + 60, 40):
            assert _found(tables, wanted, isolation) == _found(model, wanted, isolation)
    one, two = [stored.wait_for(stored.log.offset_of_max_timestamp) for stored in twins.both]
    assert one == two


@given(actions, sizes, st.integers(0, 2**32), st.sampled_from([-1, 0, 500, 1500]), st.sampled_from([-1, 300]))
@settings(max_examples=examples(300))
def test_every_read_is_as_from_memory(
    steps: list[tuple[object, ...]], wanted: SharedSizes, seed: int, retention_bytes: int, retention_ms: int
) -> None:
    with over_tables(wanted) as name:
        twins = Twins(name, segment_bytes=500, retention_bytes=retention_bytes, retention_ms=retention_ms)
        for step in steps:
            twins.run(step)
        twins._settle()
        _same(twins, Random(seed))
        twins._start_again()
        _same(twins, Random(seed))
        assert not twins.tables.failures


def _latest(records: list[Record]) -> dict[bytes | None, Record]:
    return {record.key: record for record in records}


def _committed(stored: Stored) -> list[Record]:
    """What a read_committed reader gets."""
    log, found, offset = stored.log, list[Record](), stored.log.log_start_offset
    while offset < log.last_stable_offset:
        result = stored.read(offset, 300, FetchIsolation.TXN_COMMITTED)
        waiting = sorted((entry.first_offset, entry.producer_id) for entry in result.aborted_transactions or ())
        aborted: set[int] = set()
        before = offset
        for header, data in iter_batches(result.records):
            while waiting and waiting[0][0] <= header.last_offset:
                aborted.add(waiting.pop(0)[1])
            offset = max(offset, header.next_offset)
            if header.is_control:
                aborted.discard(header.producer_id)
            elif header.producer_id not in aborted:
                found += decode_records(data)
        if offset == before:
            break
    return found


@given(actions, sizes, st.integers(0, 2**32))
@settings(max_examples=examples(200))
def test_compaction_leaves_readers_the_same_table_as_in_memory(
    steps: list[tuple[object, ...]], wanted: SharedSizes, seed: int
) -> None:
    random = Random(seed)
    with over_tables(wanted) as name:
        twins = Twins(name, cleanup_policy="compact", segment_bytes=500, min_cleanable_dirty_ratio=0)
        written = {}
        for step in steps:
            if step[0] not in ("purge", "retain"):
                twins.run(step)
            if random.random() < 0.1:
                twins.work()
        twins.work()
        written = {record.offset: record for record in twins.written}
        for restarts in range(2):
            model, tables = [_committed(stored) for stored in twins.both]
            assert {key: record.offset for key, record in _latest(tables).items()} == {
                key: record.offset for key, record in _latest(model).items()
            }
            for record in tables:
                assert (record.key, record.value) == (written[record.offset].key, written[record.offset].value)
            _times_find_what_is_left(twins.tables)
            if not restarts:
                twins._start_again()
        assert not twins.tables.failures
        assert not twins.tables.problems


def _times_find_what_is_left(stored: Stored) -> None:
    left = [
        record
        for header, data in stored.replayed()
        if not header.is_control
        for record in decode_records(memoryview(data))
    ]
    for wanted in range(START_MS - 60, stored.clock.wall_ms() + 60, 70):
        found = _found(stored, wanted, FetchIsolation.LOG_END)
        as_late = [record.offset for record in left if record.timestamp >= wanted]
        assert not as_late or (found is not None and found[0] <= as_late[0])
