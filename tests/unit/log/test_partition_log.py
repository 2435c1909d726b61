"""Appending to, reading from and ending one partition's log."""

import errno

import pytest
from crc32c import crc32c

from oncelog.broker.log.partition_log import AppendOrigin, FetchIsolation
from oncelog.broker.storage.producer_snapshot import encode_snapshot
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.records.batch import check_crc, iter_batches, read_header
from tests.fakes.logs import Logs, batch, read_records, segments_of


def test_no_file_is_made_before_the_first_append() -> None:
    logs = Logs()
    before = set(logs.disk.files)
    log = logs.open()
    assert not logs.disk.exists("topic-0")
    assert len(read_records(log, 0, 100, FetchIsolation.LOG_END).records) == 0
    assert set(logs.disk.files) == before
    logs.append(log, batch())
    assert logs.disk.exists("topic-0")


def test_batch_is_stamped_outside_of_its_checksum_and_otherwise_untouched() -> None:
    logs = Logs()
    log = logs.open()
    log.lead(3)
    logs.append(log, batch(2))
    sent = batch(5)
    assert logs.append(log, sent).last_offset == 6
    ((header, stored),) = list(log.batches(2))
    assert (header.base_offset, header.partition_leader_epoch) == (2, 3)
    assert stored[16:] == sent[16:]
    assert check_crc(stored)


def test_log_append_time_is_ours_and_below_the_checksum() -> None:
    logs = Logs()
    log = logs.open(message_timestamp_type="LogAppendTime")
    logs.clock.time_ms = 5_000_000
    appended = logs.append(log, batch(3, timestamp=7, producer_id=1, base_sequence=0))
    assert appended.log_append_time_ms == 5_000_000
    ((header, stored),) = list(log.batches())
    assert header.max_timestamp == 5_000_000
    assert header.attributes & 0x08
    assert crc32c(bytes(stored[21:])) == header.crc
    logs.clock.time_ms += 1
    retried = logs.append(log, batch(3, timestamp=7, producer_id=1, base_sequence=0))
    assert retried.duplicate
    assert retried.log_append_time_ms == 5_000_000


def test_control_batch_is_refused_from_every_client() -> None:
    logs = Logs()
    log = logs.open()
    logs.end_transaction(log, 1, committed=True)
    ((_, marker),) = list(log.batches())
    for origin in AppendOrigin:
        with pytest.raises(KafkaError) as refused:
            logs.append(log, memoryview(bytes(8) + bytes(marker[8:])), origin)
        assert refused.value.code is ErrorCode.INVALID_RECORD


def test_coordinator_batch_of_a_transaction_has_no_sequence_and_opens_it() -> None:
    logs = Logs()
    log = logs.open()
    data = batch(1, producer_id=4, producer_epoch=2, base_sequence=-1, transactional=True)
    logs.append(log, data, AppendOrigin.COORDINATOR)
    logs.append(log, data, AppendOrigin.COORDINATOR)
    logs.flush()
    assert log.has_open_transaction(4, 2)
    assert (log.last_stable_offset, log.high_watermark) == (0, 2)
    stale = batch(1, producer_id=4, producer_epoch=1, base_sequence=-1, transactional=True)
    with pytest.raises(KafkaError) as refused:
        logs.append(log, stale, AppendOrigin.COORDINATOR)
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_high_watermark_and_stable_offset_move_with_the_flush_and_wake_waiters_in_offset_order() -> None:
    logs = Logs()
    log = logs.open()
    logs.append(log, batch(2))
    logs.append(log, batch(2))
    heard: list[int] = []
    for next_offset in (4, 1, 3):
        log.when_durable(next_offset).then(lambda _, offset=next_offset: heard.append(offset))  # type: ignore[misc]
    assert (log.log_end_offset, log.high_watermark, log.last_stable_offset, heard) == (4, 0, 0, [])
    logs.flush()
    assert (log.high_watermark, log.last_stable_offset, heard) == (4, 4, [1, 3, 4])
    assert log.when_durable(4).done
    assert logs.listener.high_watermarks == [("topic-0", 4)]


