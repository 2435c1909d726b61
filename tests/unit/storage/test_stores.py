"""What every store does for the log over it: the contract of `broker.log.store`, tried against a list of batches."""

from dataclasses import dataclass, field, replace
from random import Random

import pytest

from oncelog.broker.log.partition_log import FetchIsolation
from oncelog.broker.log.store import PLENTY_BYTES
from oncelog.broker.storage.local.log_store import LocalLogStore
from oncelog.protocol.checksum import crc32c
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.records.batch import iter_batches
from oncelog.protocol.records.record import decode_records
from tests.fakes.logs import batch, delete_topic
from tests.simulation.log_model import known
from tests.support.requests.frame_shapes import COMPRESSING, COUNT, RECORDS, batch_of, shapes
from tests.unit.storage.stores import STORES, Stored, named

SEEDS = range(4)
every_store = pytest.mark.parametrize("name", named(STORES))
every_seed = pytest.mark.parametrize("seed", SEEDS)

_BOUNDS = ("log_start_offset", "last_stable_offset", "high_watermark", "log_end_offset")


@dataclass
class Model:
    """The appended batches and transactions, in the words of the contract."""

    ends: list[tuple[int, int]] = field(default_factory=list)
    """(base offset, the offset after it) of each batch."""
    times: list[tuple[int, int]] = field(default_factory=list)
    """(offset, timestamp) of each record of data."""
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    """(producer id, first offset, offset of the marker)."""


def filled(stored: Stored, seed: int, count: int = 60) -> Model:
    """Plain batches and transactions of three producers, some compressed, over several segments."""
    random, model = Random(seed), Model()
    first_offsets: dict[int, int] = {}
    sequences = dict.fromkeys((1, 2, 3), 0)
    for number in range(count):
        producer_id = random.choice((-1, 1, 2, 3))
        records = random.randint(1, 4)
        timestamp = 1_000_000 + random.randint(0, 500)
        if producer_id > 0 and producer_id in first_offsets and random.random() < 0.5:
            committed = random.random() < 0.5
            appended = stored.end(producer_id, committed=committed)
            first = first_offsets.pop(producer_id)
            if not committed:
                model.aborted.append((producer_id, first, appended.base_offset))
        else:
            producer = (
                {"producer_id": producer_id, "base_sequence": sequences[producer_id], "transactional": True}
                if producer_id > 0
                else {}
            )
            data = batch(
                records,
                timestamp=timestamp,
                value=b"%d" % number * random.randint(1, 30),
                compression=random.choice(("none", "gzip")),
                **producer,
            )
            appended = stored.append(data)
            if producer_id > 0:
                first_offsets.setdefault(producer_id, appended.base_offset)
                sequences[producer_id] += records
            model.times += [(appended.base_offset + index, timestamp + index) for index in range(records)]
        model.ends.append((appended.base_offset, appended.last_offset + 1))
        if random.random() < 0.3:
            stored.settle()
    stored.settle()
    return model


@every_store
@every_seed
def test_a_read_gives_the_batches_from_the_one_that_holds_the_offset_in_order(name: str, seed: int) -> None:
    stored = Stored(name, segment_bytes=700)
    model = filled(stored, seed)
    offset, seen = 0, []
    while offset < stored.log.log_end_offset:
        headers = [header for header, _ in iter_batches(stored.read(offset, 500).records)]
        seen += [(header.base_offset, header.next_offset) for header in headers]
        assert headers, f"nothing at {offset}"
        offset = headers[-1].next_offset
    assert seen == model.ends
    for base_offset, next_offset in model.ends:
        for offset in range(base_offset, next_offset):
            header, _ = next(iter_batches(stored.read(offset, 1).records))
            assert (header.base_offset, header.next_offset) == (base_offset, next_offset)


@every_store
@every_seed
def test_a_read_ends_where_its_bounds_say_though_the_log_has_grown_since(name: str, seed: int) -> None:
    stored = Stored(name, segment_bytes=700)
    filled(stored, seed)
    log = stored.log
    for isolation in FetchIsolation:
        bounds, offset = log.bounds(isolation), 0
        stored.append(batch(2))
        stored.settle()
        while offset < bounds.upper_bound:
            result = stored.wait_for(lambda offset=offset, bounds=bounds: stored.look(offset, 2**30, bounds))
            offset = [header for header, _ in iter_batches(result.records)][-1].next_offset
            assert result.high_watermark == bounds.high_watermark
        assert offset == bounds.upper_bound


