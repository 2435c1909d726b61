"""One share-partition in use: it is loaded, decides, logs, applies, times out, and is dropped.

Owns: the order of these, the timer of its acquisition locks, the waiters for its records, and the reader that has it
now. Does not own: the decisions (`broker.sharing.partition`), what is durable (the share coordinator), the requests.
Invariants
- A change takes effect once the share coordinator has accepted it, in the same turn; a refused one changes nothing,
  except for locks that have expired: their time is over, even if nothing can be written. Only a record that is not to
  be delivered again stays with its member until that is written: otherwise a late acknowledgement would be refused
  because of an end that a restart undoes. A change is answered once it is durable.
- If the share coordinator says that the partition is led, reset or deleted elsewhere, this life ends, and so it does if
  an accepted change does not become durable. The next request begins another one, with the state as it is then.
- One reader at a time: one off the event loop holds the partition until it has acquired the records that it has read.

KIP-932; in Kafka a part of SharePartition, SharePartitionManager and its listeners.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from oncelog.broker.config.offset_reset import parse_offset_reset
from oncelog.broker.coordinator.share.values import UNINITIALIZED_START_OFFSET, SharePartitionKey, ShareState
from oncelog.broker.log.partition_log import PartitionLog, Records
from oncelog.broker.log.values import FetchIsolation, ReadBounds
from oncelog.broker.sharing.failures import FailedDeliveries
from oncelog.broker.sharing.fetched import read_fetched
from oncelog.broker.sharing.first_offset import first_offset
from oncelog.broker.sharing.partition import SharePartition
from oncelog.broker.sharing.sessions import PartitionId
from oncelog.broker.sharing.values import (
    AVAILABLE,
    AcknowledgementBatch,
    AcquiredRecords,
    Acquisition,
    ShareLimits,
    StateChange,
)
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.errors import ErrorCode, KafkaError, ProtocolError

if TYPE_CHECKING:
    from oncelog.broker.config.group_settings import GroupSettings, ShareGroupConfig
    from oncelog.broker.sharing.ports import SharePersister, SharingParts
    from oncelog.broker.turns.ports import Timer

_COORDINATOR_ELSEWHERE: Final = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
)
_FENCED: Final = frozenset({ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH})
_GONE: Final = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
_ENDS: Final = _FENCED | _GONE | {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.INVALID_REQUEST}
"""Errors that end this life: Kafka's fenced share-partition, and the errors of a deleted one."""
_RETRIES: Final = 4
_RETRY_MS: Final = 1_000
"""The pause between attempts. Kafka's PersisterStateManager makes 5 attempts and begins with this time. A share
coordinator that is still loading is no error that a share consumer should see."""


class RecordsWaiter(Protocol):
    """A request that waits for records of the partition."""

    def on_moved(self, partition: PartitionId) -> None:
        """There may be more records to acquire than before."""

    def on_ended(self, partition: PartitionId, error: KafkaError) -> None:
        """There are none to wait for."""


class Reading(NamedTuple):
    """The next read, decided in one turn."""

    fetch_offset: int
    bounds: ReadBounds


AcquiredBatches = tuple[memoryview, Sequence[AcquiredRecords]]
"""Some of what was read, in whole batches, and which of their records the member has acquired."""


