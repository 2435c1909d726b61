"""Logs on a machine whose wall clock is set back."""

import pytest

from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.partition_log import FetchIsolation, PartitionLog
from oncelog.protocol.records.batch import encode_batch, iter_batches
from oncelog.protocol.records.record import Record, decode_records
from tests.fakes.logs import Logs, batch, read_records, segments_of

DAY_MS = 86_400_000
START_MS = 1_700_000_000_000


def append(logs: Logs, log: PartitionLog, key: bytes, value: bytes | None) -> None:
    data = encode_batch([Record(0, logs.clock.wall_ms(), key, value)])
    logs.append(log, memoryview(data))
    logs.flush()


def tombstones(log: PartitionLog) -> int:
    data = read_records(log, log.log_start_offset, 2**30, FetchIsolation.LOG_END).records
    records = [record for _, batch in iter_batches(memoryview(data)) for record in decode_records(batch)]
    return sum(record.value is None for record in records)


def test_a_tombstone_whose_horizon_lies_in_the_future_stays_until_then_and_compaction_runs() -> None:
    config = LogConfig(
        cleanup_policy="compact", segment_bytes=100, delete_retention_ms=DAY_MS, min_cleanable_dirty_ratio=0.0
    )
    logs = Logs(config=config, wall_ms=START_MS)
    log = logs.open()
    append(logs, log, b"key", None)

    def compacted() -> int:
        for number in range(3):
            append(logs, log, b"other", b"%d" % number)
        assert logs.compact()
        return tombstones(log)

    assert compacted() == 1  # it has its horizon now
    logs.clock.wall_offset_ms = -30 * DAY_MS
    logs.clock.time_ms += 2 * DAY_MS
    assert compacted() == 1
    logs.clock.wall_offset_ms = 0
    assert compacted() == 0


@pytest.mark.parametrize("jump_ms", [-30 * DAY_MS, 30 * DAY_MS])
def test_a_segment_of_records_without_timestamps_ends_by_its_age_whatever_the_wall_clock_says(jump_ms: int) -> None:
    logs = Logs(wall_ms=START_MS)
    log = logs.open(segment_ms=DAY_MS)
    logs.append(log, batch(timestamp=-1))
    logs.clock.wall_offset_ms = jump_ms
    logs.clock.time_ms += DAY_MS
    logs.append(log, batch(timestamp=-1))
    assert len(segments_of(log)) == 1
    logs.clock.time_ms += 1
    logs.append(log, batch(timestamp=-1))
    assert len(segments_of(log)) == 2


def test_records_from_the_future_are_deleted_by_size_and_by_age_when_their_time_has_come() -> None:
    logs = Logs(wall_ms=START_MS)
    log = logs.open(segment_bytes=100, retention_ms=DAY_MS)
    for _ in range(4):
        logs.append(log, batch(2, timestamp=START_MS))
    logs.flush()
    logs.clock.wall_offset_ms = -30 * DAY_MS
    logs.clock.time_ms += 2 * DAY_MS
    logs.manager.step()
    logs.flush()
    assert log.log_start_offset == 0
    log.config = LogConfig(segment_bytes=100, retention_ms=DAY_MS, retention_bytes=100)
    logs.clock.time_ms += 300_000
    logs.manager.step()
    logs.flush()
    assert log.log_start_offset == 4
    log.config = LogConfig(segment_bytes=100, retention_ms=DAY_MS)
    logs.clock.time_ms += 29 * DAY_MS
    logs.manager.step()
    logs.flush()
    assert log.log_start_offset == 8
