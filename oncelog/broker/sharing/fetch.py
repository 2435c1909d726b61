"""One request for the records of share-partitions, from its partitions to the records that its member has acquired.

Owns: its state, the wait for records, the order of the walk and how bytes and records are divided. Does not own: what
is acquired (`broker.sharing.partition`), sessions, rights, the response beyond its partitions (`handlers.share_fetch`).
Invariants
- Records are acquired in the turn in which they are answered, or in which the read of the last of them has ended: for a
  client that is still there, by the request that its session has now. Otherwise nothing is acquired: its member would
  not know of it, and others would wait for the locks to expire.
- While it waits it only counts, as a Fetch does: records are read once, after the wait.

It ends its wait as Kafka's DelayedShareFetch: with `min_bytes` in all partitions that have room for more, with an error
of a log, once no partition is left, or with its time, when it takes what there is. A partition begins a slice of
`max_bytes` of its own, so that none starves; the walk begins at another one in each request of a session.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from oncelog.broker.log.partition_log import Records
from oncelog.broker.log.values import FetchIsolation
from oncelog.broker.sharing.partition_life import Reading, SharePartitionLife, Wanted
from oncelog.broker.sharing.sessions import PartitionId, ShareSession
from oncelog.broker.sharing.values import AcquiredRecords
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from oncelog.broker.sharing.manager import SharePartitionManager
    from oncelog.broker.sharing.ports import SharePeer
    from oncelog.broker.turns.ports import Scheduler, Timer

T = TypeVar("T")


class FetchedRecords(NamedTuple):
    """What the response has of a partition."""

    code: ErrorCode
    records: bytes | memoryview = b""
    acquired: Sequence[AcquiredRecords] = ()


Fetched = Mapping[PartitionId, FetchedRecords]


class ShareFetchLimits(NamedTuple):
    """What a request says of how much it wants."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    acquire_mode: int
    isolation: FetchIsolation


class _State(Enum):
    WAITING = 0
    """There is too little: whatever moves is counted again."""
    READING = 1
    """Its partitions are read, and held meanwhile."""
    ENDED = 2


