"""Chunks that are fetched: how much of them is held, what is prefetched, and which fetch waits for which."""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any
from uuid import UUID

import pytest

from oncelog.broker.log.store import StoreDamagedError, StoreError
from oncelog.broker.storage.memory.memory_log import MemorySegment
from oncelog.broker.storage.shared.batches import ChunkBatches, loaded
from oncelog.broker.storage.shared.chunks import ChunkCache, ChunkWriter
from oncelog.broker.storage.shared.fetches import IN_FLIGHT, IN_FLIGHT_BYTES, Bounded
from oncelog.broker.storage.shared.log import SharedLog
from oncelog.broker.storage.shared.room import Room
from oncelog.broker.storage.shared.statements import Statements
from oncelog.broker.storage.shared.tables import ChunkRow, FetchChunk
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.records.batch import iter_batches
from tests.fakes.logs import batch
from tests.fakes.scheduler import ManualClock, ManualScheduler

SIZE = 100_000
"""The approximate size of a chunk."""


class SlowTables:
    """Tables whose statements wait until the test answers them."""

    def __init__(self) -> None:
        self.bodies: dict[int, bytes] = {}
        self.waiting: deque[tuple[int, Completion[bytes | None]]] = deque()
        self.asked: list[int] = []

    def run(self, statement: Any) -> Completion[Any]:
        assert isinstance(statement, FetchChunk)
        answered: Completion[bytes | None] = Completion()
        self.asked.append(statement.id)
        self.waiting.append((statement.id, answered))
        return answered

    def run_now(self, statement: Any) -> Any:
        raise AssertionError("nothing blocks")

    def answer(self, at: int = 0) -> None:
        self.waiting.rotate(-at)
        chunk_id, answered = self.waiting.popleft()
        self.waiting.rotate(at)
        answered.complete(self.bodies.get(chunk_id))

    def answer_all(self) -> None:
        while self.waiting:
            self.answer()


