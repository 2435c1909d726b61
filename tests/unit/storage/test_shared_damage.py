"""Tables that are not what was written: what is damaged is offline with a line, and everything else is served."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import pytest

from oncelog.broker.log.partition_log import FetchIsolation, PartitionLog
from oncelog.broker.storage.sections import LogKey, Span, decode_checked, encode_checked
from oncelog.broker.storage.shared.statements import Fenced
from oncelog.broker.storage.shared.store import SharedSizes
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.records.batch import iter_batches
from tests.fakes.database import Database
from tests.fakes.logs import TOPIC_ID, batch
from tests.unit.storage.stores import STORES, Stored, _tables

DAMAGED: LogKey = (TOPIC_ID, 0)


@dataclass
class World:
    """Two partitions over tables, and what was written to them; the first is to be damaged."""

    stored: Stored
    database: Database
    written: dict[int, list[int]] = field(default_factory=lambda: {0: [], 1: []})

    def __post_init__(self) -> None:
        self.logs: dict[int, PartitionLog] = {0: self.stored.log, 1: self.stored.create(1)}

    def append(self, partition: int, **producer: int) -> None:
        data = batch(1, value=b"x" * 100, **producer)  # type: ignore[arg-type]
        appended = self.logs[partition].append(data, wall_ms=self.stored.clock.wall_ms())
        self.written[partition].append(appended.base_offset)

    def fill(self, count: int = 20) -> None:
        for sequence in range(count):
            self.append(0, producer_id=5, base_sequence=sequence)
            self.append(1)
            self.stored.settle()

    def checkpoint(self) -> None:
        self.stored.clock.time_ms += 1_000_000
        self.stored.manager.step()
        self.stored.settle()

    def start_again(self) -> None:
        self.stored.start_again()
        self.logs = {0: self.stored.log, 1: self.stored.create(1)}

    def read(self, partition: int) -> list[int]:
        """Raises KafkaError."""
        log, found = self.logs[partition], list[int]()
        log.check_readable(log.log_start_offset)
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            self.stored.log = log
            headers = [header for header, _ in iter_batches(self.stored.read(offset, 300).records)]
            found += [header.base_offset for header in headers]
            offset = headers[-1].next_offset
        return found

    def require_offline(self, *, knows: str) -> None:
        """The first partition is, and the second one works."""
        with pytest.raises(KafkaError) as refused:
            self.read(0)
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert self.logs[0].offline_error is not None
        assert knows in self.logs[0].offline_error
        assert self.stored.manager.offline_of("topic") == {0}
        assert self.read(1) == self.written[1]
        self.append(1)
        self.stored.settle()
        assert self.logs[1].high_watermark == len(self.written[1])
        assert not self.stored.failures


def _world(monkeypatch: pytest.MonkeyPatch, sizes: SharedSizes) -> World:
    database = Database()
    monkeypatch.setitem(STORES, "these tables", lambda: _tables(database, sizes))
    return World(Stored("these tables"), database)


@pytest.fixture
def chunks(monkeypatch: pytest.MonkeyPatch) -> World:
    """Everything is in chunks."""
    return _world(monkeypatch, SharedSizes(checkpoint_bytes=1, chunk_bytes=400, written_bytes=0, fetched_bytes=0))


@pytest.fixture
def journal(monkeypatch: pytest.MonkeyPatch) -> World:
    """Everything is in the journal, until the time for a checkpoint comes."""
    return _world(monkeypatch, SharedSizes())


def _ids(world: World) -> list[int]:
    return sorted(row.id for row, _ in world.database.chunks.values() if row.key == DAMAGED)


def _spoilt(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def _spoil_a_chunk(world: World) -> None:
    chunk_id = _ids(world)[3]
    row, body = world.database.chunks[chunk_id]
    world.database.chunks[chunk_id] = row, _spoilt(body, 70)


def _lose_a_chunk(world: World) -> None:
    del world.database.chunks[_ids(world)[3]]


def _lose_the_first_chunk(world: World) -> None:
    del world.database.chunks[_ids(world)[0]]


def _lose_the_last_chunk(world: World) -> None:
    del world.database.chunks[_ids(world)[-1]]


def _find_a_chunk_twice(world: World) -> None:
    row, body = world.database.chunks[_ids(world)[3]]
    world.database.chunks[row.id + 10_000] = row._replace(id=row.id + 10_000), body


def _lose_the_row(world: World) -> None:
    del world.database.logs[DAMAGED]


def _spoil_the_producers(world: World) -> None:
    row = world.database.logs[DAMAGED]
    world.database.logs[DAMAGED] = row._replace(snapshot=_spoilt(row.snapshot, 20))


def _spoil_the_producers_batches(world: World) -> None:
    row = world.database.logs[DAMAGED]
    world.database.logs[DAMAGED] = row._replace(producer_batches=_spoilt(row.producer_batches, 20))


def _spoil_aborted_transactions(world: World) -> None:
    chunk_id = _ids(world)[3]
    row, body = world.database.chunks[chunk_id]
    world.database.chunks[chunk_id] = row._replace(aborted=b"no index"), body


DAMAGES: list[tuple[Callable[[World], None], str]] = [
    (_spoil_a_chunk, "checksum"),
    (_lose_a_chunk, "does not follow"),
    (_lose_the_first_chunk, "does not follow"),
    (_lose_the_last_chunk, "chunks end at"),
    (_find_a_chunk_twice, "does not follow"),
    (_lose_the_row, "chunks end at"),
    (_spoil_the_producers, ""),
    (_spoil_the_producers_batches, ""),
    (_spoil_aborted_transactions, "its size"),
]


@pytest.mark.parametrize(("damage", "knows"), DAMAGES, ids=lambda case: getattr(case, "__name__", "").strip("_"))
def test_a_start_over_damaged_rows_serves_all_other_partitions_and_the_next_start_too(
    chunks: World, damage: Callable[[World], None], knows: str
) -> None:
    chunks.fill()
    chunks.checkpoint()
    damage(chunks)
    for _ in range(3):
        chunks.start_again()
        chunks.require_offline(knows=knows)


def test_a_chunk_that_is_gone_since_another_leads_is_no_damage_but_the_end_of_the_lease(chunks: World) -> None:
    """The next leader has replaced it, of which the one before has not heard."""
    chunks.fill()
    chunks.checkpoint()
    chunks.database.epoch += 1
    _lose_a_chunk(chunks)
    with pytest.raises(KafkaError) as refused:
        chunks.read(0)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert chunks.logs[0].offline_error is None
    assert [type(error) for error in chunks.stored.failures] == [Fenced]


@pytest.mark.parametrize("damage", [_spoil_a_chunk, _lose_a_chunk])
def test_a_chunk_that_is_damaged_under_a_broker_takes_its_partition_offline_when_it_is_read(
    chunks: World, damage: Callable[[World], None]
) -> None:
    chunks.fill()
    chunks.checkpoint()
    damage(chunks)
    chunks.require_offline(knows="chunk")


def _spoil_batches(body: bytes, key: LogKey) -> bytes:
    """The last byte of what a round has of a log."""
    sections = [(found, span) for found, span in decode_checked(memoryview(body)) if span is not None]
    at = 0
    for found, span in sections:
        at += len(encode_checked([(found, span)]))
        if found == key:
            return _spoilt(body, at - 1)
    return body


def test_batches_that_are_damaged_in_the_journal_take_their_partition_offline_for_good(journal: World) -> None:
    """Though the next checkpoint trims that row: later starts must not take what is left for all there was."""
    journal.fill()
    epoch, body = journal.database.journal[10]
    journal.database.journal[10] = epoch, _spoil_batches(body, DAMAGED)
    journal.start_again()
    journal.require_offline(knows="round 10")
    journal.checkpoint()
    assert 10 not in journal.database.journal
    for _ in range(2):
        journal.start_again()
        journal.require_offline(knows="round 10")
    note = journal.database.blobs[f"damaged/{TOPIC_ID}-0"]
    kept = [span for _, span in decode_checked(memoryview(note.partition(b"\n")[2])) if span is not None]
    assert [span.first_offset for span in kept] == [offset for offset in journal.written[0] if offset != 9]
    journal.stored.log = journal.logs[0]
    journal.stored.delete_topic()
    assert not journal.database.blobs


@pytest.mark.parametrize("seed", range(4))
def test_no_bit_of_a_round_is_wrong_in_silence(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Either the partition that it belongs to is offline, or, if that cannot be said, nothing starts."""
    random = Random(seed)
    sized = _world(monkeypatch, SharedSizes())
    sized.fill(3)
    size = len(sized.database.journal[2][1])
    for at in random.sample(range(size), 25):
        world = _world(monkeypatch, SharedSizes())
        world.fill(3)
        epoch, body = world.database.journal[2]
        spoilt = bytearray(body)
        spoilt[at] ^= 1 << random.randrange(8)
        world.database.journal[2] = epoch, bytes(spoilt)
        try:
            world.start_again()
        except OSError as error:
            assert "round 2 of the journal is damaged" in str(error)
        else:
            offline = world.stored.manager.offline_of("topic")
            assert len(offline) == 1
            (other,) = {0, 1} - offline
            assert world.read(other) == world.written[other]