class SharePartitionLife:
    """A Watcher of its log (`broker.fetching.purgatory`)."""

    __slots__ = (
        "_failures",
        "_has_start",
        "_is_held",
        "_key",
        "_leader_epoch",
        "_log",
        "_on_ended",
        "_partition",
        "_parts",
        "_persister",
        "_refusal",
        "_settings",
        "_state",
        "_state_epoch",
        "_timer",
        "_timer_ms",
        "_tries_left",
        "_waiters",
        "beginning",
    )

    def __init__(
        self,
        key: SharePartitionKey,
        log: PartitionLog,
        parts: "SharingParts",
        persister: "SharePersister",
        settings: "GroupSettings[ShareGroupConfig]",
        failures: FailedDeliveries,
        on_ended: "Callable[[SharePartitionLife], None]",
    ) -> None:
        self._key = key
        self._partition = PartitionId(key.topic_id, key.partition)
        self._log = log
        self._leader_epoch = log.leader_epoch
        self._parts = parts
        self._persister = persister
        self._settings = settings
        self._failures = failures
        self._on_ended = on_ended
        self._state: SharePartition | None = None
        """The state of its records; None until it is loaded."""
        self._state_epoch = -1
        self._refusal: KafkaError | None = None
        """Why this life has ended, if so."""
        self._has_start = True
        """Whether the share coordinator knows where the group has begun."""
        self.beginning: Completion[None] | None = None
        """The write of where it has begun, while that is not durable; no record is returned before."""
        self._is_held = False
        self._waiters: dict[RecordsWaiter, None] = {}
        self._timer: Timer | None = None
        self._timer_ms = 0
        self._tries_left = _RETRIES

    @property
    def key(self) -> SharePartitionKey:
        return self._key

    @property
    def state(self) -> SharePartition | None:
        """The state of its records; None until it is loaded."""
        return self._state

    # -- its beginning and its end

    def begin(self) -> None:
        self._parts.purgatory.watch(self._log, self)
        self._read_state()

    def _read_state(self) -> None:
        if self._refusal is None:
            self._persister.read(self._key, self._leader_epoch).then(self._on_read)

    def _on_read(self, read: Completion[ShareState]) -> None:
        if self._refusal is not None:
            return
        error = read.error
        if isinstance(error, KafkaError) and error.code in _COORDINATOR_ELSEWHERE and self._tries_left:
            self._tries_left -= 1
            self._parts.scheduler.call_later(_RETRY_MS, self._read_state)
            return
        if error is not None:
            self._fail(_as_answered(error) if isinstance(error, KafkaError) else error)
            return
        state = read.result()
        if state.start_offset != UNINITIALIZED_START_OFFSET:
            self._load(state)
            return
        reset = parse_offset_reset(self._settings.of(self._key.group_id).auto_offset_reset)
        found = first_offset(self._log, reset, self._parts.clock.wall_ms())
        found.then(lambda offset: self._on_first_offset(state, offset))

    def _on_first_offset(self, state: ShareState, found: Completion[int]) -> None:
        if self._refusal is not None:
            return
        if found.error is not None:
            self._fail(found.error)
        else:
            self._has_start = False
            self._load(state._replace(start_offset=found.result()))

    def _load(self, state: ShareState) -> None:
        self._state = SharePartition(state)
        self._state_epoch = state.state_epoch
        self._notify()

    def _fail(self, error: Exception) -> None:
        if not isinstance(error, KafkaError):
            raise error
        self.end(error)

    def end(self, error: KafkaError) -> None:
        """Close it and fail its waiters with `error`."""
        if self._refusal is not None:
            return
        self._refusal = error
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._parts.purgatory.unwatch(self._log, self)
        self._on_ended(self)
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters:
            waiter.on_ended(self._partition, error)

    def on_moved(self) -> None:
        """See `Watcher`."""
        error = self._log.refusal()
        if error is not None:
            self.end(error)
        else:
            self._wake()

    # -- those who wait

    def watch(self, waiter: RecordsWaiter) -> None:
        """Have the waiter notified of more records, or of the end of this life, which may have been already."""
        if self._refusal is not None:
            waiter.on_ended(self._partition, self._refusal)
        else:
            self._waiters[waiter] = None

    def unwatch(self, waiter: RecordsWaiter) -> None:
        self._waiters.pop(waiter, None)

    def _wake(self) -> None:
        """Looks once for all who wait whether there is anything to read: mostly there is not, as what was acknowledged
        or locked made no room."""
        if self._waiters and self._may_read():
            self._notify()

    def _notify(self) -> None:
        for waiter in tuple(self._waiters):
            waiter.on_moved(self._partition)

    def _may_read(self) -> bool:
        try:
            reading = self.plan(group_isolation(self._settings.of(self._key.group_id)))
            return reading is not None and self.readable_bytes(reading) > 0
        except KafkaError:
            return True  # which ends the wait

    # -- reading

    @property
    def is_held(self) -> bool:
        """Whether it is being read off the event loop."""
        return self._is_held

    def plan(self, isolation: FetchIsolation) -> Reading | None:
        """Return what to read next; None while it is loaded or read, and if as many records are in flight as there may
        be. Raises KafkaError if the log cannot be read."""
        state, log = self._state, self._log
        if state is None or self._is_held or self._refusal is not None:
            return None
        error = log.refusal()
        if error is not None:
            raise error
        if state.next_fetch_offset < log.log_start_offset:
            # Not written: the next change that is written has the new start.
            state.apply(state.move_start(log.log_start_offset))
            self._set_timer()
        if state.in_flight_count and not state.can_acquire(self._limits()):
            return None
        if log.high_watermark < log.log_end_offset:
            log.start_round_for(isolation)
        return Reading(state.next_fetch_offset, log.bounds(isolation))

    def readable_bytes(self, reading: Reading) -> int:
        """Return how many bytes a read would give, without reading. Raises KafkaError."""
        if reading.fetch_offset >= reading.bounds.upper_bound:
            return 0
        return self._log.readable_bytes(reading.fetch_offset, reading.bounds.isolation)

    def read(self, reading: Reading, max_bytes: int, *, at_least_one: bool) -> Records | Completion[Records]:
        """Raises, or fails with, KafkaError."""
        if reading.fetch_offset >= reading.bounds.upper_bound:
            return NOTHING
        return self._log.read(reading.fetch_offset, max_bytes, reading.bounds, at_least_one=at_least_one)

    def hold(self) -> None:
        """Exclude other readers while the plan is read off the event loop."""
        self._is_held = True

    def release_hold(self) -> None:
        self._is_held = False
        self._notify()

    def acquire(self, member_id: str, wanted: "Wanted", reading: Reading, read: Records) -> AcquiredBatches:
        """Acquire what a member wants of the records that were read. Raises KAFKA_STORAGE_ERROR if these are none."""
        records, aborted = read
        state = self._state
        if state is None or self._refusal is not None or not len(records) or wanted.max_records <= 0:
            return _NO_BATCHES
        limits = self._limits()
        reach = state.reach(wanted.max_records, limits)
        try:
            fetched = read_fetched(reading.fetch_offset, records, aborted, reach)
        except ProtocolError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        if fetched is None:
            return _NO_BATCHES
        monotonic_ms = self._parts.clock.monotonic_ms()
        acquisition = Acquisition(wanted.max_records, wanted.batch_size, wanted.acquire_mode, limits, monotonic_ms)
        acquired = state.acquire(member_id, acquisition, fetched)
        self._set_timer()
        if not acquired:
            return _NO_BATCHES
        if not self._has_start:
            self._write_start(state)
        start_bytes, end_bytes = fetched.bytes_of(acquired)
        return records[start_bytes:end_bytes], acquired

    def _write_start(self, state: SharePartition) -> None:
        """Unlike Kafka, which writes it with the first change: after a crash before that, a group with the setting
        `latest` would begin behind what it has been given. If it is refused, the next acquisition tries again."""
        written = self._persister.write(
            self._key, self._state_epoch, self._leader_epoch, state.start_offset, state.delivery_complete_count, ()
        )
        self._has_start = written.error is None
        if not written.done:
            self.beginning = written
            written.then(self._on_start_written)

    def _on_start_written(self, written: Completion[None]) -> None:
        self.beginning = None
        self._on_written(written)

    # -- changes

    def acknowledge(self, member_id: str, batches: Sequence[AcknowledgementBatch]) -> Completion[None]:
        """Completes once the acknowledgement is durable. Fails with KafkaError; if at once, nothing has changed."""
        state = self._state
        if state is None or self._refusal is not None:
            return Completion.failed(KafkaError(ErrorCode.INVALID_RECORD_STATE))
        try:
            change = state.acknowledge(member_id, batches, self._limits(), self._parts.clock.monotonic_ms())
        except KafkaError as error:
            return Completion.failed(error)
        written = self._commit(state, change)
        if written.error is None:
            self._failures.on_acknowledged(self._key, batches, change.runs)
        return written

    def release(self, member_id: str) -> None:
        """The session of a member has ended: what it holds is available again; if that is refused, once its locks have
        expired."""
        state = self._state
        if state is None or self._refusal is not None or not state.holds(member_id):
            return
        change = state.release(member_id, self._limits())
        if change.runs and self._commit(state, change).error is None:
            self._failures.on_lost(self._key, change.runs)

    def _on_time(self) -> None:
        self._timer = None
        state = self._state
        if state is None:
            return
        monotonic_ms = self._parts.clock.monotonic_ms()
        change = state.expire(monotonic_ms, self._limits())
        retry_ms = 0
        if change.runs and self._commit(state, change).error is not None and self._refusal is None:
            released = tuple(run for run in change.runs if run.state == AVAILABLE)
            change = change._replace(batches=(), runs=released)
            state.apply(change)
            retry_ms = monotonic_ms + _RETRY_MS
            self._wake()
        self._failures.on_lost(self._key, change.runs)
        self._set_timer(retry_ms)

    def _commit(self, state: SharePartition, change: StateChange) -> Completion[None]:
        """Write a change and apply it, in this turn; if it is refused, neither."""
        if not change.batches:
            state.apply(change)
            self._after_change()
            return Completion.of(None)
        written = self._persister.write(
            self._key,
            self._state_epoch,
            self._leader_epoch,
            change.start_offset,
            change.delivery_complete_count,
            change.batches,
        )
        error = written.error
        if error is None:
            state.apply(change)
            self._after_change()
            if not written.done:
                written.then(self._on_written)
        elif isinstance(error, KafkaError) and error.code in _ENDS:
            self.end(_as_answered(error))
        return written.map(_same, _raise_as_answered)

    def _on_written(self, written: Completion[None]) -> None:
        if isinstance(written.error, KafkaError):
            self.end(_as_answered(written.error))

    def _after_change(self) -> None:
        self._set_timer()
        self._wake()

    # -- settings and time

    def _limits(self) -> ShareLimits:
        config = self._settings.of(self._key.group_id)
        return ShareLimits(
            config.record_lock_duration_ms,
            config.delivery_count_limit,
            config.partition_max_record_locks,
            config.renew_acknowledge_enable,
        )

    def _set_timer(self, earliest_ms: int = 0) -> None:
        """A timer that fires too early is set again then: locks are taken more often than they expire."""
        locked_until_ms = None if self._state is None else self._state.next_expiry_ms()
        expiry_ms = None if locked_until_ms is None else max(locked_until_ms, earliest_ms)
        if self._timer is not None:
            if expiry_ms is not None and self._timer_ms <= expiry_ms:
                return
            self._timer.cancel()
            self._timer = None
        if expiry_ms is not None and self._refusal is None:
            self._timer_ms = expiry_ms
            delay_ms = expiry_ms - self._parts.clock.monotonic_ms()
            self._timer = self._parts.scheduler.call_later(max(0, delay_ms), self._on_time)


def group_isolation(config: "ShareGroupConfig") -> FetchIsolation:
    """Return up to where a group reads now."""
    is_committed = config.isolation_level == "read_committed"
    return FetchIsolation.TXN_COMMITTED if is_committed else FetchIsolation.HIGH_WATERMARK


class Wanted(NamedTuple):
    """The records that a request wants of one partition."""

    max_records: int
    batch_size: int
    acquire_mode: int


NOTHING: Final[Records] = (memoryview(b""), None)
_NO_BATCHES: Final[AcquiredBatches] = (memoryview(b""), ())


def _same(_: None) -> None:
    return None


def _raise_as_answered(error: KafkaError) -> None:
    raise _as_answered(error)


def _as_answered(error: KafkaError) -> KafkaError:
    """Return the error for a share consumer that an error of the share coordinator becomes, as in Kafka's
    SharePartition."""
    if error.code in _COORDINATOR_ELSEWHERE:
        return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message)
    if error.code in _FENCED:
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, error.message)
    return error if error.code in _GONE else KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, error.message)