class Reading:
    """Logs of chunks, each of a few batches, and readers of them."""

    def __init__(self, written_bytes: int = 0, fetched_bytes: int = 40 * SIZE, *, size: int = SIZE) -> None:
        self.tables = SlowTables()
        self.clock = ManualClock()
        self.cache = ChunkCache(Statements(self.tables, ManualScheduler(), self.clock), written_bytes, fetched_bytes)
        self._writer = ChunkWriter(1, size)
        self._size = size
        self._checked_gone = Completion.of(None)

    def log(self, number: int, chunks: int) -> SharedLog:
        log = SharedLog(
            "topic",
            number,
            (UUID(int=7), number),
            0,
            self.clock,
            self.cache,
            self._size,
            Room(self._size, self.clock),
            _ignore,
            _ignore,
            lambda: self._checked_gone,
        )
        self._fill(log, chunks)
        return log

    def _fill(self, log: SharedLog, count: int) -> None:
        """Fill the log with chunks of four batches."""
        segment = log.segment_from(0, frozenset())
        batches = MemorySegment(0, frozenset(), self.clock.monotonic_ms())
        for offset in range(count * 4):
            data = bytearray(batch(1, value=b"x" * (self._size // 4 - 100)))
            data[:8] = offset.to_bytes(8, "big")
            batches.append(bytes(data), offset + 1, 1000 + offset)
        new = self._writer.split(log.key, segment, batches, count * 4)
        assert len(new) == count
        for row, body in new:
            self.tables.bodies[row.id] = body
            segment.add_chunk(row)


def _batches(reading: Reading, row: ChunkRow) -> MemorySegment:
    """The batches of a chunk, as they were appended."""
    batches = MemorySegment(row.base_offset, frozenset(), reading.clock.monotonic_ms())
    for header, data in iter_batches(memoryview(reading.tables.bodies[row.id])):
        batches.append(bytes(data), header.next_offset, header.max_timestamp)
    return batches


def _ignore(*_: object) -> None:
    return


def _read(log: SharedLog, offset: int, max_bytes: int = SIZE) -> Any:
    return log.read(offset, 2**60, max_bytes, at_least_one=True)


def _rows(log: SharedLog) -> list[ChunkRow]:
    return log.segments[0].chunks


@pytest.mark.parametrize("max_bytes", [1, SIZE // 3, SIZE])
def test_the_next_chunks_of_a_reader_that_continues_are_prefetched_once(max_bytes: int) -> None:
    reading = Reading()
    log = reading.log(0, 12)
    offset = waits = 0
    while offset < 48:
        found = _read(log, offset, max_bytes)
        if isinstance(found, Completion):
            waits += 1
            reading.tables.answer_all()
            found = found.result()
        offset = found[1]
    assert reading.tables.asked == [row.id for row in _rows(log)], "each once, in order"
    assert waits <= 3, "after the first ones everything was there"


def test_of_who_looks_here_and_there_nothing_is_asked_for_ahead() -> None:
    reading = Reading()
    log = reading.log(0, 12)
    for slot in (3, 9, 1, 6):
        _read(log, slot * 4 + 1, 1)
        reading.tables.answer_all()
    assert reading.tables.asked == [_rows(log)[slot].id for slot in (3, 9, 1, 6)]


def test_a_replay_asks_ahead_and_gives_every_batch_once() -> None:
    reading = Reading()
    log = reading.log(0, 20)
    offsets, waits = [], 0
    for piece in log.replay(5, 79):
        if isinstance(piece, Completion):
            waits += not piece.done
            assert len(reading.tables.waiting) <= IN_FLIGHT
            reading.tables.answer_all()
            piece = piece.result()
        offsets += [header.base_offset for header, _ in piece]
    assert offsets == list(range(5, 79))
    assert waits <= 4


def test_what_is_waited_for_comes_before_what_is_prefetched_and_logs_take_turns() -> None:
    reading = Reading(fetched_bytes=400 * SIZE)
    ahead, many, one = reading.log(0, 30), reading.log(1, 30), reading.log(2, 1)
    _read(ahead, 0)
    reading.tables.answer_all()
    _read(ahead, 4)  # the following ones fill what may be in flight
    reading.cache.read_ahead(_rows(ahead))
    for slot in range(20):
        _read(many, slot * 4)
    _read(one, 0)
    before = len(reading.tables.asked)
    assert len(reading.tables.waiting) == IN_FLIGHT
    for _ in range(21):
        reading.tables.answer()
    asked = reading.tables.asked[before : before + 21]
    assert set(asked) == {row.id for row in [*_rows(many)[:20], *_rows(one)]}
    assert asked.index(_rows(one)[0].id) < 2


def test_what_is_asked_for_ahead_and_then_wanted_is_fetched_once_and_without_waiting_for_its_turn() -> None:
    reading = Reading(fetched_bytes=400 * SIZE)
    log = reading.log(0, 30)
    reading.cache.read_ahead(_rows(log))
    wanted = _read(log, 29 * 4)
    assert isinstance(wanted, Completion)
    reading.tables.answer()
    assert reading.tables.asked[-1] == _rows(log)[29].id
    reading.tables.answer_all()
    assert wanted.done
    assert sorted(reading.tables.asked) == [row.id for row in _rows(log)]


def test_who_waits_holds_nothing_and_what_is_on_its_way_or_held_is_bounded() -> None:
    """A hundred readers far back in logs of their own, of tables that do not answer."""
    limit = 20 * SIZE
    reading = Reading(fetched_bytes=limit)
    logs = [reading.log(number, 5) for number in range(100)]
    answers = [_read(log, 0, 1000) for log in logs]
    sizes = {row.id: row.size_bytes for log in logs for row in _rows(log)}
    assert reading.cache.held_bytes == 0
    while reading.tables.waiting:
        on_its_way = [sizes[chunk_id] for chunk_id, _ in reading.tables.waiting]
        assert len(on_its_way) <= IN_FLIGHT
        assert sum(on_its_way) < IN_FLIGHT_BYTES + max(on_its_way)
        assert reading.cache.held_bytes <= limit
        reading.tables.answer()
    assert all(answer.done for answer in answers)
    assert reading.cache.held_bytes > 0


@pytest.mark.parametrize("max_bytes", [1, SIZE // 4, SIZE // 2, SIZE])
def test_an_answer_holds_at_most_four_times_its_own_bytes(max_bytes: int) -> None:
    reading = Reading()
    log = reading.log(0, 1)
    found = _read(log, 1, max_bytes)
    reading.tables.answer_all()
    records: memoryview = found.result()[0]
    held = records.obj
    assert isinstance(held, bytes)
    assert len(held) <= 4 * len(records)


def test_who_goes_through_everything_once_pushes_out_neither_what_was_written_nor_what_others_read_again() -> None:
    reading = Reading(written_bytes=4 * SIZE, fetched_bytes=20 * SIZE)
    tail, liked, long = reading.log(0, 3), reading.log(1, 5), reading.log(2, 200)
    for row in _rows(tail):
        reading.cache.keep_written(row, _batches(reading, row))
    for _ in range(2):
        for slot in range(5):
            _read(liked, slot * 4)
            reading.tables.answer_all()
    offset = 0
    while offset < 800:
        found = _read(long, offset)
        reading.tables.answer_all()
        offset = (found.result() if isinstance(found, Completion) else found)[1]
    before = len(reading.tables.asked)
    for log in (tail, liked):
        for row in _rows(log):
            assert not isinstance(_read(log, row.base_offset), Completion)
    assert len(reading.tables.asked) == before


class _Sized:
    def __init__(self, held_bytes: int) -> None:
        self.held_bytes = held_bytes


@pytest.mark.parametrize("limit", [0, 1, 50, 1000])
def test_what_is_held_is_counted_exactly_and_never_above_its_limit(limit: int) -> None:
    random, bounded, held = Random(limit), Bounded[_Sized](limit), dict[int, int]()
    for _ in range(2000):
        chunk_id, size = random.randrange(30), random.randrange(100)
        act = random.choice(["put", "put", "get", "take"])
        if act == "put":
            held[chunk_id] = size
            for gone in bounded.put(chunk_id, _Sized(size)):
                del held[gone]
        elif act == "take":
            bounded.take(chunk_id)
            held.pop(chunk_id, None)
        else:
            found = bounded.get(chunk_id)
            assert (None if found is None else found.held_bytes) == held.get(chunk_id)
        assert bounded.held_bytes == sum(held.values()) <= limit


def test_a_cache_of_nothing_still_gives_everybody_what_they_wait_for() -> None:
    reading = Reading(fetched_bytes=0)
    log = reading.log(0, 3)
    answers = [_read(log, offset) for offset in (0, 1, 0, 5)]
    reading.tables.answer_all()
    assert all(len(answer.result()[0]) for answer in answers)
    assert len(reading.tables.asked) == 2
    assert reading.cache.held_bytes == 0


def test_a_chunk_without_batches_is_not_fetched() -> None:
    reading = Reading()
    log = reading.log(0, 2)
    empty = _rows(log)[0]._replace(size_bytes=0)
    log.segments[0].chunks[0] = empty
    found = _read(log, 0)
    reading.tables.answer_all()
    assert found.result()[1] == 8
    assert reading.tables.asked == [_rows(log)[1].id]


def _spoil_a_bit(body: bytes) -> bytes:
    return bytes([body[0] ^ 1]) + body[1:]


@pytest.mark.parametrize("spoil", [_spoil_a_bit, lambda body: body[:-1], lambda body: b""])
def test_a_chunk_that_is_not_what_was_written_is_damaged_for_every_reader(spoil: Callable[[bytes], bytes]) -> None:
    reading = Reading()
    log = reading.log(0, 3)
    damaged = _rows(log)[1]
    reading.tables.bodies[damaged.id] = spoil(reading.tables.bodies[damaged.id])
    _read(log, 0)
    reading.tables.answer_all()
    for _ in range(2):
        found = _read(log, 4)
        reading.tables.answer_all()
        assert isinstance(found.error, StoreDamagedError)
        assert str(damaged.id) in str(found.error)
    after = _read(log, 8)
    assert len((after.result() if isinstance(after, Completion) else after)[0]) > 0


def test_a_chunk_that_is_gone_is_damage_only_once_nothing_is_in_flight_that_may_have_replaced_it() -> None:
    reading = Reading()
    log = reading.log(0, 3)
    reading._checked_gone = Completion()
    old = _rows(log)[1]
    body = reading.tables.bodies.pop(old.id)
    replaced, lost = _read(log, 4), _read(log, 8)
    del reading.tables.bodies[_rows(log)[2].id]
    reading.tables.answer_all()
    assert not replaced.done
    new = old._replace(id=old.id + 1000)
    log.segments[0].chunks[1] = new
    reading.tables.bodies[new.id] = body
    reading._checked_gone.complete(None)
    reading.tables.answer_all()
    assert replaced.result()[1] == 8
    assert isinstance(lost.error, StoreDamagedError)


def test_a_database_that_refuses_a_fetch_damages_nothing() -> None:
    reading = Reading()
    log = reading.log(0, 1)
    found = _read(log, 0)
    _, answered = reading.tables.waiting.popleft()
    answered.fail(OSError("out of memory"))
    assert isinstance(found.error, StoreError)
    again = _read(log, 0)
    reading.tables.answer_all()
    assert again.result()[1] == 4


def test_bytes_that_are_no_batches_are_said_to_be_damaged() -> None:
    reading = Reading()
    log = reading.log(0, 1)
    (row,) = _rows(log)
    for body in (b"x" * 200, reading.tables.bodies[row.id] + b"y"):
        with pytest.raises(StoreDamagedError):
            ChunkBatches(row, body)
    with pytest.raises(StoreDamagedError):
        loaded(row, b"x" * 200)