@pytest.mark.parametrize("count", [0, 1, 5])
def test_checked_sections_come_back_and_what_is_cut_off_is_not_taken_for_the_end(count: int) -> None:
    sections = [((TOPIC_ID, at), Span(0, at, at, at + 1, bytes([at]) * at * 10)) for at in range(count)]
    body = encode_checked(sections)
    assert list(decode_checked(memoryview(body))) == sections
    whole = {len(encode_checked(sections[:at])) for at in range(count + 1)}
    for end in set(range(len(body))) - whole:
        with pytest.raises(ValueError, match=r"ends|match"):
            list(decode_checked(memoryview(body)[:end]))


def test_a_database_that_does_not_answer_a_fetch_makes_readers_ask_again_and_damages_nothing(chunks: World) -> None:
    chunks.fill()
    chunks.checkpoint()
    tables = chunks.stored.store._cache._fetches._statements._tables  # type: ignore[attr-defined]
    tables.cut_share = 1
    chunks.logs[0].check_readable(0)
    found = chunks.logs[0].read(0, 100, chunks.logs[0].bounds(FetchIsolation.LOG_END))
    assert isinstance(found, Completion)
    while not found.done:
        chunks.stored.clock.time_ms += 10_000
        chunks.stored.settle()
        chunks.stored.scheduler.run_timers()
    assert isinstance(found.error, KafkaError)
    assert found.error.code is ErrorCode.KAFKA_STORAGE_ERROR
    tables.cut_share = 0
    assert chunks.read(0) == chunks.written[0]