def test_ended_transaction_holds_the_stable_offset_until_its_marker_is_durable() -> None:
    logs = Logs()
    log = logs.open()
    logs.append(log, batch(1, producer_id=1, base_sequence=0, transactional=True))
    logs.append(log, batch(1, producer_id=2, base_sequence=0, transactional=True))
    logs.append(log, batch())
    logs.flush()
    assert (log.last_stable_offset, log.high_watermark) == (0, 3)
    logs.end_transaction(log, 1, committed=True)
    assert log.last_stable_offset == 0
    logs.flush()
    assert log.last_stable_offset == 1
    logs.end_transaction(log, 2, committed=False)
    logs.flush()
    assert log.last_stable_offset == log.high_watermark == 5


def test_round_that_does_not_cover_a_marker_does_not_free_its_transaction() -> None:
    logs = Logs()
    log = logs.open()
    logs.append(log, batch(1, producer_id=1, base_sequence=0, transactional=True))
    logs.append(log, batch())
    logs.scheduler.threads_run_at_once = False
    logs.scheduler.run()
    logs.end_transaction(log, 1, committed=True)
    logs.scheduler.run_thread()
    logs.scheduler.queue.pop(0)()  # the round ends; the marker waits for the next
    assert (log.high_watermark, log.last_stable_offset) == (2, 0)
    logs.scheduler.run()
    assert (log.high_watermark, log.last_stable_offset) == (3, 3)


def test_offset_outside_of_the_log_is_refused_and_its_end_is_empty() -> None:
    logs = Logs()
    log = logs.open()
    logs.append(log, batch(3))
    for offset in (-1, 4):
        with pytest.raises(KafkaError) as refused:
            read_records(log, offset, 100, FetchIsolation.LOG_END)
        assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert len(read_records(log, 3, 100, FetchIsolation.LOG_END).records) == 0
    assert len(read_records(log, 0, 100, FetchIsolation.HIGH_WATERMARK).records) == 0


def test_read_begins_with_the_batch_that_holds_the_offset_and_gives_it_whole() -> None:
    logs = Logs()
    log = logs.open()
    sizes = [len(batch(count)) for count in (4, 3, 2)]
    for count in (4, 3, 2):
        logs.append(log, batch(count))
    logs.flush()
    records = read_records(log, 5, 1, FetchIsolation.HIGH_WATERMARK).records
    assert len(records) == sizes[1]
    assert read_header(records).base_offset == 4
    assert len(read_records(log, 5, 1, FetchIsolation.HIGH_WATERMARK, at_least_one=False).records) == 0
    assert len(read_records(log, 0, 10**6, FetchIsolation.HIGH_WATERMARK).records) == sum(sizes)
    for limit, whole in ((sizes[0] + 5, sizes[0]), (sum(sizes[:2]), sum(sizes[:2])), (sum(sizes) - 1, sum(sizes[:2]))):
        assert len(read_records(log, 0, limit, FetchIsolation.HIGH_WATERMARK).records) == whole


@pytest.mark.parametrize("isolation", list(FetchIsolation))
def test_no_read_passes_the_bound_of_its_isolation(isolation: FetchIsolation) -> None:
    logs = Logs()
    log = logs.open(index_interval_bytes=1)
    logs.append(log, batch(2))
    logs.append(log, batch(2, producer_id=1, base_sequence=0, transactional=True))
    logs.flush()
    logs.append(log, batch(2))
    bound = log.upper_bound(isolation)
    assert bound == {"LOG_END": 6, "HIGH_WATERMARK": 4, "TXN_COMMITTED": 2}[isolation.name]
    for offset in range(bound):
        headers = [header for header, _ in iter_batches(read_records(log, offset, 10**6, isolation).records)]
        assert headers[-1].base_offset + headers[-1].last_offset_delta + 1 == bound


def test_aborted_transactions_are_listed_only_for_read_committed() -> None:
    logs = Logs()
    log = logs.open()
    logs.append(log, batch(1, producer_id=1, base_sequence=0, transactional=True))
    logs.end_transaction(log, 1, committed=False)
    logs.flush()
    told = read_records(log, 0, 10**6, FetchIsolation.TXN_COMMITTED).aborted_transactions
    assert told is not None
    assert [(entry.producer_id, entry.first_offset) for entry in told] == [(1, 0)]
    assert read_records(log, 0, 10**6, FetchIsolation.HIGH_WATERMARK).aborted_transactions is None