class ShareFetch:
    """A RecordsWaiter of its partitions, and the ShareWaiter of its session."""

    __slots__ = (
        "_done",
        "_errors",
        "_found",
        "_has_read",
        "_is_due",
        "_limits",
        "_lives",
        "_member_id",
        "_peer",
        "_pending_count",
        "_scheduler",
        "_session",
        "_state",
        "_timer",
    )

    def __init__(
        self, scheduler: "Scheduler", peer: "SharePeer", session: ShareSession, limits: ShareFetchLimits
    ) -> None:
        self._scheduler = scheduler
        self._peer = peer
        self._session = session
        self._member_id = session.key.member_id
        self._limits = limits
        self._lives: dict[PartitionId, SharePartitionLife] = {}
        self._errors: dict[PartitionId, KafkaError] = {}
        self._found: list[tuple[PartitionId, Reading, Records | Completion[Records]]] = []
        """What was read, or is."""
        self._has_read = False
        self._pending_count = 0
        self._state = _State.WAITING
        self._is_due = False
        self._timer: Timer | None = None
        self._done: Completion[Fetched] = Completion()

    def begin(
        self, manager: "SharePartitionManager", partitions: Sequence[PartitionId], session_epoch: int
    ) -> Completion[Fetched]:
        """Return a completion of those partitions that have records or an error. Fails with
        INVALID_SHARE_SESSION_EPOCH if another request of the session, or its end, comes first."""
        limits = self._limits
        if not partitions or limits.max_records <= 0 or limits.max_bytes <= 0:
            return Completion.of({})
        self._session.waiter = self
        for each in rotated(partitions, session_epoch):
            try:
                life = manager.partition(self._session.key.group_id, each)
            except KafkaError as error:
                self._errors[each] = error
            else:
                self._lives[each] = life
                life.watch(self)
        if self._state is _State.WAITING:
            self._go_on(is_last=limits.max_wait_ms <= 0)
        if self._state is _State.WAITING:
            self._timer = self._scheduler.call_later(limits.max_wait_ms, self._on_time_up)
        if self._state is not _State.ENDED:
            self._peer.on_disconnect = self._on_replaced_or_left
        return self._done

    # -- the wait

    def on_moved(self) -> None:
        """Go on after this turn: other partitions of the same flush round belong to the response."""
        if self._state is _State.WAITING and not self._is_due:
            self._is_due = True
            self._scheduler.call_soon(self._on_due)

    def on_ended(self, partition: PartitionId, error: KafkaError) -> None:
        """See `RecordsWaiter`."""
        if self._state is _State.WAITING:
            self._lives.pop(partition, None)
            self._errors[partition] = error
            self.on_moved()

    def _on_due(self) -> None:
        self._is_due = False
        if self._state is _State.WAITING:
            self._go_on(is_last=False)

    def _on_time_up(self) -> None:
        if self._state is _State.WAITING:
            self._go_on(is_last=True)

    def on_replaced(self) -> None:
        """See `ShareWaiter`."""
        self._on_replaced_or_left()

    def _on_replaced_or_left(self) -> None:
        if self._state is not _State.ENDED:
            self._leave()
            self._done.fail(KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH))

    # -- the walk

    def _go_on(self, *, is_last: bool) -> None:
        readings: dict[PartitionId, Reading] = {}
        has_failed = not self._lives
        for each, life in tuple(self._lives.items()):
            try:
                reading = life.plan(self._limits.isolation)
            except KafkaError as error:
                self._errors[each] = error
                has_failed = True
            else:
                if reading is not None:
                    readings[each] = reading
        if is_last or has_failed or (readings and self._has_enough(readings)):
            self._read(readings)

    def _has_enough(self, readings: Mapping[PartitionId, Reading]) -> bool:
        available_bytes = 0
        slices = divided(self._limits.max_bytes, len(readings))
        for (each, reading), slice_bytes in zip(readings.items(), slices, strict=True):
            try:
                available_bytes += min(self._lives[each].readable_bytes(reading), slice_bytes)
            except KafkaError as error:
                self._errors[each] = error
                return True
        return available_bytes >= self._limits.min_bytes

    def _read(self, readings: Mapping[PartitionId, Reading]) -> None:
        self._state = _State.READING
        slices = divided(min(self._limits.max_bytes, self._peer.next_response_bytes), len(readings))
        for (each, reading), slice_bytes in zip(readings.items(), slices, strict=True):
            if each in self._errors:
                continue
            try:
                records = self._lives[each].read(reading, slice_bytes, at_least_one=not self._has_read)
            except KafkaError as error:
                self._errors[each] = error
                continue
            self._found.append((each, reading, records))
            self._has_read = self._has_read or isinstance(records, Completion) or len(records[0]) > 0
        pending = [late for _, _, late in self._found if isinstance(late, Completion)]
        if not pending:
            self._end()
            return
        self._pending_count = len(pending)
        for found in self._found:
            self._lives[found[0]].hold()
        for late in pending:
            late.then(self._on_read)

    def _on_read(self, _: Completion[Records]) -> None:
        self._pending_count -= 1
        if self._pending_count:
            return
        if self._state is _State.READING:
            self._end()
        for found in self._found:
            self._lives[found[0]].release_hold()

    def _end(self) -> None:
        """Everything is read: acquire what there is room for, and answer."""
        limits = self._limits
        fetched: dict[PartitionId, FetchedRecords] = {}
        records_left = limits.max_records
        for each, reading, found in self._found:
            try:
                read = found.result() if isinstance(found, Completion) else found
            except KafkaError as error:
                if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:  # the start has moved: the next request follows it
                    self._errors[each] = error
                continue
            wanted = Wanted(records_left, limits.batch_size, limits.acquire_mode)
            batches = self._lives[each].acquire(self._member_id, wanted, reading, read)
            records_left -= sum([acquired.record_count for acquired in batches.acquired])
            fetched[each] = FetchedRecords(ErrorCode.NONE, *batches)
        for each, refusal in self._errors.items():
            fetched[each] = FetchedRecords(refusal.code)
        self._leave()
        self._done.complete(fetched)

    def _leave(self) -> None:
        self._state = _State.ENDED
        if self._timer is not None:
            self._timer.cancel()
        if self._session.waiter is self:
            self._session.waiter = None
        self._peer.on_disconnect = None
        for life in self._lives.values():
            life.unwatch(self)


def rotated(items: Sequence[T], session_epoch: int) -> Sequence[T]:
    """Return the items in their order, from another one on in each request of a session."""
    if session_epoch < 1 or len(items) < 2:
        return items
    first = session_epoch % len(items)
    return (*items[first:], *items[:first])


def divided(max_bytes: int, count: int) -> Sequence[int]:
    """Return as many slices of `max_bytes` with the same size, but for the first one, which has the rest, too; where
    there are too few bytes for that, the first ones have one each."""
    if max_bytes < count:
        return [int(number < max_bytes) for number in range(count)]
    each, rest = divmod(max_bytes, count) if count else (0, 0)
    return [each + rest if number == 0 else each for number in range(count)]
