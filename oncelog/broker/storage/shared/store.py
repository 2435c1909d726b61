"""All partitions of a cluster in tables, as the LogStore of the broker with the lease.

Owns: what the next round holds, the number of the newest, whether this broker may still acknowledge anything. Does not
own: statements that are sent again (`statements`), what is written beside rounds and in which order (`beside`), what a
checkpoint holds (`checkpoint`), whether there is room for more (`room`).
Invariants
- A round is acknowledged once its row is known to be there, and that no other broker has had the lease by then. After
  the first statement that failed nothing is; one that the database refused for lack of space has not failed, and is
  sent again.
- Memory is bounded: while a checkpoint is in flight and enough for the next one has come, rounds wait for it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
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
    StoreError,
    Trouble,
    Verdict,
    Verdicts,
)
from oncelog.broker.storage.compaction.cleaner import CompactionSettings, LogCleaner
from oncelog.broker.storage.local.disk_space import SpaceListener
from oncelog.broker.storage.sections import SECTION_BYTES, LogKey, Section, encode_checked
from oncelog.broker.storage.shared import cleaned
from oncelog.broker.storage.shared.aside import Aside
from oncelog.broker.storage.shared.beside import Beside
from oncelog.broker.storage.shared.checkpoint import Checkpoints, TakenCheckpoint
from oncelog.broker.storage.shared.chunks import CHUNK_BYTES, ChunkCache, ChunkWriter
from oncelog.broker.storage.shared.cleaned import CleanedOffsets
from oncelog.broker.storage.shared.deletions import Deletions
from oncelog.broker.storage.shared.followed import FollowedEnds
from oncelog.broker.storage.shared.joining import Joiner
from oncelog.broker.storage.shared.lease import HeldLease, LeaseKeeper, LeaseTerms, keep_lease, take_lease
from oncelog.broker.storage.shared.log import SharedLog
from oncelog.broker.storage.shared.opening import Found, FoundLog, JournalGap, damage_note, damage_path, find, open_log
from oncelog.broker.storage.shared.outage import OutageListener
from oncelog.broker.storage.shared.outbox import SharedOutbox
from oncelog.broker.storage.shared.room import RETRY_MS, Room
from oncelog.broker.storage.shared.statements import Moved, RoundsLost, Statements
from oncelog.broker.storage.shared.tables import (
    AppendRound,
    ChunkRow,
    FindRound,
    FoundRound,
    KeepPlace,
    Lease,
    MeasureTables,
    MoveStarts,
    Refused,
    RenewLease,
    Tables,
    TakenLease,
    Unanswered,
    WriteBlob,
)
from oncelog.broker.storage.shared.topics import SharedBlobs, SharedTopics
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Clock, Scheduler, Stopwatch
from oncelog.broker.turns.schedule import Schedule
from oncelog.broker.turns.slices import Sliced, Slices
from oncelog.broker.turns.waiting import first_of
from oncelog.protocol.topics import METADATA_TOPIC

if TYPE_CHECKING:
    from oncelog.broker.storage.compaction.compaction_round import Rewriting

_UNKNOWN_VOLUME = (-1, -1)
_MEASURE_MS = 60_000


@dataclass(frozen=True, slots=True)
class SharedSizes:
    row_bytes: int = 1024 * 1024
    """The size limit of one row of the journal."""
    checkpoint_bytes: int = 64 * 1024 * 1024
    chunk_bytes: int = CHUNK_BYTES
    written_bytes: int = 64 * 1024 * 1024
    """The limit of the cache of chunks that were written."""
    fetched_bytes: int = 64 * 1024 * 1024
    """The limit of the cache of chunks that were fetched."""
    waiting_bytes: int = 256 * 1024 * 1024
    """The limit of what waits to be committed."""


class SharedDurability:
    outlives = Outlives.MACHINE
    rounds_are_whole = True
    may_be_lost = False

    def __init__(self, statements: Statements, taken: TakenLease, lease: LeaseKeeper) -> None:
        self._statements, self._lease = statements, lease
        self._epoch = taken.epoch
        self.may_be_older = taken.is_elsewhere

    def answer_ahead(self) -> bool:
        return False

    def settle(self) -> None:
        """Nothing was answered ahead."""

    def keep_place(self) -> None:
        self._statements.write_now(KeepPlace(self._epoch, self._lease.place))
        self.may_be_older = False


class SharedLogStore:
    def __init__(
        self,
        statements: Statements,
        taken: TakenLease,
        found: Found,
        lease: LeaseKeeper,
        clock: Clock,
        scheduler: Scheduler,
        on_failure: Callable[[OSError], None],
        compaction: CompactionSettings | None = None,
        sizes: SharedSizes | None = None,
        space_listener: SpaceListener | None = None,
        stopwatch: Stopwatch | None = None,
    ) -> None:
        """`on_failure` is called once, when nothing more may be acknowledged. Without `compaction` nothing is
        compacted. `stopwatch` is called when a round is sent, and what it returns when the round is answered."""
        sizes = sizes or SharedSizes()
        self._statements, self._found, self._clock = statements, found, clock
        self._scheduler, self._slices = scheduler, Slices(scheduler)
        self._on_failure = on_failure
        self._stopwatch = stopwatch
        self._watchers: list[Callable[[], None]] = []
        self._epoch = found.epoch
        self._number, self._half = found.number, found.half
        self._acknowledged = found.number  # the newest round that is known to be there
        self._row_bytes, self._chunk_bytes = sizes.row_bytes, sizes.chunk_bytes
        self._room = Room(sizes.waiting_bytes, clock, space_listener)
        self._beside = Beside(statements, scheduler, self._room, self._fail)
        self._deletions = Deletions(found.epoch, self._beside)
        self._writer = ChunkWriter(found.epoch, sizes.chunk_bytes)
        self._cache = ChunkCache(statements, sizes.written_bytes, sizes.fetched_bytes)
        self._checkpoints = Checkpoints(
            found.epoch, self._writer, self._cache, clock, sizes.checkpoint_bytes, found.journal_bytes, found.half
        )
        self._sections: list[Section] = []
        """The sections of the next round."""
        self.followed_ends = FollowedEnds()
        self._collected_bytes = 0
        self._in_flight: Completion[Verdicts] | None = None
        self._next: Completion[None] = Completion()
        """Completes when the next round has ended, committed or not."""
        self._held: Callable[[], None] | None = None
        """Sends the round that waits for a checkpoint."""
        self._failure: OSError | None = None
        self._failed: Completion[None] = Completion()
        self._measures = Schedule(clock)
        self._tables_bytes = 0
        self._is_serving = False
        self._logs: dict[PartitionKey, SharedLog] = {}
        self.durability = SharedDurability(statements, taken, lease)
        self.blobs = SharedBlobs(found, statements, self._beside)
        self.topics = SharedTopics(found, self._logs, self._delete)
        self.outbox = SharedOutbox(found.epoch, statements, clock, lambda: self._next)
        self.lease = lease
        lease.watch(self._on_lease_lost)
        self._aside = Aside(self._epoch, self._writer, self._beside)
        self._joiner = Joiner(self._aside, self._cache, clock)
        self._cleaned = CleanedOffsets(found.blobs.get(cleaned.PATH, b""), self._logs, self._keep_cleaned, clock)
        self.cleaner = None if compaction is None else self._cleaner(compaction)

    def _cleaner(self, compaction: CompactionSettings) -> LogCleaner[SharedLog]:
        return LogCleaner(
            lambda view: self._logs[view.topic, view.partition],
            self._cleaned,
            lambda view, log: min(view.last_stable_offset, log.checkpointed),
            self._rewriting_of,
            self._clock,
            self._fail,
            compaction,
        )

    @property
    def trouble(self) -> Trouble | None:
        if self._failure is not None:
            return Trouble(self._failure, is_final=True)
        return None if self._room.error is None else Trouble(self._room.error, is_final=False)

    def _fail(self, error: OSError) -> None:
        if self._failure is None:
            self._failure = error
            self._failed.complete(None)
            for watcher in self._watchers:
                watcher()
            self._on_failure(error)
            self._send_held()

    def _on_lease_lost(self, error: OSError) -> None:
        """Acknowledge nothing from now on. If the database has moved, look whether it lacks rounds: that is the worse
        error, and is reported instead."""

        def on_found(found: Completion[FoundRound]) -> None:
            is_lost = found.error is None and not found.result().has_before
            self._fail(RoundsLost() if is_lost else error)

        if isinstance(error, Moved):
            self._statements.ask(FindRound(self._acknowledged + 1)).then(on_found)
        else:
            self._fail(error)

    def on_background_error(self, error: OSError) -> None:
        """Fail the store, unless the statement was refused or not answered: rounds show if the database answers."""
        if not isinstance(error, Unanswered | Refused):
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
            topic,
            partition,
            key,
            checkpointed,
            self._clock,
            self._cache,
            self._chunk_bytes,
            self._room,
            self._collect,
            self._deletions.drop,
            self._check_gone,
        )
        self._logs[topic, partition] = log
        opened = open_log(log, found, self._clock)
        if topic == METADATA_TOPIC:
            self.followed_ends.begin(self._number, log.log_end_offset)
        if opened.offline_error is not None:
            self._note_damage(key, opened.offline_error, found)
        elif found.spans:
            self._checkpoints.on_growth(log, 0)
        return opened

    def _check_gone(self) -> Completion[None]:
        """Completes once neither a statement in flight nor another leader can have replaced a chunk that is gone. Fails
        with StoreError."""
        checked: Completion[None] = Completion()

        def on_checked(answer: Completion[None]) -> None:
            error = answer.error
            if error is None:
                checked.complete(None)
                return
            if isinstance(error, OSError):
                self.on_background_error(error)
            checked.fail(StoreError(str(error)))

        self._beside.settled().flat_map(lambda _: self._statements.check_lease(self._epoch)).then(on_checked)
        return checked

    def _note_damage(self, key: LogKey, reason: str, found: FoundLog) -> None:
        """Note the damage, with the log's part of the journal, which checkpoints trim. Its chunks stay as they are."""
        path, blobs = damage_path(key), self._found.blobs
        if (found.spans or found.damage is not None) and path not in blobs:
            blobs[path] = damage_note(reason, found, key)
            self._beside.write(lambda: WriteBlob(self._epoch, path, blobs[path]))

    def release(self, topic: str, partition: int, producers: ProducerStateManager) -> Completion[None]:
        """Completes once everything that was appended is committed. The log stays here until it is opened again."""
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
        if log.topic == METADATA_TOPIC:
            self.followed_ends.collect(log.log_end_offset)
        size_bytes = SECTION_BYTES + len(section[1].data)
        self._collected_bytes += size_bytes
        self._room.waiting_bytes += size_bytes
        self._checkpoints.on_growth(log, size_bytes)

    def _take_round(self) -> AppendRound:
        body, self._sections = encode_checked(self._sections), []
        self._number, self._collected_bytes = self._number + 1, 0
        is_followed = self.followed_ends.take(self._number)
        bodies = tuple(body[at : at + self._row_bytes] for at in range(0, len(body), self._row_bytes))
        half_before, self._half = self._half, self._checkpoints.half
        taken = self.outbox.take_ids()
        return AppendRound(self._epoch, self._number, bodies, self._half, half_before, is_followed, taken)

    def commit(self, ends: RoundEnds, append_count: int) -> Completion[Verdicts] | None:
        if not self._sections:
            return None
        is_held = self._checkpoints.is_behind
        size_bytes, row = self._collected_bytes, self._take_round()
        ended, self._next = self._next, Completion()
        checkpoint = self._checkpoints.take(row.number)
        committing: Completion[Verdicts] = Completion()
        self._in_flight = committing

        def on_appended(appended: Completion[None]) -> None:
            if isinstance(appended.error, OSError):
                self._fail(appended.error)
            else:
                self._acknowledged = row.number
            if self._failure is None and not self.lease.is_ours:
                # The database may have lost that another has led meanwhile; the next renewal finds it out.
                first_of(self.lease.when_confirmed(), self._failed).then(lambda _: on_confirmed())
            else:
                on_confirmed()

        def on_confirmed() -> None:
            self._in_flight = None
            self._room.waiting_bytes -= size_bytes
            if self._failure is not None:
                committing.complete({log.stored: Verdict.FAILED for log, _ in ends})
            else:
                if checkpoint is not None:
                    self._write_checkpoint(checkpoint)
                committing.complete(ALL_DURABLE)
            ended.complete(None)

        if is_held:
            self._held = lambda: self._append(row, on_appended)
        else:
            self._append(row, on_appended)
        return committing

    def _append(self, row: AppendRound, on_appended: Callable[[Completion[None]], None]) -> None:
        """Send the round until it is known to be in the journal, or the outcome stays unknown."""
        if self._failure is not None:
            on_appended(Completion.failed(self._failure))
            return

        on_ended = None if self._stopwatch is None else self._stopwatch()

        def on_answer(answer: Completion[None]) -> None:
            if on_ended is not None:
                on_ended()
            if isinstance(answer.error, Refused):
                self._room.on_refused(row, answer.error)
                self._scheduler.call_later(RETRY_MS, lambda: self._append(row, on_appended))
            else:
                self._room.on_ended(row)
                on_appended(answer)

        self._statements.append(row).then(on_answer)

    def _send_held(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held()

    def commit_now(self) -> None:
        if not self._sections:
            return
        ended, self._next = self._next, Completion()
        size_bytes, row = self._collected_bytes, self._take_round()
        try:
            self._statements.append_now(row)
            self.lease.confirm_now()  # after it: until then another may lead
        except OSError as error:
            self._fail(error)
            raise
        finally:
            self._room.waiting_bytes -= size_bytes
            ended.complete(None)

    @property
    def is_busy(self) -> bool:
        return self._is_serving and self._beside.is_busy  # a start waits for nothing that is deleted

    def when_idle(self) -> Completion[None]:
        return self._beside.when_idle()

    def _write_checkpoint(self, taken: TakenCheckpoint) -> None:
        statement, on_written = self._checkpoints.statement(taken)
        written = self._beside.write(lambda: statement)
        written.flat_map(lambda _: self._slices.run_own(on_written())).map(lambda _: self._send_held())

    def move_starts(self, starts: Mapping[PartitionKey, int]) -> Completion[None]:
        opened = {self._logs[key].key: (self._logs[key].opened, offset) for key, offset in starts.items()}
        offsets = {key: offset for key, (_, offset) in opened.items()}

        def on_moved(_: None) -> None:
            for log, offset in opened.values():
                log.log_start_offset = offset

        return self._beside.write(lambda: MoveStarts(self._epoch, offsets), is_repeated=False).map(on_moved)

    def _delete(self, logs: Mapping[LogKey, Iterable[ChunkRow]]) -> Completion[None]:
        for path in map(damage_path, logs):
            if self._found.blobs.pop(path, None) is not None:
                self._beside.write(lambda path=path: WriteBlob(self._epoch, path, None))  # type: ignore[misc]
        return self._deletions.delete(logs)

    # -- the rest

    def await_successor(self, *, is_there: bool) -> None:
        """Note whether another node stands by."""
        self._checkpoints.is_awaited = is_there

    def volume_bytes(self) -> tuple[int, int]:
        return _UNKNOWN_VOLUME

    def figures(self) -> Mapping[str, float]:
        checkpoints, cache = self._checkpoints, self._cache
        return {
            "tables_bytes": self._tables_bytes,
            "tables_journal_bytes": checkpoints.journal_bytes,
            "tables_cache_bytes": cache.held_bytes,
            "tables_checkpoints": checkpoints.written_count,
            "tables_checkpoint_bytes": checkpoints.written_bytes,
            "tables_checkpoint_age_seconds": (self._clock.monotonic_ms() - checkpoints.written_at_ms) / 1000,
            "tables_fetches": cache.fetched_count,
            "tables_fetched_bytes": cache.fetched_bytes,
            "tables_repeats": self._statements.repeat_count,
            "tables_lease_left_seconds": self.lease.left_ms / 1000,
            **self.outbox.figures(),
        }

    def _measure(self) -> None:
        def on_answer(answer: Completion[int]) -> None:
            if answer.error is None:
                self._tables_bytes = answer.result()

        self._statements.ask(MeasureTables()).then(on_answer)

    def step(self, logs: Iterable[LogView]) -> None:
        if self._failure is not None or not self._is_serving:
            return
        if self._in_flight is None and not self._sections:
            taken = self._checkpoints.take(self._number)
            if taken is not None:
                self._write_checkpoint(taken)
        if self._measures.take(_MEASURE_MS):
            self._measure()
        if self.cleaner is None or not self.cleaner.is_busy:
            self._joiner.step(logs)
        if self.cleaner is not None and not self._joiner.is_busy:
            self.cleaner.step(logs)
            self._cleaned.step()

    def _keep_cleaned(self, offsets: bytes) -> Completion[None]:
        return self._beside.write(lambda: WriteBlob(self._epoch, cleaned.PATH, offsets))

    def _rewriting_of(self, view: LogView, log: SharedLog) -> "Rewriting[Any, Any]":
        from oncelog.broker.storage.shared.rewriting import SharedRewriting  # not needed at startup

        return SharedRewriting(log, self._aside)

    def set_up_compaction(self, memory_bytes: int, backoff_ms: int) -> None:
        if self.cleaner is not None:
            self.cleaner.set_up(memory_bytes, backoff_ms)

    def close(self, producers: Mapping[PartitionKey, ProducerStateManager], *, cleanly: bool) -> OSError | None:
        self._joiner.stop()
        if self.cleaner is not None:
            self.cleaner.stop()
        self.lease.end()
        if self.trouble is not None:
            return self.trouble.error
        if self._in_flight is not None:
            if self._acknowledged == self._number:
                return OSError("the last records are stored, and PostgreSQL has not confirmed the lease since")
            return OSError("PostgreSQL has not answered yet")
        try:
            self.lease.give_back()
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
    space_listener: SpaceListener | None = None,
    stopwatch: Stopwatch | None = None,
    outage_listener: OutageListener | None = None,
    held: HeldLease | None = None,
    on_seen: Callable[[Lease], None] = lambda _: None,
) -> Sliced[SharedLogStore]:
    """Take the lease, unless it is `held`, and open a store over what was committed. While the lease is waited for,
    `on_seen` is called with the lease as it is. Raises OSError."""
    terms = terms or LeaseTerms()
    if held is None:
        statements = Statements(tables, scheduler, clock, outage_listener)
        taken = yield from take_lease(statements, clock, scheduler, terms, lambda seen, _: on_seen(seen))
        held = keep_lease(statements, clock, scheduler, taken, terms)
    statements, taken, lease = held.statements, held.taken, held.keeper
    gap: JournalGap | None = None
    try:
        found = yield from find(statements, taken.epoch)
    except JournalGap as error:
        gap = error
    if gap is not None:
        confirmed = statements.renew(RenewLease(taken.epoch, terms.lease_ms))
        yield confirmed
        confirmed.result()  # Fenced, if it was read in parts before and after another leader has emptied the journal
        raise gap
    return SharedLogStore(
        statements, taken, found, lease, clock, scheduler, on_failure, compaction, sizes, space_listener, stopwatch
    )
