"""Faults to plant in the lease: the simulation must notice each of them.

Owns: the list. Each is a small change to one function, as a mistake in it would be.
"""

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from oncelog.broker.storage.shared import lease
from oncelog.broker.storage.shared.lease import Free, LeaseKeeper, LeaseTerms, LeaseWatch
from oncelog.broker.storage.shared.tables import LOST_EPOCHS, Lease
from oncelog.broker.turns.ports import MonotonicMs
from tests.fakes.database import Database
from tests.simulation.log_faults import Plant
from tests.simulation.pair_tables import WatchedDatabase


def count_on_all_of_the_time(patch: pytest.MonkeyPatch) -> None:
    """Count on the lease's whole duration, as if all clocks ran equally fast."""
    patch.setattr(lease, "_COUNTED_SHARE", 1.0)


def count_an_answer_from_its_arrival(patch: pytest.MonkeyPatch) -> None:
    confirm = LeaseKeeper._confirm
    patch.setattr(LeaseKeeper, "_confirm", lambda self, _: confirm(self, self._clock.monotonic_ms()))


def count_through_a_renewal(patch: pytest.MonkeyPatch) -> None:
    why_free = LeaseWatch.why_free

    def forgetful(self: LeaseWatch, seen: Lease, asked_at_ms: MonotonicMs, answered_at_ms: MonotonicMs) -> Free | None:
        self._seen = seen
        return why_free(self, seen, asked_at_ms, answered_at_ms)

    patch.setattr(LeaseWatch, "why_free", forgetful)


def take_what_is_unattended_for_a_moment(patch: pytest.MonkeyPatch) -> None:
    """A leader that must connect again has no time for that."""
    begin = LeaseWatch.__init__
    patch.setattr(LeaseWatch, "__init__", lambda self, terms: begin(self, replace(terms, unattended_ms=60)))


def wait_for_less_than_an_attempt(patch: pytest.MonkeyPatch) -> None:
    """Owner and others agree on it."""
    begin = LeaseTerms.__init__

    def hasty(self: LeaseTerms, *what: Any, **named: Any) -> None:
        begin(self, *what, **{**named, "unattended_ms": 60})

    patch.setattr(LeaseTerms, "__init__", hasty)


def take_a_lease_that_was_renewed(patch: pytest.MonkeyPatch) -> None:
    take = WatchedDatabase.take_lease

    def blind(self: WatchedDatabase, random: Random, seen: Lease | None = None, jump: int = LOST_EPOCHS) -> int | None:
        return take(self, random, None, jump)

    patch.setattr(WatchedDatabase, "take_lease", blind)


def renew_wherever_the_database_is(patch: pytest.MonkeyPatch) -> None:
    """One that was deposed in a time that is lost continues, and reissues what the other has given out."""
    patch.setattr(Database, "place", "here")


def move_as_far_after_each_loss(patch: pytest.MonkeyPatch) -> None:
    """The second loss gives the epoch of a leadership that is lost to another one."""
    patch.setattr(lease, "LOST_EPOCHS_SPREAD", 0)


def move_no_further_than_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lease, "epoch_jump", lambda random: 1)


def count_each_loss_as_the_one_before(patch: pytest.MonkeyPatch) -> None:
    """Move the epoch only at the first loss of history."""
    restore = Database.restore

    def silent(self: Database, statements: int) -> int:
        tick = restore(self, statements)
        self.has_jumped = self.restores > 1
        return tick

    patch.setattr(Database, "restore", silent)


PLANTS: list[Plant] = [
    count_on_all_of_the_time,
    count_an_answer_from_its_arrival,
    count_through_a_renewal,
    take_what_is_unattended_for_a_moment,
    wait_for_less_than_an_attempt,
    take_a_lease_that_was_renewed,
    renew_wherever_the_database_is,
    move_as_far_after_each_loss,
    move_no_further_than_ever,
    count_each_loss_as_the_one_before,
]