@every_store
def test_a_batch_larger_than_was_asked_for_comes_whole_if_it_is_the_first_and_else_not_at_all(name: str) -> None:
    stored = Stored(name)
    data = batch(3, value=b"x" * 1000)
    stored.append(data)
    stored.settle()
    bounds = stored.log.bounds(FetchIsolation.LOG_END)
    whole = stored.wait_for(lambda: stored.look(0, 10, bounds, at_least_one=True))
    assert len(whole.records) == len(data)
    nothing = stored.wait_for(lambda: stored.look(0, 10, bounds, at_least_one=False))
    assert len(nothing.records) == 0


@every_store
@every_seed
def test_what_is_counted_is_what_a_read_gives_unless_the_indexes_cannot_say(name: str, seed: int) -> None:
    stored = Stored(name, segment_bytes=700)
    model = filled(stored, seed)
    for base_offset, _ in model.ends:
        for isolation in FetchIsolation:
            counted = stored.log.readable_bytes(base_offset, isolation)
            found = len(stored.read(base_offset, isolation=isolation).records)
            assert counted in (found, PLENTY_BYTES)
            assert (counted == 0) is (found == 0)


@every_store
@every_seed
def test_a_reader_gets_the_aborted_transactions_that_touch_what_it_reads(name: str, seed: int) -> None:
    stored = Stored(name, segment_bytes=700)
    model = filled(stored, seed)
    log = stored.log
    for base_offset, _ in model.ends:
        if base_offset >= log.last_stable_offset:
            continue
        result = stored.read(base_offset, 300, FetchIsolation.TXN_COMMITTED)
        last = [header for header, _ in iter_batches(result.records)]
        end = last[-1].next_offset if last else base_offset
        found = {(entry.producer_id, entry.first_offset) for entry in result.aborted_transactions or ()}
        touching = {(pid, first) for pid, first, marker in model.aborted if first < end and marker >= base_offset}
        assert touching <= found, "a reader would take aborted records for committed ones"
        assert found <= {(pid, first) for pid, first, marker in model.aborted if marker >= base_offset}


@every_store
@every_seed
def test_a_timestamp_finds_the_first_record_that_is_as_late(name: str, seed: int) -> None:
    stored = Stored(name, segment_bytes=700)
    model = filled(stored, seed)
    log = stored.log
    # Without markers, whose time is the clock's: as late as all of them.
    for wanted in range(1_000_000, 1_000_510, 17):
        found = stored.wait_for(lambda wanted=wanted: log.offset_for_timestamp(wanted, FetchIsolation.LOG_END))
        expected = next(((offset, time) for offset, time in model.times if time >= wanted), None)
        if found is not None and found not in model.times:
            assert expected is None or found[0] < expected[0], "a marker came first"
        else:
            assert found == expected
    latest = stored.wait_for(log.offset_of_max_timestamp)
    assert latest is not None
    assert latest[1] == max(time for _, time in model.times)


@every_store
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_records_that_no_reader_can_decode_do_not_take_the_partition_offline(name: str, compression: str) -> None:
    """Nothing is damaged as long as the checksum is right: a client wrote them so."""
    stored = Stored(name)
    stored.append(batch(timestamp=1_000))
    # Beyond what the default check of a batch looks at: its end, and what is compressed.
    spoilt = bytearray(batch(100, timestamp=2_000, compression=compression))
    spoilt[-8:] = b"\xff" * 8
    spoilt[17:21] = crc32c(spoilt[21:]).to_bytes(4, "big")
    stored.append(memoryview(spoilt))
    stored.append(batch(timestamp=3_000))
    stored.settle()
    log = stored.log
    for wanted, offset in ((1_000, 0), (2_099, 1), (3_000, 101)):
        found = stored.wait_for(lambda wanted=wanted: log.offset_for_timestamp(wanted, FetchIsolation.LOG_END))
        assert found is not None
        assert found[0] == offset
    assert stored.wait_for(log.offset_of_max_timestamp) == (101, 3_000)
    assert log.offline_error is None


@every_store
@every_seed
def test_a_replay_gives_every_batch_once_and_byte_for_byte(name: str, seed: int) -> None:
    stored = Stored(name, segment_bytes=700)
    model = filled(stored, seed)
    replayed = stored.replayed()
    assert [(header.base_offset, header.next_offset) for header, _ in replayed] == model.ends
    read = b"".join(bytes(stored.read(base_offset, 1).records) for base_offset, _ in model.ends)
    assert b"".join(data for _, data in replayed) == read
    middle = model.ends[30][0]
    assert [header.base_offset for header, _ in stored.replayed(middle)] == [base for base, _ in model.ends[30:]]


