"""Many segments: how long a start takes, and how many files are open."""

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.log_manager import LogManager
from oncelog.broker.system.clock import SystemClock
from oncelog.broker.system.disk import RealDisk
from oncelog.broker.turns.slices import at_once
from tests.fakes.logs import TOPIC_ID, batch, files_of, local_logs, segments_of
from tests.fakes.scheduler import ManualScheduler
from tests.support.patience import PATIENCE_S

ROOT = Path(__file__).parent.parent.parent.parent
LIMIT_S = 10
PARTITIONS, SEGMENTS_EACH, OPEN_FILES = 1_000, 10, 1_024


def start(path: Path) -> tuple[LogManager, ManualScheduler]:
    scheduler = ManualScheduler()
    manager = local_logs(RealDisk(path), SystemClock(), scheduler, lambda error: sys.exit(str(error)), policy="os")
    return manager, scheduler


@pytest.mark.slow
def test_gigabyte_in_ten_thousand_segments_is_read_again_within_ten_seconds_of_a_processor(tmp_path: Path) -> None:
    """After a kill, with the manifest gone, so that every batch is read; then with all that was left in place."""
    manager, scheduler = start(tmp_path)
    config = LogConfig(segment_bytes=107_000)
    log = at_once(manager.open("topic", 0, TOPIC_ID, config))
    data = batch(value=os.urandom(16_384 - 75))
    for number in range(65_536):
        log.append(data, wall_ms=1_000_000)
        if number % 100 == 0:
            scheduler.run()
    scheduler.run()
    assert len(segments_of(log)) > 10_000
    for damage in ("segment-manifest", None):
        files_of(log).close()
        if damage is not None:
            (tmp_path / "topic-0" / damage).unlink()
        started_s = time.process_time()  # whatever else the machine does
        log = at_once(start(tmp_path)[0].open("topic", 0, TOPIC_ID, config))
        duration_s = time.process_time() - started_s
        what = f"{log.size_bytes:,} bytes in {len(segments_of(log)):,} segments"
        print(f"{damage or 'nothing'} lost: {what}: {duration_s:.1f} s")
        assert (log.log_end_offset, log.offline_error) == (65_536, None)
        assert duration_s < LIMIT_S


def fill_and_restart(path: Path) -> None:
    """Run in a process of its own, whose limit it reaches for if it keeps files open."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))
    config = LogConfig(segment_bytes=100)
    manager, scheduler = start(path)
    for _ in range(SEGMENTS_EACH):
        for partition in range(PARTITIONS):
            at_once(manager.open("topic", partition, TOPIC_ID, config)).append(batch(), wall_ms=1_000_000)
        scheduler.run()
    for log in manager.logs:
        files_of(log).close()
    manager, scheduler = start(path)
    logs = [at_once(manager.open("topic", partition, TOPIC_ID, config)) for partition in range(PARTITIONS)]
    if sum(len(segments_of(log)) for log in logs) < PARTITIONS * SEGMENTS_EACH:
        raise AssertionError("there are too few segments for this to tell anything")
    for log in logs:
        if len(list(log.batches())) != SEGMENTS_EACH:
            raise AssertionError(f"{log.name} has lost something: {log.offline_error}")
    problem = manager.close()
    if problem is not None:
        raise problem


@pytest.mark.slow
def test_thousand_partitions_with_ten_thousand_segments_stay_within_1024_open_files(tmp_path: Path) -> None:
    code = (
        f"from pathlib import Path; from {__name__} import fill_and_restart; fill_and_restart(Path({str(tmp_path)!r}))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert ended.returncode == 0, ended.stderr