def test_roll_by_size_completes_the_segment_with_indexes_and_snapshot() -> None:
    logs = Logs()
    log = logs.open(segment_bytes=300)
    for sequence in range(20):
        logs.append(log, batch(1, producer_id=1, base_sequence=sequence))
    logs.flush()
    bases = [segment.base_offset for segment in segments_of(log)]
    assert len(bases) > 2
    for base in bases[:-1]:
        for suffix in (".log", ".index", ".timeindex"):
            assert f"topic-0/{base:020d}{suffix}" in logs.disk.files
        assert f"topic-0/{base:020d}.txnindex" not in logs.disk.files, "as in Kafka: nothing was aborted"
    for base in bases[1:]:
        assert f"topic-0/{base:020d}.snapshot" in logs.disk.files
    unsynced = [path for path, inode in logs.disk.files.items() if inode.synced != bytes(inode.data)]
    assert unsynced in ([], ["flushed-offsets"])


def test_roll_by_time_follows_the_timestamps() -> None:
    logs = Logs()
    log = logs.open(segment_ms=1000)
    for timestamp in (500_000, 500_900, 501_001, 501_500):
        logs.append(log, batch(timestamp=timestamp))
    assert [segment.base_offset for segment in segments_of(log)] == [0, 2]


def test_look_up_by_timestamp_finds_the_first_record_and_stays_below_the_bound() -> None:
    logs = Logs()
    log = logs.open(segment_bytes=400, index_interval_bytes=100)
    for number in range(20):
        logs.append(log, batch(2, timestamp=1000 + number * 10))  # records at +0 and +1
    logs.flush()
    for number in range(20):
        assert log.offset_for_timestamp(1000 + number * 10, FetchIsolation.HIGH_WATERMARK) == (
            number * 2,
            1000 + number * 10,
        )
        assert log.offset_for_timestamp(1001 + number * 10, FetchIsolation.HIGH_WATERMARK) == (
            number * 2 + 1,
            1001 + number * 10,
        )
    assert log.offset_for_timestamp(0, FetchIsolation.HIGH_WATERMARK) == (0, 1000)
    assert log.offset_for_timestamp(1192, FetchIsolation.HIGH_WATERMARK) is None
    assert log.offset_of_max_timestamp() == (39, 1191)
    logs.append(log, batch(1, timestamp=9000))
    assert log.offset_for_timestamp(9000, FetchIsolation.HIGH_WATERMARK) is None
    assert log.offset_for_timestamp(9000, FetchIsolation.LOG_END) == (40, 9000)


def test_look_up_by_timestamp_among_times_in_disorder() -> None:
    logs = Logs()
    log = logs.open(index_interval_bytes=1)
    times = [50, 10, 70, 20, 70, 90, 30]
    for time in times:
        logs.append(log, batch(timestamp=time))
    for wanted in range(0, 95, 5):
        expected = next(((offset, time) for offset, time in enumerate(times) if time >= wanted), None)
        assert log.offset_for_timestamp(wanted, FetchIsolation.LOG_END) == expected


def test_full_disk_refuses_the_append_changes_nothing_and_is_over_once_there_is_room() -> None:
    logs = Logs()
    log = logs.open(segment_bytes=300)
    logs.append(log, batch(1, producer_id=1, base_sequence=0))
    logs.flush()
    state = encode_snapshot(log.producer_state)
    for used in range(0, 400, 7):
        logs.disk.capacity_bytes = logs.disk.used_bytes + used
        for sequence in (1, 2):  # until it is full, across a roll
            try:
                logs.append(log, batch(1, producer_id=1, base_sequence=sequence))
            except KafkaError as error:
                assert error.code is ErrorCode.KAFKA_STORAGE_ERROR
                break
        logs.disk.capacity_bytes = None
        assert len(read_records(log, 0, 10**6, FetchIsolation.LOG_END).records) > 0
        before = log.log_end_offset
        next_sequence = log.producer_state.producer(1).last_sequence + 1  # type: ignore[union-attr]
        assert logs.append(log, batch(1, producer_id=1, base_sequence=next_sequence)).base_offset == before
        logs.flush()
        logs = logs.killed()
        log = logs.open(segment_bytes=300)
        assert log.log_end_offset == before + 1
        logs.delete()
        logs.flush()
        log = logs.open(segment_bytes=300)
        logs.append(log, batch(1, producer_id=1, base_sequence=0))
        assert encode_snapshot(log.producer_state) == state
    assert not logs.failures


