"""What age and size remove: whole segments from the start, never what is not durable."""

from broker.log.log_config import LogConfig
from broker.log.partition_log import PartitionLog
from tests.fakes.logs import Logs, batch


def filled(**settings: int | str) -> tuple[Logs, PartitionLog]:
    logs = Logs()
    log = logs.open(segment_bytes=100, **settings)  # type: ignore[arg-type]
    for number in range(5):
        logs.append(log, batch(2, timestamp=1000 * (number + 1)))
    logs.flush()
    return logs, log


def test_age_removes_segments_whose_newest_record_is_too_old() -> None:
    logs, log = filled(retention_ms=10_000)
    logs.manager.apply_retention(13_001)
    assert log.log_start_offset == 4  # 1001 and 2001 are older than 3001; 3001 is just young enough
    logs.manager.apply_retention(10**9)
    assert log.log_start_offset == 8, "the active segment stays"
    assert [path for path in logs.disk.files if path.endswith(".log")] == ["topic-0/00000000000000000008.log"]
    again = logs.killed().open()
    assert (again.log_start_offset, again.log_end_offset, again.offline_error) == (8, 10, None)


def test_size_removes_segments_as_long_as_enough_is_left() -> None:
    size = len(batch(2))
    logs, log = filled(retention_ms=-1, retention_bytes=size * 2 + 1)
    logs.manager.apply_retention(10**9)
    assert log.log_start_offset == 4
    logs, log = filled(retention_ms=-1, retention_bytes=size * 2)
    logs.manager.apply_retention(10**9)
    assert log.log_start_offset == 6


def test_compacted_topic_keeps_everything() -> None:
    logs, log = filled(retention_ms=1)
    log.config = LogConfig(cleanup_policy="compact", retention_ms=1)
    logs.manager.apply_retention(10**9)
    assert log.log_start_offset == 0


def test_what_is_not_durable_stays() -> None:
    logs = Logs()
    log = logs.open(segment_bytes=100, retention_ms=1)
    for _ in range(4):
        logs.append(log, batch(2, timestamp=1))
    logs.manager.apply_retention(10**9)
    assert log.log_start_offset == 0
    logs.flush()
    logs.manager.apply_retention(10**9)
    assert log.log_start_offset == 6


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
    logs.manager.apply_retention(10**9)
    assert log.log_start_offset == 8
    assert "topic-0/00000000000000000000.log" in logs.disk.files
    logs.scheduler.threads_run_at_once = True
    logs.scheduler.run()
    logs.manager.apply_retention(10**9)
    assert not logs.failures
    assert [path for path in sorted(logs.disk.files) if path.endswith(".log")] == ["topic-0/00000000000000000010.log"]


def test_step_checks_only_when_the_interval_has_passed() -> None:
    logs, log = filled(retention_ms=1)
    logs.manager.step(0)
    assert log.log_start_offset == 0
    logs.manager.step(299_999)
    assert log.log_start_offset == 0
    logs.manager.step(300_000)
    assert log.log_start_offset == 8
