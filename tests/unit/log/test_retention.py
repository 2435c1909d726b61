"""What age and size remove: whole segments from the start, never what is not durable."""

import errno

import pytest

from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.storage.local.flushed_offsets import FlushedOffsets
from oncelog.broker.storage.producer_snapshot import encode_snapshot
from tests.fakes.logs import Logs, batch


def filled(policy: str = "fsync", **settings: int | str) -> tuple[Logs, PartitionLog]:
    logs = Logs(policy=policy)
    log = logs.open(segment_bytes=100, **settings)  # type: ignore[arg-type]
    for number in range(5):
        logs.append(log, batch(2, timestamp=1000 * (number + 1)))
    logs.flush()
    return logs, log


def log_files(logs: Logs) -> list[str]:
    return [path for path in sorted(logs.disk.files) if path.endswith(".log")]


@pytest.mark.parametrize("policy", ["fsync", "os", "memory"])
def test_age_removes_segments_whose_newest_record_is_too_old(policy: str) -> None:
    logs, log = filled(policy, retention_ms=10_000)
    logs.apply_retention(13_001)
    assert log.log_start_offset == 4  # 1001 and 2001 are older than 3001; 3001 is just young enough
    logs.apply_retention(10**9)
    assert log.log_start_offset == 10, "the active segment too"
    assert log_files(logs) == ["topic-0/00000000000000000010.log"]
    again = logs.killed().open()
    assert (again.log_start_offset, again.log_end_offset, again.offline_error) == (10, 10, None)


def test_size_removes_segments_as_long_as_enough_is_left() -> None:
    size = len(batch(2))
    logs, log = filled(retention_ms=-1, retention_bytes=size * 2 + 1)
    logs.apply_retention(10**9)
    assert log.log_start_offset == 4
    logs, log = filled(retention_ms=-1, retention_bytes=size * 2)
    logs.apply_retention(10**9)
    assert log.log_start_offset == 6


def test_compacted_topic_keeps_everything() -> None:
    logs, log = filled(retention_ms=1)
    log.config = LogConfig(cleanup_policy="compact", retention_ms=1)
    logs.apply_retention(10**9)
    assert log.log_start_offset == 0


def test_what_is_not_durable_stays() -> None:
    logs = Logs()
    log = logs.open(segment_bytes=100, retention_ms=1)
    for _ in range(4):
        logs.append(log, batch(2, timestamp=1))
    logs.apply_retention(10**9)
    assert log.log_start_offset == 0
    logs.flush()
    logs.append(log, batch(2, timestamp=1))
    logs.apply_retention(10**9)
    assert log.log_start_offset == 8
    logs.apply_retention(10**9)
    assert log.log_start_offset == 10


def test_files_in_use_by_a_flush_are_deleted_after_it() -> None:
    logs = Logs()
    log = logs.open(segment_bytes=100, retention_ms=1)
    for _ in range(4):
        logs.append(log, batch(2, timestamp=1))
    logs.flush()
    logs.append(log, batch(2, timestamp=1))
    logs.append(log, batch(2, timestamp=1))
    logs.scheduler.threads_run_at_once = False
    logs.scheduler.run()
    logs.apply_retention(10**9)
    assert "topic-0/00000000000000000000.log" in logs.disk.files
    logs.scheduler.run_thread()
    assert "topic-0/00000000000000000000.log" in logs.disk.files
    logs.scheduler.threads_run_at_once = True
    logs.scheduler.run()
    assert log.log_start_offset == 8
    logs.apply_retention(10**9)
    assert not logs.failures
    assert log_files(logs) == ["topic-0/00000000000000000012.log"]


def test_step_checks_only_when_the_interval_has_passed() -> None:
    logs, log = filled(retention_ms=1_000_000)
    logs.manager.step()
    assert log.log_start_offset == 0
    logs.clock.wall_offset_ms += 10**9
    logs.clock.time_ms += 299_999
    logs.manager.step()
    assert log.log_start_offset == 0
    logs.clock.time_ms += 1
    logs.manager.step()
    logs.flush()
    assert log.log_start_offset == 10