@every_store
def test_what_is_appended_is_acknowledged_once_it_is_committed_and_all_logs_of_a_round_move_together(name: str) -> None:
    stored = Stored(name)
    second = stored.create(1)
    seen: list[int] = []
    stored.append(batch(2))
    second.append(batch(3), wall_ms=stored.clock.wall_ms())
    assert (stored.log.high_watermark, second.high_watermark) == (0, 0)
    stored.log.when_durable(2).then(lambda _: seen.append(second.high_watermark))
    is_at_once = stored.rounds.commits_at_once
    assert seen == ([0] if is_at_once else [])
    stored.settle()
    assert seen == ([0] if is_at_once else [3])
    assert (stored.log.high_watermark, second.high_watermark) == (2, 3)
    assert not stored.rounds.is_busy


@every_store
def test_records_below_a_start_that_moved_are_gone_and_those_above_stay(name: str) -> None:
    stored = Stored(name, segment_bytes=500)
    model = filled(stored, 1)
    before = stored.log.size_bytes
    start = model.ends[40][0]
    moved = stored.manager.delete_records(stored.log, start)
    stored.settle()
    moved.result()
    stored.let_work()
    assert stored.log.log_start_offset == start
    assert stored.log.size_bytes < before
    with pytest.raises(KafkaError) as refused:
        stored.read(start - 1)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert [header.base_offset for header, _ in stored.replayed()] == [base for base, _ in model.ends[40:]]


@every_store
def test_a_log_whose_records_are_all_deleted_keeps_its_end_its_producers_and_its_epochs(name: str) -> None:
    stored = Stored(name, segment_bytes=300)
    stored.log.lead(3)
    for sequence in range(20):
        stored.append(batch(1, producer_id=7, base_sequence=sequence))
    stored.settle()
    epoch_start = stored.log.epochs.latest
    moved = stored.manager.delete_records(stored.log, 20)
    stored.settle()
    moved.result()
    stored.let_work()
    stored.start_again()
    log = stored.log
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (20, 20, 0)
    assert log.epochs.latest == epoch_start, "or an older leader could append under an epoch that was used"
    assert stored.append(batch(1, producer_id=7, base_sequence=19)) == (19, 19, -1, 20, True), "a retry is recognised"
    with pytest.raises(KafkaError) as refused:
        stored.append(batch(1, producer_id=7, base_sequence=25))
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert stored.append(batch(1, producer_id=7, base_sequence=20)).base_offset == 20


@every_store
@pytest.mark.parametrize("is_empty", [False, True])
def test_a_partition_that_is_given_away_and_taken_back_is_as_it_was_committed(name: str, is_empty: bool) -> None:
    stored = Stored(name, segment_bytes=700)
    filled(stored, 5)
    before = stored.log
    if is_empty:
        moved = stored.manager.delete_records(before, before.log_end_offset)
        stored.settle()
        moved.result()
        stored.let_work()
    found = stored.replayed(before.log_start_offset)
    assert bool(found) is not is_empty
    for _ in range(2):
        stored.give_away()
        after = stored.log
        assert after is not before
        assert [getattr(after, bound) for bound in _BOUNDS] == [getattr(before, bound) for bound in _BOUNDS]
        assert after.epochs.entries == before.epochs.entries
        assert known(after.producer_state) == known(before.producer_state)
        assert stored.replayed(after.log_start_offset) == found
        with pytest.raises(KafkaError) as refused_append:
            before.append(batch(1), wall_ms=stored.clock.wall_ms())
        with pytest.raises(KafkaError) as refused_read:
            before.check_readable(0)
        assert refused_append.value.code is refused_read.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        before = after
    assert stored.append(batch(1)).base_offset == before.log_end_offset - 1
    stored.settle()
    stored.start_again()
    assert stored.log.log_end_offset == before.log_end_offset
    assert stored.replayed(stored.log.log_start_offset)[: len(found)] == found


@every_store
def test_an_epoch_that_is_empty_when_a_partition_is_given_away_is_kept_with_its_first_record(name: str) -> None:
    stored = Stored(name)
    stored.give_away()
    for _ in range(3):
        stored.append(batch(1))
        stored.settle()
    stored.let_work()
    stored.start_again()
    assert stored.log.epochs.entries == ((0, 0),)


