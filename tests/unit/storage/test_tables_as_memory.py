"""A log over tables gives what the same log in memory gives, whatever of it is in chunks, in a tail, or comes back from
a start."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from random import Random

import pytest

from oncelog.broker.log.partition_log import FetchIsolation
from oncelog.broker.log.store import FoundRecord
from oncelog.broker.storage.shared import joining
from oncelog.broker.storage.shared.store import SharedSizes
from oncelog.protocol.records.batch import iter_batches
from oncelog.protocol.records.record import Record, decode_records
from tests.fakes.database import Database
from tests.fakes.logs import batch
from tests.simulation.log_model import known
from tests.unit.storage.stores import STORES, Stored, _tables

KEYS = 4
PRODUCERS = 3
START_MS = 1_000_000
_names = count()

_WEIGHTS = {
    "append": 10,
    "end": 3,
    "settle": 1,
    "checkpoint": 8,
    "join": 2,
    "pass": 1,
    "start again": 1,
    "give away": 0.5,
    "purge": 0.4,
    "retain": 0.4,
}


def _sizes(random: Random) -> SharedSizes:
    return SharedSizes(
        row_bytes=random.choice([100, 1_000_000]),
        checkpoint_bytes=random.choice([1, 1, 500, 5_000]),
        chunk_bytes=random.choice([1, 200, 1_000, 1_000_000]),
        written_bytes=random.choice([0, 500, 1_000_000]),
        fetched_bytes=random.choice([0, 1_000, 1_000_000]),
    )


class Twins:
    """One log in two stores."""

    def __init__(self, tables: str, random: Random, **config: int | str) -> None:
        self._random = random
        self.model, self.tables = Stored("memory", **config), Stored(tables, **config)
        self.written: list[Record] = []
        self._open: set[int] = set()
        self._sequences = [0] * PRODUCERS

    @property
    def both(self) -> tuple[Stored, Stored]:
        return self.model, self.tables

    def run(self) -> None:
        """Some action."""
        (name,) = self._random.choices(list(_WEIGHTS), list(_WEIGHTS.values()))
        getattr(self, "_" + name.replace(" ", "_"))()

    def _append(self) -> None:
        """Append a batch to both; a producer's batches are in transactions."""
        random = self._random
        producer, records = random.randint(-1, PRODUCERS - 1), random.randint(1, 3)
        timestamp = self.model.clock.wall_ms() + random.randint(-50, 50)
        identity = {}
        if producer >= 0:
            identity = {"producer_id": producer, "base_sequence": self._sequences[producer], "transactional": True}
            self._sequences[producer] += records
            self._open.add(producer)
        value = b"%d" % self.model.log.log_end_offset + b"x" * random.randint(0, 100)
        key = b"key %d" % random.randrange(KEYS)
        data = batch(records, timestamp=timestamp, key=key, value=value, **identity)  # type: ignore[arg-type]
        first, second = [stored.append(data) for stored in self.both]
        assert first == second
        end = first.base_offset
        self.written += [record._replace(offset=end + at) for at, record in enumerate(decode_records(data))]

    def _end(self) -> None:
        if self._open:
            producer, committed = self._random.choice(sorted(self._open)), self._random.random() < 0.5
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

    def _purge(self) -> None:
        self._settle()
        log, tenths = self.model.log, self._random.randint(0, 10)
        offset = log.log_start_offset + (log.high_watermark - log.log_start_offset) * tenths // 10
        for stored in self.both:
            moved = stored.manager.delete_records(stored.log, offset)
            stored.settle()
            moved.result()

    def _retain(self) -> None:
        """A compacted topic retains what it has."""
        self._settle()
        for stored in self.both:
            stored.manager.apply_retention(stored.clock.wall_ms())
            stored.settle()

    def _pass(self, time_ms: int = 100) -> None:
        for stored in self.both:
            stored.clock.time_ms += time_ms

    def _join(self) -> None:
        """Small chunks, of which there may be some."""
        self._settle()
        self._pass(10_001)
        if self.model.config.is_compacted:
            self.work()
        else:
            self.tables.store.step([self.tables.log])
            self._settle()

    def _start_again(self) -> None:
        self._settle()
        for stored in self.both:
            stored.start_again()

    def _give_away(self) -> None:
        self._settle()
        for stored in self.both:
            stored.give_away()

    def times(self) -> list[int]:
        """The times of some records, and times just beside them."""
        random = self._random
        records = random.sample(self.written, min(15, len(self.written)))
        return [START_MS - 60, *[record.timestamp + random.choice([-1, 0, 1]) for record in records]]

    def work(self) -> None:
        """Compaction, and what else is due."""
        self._settle()
        for stored in self.both:
            stored.let_work()


@contextmanager
def over_tables(wanted: SharedSizes) -> Iterator[str]:
    name, database = f"tables {next(_names)}", Database()
    STORES[name] = lambda: _tables(database, wanted)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joining, "_LEAST", 2)
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


def _same(twins: Twins) -> None:
    random = twins._random
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
        for wanted in twins.times():
            assert _found(tables, wanted, isolation) == _found(model, wanted, isolation)
    one, two = [stored.wait_for(stored.log.offset_of_max_timestamp) for stored in twins.both]
    assert one == two


@pytest.mark.sampled(5)
@pytest.mark.parametrize("seed", range(60))
def test_every_read_is_as_from_memory(seed: int) -> None:
    random = Random(seed)
    with over_tables(_sizes(random)) as name:
        twins = Twins(
            name,
            random,
            segment_bytes=random.choice([500, 5_000]),
            retention_bytes=random.choice([-1, 0, 500, 1500]),
            retention_ms=random.choice([-1, 300, 40_000]),
        )
        for _ in range(4):
            for _ in range(40):
                twins.run()
            twins._settle()
            _same(twins)
        twins._start_again()
        _same(twins)
        assert not twins.tables.failures


def _latest(records: list[Record]) -> dict[bytes | None, Record]:
    return {record.key: record for record in records}


def _committed(stored: Stored) -> list[Record]:
    """The records that a read_committed reader gets."""
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


@pytest.mark.sampled(13)
@pytest.mark.parametrize("seed", range(60))
def test_compaction_leaves_readers_the_same_table_as_in_memory(seed: int) -> None:
    random = Random(seed)
    with over_tables(_sizes(random)) as name:
        segment_bytes = random.choice([500, 2_000])
        twins = Twins(name, random, cleanup_policy="compact", segment_bytes=segment_bytes, min_cleanable_dirty_ratio=0)
        for _ in range(random.randint(20, 150)):
            twins.run()
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
            _times_find_what_is_left(twins.tables, twins.times())
            if not restarts:
                twins._start_again()
        assert not twins.tables.failures
        assert not twins.tables.problems


def _times_find_what_is_left(stored: Stored, times: list[int]) -> None:
    left = [
        record
        for header, data in stored.replayed()
        if not header.is_control
        for record in decode_records(memoryview(data))
    ]
    for wanted in times:
        found = _found(stored, wanted, FetchIsolation.LOG_END)
        start = stored.log.log_start_offset
        as_late = [record.offset for record in left if record.offset >= start and record.timestamp >= wanted]
        assert not as_late or (found is not None and found[0] <= as_late[0])
