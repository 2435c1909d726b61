"""All partition logs of this node.

Owns: the open logs, retention, the expiry of idle producers, the order of a clean stop. Does not own: which partitions
should exist (`broker.cluster.topics`), how records are stored (`broker.log.store`).
Invariant: a partition has at most one open log.
"""

from collections.abc import Callable, Iterator, Mapping, Set
from uuid import UUID

from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.partition_log import PartitionListener, PartitionLog
from oncelog.broker.log.rounds import Rounds
from oncelog.broker.log.store import LogStore, OpenedLog, Withdrawn
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Clock, WallMs
from oncelog.broker.turns.schedule import Schedule
from oncelog.broker.turns.slices import PARTITIONS_AN_ELEMENT, Sliced
from oncelog.protocol.errors import ErrorCode, KafkaError

_NONE: frozenset[int] = frozenset()
_PRODUCER_EXPIRY_INTERVAL_MS = 600_000
_WITHDRAWN_AT_ONCE = 64
_DELETED_LOG_ELEMENTS = 4
"""Measured: closing an open log takes up to 20 µs."""


class LogManager:
    def __init__(
        self,
        store: LogStore,
        rounds: Rounds,
        listener: PartitionListener,
        clock: Clock,
        *,
        on_damage: Callable[[PartitionLog, str], None] | None = None,
        retention_check_interval_ms: int = 300_000,
    ) -> None:
        """`on_damage` is called for each log that goes offline after its recovery, with the reason."""
        self.store = store
        self._rounds = rounds
        self._listener = listener
        self._clock = clock
        self._on_damage = on_damage
        self._offline: dict[str, set[int]] = {}
        """Few, and asked for by each Metadata."""
        self._logs: dict[tuple[str, int], PartitionLog] = {}
        self._retention_check_interval_ms = retention_check_interval_ms
        self._retention = Schedule(clock)
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
        """Recover the log of a partition at startup; returns the log if it is already open."""
        log = self._logs.get((topic, partition))
        if log is None:
            opened = self.store.open(topic, partition, topic_id, config)
            if isinstance(opened, Completion):
                yield opened
                opened = opened.result()
            log = self._add(topic, partition, topic_id, config, opened)
        return log

    def create(self, topic: str, partition: int, topic_id: UUID, config: LogConfig) -> PartitionLog:
        """The log of a new partition: neither in the store nor open."""
        return self._add(topic, partition, topic_id, config, self.store.create(topic, partition, topic_id, config))

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
            on_damage=self._on_offline,
        )
        self._logs[topic, partition] = log
        if log.offline_error is not None:
            self._offline.setdefault(topic, set()).add(partition)
        return log

    def _on_offline(self, log: PartitionLog, problem: str) -> None:
        if self._logs.get((log.topic, log.partition)) is log:
            self._offline.setdefault(log.topic, set()).add(log.partition)
        if self._on_damage is not None:
            self._on_damage(log, problem)

    def complete_recovery(self) -> None:
        """Every log in the store is open."""
        if not self._offline:
            self.store.complete_recovery()

    # -- deleting topics

    def withdraw(self, topic: str, topic_id: UUID, partition_count: int) -> Sliced[Withdrawn]:
        """Remove a topic's partitions; waiters get UNKNOWN_TOPIC_OR_PARTITION. When done, the name is free and the
        records await `delete`."""
        withdrawn = Withdrawn(topic, topic_id, [])
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
                yield from self.store.withdraw(withdrawn, opened)
        return withdrawn

    def delete(self, withdrawn: Withdrawn) -> Sliced[bool]:
        """Delete the records of a topic; returns whether all are gone. The next start deletes what is left."""
        yield from self.store.delete(withdrawn)
        return withdrawn.all_gone

    # -- shrinking

    def delete_records(self, log: PartitionLog, before_offset: int) -> Completion[None]:
        """Advance the log start offset (DeleteRecords); completes once it is durable. If it fails with KafkaError,
        nothing has changed."""
        try:
            log.check_log_start(before_offset)
        except KafkaError as error:
            return Completion.failed(error)
        if before_offset <= log.log_start_offset:
            return Completion.of(None)
        moved: Completion[None] = Completion()

        def on_moved(done: Completion[None]) -> None:
            if done.error is None:
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
                log.stored.maybe_roll()
        durable = self.store.move_starts({(log.topic, log.partition): offset for log, offset in starts.items()})

        def show(_: None) -> None:
            for log, offset in starts.items():
                if not log.is_deleted:
                    log.advance_log_start(offset)

        return durable.map(show)

    # -- background work

    def step(self) -> None:
        """One background turn: retention, producer expiry and the store's own work, each when it is due."""
        self.store.step()
        if self._retention.take(self._retention_check_interval_ms):
            self.apply_retention(self._clock.wall_ms())
        if self._expiry.take(_PRODUCER_EXPIRY_INTERVAL_MS):
            for log in self._logs.values():
                log.expire_producers()

    def apply_retention(self, wall_ms: WallMs) -> None:
        """Apply retention by time and size to every log; on a full disk, retry the next time."""
        if self._is_retaining:
            return
        starts: dict[PartitionLog, int] = {}
        for log in self._logs.values():
            if log.offline_error is None:
                new_start = log.stored.retention_start(log.high_watermark, wall_ms)
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
            self._rounds.failure.fail(done.error)

    # -- stopping

    def close(self) -> OSError | None:
        """Clean stop: make everything durable, and let the store write what saves the next start a scan. After a
        failure, only close.

        Returns the error that kept the stop from being clean, such as a full disk; durable records are safe anyway.
        """
        self.store.stop_background()
        problem: OSError | None = None
        if not self._rounds.failure.failed:
            try:
                self._rounds.run_now()
            except OSError as error:
                problem = error
        is_clean = problem is None and not self._rounds.failure.failed
        problem = self.store.close(cleanly=is_clean) or problem
        self._rounds.failure.end()  # timers may still be due
        return problem
