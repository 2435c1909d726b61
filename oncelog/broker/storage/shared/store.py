"""All partitions of a cluster in tables, as the LogStore of the broker with the lease.

Owns: what the next round holds, the number of the newest, what is written beside rounds and in which order, whether
this broker may still acknowledge anything. Does not own: statements that are sent again (`statements`), what a
checkpoint holds (`checkpoint`).
Invariants
- A round is acknowledged once its row is known to be there. After the first statement that failed nothing is.
- Beside rounds one statement is in flight at a time, in the order of the decisions: what retention drops was written.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from oncelog.broker.log.leader_epochs import LeaderEpochs
from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.producer_state import ProducerStateManager
from oncelog.broker.log.store import (
    ALL_DURABLE,
    LogView,
    OpenedLog,
    Outlives,
    PartitionKey,
    RoundEnds,
    Trouble,
    Verdict,
    Verdicts,
)
from oncelog.broker.storage.compaction.cleaner import CompactionRound, CompactionSettings, LogCleaner
from oncelog.broker.storage.sections import LogKey, Section, encode_checked
from oncelog.broker.storage.shared import cleaned
from oncelog.broker.storage.shared.checkpoint import Checkpoints, TakenCheckpoint
from oncelog.broker.storage.shared.chunks import CHUNK_BYTES, ChunkCache, ChunkWriter
from oncelog.broker.storage.shared.cleaned import CleanedOffsets
from oncelog.broker.storage.shared.lease import LeaseKeeper, LeaseTerms, take_lease
from oncelog.broker.storage.shared.log import SharedLog
from oncelog.broker.storage.shared.opening import Found, FoundLog, damage_note, damage_path, find, open_log
from oncelog.broker.storage.shared.statements import Statements
from oncelog.broker.storage.shared.tables import (
    AppendRound,
    DeleteLogs,
    DropChunks,
    KeepPlace,
    MoveStarts,
    Statement,
    Tables,
    TakenLease,
    WriteBlob,
)
from oncelog.broker.storage.shared.topics import SharedBlobs, SharedTopics
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Clock, Scheduler
from oncelog.broker.turns.slices import Sliced

_UNKNOWN_VOLUME = (-1, -1)


@dataclass(frozen=True, slots=True)
class SharedSizes:
    row_bytes: int = 1024 * 1024
    """The most that one row of the journal holds."""
    checkpoint_bytes: int = 64 * 1024 * 1024
    chunk_bytes: int = CHUNK_BYTES
    written_bytes: int = 64 * 1024 * 1024
    """How much of what was written to chunks stays in memory."""
    fetched_bytes: int = 64 * 1024 * 1024
    """How much of what was fetched does."""


class SharedDurability:
    outlives = Outlives.MACHINE
    rounds_are_whole = True
    may_be_lost = False

    def __init__(self, statements: Statements, taken: TakenLease) -> None:
        self._statements = statements
        self._epoch = taken.epoch
        self.may_be_older = taken.is_elsewhere

    def answer_ahead(self) -> bool:
        return False

    def settle(self) -> None:
        """Nothing was answered ahead."""

    def keep_place(self) -> None:
        self._statements.write_now(KeepPlace(self._epoch))
        self.may_be_older = False


class SharedLogStore:
    def __init__(
        self,
        statements: Statements,
        taken: TakenLease,
        found: Found,
        lease: LeaseKeeper,
        clock: Clock,
        on_failure: Callable[[OSError], None],
        compaction: CompactionSettings | None = None,
        sizes: SharedSizes | None = None,
    ) -> None:
        """`on_failure` is called once, when nothing more may be acknowledged. Without `compaction` nothing is
        compacted."""
        sizes = sizes or SharedSizes()
        self._statements = statements
        self._found = found
        self._clock = clock
        self._on_failure = on_failure
        self._watchers: list[Callable[[], None]] = []
        self._epoch = found.epoch
        self._number, self._half = found.number, found.half
        self._row_bytes = sizes.row_bytes
        self._writer = ChunkWriter(found.epoch, sizes.chunk_bytes)
        self._cache = ChunkCache(statements, sizes.written_bytes, sizes.fetched_bytes)
        self._checkpoints = Checkpoints(
            found.epoch, self._writer, self._cache, clock, sizes.checkpoint_bytes, found.journal_bytes, found.half
        )
        self._sections: list[Section] = []
        """What the next round holds."""
        self._in_flight: Completion[Verdicts] | None = None
        self._next: Completion[None] = Completion()
        """Completes when the next round has ended, committed or not."""
        self._beside: Completion[None] = Completion.of(None)
        self._beside_count = 0
        self._is_serving = False
        self._logs: dict[PartitionKey, SharedLog] = {}
        self.trouble: Trouble | None = None
        self.durability = SharedDurability(statements, taken)
        self._lease = lease
        lease.watch(self._fail)
        self.blobs = SharedBlobs(found, statements)
        self.topics = SharedTopics(found, self._logs, statements, self._delete)
        self._cleaned = CleanedOffsets(found.blobs.get(cleaned.PATH, b""), self._logs, self._keep_cleaned, clock)
        self.cleaner: LogCleaner[SharedLog] | None = None
        if compaction is not None:
            self.cleaner = LogCleaner(
                lambda view: self._logs[view.topic, view.partition],
                self._cleaned,
                lambda view, log: min(view.last_stable_offset, log.checkpointed),
                self._begin_compaction,
                clock,
                self._fail,
                compaction,
            )

    def _fail(self, error: OSError) -> None:
        if self.trouble is None:
            self.trouble = Trouble(error, is_final=True)
            for watcher in self._watchers:
                watcher()
            self._on_failure(error)

    def on_background_error(self, error: OSError) -> None:
        self._fail(error)

    def watch_failure(self, on_failed: Callable[[], None]) -> None:
        self._watchers.append(on_failed)

    # -- the logs

    def open(self, topic: str, partition: int, topic_id: UUID, config: LogConfig) -> OpenedLog:
        known = self._logs.get((topic, partition))
        if known is not None:
            return known.opened  # it was released
        key = topic_id, partition
        found = self._found.logs.pop(key, FoundLog())
        checkpointed = found.row.next_offset if found.row is not None else 0
        log = SharedLog(
            topic, partition, key, checkpointed, self._clock, self._cache, self._collect, self._drop, self.when_idle
        )
        self._logs[topic, partition] = log
        opened = open_log(log, found, self._clock)
        if opened.offline_error is not None:
            self._note_damage(key, opened.offline_error, found)
        elif found.spans:
            self._checkpoints.on_growth(log, 0)
        return opened

    def _note_damage(self, key: LogKey, reason: str, found: FoundLog) -> None:
        """What the tables have of it stays as it is, but the journal is trimmed."""
        path, blobs = damage_path(key), self._found.blobs
        if (found.spans or found.damage is not None) and path not in blobs:
            blobs[path] = damage_note(reason, found, key)
            self._write_beside(lambda: WriteBlob(self._epoch, path, blobs[path]))

    def release(self, topic: str, partition: int, producers: ProducerStateManager) -> Completion[None]:
        """It stays here until it is opened again; what was appended is committed."""
        log = self._logs[topic, partition]

        def on_committed() -> None:
            log.opened.log_end_offset = log.log_end_offset
            log.opened.epochs = LeaderEpochs(log.epochs)  # without one that nothing was appended in
            log.opened.epochs.truncate_start(log.opened.log_start_offset)

        if self._sections:
            return self._next.map(lambda _: on_committed())
        if self._in_flight is not None:
            return self._in_flight.map(lambda _: on_committed())
        on_committed()
        return Completion.of(None)

    def begin_serving(self, *, is_recovered: bool) -> None:
        self._is_serving = True

    # -- durability

    def _collect(self, log: SharedLog, section: Section) -> None:
        self._sections.append(section)
        self._checkpoints.on_growth(log, len(section[1].data))

    def _take_round(self) -> AppendRound:
        body, self._sections = encode_checked(self._sections), []
        self._number += 1
        bodies = tuple(body[at : at + self._row_bytes] for at in range(0, len(body), self._row_bytes))
        half_before, self._half = self._half, self._checkpoints.half
        return AppendRound(self._epoch, self._number, bodies, self._half, half_before)

    def commit(self, ends: RoundEnds, append_count: int) -> Completion[Verdicts] | None:
        if not self._sections:
            return None
        row = self._take_round()
        ended, self._next = self._next, Completion()
        checkpoint = self._checkpoints.take(row.number)
        committing: Completion[Verdicts] = Completion()
        self._in_flight = committing

        def on_appended(appended: Completion[None]) -> None:
            self._in_flight = None
            if isinstance(appended.error, OSError):
                self._fail(appended.error)
            if self.trouble is not None:
                committing.complete({log.stored: Verdict.FAILED for log, _ in ends})
            else:
                if checkpoint is not None:
                    self._write_checkpoint(checkpoint)
                committing.complete(ALL_DURABLE)
            ended.complete(None)

        self._statements.append(row).then(on_appended)
        return committing

    def commit_now(self) -> None:
        if not self._sections:
            return
        ended, self._next = self._next, Completion()
        try:
            self._statements.append_now(self._take_round())
        except OSError as error:
            self._fail(error)
            raise
        finally:
            ended.complete(None)

    @property
    def is_busy(self) -> bool:
        return self._beside_count > 0

    def when_idle(self) -> Completion[None]:
        idle: Completion[None] = Completion()
        self._beside.then(lambda _: idle.complete(None))
        return idle

    def _write_beside(self, statement: Callable[[], Statement[bool]]) -> Completion[None]:
        """After what was to be written before; the statement is made when its time has come."""
        self._beside_count += 1
        self._beside = written = self._beside.flat_map(lambda _: self._statements.write(statement()))

        def on_written(ended: Completion[None]) -> None:
            self._beside_count -= 1
            if isinstance(ended.error, OSError):
                self._fail(ended.error)

        written.then(on_written)
        return written

    def _write_checkpoint(self, taken: TakenCheckpoint) -> None:
        done: list[Callable[[], None]] = []

        def statement() -> Statement[bool]:
            wanted, on_written = self._checkpoints.statement(taken)
            done.append(on_written)
            return wanted

        self._write_beside(statement).map(lambda _: done[0]())

    def move_starts(self, starts: Mapping[PartitionKey, int]) -> Completion[None]:
        opened = {self._logs[key].key: (self._logs[key].opened, offset) for key, offset in starts.items()}
        offsets = {key: offset for key, (_, offset) in opened.items()}

        def on_moved(_: None) -> None:
            for log, offset in opened.values():
                log.log_start_offset = offset

        return self._write_beside(lambda: MoveStarts(self._epoch, offsets)).map(on_moved)

    def _drop(self, key: LogKey, below: int) -> None:
        self._write_beside(lambda: DropChunks(self._epoch, key, below))

    def _delete(self, keys: tuple[LogKey, ...]) -> Completion[None]:
        for path in map(damage_path, keys):
            if self._found.blobs.pop(path, None) is not None:
                self._write_beside(lambda path=path: WriteBlob(self._epoch, path, None))  # type: ignore[misc]
        return self._write_beside(lambda: DeleteLogs(self._epoch, keys))

    # -- the rest

    def volume_bytes(self) -> tuple[int, int]:
        return _UNKNOWN_VOLUME

    def figures(self) -> Mapping[str, float]:
        return {}

    def step(self, logs: Iterable[LogView]) -> None:
        if self.trouble is not None or not self._is_serving:
            return
        if self._in_flight is None and not self._sections:
            taken = self._checkpoints.take(self._number)
            if taken is not None:
                self._write_checkpoint(taken)
        if self.cleaner is not None:
            self.cleaner.step(logs)
            self._cleaned.step()

    def _keep_cleaned(self, offsets: bytes) -> Completion[None]:
        return self._write_beside(lambda: WriteBlob(self._epoch, cleaned.PATH, offsets))

    def _begin_compaction(
        self, view: LogView, log: SharedLog, dirty_offset: int, end_offset: int, memory_bytes: int
    ) -> CompactionRound:
        from oncelog.broker.storage.shared.compaction_round import Aside, SharedCompactionRound  # not needed at startup

        aside = Aside(self._epoch, self._writer, self._write_beside)
        return SharedCompactionRound(view, log, dirty_offset, end_offset, memory_bytes, aside)

    def set_up_compaction(self, memory_bytes: int, backoff_ms: int) -> None:
        if self.cleaner is not None:
            self.cleaner.set_up(memory_bytes, backoff_ms)

    def close(self, producers: Mapping[PartitionKey, ProducerStateManager], *, cleanly: bool) -> OSError | None:
        if self.cleaner is not None:
            self.cleaner.stop()
        self._lease.end()
        if self.trouble is not None:
            return self.trouble.error
        if self._in_flight is not None or self._beside_count:
            return OSError("PostgreSQL has not answered yet")
        try:
            self._lease.give_back()
        except OSError as error:
            return error
        return None


def open_store(
    tables: Tables,
    clock: Clock,
    scheduler: Scheduler,
    on_failure: Callable[[OSError], None],
    compaction: CompactionSettings | None = None,
    sizes: SharedSizes | None = None,
    terms: LeaseTerms | None = None,
) -> Sliced[SharedLogStore]:
    """Take the lease, and open a store over what the one before has committed. Raises LeaseHeld, OSError."""
    terms = terms or LeaseTerms()
    statements = Statements(tables, scheduler, clock)
    taken = yield from take_lease(statements, clock, scheduler, terms)
    lease = LeaseKeeper(statements, scheduler, taken.epoch, terms.lease_ms)
    found = yield from find(statements, taken.epoch)
    return SharedLogStore(statements, taken, found, lease, clock, on_failure, compaction, sizes)
