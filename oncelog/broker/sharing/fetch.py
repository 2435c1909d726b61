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
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from oncelog.broker.log.partition_log import Records
from oncelog.broker.log.values import FetchIsolation
from oncelog.broker.sharing.partition_life import NOTHING, Reading, SharePartitionLife, Wanted
from oncelog.broker.sharing.sessions import PartitionId, ShareSession
from oncelog.broker.sharing.values import AcquiredRecords
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from oncelog.broker.sharing.manager import SharePartitionManager
    from oncelog.broker.sharing.ports import SharePeer, SharingParts
    from oncelog.broker.turns.ports import Timer

T = TypeVar("T")


class FetchedRecords:
    """The part of the response for one partition."""

    __slots__ = ("acquired", "code", "records")

    def __init__(
        self, code: ErrorCode, records: memoryview | bytes = b"", acquired: Sequence[AcquiredRecords] = ()
    ) -> None:
        self.code: Final = code
        self.records: Final = records
        self.acquired: Final = acquired


_NO_RECORDS: Final = FetchedRecords(ErrorCode.NONE)
Fetched = Mapping[PartitionId, FetchedRecords]


class ShareFetchLimits(NamedTuple):
    """The limits that a request sets."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    acquire_mode: int
    isolation: FetchIsolation


class _State(Enum):
    BEGINNING = 0
    """Its partitions are counted, in slices."""
    WAITING = 1
    """There is too little: whatever moves is counted again."""
    READING = 2
    """Its partitions are read, and held meanwhile."""
    ENDED = 3


_MOST_READ: Final = 100
"""How many partitions one response has records of at most. Measured for a Fetch: one is read in some 50 µs."""
_MOST_RECORDS: Final = 10_000
"""How many records one response acquires at most, to whole batches, as all are acquired in one turn. Measured: of
batches with one record that takes 20 ms. A consumer asks for 500 by default."""
_LOOK_ELEMENTS: Final = 5


class ShareFetch:
    """A RecordsWaiter of its partitions, and the ShareWaiter of its session."""

    __slots__ = (
        "_available",
        "_available_bytes",
        "_beginnings",
        "_done",
        "_errors",
        "_found",
        "_has_failed",
        "_idle",
        "_is_due",
        "_limits",
        "_lives",
        "_member_id",
        "_moved",
        "_parts",
        "_peer",
        "_pending_count",
        "_session",
        "_state",
        "_timer",
    )

    def __init__(
        self, parts: "SharingParts", peer: "SharePeer", session: ShareSession, limits: ShareFetchLimits
    ) -> None:
        self._parts = parts
        self._peer = peer
        self._session = session
        self._member_id = session.key.member_id
        self._limits = limits
        self._lives: dict[PartitionId, SharePartitionLife] = {}
        self._available: dict[PartitionId, int] = {}
        """How many bytes there are to read of the partitions that have room for more records."""
        self._available_bytes = 0
        self._moved: dict[PartitionId, None] = {}
        """The partitions to look at again."""
        self._errors: dict[PartitionId, KafkaError] = {}
        self._has_failed = False
        """Whether a log has an error, which ends the wait."""
        self._found: list[tuple[PartitionId, Reading, Records | Completion[Records]]] = []
        """The reads, finished or pending."""
        self._idle: list[PartitionId] = []
        """The partitions with nothing to read."""
        self._beginnings: list[Completion[None]] = []
        """The writes that must be durable before the response (`SharePartitionLife.beginning`)."""
        self._pending_count = 0
        self._state = _State.BEGINNING
        self._is_due = False
        self._timer: Timer | None = None
        self._done: Completion[Fetched] = Completion()

    def fetch(
        self, manager: "SharePartitionManager", partitions: Sequence[PartitionId], session_epoch: int
    ) -> Sliced[Fetched]:
        """Return those partitions that have records or an error. Raises INVALID_SHARE_SESSION_EPOCH if another request
        of the session, or its end, comes first."""
        limits = self._limits
        if not partitions or limits.max_records <= 0 or limits.max_bytes <= 0:
            return {}
        self._session.waiter = self
        try:
            for each in rotated(partitions, session_epoch):
                self._add(manager, each)
                yield _LOOK_ELEMENTS
                if self._state is _State.ENDED:
                    break
            if self._state is _State.BEGINNING:
                self._wait()
            if not self._done.done:
                yield self._done
        finally:  # its client may be gone
            self._leave()
        for beginning in self._beginnings:
            if not beginning.done:
                yield beginning
            beginning.result()
        return self._done.result()

    def _add(self, manager: "SharePartitionManager", partition: PartitionId) -> None:
        try:
            life = manager.partition(self._session.key.group_id, partition)
        except KafkaError as error:
            self._errors[partition] = error
            return
        self._lives[partition] = life
        life.watch(self)
        self._look(partition)

    # -- the wait

    def _wait(self) -> None:
        self._state = _State.WAITING
        self._peer.on_disconnect = self.on_replaced
        if self._limits.max_wait_ms <= 0:
            self._on_time_up()
            return
        self._go_on()
        if self._state is _State.WAITING:
            self._timer = self._parts.purgatory.wait(self._limits.max_wait_ms, self._on_time_up)

    def on_moved(self, partition: PartitionId) -> None:
        """See `RecordsWaiter`. The request continues after this turn, as the response should have other partitions of
        the same flush round."""
        self._moved[partition] = None
        if self._state is _State.WAITING and not self._is_due:
            self._is_due = True
            self._parts.scheduler.call_soon(self._on_due)

    def on_ended(self, partition: PartitionId, error: KafkaError) -> None:
        """See `RecordsWaiter`."""
        if self._state in (_State.BEGINNING, _State.WAITING):
            self._lives.pop(partition, None)
            self._errors[partition] = error
            self.on_moved(partition)

    def _on_due(self) -> None:
        self._is_due = False
        if self._state is _State.WAITING:
            self._go_on()

    def _on_time_up(self) -> None:
        if self._state is _State.WAITING:
            self._read()

    def on_replaced(self) -> None:
        """See `ShareWaiter`; the same if its client has left."""
        if self._state is not _State.ENDED:
            self._leave()
            self._done.fail(KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH))

    # -- the walk

    def _look_at_moved(self) -> None:
        moved, self._moved = self._moved, {}
        for each in moved:
            self._look(each)

    def _go_on(self) -> None:
        self._look_at_moved()
        has_enough = bool(self._available) and self._available_bytes >= self._limits.min_bytes
        if has_enough or self._has_failed or not self._lives:
            self._read()

    def _look(self, partition: PartitionId) -> Reading | None:
        """Count what there is to read of a partition; return None if there is no room for it."""
        self._available_bytes -= self._available.pop(partition, 0)
        life = self._lives.get(partition)
        if life is None:
            return None
        try:
            reading = life.plan(self._limits.isolation)
            if reading is not None:
                self._available[partition] = life.readable_bytes(reading)
                self._available_bytes += self._available[partition]
        except KafkaError as error:
            self._errors[partition] = error
            self._has_failed = True
            return None
        return reading

    def _read(self) -> None:
        self._state = _State.READING
        readings = self._to_read()
        readable = [each for each, _ in readings if self._available[each]][:_MOST_READ]
        max_bytes = min(self._limits.max_bytes, self._peer.next_response_bytes)
        slices = dict(zip(readable, divided(max_bytes, len(readable)), strict=True))
        pending: list[Completion[Records]] = []
        for each, reading in readings:
            records: Records | Completion[Records] = NOTHING
            if each in slices:
                try:
                    at_least_one = each == readable[0]
                    records = self._lives[each].read(reading, slices[each], at_least_one=at_least_one)
                except KafkaError as error:
                    self._errors[each] = error
                    continue
            self._found.append((each, reading, records))
            if isinstance(records, Completion):
                pending.append(records)
        if not pending:
            self._end()
            return
        self._pending_count = len(pending)
        for found in self._found:
            self._lives[found[0]].hold()
        for late in pending:
            late.then(self._on_read)

    def _to_read(self) -> list[tuple[PartitionId, Reading]]:
        """Return what has records, and note what has none: of thousands of partitions few have moved since."""
        self._look_at_moved()
        readings: list[tuple[PartitionId, Reading]] = []
        for each in self._lives:
            size_bytes = self._available.get(each)
            if size_bytes == 0:
                self._idle.append(each)
            elif size_bytes is not None:
                # What others have acquired since it was counted is not there any more.
                reading = self._look(each)
                if reading is not None:
                    readings.append((each, reading))
        return readings

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
        fetched: dict[PartitionId, FetchedRecords] = dict.fromkeys(self._idle, _NO_RECORDS)
        records_left = min(limits.max_records, _MOST_RECORDS)
        for each, reading, found in self._found:
            wanted = Wanted(records_left, limits.batch_size, limits.acquire_mode)
            try:
                read = found.result() if isinstance(found, Completion) else found
                records, acquired = self._lives[each].acquire(self._member_id, wanted, reading, read)
            except KafkaError as error:
                if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:  # the start has moved: the next request follows it
                    self._errors[each] = error
                continue
            beginning = self._lives[each].beginning
            if beginning is not None:
                self._beginnings.append(beginning)
            records_left -= sum([records_of.record_count for records_of in acquired])
            fetched[each] = FetchedRecords(ErrorCode.NONE, records, acquired)
        for each, refusal in self._errors.items():
            fetched[each] = FetchedRecords(refusal.code)
        self._leave()
        self._done.complete(fetched)

    def _leave(self) -> None:
        if self._state is _State.ENDED:
            return
        self._state = _State.ENDED
        if self._timer is not None:
            self._parts.purgatory.end_wait(self._timer)
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
