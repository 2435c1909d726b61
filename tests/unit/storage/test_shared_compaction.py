"""Compaction over tables: what it leaves, what it holds meanwhile, and what an end in the middle leaves."""

from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import pytest

from oncelog.broker.storage.shared.log import SharedLog
from oncelog.broker.storage.shared.store import SharedSizes
from oncelog.broker.storage.shared.tables import AddAside, DropAside, FetchChunk, ReplaceChunks, Statement, WriteBlob
from oncelog.broker.turns.slices import Slices
from oncelog.protocol.records.record import decode_records
from tests.fakes.database import _EFFECTS, Database
from tests.fakes.logs import batch
from tests.unit.storage.stores import STORES, Stored, _tables

CHUNK_BYTES = 2000
SIZES = SharedSizes(checkpoint_bytes=1, chunk_bytes=CHUNK_BYTES, written_bytes=0, fetched_bytes=0)


@dataclass
class Seen:
    """The statements of one kind that had their effect."""

    database: Database = field(default_factory=Database)
    statements: list[Statement[Any]] = field(default_factory=list)

    def of(self, kind: type) -> list[Any]:
        return [statement for statement in self.statements if type(statement) is kind]


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    found = Seen()
    for kind, effect in list(_EFFECTS.items()):

        def noted(self: Database, statement: Any, effect: Any = effect) -> object:
            found.statements.append(statement)
            return effect(self, statement)

        monkeypatch.setitem(_EFFECTS, kind, noted)
    monkeypatch.setitem(STORES, "these tables", lambda: _tables(found.database, SIZES))
    return found


def _stored(segment_bytes: int) -> Stored:
    return Stored("these tables", segment_bytes=segment_bytes)


def _compact(stored: Stored, **settings: int) -> None:
    """Turn compaction on, so that it begins at a known time."""
    compacted = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": 0, **settings}
    stored.config = stored.log.config = replace(stored.config, **compacted)  # type: ignore[arg-type]


def _fill(stored: Stored, count: int, keys: int, size: int = 20) -> dict[bytes, int]:
    """Append records with a chunk for each; return the offset of the newest record of each key."""
    newest: dict[bytes, int] = {}
    for number in range(count):
        key = b"%d" % (number % keys)
        newest[key] = stored.append(batch(1, key=key, value=b"x" * size)).base_offset
        stored.settle()
        stored.manager.step()
        stored.settle()
    return newest


def _offsets(stored: Stored) -> dict[bytes, int]:
    found: dict[bytes, int] = {}
    for _, data in stored.replayed():
        for record in decode_records(memoryview(data)):
            assert record.key is not None
            found[record.key] = record.offset
    return found


def _chunks(stored: Stored) -> list[int]:
    log = stored.log.stored
    assert isinstance(log, SharedLog)
    return [row.size_bytes for segment in log.segments for row in segment.chunks]


def test_many_small_segments_end_as_few_chunks_over_a_start_too(seen: Seen) -> None:
    stored = _stored(segment_bytes=300)
    newest = _fill(stored, 300, keys=50)
    _compact(stored, segment_bytes=100_000)
    stored.let_work()
    left = _chunks(stored)
    assert len(left) <= sum(left) // CHUNK_BYTES + 4
    assert _offsets(stored).items() >= newest.items()
    stored.start_again()
    assert _chunks(stored) == left
    assert _offsets(stored).items() >= newest.items()


def test_a_segment_is_written_chunk_by_chunk_and_put_in_place_by_one_small_statement(seen: Seen) -> None:
    stored = _stored(segment_bytes=30_000)
    _fill(stored, 400, keys=300, size=200)
    _compact(stored)
    stored.let_work()
    added = seen.of(AddAside)
    assert len(added) > 5
    for statement in added:
        assert sum(row.size_bytes for row, _ in statement.chunks) <= CHUNK_BYTES
    placed = {chunk_id for statement in seen.of(ReplaceChunks) for chunk_id in statement.added}
    assert placed == {row.id for statement in added for row, _ in statement.chunks}
    assert not seen.database.aside


@pytest.mark.parametrize("steps", range(1, 12, 2))
def test_what_lies_aside_is_part_of_nothing_and_deleted_by_the_next_round(seen: Seen, steps: int) -> None:
    stored = _stored(segment_bytes=30_000)
    newest = _fill(stored, 400, keys=300, size=200)
    _compact(stored)
    while len(seen.of(AddAside)) < steps:
        stored.manager.step()
        if not stored.scheduler.queue:
            stored.scheduler.run_timers()
        stored.scheduler.queue.pop(0)()
    aside = set(seen.database.aside)
    stored.scheduler.queue.clear()
    stored.scheduler.timers.clear()
    seen.database.in_flight.clear()
    seen.database.until_us = 0
    stored._begin()  # that broker is no more
    stored.log = stored.create(0)
    stored.manager.begin_serving()
    assert _offsets(stored) == newest
    stored.let_work()
    assert not seen.database.aside
    assert not aside & set(seen.database.chunks)
    assert _offsets(stored) == newest
    assert len(seen.database.chunks) == len(_chunks(stored))