def test_full_disk_still_lets_retention_make_room() -> None:
    """The indexes of what is to go give the room that the journal needs first."""
    logs, log = filled(retention_ms=1)
    logs.append(log, batch(2, timestamp=6000))
    logs.flush()
    logs.disk.capacity_bytes = logs.disk.used_bytes + 40
    logs.apply_retention(10**9)
    assert log_files(logs) == ["topic-0/00000000000000000012.log"]
    assert logs.killed().open().log_start_offset == 12


def test_retention_that_cannot_be_recorded_is_put_off_and_then_done() -> None:
    logs, _log = filled(retention_ms=1)
    logs.disk.append_error = lambda path: OSError(errno.ENOSPC, "No space left on device", path)
    logs.apply_retention(10**9)
    assert not logs.failures
    assert len(log_files(logs)) == 5
    assert logs.killed().open().offline_error is None
    logs.disk.append_error = None
    logs.apply_retention(10**9)
    assert len(log_files(logs)) == 1


def test_files_below_the_log_start_that_a_stop_left_behind_go_at_the_next_start() -> None:
    logs, log = filled()
    logs.scheduler.threads_run_at_once = False
    moved = logs.manager.delete_records(log, 5)
    logs.scheduler.run_thread()
    logs.scheduler.run()
    assert moved.done
    assert log.log_start_offset == 5
    assert log_files(logs)[0] == "topic-0/00000000000000000000.log"
    logs = logs.killed()
    assert logs.open().log_start_offset == 5
    assert log_files(logs)[0] == "topic-0/00000000000000000004.log"


@pytest.mark.parametrize("stop", ["killed", "stopped_cleanly"])
def test_the_only_segment_of_a_log_is_deleted_on_a_full_disk_and_its_producers_are_remembered(stop: str) -> None:
    """The journal gives the room for what has to be written first."""
    logs = Logs()
    log = logs.open(retention_ms=1)
    for sequence in range(3):
        logs.append(log, batch(timestamp=1, producer_id=7, base_sequence=sequence))
        logs.flush()
    logs.disk.capacity_bytes = logs.disk.used_bytes
    logs.apply_retention(10**9)
    assert not logs.failures
    assert log_files(logs) == ["topic-0/00000000000000000003.log"]
    assert log.size_bytes == 0
    logs.disk.capacity_bytes = None
    known = encode_snapshot(log.producer_state)
    logs = getattr(logs, stop)()
    log = logs.open()
    assert (log.log_start_offset, log.log_end_offset, log.offline_error) == (3, 3, None)
    assert encode_snapshot(log.producer_state) == known
    assert logs.append(log, batch(timestamp=1, producer_id=7, base_sequence=2)).duplicate
    assert logs.append(log, batch(timestamp=1, producer_id=7, base_sequence=3)).base_offset == 3


def test_what_comes_while_a_start_moves_is_not_in_a_segment_with_what_goes() -> None:
    logs = Logs()
    log = logs.open(retention_bytes=0)
    logs.append(log, batch())
    logs.flush()
    logs.scheduler.threads_run_at_once = False
    logs.manager.apply_retention(logs.clock.wall_ms())
    logs.append(log, batch())
    logs.scheduler.threads_run_at_once = True
    logs.flush()
    assert (log.log_start_offset, log.log_end_offset) == (1, 2)
    assert log_files(logs) == ["topic-0/00000000000000000001.log"]


def test_records_that_deletion_left_behind_on_a_full_disk_go_at_a_later_look() -> None:
    logs = Logs(policy="os")  # without a journal that could give room
    log = logs.open()
    logs.append(log, batch())
    logs.flush()
    logs.disk.append_error = lambda path: OSError(errno.ENOSPC, "No space left", path) if "snapshot" in path else None
    logs.delete_records(log, 1)
    assert (log.log_start_offset, log_files(logs)) == (1, ["topic-0/00000000000000000000.log"])
    logs.disk.append_error = None
    logs.apply_retention(logs.clock.wall_ms())
    assert log_files(logs) == ["topic-0/00000000000000000001.log"]
    assert not logs.failures


@pytest.mark.interpreted
def test_a_disk_that_fails_while_retention_moves_a_start_ends_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    logs, log = filled(retention_ms=10_000)
    error = OSError(errno.EIO, "Input/output error")

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(FlushedOffsets, "move_starts", fail)
    logs.apply_retention(10**9)
    assert logs.failures == [error]
    assert log.log_start_offset == 0, "nothing is shown that is not durable"