@every_store
def test_who_waits_for_a_partition_that_is_given_away_looks_for_its_new_leader(name: str) -> None:
    stored = Stored(name)
    stored.append(batch(1))
    durable = stored.log.when_durable(1)
    was_durable = durable.done
    stored.give_away()
    code = durable.error.code if isinstance(durable.error, KafkaError) else None
    assert code is (None if was_durable else ErrorCode.NOT_LEADER_OR_FOLLOWER)


@every_store
def test_retention_by_size_keeps_as_much_as_it_says_and_nothing_if_it_says_nothing(name: str) -> None:
    stored = Stored(name, segment_bytes=500, retention_bytes=1000)
    filled(stored, 1)
    stored.manager.apply_retention(stored.clock.wall_ms())
    stored.settle()
    assert 1000 <= stored.log.size_bytes < 1000 + 600
    stored.log.config = replace(stored.config, retention_bytes=0)
    stored.manager.apply_retention(stored.clock.wall_ms())
    stored.settle()
    assert stored.log.size_bytes == 0


@every_store
def test_compaction_keeps_the_newest_record_of_each_key_where_it_was(name: str) -> None:
    stored = Stored(name, cleanup_policy="compact", segment_bytes=400, min_cleanable_dirty_ratio=0)
    _is_compacted(stored)


@every_store
def test_what_a_start_replays_is_compacted_before_its_segment_is_full(name: str) -> None:
    """A start finds the same records as one that does not wait for the segment to be full."""
    stored = Stored(name, replayed_bytes=1000, cleanup_policy="compact")
    newest = _is_compacted(stored)
    stored.start_again()
    assert _records(stored) == newest
    stored.let_work()
    assert _records(stored) == newest


@pytest.mark.sampled(4)
@every_store
def test_what_a_start_replays_is_left_alone_while_more_is_compacted_already(name: str) -> None:
    """Each byte is written again once or twice, however much there is that is not overtaken."""

    def write(stored: Stored, count: int) -> None:
        for number in range(count):
            stored.append(batch(1, key=b"%d" % number))
            stored.settle()

    def work(stored: Stored) -> None:
        stored.let_work()
        write(stored, 1)  # what was completed is compacted after the next round, in tables after the next checkpoint
        stored.clock.time_ms += 600_000
        stored.let_work()

    stored = Stored(name, replayed_bytes=1000, cleanup_policy="compact")
    write(stored, 100)
    work(stored)
    whole = stored.log.size_bytes
    write(stored, 90)
    work(stored)
    assert stored.log.size_bytes > 1.8 * whole
    write(stored, 20)
    work(stored)
    assert stored.log.size_bytes < 1.3 * whole


@every_store
def test_compaction_reads_all_frames_and_keeps_a_batch_that_cannot_be_decoded(name: str) -> None:
    """It stays byte for byte, is reported once with its offset, and keeps no other batch from being compacted."""
    stored = Stored(name, segment_bytes=2_000)
    sent = [(codec, shape) for shape in ("two frames", "the first of two", "one frame") for codec in COMPRESSING]
    for codec, shape in sent:
        stored.append(memoryview(batch_of(codec, shapes(codec)[shape], stored.clock.wall_ms())))
        stored.settle()
    kept = [
        COUNT * place
        for place, (codec, shape) in enumerate(sent)
        if shape == "the first of two" or (codec, shape) == ("lz4", "two frames")
    ]
    before = {header.base_offset: data for header, data in stored.replayed()}
    stored.log.config = replace(stored.config, cleanup_policy="compact", min_cleanable_dirty_ratio=0)
    for _ in range(3):
        stored.append(batch(1, key=b"new", value=bytes(1_000)))
        stored.settle()
        stored.let_work()
    (line,) = stored.problems
    assert f"keeps 5 batches as they are because their records cannot be read, the first at offset {kept[0]}: " in line
    after = {header.base_offset: data for header, data in stored.replayed()}
    assert [after[offset] for offset in kept] == [before[offset] for offset in kept]
    left = [
        record for offset, data in after.items() if offset not in kept for record in decode_records(memoryview(data))
    ]
    newest = [(COUNT * (len(sent) - 1) + index, each.key) for index, each in enumerate(RECORDS)]
    assert [(record.offset, record.key) for record in left if record.key != b"new"] == newest


