"""Whatever the wall clock does, what ends by itself ends neither early nor late; and the auditor bites."""

from collections import Counter
from typing import Any

import pytest

from oncelog.broker.coordinator.group.engine.shard import GroupShard
from oncelog.broker.coordinator.transaction.timeouts import TransactionTimeouts
from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.storage.local import local_log
from oncelog.broker.turns.ports import Clock
from oncelog.broker.turns.schedule import Schedule
from tests.history.auditor import require_at_least
from tests.simulation.broker_faults import take_the_version_of_a_request_for_that_of_a_transaction
from tests.simulation.clock_world import ClockWorld
from tests.simulation.log_auditor import AuditError
from tests.simulation.log_faults import Plant, planted, spare_the_active_segment

TURNS = 400


def test_a_wall_clock_that_jumps_ends_nothing_early_and_keeps_nothing_for_ever() -> None:
    counts: Counter[str] = Counter()
    for seed in range(4):
        counts.update(ClockWorld(seed).run(TURNS))
    # Lives in which nothing ends would prove nothing.
    require_at_least(counts, jumps=20, restarts=3, timeouts=20, compactions=5)
    require_at_least(counts, producers=5, returns=3, id=10, offset=10, segment=40)


class _WallClock:
    """Takes the wall clock for the monotonic one."""

    def __init__(self, clock: Clock) -> None:
        self.wall_ms = clock.wall_ms
        self.monotonic_ms = clock.wall_ms


def run_schedules_on_the_wall_clock(patch: pytest.MonkeyPatch) -> None:
    made: Any = Schedule.__init__

    def on_the_wall(self: Schedule, clock: Clock, **settings: int) -> None:
        made(self, _WallClock(clock), **settings)

    patch.setattr(Schedule, "__init__", on_the_wall)


def measure_the_silence_of_producers_by_the_wall_clock(patch: pytest.MonkeyPatch) -> None:
    made: Any = PartitionLog.__init__

    def on_the_wall(self: PartitionLog, *arguments: Any, **settings: Any) -> None:
        made(self, *arguments, **settings)
        self._clock = _WallClock(self._clock)  # type: ignore[assignment]

    patch.setattr(PartitionLog, "__init__", on_the_wall)


def give_a_transaction_from_the_future_the_time_until_then_as_well(patch: pytest.MonkeyPatch) -> None:
    def watch(self: TransactionTimeouts, opened: Any, elapsed_ms: int = 0) -> None:
        if opened.transactional_id not in self._timers:
            self._arm(opened, max(0, opened.timeout_ms - elapsed_ms))

    patch.setattr(TransactionTimeouts, "watch", watch)


def end_what_was_open_at_every_start(patch: pytest.MonkeyPatch) -> None:
    watch = TransactionTimeouts.watch
    patch.setattr(
        TransactionTimeouts, "watch", lambda self, opened, elapsed_ms=0: watch(self, opened, abs(elapsed_ms) * 1_000)
    )


def take_offsets_from_the_future_for_old(patch: pytest.MonkeyPatch) -> None:
    def expired(self: GroupShard, group_id: str, _: object, wall_ms: int, retention_ms: int) -> Any:
        for partition, (_, committed) in self._offsets.get(group_id, {}).items():
            if abs(wall_ms - committed.commit_timestamp_ms) >= retention_ms:
                yield partition

    patch.setattr(GroupShard, "expired_partitions", expired)


def delete_records_from_the_future(patch: pytest.MonkeyPatch) -> None:
    def prepare(segments: Any, config: Any, high_watermark: int, wall_ms: int) -> int | None:
        closed = list(segments)[:-1]
        is_old = bool(closed) and abs(wall_ms - closed[0].max_timestamp) > config.retention_ms
        return closed[0].next_offset if is_old and config.is_deleting else None

    patch.setattr(local_log, "retention_start", prepare)


PLANTS: tuple[Plant, ...] = (
    run_schedules_on_the_wall_clock,
    measure_the_silence_of_producers_by_the_wall_clock,
    give_a_transaction_from_the_future_the_time_until_then_as_well,
    end_what_was_open_at_every_start,
    take_offsets_from_the_future_for_old,
    delete_records_from_the_future,
    take_the_version_of_a_request_for_that_of_a_transaction,
    spare_the_active_segment,
)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
@pytest.mark.interpreted
def test_a_planted_fault_of_the_clock_is_caught_within_fifty_seeds(plant: Plant) -> None:
    with planted(plant), pytest.raises(AuditError):
        for seed in range(50):
            ClockWorld(seed).run(TURNS)
