"""The partition log in simulation: three partitions, producers of every kind, a faulty disk, stops of every kind.

Owns: the workload of one seed. Each step does one thing that a broker does in one turn of its loop, so that a stop may
come between any two, and within a step at any operation of the disk. The faults of the disk are those of
`oncelog.testing.memory_disk`: unsynced writes lost, torn writes, changed bytes, failed writes and syncs, late syncs, no
room.
"""

import errno
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from random import Random
from uuid import UUID

from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.partition_log import FetchIsolation, PartitionLog
from oncelog.broker.storage.local.flushed_offsets import NAME as FLUSHED_OFFSETS
from oncelog.broker.storage.local.journal import NAMES as JOURNALS
from oncelog.broker.storage.local.segment import Segment
from oncelog.broker.storage.retention import retention_start
from oncelog.broker.turns.slices import at_once
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.records.batch import encode_batch, read_header
from oncelog.protocol.records.record import Record
from oncelog.testing.memory_disk import MemoryDisk, PowerCut
from tests.fakes import backup
from tests.fakes.budget import names_its_seed
from tests.fakes.logs import Logs, read_records, segments_of
from tests.simulation.compaction_auditor import CompactionAuditor, clean_offset_of
from tests.simulation.log_auditor import LogAuditor, require
from tests.simulation.log_copies import Copy, audit_copies, segments_on
from tests.simulation.log_mixes import EVERYTHING, Mix
from tests.simulation.log_model import LogModel
from tests.simulation.log_ruin import (
    BATCHES,
    JournalRuin,
    Ruin,
    audit_damage,
    audit_journal_ruin,
    audit_ruin,
    bare,
    change_a_byte,
)
from tests.simulation.log_starts import start_in_vain
from tests.support.requests.frame_shapes import COMPRESSING, COMPRESSION_NAMES, contents, framed, lacking_a_record

PRODUCERS = 4
IN_VAIN = 0.2
"""How often a start without damage is one after others that were killed before they served."""
KEYS = [b"a", b"b", b"c", *(b"a long key that differs only at its end: " + end for end in (b"d", b"e"))]
_REFUSALS = frozenset({ErrorCode.KAFKA_STORAGE_ERROR})


@dataclass
class Partition:
    config: LogConfig
    model: LogModel = field(default_factory=LogModel)
    auditor: LogAuditor = field(init=False)
    compaction: CompactionAuditor | None = None
    audited: list[Segment] = field(default_factory=list)
    """The segments at the last audit of compaction."""

    def __post_init__(self) -> None:
        self.model.is_compacted = self.config.is_compacted
        self.auditor = LogAuditor(self.model)
        if self.config.is_compacted:
            self.compaction = CompactionAuditor(self.model, self.config)


@dataclass
class Counts:
    """Counts of what happened while one seed ran."""

    steps: int = 0
    appends: int = 0
    stops: int = 0
    power_cuts: int = 0
    looks_at_compaction: int = 0
    emptied: int = 0
    tables: int = 0
    damaged: int = 0
    backups: int = 0
    copies: int = 0
    starts_in_vain: int = 0


