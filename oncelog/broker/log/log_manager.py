"""All partition logs of this node.

Owns: the open logs, retention, the expiry of idle producers, the order of a clean stop. Does not own: which partitions
should exist (`broker.cluster.topics`), how records are stored (`broker.log.store`).
Invariant: a partition has at most one open log.
"""

from collections.abc import Callable, Iterator, Mapping, Set
from typing import TYPE_CHECKING, Any
from uuid import UUID

from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.log.rounds import Rounds
from oncelog.broker.log.store import LogStore, OpenedLog, PartitionKey, Removal
from oncelog.broker.turns.completion import Completion, all_of
from oncelog.broker.turns.ports import Clock, WallMs
from oncelog.broker.turns.schedule import Schedule
from oncelog.broker.turns.slices import PARTITIONS_AN_ELEMENT, Sliced
from oncelog.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from oncelog.broker.log.listeners import PartitionListener

_NONE: frozenset[int] = frozenset()
_WITHDRAWN_AT_ONCE = 64
_DELETED_LOG_ELEMENTS = 4
"""Measured: closing an open log takes up to 20 µs."""


class LogManager:
    def __init__(
        self,
        store: LogStore,
        rounds: Rounds,
        listener: "PartitionListener",
        clock: Clock,
        *,
        on_damage: Callable[[PartitionLog, str], None] | None = None,
        initial_task_delay_ms: int = 0,
        retention_check_interval_ms: int = 300_000,
        producer_check_interval_ms: int = 600_000,
    ) -> None:
        """`on_damage` is called for each log that goes offline after its recovery, with the reason."""
        self.store = store
        self._rounds = rounds
        self._listener = listener
        self._clock = clock
        self._on_damage = on_damage
        self._loss_watchers: list[Callable[[str, int], None]] = []
        self._offline: dict[str, set[int]] = {}
        """Few, and asked for by each Metadata."""
        self._logs: dict[PartitionKey, PartitionLog] = {}
        self._pending: dict[PartitionKey, Completion[Any]] = {}
        """Logs that the store is opening or releasing: who wants to open one waits for that."""
        self._retention_check_interval_ms = retention_check_interval_ms
        self._producer_check_interval_ms = producer_check_interval_ms
        self._retention = Schedule(clock, first_in_ms=initial_task_delay_ms)
        self._is_retaining = False
        self._expiry = Schedule(clock)

    @property
    def logs(self) -> Iterator[PartitionLog]:
        return iter(self._logs.values())

    def get(self, topic: str, partition: int) -> PartitionLog | None:
        return self._logs.get((topic, partition))

    def offline_of(self, topic: str) -> Set[int]:
        """The partitions of a topic whose files cannot be used."""
        return self._offline.get(topic, _NONE)

    @property
    def offline_count(self) -> int:
        return sum(map(len, self._offline.values()))

    def open(self, topic: str, partition: int, topic_id: UUID, config: LogConfig) -> Sliced[PartitionLog]:
        """The log of a partition that this node leads now, recovered by the store; at once if it is already open."""
        key = topic, partition
        while (pending := self._pending.get(key)) is not None:
            yield pending
        log = self._logs.get(key)
        if log is None:
            opened = self.store.open(topic, partition, topic_id, config)
            if isinstance(opened, Completion):
                self._pending[key] = opened
                yield opened
                del self._pending[key]
                opened = opened.result()
            log = self._add(topic, partition, topic_id, config, opened)
        return log

    def _add(self, topic: str, partition: int, topic_id: UUID, config: LogConfig, opened: OpenedLog) -> PartitionLog:
        log = PartitionLog(
            topic,
            partition,
            topic_id,
            config,
            opened,
            self._rounds,
            self._listener,
            self._clock,
            keeper=self,
        )
        self._logs[topic, partition] = log
        if log.offline_error is not None:
            self._offline.setdefault(topic, set()).add(partition)
        return log

    def watch_losses(self, on_lost: Callable[[str, int], None]) -> None:
        """Call `on_lost(topic, partition)` when the store finds that another node leads a partition."""
        self._loss_watchers.append(on_lost)

    def on_lost(self, log: PartitionLog) -> None:
        """See `LogKeeper`."""
        for on_lost in self._loss_watchers:
            on_lost(log.topic, log.partition)

    def on_offline(self, log: PartitionLog, problem: str) -> None:
        """See `LogKeeper`."""
        if self._logs.get((log.topic, log.partition)) is log:
            self._offline.setdefault(log.topic, set()).add(log.partition)
        if self._on_damage is not None:
            self._on_damage(log, problem)

    def begin_serving(self) -> None:
        """Every log that the store holds is open."""
        self.store.begin_serving(is_recovered=not self._offline)

    # -- giving logs away, and deleting them

    def resign(self, topic: str, partition: int) -> Completion[None]:
        """Another node leads a partition: waiters get NOT_LEADER_OR_FOLLOWER. Completes once the store has let go."""
        key = topic, partition
        log = self._logs.pop(key, None)
        if log is None:
            return Completion.of(None)
        self._offline.get(topic, set()).discard(partition)
        log.resign()
        released = self.store.release(topic, partition, log.producer_state)
        if not released.done:
            self._pending[key] = released
            released.then(lambda _: self._end_pending(key))
        return released

    def _end_pending(self, key: PartitionKey) -> None:
        del self._pending[key]

    def withdraw(self, topic: str, partition_count: int, removal: Removal) -> Sliced[None]:
        """Remove a topic's partitions; waiters get UNKNOWN_TOPIC_OR_PARTITION. When done, the name is free and the
        records await `Removal.delete`."""
        self._offline.pop(topic, None)
        for start in range(0, partition_count, _WITHDRAWN_AT_ONCE):
            opened = []
            for partition in range(start, min(start + _WITHDRAWN_AT_ONCE, partition_count)):
                # Never opened: a directory of this name is not this topic's.
                log = self._logs.pop((topic, partition), None)
                if log is not None:
                    log.on_deleted()
                    opened.append(partition)
            yield _WITHDRAWN_AT_ONCE // PARTITIONS_AN_ELEMENT + len(opened) * _DELETED_LOG_ELEMENTS
            if opened:
                yield from removal.withdraw(opened)

    # -- shrinking

    def delete_records(self, log: PartitionLog, before_offset: int) -> Completion[None]:
        """Advance the log start offset (DeleteRecords); completes once it is durable. If it fails with KafkaError,
        nothing has changed, or the log was closed meanwhile."""
        try:
            log.check_log_start(before_offset)
        except KafkaError as error:
            return Completion.failed(error)
        if before_offset <= log.log_start_offset:
            return Completion.of(None)
        moved: Completion[None] = Completion()

        def on_moved(done: Completion[None]) -> None:
            refusal = log.refusal()
            if refusal is not None:
                moved.fail(refusal)
            elif done.error is None:
                moved.complete(None)
            else:
                problem = f"the new log start is not durable: {done.error}"
                moved.fail(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, problem))

        self._move_starts({log: before_offset}).then(on_moved)
        return moved

    def _move_starts(self, starts: Mapping[PartitionLog, int]) -> Completion[None]:
        """Make new log start offsets durable, then publish them and release the records below: a crash must not revert
        what readers have seen. If it fails with OSError, nothing has changed."""
        for log, offset in starts.items():
            if offset == log.log_end_offset:  # at once: what comes meanwhile must not share a segment with what goes
                log.stored.maybe_roll(log.producer_state, is_kept=False)
        durable = self.store.move_starts({(log.topic, log.partition): offset for log, offset in starts.items()})

        def show(_: None) -> None:
            for log, offset in starts.items():
                if not log.is_closed:
                    log.advance_log_start(offset)

        return durable.map(show)

    # -- background work

    def step(self) -> None:
        """One background turn: retention, producer expiry and the store's own work, each when it is due."""
        self.store.step(self._logs.values())
        if self._retention.take(self._retention_check_interval_ms):
            self.apply_retention(self._clock.wall_ms())
        if self._expiry.take(self._producer_check_interval_ms):
            for log in self._logs.values():
                log.expire_producers()

    def apply_retention(self, wall_ms: WallMs) -> None:
        """Apply retention by time and size to every log; on a full disk, retry the next time."""
        if self._is_retaining:
            return
        starts: dict[PartitionLog, int] = {}
        for log in self._logs.values():
            if log.offline_error is None:
                new_start = log.stored.retention_start(log.config, log.high_watermark, wall_ms)
                if new_start is not None and new_start > log.log_start_offset:
                    starts[log] = new_start
                else:
                    log.reclaim()  # what a full disk has left
        if starts:
            self._is_retaining = True
            self._move_starts(starts).then(self._on_retained)

    def _on_retained(self, done: Completion[None]) -> None:
        self._is_retaining = False
        if isinstance(done.error, OSError):
            self.store.on_background_error(done.error)

    # -- stopping

    def settle(self, *, is_handover: bool) -> Sliced[None]:
        """Wait for the round in flight, for later appends, and, unless another node waits for us, for what the store
        does beside them, such as a checkpoint; a failed disk never completes."""
        ends = None
        while ends != (ends := [log.log_end_offset for log in self.logs]):  # what is durable may append more
            yield all_of([log.when_durable(log.log_end_offset) for log in self.logs if not log.offline_error])
        while self.store.is_busy and not is_handover:
            yield self.store.when_idle()

    @property
    def is_settled(self) -> bool:
        """Whether everything that has been appended is durable now."""
        return all(log.high_watermark == log.log_end_offset for log in self.logs if log.offline_error is None)

    def close(self) -> OSError | None:
        """Clean stop: make everything durable, and let the store write what saves the next start a scan. After a
        failure, only close.

        Returns the error that kept the stop from being clean, such as a full disk; durable records are safe anyway.
        """
        problem: OSError | None = None
        if not self._rounds.is_over:
            try:
                self._rounds.run_now()
            except OSError as error:
                problem = error
        is_clean = problem is None and not self._rounds.is_over
        producers = {key: log.producer_state for key, log in self._logs.items() if log.offline_error is None}
        problem = self.store.close(producers, cleanly=is_clean) or problem
        self._rounds.end()
        return problem
