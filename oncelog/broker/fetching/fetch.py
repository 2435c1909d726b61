"""One Fetch, from the session that has its partitions to the response.

Owns: its state, and what moves it (`broker.fetching.states`), the wait, the order of the walk. Does not own: the sum of
available bytes (`available_bytes`), the response (`answer`), its partitions and which of them are ready (`session`).
Invariants
- While it waits it only counts: records are read once, after the wait.
- From its first wait or slice until it ends it is the waiter of its session, which reports what moves, and the request
  that continues the session.
- More than `_AT_ONCE` ready partitions are counted and read in slices (`turns.slices`). Each is planned in one turn;
  what changes later is ready for the next request.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from oncelog.broker.fetching.answer import FetchAnswer
from oncelog.broker.fetching.available_bytes import AvailableBytes
from oncelog.broker.fetching.ports import FetchContext
from oncelog.broker.fetching.rights import TopicRights
from oncelog.broker.fetching.session import FetchedPartition, FetchSession
from oncelog.broker.fetching.states import (
    ALL_READ,
    ANSWERED,
    AWAITING_READS,
    CONTINUED,
    COUNTING,
    DISCONNECTED,
    ENDING,
    ENOUGH,
    IN_PURGATORY,
    READING,
    READS_PENDING,
    REPLACED,
    TIME_UP,
    TOO_FEW,
    TURN_OVER,
    WAITING,
)
from oncelog.broker.log.values import FetchIsolation
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.fetch_response import FetchResponse

if TYPE_CHECKING:
    from oncelog.broker.turns.ports import Timer
    from oncelog.protocol.generated.fetch_request import FetchRequest

_FUTURE_LOCAL_REPLICA_ID = -3
_AT_ONCE = 100
"""This many partitions are counted and read in one turn. Measured: one without records takes some 4 µs, one with 50."""
_A_SLICE = 10
_READ_ELEMENTS = 15
"""The additional elements that a partition with records counts as."""
T = TypeVar("T")
Answered = FetchResponse | Completion[Any]
"""The response, or a completion of it."""


def slices_of(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield the items in groups that one slice of work takes."""
    return (items[start : start + _A_SLICE] for start in range(0, len(items), _A_SLICE))


