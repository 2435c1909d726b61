"""One broker's logs on a disk in memory, and the ways in which such a broker stops."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from random import Random
from uuid import UUID

import pytest

from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.log_manager import LogManager
from oncelog.broker.log.partition_log import AppendOrigin, AppendResult, FetchIsolation, PartitionLog, Records
from oncelog.broker.log.rounds import Rounds
from oncelog.broker.log.store import RoundEnds, StoreDamagedError
from oncelog.broker.log.values import AbortedTransaction, EndMarker, ReadBounds
from oncelog.broker.storage.compaction.cleaner import CompactionSettings
from oncelog.broker.storage.local.file_sync import LARGE_BYTES, SyncSettings
from oncelog.broker.storage.local.local_log import LocalLog
from oncelog.broker.storage.local.log_store import LocalLogStore
from oncelog.broker.storage.local.recovered_log import RecoveryReport
from oncelog.broker.storage.local.recovery_progress import RecoveryProgress
from oncelog.broker.storage.local.segment_check import CheckSummary
from oncelog.broker.storage.local.segments import Segments
from oncelog.broker.storage.shared.log import SharedLog as TablesLog
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Clock, Disk, Scheduler, WallMs
from oncelog.broker.turns.slices import Sliced, Slices, at_once
from oncelog.protocol.records.batch import BatchHeader, encode_batch, iter_batches
from oncelog.protocol.records.record import Record
from oncelog.testing.memory_disk import MemoryDisk
from tests.fakes.scheduler import ManualClock, ManualScheduler
from tests.fakes.shared_store import SharedLog
from tests.fakes.tables import at_hand

TOPIC_ID = UUID(int=77)


def batch(
    count: int = 1,
    *,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    timestamp: int = 1_000_000,
    value: bytes = b"value",
    key: bytes | None = None,
    compression: str = "none",
) -> memoryview:
    records = [Record(index, timestamp + index, key, value + b"%d" % index, ()) for index in range(count)]
    return memoryview(
        encode_batch(
            records,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 and producer_epoch < 0 else producer_epoch,
            base_sequence=base_sequence,
            transactional=transactional,
            compression=compression,
        )
    )


@dataclass(frozen=True, slots=True)
class FetchResult:
    """The records of a partition that a fetch gets, and its bounds."""

    records: memoryview
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted_transactions: tuple[AbortedTransaction, ...] | None


def files_of(log: PartitionLog) -> LocalLog:
    """The files of a log that lies in files."""
    if not isinstance(log.stored, LocalLog):
        raise TypeError(f"{log.name} does not lie in files")
    return log.stored


def segments_of(log: PartitionLog) -> Segments:
    return files_of(log).segments


def all_batches(log: PartitionLog) -> list[tuple[BatchHeader, memoryview]]:
    """Every batch of a log that serves, whether the page cache has it or not."""
    if isinstance(log.stored, TablesLog):
        found, offset = [], log.log_start_offset
        while batches := list(iter_batches(read_records(log, offset, 2**30, FetchIsolation.LOG_END).records)):
            found += batches
            offset = batches[-1][0].next_offset
        return found
    with pytest.MonkeyPatch.context() as patch:
        for segment in segments_of(log):
            patch.setattr(segment, "warm_from", 0)
        return list(log.batches())


def read_records(
    log: PartitionLog, fetch_offset: int, max_bytes: int, isolation: FetchIsolation, *, at_least_one: bool = True
) -> FetchResult:
    """Return what a fetch of this isolation gets, whether or not the page cache has it. Raises KafkaError and
    StoreDamagedError.
    """
    bounds = log.bounds(isolation)
    log.check_readable(fetch_offset)
    if isinstance(log.stored, TablesLog):
        with at_hand(log.stored):
            found = log.read(fetch_offset, max_bytes, bounds, at_least_one=at_least_one)
        if isinstance(found, Completion) and not found.done:
            raise StoreDamagedError(f"a chunk of {log.name} is neither there nor replaced")
        return _result(found.result() if isinstance(found, Completion) else found, bounds)
    if isinstance(log.stored, SharedLog):
        log.stored.pace.is_instant = True
    found = log.read(fetch_offset, max_bytes, bounds, at_least_one=at_least_one)
    if isinstance(log.stored, SharedLog):
        log.stored.pace.is_instant = False
    elif isinstance(found, Completion):
        with pytest.MonkeyPatch.context() as patch:
            for segment in segments_of(log):
                patch.setattr(segment, "warm_from", 0)
            found = log.read(fetch_offset, max_bytes, bounds, at_least_one=at_least_one)
    return _result(found, bounds)


def _result(found: Records | Completion[Records], bounds: ReadBounds) -> FetchResult:
    if isinstance(found, Completion):
        raise TypeError("the records are not at hand")
    return FetchResult(found[0], bounds.high_watermark, bounds.last_stable_offset, bounds.log_start_offset, found[1])


def local_logs(
    disk: Disk,
    clock: Clock,
    scheduler: Scheduler,
    on_failure: Callable[[OSError], None],
    *,
    policy: str = "fsync",
    progress: RecoveryProgress | None = None,
    measures_syncs: bool = False,
    listener: "Listener | None" = None,
    compaction: CompactionSettings | None = None,
) -> LogManager:
    """The logs of a data directory, as a broker opens them."""
    store = LocalLogStore(
        disk,
        clock,
        scheduler,
        on_failure,
        syncing=SyncSettings(policy, measures_syncs=measures_syncs),
        progress=progress,
        compaction=compaction,
    )
    return LogManager(store, Rounds(scheduler, store), listener or Listener(), clock)


class Listener:
    def __init__(self) -> None:
        self.high_watermarks: list[tuple[str, int]] = []
        self.log_start_offsets: list[tuple[str, int]] = []

    def on_high_watermark(self, log: PartitionLog) -> None:
        self.high_watermarks.append((log.name, log.high_watermark))

    def on_log_start_offset(self, log: PartitionLog) -> None:
        self.log_start_offsets.append((log.name, log.log_start_offset))


def delete_topic(manager: LogManager, scheduler: Scheduler, topic: str, partition_count: int = 1) -> None:
    """Its files go when the scheduler runs."""

    def steps() -> Sliced[None]:
        removal = manager.store.topics.begin_removal(topic, TOPIC_ID)
        yield from manager.withdraw(topic, partition_count, removal)
        yield from removal.delete()

    Slices(scheduler).run_own(steps())


class NotedRounds(Rounds):
    """Reports each round that begins, before it looks at any log."""

    on_begin: Callable[[], None] | None = None

    def _take(self) -> RoundEnds:
        if self.on_begin is not None:
            self.on_begin()
        return super()._take()


class Logs:
    """A running set of logs; `restarted` gives the next run on what the stop has left of the disk."""

    def __init__(
        self,
        disk: MemoryDisk | None = None,
        *,
        policy: str = "fsync",
        config: LogConfig | None = None,
        wall_ms: int = 1_000_000,
        cleaner_memory_bytes: int = 1_000_000,
        journal_file_bytes: int = 8 * 1024,
        large_bytes: int = LARGE_BYTES,
        replayed_bytes: int | None = None,
    ) -> None:
        """Start over these files; if `replayed_bytes` is given, a start replays the logs before it can serve
        (`CompactionSettings`).
        """
        self.disk = disk or MemoryDisk()
        self.policy = policy
        self.config = config or LogConfig()
        self.clock = ManualClock(wall_ms)
        self.scheduler = ManualScheduler()
        self.listener = Listener()
        self.failures: list[OSError] = []
        self.reports: list[RecoveryReport] = []
        self.compaction_problems: list[str] = []
        self.damaged: list[str] = []
        self.checks: list[CheckSummary] = []
        self.store = LocalLogStore(
            self.disk,
            self.clock,
            self.scheduler,
            self.failures.append,
            syncing=SyncSettings(policy, appends_on_loop=1, measures_syncs=False, large_bytes=large_bytes),
            on_report=self.reports.append,
            on_checked=self.checks.append,
            compaction=CompactionSettings(
                self.scheduler,
                cleaner_memory_bytes,
                0,
                self.compaction_problems.append,
                ("topic",) if replayed_bytes is not None else (),
                replayed_bytes or 0,
            ),
            journal_file_bytes=journal_file_bytes,
        )
        self.failure = self.store.failure
        self._is_serving = False
        self.had_lost_answers = False
        """Whether answers may have been lost when it began to serve."""
        self.rounds = NotedRounds(self.scheduler, self.store)
        self.manager = LogManager(
            self.store,
            self.rounds,
            self.listener,
            self.clock,
            on_damage=lambda _, line: self.damaged.append(line),
        )

    def open(self, partition: int = 0, **settings: int | str) -> PartitionLog:
        return at_once(self.manager.open("topic", partition, TOPIC_ID, replace(self.config, **settings)))  # type: ignore[arg-type]

    def delete(self, partition_count: int = 1) -> None:
        """Delete the topic; its files go with the next `flush`."""
        delete_topic(self.manager, self.scheduler, "topic", partition_count)

    def append(self, log: PartitionLog, data: memoryview, origin: AppendOrigin = AppendOrigin.CLIENT) -> AppendResult:
        self.serve()
        return log.append(data, wall_ms=self.clock.wall_ms(), origin=origin)

    def serve(self, *, is_recovered: bool = False) -> None:
        """Begin to serve: open transactions that may have lost records in a power cut are aborted. `is_recovered`:
        every log that was found is open.
        """
        if not self._is_serving:
            self._is_serving = True
            self.had_lost_answers = self.store.durability.may_be_lost
            self.store.begin_serving(is_recovered=is_recovered and not self.manager.offline_count)
            with suppress(OSError):
                self.store.durability.settle()

    def end_transaction(
        self,
        log: PartitionLog,
        producer_id: int,
        producer_epoch: int = 0,
        *,
        committed: bool,
        coordinator_epoch: int = 0,
    ) -> AppendResult:
        marker = EndMarker(producer_id, producer_epoch, committed, coordinator_epoch)
        return log.append_end_txn_marker(marker, self.clock.wall_ms())

    def flush(self) -> None:
        self.scheduler.run()

    def delete_records(self, log: PartitionLog, before_offset: int) -> None:
        """Durably, with the files that can go. Raises KafkaError."""
        moved = self.manager.delete_records(log, before_offset)
        self.scheduler.run()
        moved.result()

    def apply_retention(self, wall_ms: int) -> None:
        self.manager.apply_retention(WallMs(wall_ms))
        self.scheduler.run()

    def check_segments(self) -> None:
        """Let the check of what was taken over unread run to its end."""
        while not self.checks:
            self.scheduler.run()
            self.scheduler.run_timers()

    def compact(self) -> int:
        """Rounds until there is nothing more to gain; how many."""
        cleaner = self.store.cleaner
        if cleaner is None:
            raise RuntimeError("these logs are not compacted")
        before = cleaner.round_count
        cleaner.step(self.manager.logs)
        while cleaner.is_busy:
            self.scheduler.run()
            self.scheduler.run_timers()
            if not cleaner.is_busy:
                cleaner.step(self.manager.logs)
        return cleaner.round_count - before

    def stopped_cleanly(self) -> "Logs":
        self.manager.close()
        return self._next(self.disk.kill())

    def killed(self) -> "Logs":
        return self._next(self.disk.kill())

    def crashed(self, seed: int) -> "Logs":
        return self._next(self.disk.crash(Random(seed)))

    def _next(self, disk: MemoryDisk) -> "Logs":
        return Logs(disk, policy=self.policy, config=self.config, wall_ms=self.clock.wall_ms())
