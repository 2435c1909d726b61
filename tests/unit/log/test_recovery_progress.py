"""A start that takes its time says how far it is, and a quick one says nothing."""

from oncelog.broker.storage.local.recovery_progress import INTERVAL_MS, RecoveryProgress
from oncelog.broker.turns.slices import at_once
from tests.fakes.logs import Logs, batch, local_logs
from tests.fakes.scheduler import ManualClock


class SlowClock(ManualClock):
    """Each look takes a while."""

    def monotonic_ms(self) -> int:
        self.time_ms += INTERVAL_MS // 4
        return self.time_ms


def start(clock: ManualClock) -> tuple[int, list[tuple[int, int, str]]]:
    """The bytes of a partition that must be scanned, and the reports of progress meanwhile."""
    logs = Logs()
    for partition in range(2):
        log = logs.open(partition, segment_bytes=300)
        for _ in range(30):
            logs.append(log, batch())
        logs.flush()
    for path in [path for path in logs.disk.files if path.endswith("manifest")]:
        del logs.disk.files[path]
    told: list[tuple[int, int, str]] = []
    progress = RecoveryProgress(clock, lambda *line: told.append(line))
    logs = logs.killed()
    manager = local_logs(logs.disk, clock, logs.scheduler, logs.failures.append, progress=progress)
    total = sum(
        at_once(manager.open("topic", partition, log.topic_id, logs.config)).size_bytes for partition in range(2)
    )
    at_once(manager.open("topic", 2, log.topic_id, logs.config))  # one without files is nothing to report
    return total, told


def test_slow_start_reports_bytes_partitions_and_its_position() -> None:
    total, told = start(SlowClock())
    assert len(told) >= 4
    assert told == sorted(told)
    assert {line[2] for line in told} == {"topic-0", "topic-1"}
    assert {line[1] for line in told} <= {0, 1, 2}
    assert total // 2 < told[-1][0] <= total


def test_quick_start_is_silent() -> None:
    assert start(ManualClock())[1] == []