class Fetch:
    """A FetchWaiter."""

    __slots__ = ("_answer", "_available", "_context", "_session", "_state", "_timer", "_waiting")

    _waiting: Completion[Answered]
    _timer: "Timer"
    """Both are set while it is in the purgatory."""

    def __init__(self, context: FetchContext, request: "FetchRequest", session: FetchSession) -> None:
        broker, authorizer = context.broker, context.broker.authorizer
        replica_id = request.replica_state.replica_id if context.api_version >= 15 else request.replica_id
        is_follower = replica_id >= 0
        if is_follower or replica_id == _FUTURE_LOCAL_REPLICA_ID:
            isolation = FetchIsolation.LOG_END
        elif request.isolation_level:
            isolation = FetchIsolation.TXN_COMMITTED
        else:
            isolation = FetchIsolation.HIGH_WATERMARK
        self._context = context
        self._session = session
        if authorizer is not None:
            session.check_rights = TopicRights(context, authorizer, is_follower=is_follower).check
            session.begin_under(authorizer.rules.version)
        session.begin(isolation)
        max_bytes = max(0, min(request.max_bytes, broker.fetch_max_bytes))
        # A follower is refused, so it waits for nothing.
        max_wait_ms = 0 if is_follower else request.max_wait_ms
        self._available = AvailableBytes(session, broker.topics, min(request.min_bytes, max_bytes), max_wait_ms)
        self._answer = FetchAnswer(context, session, max_bytes, is_follower=is_follower)
        self._state = COUNTING

    # -- the walk

    def go_on(self) -> Answered:
        """Continue from this state as far as one turn allows."""
        ready = self._session.ready
        if len(ready) <= _AT_ONCE:
            if self._state == COUNTING:
                self._available.count(ready)
                self._on_counted()
            if self._state == READING:
                self._answer.begin()
                self._answer.read(tuple(ready))
                self._on_read()
        if self._state == ANSWERED:
            return self._respond()
        return self._wait() if self._state == WAITING else self._go_on_in_slices()

    def _go_on_in_slices(self) -> Answered:
        steps = self._steps()
        next(steps)  # a generator that has not begun is closed without its `finally`
        answered: Answered = self._context.run(steps)
        return answered

    def _steps(self) -> Sliced[Answered]:
        """Do the walk in slices. Between two of them the request may be replaced."""
        self._session.waiter = self
        try:
            yield 0
            if self._state == COUNTING:
                yield from self._count_in_slices()
            if self._state == READING:
                yield from self._read_in_slices()
            if self._state == AWAITING_READS:
                yield from self._await_reads()
        finally:
            if self._state in (COUNTING, READING, AWAITING_READS):  # closed, or failed, which closes the connection
                self._on_disconnected()
        return self._wait() if self._state == WAITING else self._respond()

    def _count_in_slices(self) -> Sliced[None]:
        for partitions in slices_of(tuple(self._session.ready)):
            if self._state != COUNTING or self._available.count(partitions):
                break
            self._session.watch(partitions)
            yield len(partitions)
        if self._state == COUNTING:
            self._on_counted()

    def _read_in_slices(self) -> Sliced[None]:
        answer = self._answer
        answer.begin()
        for partitions in slices_of(tuple(self._session.ready)):
            if self._state != READING:
                return
            before = answer.read_count
            answer.read(partitions)
            yield len(partitions) + _READ_ELEMENTS * (answer.read_count - before)
        if self._state == READING:
            self._on_read()

    def _await_reads(self) -> Sliced[None]:
        for read in self._answer.pending_reads():
            yield read
            yield _READ_ELEMENTS
        if self._state == AWAITING_READS:
            self._answer.assemble_late()
            self._on_read()

    def _on_counted(self) -> None:
        self._state = (TOO_FEW if self._available.wait_ms > 0 else ENOUGH)[self._state]

    def _on_read(self) -> None:
        self._state = (READS_PENDING if self._answer.late else ALL_READ)[self._state]

    def _respond(self) -> FetchResponse:
        if self._state == REPLACED:
            return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=self._session.session_id)
        self._context.broker.fetch_sessions.release(self._session)
        return self._answer.response()

    # -- waiting

    def _wait(self) -> Completion[Answered]:
        context, session = self._context, self._session
        self._waiting = Completion()
        session.waiter = self
        session.watch(session.ready)
        self._timer = context.broker.purgatory.wait(self._available.wait_ms, self._on_time_up)
        context.peer.on_disconnect = self._on_disconnected
        return self._waiting

    def _end_wait(self) -> Completion[Answered]:
        self._context.broker.purgatory.end_wait(self._timer)
        self._context.peer.on_disconnect = None
        return self._waiting

    def _on_time_up(self) -> None:
        self._state = TIME_UP[self._state]
        self._end_wait().complete(self.go_on())

    def _on_turn_over(self) -> None:
        if self._state == ENDING:  # not timed out meanwhile, nor replaced, nor disconnected
            self._state = TURN_OVER[self._state]
            self._end_wait().complete(self.go_on())

    # -- what happens meanwhile

    def on_moved(self, partition: FetchedPartition) -> None:
        if self._state == COUNTING:
            self._available.recount(partition)
        elif self._state == WAITING and self._available.recount(partition):
            self._state = ENOUGH[self._state]
            self._context.broker.scheduler.call_soon(self._on_turn_over)

    def on_replaced(self) -> None:
        before, self._state = self._state, CONTINUED[self._state]
        if before in IN_PURGATORY:
            self._end_wait().complete(self._respond())

    def _on_disconnected(self) -> None:
        before, self._state = self._state, DISCONNECTED[self._state]
        if before in IN_PURGATORY:
            self._end_wait()
        self._context.broker.fetch_sessions.release(self._session)
