"""Checkpoints of a store in tables: they hold neither the loop nor memory, and say what a round has made durable."""

from itertools import pairwise

import pytest

from oncelog.broker.log.partition_log import FetchIsolation
from oncelog.broker.log.store import StoreError, Trouble
from oncelog.broker.storage.memory.memory_log import MemorySegment
from oncelog.broker.storage.producer_snapshot import encode_snapshot, load_snapshot
from oncelog.broker.storage.shared.tables import (
    AppendRound,
    Checkpoint,
    ChunkRow,
    DeleteLogs,
    DropChunks,
    FetchChunk,
    LogRow,
    MoveStarts,
)
from oncelog.broker.turns.ports import MonotonicMs
from oncelog.protocol.errors import ErrorCode, KafkaError
from tests.fakes.database import Database
from tests.fakes.logs import batch, read_records
from tests.unit.storage.tables_store import TablesStore, fetched

KB = b"x" * 1_000
LONGEST_MS = 300_000


def _only(running: TablesStore) -> Checkpoint:
    (checkpoint,) = running.tables.sent_of(Checkpoint)
    return checkpoint


def test_a_chunk_is_made_when_the_driver_takes_it_and_is_the_same_the_next_time() -> None:
    running = TablesStore(Database(), checkpoint_bytes=50_000, chunk_bytes=5_000)
    running.tables.held = (Checkpoint,)
    for _ in range(50):
        running.append(batch(value=KB))
        running.scheduler.run()
    statement = _only(running)
    taken = iter(statement.chunks)
    first = next(taken)
    assert running.store._writer._last_id == first.row.id
    rest = list(taken)
    assert len(rest) > 5
    assert [first, *rest] == list(statement.chunks)
    assert running.store._writer._last_id == rest[-1].row.id


def test_a_checkpoint_has_the_state_of_its_round_though_the_log_has_grown_since() -> None:
    """Its state is noted when the driver reaches it, or before anything else is appended."""
    running = TablesStore(Database(), 2, checkpoint_bytes=1)
    running.tables.held = (Checkpoint,)
    for log in range(2):
        running.append(batch(2, producer_id=7, base_sequence=0, transactional=True), log)
    running.scheduler.run()
    before = [encode_snapshot(log.producer_state).rows for log in running.logs]
    running.append(batch(3, producer_id=7, base_sequence=2, transactional=True), 0)
    running.append(batch(1, producer_id=8, base_sequence=0), 0)
    running.scheduler.run()
    statement = _only(running)
    rows: list[LogRow] = list(statement.logs)
    assert [row.next_offset for row in rows] == [2, 2]
    assert [row.snapshot for row in rows] == before
    assert load_snapshot(rows[0].snapshot, MonotonicMs(0)).open_producers() == {7}
    assert {row.next_offset for row, _ in statement.chunks} == {2}


def test_what_was_written_stays_in_memory_as_it_was_appended() -> None:
    """Nothing is decoded, copied or fetched for the readers of the tail."""
    running = TablesStore(Database(), checkpoint_bytes=20_000, chunk_bytes=5_000)
    appended = [batch(value=KB) for _ in range(30)]
    for data in appended:
        running.append(data)
        running.scheduler.run()
    assert running.stored().checkpointed > 15
    piece = running.stored().segments[0].piece_of(0)
    assert isinstance(piece, ChunkRow)
    assert isinstance(running.store._cache.get(piece, 0), MemorySegment)
    found, offset = b"", 0
    while offset < 30:
        records = read_records(running.logs[0], offset, 2**20, FetchIsolation.LOG_END).records
        found += bytes(records)
        offset += len(records) // len(appended[0])
    assert len(found) == sum(map(len, appended))
    assert not fetched(running.tables.sent)


def test_rounds_wait_for_a_checkpoint_that_is_behind_and_memory_is_bounded() -> None:
    running = TablesStore(Database(), checkpoint_bytes=10_000, chunk_bytes=5_000, waiting_bytes=20_000)
    running.tables.held = (Checkpoint,)
    acknowledged = []
    with pytest.raises(KafkaError, match="slower than they come") as refused:
        for _ in range(1_000):
            acknowledged.append(running.append(batch(value=KB)))
            running.scheduler.run()
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    appended_bytes = sum(segment.size_bytes for segment in running.stored().segments)
    assert appended_bytes < 10_000 + 10_000 + 20_000 + 5_000
    assert not running.failures
    assert running.store.trouble is None
    running.tables.let_go()
    for _ in range(5):
        running.let_time_pass()
    assert all(done.done and done.error is None for done in acknowledged)
    assert running.append(batch(value=KB)) is not None


def test_what_comes_after_a_round_that_waits_is_of_the_next_one() -> None:
    running = TablesStore(database := Database(), checkpoint_bytes=2_000)
    running.tables.held = (Checkpoint,)
    for _ in range(6):
        running.append(batch(value=KB))
        running.scheduler.run()
    before = len(running.tables.sent_of(AppendRound))
    running.tables.let_go()
    running.scheduler.run()
    numbers = [statement.number for statement in running.tables.sent_of(AppendRound)]
    assert len(numbers) > before
    assert numbers == list(range(1, len(numbers) + 1))
    assert running.logs[0].high_watermark == 6
    again = TablesStore(database, name="second", checkpoint_bytes=2_000)
    assert again.logs[0].log_end_offset == 6


