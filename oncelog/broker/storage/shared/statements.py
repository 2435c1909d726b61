"""Sends statements until they are answered, and knows when there is no point in it any more.

Owns: the repetition, for as long as the patience lasts. Does not own: what an answer means.
"""

from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from oncelog.broker.storage.shared.outage import Outage, OutageListener
from oncelog.broker.storage.shared.tables import (
    AppendRound,
    FindRound,
    FollowMetadata,
    ForgetPlace,
    FoundRound,
    Lease,
    LookAtLease,
    LookAtNodes,
    ReadBlobs,
    ReadCatalogue,
    ReadRounds,
    Refused,
    RenewLease,
    Statement,
    Tables,
    TakeLease,
    Unanswered,
)
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Clock, MonotonicMs, Scheduler

T = TypeVar("T")
_PAUSE_MS = 50
_PATIENCE_MS = 120_000
"""A restart of the database takes less, and so does the promotion of its standby."""
_TRIES_AT_ONCE = 3
_WAITED_OUT = (LookAtLease, TakeLease, LookAtNodes, FollowMetadata, ReadBlobs, ReadCatalogue, ReadRounds)
"""The statements of a broker that does not lead yet. If one is refused, for example because an operator cancels it,
that is an outage like any other; all others are sent again by their caller, which knows whether they are still wanted.
"""


class RefusedAfterLoss(Refused):
    """It was refused when it was sent again: the first time, whose answer was lost, it may have happened."""


class Fenced(OSError):
    """Another broker has the lease: nothing that this one holds may be acknowledged."""

    def __init__(self) -> None:
        super().__init__("another broker has taken the lease")


class Moved(Fenced):
    """Another broker may have had the lease, in a part of the past that the database no longer has."""

    def __init__(self) -> None:
        OSError.__init__(
            self,
            "the lease had run out when the database was found promoted, restored or copied: another node may have led "
            "meanwhile, and the database has lost it",
        )


class RoundsLost(OSError):
    """The database is older than what this broker has acknowledged."""

    def __init__(self) -> None:
        super().__init__(
            "the database no longer has what was committed in it: it was restored, or a standby was promoted that had "
            "not received everything. Records that were acknowledged are lost"
        )


class RowsGone(OSError):
    """The records of these rows have offsets already, so nothing else can be written in the place of this round."""

    def __init__(self) -> None:
        super().__init__(
            "rows of oncelog_outbox that this broker had taken were deleted by another session: nothing is lost, and "
            "the next start continues"
        )