class LogWorld:
    def __init__(self, seed: int, mix: Mix = EVERYTHING, *, ruin_chance: float = 0, copy_chance: float = 0) -> None:
        """`ruin_chance`: how often a start after a kill or a clean stop finds files gone or unreadable; `copy_chance`:
        how often a start finds files of another copy of the directory, once there is one."""
        self.seed = seed
        self._copy_chance = copy_chance
        self._policy = "os" if copy_chance and seed % 4 == 3 else "fsync"
        """The flush policy. A machine with `os`, which has no journal, loses no power."""
        self._copy: Copy | None = None
        self._of_copies = Random(seed + 2**41)
        self._of_starts = Random(seed + 2**42)
        self.random = Random(seed)
        self._more = Random(seed + 2**40)
        """A second source of randomness, for later additions: the lives of earlier seeds stay as they were."""
        self._journal_ruin = JournalRuin()
        # From a few rounds in each file to hundreds; in every other life many appends are synced, not written to it.
        self._replayed_bytes = (None, 300)[seed // 2 % 2]
        self._journal_file_bytes, self._large_bytes = (1_024, 2_048, 16_384)[seed % 3], (100_000, 200)[seed % 2]
        self._ruin_chance = ruin_chance
        self.partitions = [Partition(config) for config in self._chosen(mix)]
        self.counts = Counts()
        self._mix = mix
        self._memory_bytes = self.random.choice(mix.cleaner_memory_bytes)
        self.logs = self._started(MemoryDisk(), 1_000_000)
        self.open: list[PartitionLog] = []
        self._rounds: list[tuple[int, ...]] = []
        """Where the logs ended at the start of this life, and with each of its flush rounds."""
        self._first_producer = 0
        self._is_over = False
        self._is_in_trouble = False
        """Space or descriptors are lacking: what is due goes later."""
        self._was_full = False
        self._open_all()

    def _chosen(self, mix: Mix) -> Sequence[LogConfig]:
        return mix.configs if mix.partitions is None else self.random.sample(mix.configs, mix.partitions)

    @names_its_seed
    def run(self, steps: int) -> Counts:
        """Raises AuditError. Ends early once a byte on disk was changed."""
        functions: list[Callable[[], None]] = [getattr(self, f"_{name}") for name in self._mix.weights]
        weights = list(self._mix.weights.values())
        for _ in range(steps):
            if self._is_over:
                break
            self.counts.steps += 1
            self.logs.clock.time_ms += self.random.choice(self._mix.delays_ms)
            (step,) = self.random.choices(functions, weights)
            try:
                step()
            except PowerCut:
                self._note_starts()
                if self._of_starts.random() < 0.3:  # of the process alone
                    self.counts.stops += 1
                    self._restart(self.logs.disk.kill(), kept_all=True)
                else:
                    self.counts.power_cuts += 1
                    self._restart(self._without_what_was_unsynced(self.logs.disk), kept_all=False)
            if not self._is_over:
                self._audit()
        if not self._is_over:
            self._restart(self.logs.disk.kill(), kept_all=not self.logs.failure.failed)
            self._settle()
        self.counts.tables = sum(each.compaction.tables for each in self.partitions if each.compaction is not None)
        return self.counts

    # --- writers ------------------------------------------------------------------------------------------------------

    def _pick(self) -> tuple[Partition, PartitionLog]:
        slot = self.random.randrange(len(self.partitions))
        return self.partitions[slot], self.open[slot]

    def _append(self) -> None:
        partition, log = self._pick()
        if self.random.random() < self._mix.retires:
            self._first_producer += 1
        producer_id = self.random.choice([-1, *range(self._first_producer, self._first_producer + PRODUCERS)])
        state = log.producer_state.producer(producer_id) if producer_id >= 0 else None
        is_open = state is not None and state.current_transaction_first_offset >= 0
        epoch, sequence = (state.producer_epoch, state.last_sequence + 1) if state else (0, 0)
        if state is not None and not is_open and self.random.random() < 0.1:
            epoch, sequence = epoch + 1, 0
        data = self._batch(
            log.log_end_offset,
            producer_id=producer_id,
            producer_epoch=epoch if producer_id >= 0 else -1,
            base_sequence=sequence if producer_id >= 0 else -1,
            transactional=producer_id >= 0 and (is_open or self.random.random() < 0.6),
        )
        self._write(partition, log, data)

    def _append_ahead(self) -> None:
        """Answered before it is durable, with all that waits for a round: only a power cut may undo it."""
        rounds = self.logs.rounds
        before = rounds.append_count
        self._append()
        if rounds.append_count == before:
            return
        self._rounds.append(tuple(log.log_end_offset for log in self.open))
        if rounds.answer_ahead(1):
            for partition, log in zip(self.partitions, self.open, strict=True):
                partition.model.answered_end = log.log_end_offset
        else:
            self._rounds.pop()

    def _batch(self, end: int, **settings: int | bool) -> memoryview:
        wall_ms = self.logs.clock.wall_ms()
        records = [
            Record(slot, wall_ms, self.random.choice(KEYS), self.random.choice([b"%d" % (end + slot), None]))
            for slot in range(self.random.choice([1, 1, 2, 5]))
        ]
        if self._mix.has_frames:
            codec = self.random.choice(COMPRESSING)
            return memoryview(framed(codec, records, self.random, **settings))
        compression = self.random.choice(["none", "none", "gzip"])
        return memoryview(encode_batch(records, compression=compression, **settings))  # type: ignore[arg-type]

    def _write(self, partition: Partition, log: PartitionLog, data: memoryview) -> None:
        if self._mix.has_frames:
            self._write_incomplete(log, data)
        base_offset = log.log_end_offset
        try:
            appended = self.logs.append(log, data)
        except KafkaError as error:
            require(error.code in _REFUSALS, "a good batch is taken", error.code.name, str(error))
            require(log.log_end_offset == base_offset, "a refused batch changes nothing")
            return
        require(not appended.duplicate, "a new batch is no duplicate")
        require(appended.base_offset == base_offset, "offsets are given in order", appended.base_offset)
        self._note(partition, log, base_offset, appended.last_offset + 1)
        require(
            contents(partition.model.batches[-1].data) == contents(data),
            "what was acknowledged is what was sent",
            base_offset,
        )

    def _write_incomplete(self, log: PartitionLog, data: memoryview) -> None:
        """A batch that announces a record more than it has is never accepted where it is opened."""
        codec = COMPRESSION_NAMES[read_header(data).compression_type]
        if not log.config.checks_every_record and log.config.compression_type in ("producer", codec):
            return
        end = log.log_end_offset
        with suppress(KafkaError):
            self.logs.append(log, memoryview(lacking_a_record(data)))
        require(log.log_end_offset == end, "a batch that lacks a record is refused", codec)

    def _note(self, partition: Partition, log: PartitionLog, base_offset: int, next_offset: int) -> None:
        self.counts.appends += 1
        model = partition.model
        with self._descriptors():
            data = bytes(read_records(log, base_offset, 1, FetchIsolation.LOG_END).records)
        model.add(base_offset, next_offset, data)

        def on_durable(_: object) -> None:
            model.durable_end = max(model.durable_end, next_offset)

        log.when_durable(next_offset).then(on_durable)

    def _end_transaction(self) -> None:
        partition, log = self._pick()
        open_transactions = log.producer_state.ongoing_transactions()
        if not open_transactions:
            return
        _, producer_id = self.random.choice([open_transactions[0], *open_transactions])
        state = log.producer_state.producer(producer_id)
        epoch = state.producer_epoch if state else 0
        base_offset = log.log_end_offset
        try:
            self.logs.end_transaction(
                log, producer_id, epoch + self.random.randint(0, 1), committed=self.random.random() < 0.5
            )
        except KafkaError as error:
            require(error.code in _REFUSALS, "a marker is taken", error.code.name)
            return
        self._note(partition, log, base_offset, base_offset + 1)

    def _retry(self) -> None:
        """The answer was lost: the batch comes again, and must be recognised."""
        partition, log = self._pick()
        retried = [producer for producer in partition.model.producer_state().producers() if producer.batches]
        if not retried:
            return
        producer = self.random.choice(retried)
        batch = self.random.choice(producer.batches)
        data = next(written.data for written in partition.model.batches if written.base_offset == batch.first_offset)
        again = bytearray(data)
        again[:8] = bytes(8)
        base_offset = log.log_end_offset
        try:
            appended = self.logs.append(log, memoryview(bytes(again)))
        except KafkaError as error:
            require(error.code in _REFUSALS, "a retry is recognised", error.code.name)
            return
        require(
            appended.duplicate and appended.base_offset == batch.first_offset and log.log_end_offset == base_offset,
            "a retry is recognised",
            batch.first_offset,
            appended.base_offset,
        )

    def _stale(self) -> None:
        """A zombie with an old epoch, or a sequence that leaves a gap: refused, and nothing changes."""
        _, log = self._pick()
        producers = [producer for producer in log.producer_state.producers() if producer.batches]
        if not producers:
            return
        producer = self.random.choice(producers)
        is_old = producer.producer_epoch > 0 and self.random.random() < 0.5
        end = log.log_end_offset
        data = self._batch(
            end,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch - is_old,
            base_sequence=producer.last_sequence + 3,
        )
        expected = ErrorCode.INVALID_PRODUCER_EPOCH if is_old else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        try:
            self.logs.append(log, data)
        except KafkaError as error:
            require(error.code in {expected, *_REFUSALS}, "a zombie or a gap is refused", error.code.name)
            require(log.log_end_offset == end, "a refused batch changes nothing")
        else:
            require(False, "a zombie or a gap is refused", producer.producer_id)

    # --- the broker's own turns ---------------------------------------------------------------------------------------

    def _turn(self) -> None:
        """A few turns of the loop; syncs in the thread may be late."""
        scheduler = self.logs.scheduler
        for _ in range(self.random.choice([1, 2, 8])):
            if scheduler.threads and self.random.random() < 0.5:
                scheduler.run_thread()
            else:
                scheduler.run_one()
            if self.random.random() < 0.3:
                scheduler.run_timers()

    def _compact(self) -> None:
        cleaner = self.logs.store.cleaner
        if cleaner is not None:
            cleaner.step(self.logs.manager.logs)
            for _ in range(self.random.choice([0, 5, 60])):
                self.logs.scheduler.run_one()
                self.logs.scheduler.run_timers()

    def _cut_compaction(self) -> None:
        """The power goes in the middle of a round."""
        self.logs.disk.operations_left = self.random.randint(0, 40)
        self.logs.compact()
        self.logs.disk.operations_left = None

    def _checkpoint(self) -> None:
        if self._more.random() < 0.5:
            self._journal_ruin.copy(self.logs.disk)
        self.logs.store.file_sync.begin_checkpoint()

    def _back_up(self) -> None:
        """Back the logs up while they live on, and require that the copy is the logs as they were when it was taken."""
        disk, logs = self.logs.disk, self.logs
        if self._is_over or logs.failure.failed:
            return
        taken = [backup.seen(log) for log in self.open]
        sizes = backup.taken(disk, logs.store, logs.manager.logs)
        if sizes is None:
            require(not logs.store.file_sync.is_journal_settled, "an image is taken within a second")
            return
        for _ in range(self.random.randint(0, 12)):
            self.random.choice([self._append, self._turn, self._end_transaction, self._retain, self._compact])()
            self._audit()
        restored = self._started(backup.copied(disk, sizes), logs.clock.time_ms)
        found = self._opened(restored)
        restored.serve(is_recovered=True)
        self.counts.backups += 1
        for log, before in zip(found, taken, strict=True):
            now = backup.seen(log)
            require(now == before, "a backup is the logs as they were", log.name, now[:3], before[:3])

    def _no_room_for_the_journal(self) -> None:
        """Let the journal find no room, while it grows or at a start; it is then begun later."""
        disk = self.logs.disk if self.random.random() < 0.5 else self.logs.disk.kill()
        disk.append_error = lambda path: OSError(errno.ENOSPC, "No space left", path) if path in JOURNALS else None
        if disk is not self.logs.disk:
            self._restart(disk, kept_all=True)
        if self._is_over:
            return
        for _ in range(4):
            self._append()
            self._turn()
        disk.append_error = None
        was_settled = self.logs.store.file_sync.is_journal_settled
        self.logs.store.step(self.logs.manager.logs)
        if not was_settled and self.logs.store.file_sync.is_journal_settled:
            # A journal begins with a commit of everything, also of a round that waits for a turn yet.
            self._rounds.append(tuple(log.log_end_offset for log in self.open))

    def _retain(self) -> None:
        """Sometimes long after the last append."""
        self.logs.clock.time_ms += self.random.choice([0, 0, 2_000])
        wall_ms = self.logs.clock.wall_ms()
        for partition, log in zip(self.partitions, self.open, strict=True):
            wanted = retention_start(segments_of(log), log.config, log.high_watermark, wall_ms)
            partition.model.log_start = max(partition.model.log_start, wanted or 0)
        due = [
            partition.auditor.all_due(log, wall_ms) for partition, log in zip(self.partitions, self.open, strict=True)
        ]
        self.logs.apply_retention(wall_ms)
        for partition, log, is_due in zip(self.partitions, self.open, due, strict=True):
            partition.model.durable_start = log.log_start_offset
            if is_due and not (self.logs.failures or self._is_in_trouble):
                self.counts.emptied += 1
                partition.auditor.is_gone(log)

    def _delete_records(self) -> None:
        partition, log = self._pick()
        before = self.random.choice([self.random.randint(log.log_start_offset, log.high_watermark), log.high_watermark])
        if self.random.random() < 0.3:
            # In the middle of it: the start must be durable before anything goes.
            self.logs.disk.operations_left = self.random.randint(0, 16)
        partition.model.log_start = max(partition.model.log_start, before)
        try:
            self.logs.delete_records(log, before)
        except KafkaError as error:
            require(error.code in _REFUSALS, "records may be deleted", error.code.name)
        partition.model.durable_start = log.log_start_offset

    def _look(self) -> None:
        for partition, log in zip(self.partitions, self.open, strict=True):
            partition.auditor.whole_log(log)
            partition.auditor.aborted_lists(log, self.random)

    # --- trouble ------------------------------------------------------------------------------------------------------

    def _no_room(self) -> None:
        disk = self.logs.disk
        self._was_full = self._is_in_trouble = True
        disk.capacity_bytes = disk.used_bytes + self.random.choice([0, 50, 300])
        try:
            for _ in range(6):
                self._append()
                self._turn()
                self._retain()
        finally:
            self._is_in_trouble = False
            disk.capacity_bytes = None
        require(not self.logs.failure.failed, "no room is no reason to stop")

    @contextmanager
    def _descriptors(self) -> Iterator[None]:
        """Let observers open files during a shortage of descriptors."""
        disk = self.logs.disk
        lacking, disk.lacks_descriptor = disk.lacks_descriptor, lambda path: False
        yield
        disk.lacks_descriptor = lacking

    def _no_descriptors(self) -> None:
        """Any operation that opens a file may be refused, in the loop or in a thread; what is acknowledged is there."""
        disk, share = self.logs.disk, self.random.choice([0.1, 0.5, 1.0])
        # `flushed-offsets` is used by every checkpoint: its descriptor is the last to be given up.
        disk.lacks_descriptor = lambda path: path != FLUSHED_OFFSETS and self.random.random() < share
        self._is_in_trouble = True
        try:
            for _ in range(6):
                self._append()
                self._turn()
                self._retain()
                self._compact()
                with self._descriptors():
                    for partition, log in zip(self.partitions, self.open, strict=True):
                        self._audit_compaction(partition, log)  # each round: the next may remove what this one dated
        finally:
            self._is_in_trouble = False
            disk.lacks_descriptor = lambda path: False
        require(not self.logs.failure.failed, "too many open files are no reason to stop")
        require(not any(log.offline_error for log in self.open), "too many open files are no damage")

    def _fail_syncs(self) -> None:
        """After a sync that failed nothing is acknowledged any more; only a restart helps."""
        disk = self.logs.disk
        self._append()
        disk.sync_error = OSError(errno.EIO, "Input/output error")
        self.logs.scheduler.run()
        failed = self.logs.failure.failed
        disk.sync_error = None
        for _ in range(3):
            self._append()
            self._turn()
        self._audit()
        if failed:
            require(bool(self.logs.failures), "a failed sync is told")
            self._restart(self._without_what_was_unsynced(disk), kept_all=False)

    def _stop(self) -> None:
        self.counts.stops += 1
        disk = self.logs.disk
        kind = self.random.choice(["kill", "crash", "clean", "power cut", "twice", "bare"])
        if kind == "power cut":
            # In the middle of whatever comes next.
            disk.operations_left = self.random.randint(0, 40)
        elif kind == "clean" and not self.logs.scheduler.threads:
            while self.logs.rounds.is_busy and not self.logs.failure.failed:
                self.logs.scheduler.run()
                self.logs.scheduler.run_timers()
            problem = self.logs.manager.close()
            require(problem is None, "a clean stop is clean", problem)
            self._restart(disk.kill(), kept_all=True, is_clean=True)
        elif kind == "crash":
            self._restart(self._without_what_was_unsynced(disk), kept_all=False)
        elif kind == "bare":
            self._restart(bare(disk.kill(), len(self.open)), kept_all=True)
        else:
            self._restart(disk.kill(), kept_all=True)
            if kind == "twice" and not self._is_over:
                self._audit()
                self._restart(self.logs.disk.kill(), kept_all=True)

    def _without_what_was_unsynced(self, disk: MemoryDisk) -> MemoryDisk:
        """Return the disk after a power cut, or after its file system was mounted again on a running machine."""
        if self._policy != "fsync":
            return disk.kill()
        return disk.remounted(self.random) if self._more.random() < 0.4 else disk.crash(self.random)

    def _restart(self, disk: MemoryDisk, *, kept_all: bool, is_clean: bool = False) -> None:
        """`kept_all`: the process was stopped, the machine was not."""
        may_damage = self._policy == "fsync" and self.random.random() < 0.08
        damaged = change_a_byte(disk, self.random, with_logs=kept_all and not self._was_full) if may_damage else None
        may_ruin = self._ruin_chance > 0 and damaged is None and kept_all and not self._was_full
        ruin = Ruin(self.random, disk) if may_ruin and self.random.random() < self._ruin_chance else None
        if ruin is not None and not ruin.is_late:
            ruin.happen(disk)
        self._leave()
        if self._copy_chance and damaged is None and self._meet_a_copy(disk, kept_all=kept_all):
            return
        rounds = self._rounds
        has_failed = self.logs.failure.failed
        # In a life that has checkpoints, and so copies of its journal.
        is_kept = kept_all and damaged is None and ruin is None and "checkpoint" in self._mix.weights
        journal_ruin = self._journal_ruin.happen(disk, self._more) if is_kept and self._more.random() < 0.08 else ""
        if damaged is None and ruin is None and not journal_ruin:
            is_clean = self._start_undamaged(disk, kept_all=kept_all) and is_clean
        else:
            self.logs = self._started(disk, self.logs.clock.time_ms)
        self._open_all()
        if journal_ruin:
            self.counts.damaged += 1
            self._is_over = True
            audit_journal_ruin(self._audited, had_lost_answers=self.logs.had_lost_answers)
            return
        self._audit_answers(
            kept_all=kept_all and ruin is None and not has_failed, is_ruined=ruin is not None and not ruin.is_late
        )
        if ruin is not None:
            if ruin.is_late:
                ruin.happen(disk)
            self.counts.damaged += 1
            self._is_over = True
            audit_ruin(self.logs, self._audited)
            return
        if damaged is not None and damaged.endswith(BATCHES):
            self.counts.damaged += 1
            self._is_over = True
            audit_damage(self._audited)
            return
        for partition, log in zip(self.partitions, self.open, strict=True):
            partition.auditor.after_restart(log, is_clean=is_clean, kept_all=kept_all)
            partition.auditor.whole_log(log)
        ends = tuple(log.log_end_offset for log in self.open)
        require(ends in rounds or self._policy != "fsync", "all of a round is there, or nothing", ends, rounds[-3:])

    def _meet_a_copy(self, disk: MemoryDisk, *, kept_all: bool) -> bool:
        """Whether this start finds files of another copy; each life has one, made at one of its starts."""
        random = self._of_copies
        if self._copy is None:
            self._copy = Copy(disk) if random.random() < 0.5 else None
            return False
        self._copy.original_starts += 1
        if disk.append_error is not None or random.random() >= self._copy_chance:
            return False
        self._copy.live(random, self._run_on)
        before = [segments_on(disk, slot) for slot in range(len(self.partitions))]
        without = disk.kill()
        for name in self._copy.come_back(disk, random):
            without.delete(name)
        least = tuple(log.log_end_offset for log in self._run_on(without)[1])
        self.logs = self._started(disk, self.logs.clock.time_ms)
        self._open_all()
        after = [segments_on(self.logs.disk, slot) for slot in range(len(self.partitions))]
        audit_copies(self._audited, before, after, least, kept_all=kept_all)
        self.counts.copies += 1
        self._is_over = True
        return True

    def _start_undamaged(self, disk: MemoryDisk, *, kept_all: bool) -> bool:
        """Return whether it is the first start after the stop."""
        is_first = disk.append_error is not None or self._of_starts.random() >= IN_VAIN
        self.logs = self._started(disk if is_first else self._begun_in_vain(disk), self.logs.clock.time_ms)
        if kept_all and not self._was_full:
            false = [line for line in self.logs.store.problems if "of a torn write" not in line]
            require(not false, "no kill makes a start report damage", false)
        return is_first

    def _begun_in_vain(self, disk: MemoryDisk) -> MemoryDisk:
        self.counts.starts_in_vain += 1
        directories = {(_topic_id(slot), slot): f"topic-{slot}" for slot in range(len(self.partitions))}
        return start_in_vain(disk, self._of_starts, self._begin, directories)

    def _begin(self, disk: MemoryDisk, policy: str = "") -> tuple[Logs, list[PartitionLog]]:
        logs = self._started(disk, self.logs.clock.time_ms, policy)
        return logs, self._opened(logs)

    def _run_on(self, disk: MemoryDisk) -> tuple[Logs, list[PartitionLog]]:
        """A start on the copy."""
        logs, opened = self._begin(disk)
        logs.serve(is_recovered=True)
        return logs, opened

    def _audit_answers(self, *, kept_all: bool, is_ruined: bool) -> None:
        """Require that what was answered ahead is there, or that the start knows that it may be lost; a kill loses
        none.
        """
        for partition, log in zip(self.partitions, self.open, strict=True):
            require(
                log.offline_error is not None
                or log.log_end_offset >= partition.model.answered_end
                or self.logs.had_lost_answers
                or (is_ruined and bool(self.logs.store.problems)),
                "a start knows what it lacks of what was answered",
                log.name,
                log.log_end_offset,
                partition.model.answered_end,
            )
        if kept_all and not self._was_full:
            require(not self.logs.had_lost_answers, "no kill makes a start doubt what was answered")

    def _leave(self) -> None:
        """Stop the round of compaction and let it clean up on the old disk, which no later start reads."""
        self.logs.disk.operations_left = None
        if self.logs.store.cleaner is not None:
            self.logs.store.cleaner.stop()

    def _started(self, disk: MemoryDisk, wall_ms: int, policy: str = "") -> Logs:
        return Logs(
            disk,
            policy=policy or self._policy,
            wall_ms=wall_ms,
            cleaner_memory_bytes=self._memory_bytes,
            journal_file_bytes=self._journal_file_bytes,
            large_bytes=self._large_bytes,
            replayed_bytes=self._replayed_bytes,
        )

    def _opened(self, logs: Logs) -> list[PartitionLog]:
        return [
            at_once(logs.manager.open("topic", slot, _topic_id(slot), partition.config))
            for slot, partition in enumerate(self.partitions)
        ]

    @property
    def _audited(self) -> list[tuple[LogAuditor, PartitionLog]]:
        return [(partition.auditor, log) for partition, log in zip(self.partitions, self.open, strict=True)]

    def _open_all(self) -> None:
        self.open = self._opened(self.logs)
        self.logs.serve(is_recovered=True)
        self.logs.serve()
        self._rounds = [tuple(log.log_end_offset for log in self.open)]
        self.logs.rounds.on_begin = lambda: self._rounds.append(tuple(log.log_end_offset for log in self.open))

    def _note_starts(self) -> None:
        for partition, log in zip(self.partitions, self.open, strict=True):
            partition.model.log_start = max(partition.model.log_start, log.log_start_offset)

    def _audit(self) -> None:
        self._note_starts()
        for partition, log in zip(self.partitions, self.open, strict=True):
            partition.auditor.after_step(log)
            self._audit_compaction(partition, log)

    def _audit_compaction(self, partition: Partition, log: PartitionLog) -> None:
        cleaner, wall_ms = self.logs.store.cleaner, self.logs.clock.wall_ms()
        if partition.compaction is None or cleaner is None:
            return
        if any(segment.has_gaps and segment not in partition.audited for segment in segments_of(log)):
            self.counts.looks_at_compaction += 1
            partition.audited = list(segments_of(log))
            partition.compaction.audit(log, wall_ms, clean_offset_of(self.logs.disk, log))
        if self.random.random() < 0.5:
            partition.compaction.step_readers(log, wall_ms, may_begin=not cleaner.is_busy)

    def _settle(self) -> None:
        """End the trouble and every open transaction; require that all becomes durable and stable."""
        if self._is_over:
            return
        self.logs.disk.operations_left = None
        for slot, log in enumerate(self.open):
            partition = self.partitions[slot]
            for _, producer_id in log.producer_state.ongoing_transactions():
                state = log.producer_state.producer(producer_id)
                base_offset = log.log_end_offset
                self.logs.end_transaction(log, producer_id, state.producer_epoch if state else 0, committed=False)
                self._note(partition, log, base_offset, base_offset + 1)
        self.logs.scheduler.run()
        for partition, log in zip(self.partitions, self.open, strict=True):
            require(log.last_stable_offset == log.log_end_offset, "once faults stop, all becomes stable")
            partition.auditor.after_step(log)
            partition.auditor.whole_log(log)


def _topic_id(slot: int) -> UUID:
    return UUID(int=100 + slot)