def _is_compacted(stored: Stored) -> dict[bytes, tuple[int, bytes]]:
    newest: dict[bytes, tuple[int, bytes]] = {}
    for number in range(60):
        key, value = b"%d" % (number % 7), b"value %d" % number
        appended = stored.append(batch(1, key=key, value=value))
        newest[key] = appended.base_offset, value + b"0"
        stored.settle()
    before = stored.log.size_bytes
    stored.let_work()
    newest[b"last"] = stored.append(batch(1, key=b"last", value=b"")).base_offset, b"0"
    stored.settle()
    stored.let_work()
    assert not stored.problems
    assert stored.log.size_bytes < before
    assert _records(stored) == newest
    assert len(stored.read(0).records) > 0, "a reader from the beginning goes on behind the gaps"
    return newest


def _records(stored: Stored) -> dict[bytes, tuple[int, bytes]]:
    """Offset and value of the last of each key."""
    found: dict[bytes, tuple[int, bytes]] = {}
    for _, data in stored.replayed():
        for record in decode_records(memoryview(data)):
            assert record.key is not None
            found[record.key] = record.offset, record.value or b""
    return found


@every_store
def test_a_topic_that_is_made_again_inherits_nothing(name: str) -> None:
    stored = Stored(name)
    filled(stored, 1)
    waiting = stored.log.when_durable(stored.log.log_end_offset + 1)
    stored.delete_topic()
    if not stored.rounds.commits_at_once:
        assert isinstance(waiting.error, KafkaError)
        assert waiting.error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    stored.log = stored.create(0)
    assert (stored.log.log_start_offset, stored.log.log_end_offset, stored.log.size_bytes) == (0, 0, 0)
    stored.append(batch(1))
    stored.settle()
    assert stored.log.high_watermark == 1
    assert not stored.failures


@every_store
def test_retention_takes_the_newest_segment_too_once_all_of_it_is_due_and_offsets_continue(name: str) -> None:
    stored = Stored(name, retention_ms=1_000)
    stored.append(batch(3, timestamp=stored.clock.wall_ms() - 5_000))
    stored.append(batch(1, timestamp=stored.clock.wall_ms()))
    stored.settle()
    stored.manager.apply_retention(stored.clock.wall_ms())
    stored.settle()
    assert stored.log.log_start_offset == 0, "a record that is not due keeps its segment"
    stored.clock.time_ms += 1_001
    stored.manager.apply_retention(stored.clock.wall_ms())
    stored.settle()
    assert (stored.log.log_start_offset, stored.log.log_end_offset, stored.log.size_bytes) == (4, 4, 0)
    assert stored.append(batch(2)).base_offset == 4
    stored.settle()
    assert [header.base_offset for header, _ in stored.replayed()] == [4]


@every_store
@pytest.mark.parametrize("settings", [{"segment_ms": 1_000}, {"segment_ms": 5_000, "segment_jitter_ms": 4_000}])
def test_a_record_later_than_segment_ms_begins_a_segment(name: str, settings: dict[str, int]) -> None:
    stored = Stored(name, retention_ms=1_000, **settings)
    now_ms = stored.clock.wall_ms()
    stored.append(batch(1, timestamp=now_ms - 10_000))
    stored.append(batch(1, timestamp=now_ms - 9_500))
    stored.append(batch(1, timestamp=now_ms))
    stored.settle()
    stored.manager.apply_retention(now_ms)
    stored.settle()
    assert stored.log.log_start_offset == 2


@pytest.mark.sampled(7)
@every_store
def test_thousands_of_partitions_are_written_between_two_checkpoints_and_deleted_at_once(name: str) -> None:
    """There are more of them than one call of the system takes buffers, or a statement parameters."""
    count = 3_000
    stored = Stored(name)
    logs = [stored.log, *(stored.create(partition) for partition in range(1, count))]
    for log in logs:
        log.append(batch(), wall_ms=stored.clock.wall_ms())
    stored.settle()
    assert [log.high_watermark for log in logs] == [1] * count
    if isinstance(stored.store, LocalLogStore):
        stored.store.file_sync.begin_checkpoint()
        stored.settle()
    stored.start_again()
    assert [stored.create(partition).log_end_offset for partition in (0, 1_023, 1_024, count - 1)] == [1] * 4
    delete_topic(stored.manager, stored.scheduler, "topic", count)
    stored.settle()
    assert not stored.failures
    stored.start_again()
    assert [stored.create(partition).log_end_offset for partition in (0, 1_024, count - 1)] == [0] * 3