class Statements:
    def __init__(
        self, tables: Tables, scheduler: Scheduler, clock: Clock, outage_listener: OutageListener | None = None
    ) -> None:
        self._tables = tables
        self._scheduler = scheduler
        self._clock = clock
        self._outage = Outage(clock, outage_listener)
        self.repeat_count = 0
        """The number of statements that were sent again because their answer was lost."""
        self._is_over = False

    def end(self) -> None:
        """Answer nothing from now on: a statement that the driver cancels when it closes the connections says nothing
        about the database."""
        self._is_over = True

    def ask(self, statement: Statement[T]) -> Completion[T]:
        """Send the statement until it is answered. Fails with OSError."""
        answered: Completion[T] = Completion()
        self._send(statement, answered, self._clock.monotonic_ms())
        return answered

    def _send(
        self, statement: Statement[T], answered: Completion[T], since_ms: MonotonicMs, *, was_lost: bool = False
    ) -> None:
        def on_answer(answer: Completion[T]) -> None:
            error = answer.error
            if self._is_over:
                return
            if isinstance(error, Unanswered) or (isinstance(error, Refused) and isinstance(statement, _WAITED_OUT)):
                if self._clock.monotonic_ms() - since_ms < _PATIENCE_MS:
                    self.repeat_count += 1
                    self._outage.on_repeated(answered, since_ms, error)
                    is_lost = was_lost or isinstance(error, Unanswered)
                    again = partial(self._send, statement, answered, since_ms, was_lost=is_lost)
                    self._scheduler.call_later(_PAUSE_MS, again)
                else:
                    self._outage.on_given_up(answered)
                    answered.fail(error)
                return
            self._outage.on_answered(answered)
            if error is None:
                answered.complete(answer.result())
            elif isinstance(error, Refused) and was_lost:
                answered.fail(RefusedAfterLoss(error.strerror or ""))
            elif isinstance(error, RoundsLost):
                self._on_lost(error, answered)
            else:
                answered.fail(error)

        self._tables.run(statement).then(on_answer)

    def once(self, statement: Statement[T]) -> Completion[T]:
        """Send the statement once. Fails with OSError, Unanswered among them."""
        return self._tables.run(statement)

    def ask_now(self, statement: Statement[T]) -> T:
        """`ask`, blocking, with a few tries. Raises OSError."""
        try:
            return self._tried_now(statement)
        except RoundsLost:
            self._forget_now()
            raise

    def _tried_now(self, statement: Statement[T]) -> T:
        for _ in range(_TRIES_AT_ONCE - 1):
            try:
                return self._tables.run_now(statement)
            except Unanswered:
                continue
        return self._tables.run_now(statement)

    def _forget_now(self) -> None:
        """`_on_lost`, blocking; the reason is raised by the caller."""
        with suppress(OSError):
            self._tried_now(ForgetPlace())

    def write(self, statement: Statement[bool]) -> Completion[None]:
        """Completes once the statement is committed. Fails with OSError; with Fenced or RoundsLost if the lease is not
        ours."""
        return self._written(statement).map(lambda _: None)

    def renew(self, statement: RenewLease) -> Completion[str]:
        """Renew the lease, and return where the database is. Fails as `write`."""
        return self._written(statement)

    def _written(self, statement: Statement[T]) -> Completion[T]:
        def on_answer(answer: T) -> Completion[T]:
            if answer:
                return Completion.of(answer)
            return self.ask(LookAtLease()).flat_map(on_seen)

        def on_seen(seen: Lease) -> Completion[T]:
            return self._refused(statement.epoch, seen.epoch)  # type: ignore[attr-defined]

        return self.ask(statement).flat_map(on_answer)

    def check_lease(self, epoch: int) -> Completion[None]:
        """Completes if the lease still has this epoch. Fails with OSError, as `write`."""

        def on_seen(seen: Lease) -> Completion[None]:
            return Completion.of(None) if seen.epoch == epoch else self._refused(epoch, seen.epoch)

        return self.ask(LookAtLease()).flat_map(on_seen)

    def write_now(self, statement: Statement[bool]) -> None:
        """`write`, blocking. Raises OSError."""
        self._written_now(statement)

    def renew_now(self, statement: RenewLease) -> str:
        """`renew`, blocking. Raises OSError."""
        return self._written_now(statement)

    def _written_now(self, statement: Statement[T]) -> T:
        answer = self.ask_now(statement)
        if not answer:
            raise self._refused_now(statement.epoch, self.ask_now(LookAtLease()).epoch)  # type: ignore[attr-defined]
        return answer

    def _refused_now(self, epoch: int, newest_epoch: int) -> OSError:
        reason = _reason(epoch, newest_epoch)
        if isinstance(reason, RoundsLost):
            self._forget_now()
        return reason

    def append(self, row: AppendRound) -> Completion[None]:
        """Completes once the round is in the journal; an earlier try may have added it. Fails with OSError.

        A round that is not found may still be added: a server may execute a statement after its connection was lost. So
        the round is sent again, and looked for only if that try has added nothing. By then its number is taken, or the
        lease is another's, so that no earlier try can be committed any more."""

        def on_answer(is_added: bool) -> Completion[None]:
            if is_added:
                return Completion.of(None)
            return self.ask(FindRound(row.number)).flat_map(on_found)

        def on_found(found: FoundRound) -> Completion[None]:
            if found.epoch == row.epoch:
                return Completion.of(None)
            if _lacks_rows(row, found):
                return Completion.failed(RowsGone())
            return self._refused(row.epoch, found.newest_epoch)

        return self.ask(row).flat_map(on_answer)

    def _refused(self, epoch: int, newest_epoch: int) -> Completion[Any]:
        """Fail with the reason why a broker that had the lease in this epoch can write nothing any more."""
        refused: Completion[Any] = Completion()
        reason = _reason(epoch, newest_epoch)
        if isinstance(reason, RoundsLost):
            self._on_lost(reason, refused)
        else:
            refused.fail(reason)
        return refused

    def _on_lost(self, lost: RoundsLost, answered: Completion[Any]) -> None:
        """Make the next start find the database elsewhere, then fail: a server on a copy of its own files looks as if
        it had never been away."""
        self._tables.run(ForgetPlace()).then(lambda _: answered.fail(lost))

    def append_now(self, row: AppendRound) -> None:
        """`append`, blocking. Raises OSError."""
        if not self.ask_now(row):
            found = self.ask_now(FindRound(row.number))
            if found.epoch != row.epoch:
                raise RowsGone if _lacks_rows(row, found) else self._refused_now(row.epoch, found.newest_epoch)


def _lacks_rows(row: AppendRound, found: FoundRound) -> bool:
    """Whether a round was not added because rows of the outbox are gone: nothing else can be the reason."""
    return bool(row.taken) and found.newest_epoch == row.epoch and found.has_before


def _reason(epoch: int, newest_epoch: int) -> Fenced | RoundsLost:
    return Fenced() if newest_epoch > epoch else RoundsLost()