def test_failed_write_stops_the_broker() -> None:
    logs = Logs()
    log = logs.open()
    logs.append(log, batch())
    logs.flush()
    logs.disk.append_error = lambda path: OSError(errno.EIO, "Input/output error", path)
    for _ in range(2):
        with pytest.raises(KafkaError) as refused:
            logs.append(log, batch())
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert [error.errno for error in logs.failures] == [errno.EIO]
    assert len(read_records(log, 0, 100, FetchIsolation.HIGH_WATERMARK).records) > 0


def test_deleted_partition_answers_its_waiters_and_its_name_is_free() -> None:
    logs = Logs()
    log = logs.open()
    logs.append(log, batch(3))
    waiting = log.when_durable(3)
    logs.delete()
    assert isinstance(waiting.error, KafkaError)
    assert waiting.error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    logs.flush()
    assert not logs.failures
    assert logs.open().log_end_offset == 0
    with pytest.raises(KafkaError):
        log.append(batch(), wall_ms=1)
    assert [path for path in logs.disk.files if path.startswith("topic")] == []


def test_delete_during_a_flush_does_not_fail_the_disk() -> None:
    logs = Logs()
    first, second = logs.open(0), logs.open(1)
    for log in (first, second, first):
        logs.append(log, batch())
    logs.scheduler.threads_run_at_once = False
    logs.scheduler.run()
    logs.delete()
    logs.scheduler.threads_run_at_once = True
    logs.scheduler.run()
    assert not logs.failures
    assert second.high_watermark == 1


def test_log_start_moves_up_deletes_whole_segments_and_survives_a_kill() -> None:
    logs = Logs()
    log = logs.open(segment_bytes=200)
    for _ in range(6):
        logs.append(log, batch(2))
    logs.flush()
    logs.delete_records(log, 5)
    assert log.log_start_offset == 5
    assert segments_of(log)[0].base_offset == 4
    with pytest.raises(KafkaError) as refused:
        read_records(log, 4, 100, FetchIsolation.LOG_END)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    with pytest.raises(KafkaError):
        log.advance_log_start(13)
    again = logs.killed().open(segment_bytes=200)
    assert (again.log_start_offset, again.log_end_offset) == (5, 12)


def test_log_start_above_an_open_transaction_carries_the_stable_offset_along() -> None:
    logs = Logs()
    log = logs.open()
    logs.append(log, batch(4, producer_id=1, base_sequence=0, transactional=True))
    logs.append(log, batch(4))
    logs.flush()
    log.advance_log_start(4)
    assert log.last_stable_offset == 4
    assert logs.listener.log_start_offsets == [("topic-0", 4)]


def test_memory_and_os_policies_count_an_append_as_durable_and_it_is_visible_after_its_turn() -> None:
    for policy in ("memory", "os"):
        logs = Logs(policy=policy)
        log = logs.open()
        logs.serve()
        before = logs.disk.sync_count
        appended = logs.append(log, batch())
        waiting = log.when_durable(appended.last_offset + 1)
        assert waiting.done
        assert log.high_watermark == 0
        logs.scheduler.threads_run_at_once = False
        logs.flush()
        assert log.high_watermark == 1
        logs.append(log, batch())
        log.start_round()
        assert log.high_watermark == 2, "for a reader of the same turn"
        assert logs.disk.sync_count == before


@pytest.mark.parametrize(("step_ms", "base_offsets"), [(1, [0, 3, 6]), (0, [0, 6])])
def test_roll_when_the_index_of_offsets_or_of_times_is_full(step_ms: int, base_offsets: list[int]) -> None:
    """The index of times has larger entries, and grows with later timestamps alone."""
    logs = Logs()
    log = logs.open(index_interval_bytes=0, segment_index_bytes=36)
    for number in range(7):
        logs.append(log, batch(timestamp=1_000_000 + number * step_ms))
    assert [segment.base_offset for segment in segments_of(log)] == base_offsets
