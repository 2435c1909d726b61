"""The check in the background: what recovery took over unread is read after all."""

import pytest

from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.partition_log import FetchIsolation, PartitionLog
from oncelog.broker.storage.local.segment_check import SLICE_BYTES
from oncelog.protocol.errors import ErrorCode, KafkaError
from tests.fakes.logs import Logs, batch, read_records, segments_of

STOPS = {"clean": Logs.stopped_cleanly, "kill": Logs.killed}


def filled(stop: str, count: int = 12) -> tuple[Logs, list[str]]:
    """A log of several segments after a stop, and the paths of the segments."""
    logs = Logs(config=LogConfig(segment_bytes=300, index_interval_bytes=50))
    log = logs.open()
    for _ in range(count):
        logs.append(log, batch(2))
        logs.flush()
    paths = [segment.path(".log") for segment in segments_of(log)]
    assert len(paths) >= 3
    return STOPS[stop](logs), paths


def reading_is_refused(log: PartitionLog, offset: int = 0) -> str:
    with pytest.raises(KafkaError) as refused:
        read_records(log, offset, 10**6, FetchIsolation.HIGH_WATERMARK)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    return refused.value.message


@pytest.mark.parametrize("stop", STOPS)
def test_each_segment_that_was_not_scanned_is_read_and_found_good(stop: str) -> None:
    logs, paths = filled(stop)
    log = logs.open()
    unread = [segment for segment in segments_of(log) if segment.unverified_sum is not None]
    assert len(unread) == len(paths) - (stop == "kill")
    logs.check_segments()
    (summary,) = logs.checks
    assert (summary.segment_count, summary.damaged_count) == (len(unread), 0)
    assert summary.checked_bytes == sum(segment.size_bytes for segment in unread)
    assert all(segment.unverified_sum is None for segment in segments_of(log))
    assert log.offline_error is None


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("position", [0, 13, 20, 61, -1])
def test_any_flipped_byte_takes_the_partition_offline_with_file_and_offsets(stop: str, position: int) -> None:
    """Position 13 is of the leader epoch, which no batch's own checksum covers."""
    logs, paths = filled(stop)
    logs.disk.files[paths[1]].data[position] ^= 4
    log = logs.open()
    assert log.offline_error is None
    logs.check_segments()
    assert logs.damaged == [log.offline_error]
    assert paths[1] in logs.damaged[0]
    segment = segments_of(log)[1]
    first = segment.next_offset - 2 if position == -1 else segment.base_offset
    assert f"offsets {first} to {segment.next_offset - 1} are in doubt" in logs.damaged[0]
    assert reading_is_refused(log) == log.offline_error
    with pytest.raises(KafkaError, match="offline"):
        logs.append(log, batch())


@pytest.mark.parametrize("stop", STOPS)
def test_reader_that_comes_before_the_check_gets_no_flipped_byte_either(stop: str) -> None:
    logs, paths = filled(stop)
    logs.disk.files[paths[1]].data[-1] ^= 4
    log = logs.open()
    assert len(read_records(log, 0, 10**6, FetchIsolation.HIGH_WATERMARK).records) > 0
    assert paths[1] in reading_is_refused(log, segments_of(log)[1].base_offset)
    assert reading_is_refused(log, 0) == log.offline_error


def test_waiting_readers_are_notified_of_damage() -> None:
    logs, paths = filled("clean")
    log = logs.open()
    logs.disk.files[paths[0]].data[-1] ^= 4
    told = len(logs.listener.high_watermarks)
    logs.check_segments()
    logs.scheduler.run()
    assert len(logs.listener.high_watermarks) == told + 1
    assert log.offline_error is not None


def test_damage_in_one_partition_leaves_the_others_to_be_checked() -> None:
    logs = Logs()
    for partition in (0, 1):
        logs.append(logs.open(partition), batch())
    logs.flush()
    logs = logs.stopped_cleanly()
    logs.disk.files["topic-0/00000000000000000000.log"].data[-1] ^= 4
    first, second = logs.open(0), logs.open(1)
    logs.check_segments()
    assert (logs.checks[0].segment_count, logs.checks[0].damaged_count) == (2, 1)
    assert first.offline_error is not None
    assert second.offline_error is None


def test_segment_that_cannot_be_read_is_damage() -> None:
    logs, paths = filled("clean")
    log = logs.open()
    logs.disk.unreadable.add(paths[1])
    logs.check_segments()
    assert "Input/output error" in (log.offline_error or "")


def test_file_that_shrinks_under_the_broker_is_damage() -> None:
    logs, paths = filled("clean")
    log = logs.open()
    del logs.disk.files[paths[1]].data[100:]
    logs.check_segments()
    assert "it ends at position 100" in (log.offline_error or "")


@pytest.mark.parametrize("slices", range(6))
def test_segments_that_are_deleted_meanwhile_are_no_damage(slices: int) -> None:
    logs, _ = filled("clean")
    log = logs.open()
    for _ in range(slices):
        logs.scheduler.run()
        logs.scheduler.run_timers()
    logs.delete_records(log, segments_of(log)[-1].base_offset)
    logs.check_segments()
    assert logs.damaged == []
    logs.delete()
    logs.check_segments()
    assert (logs.damaged, logs.checks[0].damaged_count) == ([], 0)


def test_appends_to_the_last_segment_do_not_disturb_its_check() -> None:
    logs, _ = filled("clean")
    log = logs.open(segment_bytes=10**6)
    for _ in range(3):
        logs.append(log, batch(3))
        logs.flush()
    logs.check_segments()
    assert log.offline_error is None
    assert len(segments_of(log)[-1].read(0, segments_of(log)[-1].size_bytes)) > 300
    logs = logs.stopped_cleanly()
    logs.open()
    logs.check_segments()
    assert logs.damaged == []


def test_large_segment_is_read_in_slices_with_pauses() -> None:
    logs = Logs()
    log = logs.open()
    for _ in range(3):
        logs.append(log, batch(value=bytes(SLICE_BYTES - 1000)))
    logs.flush()
    logs = logs.stopped_cleanly()
    logs.open()
    pauses = 0
    while not logs.checks:
        logs.scheduler.run()
        logs.scheduler.run_timers()
        pauses += 1
    assert pauses >= 4


def test_compacted_segment_is_vouched_for_again() -> None:
    logs = Logs(config=LogConfig(segment_bytes=300, cleanup_policy="compact", min_cleanable_dirty_ratio=0.0))
    log = logs.open()
    for number in range(20):
        logs.append(log, batch(key=b"key%d" % (number % 3)))
        logs.flush()
    assert logs.compact() > 0
    logs = logs.stopped_cleanly()
    log = logs.open()
    assert all(segment.unverified_sum is not None for segment in segments_of(log))
    logs.check_segments()
    assert logs.damaged == []
