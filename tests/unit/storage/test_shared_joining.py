"""Small chunks over tables: how many are left of a log that grows slowly, and what that costs."""

from contextlib import suppress
from random import Random
from typing import Any
from uuid import UUID

import pytest

from oncelog.broker.log.values import FetchIsolation
from oncelog.broker.storage.shared.joining import small_run
from oncelog.broker.storage.shared.log import SharedLog
from oncelog.broker.storage.shared.store import SharedSizes
from oncelog.broker.storage.shared.tables import AddAside, ChunkRow, DropAside, ReplaceChunks
from oncelog.protocol.errors import KafkaError
from tests.fakes.database import _EFFECTS, Database
from tests.fakes.logs import batch
from tests.unit.storage.stores import STORES, Stored, _tables

CHUNK_BYTES = 20_000
_ROW = ChunkRow((UUID(int=1), 0), 1, 0, 0, 1, 0, 0, 0, 0, b"", ())


class Slow:
    """A log with a checkpoint after each batch."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cached_bytes: int = 0) -> None:
        self.database = Database()
        sizes = SharedSizes(
            checkpoint_bytes=1, chunk_bytes=CHUNK_BYTES, written_bytes=cached_bytes, fetched_bytes=cached_bytes
        )
        monkeypatch.setitem(STORES, "these tables", lambda: _tables(self.database, sizes))
        self.written_bytes = 0

        def noted(database: Database, statement: Any) -> object:
            self.written_bytes += sum(row.size_bytes for row, _ in statement.chunks)
            return Database.add_aside(database, statement)

        monkeypatch.setitem(_EFFECTS, AddAside, noted)
        self.stored = Stored("these tables")

    @property
    def rows(self) -> list[ChunkRow]:
        log = self.stored.log.stored
        assert isinstance(log, SharedLog)
        return [row for segment in log.segments for row in segment.chunks]

    def grow(self, count: int) -> None:
        for _ in range(count):
            self.stored.append(batch(1, value=b"x" * 30))
            self.stored.settle()
            self.stored.clock.time_ms += 10_001
            self.stored.store.step([self.stored.log])
            self.stored.settle()


@pytest.mark.parametrize("cached_bytes", [0, 1_000_000])
def test_a_log_that_grows_slowly_keeps_few_chunks_and_a_byte_is_written_a_dozen_times_at_most(
    monkeypatch: pytest.MonkeyPatch, cached_bytes: int
) -> None:
    slow = Slow(monkeypatch, cached_bytes)
    slow.grow(1500)
    size = slow.stored.log.size_bytes
    assert len(slow.rows) <= size // CHUNK_BYTES + 24
    assert slow.written_bytes <= 12 * size
    assert {row.id for row in slow.rows} == set(slow.database.chunks)
    assert not slow.database.aside
    for _ in range(2):
        assert [header.base_offset for header, _ in slow.stored.replayed()] == list(range(1500))
        slow.stored.start_again()
    assert not slow.stored.failures


@pytest.mark.parametrize("seed", range(30))
def test_what_is_joined_is_adjacent_fits_into_a_chunk_and_at_least_doubles_each_of_its_parts(seed: int) -> None:
    random = Random(seed)
    sizes = [random.choice([0, 1, 10, 50, 100, 400, 1000]) for _ in range(random.randrange(60))]
    rows = [_ROW._replace(id=number, size_bytes=size) for number, size in enumerate(sizes)]
    found = small_run(rows, 1000)
    if found:
        first = found[0].id
        assert [row.id for row in found] == list(range(first, first + len(found)))
        assert len(found) >= 8
        total = sum(row.size_bytes for row in found)
        assert total <= 1000
        assert all(2 * row.size_bytes <= total for row in found)
    else:
        for end in range(len(rows)):
            for first in range(end - 7):
                part = sizes[first : end + 1]
                assert sum(part) > 1000 or 2 * max(part) > sum(part)


@pytest.mark.parametrize("kind", [AddAside, ReplaceChunks])
@pytest.mark.parametrize("act", ["purge", "delete"])
def test_what_is_deleted_while_it_is_joined_does_not_come_back(
    monkeypatch: pytest.MonkeyPatch, kind: type, act: str
) -> None:
    slow = Slow(monkeypatch)
    stored = slow.stored
    slow.grow(7)
    effect = _EFFECTS[kind]

    def deleting(database: Database, statement: Any) -> object:
        monkeypatch.setitem(_EFFECTS, kind, effect)
        answer = effect(database, statement)
        if act == "purge":
            stored.manager.delete_records(stored.log, stored.log.high_watermark)
        else:
            stored.scheduler.call_soon(stored.delete_topic)
        return answer

    monkeypatch.setitem(_EFFECTS, kind, deleting)
    with suppress(KafkaError):  # it is deleted
        slow.grow(3)
    stored.settle()
    assert _EFFECTS[kind] is effect
    if act == "purge":
        slow.grow(1)
        stored.start_again()
        assert stored.log.offline_error is None
        assert [header.base_offset for header, _ in stored.replayed()][-1] == stored.log.log_end_offset - 1
    else:
        assert set(slow.database.chunks) <= slow.database.aside
    assert not stored.failures


def test_a_reader_that_waits_for_a_chunk_gets_it_from_the_one_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(monkeypatch)
    slow.grow(7)
    found: list[Any] = []
    effect = _EFFECTS[ReplaceChunks]

    def reading(database: Database, statement: Any) -> object:
        answer = effect(database, statement)
        log = slow.stored.log
        bounds = log.bounds(FetchIsolation.HIGH_WATERMARK)
        found.extend(log.read(offset, 1, bounds) for offset in range(7))
        return answer

    monkeypatch.setitem(_EFFECTS, ReplaceChunks, reading)
    slow.grow(2)
    assert found
    assert all(len(answer.result()[0]) > 0 for answer in found)


def test_a_damaged_chunk_is_not_joined_and_takes_its_partition_offline_with_a_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow = Slow(monkeypatch)
    slow.grow(6)
    chunk_id = slow.rows[2].id
    row, body = slow.database.chunks[chunk_id]
    slow.database.chunks[chunk_id] = row, body[:-1] + bytes([body[-1] ^ 1])
    with suppress(KafkaError):
        slow.grow(3)
    assert slow.stored.log.offline_error is not None
    assert f"chunk {chunk_id}" in slow.stored.log.offline_error
    assert chunk_id in slow.database.chunks
    assert not slow.stored.failures


@pytest.mark.parametrize("kind", [AddAside, ReplaceChunks, DropAside])
def test_without_space_nothing_is_joined_and_nothing_is_lost_though_others_write_meanwhile(
    monkeypatch: pytest.MonkeyPatch, kind: type
) -> None:
    slow = Slow(monkeypatch)
    slow.grow(6)
    tables = slow.stored.store._statements._tables  # type: ignore[attr-defined]
    tables.refused = (kind,)
    slow.grow(20)
    assert len(slow.rows) >= 20
    tables.refused = ()
    slow.stored.scheduler.run_timers()
    slow.grow(20)
    assert len(slow.rows) < 20
    for _ in range(2):
        assert [header.base_offset for header, _ in slow.stored.replayed()] == list(range(46))
        slow.stored.start_again()
    assert not slow.stored.failures
