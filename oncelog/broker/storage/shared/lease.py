"""The lease: how a broker gets it, keeps it, and gives it back.

Owns: when a lease may be taken, when it is renewed, and until when its owner may count on it. Does not own: what it
protects: every statement checks the epoch itself (`tables`), so a broker that is wrong about its lease writes nothing,
and at worst reads old data.

A lease is free once it was given back, or not renewed for its whole time, by the clock of the observer: that of the
database may be set. While its owner is alive it also has a connection open, which ends with its process: without one,
and not renewed, for a while, the lease is free before its end. That while is longer than the owner takes to notice and
to connect again.

Why the owner's reads are never old, if no monotonic clock is faster than another by more than a fifth: the lease is
free only `unattended_ms` after the answer to a look that found no connection, and after no later look has found one, or
another renewal. An owner counts from the moment in which it asked whether its connection is still there, and only from
questions that found the same connection: after a new one it renews the lease first, which every observer sees.

A database that is promoted or restored may have lost a whole leadership, and with it every sign that this broker was
deposed. So each renewal also says where the database is. If that has changed, and the lease had run out by then,
another may have led in what is lost: the lease counts as lost, and its next owner knows that it is elsewhere.

The owner of a leadership that is lost may be alive, and its epoch is known nowhere else. So the next epoch is far above
the newest one that is known, by a distance that is drawn: after the next loss it is another one. That both are the same
has a chance of one in a million, and matters only while the first of the two owners counts on its lease.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from oncelog.broker.storage.shared.statements import Fenced, Moved, RoundsLost, Statements
from oncelog.broker.storage.shared.tables import (
    LOST_EPOCHS,
    LOST_EPOCHS_SPREAD,
    NO_NODE,
    Attendance,
    AttendLease,
    GiveBackLease,
    Lease,
    LookAtLease,
    RenewLease,
    TakeLease,
    TakenLease,
)
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Clock, MonotonicMs, Scheduler, Timer
from oncelog.broker.turns.slices import Sliced
from oncelog.broker.turns.waiting import pause

_LOOK_MS = 50
_LOOK_SOON_MS = 10
"""The time between looks at a lease that its owner is about to give back."""
_LOOKS_LOST_MS = 400
"""Between two looks that are further apart than this anything may have happened."""
_ATTEND_MS = 150
_LATE_MS = 2_000
"""A question that is not answered by then is asked once more, over another connection (`tables`): packets of the first
may be dropped, and neither side knows. No third is asked, as each one slows a busy database further."""
_AT_ONCE = 2
"""Questions of one kind without an answer: as many as there are connections for them."""
_UNATTENDED_MS = 700
"""Several attempts to attend."""
_SUCCESSION_MS = 1_000
"""How long a lease that was given back is reserved for the successor."""
_RENEWALS = 5
"""Renewals in the time of one lease."""
_NO_EPOCH = -1
_COUNTED_SHARE = 0.8
"""How much of the time until others may take the lease its owner counts on."""


class LeaseHeld(OSError):
    """Another broker has the lease, and is alive."""

    def __init__(self, owner: str) -> None:
        super().__init__(f"the broker {owner} is at work on it")
        self.owner = owner


def _undrawn() -> float:
    return 0


def epoch_jump(random: Callable[[], float]) -> int:
    """Return how far the epoch moves in a database that has lost some."""
    return LOST_EPOCHS + int(random() * LOST_EPOCHS_SPREAD)


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    owner: str = "oncelog"
    """A name that no other start has; people read it."""
    lease_ms: int = 10_000
    """Owner and others must agree on both times."""
    unattended_ms: int = _UNATTENDED_MS
    """How long a lease has had no connection of its owner when it is free."""
    node_id: int = NO_NODE
    """The id of this node. It is unique, so a lease of the same id belongs to an earlier start."""
    random: Callable[[], float] = _undrawn
    """A number in [0, 1), another one each time, for `epoch_jump`."""


class Free(Enum):
    """Why a lease may be taken, as its next owner has seen it."""

    GIVEN_BACK = "its owner has given it back"
    OVER = "its owner has not renewed it for its whole time"
    UNATTENDED = "its owner has had no connection for a while, or was an earlier start of this node"


class LeaseWatch:
    """Whether a lease is free, from one look to the next."""

    def __init__(self, terms: LeaseTerms) -> None:
        self._terms = terms
        self._seen: Lease | None = None
        self._looked_at_ms = self._unrenewed_since = MonotonicMs(0)
        self._unattended_since: MonotonicMs | None = None
        self._given_back_since: MonotonicMs | None = None
        self._went_back_at: MonotonicMs | None = None

    def why_free(self, seen: Lease, asked_at_ms: MonotonicMs, answered_at_ms: MonotonicMs) -> Free | None:
        """Return why the lease is free after this look; None if it is not."""
        before, self._seen = self._seen, seen
        is_other = before is None or (before.epoch, before.renewed) != (seen.epoch, seen.renewed)
        if is_other:
            self._unrenewed_since = answered_at_ms
        if is_other or seen.is_attended or asked_at_ms - self._looked_at_ms > _LOOKS_LOST_MS:
            self._unattended_since = None
        self._looked_at_ms = answered_at_ms
        if before is not None and seen.epoch < before.epoch:
            self._went_back_at = answered_at_ms
        if self._went_back_at is not None and asked_at_ms - self._went_back_at < self._terms.unattended_ms:
            return None  # the tables are older now, and the leader so far has not noticed yet
        if not seen.renewed:
            return Free.GIVEN_BACK if self._is_ours_to_take(seen, asked_at_ms) else None
        self._given_back_since = None
        if asked_at_ms - self._unrenewed_since >= self._terms.lease_ms:
            return Free.OVER
        if seen.is_attended:
            return None
        if seen.node_id == self._terms.node_id != NO_NODE:
            return Free.UNATTENDED
        if self._unattended_since is None:
            self._unattended_since = answered_at_ms
        return Free.UNATTENDED if asked_at_ms - self._unattended_since >= self._terms.unattended_ms else None

    def _is_ours_to_take(self, seen: Lease, asked_at_ms: MonotonicMs) -> bool:
        if seen.successor in (NO_NODE, self._terms.node_id):
            return True
        if self._given_back_since is None:
            self._given_back_since = asked_at_ms
        return asked_at_ms - self._given_back_since >= _SUCCESSION_MS


def take_lease(
    statements: Statements,
    clock: Clock,
    scheduler: Scheduler,
    terms: LeaseTerms,
    on_seen: Callable[[Lease, MonotonicMs], None] = lambda _seen, _asked_at_ms: None,
    on_taken: Callable[[Lease, Free], None] = lambda _seen, _free: None,
) -> Sliced[TakenLease]:
    """Wait until the lease is free, and take it; `on_seen` is called with each look in vain and when it began,
    `on_taken` with the last, and why it was free. Raises OSError."""
    watch = LeaseWatch(terms)
    # The connection is there before it is needed: on a busy machine it takes longer to make one than a lease may go
    # without, and another node would take it from its new owner.
    statements.once(AttendLease(_NO_EPOCH))
    while True:
        asked_at_ms = clock.monotonic_ms()
        looking = statements.ask(LookAtLease())
        yield looking
        seen = looking.result()
        free = watch.why_free(seen, asked_at_ms, clock.monotonic_ms())
        if free is not None:
            jump = epoch_jump(terms.random)
            taking = statements.ask(TakeLease(seen, terms.owner, terms.lease_ms, jump, terms.node_id))
            yield taking
            taken = taking.result()
            if taken is not None:
                on_taken(seen, free)
                return taken
        on_seen(seen, asked_at_ms)
        yield pause(scheduler, _LOOK_MS if seen.wanted == NO_NODE else _LOOK_SOON_MS)


@dataclass(frozen=True, slots=True)
class HeldLease:
    """A lease that was taken, and is kept from then on: what follows may take long."""

    statements: Statements
    taken: TakenLease
    keeper: "LeaseKeeper"


def keep_lease(
    statements: Statements, clock: Clock, scheduler: Scheduler, taken: TakenLease, terms: LeaseTerms
) -> HeldLease:
    """Start to renew the lease. Call it in the turn in which it was taken."""
    return HeldLease(statements, taken, LeaseKeeper(statements, scheduler, clock, taken, terms))


class Questions:
    """The limit on a question that is asked again and again over a connection that may be silent: a second one is asked
    while the first is late, and no third."""

    def __init__(self, scheduler: Scheduler, late_ms: float, ask: Callable[[], None]) -> None:
        self._scheduler, self._late_ms, self._ask = scheduler, late_ms, ask
        self._timer: Timer | None = None
        """The timer of the question that is not late."""
        self._open_count = 0

    def begin(self) -> Callable[[], bool] | None:
        """Return a function to call when the answer is there, which returns whether it is in time; None if no question
        may be asked now."""
        if self._timer is not None or self._open_count == _AT_ONCE:
            return None
        self._open_count += 1
        timer = self._timer = self._scheduler.call_later(self._late_ms, self._on_late)

        def end() -> bool:
            self._open_count -= 1
            if self._timer is not timer:
                return False
            timer.cancel()
            self._timer = None
            return True

        return end

    def _on_late(self) -> None:
        self._timer = None
        self._ask()


class LeaseKeeper:
    """Renews the lease and attends to it until it is lost or given back."""

    def __init__(
        self, statements: Statements, scheduler: Scheduler, clock: Clock, taken: TakenLease, terms: LeaseTerms
    ) -> None:
        self._statements = statements
        self._scheduler = scheduler
        self._clock = clock
        self._epoch = taken.epoch
        self.place = taken.place
        """Where the database is, as the newest renewal has answered."""
        self._lease_ms = terms.lease_ms
        self._counted_ms = round(terms.lease_ms * _COUNTED_SHARE)
        self._counted_unattended_ms = round(terms.unattended_ms * _COUNTED_SHARE)
        self._over_at_ms = self._free_at_ms = clock.monotonic_ms()
        """When others may take the lease at the earliest, by our own clock: because it ran out, or is unattended."""
        self._connection_count = 0
        """The number of connections that have attended to the lease."""
        self._shown_count = 0
        """That number when the newest renewal was sent."""
        self._renewals = Questions(scheduler, min(_LATE_MS, terms.lease_ms / 3), self._renew)
        self._attendance = Questions(scheduler, _LATE_MS, self._attend)
        self._attending: Timer | None = None
        self._on_lost: Callable[[OSError], None] | None = None
        self._lost: OSError | None = None
        self._is_over = False
        self._confirmed: Completion[None] = Completion()
        self.successor = NO_NODE
        """The node to which it is given back."""
        scheduler.call_soon(self._renew_in_turn)  # how long it is ours is known from its answer on
        scheduler.call_soon(self._attend)

    def watch(self, on_lost: Callable[[OSError], None]) -> None:
        """Call `on_lost` when another has taken it."""
        self._on_lost = on_lost
        if self._lost is not None:
            on_lost(self._lost)

    def _renew_in_turn(self) -> None:
        if not self._is_over:
            self._scheduler.call_later(self._lease_ms / _RENEWALS, self._renew_in_turn)
            self._renew()

    def _renew(self) -> None:
        end = None if self._is_over else self._renewals.begin()
        if end is None:
            return
        asked_at_ms, connection_count = self._clock.monotonic_ms(), self._connection_count

        def on_answer(answer: Completion[str]) -> None:
            is_in_time = end()
            error = answer.error
            if error is None:
                if not is_in_time:
                    return
                place, self.place = self.place, answer.result()
                if place != self.place and not self.is_ours:
                    self._lose(Moved())
                    return
                self._over_at_ms = MonotonicMs(asked_at_ms + self._counted_ms)
                if self._shown_count != connection_count:
                    self._shown_count = connection_count
                    self._attend_again(0)  # reads wait for it
            elif isinstance(error, Fenced | RoundsLost):
                self._lose(error)

        self._statements.renew(RenewLease(self._epoch, self._lease_ms)).then(on_answer)

    def _lose(self, error: OSError) -> None:
        if self._is_over:
            return
        self._lost, self._is_over = error, True
        if self._on_lost is not None:
            self._on_lost(error)

    def _attend(self) -> None:
        """Ask once whether our connection attends to the lease: a question that the driver repeats would not say when
        it was answered."""
        end = None if self._is_over else self._attendance.begin()
        if end is None:
            return
        asked_at_ms = self._clock.monotonic_ms()

        def on_answer(answer: Completion[Attendance]) -> None:
            is_in_time = end()
            if self._is_over:
                return
            if not is_in_time:
                self._attend_again(_ATTEND_MS)
                return
            found = answer.result() if answer.error is None else Attendance.NONE
            if found is Attendance.BEGUN:
                self._connection_count += 1
            if found is Attendance.KEPT and self._shown_count == self._connection_count:
                self._confirm(asked_at_ms)
            else:  # others see that it is alive, whatever becomes of its connection
                self._renew()
            self._attend_again(_ATTEND_MS)

        self._statements.once(AttendLease(self._epoch)).then(on_answer)

    def _attend_again(self, delay_ms: int) -> None:
        if self._attending is not None:
            self._attending.cancel()
        self._attending = self._scheduler.call_later(delay_ms, self._attend)

    def _confirm(self, asked_at_ms: MonotonicMs) -> None:
        self._free_at_ms = MonotonicMs(asked_at_ms + self._counted_unattended_ms)
        if self.is_ours:
            confirmed, self._confirmed = self._confirmed, Completion()
            confirmed.complete(None)

    @property
    def left_ms(self) -> int:
        """How long this broker may count on the lease; negative once it no longer may."""
        return min(self._over_at_ms, self._free_at_ms) - self._clock.monotonic_ms()

    @property
    def is_ours(self) -> bool:
        return self.left_ms > 0 and self._lost is None

    def when_confirmed(self) -> Completion[None]:
        """Completes once it is proven that no other broker has had the lease until now; never, if that is unknown."""
        return self._confirmed

    def confirm_now(self) -> None:
        """Return if no other broker has had the lease until now. Blocks. Raises OSError."""
        if self._lost is not None:
            raise self._lost
        if not self.is_ours and self._statements.renew_now(RenewLease(self._epoch, self._lease_ms)) != self.place:
            raise Moved

    def end(self) -> None:
        """Stop renewing the lease, without giving it back."""
        self._is_over = True

    def give_back(self) -> None:
        """Release the lease, so that others need not wait for its end. Blocks. Raises OSError."""
        self._is_over = True
        self._statements.ask_now(GiveBackLease(self._epoch, self.successor))
