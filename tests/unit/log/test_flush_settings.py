"""What `flush.messages` and `flush.ms` sync under `oncelog.flush.policy=os`: a disk loses what was not synced."""

from random import Random

import pytest

from oncelog.broker.log.log_config import LogConfig
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.testing.memory_disk import PowerCut
from tests.fakes.logs import Logs, batch

SECOND_MS = 1_000


def logs_of(policy: str = "os", **settings: int) -> Logs:
    return Logs(policy=policy, config=LogConfig(segment_bytes=400, **settings))


def let_pass(logs: Logs, time_ms: int) -> None:
    """Background turns, once a second."""
    for _ in range(time_ms // SECOND_MS):
        logs.clock.time_ms += SECOND_MS
        logs.manager.step()
        logs.scheduler.run()


def ends_after_a_power_cut(logs: Logs, seed: int) -> list[int]:
    crashed = logs.crashed(seed)
    return [crashed.open(partition).log_end_offset for partition in (0, 1)]


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("flush_messages", [1, 4])
def test_what_is_acknowledged_survives_a_power_cut_but_for_less_than_flush_messages(
    flush_messages: int, seed: int
) -> None:
    random = Random(seed)
    logs = logs_of(flush_messages=flush_messages)
    acknowledged = 0
    for _ in range(5):
        log = logs.open()
        assert acknowledged - flush_messages < log.log_end_offset <= acknowledged + 3
        acknowledged = log.log_end_offset
        logs.serve()
        logs.disk.operations_left = random.randint(1, 60)
        try:
            while True:
                acknowledged = logs.append(log, batch(random.randint(1, 3))).last_offset + 1
                if random.random() < 0.5:
                    logs.flush()
        except PowerCut:
            logs = logs.crashed(random.randint(0, 2**32))


@pytest.mark.parametrize(
    ("policy", "flush_messages", "syncs"), [("os", 2**63 - 1, 0), ("os", 2, 2), ("os", 1, 4), ("memory", 1, 0)]
)
def test_a_sync_comes_after_so_many_records(policy: str, flush_messages: int, syncs: int) -> None:
    logs = Logs(policy=policy, config=LogConfig(flush_messages=flush_messages))
    log = logs.open()
    logs.append(log, batch())
    logs.store.commit_now()
    log.stored.synced_offset = log.log_end_offset
    before = logs.disk.sync_count
    for _ in range(4):
        logs.append(log, batch())
        logs.flush()
    assert logs.disk.sync_count - before == syncs


def test_a_batch_that_cannot_be_synced_is_refused_and_is_the_last() -> None:
    logs = logs_of(flush_messages=1)
    log = logs.open()
    logs.append(log, batch())
    logs.disk.sync_error = OSError(5, "Input/output error")
    for _ in range(2):
        with pytest.raises(KafkaError) as refused:
            logs.append(log, batch())
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert len(logs.failures) == 1


def test_what_is_older_than_flush_ms_survives_a_power_cut() -> None:
    logs = logs_of(flush_ms=3 * SECOND_MS)
    quick, slow = logs.open(0), logs.open(1, flush_ms=2**63 - 1)
    for _ in range(3):
        for log in (quick, slow):
            logs.append(log, batch())
        logs.flush()
        let_pass(logs, 4 * SECOND_MS)
    for log in (quick, slow):
        logs.append(log, batch())
    logs.flush()
    quick_ends, slow_ends = zip(*(ends_after_a_power_cut(logs, seed) for seed in range(30)), strict=True)
    assert (min(quick_ends), min(slow_ends)) == (3, 0)


@pytest.mark.parametrize("seed", range(10))
def test_what_a_killed_broker_left_unsynced_survives_a_power_cut_after_the_next_start(seed: int) -> None:
    logs = logs_of(flush_messages=4, flush_ms=3 * SECOND_MS)
    log = logs.open()
    for _ in range(3):
        logs.append(log, batch())
        logs.flush()
    logs = logs.killed()
    logs.open()
    logs.serve(is_recovered=True)
    let_pass(logs, 4 * SECOND_MS)
    assert logs.crashed(seed).open().log_end_offset == 3