def test_a_checkpoint_is_due_by_time_and_without_anything_new_none_is_written() -> None:
    running = TablesStore(Database(), checkpoint_bytes=64_000)
    running.step(LONGEST_MS)
    assert not running.tables.sent_of(Checkpoint)
    running.append(batch(value=b"little"))
    running.scheduler.run()
    running.step(LONGEST_MS - 1)
    assert not running.tables.sent_of(Checkpoint)
    running.step(1)
    assert len(running.tables.sent_of(Checkpoint)) == 1
    running.step(LONGEST_MS)
    assert len(running.tables.sent_of(Checkpoint)) == 1
    running.append(batch(value=KB))
    running.scheduler.run()
    running.step(10_000)
    assert len(running.tables.sent_of(Checkpoint)) == 2


def test_a_checkpoint_is_due_earlier_while_another_node_would_read_the_journal() -> None:
    running = TablesStore(Database(), checkpoint_bytes=64_000)
    for is_there, written in ((True, 1), (False, 1), (True, 2)):
        running.store.await_successor(is_there=is_there)
        running.append(batch(value=KB))
        running.scheduler.run()
        running.step(3_000)
        assert len(running.tables.sent_of(Checkpoint)) == written


def test_thousands_of_logs_move_in_slices() -> None:
    """No turn moves more than some hundred of them."""
    running = TablesStore(Database(), 2_000, checkpoint_bytes=100_000)
    running.tables.held = (Checkpoint,)
    for partition in range(2_000):
        running.append(batch(), partition)
    running.scheduler.run()
    running.tables.let_go()
    moved = [0]
    while running.scheduler.queue:
        running.scheduler.queue.pop(0)()
        moved.append(sum(running.stored(partition).checkpointed for partition in range(2_000)))
    assert moved[-1] == 2_000
    assert max(after - before for before, after in pairwise(moved)) <= 300


# -- deletions


def _filled(running: TablesStore, chunk_count: int) -> None:
    for _ in range(chunk_count):
        running.append(batch(value=KB))
        running.scheduler.run()
    running.step(LONGEST_MS)


def test_a_topic_with_many_chunks_is_deleted_in_pieces_and_a_checkpoint_comes_between_them() -> None:
    running = TablesStore(database := Database(), 2, checkpoint_bytes=1_000, chunk_bytes=1)
    _filled(running, 200)
    assert len(database.chunks) == 200
    stored = running.stored()
    running.tables.held = (DropChunks,)
    deleted = running.store._deletions.delete({stored.key: stored.rows()})
    stored.abandon()
    running.append(batch(value=KB), 1)
    running.scheduler.run()
    running.tables.let_go()
    running.scheduler.run()
    sent = running.tables.sent
    assert deleted.done
    drops = [number for number, statement in enumerate(sent) if isinstance(statement, DropChunks)]
    last = next(number for number, statement in enumerate(sent) if isinstance(statement, DeleteLogs))
    checkpoints = [number for number, statement in enumerate(sent) if isinstance(statement, Checkpoint)]
    assert len(drops) == 4
    assert drops[0] < checkpoints[-1] < drops[1] < last
    assert [row.key for row, _ in database.chunks.values()] == [running.stored(1).key]


def test_chunks_that_retention_had_no_time_to_delete_go_with_the_next_start() -> None:
    running = TablesStore(database := Database(), checkpoint_bytes=1_000, chunk_bytes=1, segment_bytes=2_500)
    _filled(running, 20)
    database.move_starts(MoveStarts(1, {running.stored().key: 15}))
    again = TablesStore(database, name="second", checkpoint_bytes=1_000, chunk_bytes=1, segment_bytes=2_500)
    again.scheduler.run()
    assert sorted(row.base_offset for row, _ in database.chunks.values()) == [14, 15, 16, 17, 18, 19]
    assert again.logs[0].log_start_offset == 15


def test_a_checkpoint_leaves_out_what_was_deleted_while_it_was_in_flight() -> None:
    running = TablesStore(database := Database(), 2, checkpoint_bytes=2_000, chunk_bytes=1)
    running.tables.held = (Checkpoint,)
    running.append(batch(value=KB), 0)
    running.append(batch(value=KB), 1)
    running.scheduler.run()
    running.step(LONGEST_MS)
    gone = running.stored(0)
    gone.abandon()
    running.store._deletions.delete({gone.key: gone.rows()})
    running.tables.let_go()
    running.scheduler.run()
    assert {row.key for row, _ in database.chunks.values()} == {running.stored(1).key}
    assert set(database.logs) == {running.stored(1).key}


# -- a full disk of the database


