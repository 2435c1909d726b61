"""The lease among several nodes in virtual time: reads are never old, and nobody is deposed without a cause."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from oncelog.broker.storage.shared import lease
from oncelog.broker.storage.shared.lease import Free, LeaseKeeper, LeaseTerms, LeaseWatch
from oncelog.broker.storage.shared.tables import Lease
from oncelog.broker.turns.ports import MonotonicMs
from tests.history.auditor import HistoryError, require_at_least
from tests.simulation.lease_world import LeaseWorld
from tests.simulation.pair_world import WatchedDatabase

Plant = Callable[[pytest.MonkeyPatch], None]
LIFE_MS = 20_000


# The later ones are in `make sim` too.
@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in range(20, 420, 100))])
def test_the_lease_is_one_nodes_at_a_time_and_stays_with_one_that_is_well(first: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(first, first + (100 if first else 20)):
        counts.update(LeaseWorld(seed).run(LIFE_MS))
    require_at_least(counts, take_overs=40, led_ms=200_000)


def _count_on_all_of_the_time(patch: pytest.MonkeyPatch) -> None:
    """As if all clocks ran equally fast."""
    patch.setattr(lease, "_COUNTED_SHARE", 1.0)


def _count_an_answer_from_its_arrival(patch: pytest.MonkeyPatch) -> None:
    confirm = LeaseKeeper._confirm
    patch.setattr(LeaseKeeper, "_confirm", lambda self, _: confirm(self, self._clock.monotonic_ms()))


def _count_through_a_renewal(patch: pytest.MonkeyPatch) -> None:
    why_free = LeaseWatch.why_free

    def forgetful(self: LeaseWatch, seen: Lease, asked_at_ms: MonotonicMs, answered_at_ms: MonotonicMs) -> Free | None:
        self._seen = seen
        return why_free(self, seen, asked_at_ms, answered_at_ms)

    patch.setattr(LeaseWatch, "why_free", forgetful)


def _take_what_is_unattended_for_a_moment(patch: pytest.MonkeyPatch) -> None:
    """A leader that must connect again has no time for that."""
    begin = LeaseWatch.__init__
    patch.setattr(LeaseWatch, "__init__", lambda self, terms: begin(self, replace(terms, unattended_ms=60)))


def _wait_for_less_than_an_attempt(patch: pytest.MonkeyPatch) -> None:
    """Owner and others agree on it."""
    begin = LeaseTerms.__init__

    def hasty(self: LeaseTerms, *what: Any, **named: Any) -> None:
        begin(self, *what, **{**named, "unattended_ms": 60})

    patch.setattr(LeaseTerms, "__init__", hasty)


def _take_a_lease_that_was_renewed(patch: pytest.MonkeyPatch) -> None:
    take = WatchedDatabase.take_lease

    def blind(self: WatchedDatabase, random: Random, seen: Lease | None = None) -> int | None:
        return take(self, random, None)

    patch.setattr(WatchedDatabase, "take_lease", blind)


PLANTS: list[Plant] = [
    _count_on_all_of_the_time,
    _count_an_answer_from_its_arrival,
    _count_through_a_renewal,
    _take_what_is_unattended_for_a_moment,
    _wait_for_less_than_an_attempt,
    _take_a_lease_that_was_renewed,
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__.strip("_"))
@pytest.mark.interpreted
def test_a_planted_fault_is_caught_within_two_hundred_seeds(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(HistoryError):
        for seed in range(200):
            LeaseWorld(seed).run(LIFE_MS)
