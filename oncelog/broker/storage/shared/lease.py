"""The lease: how a broker gets it, keeps it, and gives it back.

Owns: when a lease may be taken, and when it is renewed. Does not own: what it protects, which every statement sees to
itself (`tables`): a broker that is wrong about its lease harms nobody.

A lease is free once it was given back or is over, by the clock of the database. While its owner is alive it also has a
connection open, which ends with its process: without one for a while the lease is free before its end. That while is
longer than the owner takes to connect again.
"""

from collections.abc import Callable
from dataclasses import dataclass

from oncelog.broker.storage.shared.statements import Fenced, RoundsLost, Statements
from oncelog.broker.storage.shared.tables import GiveBackLease, Lease, LookAtLease, RenewLease, TakeLease, TakenLease
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Clock, MonotonicMs, Scheduler
from oncelog.broker.turns.slices import Sliced

_LOOK_MS = 100
_UNATTENDED_MS = 1_000
_RENEWALS = 5
"""In the time of one lease."""


class LeaseHeld(OSError):
    """Another broker has the lease, and is alive."""

    def __init__(self, owner: str) -> None:
        super().__init__(f"the broker {owner} is at work on it")
        self.owner = owner


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    owner: str = "oncelog"
    """A name that no other start has; people read it."""
    lease_ms: int = 10_000
    unattended_ms: int = _UNATTENDED_MS
    """How long a lease has had no connection of its owner when it is free."""
    on_wait: Callable[[str], None] = lambda _: None
    """Called with the owner if there is something to wait for."""


def take_lease(statements: Statements, clock: Clock, scheduler: Scheduler, terms: LeaseTerms) -> Sliced[TakenLease]:
    """Wait until the lease is free, and take it. Raises LeaseHeld as soon as another has renewed it, OSError."""
    first: Lease | None = None
    unattended_since: MonotonicMs | None = None
    while True:
        monotonic_ms = clock.monotonic_ms()
        looking = statements.ask(LookAtLease())
        yield looking
        seen = looking.result()
        if seen.is_attended:
            unattended_since = None
        elif unattended_since is None:
            unattended_since = monotonic_ms
        is_left = unattended_since is not None and monotonic_ms - unattended_since >= terms.unattended_ms
        if seen.left_ms <= 0 or is_left:
            taking = statements.ask(TakeLease(seen, terms.owner, terms.lease_ms))
            yield taking
            taken = taking.result()
            if taken is not None:
                return taken
        elif first is None:
            first = seen
            terms.on_wait(seen.owner)
        elif (seen.epoch, seen.renewed) != (first.epoch, first.renewed):
            raise LeaseHeld(seen.owner)
        pause: Completion[None] = Completion()
        scheduler.call_later(_LOOK_MS, lambda pause=pause: pause.complete(None))  # type: ignore[misc]
        yield pause


class LeaseKeeper:
    """Renews the lease until it is lost or given back."""

    def __init__(self, statements: Statements, scheduler: Scheduler, clock: Clock, epoch: int, lease_ms: int) -> None:
        self._statements = statements
        self._scheduler = scheduler
        self._clock = clock
        self._epoch = epoch
        self._lease_ms = lease_ms
        self._over_at_ms = clock.monotonic_ms()
        """By our own clock, not later than by the database's."""
        self._on_lost: Callable[[OSError], None] | None = None
        self._lost: OSError | None = None
        self._is_over = False
        scheduler.call_soon(self._renew)  # how long it is ours is known from its answer on

    def watch(self, on_lost: Callable[[OSError], None]) -> None:
        """Call `on_lost` when another has taken it."""
        self._on_lost = on_lost
        if self._lost is not None:
            on_lost(self._lost)

    def _schedule(self) -> None:
        self._scheduler.call_later(self._lease_ms / _RENEWALS, self._renew)

    def _renew(self) -> None:
        if self._is_over:
            return

        over_at_ms = MonotonicMs(self._clock.monotonic_ms() + self._lease_ms)

        def on_answer(answer: Completion[None]) -> None:
            error = answer.error
            if error is None:
                self._over_at_ms = over_at_ms
            if self._is_over:
                return
            if isinstance(error, Fenced | RoundsLost):
                self._lost, self._is_over = error, True
                if self._on_lost is not None:
                    self._on_lost(error)
                return
            self._schedule()  # without an answer too: nobody has taken it yet

        self._statements.write(RenewLease(self._epoch, self._lease_ms)).then(on_answer)

    @property
    def left_ms(self) -> int:
        """How long nobody else will have it, as far as this broker knows; negative since it knows nothing."""
        return self._over_at_ms - self._clock.monotonic_ms()

    def end(self) -> None:
        """It is left to itself."""
        self._is_over = True

    def give_back(self) -> None:
        """Others need not wait. Blocks. Raises OSError."""
        self._is_over = True
        self._statements.ask_now(GiveBackLease(self._epoch))
