"""Apache Kafka's own log tool finds nothing wrong with our files."""

import os
import subprocess
from pathlib import Path
from uuid import UUID

import pytest

from broker.log.flusher import Flusher
from broker.log.log_config import LogConfig
from broker.log.log_manager import LogManager
from broker.system.disk import RealDisk
from tests.fakes.logs import Listener, batch
from tests.fakes.scheduler import ManualClock, ManualScheduler

pytestmark = pytest.mark.kafka
DATA_LINES = ("baseOffset:", "|", "offset:", "timestamp:", "Dumping", "Log starting offset", "SLF4J", "producerId:")


def write_partition(path: Path) -> Path:
    """Segments with transactions of both outcomes and timestamps in disorder, stopped cleanly."""
    scheduler = ManualScheduler()
    failures: list[OSError] = []
    manager = LogManager(RealDisk(path), ManualClock(), Flusher(scheduler, "fsync", failures.append), Listener())
    config = LogConfig(segment_bytes=3000, index_interval_bytes=300)
    log = manager.open("topic", 0, UUID(int=1), config)
    now_ms = 1_000_000
    for number in range(60):
        now_ms += (7, -20, 50, 3)[number % 4]
        data = batch(2, producer_id=9, base_sequence=number * 2, transactional=True, timestamp=now_ms)
        log.append(data, now_ms=now_ms)
        log.append(batch(1, timestamp=now_ms), now_ms=now_ms)
        if number % 3 == 2:
            log.append_end_txn_marker(
                producer_id=9, producer_epoch=0, committed=number % 2 == 0, coordinator_epoch=0, now_ms=now_ms
            )
        scheduler.run()
    manager.close()
    assert not failures
    return path / "topic-0"


def test_dump_log_segments_reads_every_file_without_a_complaint(tmp_path: Path) -> None:
    """It checks each index entry against the log, and prints what does not fit in lines of its own."""
    directory = write_partition(tmp_path)
    files = sorted(name for name in os.listdir(directory) if name[0] == "0")
    assert len([name for name in files if name.endswith(".log")]) > 2
    command = [
        "java",
        "-cp",
        f"{os.environ['ONCELOG_KAFKA_LIBS']}/*",
        "org.apache.kafka.tools.DumpLogSegments",
        "--print-data-log",
        "--files",
        ",".join(files),
    ]
    dumped = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=60)
    lines = dumped.stdout.splitlines()
    aborted = [line for line in lines if line.startswith("version: 0 producerId: 9")]
    assert len(aborted) == 10
    assert sum(line.startswith("baseOffset:") for line in lines) == 140
    complaints = [line for line in lines if line.strip() and not line.startswith(DATA_LINES) and line not in aborted]
    assert complaints == []
    assert dumped.returncode == 0
