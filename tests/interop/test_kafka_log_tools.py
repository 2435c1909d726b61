"""Apache Kafka's own log tool finds nothing wrong with our files."""

import os
import subprocess
from pathlib import Path
from uuid import UUID

import pytest

from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.values import EndMarker
from oncelog.broker.storage.compaction.cleaner import CompactionSettings
from oncelog.broker.storage.local.log_store import LocalLogStore
from oncelog.broker.system.disk import RealDisk
from oncelog.broker.turns.slices import at_once
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.record import Record
from tests.fakes.logs import batch, local_logs
from tests.fakes.scheduler import ManualClock, ManualScheduler
from tests.support.patience import PATIENCE_S

pytestmark = pytest.mark.kafka
DATA_LINES = ("baseOffset:", "|", "offset:", "timestamp:", "Dumping", "Log starting offset", "SLF4J", "producerId:")


def write_partition(path: Path) -> Path:
    """Segments with transactions of both outcomes and timestamps in disorder, stopped cleanly."""
    scheduler = ManualScheduler()
    failures: list[OSError] = []
    manager = local_logs(RealDisk(path), ManualClock(), scheduler, failures.append)
    config = LogConfig(segment_bytes=3000, index_interval_bytes=300)
    log = at_once(manager.open("topic", 0, UUID(int=1), config))
    wall_ms = 1_000_000
    for number in range(60):
        wall_ms += (7, -20, 50, 3)[number % 4]
        data = batch(2, producer_id=9, base_sequence=number * 2, transactional=True, timestamp=wall_ms)
        log.append(data, wall_ms=wall_ms)
        log.append(batch(1, timestamp=wall_ms), wall_ms=wall_ms)
        if number % 3 == 2:
            log.append_end_txn_marker(EndMarker(9, 0, number % 2 == 0, 0), wall_ms)
        scheduler.run()
    manager.close()
    assert not failures
    return path / "topic-0"


def test_dump_log_segments_reads_every_file_without_a_complaint(tmp_path: Path) -> None:
    """It checks each index entry against the log, and prints what does not fit in lines of its own."""
    directory = write_partition(tmp_path)
    files = sorted(name for name in os.listdir(directory) if name[0] == "0")
    assert len([name for name in files if name.endswith(".log")]) > 2
    lines = dump(directory, files)
    aborted = [line for line in lines if line.startswith("version: 0 producerId: 9")]
    assert len(aborted) == 10
    assert sum(line.startswith("baseOffset:") for line in lines) == 140
    assert complaints(lines) == aborted


def test_dump_log_segments_reads_what_compaction_has_left(tmp_path: Path) -> None:
    """Batches with fewer records than offsets, emptied ones, delete horizons, and indexes over gaps."""
    directory = write_compacted_partition(tmp_path)
    lines = dump(directory, sorted(name for name in os.listdir(directory) if name[0] == "0"))
    assert not [line for line in complaints(lines) if not line.startswith("version: 0 producerId:")]
    batches = [line for line in lines if line.startswith("baseOffset:")]
    assert any("deleteHorizonMs: OptionalLong[" in line for line in batches)
    assert any(" count: 0 " in line for line in batches)
    assert any(" count: 1 " in line and "lastOffset: " in line for line in batches)
    assert all("isvalid: true" in line for line in batches)


def write_compacted_partition(path: Path) -> Path:
    scheduler, clock = ManualScheduler(), ManualClock()
    problems: list[str] = []
    failures: list[OSError] = []
    manager = local_logs(
        RealDisk(path),
        clock,
        scheduler,
        failures.append,
        compaction=CompactionSettings(scheduler, 1_000_000, 0, problems.append),
    )
    cleaner = manager.store.cleaner if isinstance(manager.store, LocalLogStore) else None
    config = LogConfig(cleanup_policy="compact", segment_bytes=3000, index_interval_bytes=300)
    log = at_once(manager.open("topic", 0, UUID(int=1), config))
    for number in range(200):
        wall_ms = clock.wall_ms()
        key = b"%d" % (number % 7)
        value = None if number % 11 == 0 else b"value %d" % number
        records = [Record(0, wall_ms, key, value), Record(1, wall_ms, b"other", b"%d" % number)]
        producer_id = number % 3 if number < 60 else -1
        data = encode_batch(
            records,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=number // 3 * 2 if producer_id >= 0 else -1,
            transactional=producer_id == 0,
            compression=("none", "gzip", "zstd")[number % 3],
        )
        log.append(memoryview(data), wall_ms=wall_ms)
        if producer_id == 0 and (number % 2 == 0 or number == 57):
            log.append_end_txn_marker(EndMarker(0, 0, number % 4 == 0, 0), wall_ms)
        scheduler.run()
        if number % 90 == 89 and cleaner is not None:
            cleaner.step(manager.logs)
            while cleaner.is_busy:
                scheduler.run()
                scheduler.run_timers()
    manager.close()
    assert cleaner is not None and cleaner.round_count == 2
    assert not failures and not problems
    return path / "topic-0"


def complaints(lines: list[str]) -> list[str]:
    """Lines that are neither data nor the note that a small segment has no index entry."""
    told = [line for line in lines if line.strip() and not line.endswith(".index is empty.")]
    return [line for line in told if not line.startswith(DATA_LINES)]


def dump(directory: Path, files: list[str]) -> list[str]:
    command = [
        "java",
        "-cp",
        f"{os.environ['ONCELOG_KAFKA_LIBS']}/*",
        "org.apache.kafka.tools.DumpLogSegments",
        "--print-data-log",
        "--files",
        ",".join(files),
    ]
    dumped = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=PATIENCE_S)
    assert dumped.returncode == 0
    return dumped.stdout.splitlines()