def test_a_round_that_waits_for_the_tables_is_not_woken_in_vain(seen: Seen) -> None:
    stored = _stored(segment_bytes=3_000)
    _fill(stored, 100, keys=10, size=200)
    _compact(stored)
    while not seen.of(DropAside):
        stored.manager.step()
        stored.scheduler.queue.pop(0)()
    before = len(seen.of(FetchChunk))
    stored.scheduler.timers.clear()
    while len(seen.of(FetchChunk)) == before:
        stored.scheduler.queue.pop(0)()
        assert not stored.scheduler.timers


def test_a_damaged_chunk_that_compaction_finds_takes_its_partition_offline_with_a_line(seen: Seen) -> None:
    stored = _stored(segment_bytes=3_000)
    other = stored.create(1)
    _fill(stored, 100, keys=10, size=200)
    _compact(stored)
    chunk_id = min(seen.database.chunks)
    row, body = seen.database.chunks[chunk_id]
    seen.database.chunks[chunk_id] = row, body[:-1] + bytes([body[-1] ^ 1])
    stored.let_work()
    assert stored.log.offline_error is not None
    assert f"chunk {chunk_id}" in stored.log.offline_error
    assert not stored.failures
    other.append(batch(1, key=b"key"), wall_ms=stored.clock.wall_ms())
    stored.settle()
    assert other.high_watermark == 1


def test_what_was_cleaned_before_a_start_is_not_cleaned_again(seen: Seen) -> None:
    stored = _stored(segment_bytes=3_000)
    newest = _fill(stored, 100, keys=10, size=200)
    _compact(stored)
    for _ in range(2):
        stored.let_work()
        stored.clock.time_ms += 20_000
    rounds = len(seen.of(DropAside))
    assert rounds > 0
    assert len([statement for statement in seen.of(WriteBlob) if statement.path == "cleaned"]) <= 2
    stored.start_again()
    stored.let_work()
    assert len(seen.of(DropAside)) == rounds
    assert _offsets(stored) == newest


def test_a_topic_that_is_made_again_is_cleaned_from_its_beginning(seen: Seen) -> None:
    stored = _stored(segment_bytes=3_000)
    _fill(stored, 100, keys=10, size=200)
    _compact(stored)
    for _ in range(2):
        stored.let_work()
        stored.clock.time_ms += 20_000
    assert stored.store._cleaned.get("topic", 0) > 0  # type: ignore[attr-defined]
    stored.delete_topic()
    opening = Slices(stored.scheduler).run_own(stored.manager.open("topic", 0, UUID(int=1234), stored.config))
    stored.scheduler.run()
    stored.log = opening.result()
    assert stored.store._cleaned.get("topic", 0) == 0  # type: ignore[attr-defined]
    newest = _fill(stored, 100, keys=10, size=200)
    for _ in range(2):
        stored.let_work()
        stored.clock.time_ms += 20_000
    assert _offsets(stored) == newest
    assert len(stored.replayed()) < 60
    assert len(seen.database.blobs["cleaned"].splitlines()) == 1


@pytest.mark.parametrize("written", [b"\xff", b"one two three", b"one line"])
def test_positions_of_the_cleaner_that_are_damaged_are_none(written: bytes, seen: Seen) -> None:
    seen.database.blobs["cleaned"] = written
    stored = _stored(segment_bytes=3_000)
    assert stored.store._cleaned.get("topic", 0) == 0  # type: ignore[attr-defined]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", [AddAside, ReplaceChunks, DropAside])
def test_a_round_that_finds_no_space_is_given_up_and_nothing_of_it_comes_later(seen: Seen, kind: type) -> None:
    """A statement that replaces chunks would delete the old ones when the new ones, which lie aside, are gone."""
    stored = _stored(segment_bytes=3_000)
    newest = _fill(stored, 100, keys=10, size=200)
    _compact(stored)
    tables = stored.store._statements._tables  # type: ignore[attr-defined]
    tables.refused = (kind,)
    stored.let_work()
    tables.refused = ()
    assert _offsets(stored) == newest
    stored.let_work()
    assert _offsets(stored) == newest
    assert len(stored.replayed()) < 60
    assert not seen.database.aside
    assert not stored.failures