def test_a_round_that_a_full_disk_refuses_is_committed_once_there_is_space() -> None:
    """Meanwhile appends are refused as by files on a full disk, and nothing has failed."""
    running = TablesStore(database := Database())
    running.tables.refused = (AppendRound,)
    waiting = running.append(batch(value=b"first"))
    running.scheduler.run()
    assert running.store.trouble == Trouble(running.store.trouble.error, is_final=False)  # type: ignore[union-attr]
    with pytest.raises(KafkaError, match="no space left") as refused:
        running.append(batch(value=b"second"))
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    for _ in range(3):
        running.let_time_pass()
    assert not waiting.done
    assert not database.journal
    assert running.space.events == ["full"]
    running.tables.refused = ()
    running.let_time_pass()
    assert waiting.done
    assert waiting.error is None
    assert running.store.trouble is None
    assert running.space.events == ["full", "space"]
    last = running.append(batch(value=b"third"))
    running.scheduler.run()
    assert last.done
    assert not running.failures
    assert TablesStore(database, name="second").logs[0].log_end_offset == 2


def test_a_checkpoint_that_a_full_disk_refuses_lets_others_pass_that_free_space() -> None:
    running = TablesStore(database := Database(), checkpoint_bytes=1_000)
    _filled(running, 2)
    running.tables.refused = (Checkpoint,)
    running.append(batch(value=KB))
    running.scheduler.run()
    assert running.store.trouble is not None
    moved = running.manager.delete_records(running.logs[0], 2)
    running.scheduler.run()
    assert moved.done
    assert moved.error is None
    assert database.starts == {running.stored().key: 2}
    running.tables.refused = ()
    running.let_time_pass()
    assert running.store.trouble is None
    assert running.stored().checkpointed == 3
    assert not running.failures


def test_a_start_offset_that_a_full_disk_refuses_fails_and_nothing_has_changed() -> None:
    running = TablesStore(Database())
    running.append(batch(3))
    running.scheduler.run()
    running.tables.refused = (MoveStarts,)
    moved = running.store.move_starts({("topic", 0): 2})
    running.scheduler.run()
    assert isinstance(moved.error, StoreError)
    assert not running.failures
    assert running.logs[0].log_start_offset == 0


# -- a database that is away


@pytest.mark.parametrize(("appends", "away_s", "ends"), [(True, 100, False), (True, 150, True), (False, 600, False)])
def test_what_is_to_be_written_waits_two_minutes_for_the_database(appends: bool, away_s: int, ends: bool) -> None:
    """A shorter outage costs nothing but time, as any does while there is nothing to write; a longer one is final."""
    running = TablesStore(Database())
    running.tables.cut_share = 1.0
    waiting = running.append(batch()) if appends else None
    running.scheduler.run()
    for _ in range(away_s):
        running.clock.time_ms += 1_000
        running.let_time_pass()
    assert bool(running.failures) is ends
    assert running.outages.events == ["away"]
    running.tables.cut_share = 0.0
    for _ in range(10):
        running.clock.time_ms += 1_000
        running.let_time_pass()
    assert (running.store.trouble is not None) is ends
    assert running.outages.events == ["away", "back"]
    assert waiting is None or waiting.done is not ends


def test_a_connection_that_is_made_again_is_no_outage() -> None:
    """An answer within a second is not worth a line, however often connections are cut."""
    running = TablesStore(Database())
    for _ in range(20):
        running.tables.cut_share = 1.0
        waiting = running.append(batch())
        running.scheduler.run()
        running.clock.time_ms += 500
        running.let_time_pass()
        running.tables.cut_share = 0.0
        running.run_until_done(waiting)
    assert not running.outages.events
    assert running.store.figures()["tables_repeats"] >= 20


# -- what does not hold the loop


def test_a_snapshot_is_deleted_in_the_background() -> None:
    database = Database(blobs={"folder/old": b"1", "folder/new": b"2"})
    running = TablesStore(database)
    running.store.blobs.delete("folder/old")
    assert running.store.blobs.list_dir("folder") == ["new"]
    assert not running.tables.sent_now
    running.scheduler.run()
    assert set(database.blobs) == {"folder/new"}


def test_logs_that_only_the_journal_has_are_known_by_the_id_of_their_topic() -> None:
    running = TablesStore(database := Database())
    running.append(batch())
    running.scheduler.run()
    assert not database.logs
    again = TablesStore(database, 0, name="second")
    topic_id, partition = running.stored().key
    assert again.store.topics.partitions() == {(str(topic_id), partition)}
    assert again.store.topics.finish_removals({topic_id: "topic"}, set()) != []
    assert not again.store.topics.partitions()


def test_a_checkpoint_does_not_replace_what_a_start_could_not_use() -> None:
    """The damaged row stays for a repair."""
    running = TablesStore(database := Database(), checkpoint_bytes=1_000)
    _filled(running, 2)
    running.append(batch())
    running.scheduler.run()
    key = running.stored().key
    database.logs[key] = damaged = database.logs[key]._replace(snapshot=b"damaged")
    again = TablesStore(database, name="second", checkpoint_bytes=1_000)
    assert again.logs[0].offline_error is not None
    again.step(LONGEST_MS)
    assert database.logs[key] == damaged
    assert FetchChunk not in map(type, again.tables.sent)
